//! Whether a request is repeated, and when: the rule of the only retry loop. Pure.
//!
//! Only what may pass by itself is tried again, at most three times in all, after a pause that doubles, and never beyond the
//! deadline of whoever waits. Others are served during the pause.

use std::time::{Duration, Instant};

/// Why a request is worth repeating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transient {
    /// No answer came in time.
    Silence,
    /// The answer was damaged.
    Damage,
    /// The device says that it is busy.
    Busy,
    /// The connection was closed.
    Closed,
}

/// The longest pause before a repetition.
const LONGEST: Duration = Duration::from_secs(1);

impl Transient {
    /// How often a request is sent at most. Silence has taken a whole time-out from everyone on the line already.
    fn attempts(self) -> u32 {
        match self {
            Transient::Silence | Transient::Closed => 2,
            Transient::Damage | Transient::Busy => 3,
        }
    }

    /// The pause before the first repetition.
    fn first_pause(self) -> Duration {
        match self {
            Transient::Silence | Transient::Damage | Transient::Closed => Duration::from_millis(20),
            Transient::Busy => Duration::from_millis(100),
        }
    }

    /// When to send a request again that has failed `attempts` times, the last time at `now`; `None` when no more.
    ///
    /// `jitter` is from 0 to 1, and takes up to half of the pause away, so that gateways do not repeat in step.
    pub fn again(self, attempts: u32, now: Instant, deadline: Instant, jitter: f64) -> Option<Instant> {
        let doubled = self.first_pause().saturating_mul(1 << attempts.saturating_sub(1).min(16)).min(LONGEST);
        let at = now + doubled.mul_f64(1.0 - 0.5 * jitter.clamp(0.0, 1.0));
        (attempts < self.attempts() && at < deadline).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cause: Transient, attempts: u32, left_ms: u64, expected_ms: Option<u64>) {
        let now = Instant::now();
        let again = cause.again(attempts, now, now + Duration::from_millis(left_ms), 0.0);
        assert_eq!(again, expected_ms.map(|ms| now + Duration::from_millis(ms)), "{cause:?} {attempts}");
    }

    #[test]
    fn a_request_is_sent_three_times_at_most_and_after_silence_twice() {
        check(Transient::Busy, 1, 1_000, Some(100));
        check(Transient::Busy, 2, 1_000, Some(200));
        check(Transient::Busy, 3, 1_000, None);
        check(Transient::Silence, 1, 1_000, Some(20));
        check(Transient::Silence, 2, 1_000, None);
    }

    #[test]
    fn nothing_is_repeated_beyond_the_deadline() {
        check(Transient::Busy, 1, 100, None);
        check(Transient::Damage, 2, 41, Some(40));
    }

    #[test]
    fn jitter_takes_at_most_half_of_a_pause() {
        let now = Instant::now();
        let again = Transient::Busy.again(1, now, now + LONGEST, 1.0);
        assert_eq!(again, Some(now + Duration::from_millis(50)));
    }
}
