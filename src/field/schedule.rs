//! What a link asks next: calls first, polling with a guaranteed share, resting devices not at all. Pure.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::plan::PlannedRead;
use crate::registry::{DeviceIndex, SensorIndex};

/// After so many calls in a row a poll that is due has its turn.
const CALLS_IN_A_ROW: u32 = 3;

/// The reads of a link, each with the moment it is due.
#[derive(Debug)]
pub struct Schedule {
    reads: Vec<Entry>,
    place_of: HashMap<SensorIndex, usize>,
    resting: HashMap<DeviceIndex, Instant>,
    /// Reads that calls wait for, each once. Full is impossible: it holds each read at most once.
    urgent: VecDeque<usize>,
    calls_in_a_row: u32,
}

#[derive(Debug)]
struct Entry {
    read: PlannedRead,
    due: Instant,
    /// When it is asked again because the last answer was missing or damaged; before its turn.
    again: Option<Instant>,
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Ask for this read.
    Read(usize),
    /// Nothing to do before this moment.
    Wait(Instant),
    /// Nothing to do at all: the link has no sensors.
    Idle,
}

impl Schedule {
    /// All reads are due now.
    pub fn new(reads: Vec<PlannedRead>, now: Instant) -> Schedule {
        let mut schedule = Schedule {
            reads: Vec::new(),
            place_of: HashMap::new(),
            resting: HashMap::new(),
            urgent: VecDeque::new(),
            calls_in_a_row: 0,
        };
        for read in reads {
            schedule.add(read, now);
        }
        schedule
    }

    fn add(&mut self, read: PlannedRead, due: Instant) {
        let place = self.reads.len();
        self.place_of.extend(read.sensors.iter().map(|sensor| (*sensor, place)));
        self.reads.push(Entry { read, due, again: None });
    }

    /// The read at a place that [`Next::Read`] named.
    pub fn read(&self, place: usize) -> &PlannedRead {
        &self.reads[place].read
    }

    /// A call waits for this sensor.
    pub fn wish(&mut self, sensor: SensorIndex) {
        if let Some(place) = self.place_of.get(&sensor)
            && !self.urgent.contains(place)
        {
            self.urgent.push_back(*place);
        }
    }

    /// What to do now.
    pub fn next(&mut self, now: Instant) -> Next {
        let due = (0..self.reads.len()).min_by_key(|place| self.due(*place));
        let overdue = due.filter(|place| self.due(*place) <= now);
        if overdue.is_none() || self.calls_in_a_row < CALLS_IN_A_ROW {
            while let Some(place) = self.urgent.pop_front() {
                if !self.is_resting(self.reads[place].read.device, now) {
                    self.calls_in_a_row += 1;
                    return Next::Read(place);
                }
            }
        }
        self.calls_in_a_row = 0;
        match (overdue, due) {
            (Some(place), _) => Next::Read(place),
            (None, Some(place)) => Next::Wait(self.due(place)),
            (None, None) => Next::Idle,
        }
    }

    /// When a read may be asked: when it is due, and its device does not rest.
    fn due(&self, place: usize) -> Instant {
        let entry = &self.reads[place];
        let due = entry.again.unwrap_or(entry.due);
        self.resting.get(&entry.read.device).map_or(due, |until| due.max(*until))
    }

    /// Whether a device is left alone at this moment.
    pub fn is_resting(&self, device: DeviceIndex, now: Instant) -> bool {
        self.resting.get(&device).is_some_and(|until| *until > now)
    }

    /// The read was asked; its next turn keeps the beat, and turns that were missed are not made up for.
    pub fn asked(&mut self, place: usize, now: Instant) {
        let every = self.reads[place].read.every.max(Duration::from_millis(1));
        let entry = &mut self.reads[place];
        entry.again = None;
        let late = now.saturating_duration_since(entry.due);
        if entry.due <= now {
            let missed = (late.as_nanos() / every.as_nanos()) as u32;
            entry.due += every * (missed + 1);
        } else {
            entry.due = now + every;
        }
        self.urgent.retain(|urgent| *urgent != place);
    }

    /// The read is not worth asking again before this moment.
    pub fn postpone(&mut self, place: usize, until: Instant) {
        self.reads[place].due = until;
    }

    /// No read of the device has its turn before this moment. A call may still ask for one.
    pub fn hold(&mut self, device: DeviceIndex, until: Instant) {
        for entry in self.reads.iter_mut().filter(|entry| entry.read.device == device) {
            entry.due = entry.due.max(until);
        }
    }

    /// The read is asked again at this moment, and keeps its beat. Others go meanwhile.
    pub fn again(&mut self, place: usize, at: Instant) {
        self.reads[place].again = Some(at);
        self.urgent.retain(|urgent| *urgent != place);
    }

