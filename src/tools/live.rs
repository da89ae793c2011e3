//! A live value: from the board while it is fresh enough, else by one read more, else a typed reason.

use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::answer::ToolError;
use super::arguments::Arguments;
use super::offline::{Place, SensorOfflineError, explain};
use super::{Call, Toolbox};
use crate::clock;
use crate::field::handle::RefreshError;
use crate::gate::wire;
use crate::registry::SensorIndex;
use crate::registry::reading::{Aged, DeviceStatus, NoValueNow, SensorState, Stamp};

/// How a call wants its values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wish {
    /// Unscaled, as the device has them.
    pub raw: bool,
    /// The oldest that will do; no older than the registry allows, whatever is wished.
    pub max_age: Option<Duration>,
}

/// A value fit for an answer.
#[derive(Debug)]
pub struct Live {
    /// The reading as the contract has it.
    pub reading: Map<String, Value>,
    /// When the device answered.
    pub read_at: Stamp,
    /// Whether the device answered after the call had arrived.
    pub fresh: bool,
    /// Reads that the call asked for.
    pub attempts: u32,
}

impl Wish {
    /// The wish in a call's arguments.
    pub fn of(arguments: &Arguments) -> Wish {
        let max_age = arguments.integer("max_age_ms").and_then(|millis| u64::try_from(millis).ok());
        Wish { raw: arguments.word("unit") == Some("raw"), max_age: max_age.map(Duration::from_millis) }
    }
}

impl Live {
    /// `fresh` or `polled`.
    pub fn source(&self) -> &'static str {
        if self.fresh { "fresh" } else { "polled" }
    }

    /// The reading, with its age as of now.
    pub fn into_reading(mut self, now: Stamp) -> Map<String, Value> {
        let age = now.instant.saturating_duration_since(self.read_at.instant);
        self.reading.insert("age_ms".into(), millis(age).into());
        self.reading
    }
}

impl Toolbox {
    /// The live value of a sensor, by the call's deadline.
    ///
    /// A device that is left alone until its next try is not asked again by a call: its silence would cost the others on the
    /// line the time of every such call.
    pub(super) async fn read_live(&self, index: SensorIndex, wish: Wish, call: &Call) -> Result<Live, ToolError> {
        if let Some(live) = self.look(index, wish, call)? {
            return Ok(live);
        }
        if let Some(error) = self.resting(index) {
            return Err(error.with("attempts", 0));
        }
        let place = Place::of(&self.config.registry, index);
        let deadline = answer_by(call);
        if clock::instant() >= deadline {
            return Err(place.too_late().with("attempts", 0));
        }
        let asked = self.field.refresh(index, deadline).await;
        if let Some(live) = self.look(index, wish, call)? {
            return Ok(Live { attempts: 1, ..live });
        }
        let error = match asked {
            Err(RefreshError::Full) => return Err(place.too_many_calls().with("attempts", 0)),
            Err(RefreshError::Deadline | RefreshError::Stopping) => {
                self.why_not(index, wish).unwrap_or_else(|| place.too_late())
            }
            Ok(()) => {
                let error = self.why_not(index, wish).or_else(|| self.offline(index));
                error.unwrap_or_else(|| place.internal("the link left no result of its read"))
            }
        };
        Err(error.with("attempts", 1))
    }

    /// The value on the board, if it will do.
    fn look(&self, index: SensorIndex, wish: Wish, call: &Call) -> Result<Option<Live>, ToolError> {
        let now = clock::now();
        self.board.look(index, |state| {
            let Ok(aged) = state.fresh(now.instant, self.config.registry.sensor(index).max_age) else {
                return Ok(None);
            };
            let fresh = aged.read_at().instant >= call.arrived;
            if !fresh && aged.age() > self.allowed(index, wish) {
                return Ok(None);
            }
            let mut reading = wire::reading_json(&self.config.registry, index, state, now);
            if wish.raw {
                self.put_raw(&mut reading, index, &aged)?;
            }
            Ok(Some(Live { reading, read_at: aged.read_at(), fresh, attempts: 0 }))
        })
    }

    fn allowed(&self, index: SensorIndex, wish: Wish) -> Duration {
        let most = self.config.registry.sensor(index).max_age;
        wish.max_age.map_or(most, |wished| wished.min(most))
    }

    fn put_raw(&self, reading: &mut Map<String, Value>, index: SensorIndex, aged: &Aged<'_>) -> Result<(), ToolError> {
        let registry = &self.config.registry;
        let raw = registry.sensor(index).raw_value(aged.words());
        let value =
            raw.ok_or_else(|| Place::of(registry, index).internal("the board keeps other words than a read gives"))?;
        reading.remove("number");
        reading.insert("value".into(), value.to_json());
        reading.insert("unit".into(), "raw".into());
        Ok(())
    }

    /// The error at once, if the device is left alone for now. What was never tried is tried.
    fn resting(&self, index: SensorIndex) -> Option<ToolError> {
        let now = clock::instant();
        let next_try = self.board.next_try(self.config.registry.sensor(index).device)?;
        let tried = self.board.look(index, |state| !matches!(missing(state, now), NoValueNow::NeverRead));
        if tried && next_try > now { self.offline(index) } else { None }
    }

    /// The error for a sensor whose device is offline, whatever the sensor itself last said.
    fn offline(&self, index: SensorIndex) -> Option<ToolError> {
        let registry = &self.config.registry;
        let sensor = registry.sensor(index);
        let now = clock::now();
        let device = self.board.device(sensor.device);
        let DeviceStatus::Offline { cause, next_try } = device.status else { return None };
        let last_good = self.board.look(index, |state| {
            let (NoValueNow::Stale { last } | NoValueNow::Failed { last: Some(last), .. }) =
                missing(state, now.instant)
            else {
                return None;
            };
            Some(wire::last_good_json(sensor, &last))
        });
        let since = device.since.unwrap_or(now);
        let place = Place::of(registry, index);
        Some(SensorOfflineError::Unreachable { place, cause, since, next_try, last_good, now }.into())
    }

    /// Why the board has no value that will do; `None` where it knows nothing yet.
    fn why_not(&self, index: SensorIndex, wish: Wish) -> Option<ToolError> {
        let registry = &self.config.registry;
        let device = self.board.device(registry.sensor(index).device);
        let now = clock::now();
        let allowed = self.allowed(index, wish);
        self.board.look(index, |state| {
            let missing = missing(state, now.instant);
            explain(registry, index, &missing, &device, allowed, now)
        })
    }
}

/// A value on the board that will not do is an old one, by however little.
fn missing(state: &SensorState, now: Instant) -> NoValueNow<'_> {
    match state.fresh(now, Duration::MAX) {
        Ok(last) => NoValueNow::Stale { last },
        Err(missing) => missing,
    }
}

/// A little before the deadline, so that the typed answer still arrives in time.
fn answer_by(call: &Call) -> Instant {
    const LONGEST_MARGIN: Duration = Duration::from_millis(50);
    let whole = call.deadline.saturating_duration_since(call.arrived);
    call.deadline.checked_sub((whole / 10).min(LONGEST_MARGIN)).unwrap_or(call.deadline)
}

/// Whole milliseconds.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
