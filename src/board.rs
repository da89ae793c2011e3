//! What everyone sees: the state of every sensor and device now, and what has not been published yet.
//!
//! Links write here, tools and the publisher read here; neither waits for the other. What changed is kept as one mark per
//! sensor and device, not as a queue: a broker that is away costs nothing but the marks, and on its return the present
//! state is published, never a backlog of old ones.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::clock;
use crate::metrics::Meters;
use crate::quantity::Value;
use crate::registry::reading::{DeviceState, DeviceStatus, Fault, NoValueNow, Sample, SensorState, Stamp};
use crate::registry::{DeviceIndex, Registry, SensorIndex};

/// The shared state. One lock, held for one look or one update and never across a wait.
#[derive(Debug)]
pub struct Board {
    registry: Arc<Registry>,
    inner: Mutex<Inner>,
    changed: Notify,
    meters: Meters,
}

#[derive(Debug)]
struct Inner {
    sensors: Vec<Slot>,
    devices: Vec<DeviceState>,
    unpublished_sensors: Marks,
    unpublished_devices: Marks,
}

#[derive(Debug, Default)]
struct Slot {
    state: SensorState,
    marked_at: Option<Instant>,
    /// What was last published, of a sensor with a dead band alone.
    published: Option<Value>,
    shown_stale: bool,
}

/// A set of places, each in it at most once, taken in the order of marking. Full is impossible: it holds each place once.
#[derive(Debug)]
struct Marks {
    marked: Vec<bool>,
    order: std::collections::VecDeque<u32>,
}

impl Marks {
    fn new(places: usize) -> Marks {
        Marks { marked: vec![false; places], order: std::collections::VecDeque::with_capacity(places) }
    }

    fn mark(&mut self, place: usize) {
        if !self.marked[place] {
            self.marked[place] = true;
            self.order.push_back(place as u32);
        }
    }

    fn take(&mut self) -> Option<u32> {
        let place = self.order.pop_front()?;
        self.marked[place as usize] = false;
        Some(place)
    }
}

/// What there is to publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The state of a sensor.
    Sensor(SensorIndex),
    /// The state of a device.
    Device(DeviceIndex),
}

impl Board {
    /// A board on which nothing has been read yet.
    pub fn new(registry: Arc<Registry>) -> Board {
        let sensors = registry.sensors().len();
        let devices = registry.devices().len();
        let inner = Inner {
            sensors: (0..sensors).map(|_| Slot::default()).collect(),
            devices: vec![DeviceState::default(); devices],
            unpublished_sensors: Marks::new(sensors),
            unpublished_devices: Marks::new(devices),
        };
        let meters = Meters::new(&registry, clock::instant());
        Board { registry, inner: Mutex::new(inner), changed: Notify::new(), meters }
    }

