//! The check of a call's arguments, on three levels: schema, sense, reference. All faults come at once.
//!
//! The first level accepts exactly what the tool's JSON Schema accepts; both are derived from [`spec`](super::spec). The
//! other two run on whatever passed the first, so that one bad parameter does not hide another. A correction is offered as
//! ready to send only where nobody could have meant anything else: a near id is suggested, but never put in place, because
//! it names another sensor.

mod faults;
mod mend;

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::answer::ToolError;
use super::page::Query;
use super::spec::{Param, ParamKind, Rule, ToolSpec};
use crate::gate::jsonrpc::Unambiguous;
use crate::registry::{DeviceIndex, Registry, SensorIndex};
use faults::Names;
pub use faults::{ArgumentFault, cut};

/// The arguments of a call that passed all three levels.
#[derive(Debug)]
pub struct Arguments {
    values: Vec<(&'static str, Checked)>,
    query: Query,
}

/// A value that passed all three levels.
#[derive(Clone, Debug, PartialEq)]
enum Checked {
    Sensor(SensorIndex),
    Device(DeviceIndex),
    Sensors(Vec<SensorIndex>),
    Word(&'static str),
    Integer(i64),
    Text(String),
    Place(usize),
}

impl Arguments {
    fn get(&self, name: &str) -> Option<&Checked> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The sensor that a parameter names.
    pub fn sensor(&self, name: &str) -> Option<SensorIndex> {
        match self.get(name) {
            Some(Checked::Sensor(index)) => Some(*index),
            _ => None,
        }
    }

    /// The device that a parameter names.
    pub fn device(&self, name: &str) -> Option<DeviceIndex> {
        match self.get(name) {
            Some(Checked::Device(index)) => Some(*index),
            _ => None,
        }
    }

    /// The sensors that a parameter lists, in its order.
    pub fn sensors(&self, name: &str) -> Option<&[SensorIndex]> {
        match self.get(name) {
            Some(Checked::Sensors(indices)) => Some(indices),
            _ => None,
        }
    }

