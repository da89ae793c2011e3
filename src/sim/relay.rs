//! Carries bytes between a connection and the server behind it, through the fault layer.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::faults::Injector;
use super::frames::Framing;
use super::outbox::Outgoing;
use super::slave::SharedPlant;
use super::wire::Wire;
use crate::registry::sensor::Endpoint;
use crate::registry::{Link, LinkIndex, Registry};

/// A link's dice, shared by its connections, and the way to make its line go away.
#[derive(Clone, Debug)]
pub(super) struct LinkFaults {
    framing: Framing,
    plant: Arc<SharedPlant>,
    link: LinkIndex,
    injector: Arc<Mutex<Injector>>,
    away: mpsc::Sender<(LinkIndex, Duration)>,
}

impl LinkFaults {
    /// The links of a plant without faults, in the order of the registry. Each has dice of its own, so that what happens on
    /// one does not depend on how busy another is.
    ///
    /// `away` is told when a line goes away, so that its link can be unplugged; when it is full others are being unplugged,
    /// and only the connection ends.
    pub(super) fn of_registry(
        plant: &Arc<SharedPlant>,
        registry: &Registry,
        seed: u64,
        away: &mpsc::Sender<(LinkIndex, Duration)>,
    ) -> Vec<LinkFaults> {
        let of_link = |(link, described): (LinkIndex, &Link)| {
            let framing = match described.endpoint {
                Endpoint::Tcp { .. } => Framing::Tcp,
                Endpoint::Serial(_) | Endpoint::RtuOverTcp { .. } => Framing::Rtu,
            };
            let seed = seed.wrapping_add(link.place() as u64);
            let injector = Arc::new(Mutex::new(Injector::new(framing, described.timeout, seed)));
            LinkFaults { framing, plant: plant.clone(), link, injector, away: away.clone() }
        };
        registry.links().map(of_link).collect()
    }

    /// How frames are made on the link.
    pub(super) fn framing(&self) -> Framing {
        self.framing
    }

    /// Which link it is.
    pub(super) fn link(&self) -> LinkIndex {
        self.link
    }

    /// The dice. The lock is held for one decision or one command, and never across a wait.
    pub(super) fn injector(&self) -> MutexGuard<'_, Injector> {
        self.injector.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the plant has been running.
    pub(super) fn now(&self) -> Duration {
        self.plant.elapsed()
    }

    /// Whether one more connection is taken beside those that are open.
    pub(super) fn admits(&self, open: u32) -> bool {
        let now = self.now();
        self.injector().admits(open, now)
    }

    /// Takes what came from the client. Whether the server may have it.
    pub(super) fn asked(&self, wire: &mut Wire, bytes: &[u8]) -> bool {
        wire.asked(bytes, &mut self.injector())
    }

    /// Takes what came from the server. `false` when the line goes away by it.
    pub(super) fn answered(&self, wire: &mut Wire, bytes: &[u8]) -> bool {
        let now = self.now();
        let away = wire.answered(bytes, &mut self.injector(), now);
        if let Some(pause) = away {
            let _ = self.away.try_send((self.link, pause));
        }
        away.is_none()
    }

    /// Waits until the wire has something to do; for ever, if it has nothing.
    pub(super) async fn due(&self, wire: &Wire) {
        match wire.next_due() {
            Some(due) => tokio::time::sleep_until(Instant::now() + due.saturating_sub(self.now())).await,
            None => std::future::pending().await,
        }
    }
}

/// Carries bytes both ways until either side closes, the faults close the connection, or `gone` is cancelled.
pub(super) async fn carry<C, S>(
    mut client: C,
    mut server: S,
    faults: LinkFaults,
    gone: CancellationToken,
) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite + Unpin,
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut wire = Wire::new(faults.framing);
    let (mut from_client, mut from_server) = ([0_u8; 512], [0_u8; 512]);
    loop {
        tokio::select! {
            biased;
            () = gone.cancelled() => return Ok(()),
            () = faults.due(&wire) => {}
            read = server.read(&mut from_server) => match read? {
                0 => return Ok(()),
                length => if !faults.answered(&mut wire, &from_server[..length]) {
                    return Ok(());
                },
            },
            read = client.read(&mut from_client) => match read? {
                0 => return Ok(()),
                length => {
                    let bytes = &from_client[..length];
                    if faults.asked(&mut wire, bytes) {
                        server.write_all(bytes).await?;
                    }
                }
            },
        }
        while let Some(outgoing) = wire.take(faults.now()) {
            match outgoing {
                Outgoing::Bytes(bytes) => client.write_all(&bytes).await?,
                Outgoing::Close => return Ok(()),
                Outgoing::Deafen => {}
            }
        }
    }
}