    /// What is counted of the work on the plant.
    pub fn meters(&self) -> &Meters {
        &self.meters
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes an answer for a sensor. It is marked for publishing when it says something new, or when the last mark is older
    /// than `at_least_every`. False if the sample came too far from the last one, and was taken as a failure.
    pub fn sensor_answered(&self, index: SensorIndex, sample: Sample, at_least_every: Duration) -> bool {
        let now = sample.read_at().instant;
        let rules = &self.registry.sensor(index).rules;
        let mut inner = self.lock();
        let slot = &mut inner.sensors[index.place()];
        if !slot.state.admits(&sample, rules.max_rate) {
            drop(inner);
            self.sensor_failed(index, Fault::Jumped, sample.read_at());
            return false;
        }
        let stays =
            |value: &Value| rules.dead_band.is_some_and(|band| !sample.at(now).value().is_further_than(value, band));
        let known = slot.state.fresh(now, Duration::MAX).is_ok_and(|last| {
            let in_band = slot.published.as_ref().is_some_and(stays) && last.in_range() == sample.at(now).in_range();
            in_band || last.says_the_same(&sample)
        });
        let due = slot.marked_at.is_none_or(|then| now.saturating_duration_since(then) >= at_least_every);
        slot.state.answered(sample);
        if !known || due || slot.shown_stale {
            self.mark_sensor(&mut inner, index, now);
        }
        true
    }

    /// Takes a failure for a sensor, and marks it when the failure is another than before.
    pub fn sensor_failed(&self, index: SensorIndex, fault: Fault, at: Stamp) {
        let mut inner = self.lock();
        let slot = &mut inner.sensors[index.place()];
        let known = slot.state.fault() == Some(fault);
        slot.state.failed(fault, at);
        if !known {
            self.mark_sensor(&mut inner, index, at.instant);
        }
    }

    /// Marks every sensor whose value has grown older than its `max_age` since it was published.
    ///
    /// A link that hangs would otherwise leave a good reading retained on the broker.
    pub fn mark_stale(&self, now: Instant) {
        let mut inner = self.lock();
        for (index, sensor) in self.registry.sensors() {
            let slot = &mut inner.sensors[index.place()];
            let stale = matches!(slot.state.fresh(now, sensor.max_age), Err(NoValueNow::Stale { .. }));
            if stale && !slot.shown_stale {
                self.mark_sensor(&mut inner, index, now);
                inner.sensors[index.place()].shown_stale = true;
            }
        }
    }

    fn mark_sensor(&self, inner: &mut Inner, index: SensorIndex, now: Instant) {
        let slot = &mut inner.sensors[index.place()];
        slot.marked_at = Some(now);
        slot.shown_stale = false;
        inner.unpublished_sensors.mark(index.place());
        self.changed.notify_one();
    }

    /// Changes the state of a device, and marks it when its status changed in a way that is published.
    pub fn update_device(&self, index: DeviceIndex, at: Stamp, change: impl FnOnce(&mut DeviceState)) {
        let mut inner = self.lock();
        let state = &mut inner.devices[index.place()];
        let before = state.status;
        let revealed = |state: &DeviceState| {
            (state.refused.clone(), state.learnt_max_registers, state.learnt_max_bits, state.identity.clone())
        };
        let revealed_before = revealed(state);
        change(state);
        if std::mem::discriminant(&before) != std::mem::discriminant(&state.status) {
            state.since = Some(at);
        }
        if before != state.status || revealed_before != revealed(state) {
            inner.unpublished_devices.mark(index.place());
            self.changed.notify_one();
        }
    }

    /// Looks at a sensor's state under the lock; keep it short.
    pub fn look<T>(&self, index: SensorIndex, look: impl FnOnce(&SensorState) -> T) -> T {
        look(&self.lock().sensors[index.place()].state)
    }

    /// The state of a device.
    pub fn device(&self, index: DeviceIndex) -> DeviceState {
        self.lock().devices[index.place()].clone()
    }

    /// When the sensor's device will be tried again, if it is offline and that is known.
    pub fn next_try(&self, index: DeviceIndex) -> Option<Instant> {
        match self.lock().devices[index.place()].status {
            DeviceStatus::Offline { next_try, .. } => next_try,
            _ => None,
        }
    }

    /// Marks everything, so that the present state is published: after the broker came (back).
    pub fn mark_all(&self) {
        let mut inner = self.lock();
        for place in 0..inner.devices.len() {
            inner.unpublished_devices.mark(place);
        }
        for place in 0..inner.sensors.len() {
            inner.unpublished_sensors.mark(place);
        }
        self.changed.notify_one();
    }

    /// Takes the next change to publish; devices first. Waits until there is one.
    pub async fn next_change(&self) -> Change {
        loop {
            if let Some(change) = self.try_next_change() {
                return change;
            }
            self.changed.notified().await;
        }
    }

    /// Takes the next change to publish, if there is one.
    pub fn try_next_change(&self) -> Option<Change> {
        let mut inner = self.lock();
        if let Some(place) = inner.unpublished_devices.take() {
            return Some(Change::Device(DeviceIndex(place)));
        }
        let index = SensorIndex(inner.unpublished_sensors.take()?);
        if self.registry.sensor(index).rules.dead_band.is_some() {
            let slot = &mut inner.sensors[index.place()];
            slot.published = slot.state.last_value().cloned();
        }
        Some(Change::Sensor(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modbus::words::{DataType, WordOrder};
    use crate::sim::sample;

    /// Answers a sensor with these tenths, one a second, and says which of them were to be published.
    fn published(change: impl Fn(&mut crate::registry::rules::Rules), tenths: &[u16]) -> Vec<bool> {
        let mut registry = Registry::default();
        for (_, link) in sample::registry().links().take(1) {
            let link = crate::registry::Link { devices: Vec::new(), ..link.clone() };
            registry.add_link(link).expect("a new name");
        }
        for (_, device) in sample::registry().devices().take(1) {
            let device = crate::registry::Device { sensors: Vec::new(), ..device.clone() };
            registry.add_device(device).expect("a new name");
        }
        let mut sensor = sample::sensor("A_LINE1_001", DataType::I16, WordOrder::Abcd);
        sensor.read.scaling =
            crate::quantity::Scaling::new("0.1".parse().expect("a scale"), 0.into()).expect("a scaling");
        change(&mut sensor.rules);
        let index = registry.add_sensor(sensor).expect("a new name");
        let board = Board::new(Arc::new(registry));
        let start = crate::clock::now();
        let answer = |(second, tenth): (usize, &u16)| {
            let ahead = Duration::from_secs(second as u64);
            let at = Stamp { instant: start.instant + ahead, wall: start.wall + ahead };
            let sample = board.registry.sensor(index).interpret(&[*tenth], at).expect("a value");
            board.sensor_answered(index, sample, Duration::from_secs(60));
            board.try_next_change().is_some()
        };
        tenths.iter().enumerate().map(answer).collect()
    }

    #[test]
    fn a_dead_band_counts_from_what_was_last_published_and_not_from_the_last_read() {
        let band = |rules: &mut crate::registry::rules::Rules| rules.dead_band = "0.2".parse().ok();
        assert_eq!(
            published(band, &[100, 101, 102, 103, 103, 101, 100]),
            [true, false, false, true, false, false, true],
            "a slow drift is published, too"
        );
        assert_eq!(published(|_| (), &[100, 101, 101, 102]), [true, true, false, true]);
        assert_eq!(published(band, &[100; 61]).iter().filter(|published| **published).count(), 2, "and once a minute");
    }

    #[test]
    fn a_leap_is_published_as_a_failure_and_its_confirmation_as_a_value() {
        let rate = |rules: &mut crate::registry::rules::Rules| rules.max_rate = "1".parse().ok();
        assert_eq!(published(rate, &[100, 500, 500, 500]), [true, true, true, false]);
    }
}