    /// The word that a parameter chose.
    pub fn word(&self, name: &str) -> Option<&'static str> {
        match self.get(name) {
            Some(Checked::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// The whole number that a parameter gave.
    pub fn integer(&self, name: &str) -> Option<i64> {
        match self.get(name) {
            Some(Checked::Integer(number)) => Some(*number),
            _ => None,
        }
    }

    /// The text that a parameter gave.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Checked::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The place from which a listing goes on; 0 without a cursor.
    pub fn place(&self) -> usize {
        match self.get("cursor") {
            Some(Checked::Place(place)) => *place,
            _ => 0,
        }
    }

    /// The query that a next cursor will belong to.
    pub fn query(&self) -> Query {
        self.query
    }
}

/// Checks the arguments of a call: an object, a string that holds one, or nothing.
pub fn check(spec: &'static ToolSpec, given: Value, registry: &Registry) -> Result<Arguments, ToolError> {
    let names = Names { spec, registry };
    let given = into_members(given).map_err(|fault| faults::refusal(spec, vec![*fault], None))?;
    judge(&names, &given).map_err(|faults| {
        let mended = mend::apply(&given, &faults).filter(|mended| judge(&names, mended).is_ok());
        faults::refusal(spec, faults, mended)
    })
}

/// Whether the arguments meet the tool's JSON Schema, as the first level sees it.
pub fn meets_schema(spec: &'static ToolSpec, given: &Map<String, Value>, registry: &Registry) -> bool {
    let names = Names { spec, registry };
    unknown_fields(&names, given).is_empty() && shapes(&names, given).is_empty()
}

fn into_members(given: Value) -> Result<Map<String, Value>, Box<ArgumentFault>> {
    let refuse = |received: &Value, message: &str| Err(Box::new(ArgumentFault::not_an_object(received, message)));
    match given {
        Value::Object(members) => Ok(members),
        Value::Null => Ok(Map::new()),
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(Unambiguous(Value::Object(members))) => Ok(members),
            Ok(_) => refuse(&text.into(), "is a string that holds JSON, but no object"),
            Err(err) => refuse(&text.into(), &format!("is a string whose JSON cannot be read: {err}")),
        },
        other => refuse(&other, "is no object"),
    }
}

fn judge(names: &Names<'_>, given: &Map<String, Value>) -> Result<Arguments, Vec<ArgumentFault>> {
    // A query's digest takes in the whole registry: a third of what a call for one reading costs.
    let has_pages = names.spec.param("cursor").is_some();
    let query = if has_pages { Query::new(names.spec.name, given, names.registry) } else { Query::WITHOUT_PAGES };
    let mut faults = unknown_fields(names, given);
    let meant = mend::apply(given, &faults).unwrap_or_else(|| given.clone());
    faults.extend(shapes(names, &meant));
    let mut values = Vec::new();
    for param in names.spec.params {
        let Some(value) = meant.get(param.name) else { continue };
        match meaning(names, param, value, query) {
            Ok(Some(checked)) => values.push((param.name, checked)),
            Ok(None) => {}
            Err(found) => faults.extend(found),
        }
    }
    faults.extend(names.spec.rules.iter().filter_map(|rule| broken(names, *rule, &meant)));
    if has_other_faults(&faults) {
        // A cursor is tied to the other arguments; while those are wrong, nothing can be said of it.
        faults.retain(|fault| !fault.of_cursor);
    }
    if faults.is_empty() { Ok(Arguments { values, query }) } else { Err(faults) }
}

fn has_other_faults(faults: &[ArgumentFault]) -> bool {
    faults.iter().any(|fault| !fault.of_cursor)
}

/// The first level, one half: fields that the tool does not have.
fn unknown_fields(names: &Names<'_>, given: &Map<String, Value>) -> Vec<ArgumentFault> {
    let unknown = given.iter().filter(|(name, _)| names.spec.param(name).is_none());
    unknown.map(|(name, value)| names.unknown_field(name, value, given)).collect()
}

/// The first level, the other half: parameters that are missing, and values of another shape.
fn shapes(names: &Names<'_>, given: &Map<String, Value>) -> Vec<ArgumentFault> {
    let mut faults = Vec::new();
    for param in names.spec.params {
        match given.get(param.name) {
            Some(value) => faults.extend(shape_faults(names, param, value)),
            None if param.required => faults.push(names.missing(param)),
            None => {}
        }
    }
    faults
}

fn shape_faults(names: &Names<'_>, param: &Param, value: &Value) -> Vec<ArgumentFault> {
    match (param.kind, value) {
        (ParamKind::SensorIds { max }, Value::Array(items)) if (1..=max).contains(&items.len()) => {
            let items = items.iter().enumerate();
            items.filter_map(|(at, item)| shape_fault(names, param, ParamKind::SensorId, item, Some(at))).collect()
        }
        (kind, value) => shape_fault(names, param, kind, value, None).into_iter().collect(),
    }
}

/// What is wrong with the shape of one value.
fn shape_fault(
    names: &Names<'_>,
    param: &Param,
    kind: ParamKind,
    value: &Value,
    item: Option<usize>,
) -> Option<ArgumentFault> {
    let wrong = match kind {
        ParamKind::SensorId | ParamKind::DeviceId => match value {
            Value::String(text) => wrong_id(text)?,
            _ => wrong_type(kind, value),
        },
        ParamKind::SensorIds { max } => match value {
            Value::Array(items) if items.is_empty() => "is an empty list".to_owned(),
            Value::Array(items) => format!("has {} items, and {max} are the most", items.len()),
            _ => wrong_type(kind, value),
        },
        ParamKind::Enum(words) => match value {
            Value::String(text) if words.contains(&text.as_str()) => return None,
            Value::String(_) => format!("is not {}", kind.words()),
            _ => wrong_type(kind, value),
        },
        ParamKind::Integer { min, max } => match whole(value) {
            Some(number) if (min..=max).contains(&number) => return None,
            Some(number) if number < min => format!("is less than {min}"),
            Some(_) => format!("is more than {max}"),
            None => wrong_type(kind, value),
        },
        ParamKind::Text { max_len } => match value {
            Value::String(text) => wrong_length(text, max_len)?,
            _ => wrong_type(kind, value),
        },
        ParamKind::Cursor => match value {
            Value::String(text) => wrong_length(text, super::spec::CURSOR_LENGTH)?,
            _ => wrong_type(kind, value),
        },
    };
    Some(names.misshapen(param, kind, value, item, wrong))
}

fn wrong_type(kind: ParamKind, value: &Value) -> String {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() && matches!(kind, ParamKind::Integer { .. }) => "a broken number",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    format!("is {found}, and not {}", kind.words())
}

fn wrong_id(text: &str) -> Option<String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    match text.chars().find(|c| !allowed(*c)) {
        Some(found) => Some(format!("has {found:?} in it, and ids are of letters, digits, `_`, `.` and `-`")),
        None => wrong_length(text, crate::ids::NAME_CAPACITY),
    }
}

/// JSON Schema counts characters, not bytes.
fn wrong_length(text: &str, most: usize) -> Option<String> {
    match text.chars().count() {
        0 => Some("is an empty string".to_owned()),
        length if length > most => Some(format!("is {length} characters long, and {most} are the most")),
        _ => None,
    }
}

/// The value as a whole number. JSON Schema takes `5.0` for one, too.
fn whole(value: &Value) -> Option<i64> {
    let number = value.as_number()?;
    if let Some(whole) = number.as_i64() {
        return Some(whole);
    }
    // Conversions to integers keep to their ends, and both ends lie outside of every range in the tables.
    number.as_f64().filter(|double| double.fract() == 0.0).map(|double| double as i64)
}

/// The second and third level: what a value of the right shape says, and whether what it refers to exists.
///
/// `None` for a value of the wrong shape, which the first level has reported.
fn meaning(
    names: &Names<'_>,
    param: &Param,
    value: &Value,
    query: Query,
) -> Result<Option<Checked>, Vec<ArgumentFault>> {
    if let (ParamKind::SensorIds { max }, Value::Array(items)) = (param.kind, value) {
        return if items.len() > max { Ok(None) } else { each_sensor(names, param, items) };
    }
    if !shape_faults(names, param, value).is_empty() {
        return Ok(None);
    }
    let checked = match (param.kind, value) {
        (ParamKind::SensorId, Value::String(id)) => {
            names.registry.find_sensor(id).map(Checked::Sensor).ok_or_else(|| names.no_such_sensor(param, id, None))
        }
        (ParamKind::DeviceId, Value::String(id)) => {
            names.registry.find_device(id).map(Checked::Device).ok_or_else(|| names.no_such_device(param, id))
        }
        (ParamKind::Enum(words), Value::String(text)) => {
            return Ok(words.iter().find(|word| *word == text).map(|word| Checked::Word(word)));
        }
        (ParamKind::Text { .. }, Value::String(text)) => match text.trim() {
            "" => Err(names.blank(param, value)),
            words => Ok(Checked::Text(words.to_owned())),
        },
        (ParamKind::Cursor, Value::String(text)) => {
            query.place(text).map(Checked::Place).map_err(|err| names.bad_cursor(param, value, err))
        }
        (_, value) => return Ok(whole(value).map(Checked::Integer)),
    };
    checked.map(Some).map_err(|fault| vec![fault])
}

fn each_sensor(names: &Names<'_>, param: &Param, items: &[Value]) -> Result<Option<Checked>, Vec<ArgumentFault>> {
    let mut faults = Vec::new();
    let mut seen = HashSet::new();
    let mut sensors = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let Value::String(id) = item else { continue };
        if wrong_id(id).is_some() {
            continue;
        }
        if !seen.insert(id) {
            faults.push(names.twice(param, at, item));
            continue;
        }
        match names.registry.find_sensor(id) {
            Some(index) => sensors.push(index),
            None => faults.push(names.no_such_sensor(param, id, Some(at))),
        }
    }
    if faults.is_empty() { Ok(Some(Checked::Sensors(sensors))) } else { Err(faults) }
}

fn broken(names: &Names<'_>, rule: Rule, given: &Map<String, Value>) -> Option<ArgumentFault> {
    let Rule::ExactlyOneOf(members) = rule;
    let present = members.iter().filter(|name| given.contains_key(**name)).count();
    if present == 1 { None } else { Some(names.not_exactly_one(members, given)) }
}

#[cfg(test)]
mod tests;
