//! How long an absent device is left alone: exponential, capped, with jitter.
//!
//! A device that shares its line with living ones must cost them next to nothing, so its rest is also a multiple of the
//! time that a futile try takes. A device whose line has nobody else to serve is tried again soon: it costs nobody.

use std::time::Duration;

/// The first rest after a failure.
const FIRST: Duration = Duration::from_millis(500);

/// The longest rest on a line that serves nobody else meanwhile.
const LONGEST_ALONE: Duration = Duration::from_secs(2);

/// The longest rest on a line that serves others, unless they are owed a longer one.
const LONGEST_SHARED: Duration = Duration::from_secs(30);

/// A futile try may take one part in so many of a shared line's time: 5 %.
const SHARE: u32 = 20;

/// What a rest depends on.
#[derive(Clone, Copy, Debug)]
pub struct Rest {
    /// Failures in a row, 1 or more.
    pub failures: u32,
    /// How long the futile try kept the line busy, the quiet after it included.
    pub cost: Duration,
    /// Whether another device of the line answers.
    pub others_alive: bool,
    /// The longest rest that the configuration allows. It was written by somebody who wants the device back by then, so that it
    /// holds also where neighbours pay more than their part for it.
    pub longest: Duration,
}

impl Rest {
    /// How long to rest. `jitter` is from 0 to 1, and takes up to a tenth away, so that lines do not beat in time.
    pub fn duration(&self, jitter: f64) -> Duration {
        let exponential = FIRST.saturating_mul(1 << self.failures.saturating_sub(1).min(16));
        let rest = if self.others_alive {
            exponential.min(LONGEST_SHARED).max(self.cost.saturating_mul(SHARE)).min(self.longest)
        } else {
            exponential.min(LONGEST_ALONE).min(self.longest)
        };
        // What the neighbours are owed is not shortened.
        let owed = if self.others_alive { self.cost.saturating_mul(SHARE - 1) } else { Duration::ZERO };
        rest.mul_f64(1.0 - 0.1 * jitter.clamp(0.0, 1.0)).max(owed.min(self.longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(failures: u32, others_alive: bool, expected_ms: u64) {
        let cost = Duration::from_millis(250);
        let rest = Rest { failures, cost, others_alive, longest: Duration::from_secs(30) };
        assert_eq!(rest.duration(0.0), Duration::from_millis(expected_ms), "{rest:?}");
    }

    #[test]
    fn a_rest_doubles_up_to_its_cap() {
        check(1, false, 500);
        check(2, false, 1_000);
        check(3, false, 2_000);
        check(50, false, 2_000);
    }

    #[test]
    fn a_dead_unit_costs_its_neighbours_at_most_a_twentieth() {
        check(1, true, 5_000);
        check(4, true, 5_000);
        check(5, true, 8_000);
        check(9, true, 30_000);
        let dear =
            Rest { failures: 1, cost: Duration::from_secs(2), others_alive: true, longest: Duration::from_secs(60) };
        assert_eq!(dear.duration(1.0), Duration::from_secs(38), "2 of 40 seconds");
        let wanted_back = Rest { longest: Duration::from_secs(1), ..dear };
        assert_eq!(wanted_back.duration(0.0), Duration::from_secs(1), "retry_max is a promise");
    }

    #[test]
    fn jitter_shortens_by_at_most_a_tenth() {
        let rest = Rest { failures: 2, cost: Duration::ZERO, others_alive: false, longest: Duration::from_secs(30) };
        assert_eq!(rest.duration(1.0), Duration::from_millis(900));
    }
}
