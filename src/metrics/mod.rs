//! What the gateway counts of its work on the plant: for each link and each device.
//!
//! Links write, tools and the Prometheus endpoint ([`exporter`], [`endpoint`]) read. Counters begin at zero with the daemon;
//! latencies and the load of a link are of the last while, because what was an hour ago explains nothing now.

pub mod endpoint;
pub mod exporter;
mod latency;
mod load;

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::registry::{DeviceIndex, LinkIndex, Registry};

pub use latency::Latencies;
pub use load::Load;

/// How a request ended. A closed set; its place is that in [`DeviceMeter::answers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The device gave what was asked for.
    Data,
    /// Exceptions 1 to 3: the request does not suit the device.
    Refused,
    /// Exceptions 5 and 6.
    Busy,
    /// Exceptions 10 and 11: a gateway on the way has not reached the device.
    Gateway,
    /// Exception 4, or one that the standard does not know.
    Failed,
    /// Nothing came in time.
    Silent,
    /// Bytes came, but no whole answer.
    Damaged,
    /// The other side closed the connection.
    Closed,
}

impl Outcome {
    /// All of them, in the order of their places.
    pub const ALL: [Outcome; 8] = [
        Outcome::Data,
        Outcome::Refused,
        Outcome::Busy,
        Outcome::Gateway,
        Outcome::Failed,
        Outcome::Silent,
        Outcome::Damaged,
        Outcome::Closed,
    ];

    /// The name that tools and metrics show.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Data => "data",
            Outcome::Refused => "refused",
            Outcome::Busy => "busy",
            Outcome::Gateway => "gateway",
            Outcome::Failed => "failed",
            Outcome::Silent => "silent",
            Outcome::Damaged => "damaged",
            Outcome::Closed => "closed",
        }
    }

    /// Whether the device itself answered.
    pub fn is_answer(self) -> bool {
        matches!(self, Outcome::Data | Outcome::Refused | Outcome::Busy | Outcome::Failed)
    }
}

/// One request and what became of it.
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    /// How it ended.
    pub outcome: Outcome,
    /// Whether the same had been asked for before, without success.
    pub is_repeat: bool,
    /// Bytes of the request.
    pub sent: u32,
    /// Bytes that came, useful or not.
    pub received: u32,
    /// From the first byte of the request to the last of the answer, or to the end of the patience.
    pub took: Duration,
    /// How long the line was busy with it: also with pauses before it and silence after it.
    pub busy: Duration,
    /// When it was over.
    pub ended: Instant,
}

/// What was counted of one link.
#[derive(Clone, Debug)]
pub struct LinkMeter {
    /// Connections that were opened, or serial ports.
    pub connections: u64,
    /// Attempts at it that failed.
    pub connect_failures: u64,
    /// The share of time in which the line was busy.
    pub load: Load,
}

/// What was counted of one device.
#[derive(Clone, Debug, Default)]
pub struct DeviceMeter {
    /// Requests that were sent, by how they ended; see [`Outcome`] for the places.
    pub answers: [u64; Outcome::ALL.len()],
    /// Those among them that repeated one.
    pub retries: u64,
    /// Bytes of requests.
    pub sent: u64,
    /// Bytes of answers, and of what was none.
    pub received: u64,
    /// How long the device took to answer.
    pub latencies: Latencies,
}

impl DeviceMeter {
    /// Requests that were sent.
    pub fn requests(&self) -> u64 {
        self.answers.iter().sum()
    }

    /// Requests that got no data.
    pub fn failures(&self) -> u64 {
        self.requests() - self.answers[Outcome::Data as usize]
    }

    fn count(&mut self, exchange: &Exchange) {
        self.answers[exchange.outcome as usize] += 1;
        self.retries += u64::from(exchange.is_repeat);
        self.sent += u64::from(exchange.sent);
        self.received += u64::from(exchange.received);
        if exchange.outcome.is_answer() {
            self.latencies.add(exchange.took);
        }
    }
}

/// The meters of all links and devices: one lock each, held for one addition or one copy.
#[derive(Debug)]
pub struct Meters {
    links: Box<[Mutex<LinkMeter>]>,
    devices: Box<[Mutex<DeviceMeter>]>,
}

impl Meters {
    /// Meters at zero.
    pub fn new(registry: &Registry, now: Instant) -> Meters {
        let link = || LinkMeter { connections: 0, connect_failures: 0, load: Load::since(now) };
        Meters {
            links: registry.links().map(|_| Mutex::new(link())).collect(),
            devices: registry.devices().map(|_| Mutex::default()).collect(),
        }
    }

    /// Counts a request and its answer, or none.
    pub fn exchanged(&self, link: LinkIndex, device: DeviceIndex, exchange: &Exchange) {
        lock(&self.devices[device.place()]).count(exchange);
        lock(&self.links[link.place()]).load.add(exchange.busy, exchange.ended);
    }

    /// Counts a try at a connection.
    pub fn connected(&self, link: LinkIndex, is_open: bool) {
        let mut meter = lock(&self.links[link.place()]);
        match is_open {
            true => meter.connections += 1,
            false => meter.connect_failures += 1,
        }
    }

    /// What was counted of a link so far.
    pub fn link(&self, link: LinkIndex) -> LinkMeter {
        lock(&self.links[link.place()]).clone()
    }

    /// What was counted of a device so far.
    pub fn device(&self, device: DeviceIndex) -> DeviceMeter {
        lock(&self.devices[device.place()]).clone()
    }
}

fn lock<T>(meter: &Mutex<T>) -> MutexGuard<'_, T> {
    meter.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
