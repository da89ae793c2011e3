//! How everyone else asks a link.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};

use crate::registry::{Registry, SensorIndex};

/// Asks the links for fresh reads. Cheap to clone.
#[derive(Clone, Debug)]
pub struct FieldHandle {
    registry: Arc<Registry>,
    links: Arc<[mpsc::Sender<FreshRead>]>,
}

/// A wish that a sensor be read before its turn. The result is on the board when `done` is answered.
#[derive(Debug)]
pub struct FreshRead {
    /// Which sensor.
    pub sensor: SensorIndex,
    /// After this moment nobody waits any more.
    pub deadline: Instant,
    /// Answered when the sensor's state on the board is newer than the wish; dropped when it will not be.
    pub done: oneshot::Sender<()>,
}

/// Why a fresh read did not come about. What the board says is still true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefreshError {
    /// Too many wishes wait at the link already.
    #[error("the link has too many calls waiting")]
    Full,
    /// The deadline passed first. Reading changes nothing, so nothing was changed.
    #[error("the deadline passed before the device answered")]
    Deadline,
    /// The gateway is stopping.
    #[error("the gateway is stopping")]
    Stopping,
}

impl FieldHandle {
    /// A handle on links in the order of the registry.
    pub fn new(registry: Arc<Registry>, links: Vec<mpsc::Sender<FreshRead>>) -> FieldHandle {
        FieldHandle { registry, links: links.into() }
    }

    /// Has one sensor read now, and returns when the board knows the result, good or bad.
    ///
    /// A full queue refuses at once, because waiting for a place would eat the deadline unseen.
    pub async fn refresh(&self, sensor: SensorIndex, deadline: Instant) -> Result<(), RefreshError> {
        let (done, answered) = oneshot::channel();
        let device = self.registry.sensor(sensor).device;
        let link = &self.links[self.registry.device(device).link.place()];
        link.try_send(FreshRead { sensor, deadline, done }).map_err(|err| match err {
            mpsc::error::TrySendError::Full(_) => RefreshError::Full,
            mpsc::error::TrySendError::Closed(_) => RefreshError::Stopping,
        })?;
        match tokio::time::timeout_at(deadline.into(), answered).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(RefreshError::Stopping),
            Err(_) => Err(RefreshError::Deadline),
        }
    }
}
