//! Why a sensor has no value to give, in the words of the contract (section 5).
//!
//! Pure. An old value never stands in a message; it stands apart, under `last_good`, with its own time.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::answer::{ErrorCode, ToolError};
use crate::clock::{rfc3339, wall_of};
use crate::gate::wire;
use crate::ids::{DeviceId, LinkId, SensorId};
use crate::modbus::Table;
use crate::modbus::exception::ExceptionCode;
use crate::registry::reading::{Aged, DeviceState, DeviceStatus, Fault, NoValueNow, OfflineCause, Stamp};
use crate::registry::{Registry, Sensor, SensorIndex};

/// Why a sensor has no value to give. There is nothing between this and a reading.
#[derive(Debug, thiserror::Error)]
pub enum SensorOfflineError {
    /// Its device cannot be reached.
    #[error("{} has been offline on {} since {}", place.sensor, place.link, clock_time(*since, *now))]
    Unreachable {
        /// Which sensor, and where it is.
        place: Place,
        /// Why not, as far as the gateway can tell.
        cause: OfflineCause,
        /// Since when.
        since: Stamp,
        /// When it will be tried again, if that is known.
        next_try: Option<Instant>,
        /// What it last said.
        last_good: Option<Map<String, Value>>,
        /// When this is said.
        now: Stamp,
    },
    /// Its device answers, but without a value for this sensor.
    #[error("{} has had no value since {}: {} answers {}", place.sensor, clock_time(*since, *now), place.device, lack.words())]
    WithoutValue {
        /// Which sensor, and where it is.
        place: Place,
        /// What the device answers in place of a value.
        lack: Lack,
        /// Since when.
        since: Stamp,
        /// What it last said.
        last_good: Option<Map<String, Value>>,
        /// When this is said.
        now: Stamp,
    },
}

/// What a device answers in place of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Its code for "no value".
    NoValue,
    /// A float that is no number, or bytes that are no text.
    NotANumber,
    /// A value outside of what can be.
    Implausible,
    /// A value too far from the one before.
    Jumped,
    /// That it failed itself while it read the register.
    DeviceFailed(ExceptionCode),
}

impl Lack {
    /// The cause, besides those of [`OfflineCause`].
    pub fn name(self) -> &'static str {
        match self {
            Lack::NoValue => "no_value",
            Lack::NotANumber => "not_a_number",
            Lack::Implausible => "implausible",
            Lack::Jumped => "jumped",
            Lack::DeviceFailed(_) => "device_exception",
        }
    }

    fn words(self) -> String {
        match self {
            Lack::NoValue => "with its code for no value".to_owned(),
            Lack::NotANumber => "with registers that hold no value of the sensor's type".to_owned(),
            Lack::Implausible => "with a value outside of what the plant says can be".to_owned(),
            Lack::Jumped => "with a value further from the last than it can have moved".to_owned(),
            Lack::DeviceFailed(exception) => exception.to_string(),
        }
    }
}

/// Which sensor, and where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The sensor.
    pub sensor: SensorId,
    /// The device that holds it.
    pub device: DeviceId,
    /// The link that leads to the device.
    pub link: LinkId,
    /// How often the device is asked anyway.
    pub poll_every: Duration,
    /// How long one request waits on the link.
    pub timeout: Duration,
}

impl Place {
    /// Where a sensor is.
    pub fn of(registry: &Registry, index: SensorIndex) -> Place {
        let sensor = registry.sensor(index);
        let device = registry.device(sensor.device);
        let link = registry.link(device.link);
        Place {
            sensor: sensor.id.clone(),
            device: device.id.clone(),
            link: link.id.clone(),
            poll_every: device.poll_every,
            timeout: link.timeout,
        }
    }

    /// An error about this sensor.
    pub fn error(&self, code: ErrorCode, message: impl Into<String>, hint: impl Into<String>) -> ToolError {
        ToolError::new(code, message, hint)
            .with("sensor_id", self.sensor.as_str())
            .with("device", self.device.as_str())
            .with("link", self.link.as_str())
    }

    /// After so long the device has been asked again by itself, whatever the plant says of its pace.
    fn until_next_poll(&self) -> Duration {
        self.poll_every.clamp(Duration::from_secs(1), Duration::from_secs(60))
    }

    /// Too many calls wait for the link already.
    pub fn too_many_calls(&self) -> ToolError {
        let message = format!("Too many calls wait for {} already.", self.link);
        let hint = "Nothing was asked of the device. Call again after retry_after_ms, and ask for less at once.";
        self.error(ErrorCode::RateLimited, message, hint).retry_after(self.timeout)
    }

