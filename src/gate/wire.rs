//! The JSON that leaves the gateway (contract, sections 2 and 4). The version stands in the topic: `fieldgate/v1/…`.
//!
//! Pure functions of a state and a moment, so that topics, tool results and tests have one shape from one place. A value
//! comes out of here only while it is fresh; an old one stands apart, under `last_good`, with its own time.

mod members;

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};

use self::members::{Member, Members, Shape, Told, member};
use crate::board::Board;
use crate::clock::{Rfc3339, rfc3339, wall_of};
use crate::ids::GatewayId;
use crate::modbus::words::DataType;
use crate::registry::reading::{
    Aged, DeviceState, DeviceStatus, Fault, Identity, NoValueNow, RefusedSensor, SensorState, Stamp,
};
use crate::registry::{DeviceIndex, Registry, Sensor, SensorIndex};

/// A reading as topics and tool results have it (contract, section 4): the one definition of its members and their order.
///
/// `value` is set for `good` and for `uncertain/out_of_range`, and null for everything else. What is not fresh has `since`
/// when it failed, and `last_good` where there was ever a value.
#[derive(Clone, Debug)]
pub struct Reading<'a> {
    sensor: &'a Sensor,
    quality: Quality,
    reason: Option<&'static str>,
    /// The value, where it is fresh.
    fresh: Option<Aged<'a>>,
    /// What is known of the last value, where there is none now.
    missing: Option<Missing<'a>>,
}

#[derive(Clone, Debug)]
struct Missing<'a> {
    since: Option<Stamp>,
    last: Option<Aged<'a>>,
}

impl Shape for Reading<'_> {
    fn tell<M: Members>(&self, to: &mut M) -> Result<(), M::Error> {
        let fresh = self.fresh.as_ref();
        let known = fresh.or(self.missing.as_ref().and_then(|missing| missing.last.as_ref()));
        member!(to, "sensor_id", Member::Plain(self.sensor.id.as_str()));
        member!(to, "value", Member::or_null(fresh, |fresh| Member::Number(fresh.value())));
        put_number(to, self.sensor, fresh)?;
        member!(to, "unit", Member::or_null(unit(self.sensor), Member::Text));
        member!(to, "type", Member::Plain(type_name(self.sensor.read.encoding.data_type)));
        member!(to, "max_age_ms", Member::Count(millis(self.sensor.max_age)));
        member!(to, "quality", Member::Plain(self.quality.name()));
        member!(to, "reason", Member::or_null(self.reason, Member::Plain));
        member!(to, "status", Member::Plain(self.quality.status()));
        member!(to, "timestamp", Member::or_null(fresh, |fresh| time_of(fresh.read_at())));
        member!(to, "age_ms", Member::or_null(fresh, |fresh| Member::Count(millis(fresh.age()))));
        member!(to, "raw", Member::or_null(fresh, |fresh| Member::Words(fresh.words())));
        member!(to, "seq", Member::or_null(known, |known| Member::Count(known.seq())));
        let Some(missing) = &self.missing else { return Ok(()) };
        member!(to, "since", Member::or_null(missing.since, time_of));
        let last = missing.last.as_ref().map(|last| LastGood { sensor: self.sensor, last });
        to.put_object("last_good", "\"last_good\":", last.as_ref())
    }
}

fn time_of<'a>(stamp: Stamp) -> Member<'a> {
    Member::Time(Rfc3339::of(stamp.wall))
}

impl<'a> Reading<'a> {
    /// What a sensor's state says now.
    pub fn of(sensor: &'a Sensor, state: &'a SensorState, now: Stamp) -> Reading<'a> {
        match state.fresh(now.instant, sensor.max_age) {
            Ok(fresh) => Reading::with_value(sensor, fresh),
            Err(missing) => Reading::without_value(sensor, missing),
        }
    }

    fn with_value(sensor: &'a Sensor, fresh: Aged<'a>) -> Reading<'a> {
        let (quality, reason) =
            if fresh.in_range() { (Quality::Good, None) } else { (Quality::Uncertain, Some("out_of_range")) };
        Reading { sensor, quality, reason, fresh: Some(fresh), missing: None }
    }

    fn without_value(sensor: &'a Sensor, missing: NoValueNow<'a>) -> Reading<'a> {
        let (quality, reason, since, last) = match missing {
            NoValueNow::NeverRead => (Quality::Bad, "no_data", None, None),
            NoValueNow::Stale { last } => (Quality::Uncertain, "stale", None, Some(last)),
            NoValueNow::Failed { fault, since, last } => {
                (quality_of(fault), fault.reason(last.is_some()), Some(since), last)
            }
        };
        Reading { sensor, quality, reason: Some(reason), fresh: None, missing: Some(Missing { since, last }) }
    }

    /// Writes it as JSON text.
    pub fn write(&self, text: &mut Vec<u8>) {
        members::write(self, text);
    }
}

