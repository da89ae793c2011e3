//! What a link's task knows of one device. Pure.

use std::time::Duration;

use super::learnt::Learnt;
use crate::modbus::pdu::ReadRequest;
use crate::policy::backoff::Rest;
use crate::policy::breaker::Breaker;
use crate::registry::heartbeat::HeartbeatWatch;
use crate::registry::reading::OfflineCause;
use crate::registry::{Device, SensorIndex};

/// A gateway that has no path to a unit is a matter of configuration, which does not change within a second.
const NO_PATH_REST: Duration = Duration::from_secs(5);

/// After so many pairs of a long read in silence and a shorter one with an answer, silence is taken for a limit.
const PAIRS_TO_BELIEVE: u32 = 2;

/// What the task knows of a device of its link.
#[derive(Debug, Default)]
pub struct Health {
    /// Whether it is asked.
    pub breaker: Breaker,
    /// Whether it has answered since the start.
    pub answered: bool,
    /// Why it is offline, if it is.
    pub cause: Option<OfflineCause>,
    /// Sensors whose last read gave no value though the device answered.
    pub without_value: Vec<SensorIndex>,
    /// What it has revealed.
    pub learnt: Learnt,
    /// Whether it is silent on long reads alone.
    pub long_reads: LongReads,
    /// Whether it is to be asked what it is.
    pub wants_identity: bool,
    /// The watch over its heartbeat, if it has one.
    pub heartbeat: Option<HeartbeatWatch>,
}

impl Health {
    /// What is known at the start.
    pub fn of(device: &Device) -> Health {
        Health {
            heartbeat: device.heartbeat.map(HeartbeatWatch::new),
            wants_identity: device.identify,
            ..Health::default()
        }
    }

    /// Whether it answers.
    pub fn is_alive(&self) -> bool {
        self.answered && self.breaker.is_closed()
    }
}

/// How long a device rests that failed for this cause, after a futile try that cost the line `rest.cost`.
pub fn rest_after(cause: OfflineCause, rest: Rest, jitter: f64) -> Duration {
    let least = match cause {
        OfflineCause::NoPathBehindGateway => NO_PATH_REST.min(rest.longest),
        _ => Duration::ZERO,
    };
    rest.duration(jitter).max(least)
}

/// Finds out that a device is silent on long reads and answers short ones.
///
/// A device that goes and comes looks alike for a moment; but then a long read is answered in between, which ends the suspicion.
#[derive(Debug, Default)]
pub struct LongReads {
    silent: Option<Suspicion>,
}

#[derive(Clone, Copy, Debug)]
struct Suspicion {
    of_bits: bool,
    count: u16,
    pairs: u32,
    is_open: bool,
}

impl LongReads {
    /// A read got no answer.
    pub fn was_silent(&mut self, request: ReadRequest) {
        let of_bits = request.table().is_bits();
        match &mut self.silent {
            Some(known) if known.of_bits == of_bits && known.count <= request.count() && known.count > 1 => {
                known.is_open = true;
            }
            _ => self.silent = Some(Suspicion { of_bits, count: request.count(), pairs: 0, is_open: true }),
        }
    }

    /// A read was answered: how many the device gives at once, if that can be concluded now.
    pub fn was_answered(&mut self, request: ReadRequest) -> Option<u16> {
        let known = self.silent.as_mut().filter(|known| known.of_bits == request.table().is_bits())?;
        if request.count() >= known.count {
            self.silent = None;
            return None;
        }
        known.pairs += u32::from(std::mem::take(&mut known.is_open));
        if known.pairs < PAIRS_TO_BELIEVE {
            return None;
        }
        let limit = request.count().max(known.count / 2);
        self.silent = None;
        Some(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modbus::Table;

    fn read(count: u16) -> ReadRequest {
        ReadRequest::new(Table::Holding, 0, count).expect("a valid read")
    }

    #[test]
    fn case_c34_silence_on_long_reads_alone_is_a_limit() {
        let mut long = LongReads::default();
        long.was_silent(read(100));
        assert_eq!(long.was_answered(read(1)), None);
        assert_eq!(long.was_answered(read(1)), None, "only one long read was silent so far");
        long.was_silent(read(100));
        assert_eq!(long.was_answered(read(1)), Some(50));
    }

    #[test]
    fn a_device_that_comes_and_goes_reveals_no_limit() {
        let mut long = LongReads::default();
        for _ in 0..10 {
            long.was_silent(read(100));
            long.was_silent(read(1));
            assert_eq!(long.was_answered(read(1)), None);
            assert_eq!(long.was_answered(read(100)), None);
        }
    }

    #[test]
    fn a_gateway_without_a_path_is_asked_less_often_than_a_silent_unit() {
        let rest = Rest { failures: 1, cost: Duration::ZERO, others_alive: false, longest: Duration::from_secs(30) };
        assert_eq!(rest_after(OfflineCause::UnitSilentBehindGateway, rest, 0.0), Duration::from_millis(500));
        assert_eq!(rest_after(OfflineCause::NoPathBehindGateway, rest, 0.0), NO_PATH_REST);
    }
}