    /// Time ran out before anything was known.
    pub fn too_late(&self) -> ToolError {
        let message = format!("{} did not answer on {} before the call's deadline.", self.device, self.link);
        let hint = "Nothing was changed, and no value was read. Call again after retry_after_ms, with more time.";
        self.error(ErrorCode::DeadlineExceeded, message, hint).retry_after(self.until_next_poll())
    }

    /// The gateway contradicts itself.
    pub fn internal(&self, what: &str) -> ToolError {
        let message = format!("{}: {what}.", self.sensor);
        self.error(ErrorCode::Internal, message, "This is a fault of the gateway; report it. One repeat does no harm.")
    }
}

impl From<SensorOfflineError> for ToolError {
    fn from(offline: SensorOfflineError) -> ToolError {
        let message = format!("{offline}.");
        match offline {
            SensorOfflineError::Unreachable { place, cause, since, next_try, last_good, now } => {
                let scope = if cause.concerns_the_link() { "link" } else { "device" };
                let ahead = next_try.filter(|next_try| *next_try > now.instant);
                let wait = ahead.map_or(place.until_next_poll(), |next_try| next_try - now.instant);
                let hint = match scope {
                    "link" => {
                        "Every sensor on this link is affected. Do not use an older value. Call again after retry_after_ms."
                    }
                    _ => {
                        "Every sensor of this device is affected. Do not use an older value. Call again after retry_after_ms."
                    }
                };
                place
                    .error(ErrorCode::SensorOffline, message, hint)
                    .retry_after(wait)
                    .with("cause", cause.name())
                    .with("scope", scope)
                    .with("offline_since", rfc3339(since.wall))
                    .with("next_try", next_try.map(|next_try| rfc3339(wall_of(next_try, now))))
                    .with("last_good", last_good.map(Value::Object))
            }
            SensorOfflineError::WithoutValue { place, lack, since, last_good, .. } => {
                let hint = "Other sensors of the device may be well. Do not use an older value. Call again after retry_after_ms; \
                            if it stays so, report the sensor.";
                place
                    .error(ErrorCode::SensorOffline, message, hint)
                    .retry_after(place.until_next_poll())
                    .with("cause", lack.name())
                    .with("scope", "sensor")
                    .with("offline_since", rfc3339(since.wall))
                    .with("next_try", Value::Null)
                    .with("last_good", last_good.map(Value::Object))
            }
        }
    }
}

/// Why a sensor has no value to give; `None` where nothing is known of it yet.
pub fn explain(
    registry: &Registry,
    index: SensorIndex,
    missing: &NoValueNow<'_>,
    device: &DeviceState,
    allowed: Duration,
    now: Stamp,
) -> Option<ToolError> {
    let sensor = registry.sensor(index);
    let place = Place::of(registry, index);
    let (fault, since, last) = match missing {
        NoValueNow::NeverRead => return None,
        NoValueNow::Stale { last } => return Some(stale(&place, sensor, last, allowed, now)),
        NoValueNow::Failed { fault, since, last } => (*fault, *since, last.as_ref()),
    };
    let last_good = last.map(|last| wire::last_good_json(sensor, last));
    let without = |lack| SensorOfflineError::WithoutValue {
        place: place.clone(),
        lack,
        since,
        last_good: last_good.clone(),
        now,
    };
    Some(match fault {
        Fault::Offline(cause) => {
            let next_try = match device.status {
                DeviceStatus::Offline { next_try, .. } => next_try,
                _ => None,
            };
            SensorOfflineError::Unreachable { place, cause, since, next_try, last_good, now }.into()
        }
        Fault::NoValue => without(Lack::NoValue).into(),
        Fault::NotANumber => without(Lack::NotANumber).into(),
        Fault::Implausible => without(Lack::Implausible).into(),
        Fault::Jumped => without(Lack::Jumped).into(),
        Fault::Frozen => frozen(&place, since, last_good),
        Fault::DeviceFailed(exception) => without(Lack::DeviceFailed(exception)).into(),
        Fault::Refused(exception) => misconfigured(&place, sensor, exception),
        Fault::Busy(exception) => busy(&place, exception, last_good),
    })
}

