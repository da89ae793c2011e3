//! `list_sensors`: which sensors there are, and whether each has a good value now.

use serde_json::{Map, Value, json};
use strsim::osa_distance;

use super::arguments::Arguments;
use super::page;
use super::spec::{Literal, Param, ParamKind, ToolSpec, Toolset, into_object};
use super::{Answer, ToolName, Toolbox, output};
use crate::clock;
use crate::gate::wire;
use crate::registry::reading::Stamp;
use crate::registry::{Registry, Sensor, SensorIndex};

/// The parameter that sizes a page, for every listing.
pub(super) const LIMIT: Param = Param {
    name: "limit",
    kind: ParamKind::Integer { min: page::LIMIT.0, max: page::LIMIT.2 },
    required: false,
    description: "The most items of one answer.",
    example: Literal::Integer(20),
    default: Some(Literal::Integer(page::LIMIT.1)),
    left_out: "50.",
};

/// The parameter that goes on where a page ended, for every listing.
pub(super) const CURSOR: Param = Param {
    name: "cursor",
    kind: ParamKind::Cursor,
    required: false,
    description: "Where to go on: next_cursor of the answer before, with the same other arguments.",
    example: Literal::Text("32-9f1c2ab34d5e6f70-0a1b2c3d"),
    default: None,
    left_out: "the first page.",
};

pub(super) const SPEC: ToolSpec = ToolSpec {
    name: ToolName::ListSensors,
    title: "List sensors",
    summary: "Lists sensors with ids, names, units and whether each has a good value now; searchable by words.",
    description: "Lists the sensors of this gateway in pages: id, name, device, unit, and whether each has a good value now. \
                  Use it to find a sensor's id by words or by device, or to see which sensors are not well. It gives no \
                  values: use get_sensor_reading or get_sensor_readings for those. For range and source of one sensor use \
                  describe_sensor; for the state of devices use list_devices.",
    toolset: Toolset::Sensors,
    params: &[
        Param {
            name: "query",
            kind: ParamKind::Text { max_len: 100 },
            required: false,
            description: "Words to look for in ids, names, descriptions, units and device names; letter case does not \
                          matter. match says how they were found: every word (\"exact\"), words spelt almost so (\"similar\"), as \
                          many of the words as any sensor holds (\"partial\"), or \"none\".",
            example: Literal::Text("oil temperature"),
            default: None,
            left_out: "all sensors.",
        },
        Param {
            name: "device",
            kind: ParamKind::DeviceId,
            required: false,
            description: "The id of a device, to list its sensors alone.",
            example: Literal::Text("press-plc"),
            default: None,
            left_out: "the sensors of all devices.",
        },
        LIMIT,
        CURSOR,
    ],
    rules: &[],
    errors: &[],
    on_timeout: "The gateway did not answer; no device is asked for this. Nothing was changed. Repeat, or ask for a smaller page.",
    success,
};

fn success() -> Value {
    let item = output::closed(json!({
        "sensor_id": output::text(), "name": output::text_or_null(), "device": output::text(),
        "unit": output::text_or_null(), "quality": output::quality(), "reason": output::text_or_null(),
        "age_ms": output::count_or_null(),
    }));
    output::listing(item, json!({"match": {"enum": ["all", "exact", "similar", "partial", "none"]}}))
}

pub(super) fn run(toolbox: &Toolbox, arguments: &Arguments) -> Answer {
    let registry = &toolbox.config.registry;
    let device = arguments.device("device");
    let sensors = registry.sensors().filter(|(_, sensor)| device.is_none_or(|device| sensor.device == device));
    let (matching, how) = search(registry, sensors, arguments.text("query"));
    let places: Vec<usize> = matching.iter().map(|index| index.place()).collect();
    let page = page::cut(&places, arguments.place(), limit(arguments));
    let now = clock::now();
    let shown = matching.iter().filter(|index| page.places.contains(&index.place()));
    let items: Vec<Value> = shown.map(|index| Value::Object(item(toolbox, *index, now))).collect();
    Ok(into_object(json!({
        "returned": items.len(), "items": items, "total": page.total, "match": how,
        "next_cursor": page.next.map(|place| arguments.query().cursor(place)), "as_of": clock::rfc3339(now.wall),
    })))
}

