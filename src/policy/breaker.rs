//! Whether a device is asked: a breaker per device, so that an absent one costs its neighbours next to nothing. Pure.
//!
//! Closed, every request goes through. One request that failed with all of its attempts opens it until a known moment; then
//! one probe goes through, and its outcome closes it or opens it again, for longer. How long is [`super::backoff`]'s matter.

use std::time::{Duration, Instant};

/// The state of one device's breaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Breaker {
    /// The device answers, or has not been asked yet.
    #[default]
    Closed,
    /// It is left alone until then.
    Open {
        /// The end of its rest.
        until: Instant,
        /// Requests in a row that failed, 1 or more.
        failures: u32,
    },
    /// One request is under way to see whether it is back.
    Probing {
        /// Requests in a row that failed before.
        failures: u32,
    },
}

/// What the breaker says to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may go, and be repeated.
    Pass,
    /// It may go, once.
    Probe,
    /// It may not go before so long.
    Wait(Duration),
}

impl Breaker {
    /// Whether a request may go now. One that may is a probe if the breaker was open.
    pub fn admit(&mut self, now: Instant) -> Admission {
        match *self {
            Breaker::Closed => Admission::Pass,
            Breaker::Open { until, .. } if until > now => Admission::Wait(until - now),
            Breaker::Open { failures, .. } | Breaker::Probing { failures } => {
                *self = Breaker::Probing { failures };
                Admission::Probe
            }
        }
    }

    /// The device answered. Whether it had been away.
    pub fn succeeded(&mut self) -> bool {
        std::mem::take(self) != Breaker::Closed
    }

    /// The device did not answer, and rests as long as `rest` says for so many failures in a row. When the rest ends.
    pub fn failed(&mut self, now: Instant, rest: impl FnOnce(u32) -> Duration) -> Instant {
        let failures = match *self {
            Breaker::Closed => 1,
            Breaker::Open { failures, .. } | Breaker::Probing { failures } => failures.saturating_add(1),
        };
        let until = now + rest(failures);
        *self = Breaker::Open { until, failures };
        until
    }

    /// The device need not rest any longer: the next request is a probe.
    pub fn cut_short(&mut self, now: Instant) {
        if let Breaker::Open { until, .. } = self {
            *until = now.min(*until);
        }
    }

    /// Whether the device counts as there.
    pub fn is_closed(&self) -> bool {
        *self == Breaker::Closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_resting_device_tells_how_long_to_wait_and_then_gets_one_probe() {
        let start = Instant::now();
        let mut breaker = Breaker::default();
        assert_eq!(breaker.admit(start), Admission::Pass);
        assert_eq!(breaker.failed(start, |failures| SECOND * failures), start + SECOND);
        assert_eq!(breaker.admit(start + SECOND / 4), Admission::Wait(SECOND * 3 / 4));
        assert_eq!(breaker.admit(start + SECOND), Admission::Probe);
        assert_eq!(breaker, Breaker::Probing { failures: 1 });
    }

    #[test]
    fn a_failed_probe_opens_it_for_longer_and_an_answer_closes_it() {
        let start = Instant::now();
        let mut breaker = Breaker::default();
        breaker.failed(start, |failures| SECOND * failures);
        breaker.admit(start + SECOND);
        assert_eq!(breaker.failed(start + SECOND, |failures| SECOND * failures), start + SECOND * 3);
        assert!(breaker.succeeded());
        assert_eq!(breaker.admit(start + SECOND), Admission::Pass);
        assert!(!breaker.succeeded(), "it was not away");
    }

    #[test]
    fn a_rest_that_is_cut_short_still_ends_in_a_single_probe() {
        let start = Instant::now();
        let mut breaker = Breaker::default();
        breaker.failed(start, |_| SECOND * 30);
        breaker.cut_short(start + SECOND);
        assert_eq!(breaker.admit(start + SECOND), Admission::Probe);
    }
}
