//! Which register of a refused read is the bad one: a binary search whose good halves count as readings. Pure.
//!
//! A read is a row of values and of gaps between them. While the bad one is sought, everything before it is read in good
//! halves, and everything behind it in one more read. So one bad register of n costs ⌈log2 n⌉ requests more than the plan that
//! is kept from then on, and no sensor of the block misses its turn. What looks like a bad register may be a read that is too
//! long for the device, or a failure that has passed; both are told apart before anything is remembered.

use std::ops::Range;

use super::plan::span;
use crate::modbus::Table;
use crate::modbus::pdu::ReadRequest;
use crate::registry::{Registry, SensorIndex};

/// So many bad registers are sought in one go. The others are found in the next turns, so that no block keeps its line.
const MOST_FINDS: u32 = 2;

/// A part of the row that cannot be cut: a value with all sensors that overlap it, or a gap, which has no sensors.
#[derive(Clone, Debug, PartialEq)]
struct Part {
    span: Range<u32>,
    sensors: Vec<SensorIndex>,
    /// Whether all of its sensors have the same registers.
    is_one_value: bool,
}

/// The search in one refused read.
#[derive(Debug)]
pub struct Search {
    table: Table,
    parts: Vec<Part>,
    step: Step,
    /// The bad part is one of these.
    within: Range<usize>,
    /// Whether just these were asked for, and refused.
    is_proven: bool,
    finds: u32,
    largest_good: u32,
    smallest_refused: u32,
    findings: Findings,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// The first half of what is left.
    Half,
    /// What is behind the bad part, all at once.
    Rest(Range<usize>),
    /// The bad part alone. `rest` is what was refused behind it.
    Alone {
        rest: Option<Range<usize>>,
    },
    /// The whole read again.
    Whole,
    Done,
}

/// What a search has brought to light.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Sensors that the device refuses.
    pub refused: Vec<SensorIndex>,
    /// Sensors that overlap, of which the device refuses at least one.
    pub overlapping: Vec<SensorIndex>,
    /// Registers that no sensor names, and that the device refuses.
    pub holes: Vec<Range<u32>>,
    /// The most registers or bits that the device gave at once, if it refuses longer reads.
    pub limit: Option<u16>,
    /// Sensors that were refused together with others, and not told from them.
    pub unread: Vec<SensorIndex>,
    /// Sensors that were not asked for any more, because the search was broken off.
    pub unasked: Vec<SensorIndex>,
    /// Whether any part was answered.
    pub any_answered: bool,
}

impl Findings {
    /// Whether there is nothing to remember.
    pub fn blames_nothing(&self) -> bool {
        self.refused.is_empty() && self.overlapping.is_empty() && self.holes.is_empty() && self.limit.is_none()
    }
}

/// A request of the search, and whom it serves.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// What to ask for.
    pub request: ReadRequest,
    /// The sensors in it; a gap has none.
    pub sensors: Vec<SensorIndex>,
}

impl Search {
    /// A search in a read of these sensors that the device refused; `None` when they are one value, which needs no search.
    pub fn new(registry: &Registry, sensors: &[SensorIndex]) -> Option<Search> {
        let table = registry.sensor(*sensors.first()?).read.table;
        let parts = parts_of(registry, sensors);
        let length = parts.last()?.span.end - parts.first()?.span.start;
        let search = Search {
            table,
            step: Step::Half,
            within: 0..parts.len(),
            is_proven: true,
            finds: 0,
            largest_good: 0,
            smallest_refused: length,
            findings: Findings::default(),
            parts,
        };
        (search.parts.len() > 1 || !search.parts[0].is_one_value).then(|| search.narrowed())
    }

    /// What to ask next; `None` when the search is over.
    pub fn next(&self) -> Option<Probe> {
        let parts = &self.parts[self.asked()?];
        let (first, last) = (parts.first()?, parts.last()?);
        let count = u16::try_from(last.span.end - first.span.start).ok()?;
        let request = ReadRequest::new(self.table, u16::try_from(first.span.start).ok()?, count).ok()?;
        Some(Probe { request, sensors: parts.iter().flat_map(|part| part.sensors.clone()).collect() })
    }

    /// The parts that the next request asks for.
    fn asked(&self) -> Option<Range<usize>> {
        match &self.step {
            Step::Half => Some(self.within.start..self.middle()),
            Step::Rest(rest) => Some(rest.clone()),
            Step::Alone { .. } => Some(self.within.clone()),
            Step::Whole => Some(0..self.parts.len()),
            Step::Done => None,
        }
    }

    fn middle(&self) -> usize {
        self.within.start + self.within.len() / 2
    }

    fn length(&self, parts: &Range<usize>) -> u32 {
        self.parts[parts.end - 1].span.end - self.parts[parts.start].span.start
    }

