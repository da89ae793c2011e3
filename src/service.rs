//! The few datagrams that systemd expects of a service with `Type=notify` (`sd_notify(3)`).
//!
//! Without `NOTIFY_SOCKET` in the environment every call does nothing, so that a terminal needs no other code.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The socket of the service manager, if there is one.
#[derive(Debug, Default)]
pub struct Notifier {
    socket: Option<(UnixDatagram, SocketAddr)>,
}

impl Notifier {
    /// The service manager of this process, if it has one.
    pub fn from_environment() -> Notifier {
        let address = std::env::var("NOTIFY_SOCKET").ok().and_then(|path| match path.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name).ok(),
            None => SocketAddr::from_pathname(path).ok(),
        });
        Notifier { socket: address.and_then(|address| Some((UnixDatagram::unbound().ok()?, address))) }
    }

    /// The configuration is valid, and the links and the session are running.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// The service stops on purpose.
    pub fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=stopping");
    }

    /// The service makes progress.
    pub fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// How it goes, for `systemctl status`.
    pub fn status(&self, status: &str) {
        self.send(&format!("STATUS={status}"));
    }

    fn send(&self, text: &str) {
        if let Some((socket, address)) = &self.socket {
            // A manager that does not listen is no reason to stop reading the plant.
            let _ = socket.send_to_addr(text.as_bytes(), address);
        }
    }
}

/// How often the watchdog wants to hear of us: half of what the unit says, and `None` where it says nothing.
pub fn watchdog_interval() -> Option<Duration> {
    let micros: u64 = std::env::var("WATCHDOG_USEC").ok()?.parse().ok()?;
    (micros > 0).then(|| Duration::from_micros(micros / 2))
}
