//! The configuration: from a TOML file to types that cannot be wrong (contract, section 1).
//!
//! [`Config::parse`] reports every fault of a file at once. What it returns is what the daemon may rely on.
//!
//! `syntax` looks at the text, `reader` walks its tables, `field` takes values as types, one module per table gives them
//! their sense, and `fault` says where something is wrong. Keys, defaults and bounds are described in
//! `docs/configuration.md`; a test compares.

mod devices;
pub mod fault;
mod field;
pub mod id_format;
mod keys;
mod limits;
mod links;
mod names;
mod parse;
mod place;
mod read_spec;
mod reader;
pub(crate) mod reference;
mod sections;
mod syntax;
#[cfg(test)]
mod tests;
pub(crate) mod values;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use fault::{Fault, Faults, Severity};
pub use id_format::IdFormat;
pub use parse::{LoadError, Parsed};

use crate::ids::GatewayId;
use crate::registry::Registry;

/// What one file says of one gateway.
#[derive(Clone, Debug)]
pub struct Config {
    /// The gateway's name.
    pub gateway: GatewayId,
    /// Where readings and answers go.
    pub broker: BrokerConfig,
    /// How readings are published.
    pub publish: PublishConfig,
    /// How calls are served.
    pub calls: CallsConfig,
    /// Where Prometheus may read the metrics; a loopback address. Nowhere unless it is set.
    pub metrics: Option<SocketAddr>,
    /// The links, devices and sensors.
    pub registry: Arc<Registry>,
}

/// The broker, and how to reach it.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokerConfig {
    /// Its address.
    pub endpoint: BrokerEndpoint,
    /// The user name, if the broker wants one.
    pub username: Option<String>,
    /// The password that goes with it.
    pub password: Option<Secret>,
    /// A file of certificates that the broker's is checked against; the system's where none is given.
    pub ca_file: Option<PathBuf>,
    /// The longest silence before either side asks whether the other is there.
    pub keep_alive: Duration,
}

/// A text that is never printed.
#[derive(Clone, PartialEq)]
pub struct Secret(String);

impl Secret {
    /// Keeps a text from being printed.
    pub fn new(text: String) -> Secret {
        Secret(text)
    }

    /// The text itself, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(secret)")
    }
}

/// Which broker.
#[derive(Clone, Debug, PartialEq)]
pub enum BrokerEndpoint {
    /// A broker somewhere else: `mqtt://host:port`, or `mqtts://host:port` with TLS.
    Remote {
        /// A name or an address.
        host: String,
        /// 1883, or 8883 with TLS, unless the URL says otherwise.
        port: u16,
        /// Whether the connection is encrypted.
        tls: bool,
    },
    /// The broker inside the daemon: `embedded://127.0.0.1:1883`. Port 0 takes a free one.
    Embedded {
        /// The address to listen on; a loopback address.
        listen: SocketAddr,
    },
}

/// How readings are published.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishConfig {
    /// The quality of service of readings: 0 or 1.
    pub qos: u8,
    /// A reading that has not changed is published again after this long.
    pub at_least_every: Duration,
    /// The gateway's status is renewed this often.
    pub status_every: Duration,
    /// What one message holds.
    pub grouping: Grouping,
}

/// What one message of readings holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// One reading, on a topic of its own.
    #[default]
    Sensor,
    /// All readings of a device.
    Device,
}

/// How calls are served.
#[derive(Clone, Debug, PartialEq)]
pub struct CallsConfig {
    /// The deadline of a call that names none.
    pub default_deadline: Duration,
    /// The longest deadline that a call may ask for; a longer wish is cut to it.
    pub max_deadline: Duration,
    /// Calls that may run or wait at once, over all callers; one more is answered `RATE_LIMITED`.
    pub max_in_flight: usize,
}
