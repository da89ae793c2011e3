//! `get_gateway_status`: how the gateway itself is.

use serde_json::{Map, Value, json};

use super::live::millis;
use super::spec::{ToolSpec, Toolset, into_object};
use super::{ToolName, Toolbox, list_sensors, output};
use crate::clock::{self, rfc3339};
use crate::metrics::DeviceMeter;
use crate::registry::reading::{DeviceStatus, Stamp};

pub(super) const SPEC: ToolSpec = ToolSpec {
    name: ToolName::GetGatewayStatus,
    title: "Get the state of the gateway",
    summary: "Gets the gateway's own state: version, uptime, broker, clock, and how many devices and sensors are well.",
    description: "Gets the state of the gateway itself: version, time of start, broker, whether its clock can be believed, how \
                  many requests were dropped unread because too many waited, and how many links, devices and sensors are well, \
                  and how busy the busiest links were in the last minute. Use it to judge the whole at a glance, or when times look \
                  wrong. It names no single device or sensor: use list_devices and list_sensors for those, and \
                  get_sensor_reading for values.",
    toolset: Toolset::Operations,
    params: &[],
    rules: &[],
    errors: &[],
    on_timeout: "The gateway or the broker is away or overloaded. Nothing was changed. Repeat; if it stays so, look at the retained \
                 status topic.",
    success,
};

fn success() -> Value {
    let counts = |states: &[&str]| {
        let members: Map<String, Value> = states.iter().map(|state| ((*state).to_owned(), output::count())).collect();
        output::closed(Value::Object(members))
    };
    output::closed(json!({
        "gateway": output::text(), "version": output::text(), "boot_id": output::text(), "started": output::moment(),
        "uptime_ms": output::count(),
        "clock": {"enum": ["synchronised", "unsynchronised"]},
        "broker": output::closed(json!({
            "connected": {"type": "boolean"}, "since": output::moment_or_null(), "last_error": output::text_or_null(),
        })),
        "dropped_requests": output::count(),
        "links": counts(&["total", "answering", "silent"]),
        "devices": counts(&["total", "online", "degraded", "offline"]),
        "sensors": counts(&["total", "good", "uncertain", "bad"]),
        "busiest_links": {"type": "array", "maxItems": BUSIEST, "items": output::closed(json!({
            "link": output::text(), "utilisation_percent": {"type": "number", "minimum": 0, "maximum": 100},
            "requests": output::count(), "failures": output::count(), "retries": output::count(),
            "connections": output::count(), "connect_failures": output::count(),
        }))},
        "as_of": output::moment(),
    }))
}

pub(super) fn run(toolbox: &Toolbox) -> Map<String, Value> {
    let facts = &toolbox.facts;
    let broker = facts.broker();
    let now = clock::now();
    into_object(json!({
        "gateway": toolbox.config.gateway.as_str(), "version": facts.version(), "boot_id": facts.boot_id,
        "started": rfc3339(facts.started.wall),
        "uptime_ms": millis(now.instant.saturating_duration_since(facts.started.instant)),
        "clock": if clock::is_synchronised() { "synchronised" } else { "unsynchronised" },
        "broker": {
            "connected": broker.connected, "since": broker.since.map(|since| rfc3339(since.wall)),
            "last_error": broker.last_error,
        },
        "dropped_requests": facts.dropped_requests(),
        "links": links(toolbox), "devices": devices(toolbox), "sensors": sensors(toolbox, now),
        "busiest_links": busiest_links(toolbox, now),
        "as_of": rfc3339(now.wall),
    }))
}

/// So many links are shown one by one: a gateway with a hundred has an answer that an agent can still read.
const BUSIEST: usize = 10;

fn busiest_links(toolbox: &Toolbox, now: Stamp) -> Vec<Value> {
    let (registry, meters) = (&toolbox.config.registry, toolbox.board.meters());
    let mut links: Vec<_> = registry
        .links()
        .map(|(index, link)| {
            let meter = meters.link(index);
            (meter.load.share(now.instant), link, meter)
        })
        .collect();
    links.sort_by(|one, other| other.0.total_cmp(&one.0));
    let shown = links.into_iter().take(BUSIEST).map(|(share, link, meter)| {
        let devices: Vec<_> = link.devices.iter().map(|device| meters.device(*device)).collect();
        let sum = |count: fn(&DeviceMeter) -> u64| devices.iter().map(count).sum::<u64>();
        json!({
            "link": link.id.as_str(), "utilisation_percent": (share * 1_000.0).round() / 10.0,
            "requests": sum(DeviceMeter::requests), "failures": sum(DeviceMeter::failures),
            "retries": sum(|meter| meter.retries),
            "connections": meter.connections, "connect_failures": meter.connect_failures,
        })
    });
    shown.collect()
}

/// A link answers while any device on it does; one without devices is silent.
fn links(toolbox: &Toolbox) -> Value {
    let registry = &toolbox.config.registry;
    let answers = |status| matches!(status, DeviceStatus::Online | DeviceStatus::Degraded);
    let total = registry.links().len();
    let answering = registry
        .links()
        .filter(|(_, link)| link.devices.iter().any(|device| answers(toolbox.board.device(*device).status)))
        .count();
    json!({"total": total, "answering": answering, "silent": total - answering})
}

fn devices(toolbox: &Toolbox) -> Value {
    let registry = &toolbox.config.registry;
    let names: Vec<&str> = registry.devices().map(|(index, _)| toolbox.board.device(index).status.name()).collect();
    let count = |wanted: &str| names.iter().filter(|name| **name == wanted).count();
    json!({"total": names.len(), "online": count("online"), "degraded": count("degraded"), "offline": count("offline")})
}

fn sensors(toolbox: &Toolbox, now: Stamp) -> Value {
    let registry = &toolbox.config.registry;
    let qualities: Vec<Value> = registry
        .sensors()
        .filter_map(|(index, _)| list_sensors::quality_now(toolbox, index, now).remove("quality"))
        .collect();
    let count = |wanted: &str| qualities.iter().filter(|quality| *quality == wanted).count();
    json!({"total": qualities.len(), "good": count("good"), "uncertain": count("uncertain"), "bad": count("bad")})
}