/// The device answers, and what it answers may be as old as its heartbeat.
fn frozen(place: &Place, since: Stamp, last_good: Option<Map<String, Value>>) -> ToolError {
    let (sensor, device) = (&place.sensor, &place.device);
    let message = format!("{sensor} has no value now: {device} answers, but its heartbeat stands still.");
    let hint = "What stands before the device serves old registers, and every sensor of the device is affected. Do not use \
                an older value. Call again after retry_after_ms; if it stays so, report the device.";
    place
        .error(ErrorCode::SensorOffline, message, hint)
        .retry_after(place.until_next_poll())
        .with("cause", "frozen")
        .with("scope", "device")
        .with("offline_since", rfc3339(since.wall))
        .with("next_try", Value::Null)
        .with("last_good", last_good.map(Value::Object))
}

fn stale(place: &Place, sensor: &Sensor, last: &Aged<'_>, allowed: Duration, now: Stamp) -> ToolError {
    let message = format!(
        "{} was last read at {}, {} ms ago, and {} ms are allowed.",
        place.sensor,
        clock_time(last.read_at(), now),
        last.age().as_millis(),
        allowed.as_millis()
    );
    let hint = "Do not use the older value. Call again after retry_after_ms; if it stays so, list_devices says how the device is.";
    place
        .error(ErrorCode::StaleData, message, hint)
        .retry_after(place.until_next_poll())
        .with("max_age_ms", u64::try_from(allowed.as_millis()).unwrap_or(u64::MAX))
        .with("last_good", wire::last_good_json(sensor, last))
}

fn misconfigured(place: &Place, sensor: &Sensor, exception: ExceptionCode) -> ToolError {
    let (table, address) = (sensor.read.table, sensor.read.value_address());
    let message =
        format!("{} cannot be read: {} answers {exception} for {table} {address}.", place.sensor, place.device);
    let hint = "The gateway's configuration does not fit the device. A repeat does not help; report this to the plant's engineer.";
    place
        .error(ErrorCode::Misconfigured, message, hint)
        .with("exception_code", exception.0)
        .with("exception_name", exception.name())
        .with("table", table.name())
        .with("address", address)
        .with("reference", reference_number(table, address))
}

fn busy(place: &Place, exception: ExceptionCode, last_good: Option<Map<String, Value>>) -> ToolError {
    let message = format!("{} has no value now: {} answers {exception}.", place.sensor, place.device);
    let hint = "The device works on something else. Do not use an older value. Call again after retry_after_ms.";
    place
        .error(ErrorCode::DeviceBusy, message, hint)
        .retry_after(place.until_next_poll())
        .with("exception_code", exception.0)
        .with("exception_name", exception.name())
        .with("last_good", json!(last_good))
}

/// The number under which manuals list a register: 40101 for holding register 100; six digits from address 9999 on.
pub fn reference_number(table: Table, address: u16) -> u32 {
    let table_digit = match table {
        Table::Coil => 0,
        Table::DiscreteInput => 1,
        Table::Input => 3,
        Table::Holding => 4,
    };
    let digit_value = if address < 9_999 { 10_000 } else { 100_000 };
    table_digit * digit_value + u32::from(address) + 1
}

/// `09:12:40Z`, or with its date where it was not within the last twelve hours.
fn clock_time(moment: Stamp, now: Stamp) -> String {
    let text = rfc3339(moment.wall);
    let near = now.wall.duration_since(moment.wall).is_ok_and(|ago| ago < Duration::from_secs(12 * 3600));
    let from = if near { 11 } else { 0 };
    format!("{}Z", text.get(from..19).unwrap_or(&text).replace('T', " "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn references_count_as_manuals_do() {
        assert_eq!(reference_number(Table::Holding, 100), 40_101);
        assert_eq!(reference_number(Table::Input, 0), 30_001);
        assert_eq!(reference_number(Table::DiscreteInput, 0), 10_001);
        assert_eq!(reference_number(Table::Coil, 0), 1);
        assert_eq!(reference_number(Table::Holding, 9_998), 49_999);
        assert_eq!(reference_number(Table::Holding, 9_999), 410_000);
        assert_eq!(reference_number(Table::Holding, 65_535), 465_536);
    }

    #[test]
    fn a_time_long_ago_has_its_date() {
        let wall = SystemTime::UNIX_EPOCH + Duration::from_millis(1_796_030_102_381);
        let moment = Stamp { instant: Instant::now(), wall };
        let after = |hours: u64| Stamp { wall: wall + Duration::from_secs(hours * 3600), ..moment };
        assert_eq!(clock_time(moment, after(1)), "09:15:02Z");
        assert_eq!(clock_time(moment, after(13)), "2026-11-30 09:15:02Z");
    }
}