    /// The last request was answered with data, or refused.
    pub fn took(mut self, is_good: bool) -> Search {
        let Some(asked) = self.asked() else { return self };
        let length = self.length(&asked);
        match is_good {
            true => self.largest_good = self.largest_good.max(length),
            false => self.smallest_refused = self.smallest_refused.min(length),
        }
        self.findings.any_answered |= is_good;
        match (self.step.clone(), is_good) {
            (Step::Half, true) => {
                self.within.start = asked.end;
                self.is_proven = false;
                self.narrowed()
            }
            (Step::Half, false) => {
                self.within.end = asked.end;
                self.is_proven = true;
                self.narrowed()
            }
            (Step::Rest(_), true) => self.with_rest(None),
            (Step::Rest(rest), false) => self.with_rest(Some(rest)),
            (Step::Alone { rest }, true) => {
                let unread = rest.map(|rest| self.sensors_of(rest)).unwrap_or_default();
                self.findings.unread.extend(unread);
                self.step = Step::Whole;
                self
            }
            (Step::Alone { rest }, false) => self.found(rest),
            // It has passed, and nothing is to be remembered of it.
            (Step::Whole, true) => {
                self.findings.unread.clear();
                self.step = Step::Done;
                self
            }
            (Step::Whole, false) => {
                self.findings.limit = u16::try_from(self.largest_good).ok();
                self.step = Step::Done;
                self
            }
            (Step::Done, _) => self,
        }
    }

    /// The device said something else, or nothing: what is not known by now stays unknown.
    pub fn gave_up(mut self) -> Findings {
        let unasked = match &self.step {
            Step::Half | Step::Rest(_) | Step::Alone { rest: Some(_) } => self.within.start..self.parts.len(),
            Step::Alone { rest: None } => self.within.clone(),
            Step::Whole | Step::Done => 0..0,
        };
        self.findings.unasked = self.sensors_of(unasked);
        self.findings
    }

    /// What the search has brought to light.
    pub fn into_findings(self) -> Findings {
        self.findings
    }

    fn sensors_of(&self, parts: Range<usize>) -> Vec<SensorIndex> {
        self.parts[parts].iter().flat_map(|part| part.sensors.clone()).collect()
    }

    /// Goes on halving, or, with one part left, to what is behind it.
    fn narrowed(mut self) -> Search {
        if self.within.len() > 1 {
            return self;
        }
        let behind = self.within.end..self.parts.len();
        let rest = behind.start + self.parts[behind].iter().take_while(|part| part.sensors.is_empty()).count();
        if rest < self.parts.len() {
            self.step = Step::Rest(rest..self.parts.len());
            return self;
        }
        self.with_rest(None)
    }

    /// The rest is read, or refused as well. A part that was never asked for alone is suspected only, as long as every read
    /// that was refused was longer than every one that was answered.
    fn with_rest(mut self, rest: Option<Range<usize>>) -> Search {
        if !self.is_proven && self.smallest_refused > self.largest_good {
            self.step = Step::Alone { rest };
            return self;
        }
        self.found(rest)
    }

    fn found(mut self, rest: Option<Range<usize>>) -> Search {
        let part = self.parts[self.within.start].clone();
        match (part.sensors.is_empty(), part.is_one_value) {
            (true, _) => self.findings.holes.push(part.span),
            (false, true) => self.findings.refused.extend(part.sensors),
            (false, false) => self.findings.overlapping.extend(part.sensors),
        }
        self.finds += 1;
        self.step = Step::Done;
        match rest {
            Some(rest) if self.finds < MOST_FINDS => {
                self.within = rest;
                self.is_proven = true;
                self.step = Step::Half;
                self.narrowed()
            }
            Some(rest) => {
                let unread = self.sensors_of(rest);
                self.findings.unread.extend(unread);
                self
            }
            None => self,
        }
    }
}