/// The size of a page.
pub(super) fn limit(arguments: &Arguments) -> usize {
    let limit = arguments.integer("limit").unwrap_or(page::LIMIT.1);
    usize::try_from(limit).unwrap_or(1)
}

fn item(toolbox: &Toolbox, index: SensorIndex, now: Stamp) -> Map<String, Value> {
    let registry = &toolbox.config.registry;
    let sensor = registry.sensor(index);
    let mut item = into_object(json!({
        "sensor_id": sensor.id.as_str(), "name": output::unless_empty(&sensor.name),
        "device": registry.device(sensor.device).id.as_str(), "unit": output::unless_empty(sensor.unit.as_str()),
    }));
    item.extend(quality_now(toolbox, index, now));
    item
}

/// How the value of a sensor is now, without the value: the very words of its published reading.
pub(super) fn quality_now(toolbox: &Toolbox, index: SensorIndex, now: Stamp) -> Map<String, Value> {
    let registry = &toolbox.config.registry;
    let mut reading = toolbox.board.look(index, |state| wire::reading_json(registry, index, state, now));
    reading.retain(|name, _| matches!(name.as_str(), "quality" | "reason" | "age_ms"));
    reading
}

/// The sensors that hold every word; where none does, those that hold most of them, or words spelt almost so.
fn search<'a>(
    registry: &Registry,
    sensors: impl Iterator<Item = (SensorIndex, &'a Sensor)>,
    query: Option<&str>,
) -> (Vec<SensorIndex>, &'static str) {
    let Some(query) = query else { return (sensors.map(|(index, _)| index).collect(), "all") };
    let wanted: Vec<String> = query.to_lowercase().split_whitespace().map(str::to_owned).collect();
    let texts: Vec<(SensorIndex, String)> = sensors.map(|(index, sensor)| (index, text_of(registry, sensor))).collect();
    let exact = best(&texts, &wanted, |text, word| text.contains(word));
    if exact.words == wanted.len() {
        return (exact.sensors, "exact");
    }
    let similar = best(&texts, &wanted, holds_similar);
    match similar.words {
        0 => (Vec::new(), "none"),
        all if all == wanted.len() => (similar.sensors, "similar"),
        _ => (similar.sensors, "partial"),
    }
}

/// The sensors that hold the most words, and how many those are.
struct Best {
    words: usize,
    sensors: Vec<SensorIndex>,
}

fn best(texts: &[(SensorIndex, String)], wanted: &[String], holds: impl Fn(&str, &str) -> bool) -> Best {
    let mut best = Best { words: 0, sensors: Vec::new() };
    for (index, text) in texts {
        let words = wanted.iter().filter(|word| holds(text, word)).count();
        if words > best.words {
            best = Best { words, sensors: Vec::new() };
        }
        if words == best.words && words > 0 {
            best.sensors.push(*index);
        }
    }
    best
}

fn text_of(registry: &Registry, sensor: &Sensor) -> String {
    let device = registry.device(sensor.device);
    let parts =
        [sensor.id.as_str(), &sensor.name, &sensor.description, sensor.unit.as_str(), device.id.as_str(), &device.name];
    parts.join(" ").to_lowercase()
}

/// Whether a word of the text is the wanted one with a slip: one in four letters, two in eight, none in three.
fn holds_similar(text: &str, wanted: &str) -> bool {
    if text.contains(wanted) {
        return true;
    }
    let slips = (wanted.chars().count() / 4).min(2);
    let words = text.split(|c: char| !c.is_alphanumeric());
    slips > 0 && words.into_iter().any(|word| osa_distance(word, wanted) <= slips)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_still_finds_the_word() {
        let check = |text: &str, wanted: &str, expected: bool| {
            assert_eq!(holds_similar(text, wanted), expected, "{wanted} in {text}");
        };
        check("hydraulic oil temperature", "temprature", true);
        check("hydraulic oil temperature", "hydraulik", true);
        check("hydraulic oil temperature", "oli", false);
        check("hydraulic oil temperature", "pressure", false);
        check("druck öl", "drukc", true);
    }
}
