//! The simulated plant: a Modbus server that takes the configuration of a gateway and answers for its devices.
//!
//! It is for our tests, for the demo, and for people who build agents without a plant at hand. It runs in a process of its
//! own (`fieldgate sim FILE`) or inside a test ([`Plant::start`]). [`signal`] decides how values move, [`plant`] what a
//! device answers, [`control`] what can be done to it while it runs: these are pure. `slave` and `line` carry the answers
//! over TCP and over pseudo-terminals with `tokio-modbus`, an implementation that is not ours. [`moved`] writes the
//! configuration with which a gateway finds the plant.
//!
//! Between these servers and the wire stands the fault layer: [`faults`] decides what becomes of an answer, by chance and
//! seed, and `wire` and `relay` carry it out, for [`memory`] too, where time may stand still. [`script`] is a course of
//! commands in a file. [`identity`] makes values that say whose they are and of when, so that a referee sees each wrong one.
//!
//! Absent on purpose: writes, and the bit rate of a line.

pub mod control;
pub mod fault_command;
pub mod faults;
pub mod frames;
pub mod identity;
pub mod memory;
pub mod moved;
pub mod outbox;
pub mod pin;
pub mod plant;
pub mod script;
pub mod signal;
pub mod wire;

mod line;
mod relay;
mod running;
#[cfg(test)]
pub(crate) mod sample;
mod slave;
#[cfg(test)]
mod tests;

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

pub use control::Command;
pub use plant::Plant;
pub use running::RunningPlant;

use crate::ids::LinkId;
use crate::registry::Registry;

/// Where the plant's links are served, and how.
#[derive(Clone, Debug, Default)]
pub struct PlantOptions {
    /// All TCP links listen on this address, and not on their configured hosts.
    pub bind: Option<IpAddr>,
    /// TCP links listen on this port and the ones after it, in the order of the configuration, and not on their configured
    /// ports; 0 takes free ones. Without `bind` they listen on 127.0.0.1.
    pub port_base: Option<u16>,
    /// Serial ports are named after their links in this folder, and not as configured.
    pub serial_dir: Option<PathBuf>,
    /// Registers between sensors do not exist, instead of answering 0.
    pub strict_gaps: bool,
    /// Plants of one seed have the same values at the same time after the start.
    pub seed: u64,
    /// The seed of the faults by chance.
    pub fault_seed: u64,
    /// Values say whose they are and of when, and do not look like measurements.
    pub self_identifying: bool,
}

/// Where a link of the plant is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedLink {
    /// The link.
    pub link: LinkId,
    /// Where it is.
    pub place: Place,
    /// The unit ids of its devices, in the order of the configuration.
    pub units: Vec<u8>,
}

/// The address of a served link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// `host:port`, as a configuration has it; an IPv6 address stands in brackets.
    Tcp(String),
    /// The name of a serial port.
    Serial(PathBuf),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Tcp(address) => f.write_str(address),
            Place::Serial(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Why the plant does not run.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// Every link needs a place of its own.
    #[error("{link} cannot listen on {address}; --bind 127.0.0.1 and --port-base 15020 move all links to free places")]
    Listen {
        /// The link.
        link: LinkId,
        /// Where it should listen.
        address: String,
        /// What the system said.
        #[source]
        err: io::Error,
    },
    /// The ports after the base do not suffice.
    #[error("{link} would need a port beyond 65535; give a smaller --port-base")]
    PortsExhausted {
        /// The first link without a port.
        link: LinkId,
    },
    /// The pseudo-terminal or its name could not be made.
    #[error("{link} cannot have its serial port at {}; --serial-dir DIR makes it there instead", path.display())]
    SerialPort {
        /// The link.
        link: LinkId,
        /// The name that it should have.
        path: PathBuf,
        /// What the system said.
        #[source]
        err: io::Error,
    },
    /// The control socket could not be made or reached.
    #[error("the control socket {} does not work", path.display())]
    Control {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        #[source]
        err: io::Error,
    },
    /// Another plant listens there.
    #[error("a plant listens on the control socket {} already; give another --control", path.display())]
    ControlTaken {
        /// Its path.
        path: PathBuf,
    },
    /// The moved configuration could not be made.
    #[error("the configuration cannot be moved")]
    Move(#[from] moved::MoveError),
    /// The moved configuration could not be written.
    #[error("{} cannot be written", path.display())]
    WriteConfig {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        #[source]
        err: io::Error,
    },
    /// Nobody reads what the plant says.
    #[error("the output cannot be written")]
    Output(#[source] io::Error),
    /// Without signals the plant could not be ended.
    #[error("the signals of the system cannot be awaited")]
    Signals(#[source] io::Error),
}

impl Plant {
    /// Serves a plant for all links of a registry. It ends when the last clone of the result is dropped.
    pub async fn start(registry: Arc<Registry>, options: PlantOptions) -> Result<RunningPlant, SimError> {
        RunningPlant::start(registry, options).await
    }
}