    /// A device is read so from now on. Each read has its turn when the first of its sensors would have had it, or when `not_before`
    /// says.
    pub fn replan(
        &mut self,
        device: DeviceIndex,
        plan: Vec<PlannedRead>,
        now: Instant,
        not_before: impl Fn(&PlannedRead) -> Option<Instant>,
    ) {
        let wished: Vec<SensorIndex> =
            self.urgent.drain(..).filter_map(|place| self.reads[place].read.sensors.first().copied()).collect();
        let due_of = |read: &PlannedRead| {
            let turns = read.sensors.iter().filter_map(|sensor| self.place_of.get(sensor));
            turns.map(|place| self.reads[*place].due).min().unwrap_or(now)
        };
        let dues: Vec<Instant> = plan.iter().map(|read| not_before(read).unwrap_or_else(|| due_of(read))).collect();
        let mut kept = std::mem::take(&mut self.reads);
        kept.retain(|entry| entry.read.device != device);
        self.place_of.clear();
        for (place, entry) in kept.iter().enumerate() {
            self.place_of.extend(entry.read.sensors.iter().map(|sensor| (*sensor, place)));
        }
        self.reads = kept;
        for (read, due) in plan.into_iter().zip(dues) {
            self.add(read, due);
        }
        wished.into_iter().for_each(|sensor| self.wish(sensor));
    }

    /// The device is left alone until then.
    pub fn rest(&mut self, device: DeviceIndex, until: Instant) {
        self.resting.insert(device, until);
    }

    /// The device is back, and all of its reads are due.
    pub fn wake(&mut self, device: DeviceIndex, now: Instant) {
        self.resting.remove(&device);
        for entry in self.reads.iter_mut().filter(|entry| entry.read.device == device) {
            entry.due = entry.due.min(now);
            entry.again = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::plan::plan_link;
    use crate::field::testing::{Plan, word};
    use crate::registry::LinkIndex;

    const SECOND: Duration = Duration::from_secs(1);

    /// Two devices with one read each, due at `now`.
    fn two_devices(now: Instant) -> Schedule {
        let registry = Plan::tcp(&[(0, word(1))]).and_device(&[(0, word(1))]).registry();
        Schedule::new(plan_link(&registry, LinkIndex(0)), now)
    }

    #[test]
    fn every_read_has_its_turn_and_keeps_its_beat() {
        let start = Instant::now();
        let mut schedule = two_devices(start);
        assert_eq!(schedule.next(start), Next::Read(0));
        schedule.asked(0, start);
        assert_eq!(schedule.next(start), Next::Read(1));
        schedule.asked(1, start + Duration::from_millis(200));
        assert_eq!(schedule.next(start + Duration::from_millis(200)), Next::Wait(start + SECOND));
        assert_eq!(schedule.next(start + SECOND), Next::Read(0));
        schedule.asked(0, start + Duration::from_millis(3_500));
        schedule.asked(1, start + Duration::from_millis(3_500));
        assert_eq!(schedule.next(start + Duration::from_millis(3_500)), Next::Wait(start + 4 * SECOND));
    }

    #[test]
    fn a_call_goes_before_polling_and_polling_keeps_its_share() {
        let start = Instant::now();
        let mut schedule = two_devices(start);
        let mut order = Vec::new();
        for _ in 0..8 {
            schedule.wish(SensorIndex(1));
            let Next::Read(place) = schedule.next(start) else { panic!("something is due") };
            order.push(place);
            if place == 0 {
                schedule.asked(place, start);
            }
        }
        assert_eq!(order, [1, 1, 1, 0, 1, 1, 1, 1]);
    }

    #[test]
    fn equal_calls_share_one_read() {
        let start = Instant::now();
        let mut schedule = two_devices(start);
        schedule.asked(0, start);
        schedule.asked(1, start);
        schedule.wish(SensorIndex(0));
        schedule.wish(SensorIndex(0));
        assert_eq!(schedule.next(start), Next::Read(0));
        schedule.asked(0, start);
        assert_eq!(schedule.next(start), Next::Wait(start + SECOND));
    }

    #[test]
    fn a_resting_device_is_asked_again_when_its_rest_ends_and_not_before() {
        let start = Instant::now();
        let mut schedule = two_devices(start);
        schedule.asked(1, start);
        schedule.rest(DeviceIndex(0), start + SECOND / 2);
        schedule.wish(SensorIndex(0));
        assert_eq!(schedule.next(start), Next::Wait(start + SECOND / 2));
        assert_eq!(schedule.next(start + SECOND / 2), Next::Read(0));
        schedule.rest(DeviceIndex(0), start + 5 * SECOND);
        schedule.wake(DeviceIndex(0), start + SECOND);
        assert_eq!(schedule.next(start + SECOND), Next::Read(0));
    }
}
