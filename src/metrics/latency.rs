//! How long answers took of late, in fixed memory.

use std::time::Duration;

/// Buckets per doubling: a percentile is off by less than a tenth.
const PER_DOUBLING: usize = 4;

/// From 64 µs to 67 s in twenty doublings; shorter and longer ones fall into the outermost buckets.
const BUCKETS: usize = 20 * PER_DOUBLING;

/// The lower end of the first bucket.
const SHORTEST: f64 = 64e-6;

/// With so many answers each count is halved, so that the last few thousand make the percentiles, and older ones fade.
const ENOUGH: u32 = 4_096;

/// A distribution of times that forgets slowly.
#[derive(Clone, Debug)]
pub struct Latencies {
    recent: [u16; BUCKETS],
    weight: u32,
    count: u64,
    sum: Duration,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies { recent: [0; BUCKETS], weight: 0, count: 0, sum: Duration::ZERO }
    }
}

impl Latencies {
    /// Takes one more.
    pub fn add(&mut self, took: Duration) {
        self.count += 1;
        self.sum += took;
        self.recent[bucket(took)] += 1;
        self.weight += 1;
        if self.weight >= ENOUGH {
            self.recent.iter_mut().for_each(|count| *count /= 2);
            self.weight = self.recent.iter().map(|count| u32::from(*count)).sum();
        }
    }

    /// How many there were since the start.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How long all of them took since the start.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// The time within which this share of the recent answers came, 0 to 1; `None` before the first.
    pub fn percentile(&self, share: f64) -> Option<Duration> {
        let wanted = (share * f64::from(self.weight)).ceil().max(1.0) as u32;
        let mut seen = 0;
        let place = self.recent.iter().position(|count| {
            seen += u32::from(*count);
            seen >= wanted
        });
        place.map(middle)
    }
}

fn bucket(took: Duration) -> usize {
    let doublings = (took.as_secs_f64() / SHORTEST).max(1.0).log2();
    ((doublings * PER_DOUBLING as f64) as usize).min(BUCKETS - 1)
}

fn middle(bucket: usize) -> Duration {
    Duration::from_secs_f64(SHORTEST * 2_f64.powf((bucket as f64 + 0.5) / PER_DOUBLING as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_off_by_less_than_a_tenth() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.percentile(0.5), None);
        (1..=1_000).for_each(|millis| latencies.add(Duration::from_millis(millis)));
        for (share, millis) in [(0.5, 500.0), (0.9, 900.0), (0.99, 990.0)] {
            let found = latencies.percentile(share).expect("answers").as_secs_f64() * 1e3;
            assert!((found / millis - 1.0).abs() < 0.1, "{share}: {found} ms and not {millis}");
        }
        assert_eq!((latencies.count(), latencies.sum()), (1_000, Duration::from_millis(500_500)));
    }

    #[test]
    fn what_was_long_ago_fades() {
        let mut latencies = Latencies::default();
        (0..10_000).for_each(|_| latencies.add(Duration::from_millis(1)));
        (0..20_000).for_each(|_| latencies.add(Duration::from_secs(2)));
        assert!(latencies.percentile(0.1).expect("answers") > Duration::from_secs(1));
        assert_eq!(latencies.count(), 30_000);
    }

    #[test]
    fn the_shortest_and_the_longest_have_a_place() {
        let mut latencies = Latencies::default();
        latencies.add(Duration::ZERO);
        latencies.add(Duration::from_secs(3_600));
        assert!(latencies.percentile(0.5).expect("answers") < Duration::from_micros(100));
        assert!(latencies.percentile(1.0).expect("answers") > Duration::from_secs(50));
    }
}
