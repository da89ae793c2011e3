//! `list_devices`: which devices there are, and whether they answer.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::arguments::Arguments;
use super::list_sensors::{CURSOR, LIMIT, limit};
use super::live::millis;
use super::page;
use super::spec::{Literal, Param, ParamKind, ToolSpec, Toolset, into_object};
use super::{Answer, ToolName, Toolbox, output};
use crate::clock;
use crate::gate::wire;
use crate::metrics::Outcome;
use crate::registry::DeviceIndex;
use crate::registry::reading::{DeviceState, DeviceStatus, Stamp};

pub(super) const SPEC: ToolSpec = ToolSpec {
    name: ToolName::ListDevices,
    title: "List devices",
    summary: "Lists devices with their state: online, degraded or offline, why, since when, and when they are tried again.",
    description: "Lists the devices of this gateway in pages, with their state: online, degraded (it answers, but some of its \
                  sensors have no value) or offline, with reason, since when, and when it is tried again. Use it after \
                  SENSOR_OFFLINE to see how far a fault reaches, or to see what is wrong in the plant: \
                  its counters say how the requests to a device ended since the start of the gateway, and latency_ms how \
                  long its last few thousand answers took. It asks no device \
                  and gives no values: use get_sensor_reading for those, and list_sensors for the sensors of a device. For \
                  the gateway itself use get_gateway_status.",
    toolset: Toolset::Devices,
    params: &[
        Param {
            name: "status",
            kind: ParamKind::Enum(&["online", "degraded", "offline"]),
            required: false,
            description: "List only the devices in this state.",
            example: Literal::Text("offline"),
            default: None,
            left_out: "devices in every state.",
        },
        LIMIT,
        CURSOR,
    ],
    rules: &[],
    errors: &[],
    on_timeout: "The gateway did not answer; no device is asked for this. Nothing was changed. It does not mean that devices are \
                 offline. Repeat.",
    success,
};

fn success() -> Value {
    let item = output::closed(json!({
        "device": output::text(), "name": output::text_or_null(), "link": output::text(), "unit_id": output::count(),
        "status": {"enum": ["online", "degraded", "offline"]}, "reason": output::text_or_null(),
        "scope": {"enum": [null, "device", "link"]}, "since": output::moment_or_null(),
        "next_try": output::moment_or_null(), "last_answer": output::moment_or_null(),
        "refused": {"type": "array", "items": output::closed(json!({
            "sensor_id": output::text(), "reason": output::text(), "next_try": output::moment(),
        }))},
        "identity": {"anyOf": [{"type": "null"}, output::closed(json!({
            "vendor": output::text(), "product": output::text(), "revision": output::text(),
        }))]},
        "learnt_max_registers": output::count_or_null(), "learnt_max_bits": output::count_or_null(),
        "last_latency_ms": output::count_or_null(), "poll_every_ms": output::count(), "sensors": output::count(),
        "breaker": {"enum": ["closed", "open", "probing"]},
        "requests": output::count(), "failures": output::count(), "retries": output::count(),
        "answers": output::closed(Value::Object(Outcome::ALL.map(|outcome| (outcome.name().into(), output::count())).into_iter().collect())),
        "sent_bytes": output::count(), "received_bytes": output::count(),
        "latency_ms": output::closed(json!({"p50": output::number_or_null(), "p90": output::number_or_null(), "p99": output::number_or_null()})),
    }));
    output::listing(item, json!({}))
}

pub(super) fn run(toolbox: &Toolbox, arguments: &Arguments) -> Answer {
    let registry = &toolbox.config.registry;
    let status = arguments.word("status");
    let devices = registry.devices().map(|(index, _)| index);
    let matching: Vec<DeviceIndex> = devices
        .filter(|index| status.is_none_or(|status| toolbox.board.device(*index).status.name() == status))
        .collect();
    let places: Vec<usize> = matching.iter().map(|index| index.place()).collect();
    let page = page::cut(&places, arguments.place(), limit(arguments));
    let now = clock::now();
    let shown = matching.iter().filter(|index| page.places.contains(&index.place()));
    let items: Vec<Value> = shown.map(|index| item(toolbox, *index, now)).collect();
    Ok(into_object(json!({
        "returned": items.len(), "items": items, "total": page.total,
        "next_cursor": page.next.map(|place| arguments.query().cursor(place)), "as_of": clock::rfc3339(now.wall),
    })))
}

fn item(toolbox: &Toolbox, index: DeviceIndex, now: Stamp) -> Value {
    let registry = &toolbox.config.registry;
    let device = registry.device(index);
    let state = toolbox.board.device(index);
    let meter = toolbox.board.meters().device(index);
    let latency = |share| meter.latencies.percentile(share).map(tenths_of_millis);
    let answers = Outcome::ALL.map(|outcome| (outcome.name().to_owned(), meter.answers[outcome as usize].into()));
    let mut item = wire::device_status_json(registry, index, &state, now);
    item.remove("as_of");
    item.extend(into_object(json!({
        "name": output::unless_empty(&device.name), "unit_id": device.unit,
        "last_latency_ms": state.last_answer.map(|_| millis(state.last_latency)),
        "poll_every_ms": millis(device.poll_every), "sensors": device.sensors.len(),
        "breaker": breaker(&state, now.instant),
        "requests": meter.requests(), "failures": meter.failures(), "retries": meter.retries,
        "answers": Map::from_iter(answers), "sent_bytes": meter.sent, "received_bytes": meter.received,
        "latency_ms": {"p50": latency(0.5), "p90": latency(0.9), "p99": latency(0.99)},
    })));
    Value::Object(item)
}

/// Whether the device is asked: as always, not before its next try, or once to see whether it is back.
fn breaker(state: &DeviceState, now: Instant) -> &'static str {
    match state.status {
        DeviceStatus::Offline { .. } if state.is_resting(now) => "open",
        DeviceStatus::Offline { .. } => "probing",
        _ => "closed",
    }
}

fn tenths_of_millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e4).round() / 10.0
}
