//! What a device has revealed of itself beside what the configuration says of it. Pure.
//!
//! A device says only by refusing that it lacks a register or gives fewer at once than the standard allows. What was found
//! out stays until the daemon ends, but a sensor that was refused is tried again: somebody may have changed the device.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::modbus::Table;
use crate::registry::SensorIndex;

/// When a sensor is tried again for which its device gave an exception: at first, and at the latest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pauses {
    /// The first pause; each is twice the one before.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl Pauses {
    /// The register does not exist, or may not be read so: a matter of configuration.
    pub const REFUSED: Pauses = Pauses { first: Duration::from_secs(60), longest: Duration::from_secs(3_600) };

    /// The device failed at it, which may pass at any time.
    pub fn failed(longest: Duration) -> Pauses {
        Pauses { first: Duration::from_secs(1).min(longest), longest }
    }
}

/// All that a device has revealed. It holds at most one entry per sensor, and one hole per pair of neighbours.
#[derive(Clone, Debug, Default)]
pub struct Learnt {
    /// The most registers that it gives at once.
    pub max_registers: Option<u16>,
    /// The most bits that it gives at once.
    pub max_bits: Option<u16>,
    /// Registers that no sensor names, and that no read may touch.
    pub holes: Vec<(Table, Range<u32>)>,
    /// Whether its heartbeat is read alone, because a read with it was refused.
    pub heartbeat_apart: bool,
    apart: Vec<Apart>,
}

/// A sensor that is read alone, because a read with it was refused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Apart {
    /// Which one.
    pub sensor: SensorIndex,
    /// How often it was refused alone.
    pub refusals: u32,
    /// When it is worth asking again.
    pub next_try: Instant,
    /// Whether it overlaps another sensor that was refused with it, so that it stays alone although it is answered.
    pub overlaps: bool,
}

impl Learnt {
    /// What is known of a sensor that is read alone.
    pub fn apart(&self, sensor: SensorIndex) -> Option<&Apart> {
        self.apart.iter().find(|apart| apart.sensor == sensor)
    }

    /// All sensors that are read alone.
    pub fn all_apart(&self) -> impl Iterator<Item = &Apart> {
        self.apart.iter()
    }

    /// A sensor is read alone from now on, and at once.
    pub fn set_apart(&mut self, sensor: SensorIndex, overlaps: bool, now: Instant) {
        if self.apart(sensor).is_none() {
            self.apart.push(Apart { sensor, refusals: 0, next_try: now, overlaps });
        }
    }

    /// A sensor was refused, and could be told from its neighbours: when to ask for it again.
    pub fn refused(&mut self, sensor: SensorIndex, pauses: Pauses, now: Instant) -> Instant {
        self.set_apart(sensor, false, now);
        let Some(apart) = self.apart.iter_mut().find(|apart| apart.sensor == sensor) else { return now };
        // A call asked before its time, which says nothing new.
        if apart.refusals > 0 && now < apart.next_try {
            return apart.next_try;
        }
        let pause = pauses.first.saturating_mul(1 << apart.refusals.min(16)).min(pauses.longest);
        apart.refusals += 1;
        apart.next_try = now + pause;
        apart.next_try
    }

    /// The device was away and is back, perhaps as another one: every sensor that it refused is worth asking for now.
    pub fn device_is_back(&mut self, now: Instant) {
        self.apart.iter_mut().for_each(|apart| apart.next_try = apart.next_try.min(now));
    }

    /// A sensor that is read alone was answered: whether it joins its neighbours again.
    pub fn answered(&mut self, sensor: SensorIndex) -> bool {
        let Some(place) = self.apart.iter().position(|apart| apart.sensor == sensor) else { return false };
        let apart = &mut self.apart[place];
        if apart.overlaps {
            apart.refusals = 0;
            return false;
        }
        self.apart.swap_remove(place);
        true
    }

    /// The device gives at most so many at once.
    pub fn limit(&mut self, table: Table, count: u16) {
        let limit = if table.is_bits() { &mut self.max_bits } else { &mut self.max_registers };
        *limit = Some(limit.map_or(count, |known| known.min(count)).max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_sensor_is_tried_again_after_a_minute_and_then_ever_more_rarely() {
        let start = Instant::now();
        let mut learnt = Learnt::default();
        let mut now = start;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let next_try = learnt.refused(SensorIndex(3), Pauses::REFUSED, now);
            assert_eq!(
                learnt.refused(SensorIndex(3), Pauses::REFUSED, now),
                next_try,
                "a call before its time changes nothing"
            );
            pauses.push((next_try - now).as_secs());
            now = next_try;
        }
        assert_eq!(pauses, [60, 120, 240, 480, 960, 1_920, 3_600, 3_600]);
        assert!(learnt.answered(SensorIndex(3)));
        assert_eq!(learnt.apart(SensorIndex(3)), None);
    }

    #[test]
    fn what_was_refused_is_asked_for_when_the_device_is_back() {
        let start = Instant::now();
        let mut learnt = Learnt::default();
        learnt.refused(SensorIndex(3), Pauses::REFUSED, start);
        let back = start + Duration::from_secs(7);
        learnt.device_is_back(back);
        assert_eq!(learnt.apart(SensorIndex(3)).map(|apart| apart.next_try), Some(back));
    }

    #[test]
    fn a_limit_only_ever_falls() {
        let mut learnt = Learnt::default();
        learnt.limit(Table::Input, 60);
        learnt.limit(Table::Holding, 80);
        assert_eq!((learnt.max_registers, learnt.max_bits), (Some(60), None));
    }
}