/// Writes all readings of a device as JSON text; the board gives each sensor's state.
pub fn write_readings(registry: &Registry, device: DeviceIndex, board: &Board, now: Stamp, text: &mut Vec<u8>) {
    let device = registry.device(device);
    text.extend_from_slice(b"{\"device\":\"");
    text.extend_from_slice(device.id.as_str().as_bytes());
    text.extend_from_slice(b"\",\"as_of\":\"");
    text.extend_from_slice(Rfc3339::of(now.wall).as_str().as_bytes());
    text.extend_from_slice(b"\",\"readings\":[");
    for (place, index) in device.sensors.iter().enumerate() {
        if place > 0 {
            text.push(b',');
        }
        board.look(*index, |state| Reading::of(registry.sensor(*index), state, now).write(text));
    }
    text.extend_from_slice(b"]}");
}

/// A reading as a JSON object, for answers that add to it.
pub fn reading_json(registry: &Registry, index: SensorIndex, state: &SensorState, now: Stamp) -> Map<String, Value> {
    into_map(&Reading::of(registry.sensor(index), state, now))
}

/// Beside a name, or the names of flags, the number that the device has for it. Left out unless the sensor's numbers have names.
fn put_number<M: Members>(to: &mut M, sensor: &Sensor, aged: Option<&Aged<'_>>) -> Result<(), M::Error> {
    let number = sensor.rules.names.as_ref().and_then(|_| aged?.value().number());
    if let Some(number) = number {
        member!(to, "number", Member::Number(&number));
    }
    Ok(())
}

/// The last value of a sensor that has none now: no answer, but a hint for people, with its own time.
///
/// `quality` is added where the value was out of range even then.
struct LastGood<'a> {
    sensor: &'a Sensor,
    last: &'a Aged<'a>,
}

impl Shape for LastGood<'_> {
    fn tell<M: Members>(&self, to: &mut M) -> Result<(), M::Error> {
        member!(to, "value", Member::Number(self.last.value()));
        put_number(to, self.sensor, Some(self.last))?;
        member!(to, "unit", Member::or_null(unit(self.sensor), Member::Text));
        member!(to, "timestamp", time_of(self.last.read_at()));
        member!(to, "age_ms", Member::Count(millis(self.last.age())));
        if !self.last.in_range() {
            member!(to, "quality", Member::Plain(Quality::Uncertain.name()));
        }
        Ok(())
    }
}

/// The last value of a sensor as a JSON object, for errors.
pub fn last_good_json(sensor: &Sensor, last: &Aged<'_>) -> Map<String, Value> {
    into_map(&LastGood { sensor, last })
}

/// Objects of texts and numbers: they cannot fail to be written.
fn into_map(shape: &impl Shape) -> Map<String, Value> {
    match serde_json::to_value(Told(shape)) {
        Ok(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

/// How far a reading can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quality {
    Good,
    Uncertain,
    Bad,
}

impl Quality {
    fn name(self) -> &'static str {
        match self {
            Quality::Good => "good",
            Quality::Uncertain => "uncertain",
            Quality::Bad => "bad",
        }
    }

    /// The one word for readers that look no further.
    fn status(self) -> &'static str {
        match self {
            Quality::Good => "ok",
            Quality::Uncertain => "uncertain",
            Quality::Bad => "error",
        }
    }
}

fn quality_of(fault: Fault) -> Quality {
    match fault {
        Fault::Busy(_) | Fault::Frozen => Quality::Uncertain,
        Fault::Offline(_) | Fault::Refused(_) | Fault::DeviceFailed(_) => Quality::Bad,
        Fault::NoValue | Fault::NotANumber | Fault::Implausible | Fault::Jumped => Quality::Bad,
    }
}

