//! What the gateway needs of memory: a function of its configuration, and how what the start took goes back to the system.

use crate::config::{BrokerEndpoint, Config};
use crate::gate::jsonrpc::MAX_REQUEST_BYTES;
use crate::gate::{duplicates, session};

/// Memory beside the program's own text, in bytes. Measured on 64-bit Linux with glibc; less where pointers are shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// With every sensor read and published, and a few callers.
    pub at_work: usize,
    /// With every queue and store full besides, as under callers that mean no good.
    pub at_most: usize,
}

/// Runtime, client, tools, logging.
const BASE: usize = 1_750_000;

/// A link's task, its line and its connection's buffers, and a device's health and counters.
const PER_LINK: usize = 5_000;
const PER_DEVICE: usize = 3_000;

/// A sensor: what the configuration says of it, its state, its last good value, its place in the plan.
const PER_SENSOR: usize = 1_150;

/// A retained reading in the embedded broker.
const PER_RETAINED: usize = 2_300;

impl Need {
    /// What a gateway of this configuration needs.
    pub fn of(config: &Config) -> Need {
        let registry = &config.registry;
        let retained = match config.broker.endpoint {
            BrokerEndpoint::Embedded { .. } => registry.sensors().len() * PER_RETAINED,
            BrokerEndpoint::Remote { .. } => 0,
        };
        let at_work = BASE
            + registry.links().len() * PER_LINK
            + registry.devices().len() * PER_DEVICE
            + registry.sensors().len() * PER_SENSOR
            + retained;
        // A call holds its request and its answer.
        let calls = config.calls.max_in_flight * 2 * MAX_REQUEST_BYTES;
        Need { at_work, at_most: at_work + session::REQUEST_BYTES + duplicates::BYTES + calls }
    }
}

/// Gives freed memory back to the system, where the C library can: a few microseconds' work.
///
/// Reading a configuration of a thousand sensors takes a few megabytes for a moment. The C library keeps what is freed for
/// later, and a gateway that has sixty-four megabytes has no later in which it would be wanted.
#[allow(unsafe_code)]
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: `malloc_trim` takes no pointer and may be called at any time, from any thread; it touches free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}
