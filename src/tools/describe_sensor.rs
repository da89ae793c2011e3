//! `describe_sensor`: all that the registry knows of one sensor.

use serde_json::{Map, Value, json};

use super::arguments::Arguments;
use super::live::millis;
use super::offline::reference_number;
use super::spec::{Literal, Param, ParamKind, ToolSpec, Toolset, into_object};
use super::{Answer, ToolName, Toolbox, list_sensors, output};
use crate::clock;
use crate::gate::wire;
use crate::modbus::words::DataType;
use crate::registry::Sensor;
use crate::registry::rules::Names;

pub(super) const SPEC: ToolSpec = ToolSpec {
    name: ToolName::DescribeSensor,
    title: "Describe one sensor",
    summary: "Describes one sensor: place, unit, range, how it is read, and how old its values may be.",
    description: "Describes one sensor: where it is, its unit and range, how it is read (table, address, type, order, scale), \
                  how often, how old a value may be, and whether it has a good value now. Use it before you judge a value, \
                  or to see where a value comes from. It gives no value: use get_sensor_reading for that. To find a \
                  sensor's id use list_sensors.",
    toolset: Toolset::Sensors,
    params: &[Param {
        name: "sensor_id",
        kind: ParamKind::SensorId,
        required: true,
        description: "The id of the sensor, exactly as list_sensors shows it.",
        example: Literal::Text("A_LINE1_042"),
        default: None,
        left_out: "",
    }],
    rules: &[],
    errors: &[],
    on_timeout: "The gateway did not answer; no device is asked for this. Nothing was changed. Repeat.",
    success,
};

fn success() -> Value {
    let read = output::closed(json!({
        "table": {"enum": ["coil", "discrete", "holding", "input"]}, "address": output::count(),
        "reference": output::count(), "count": output::count(),
        "type": output::text(), "bit": output::count_or_null(),
        "bits": {"type": ["array", "null"], "items": output::count(), "minItems": 2, "maxItems": 2}, "order": output::text_or_null(),
        "scale": output::text(), "offset": output::text(), "scale_register": output::count_or_null(),
        "names": {"type": ["object", "null"], "additionalProperties": output::text()},
    }));
    output::closed(json!({
        "sensor_id": output::text(), "name": output::text_or_null(), "description": output::text_or_null(),
        "device": output::text(), "device_name": output::text_or_null(), "link": output::text(),
        "unit_id": output::count(), "unit": output::text_or_null(),
        "range": {"type": ["array", "null"], "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
        "valid": {"type": ["array", "null"], "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
        "max_rate": output::text_or_null(), "dead_band": output::text_or_null(),
        "read": read, "no_value": {"type": "array", "items": output::text()},
        "max_age_ms": output::count(), "poll_every_ms": output::count(), "writable": {"const": false},
        "quality": output::quality(), "reason": output::text_or_null(), "age_ms": output::count_or_null(),
        "as_of": output::moment(),
    }))
}

pub(super) fn run(toolbox: &Toolbox, arguments: &Arguments) -> Answer {
    let Some(index) = arguments.sensor("sensor_id") else { return Err(super::unchecked(SPEC.name)) };
    let registry = &toolbox.config.registry;
    let sensor = registry.sensor(index);
    let device = registry.device(sensor.device);
    let now = clock::now();
    let mut description = into_object(json!({
        "sensor_id": sensor.id.as_str(), "name": output::unless_empty(&sensor.name),
        "description": output::unless_empty(&sensor.description),
        "device": device.id.as_str(), "device_name": output::unless_empty(&device.name),
        "link": registry.link(device.link).id.as_str(), "unit_id": device.unit,
        "unit": output::unless_empty(sensor.unit.as_str()),
        "range": sensor.range.map(|range| [range.low(), range.high()]),
        "valid": sensor.rules.valid.map(|valid| [valid.low(), valid.high()]),
        "max_rate": sensor.rules.max_rate.map(|rate| rate.to_string()),
        "dead_band": sensor.rules.dead_band.map(|band| band.to_string()),
        "read": read_json(sensor), "no_value": no_value_codes(sensor),
        "max_age_ms": millis(sensor.max_age), "poll_every_ms": millis(device.poll_every), "writable": false,
        "as_of": clock::rfc3339(now.wall),
    }));
    description.extend(list_sensors::quality_now(toolbox, index, now));
    Ok(description)
}

fn read_json(sensor: &Sensor) -> Value {
    let read = &sensor.read;
    let bit = match read.encoding.data_type {
        DataType::Bool { bit } if !read.table.is_bits() => Some(bit),
        _ => None,
    };
    let bits = match read.encoding.data_type {
        DataType::Bits { first, last, .. } => Some([first, last]),
        _ => None,
    };
    let single = read.table.is_bits() || matches!(read.encoding.data_type, DataType::Bool { .. });
    json!({
        "table": read.table.name(), "address": read.value_address(),
        "reference": reference_number(read.table, read.value_address()), "count": read.encoding.registers(), "type": wire::type_name(read.encoding.data_type), "bit": bit, "bits": bits,
        "order": (!single).then(|| read.encoding.order.name()),
        "scale": read.scaling.scale().to_string(), "offset": read.scaling.offset().to_string(),
        "scale_register": read.factor_address(), "names": sensor.rules.names.as_ref().map(names_json),
    })
}

/// The names by the number, or the bit, that they stand for.
fn names_json(names: &Names) -> Value {
    let named: Map<String, Value> = match names {
        Names::Enum(names) => {
            names.iter().map(|named| (named.number.to_string(), named.name.as_ref().into())).collect()
        }
        Names::Flags(names) => names.iter().map(|(bit, name)| (bit.to_string(), name.as_ref().into())).collect(),
    };
    Value::Object(named)
}

/// The codes as a configuration writes them, as wide as the type.
fn no_value_codes(sensor: &Sensor) -> Vec<String> {
    let digits = 4 * usize::from(sensor.read.encoding.registers());
    sensor.no_value.iter().map(|code| format!("0x{:0digits$X}", code.0)).collect()
}