/// The name of a type in configurations and readings (contract, section 1).
pub fn type_name(data_type: DataType) -> &'static str {
    data_type.name()
}

fn unit(sensor: &Sensor) -> Option<&str> {
    Some(sensor.unit.as_str()).filter(|text| !text.is_empty())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A device's state, as `device/{device}/status` has it.
pub fn device_status_json(
    registry: &Registry,
    index: DeviceIndex,
    state: &DeviceState,
    now: Stamp,
) -> Map<String, Value> {
    let device = registry.device(index);
    let (reason, scope, next_try) = match state.status {
        DeviceStatus::Online => (None, None, None),
        DeviceStatus::Degraded => (Some("some_sensors_have_no_value"), None, None),
        DeviceStatus::Unknown => (Some("initial"), None, None),
        DeviceStatus::Offline { cause, next_try } => {
            let scope = if cause.concerns_the_link() { "link" } else { "device" };
            (Some(cause.name()), Some(scope), next_try)
        }
    };
    let time = |stamp: Option<Stamp>| stamp.map(|stamp| rfc3339(stamp.wall));
    let mut object = Map::new();
    object.insert("device".into(), device.id.as_str().into());
    object.insert("link".into(), registry.link(device.link).id.as_str().into());
    object.insert("status".into(), state.status.name().into());
    object.insert("reason".into(), reason.into());
    object.insert("scope".into(), scope.into());
    object.insert("since".into(), time(state.since).into());
    object.insert("next_try".into(), next_try.map(|moment| rfc3339(wall_of(moment, now))).into());
    object.insert("last_answer".into(), time(state.last_answer).into());
    let refused = state.refused.iter().map(|refused| refused_json(registry, refused, now));
    object.insert("refused".into(), refused.collect());
    object.insert("identity".into(), state.identity.as_deref().map(identity_json).into());
    object.insert("learnt_max_registers".into(), state.learnt_max_registers.into());
    object.insert("learnt_max_bits".into(), state.learnt_max_bits.into());
    object.insert("as_of".into(), rfc3339(now.wall).into());
    object
}

fn identity_json(identity: &Identity) -> Value {
    let Identity { vendor, product, revision } = identity;
    serde_json::json!({"vendor": vendor, "product": product, "revision": revision})
}

/// A sensor that its device refuses, and that is tried again at its time.
fn refused_json(registry: &Registry, refused: &RefusedSensor, now: Stamp) -> Value {
    serde_json::json!({
        "sensor_id": registry.sensor(refused.sensor).id.as_str(), "reason": refused.fault.reason(false),
        "next_try": rfc3339(wall_of(refused.next_try, now)),
    })
}

/// What the gateway says of itself on `status`.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayStatus<'a> {
    /// Its name.
    pub gateway: &'a GatewayId,
    /// Online, or why not.
    pub presence: Presence,
    /// A new text at each start.
    pub boot_id: &'a str,
    /// The version of the program.
    pub version: &'a str,
    /// When the daemon started.
    pub started: SystemTime,
    /// Whether the kernel says that its clock follows a time source.
    pub clock_synchronised: bool,
    /// After how long without a new one an `online` is not to be believed any more, halved.
    pub renewed_every: Duration,
}

/// Whether the gateway is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is, with this session.
    Online {
        /// When the session came up.
        since: SystemTime,
        /// When this was said.
        as_of: SystemTime,
    },
    /// It was stopped in order.
    Stopped {
        /// When.
        at: SystemTime,
    },
    /// The broker lost it. Said by the will, which is written before it is known when that will be.
    Lost,
}

