//! What the gateway knows of itself: since when it runs, under which boot id, and whether the broker is there.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock;
use crate::registry::reading::Stamp;

/// Facts that many parts read; the session alone writes them.
#[derive(Debug)]
pub struct Facts {
    /// A new text at each start, so that a reader can tell a restart.
    pub boot_id: String,
    /// When the daemon started.
    pub started: Stamp,
    broker: Mutex<BrokerState>,
    dropped_requests: AtomicU64,
}

/// Whether the broker is there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BrokerState {
    /// Whether the session is up.
    pub connected: bool,
    /// Since when it has been so; `None` before the first try ended.
    pub since: Option<Stamp>,
    /// Why it is down, in words.
    pub last_error: Option<String>,
}

impl Facts {
    /// Facts of a daemon that starts now.
    pub fn new() -> Facts {
        let boot_id = format!("{:016x}", rand::random::<u64>());
        Facts { boot_id, started: clock::now(), broker: Mutex::default(), dropped_requests: AtomicU64::new(0) }
    }

    /// The version of this program.
    pub fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// Whether the broker is there.
    pub fn broker(&self) -> BrokerState {
        self.broker.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Notes that the session came up, or went down with a reason.
    pub fn set_broker(&self, connected: bool, last_error: Option<String>) {
        let mut broker = self.broker.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if broker.connected != connected || broker.since.is_none() {
            broker.since = Some(clock::now());
        }
        broker.connected = connected;
        broker.last_error = last_error;
    }

    /// How many requests were dropped on arrival since the start, because too many waited. Only those sent with QoS 0 are.
    pub fn dropped_requests(&self) -> u64 {
        self.dropped_requests.load(Ordering::Relaxed)
    }

    /// Counts a request that was dropped on arrival.
    pub fn count_dropped_request(&self) {
        self.dropped_requests.fetch_add(1, Ordering::Relaxed);
    }
}

impl Default for Facts {
    fn default() -> Facts {
        Facts::new()
    }
}
