//! The JSON Schemas of what tools answer. Successes are closed, so that a test notices a member that nobody described; errors
//! are open, because each kind carries its own details.

use serde_json::{Value, json};

use super::answer::ErrorCode;

/// A text.
pub fn text() -> Value {
    json!({"type": "string"})
}

/// A text, or null.
pub fn text_or_null() -> Value {
    json!({"type": ["string", "null"]})
}

/// A moment as RFC 3339 in UTC.
pub fn moment() -> Value {
    json!({"type": "string", "format": "date-time"})
}

/// A moment, or null.
pub fn moment_or_null() -> Value {
    json!({"type": ["string", "null"], "format": "date-time"})
}

/// The text, or null where there is none.
pub fn unless_empty(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { text.into() }
}

/// A number of things or milliseconds.
pub fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

/// A number of things or milliseconds, or null.
pub fn count_or_null() -> Value {
    json!({"type": ["integer", "null"], "minimum": 0})
}

/// A number, or null.
pub fn number_or_null() -> Value {
    json!({"type": ["number", "null"]})
}

/// An object with these members, all of them and no others.
pub fn closed(properties: Value) -> Value {
    let names: Vec<&String> = properties.as_object().map(|members| members.keys().collect()).unwrap_or_default();
    json!({"type": "object", "required": names, "properties": properties, "additionalProperties": false})
}

/// A page of a listing (contract, section 6), and what this listing has besides.
pub fn listing(item: Value, besides: Value) -> Value {
    let mut properties = super::spec::into_object(json!({
        "items": {"type": "array", "items": item}, "total": count(), "returned": count(),
        "next_cursor": text_or_null(), "as_of": moment(),
    }));
    properties.extend(super::spec::into_object(besides));
    closed(Value::Object(properties))
}

/// How the value of a sensor is now, without the value.
pub fn quality() -> Value {
    json!({"enum": ["good", "uncertain", "bad"]})
}

/// A live reading (contract, section 4): good, or out of range; never anything else.
pub fn reading() -> Value {
    with_number(reading_members())
}

/// A live reading with how it came about.
pub fn reading_with_source() -> Value {
    let mut members = super::spec::into_object(reading_members());
    members.insert("source".into(), json!({"enum": ["polled", "fresh"]}));
    members.insert("attempts".into(), count());
    members.insert("duration_ms".into(), count());
    with_number(Value::Object(members))
}

/// A reading, whose `number` is there only beside a name or the names of flags.
fn with_number(members: Value) -> Value {
    let mut schema = closed(members);
    schema["properties"]["number"] = json!({"type": ["integer", "string"]});
    schema
}

fn reading_members() -> Value {
    json!({
        "sensor_id": text(),
        "value": {"type": ["number", "string", "boolean", "array"], "items": text()},
        "unit": text_or_null(),
        "type": {"enum": crate::modbus::words::DataType::NAMES},
        "quality": {"enum": ["good", "uncertain"]},
        "reason": {"enum": [null, "out_of_range"]},
        "timestamp": moment(),
        "age_ms": count(),
        "max_age_ms": count(),
        "status": {"enum": ["ok", "uncertain"]},
        "raw": {"type": "array", "items": {"type": "string", "pattern": "^0x[0-9A-F]{4}$"}},
        "seq": count(),
    })
}

/// A typed error (contract, section 5).
pub fn error() -> Value {
    let last_good = json!({
        "type": ["object", "null"], "required": ["value", "unit", "timestamp", "age_ms"],
        "properties": {
            "value": {"type": ["number", "string", "boolean", "array"]}, "unit": text_or_null(), "timestamp": moment(),
            "age_ms": count(), "quality": {"const": "uncertain"},
        },
    });
    let fault = closed(json!({
        "parameter": text(), "received": {}, "message": text(), "hint": text(), "suggestions": {"type": "array"},
    }));
    json!({
        "type": "object",
        "required": ["error", "class", "message", "hint", "retryable", "retry_after_ms"],
        "properties": {
            "error": {"enum": ErrorCode::ALL.map(ErrorCode::name)},
            "class": {"enum": ["transient", "permanent", "unknown"]},
            "message": text(), "hint": text(), "retryable": {"type": "boolean"}, "retry_after_ms": count_or_null(),
            "sensor_id": text(), "device": text(), "link": text(),
            "cause": text(), "scope": {"enum": ["sensor", "device", "link"]},
            "attempts": count(), "duration_ms": count(), "offline_since": moment(), "next_try": moment_or_null(), "last_good": last_good,
            "faults": {"type": "array", "items": fault},
        },
    })
}