/// The gateway's state, as `status` has it.
pub fn status_json(status: &GatewayStatus<'_>) -> Value {
    let (word, reason, since, as_of) = match status.presence {
        Presence::Online { since, as_of } => ("online", None, Some(since), Some(as_of)),
        Presence::Stopped { at } => ("offline", Some("stopped"), Some(at), Some(at)),
        Presence::Lost => ("offline", Some("connection_lost"), None, None),
    };
    json!({
        "gateway": status.gateway.as_str(),
        "status": word,
        "reason": reason,
        "since": since.map(rfc3339),
        "as_of": as_of.map(rfc3339),
        "boot_id": status.boot_id,
        "version": status.version,
        "started": rfc3339(status.started),
        "clock": if status.clock_synchronised { "synchronised" } else { "unsynchronised" },
        "renewed_every_ms": millis(status.renewed_every),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::gate::testing;
    use crate::modbus::exception::ExceptionCode;
    use crate::quantity::{Finite, Value as Number};
    use crate::registry::reading::{OfflineCause, Sample};

    const WALL: Duration = Duration::from_millis(1_796_030_102_381);

    fn start() -> Stamp {
        Stamp { instant: Instant::now(), wall: SystemTime::UNIX_EPOCH + WALL }
    }

    fn after(stamp: Stamp, millis: u64) -> Stamp {
        let ahead = Duration::from_millis(millis);
        Stamp { instant: stamp.instant + ahead, wall: stamp.wall + ahead }
    }

    fn sample(in_range: bool, at: Stamp) -> Sample {
        let value = Number::Float(Finite::from_f32(47.3).expect("finite"));
        Sample::new(value, &[0x423D, 0x3333], in_range, at)
    }

    fn check(state: &SensorState, now: Stamp, expected: Value) {
        let registry = testing::registry();
        let index = registry.find_sensor("A_LINE1_042").expect("known");
        assert_eq!(Value::Object(reading_json(&registry, index, state, now)), expected);
    }

    #[test]
    fn a_fresh_reading_has_the_shape_of_the_contract() {
        let read = start();
        let mut state = SensorState::default();
        state.answered(sample(true, read));
        let expected = json!({
            "sensor_id": "A_LINE1_042", "value": 47.3, "unit": "°C", "type": "f32",
            "quality": "good", "reason": null, "timestamp": "2026-11-30T09:15:02.381Z", "age_ms": 212,
            "max_age_ms": 3000, "status": "ok", "raw": ["0x423D", "0x3333"], "seq": 1
        });
        check(&state, after(read, 212), expected);
    }

    #[test]
    fn a_value_out_of_range_is_kept_and_called_uncertain() {
        let read = start();
        let mut state = SensorState::default();
        state.answered(sample(false, read));
        let expected = json!({
            "sensor_id": "A_LINE1_042", "value": 47.3, "unit": "°C", "type": "f32",
            "quality": "uncertain", "reason": "out_of_range", "timestamp": "2026-11-30T09:15:02.381Z", "age_ms": 0,
            "max_age_ms": 3000, "status": "uncertain", "raw": ["0x423D", "0x3333"], "seq": 1
        });
        check(&state, read, expected);
    }

    #[test]
    fn an_old_value_is_never_handed_out_as_the_value() {
        let read = start();
        let mut state = SensorState::default();
        state.answered(sample(true, read));
        let expected = json!({
            "sensor_id": "A_LINE1_042", "value": null, "unit": "°C", "type": "f32",
            "quality": "uncertain", "reason": "stale", "timestamp": null, "age_ms": null,
            "max_age_ms": 3000, "status": "uncertain", "raw": null, "seq": 1, "since": null,
            "last_good": {"value": 47.3, "unit": "°C", "timestamp": "2026-11-30T09:15:02.381Z", "age_ms": 3001}
        });
        check(&state, after(read, 3001), expected);
    }

    #[test]
    fn an_unreachable_sensor_has_a_reason_and_keeps_its_last_value_apart() {
        let read = start();
        let mut state = SensorState::default();
        state.answered(sample(false, read));
        state.failed(Fault::Offline(OfflineCause::ConnectedButSilent), after(read, 1000));
        let expected = json!({
            "sensor_id": "A_LINE1_042", "value": null, "unit": "°C", "type": "f32",
            "quality": "bad", "reason": "comm_failure", "timestamp": null, "age_ms": null,
            "max_age_ms": 3000, "status": "error", "raw": null, "seq": 1, "since": "2026-11-30T09:15:03.381Z",
            "last_good": {"value": 47.3, "unit": "°C", "timestamp": "2026-11-30T09:15:02.381Z", "age_ms": 1500,
                "quality": "uncertain"}
        });
        check(&state, after(read, 1500), expected);
    }

    #[test]
    fn a_sensor_that_never_answered_has_no_data() {
        let now = start();
        let mut expected = json!({
            "sensor_id": "A_LINE1_042", "value": null, "unit": "°C", "type": "f32",
            "quality": "bad", "reason": "no_data", "timestamp": null, "age_ms": null,
            "max_age_ms": 3000, "status": "error", "raw": null, "seq": null, "since": null, "last_good": null
        });
        let mut state = SensorState::default();
        check(&state, now, expected.clone());
        state.failed(Fault::Offline(OfflineCause::Refused), now);
        expected["since"] = "2026-11-30T09:15:02.381Z".into();
        check(&state, now, expected);
    }

    #[test]
    fn every_fault_has_its_quality() {
        let registry = testing::registry();
        let index = registry.find_sensor("A_LINE1_042").expect("known");
        let now = start();
        let check = |fault: Fault, quality: &str, reason: &str| {
            let mut state = SensorState::default();
            state.failed(fault, now);
            let object = reading_json(&registry, index, &state, now);
            assert_eq!((object["quality"].as_str(), object["reason"].as_str()), (Some(quality), Some(reason)));
            assert_eq!(object["value"], Value::Null);
        };
        check(Fault::Busy(ExceptionCode::SERVER_DEVICE_BUSY), "uncertain", "device_busy");
        check(Fault::Refused(ExceptionCode::ILLEGAL_DATA_ADDRESS), "bad", "config_error");
        check(Fault::DeviceFailed(ExceptionCode(4)), "bad", "device_failure");
        check(Fault::NoValue, "bad", "sensor_failure");
        check(Fault::NotANumber, "bad", "sensor_failure");
        check(Fault::Implausible, "bad", "sensor_failure");
        check(Fault::Jumped, "bad", "sensor_failure");
        check(Fault::Frozen, "uncertain", "stale");
    }

    #[test]
    fn a_device_says_why_it_is_offline_and_when_it_is_tried_again() {
        let registry = testing::registry();
        let index = registry.find_device("press-plc").expect("known");
        let now = start();
        let next_try = Some(now.instant + Duration::from_secs(8));
        let state = DeviceState {
            status: DeviceStatus::Offline { cause: OfflineCause::Refused, next_try },
            since: Some(now),
            ..DeviceState::default()
        };
        let expected = json!({
            "device": "press-plc", "link": "press-tcp", "status": "offline", "reason": "refused", "scope": "link",
            "since": "2026-11-30T09:15:02.381Z", "next_try": "2026-11-30T09:15:10.381Z", "last_answer": null,
            "refused": [], "identity": null, "learnt_max_registers": null, "learnt_max_bits": null, "as_of": "2026-11-30T09:15:02.381Z"
        });
        assert_eq!(Value::Object(device_status_json(&registry, index, &state, now)), expected);
    }

    #[test]
    fn the_will_does_not_invent_a_time() {
        let gateway = "gw-line1".parse().expect("a name");
        let mut status = GatewayStatus {
            gateway: &gateway,
            presence: Presence::Lost,
            boot_id: "00ff",
            version: "0.1.0",
            started: SystemTime::UNIX_EPOCH + WALL,
            clock_synchronised: false,
            renewed_every: Duration::from_secs(30),
        };
        let mut expected = json!({
            "gateway": "gw-line1", "status": "offline", "reason": "connection_lost", "since": null, "as_of": null,
            "boot_id": "00ff", "version": "0.1.0", "started": "2026-11-30T09:15:02.381Z",
            "clock": "unsynchronised", "renewed_every_ms": 30000
        });
        assert_eq!(status_json(&status), expected);
        let since = status.started;
        status.presence = Presence::Online { since, as_of: since + Duration::from_secs(1) };
        status.clock_synchronised = true;
        expected["status"] = "online".into();
        expected["reason"] = Value::Null;
        expected["since"] = "2026-11-30T09:15:02.381Z".into();
        expected["as_of"] = "2026-11-30T09:15:03.381Z".into();
        expected["clock"] = "synchronised".into();
        assert_eq!(status_json(&status), expected);
    }
}