/// The row of a read: sensors by address, those that overlap as one part, and the gaps between the parts.
fn parts_of(registry: &Registry, sensors: &[SensorIndex]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for sensor in sensors {
        let span = span(&registry.sensor(*sensor).read);
        match parts.last_mut() {
            Some(last) if span.start < last.span.end => {
                last.is_one_value &= span == last.span;
                last.span.end = last.span.end.max(span.end);
                last.sensors.push(*sensor);
                continue;
            }
            Some(last) if span.start > last.span.end => {
                let gap = last.span.end..span.start;
                parts.push(Part { span: gap, sensors: Vec::new(), is_one_value: false });
            }
            _ => {}
        }
        parts.push(Part { span, sensors: vec![*sensor], is_one_value: true });
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::field::testing::{Plan, word};

    /// What a search finds on a device that lacks some registers and gives at most so many at once, the number of its
    /// requests, and the sensors that were read.
    fn run(sensors: &[(u16, u8)], lacks: &[u32], most: u16) -> (Findings, u32, Vec<SensorIndex>) {
        let registry = Plan::tcp(sensors).registry();
        let mut row: Vec<SensorIndex> = registry.sensors().map(|(index, _)| index).collect();
        row.sort_by_key(|index| registry.sensor(*index).read.address);
        let mut search = Search::new(&registry, &row).expect("several values");
        let (mut requests, mut read) = (0, Vec::new());
        while let Some(probe) = search.next() {
            requests += 1;
            let asked = u32::from(probe.request.address())..u32::from(probe.request.address() + probe.request.count());
            let is_good = probe.request.count() <= most && !lacks.iter().any(|register| asked.contains(register));
            if is_good {
                read.extend(probe.sensors);
            }
            search = search.took(is_good);
        }
        read.sort();
        read.dedup();
        (search.into_findings(), requests, read)
    }

    fn log2(count: usize) -> u32 {
        usize::BITS - (count - 1).leading_zeros()
    }

    #[test]
    fn case_c32_one_bad_register_of_n_costs_log2_n_and_one_more() {
        for count in 2_u16..=125 {
            let sensors: Vec<(u16, u8)> = (0..count).map(|address| (address, word(1))).collect();
            for bad in 0..count {
                let (findings, requests, read) = run(&sensors, &[u32::from(bad)], 125);
                assert_eq!(findings.refused, [SensorIndex(u32::from(bad))], "of {count}");
                assert_eq!(read.len(), usize::from(count) - 1, "the others lose nothing");
                let most = log2(usize::from(count)) + 1;
                assert!(requests <= most, "{requests} requests for {bad} of {count}, and {most} are the most");
            }
        }
    }

    #[test]
    fn two_bad_registers_are_found_in_one_go() {
        let sensors: Vec<(u16, u8)> = (0..64).map(|address| (address, word(1))).collect();
        let (findings, requests, read) = run(&sensors, &[3, 40], 125);
        assert_eq!((findings.refused, read.len()), (vec![SensorIndex(3), SensorIndex(40)], 62));
        // With the refused read, and without the three reads that are kept.
        assert!(requests + 1 - 3 <= 2 * (log2(64) + 1), "{requests}");
    }

    #[test]
    fn case_c32_a_bad_hole_is_found_and_every_sensor_is_read() {
        let sensors: Vec<(u16, u8)> =
            (100..120).filter(|address| *address != 110).map(|address| (address, word(1))).collect();
        let (findings, requests, read) = run(&sensors, &[110], 125);
        let holes = Vec::from([Range { start: 110, end: 111 }]);
        assert_eq!(findings, Findings { holes, any_answered: true, ..Findings::default() });
        assert_eq!(read.len(), 19);
        assert!(requests <= log2(20) + 1, "{requests}");
    }

    #[test]
    fn case_c34_a_read_that_is_too_long_is_no_bad_register() {
        let sensors: Vec<(u16, u8)> = (0..100).map(|address| (address, word(1))).collect();
        let (findings, _, _) = run(&sensors, &[], 60);
        assert_eq!((findings.limit, findings.refused, findings.holes), (Some(50), vec![], vec![]));
        let (findings, _, _) = run(&sensors, &[], 30);
        assert_eq!((findings.limit, findings.refused), (Some(25), vec![]));
    }

    #[test]
    fn a_failure_that_has_passed_leaves_nothing_behind() {
        let sensors: Vec<(u16, u8)> = (0..100).map(|address| (address, word(1))).collect();
        let (findings, _, read) = run(&sensors, &[], 125);
        assert_eq!(findings, Findings { any_answered: true, ..Findings::default() });
        assert_eq!(read.len(), 100);
    }

    #[test]
    fn a_value_is_never_cut_and_overlapping_sensors_stay_together() {
        let (findings, _, read) = run(&[(0, word(1)), (1, word(2)), (1, word(1)), (3, word(4))], &[2], 125);
        assert_eq!(findings.overlapping, [SensorIndex(1), SensorIndex(2)]);
        assert_eq!(read, [SensorIndex(0), SensorIndex(3)]);
    }

    proptest! {
        #[test]
        fn each_sensor_is_read_or_named_and_none_is_blamed_that_the_device_has(
            starts in prop::collection::btree_set(0_u16..120, 2..40),
            lacks in prop::collection::btree_set(0_u32..120, 0..4),
        ) {
            let sensors: Vec<(u16, u8)> = starts.iter().map(|address| (*address, word(1))).collect();
            let lacks: Vec<u32> = lacks.into_iter().collect();
            let (findings, requests, read) = run(&sensors, &lacks, 125);
            for (place, (address, _)) in sensors.iter().enumerate() {
                let sensor = SensorIndex(place as u32);
                let is_lacking = lacks.contains(&u32::from(*address));
                prop_assert!(!findings.refused.contains(&sensor) || is_lacking, "{} is blamed", address);
                let named = findings.refused.contains(&sensor) || findings.unread.contains(&sensor);
                prop_assert!(read.contains(&sensor) != named, "{}: {:?}", address, findings);
            }
            for hole in &findings.holes {
                prop_assert!(lacks.iter().any(|register| hole.contains(register)), "{hole:?}");
            }
            prop_assert!(requests <= 2 * (log2(120) + 2) + 1, "{}", requests);
        }
    }
}
