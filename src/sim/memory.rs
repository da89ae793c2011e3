//! A plant in memory: each connection is a pipe, and time may stand still.
//!
//! It is for tests that need more requests than a wall clock allows. The answers are made here and not by `tokio-modbus`,
//! whose servers need sockets; the plant and the fault layer are the same.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::PlantOptions;
use super::control::Command;
use super::fault_command;
use super::faults::Counts;
use super::frames::Requests;
use super::plant::Plant;
use super::relay::{self, LinkFaults};
use super::slave::{SharedPlant, Slave};
use crate::registry::{LinkIndex, Registry};

/// More than a frame of either kind, as the buffers of a system are.
const PIPE_BYTES: usize = 4096;

/// A plant in memory. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MemoryPlant {
    plant: Arc<SharedPlant>,
    registry: Arc<Registry>,
    links: Arc<[MemoryLink]>,
}

/// A link in memory. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MemoryLink {
    slave: Slave,
    faults: LinkFaults,
    open: Arc<AtomicU32>,
}

impl MemoryPlant {
    /// A plant of which only the options about values and faults count.
    pub fn new(registry: Arc<Registry>, options: &PlantOptions) -> MemoryPlant {
        let plant = Arc::new(SharedPlant::new(Plant::with_options(registry.clone(), options)));
        // Nothing has to be unplugged in memory, so nobody listens.
        let (away, _) = mpsc::channel(1);
        let links = LinkFaults::of_registry(&plant, &registry, options.fault_seed, &away);
        let of_link = |faults: LinkFaults| MemoryLink {
            slave: Slave::new(plant.clone(), faults.link()),
            faults,
            open: Arc::default(),
        };
        let links = links.into_iter().map(of_link).collect();
        MemoryPlant { plant, registry, links }
    }

    /// One link.
    pub fn link(&self, link: LinkIndex) -> MemoryLink {
        self.links[link.place()].clone()
    }

    /// How long the plant has been running.
    pub fn elapsed(&self) -> Duration {
        self.plant.elapsed()
    }

    /// Parses and carries out one command about devices, sensors and faults. What was done, or why not.
    pub fn command_line(&self, line: &str) -> Result<String, String> {
        match Command::parse(line)? {
            Command::Fault(command) => {
                let faults: Vec<&LinkFaults> = self.links.iter().map(|link| &link.faults).collect();
                fault_command::apply(&command, &self.registry, &faults)
            }
            command => {
                let at = self.elapsed();
                self.plant.lock().apply(&command, at)
            }
        }
    }
}

impl MemoryLink {
    /// Makes a connection, or refuses it. It needs a runtime, in which the other end is served.
    pub fn connect(&self) -> Option<DuplexStream> {
        if !self.faults.admits(self.open.load(Ordering::Relaxed)) {
            return None;
        }
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        let (slave, faults, open) = (self.slave.clone(), self.faults.clone(), self.open.clone());
        open.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            let requests = Requests::new(faults.framing());
            tokio::select! {
                // Either end closed: a connection that is over needs no reason.
                _ = relay::carry(ours, near, faults, CancellationToken::new()) => {}
                _ = answer(far, slave, requests) => {}
            }
            open.fetch_sub(1, Ordering::Relaxed);
        });
        Some(theirs)
    }

    /// What has happened on the link.
    pub fn counts(&self) -> Counts {
        self.faults.injector().counts()
    }
}

/// Answers one request after the other, as a real server does.
async fn answer(mut stream: DuplexStream, slave: Slave, mut requests: Requests) -> io::Result<()> {
    let mut buffer = [0_u8; 512];
    loop {
        let length = stream.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        for request in requests.receive(&buffer[..length]) {
            let answer = slave.clone().answer(request.unit(), request.asked()).await;
            if let Some(frame) = request.respond(&answer) {
                stream.write_all(&frame).await?;
            }
        }
    }
}
