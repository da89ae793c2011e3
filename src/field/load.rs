//! What a plan asks of a link: how busy the line is, and how old a reading can get. Pure.

use std::time::Duration;

use super::cost::LinkCost;
use super::learnt::Learnt;
use super::plan::{PlannedRead, plan};
use crate::registry::{DeviceIndex, LinkIndex, Registry};

/// From this share on, a line has little time left for devices that answer slowly or not at all.
const BUSY: f64 = 0.7;

/// The plan of one link, and what it asks of it.
#[derive(Clone, Debug)]
pub struct LinkLoad {
    /// Which link.
    pub link: LinkIndex,
    /// Every read, device by device, and how long it keeps the link busy.
    pub reads: Vec<(PlannedRead, Duration)>,
    /// How long it takes to ask for everything once.
    pub round: Duration,
    /// The share of time in which the link is busy: 1 is all of it.
    pub busy: f64,
    /// How long one request waits for its answer.
    timeout: Duration,
}

/// What to say of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The link has time to spare.
    Fine,
    /// It has little.
    Tight,
    /// It cannot carry the plan.
    TooMuch,
}

impl LinkLoad {
    /// What the plan of a link asks of it.
    pub fn of(registry: &Registry, index: LinkIndex) -> LinkLoad {
        let link = registry.link(index);
        let cost = LinkCost::of(link);
        let plans = link.devices.iter().flat_map(|device| plan(registry, *device, &Learnt::default()));
        let cost_of = |read: &PlannedRead| cost.of_read(read.request.table(), read.request.count());
        let reads: Vec<_> = plans.map(|read| (cost_of(&read), read)).map(|(cost, read)| (read, cost)).collect();
        LinkLoad {
            link: index,
            round: reads.iter().map(|(_, cost)| *cost).sum(),
            busy: reads.iter().map(|(read, cost)| cost.div_duration_f64(read.every)).sum(),
            reads,
            timeout: link.timeout,
        }
    }

    /// The reads of one device.
    pub fn of_device(&self, device: DeviceIndex) -> impl Iterator<Item = &(PlannedRead, Duration)> {
        self.reads.iter().filter(move |(read, _)| read.device == device)
    }

    /// Requests per second.
    pub fn requests_per_second(&self) -> f64 {
        self.reads.iter().map(|(read, _)| 1.0 / read.every.as_secs_f64()).sum()
    }

    /// How old a reading of such a read can get while every device answers: its period, or a round where the line needs
    /// longer for one, then a round of everything else that is due first, and one request that waited in vain.
    pub fn worst_age(&self, read: &PlannedRead) -> Duration {
        read.every.max(self.round) + self.round + self.timeout
    }

    /// Whether the link can carry the plan.
    pub fn verdict(&self) -> Verdict {
        match self.busy {
            busy if busy > 1.0 => Verdict::TooMuch,
            busy if busy > BUSY => Verdict::Tight,
            _ => Verdict::Fine,
        }
    }
}

/// How many bytes go over the link for a read, there and back.
pub fn bytes_of(registry: &Registry, read: &PlannedRead) -> usize {
    let link = registry.link(registry.device(read.device).link);
    let table = read.request.table();
    LinkCost::of(link).bytes_of_read(table, read.request.count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::testing::{Plan, word};

    /// So many single registers, each too far from the next to be read with it.
    fn far_apart(count: u16) -> Vec<(u16, u8)> {
        (0..count).map(|place| (place * 130, word(1))).collect()
    }

    #[test]
    fn a_line_is_fine_tight_or_asked_for_too_much() {
        // One register takes 15.6 ms at 19,200 bit/s.
        let check = |count, expected| {
            let registry = Plan::serial(&far_apart(count)).registry();
            let load = LinkLoad::of(&registry, LinkIndex(0));
            assert_eq!(load.verdict(), expected, "{:?}", load.busy);
        };
        check(10, Verdict::Fine);
        check(50, Verdict::Tight);
        check(70, Verdict::TooMuch);
    }

    #[test]
    fn a_reading_is_at_worst_a_period_a_round_and_a_timeout_old() {
        let registry = Plan::serial(&far_apart(2)).and_device(&far_apart(2)).registry();
        let load = LinkLoad::of(&registry, LinkIndex(0));
        let (read, cost) = &load.reads[0];
        assert_eq!(load.round, *cost * 4);
        assert_eq!(load.worst_age(read), Duration::from_millis(1_300) + load.round);
        let crowded = Plan::serial(&far_apart(150)).registry();
        let load = LinkLoad::of(&crowded, LinkIndex(0));
        assert!(load.round > Duration::from_secs(2));
        assert_eq!(load.worst_age(&load.reads[0].0), load.round * 2 + Duration::from_millis(300));
    }
}
