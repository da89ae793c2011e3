//! How busy a line is, over the last minute and since the start.

use std::time::{Duration, Instant};

const SLOT: Duration = Duration::from_secs(10);
const SLOTS: usize = 6;

/// The busy time of a line. What takes longer than a slot counts into the slots that it fills.
#[derive(Clone, Debug)]
pub struct Load {
    started: Instant,
    total: Duration,
    recent: [Duration; SLOTS],
    /// The number of the newest slot since the start.
    newest: u64,
}

impl Load {
    /// Nothing done yet.
    pub fn since(started: Instant) -> Load {
        Load { started, total: Duration::ZERO, recent: [Duration::ZERO; SLOTS], newest: 0 }
    }

    /// The line was busy for so long until `ended`.
    pub fn add(&mut self, busy: Duration, ended: Instant) {
        self.total += busy;
        self.advance(ended);
        let mut rest = busy;
        let mut room = self.age(ended).saturating_sub(SLOT * self.newest as u32);
        for back in 0..SLOTS as u64 {
            let Some(slot) = self.newest.checked_sub(back) else { break };
            let part = rest.min(room);
            self.recent[slot as usize % SLOTS] += part;
            rest -= part;
            room = SLOT;
        }
    }

    /// The share of the last minute in which the line was busy, 0 to 1.
    pub fn share(&self, now: Instant) -> f64 {
        let mut seen = self.clone();
        seen.advance(now);
        let age = self.age(now);
        let into_the_newest = age.saturating_sub(SLOT * seen.newest as u32);
        let covered = age.min(SLOT * (SLOTS as u32 - 1) + into_the_newest);
        let busy: Duration = seen.recent.iter().sum();
        if covered.is_zero() { 0.0 } else { (busy.as_secs_f64() / covered.as_secs_f64()).min(1.0) }
    }

    /// The busy time since the start.
    pub fn total(&self) -> Duration {
        self.total
    }

    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started)
    }

    fn advance(&mut self, now: Instant) {
        let newest = self.age(now).as_secs() / SLOT.as_secs();
        let passed = newest.saturating_sub(self.newest).min(SLOTS as u64);
        for slot in newest + 1 - passed..=newest {
            self.recent[slot as usize % SLOTS] = Duration::ZERO;
        }
        self.newest = self.newest.max(newest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_share_is_that_of_the_last_minute() {
        let start = Instant::now();
        let mut load = Load::since(start);
        assert_eq!(load.share(start), 0.0);
        for second in 1..=120 {
            load.add(SECOND / 4, start + SECOND * second);
        }
        let share = load.share(start + SECOND * 120);
        assert!((share - 0.25).abs() < 0.01, "{share}");
        assert_eq!(load.total(), SECOND * 30);
        assert!(load.share(start + SECOND * 150) < 0.16);
        assert_eq!(load.share(start + SECOND * 1_000), 0.0);
    }

    #[test]
    fn what_takes_long_is_shared_out_over_the_time_that_it_took() {
        let start = Instant::now();
        let mut load = Load::since(start);
        load.add(SECOND * 25, start + SECOND * 31);
        let share = load.share(start + SECOND * 31);
        assert!((share - 25.0 / 31.0).abs() < 0.01, "{share}");
        load.add(SECOND * 600, start + SECOND * 700);
        assert_eq!(load.share(start + SECOND * 700), 1.0);
    }
}
