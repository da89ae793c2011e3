//! What is said of a fault in arguments: which parameter, what was received, what is wrong, how to mend it.

use serde_json::{Map, Value, json};

use super::mend::{Mend, same_but_for_spelling};
use crate::registry::{Registry, search};
use crate::tools::answer::{ErrorCode, ToolError};
use crate::tools::page::CursorError;
use crate::tools::spec::{Param, ParamKind, ToolSpec};

/// The most characters of what was received that are repeated in an answer.
const LONGEST_RECEIVED: usize = 120;
/// The most suggestions for one fault.
const MOST_SUGGESTIONS: usize = 3;
/// The most faults of one answer. A list of ids has at most 50 items, so that only junk is ever cut.
const MOST_FAULTS: usize = 64;

/// One fault of one call.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgumentFault {
    /// The parameter, with the place in it: `sensor_ids[3]`.
    pub parameter: String,
    /// What was received, cut to a length that can be shown.
    pub received: Value,
    /// What is wrong with it; a fragment that follows the parameter's name.
    pub message: String,
    /// How to mend it.
    pub hint: String,
    /// Values that may have been meant, best first.
    pub suggestions: Vec<Value>,
    /// The correction, where only one is possible.
    pub(super) mend: Option<Mend>,
    /// Whether it can be said only while the other arguments are right.
    pub(super) of_cursor: bool,
}

impl ArgumentFault {
    fn new(
        parameter: impl Into<String>,
        received: &Value,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        ArgumentFault {
            parameter: parameter.into(),
            received: cut_json(received),
            message: message.into(),
            hint: hint.into(),
            suggestions: Vec::new(),
            mend: None,
            of_cursor: false,
        }
    }

    /// The arguments as a whole are no object.
    pub(super) fn not_an_object(received: &Value, message: impl Into<String>) -> ArgumentFault {
        let hint = "Send the arguments as one JSON object, or as a string that holds one; {} where there are none.";
        ArgumentFault::new("arguments", received, message, hint)
    }

    fn suggest(mut self, suggestions: impl IntoIterator<Item = impl Into<Value>>) -> ArgumentFault {
        self.suggestions = suggestions.into_iter().map(Into::into).take(MOST_SUGGESTIONS).collect();
        self
    }

    fn mended_by(mut self, mend: Option<Mend>) -> ArgumentFault {
        self.mend = mend;
        self
    }

    /// The fault as the contract has it.
    pub fn to_json(&self) -> Value {
        json!({
            "parameter": self.parameter, "received": self.received, "message": self.message, "hint": self.hint,
            "suggestions": self.suggestions,
        })
    }
}

/// The text, cut to a length that can be shown.
pub fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST_RECEIVED) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}… ({} characters)", &text[..end], text.chars().count()),
    }
}

fn cut_json(value: &Value) -> Value {
    match value {
        Value::String(text) => cut(text).into(),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_)) => plain.clone(),
        large => {
            let text = large.to_string();
            if text.chars().count() <= LONGEST_RECEIVED { large.clone() } else { cut(&text).into() }
        }
    }
}

/// The error for a call with these faults.
pub fn refusal(spec: &ToolSpec, faults: Vec<ArgumentFault>, mended: Option<Map<String, Value>>) -> ToolError {
    let tool = spec.name.as_str();
    let message = match faults.as_slice() {
        [only] => format!("{tool}: {} {}.", only.parameter, only.message),
        [first, ..] => format!("{tool}: {} faults; the first: {} {}.", faults.len(), first.parameter, first.message),
        [] => format!("{tool}: the arguments were refused."),
    };
    let hint = if mended.is_some() {
        "Nothing was run. corrected_call holds the only call that can have been meant; send that."
    } else {
        "Nothing was run. Mend every entry of faults, each by its hint, and call again; the same call will fail again."
    };
    let mut error = ToolError::new(ErrorCode::InvalidArgument, message, hint)
        .with("tool", tool)
        .with("faults", faults.iter().take(MOST_FAULTS).map(ArgumentFault::to_json).collect::<Vec<_>>());
    if faults.len() > MOST_FAULTS {
        error = error.with("faults_total", faults.len());
    }
    match mended {
        Some(arguments) => error.with("corrected_call", json!({"tool": tool, "arguments": arguments})),
        None => error,
    }
}

/// What faults are judged against: the tool's parameters, and who exists.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// The tool.
    pub spec: &'static ToolSpec,
    /// Who exists.
    pub registry: &'a Registry,
}

impl Names<'_> {
    /// A field that the tool does not have.
    pub fn unknown_field(&self, name: &str, value: &Value, given: &Map<String, Value>) -> ArgumentFault {
        let known: Vec<&'static str> = self.spec.params.iter().map(|param| param.name).collect();
        if known.is_empty() {
            let hint = "This tool takes no arguments; send {}.";
            return ArgumentFault::new(cut(name), value, "is not a parameter of this tool", hint)
                .mended_by(Some(Mend::Remove(name.to_owned())));
        }
        let nearest = search::nearest(name, known.iter().copied(), MOST_SUGGESTIONS);
        let meant = same_but_for_spelling(&snake(name), known.iter().copied());
        let mend = meant.and_then(|meant| known.iter().find(|known| **known == meant));
        let mend = mend.filter(|known| !given.contains_key(**known)).map(|to| Mend::Rename(name.to_owned(), to));
        let hint = format!("Leave it out, or use its right name. Parameters are {}.", known.join(", "));
        ArgumentFault::new(cut(name), value, "is not a parameter of this tool", hint).suggest(nearest).mended_by(mend)
    }

    /// A parameter that has to be there.
    pub fn missing(&self, param: &Param) -> ArgumentFault {
        let hint = format!("Give {}, for example {}.", param.kind.words(), param.example.to_json());
        ArgumentFault::new(param.name, &Value::Null, "is missing", hint)
    }

    /// A value of the wrong shape; `item` is its place in a list.
    pub fn misshapen(
        &self,
        param: &Param,
        kind: ParamKind,
        value: &Value,
        item: Option<usize>,
        wrong: String,
    ) -> ArgumentFault {
        let mut hint = match kind {
            ParamKind::SensorId => self.sensor_hint(),
            ParamKind::DeviceId => self.device_hint(),
            kind => format!("Give {}, for example {}.", kind.words(), param.example.to_json()),
        };
        if !param.required && item.is_none() {
            hint.push_str(&format!(" Or leave it out: {}", param.left_out));
        }
        let meant = self.meant(kind, value);
        let mend = meant.clone().map(|meant| self.replace(param, item, meant));
        let suggestions = match (meant, kind, value) {
            (Some(meant), _, _) => vec![meant],
            (None, ParamKind::SensorId, Value::String(text)) => strings(self.nearest_sensors(text)),
            (None, ParamKind::DeviceId, Value::String(text)) => strings(self.nearest_devices(text)),
            (None, ParamKind::Enum(words), _) => strings(words.to_vec()),
            _ => Vec::new(),
        };
        ArgumentFault::new(place(param, item), value, wrong, hint).suggest(suggestions).mended_by(mend)
    }

    /// The value of the right shape that alone can have been meant.
    fn meant(&self, kind: ParamKind, value: &Value) -> Option<Value> {
        let text = value.as_str();
        match kind {
            ParamKind::SensorId => Some(same_but_for_spelling(text?, self.sensor_names())?.into()),
            ParamKind::DeviceId => Some(same_but_for_spelling(text?, self.device_names())?.into()),
            ParamKind::SensorIds { .. } => match value {
                Value::String(id) if self.registry.find_sensor(id).is_some() => Some(json!([id])),
                _ => None,
            },
            ParamKind::Enum(words) => Some(same_but_for_spelling(text?, words.iter().copied())?.into()),
            ParamKind::Integer { min, max } => {
                let number: i64 = text?.trim().parse().ok()?;
                (min..=max).contains(&number).then(|| number.into())
            }
            ParamKind::Text { .. } | ParamKind::Cursor => None,
        }
    }

    fn replace(&self, param: &Param, item: Option<usize>, value: Value) -> Mend {
        match item {
            Some(at) => Mend::ReplaceItem(param.name, at, value),
            None => Mend::Replace(param.name, value),
        }
    }

    /// A sensor that does not exist.
    pub fn no_such_sensor(&self, param: &Param, id: &str, item: Option<usize>) -> ArgumentFault {
        let received = Value::from(id);
        if let Some(device) = self.registry.find_device(id) {
            let sensors = self.registry.device(device).sensors.iter();
            let ids = sensors.map(|index| self.registry.sensor(*index).id.as_str());
            let hint = format!(
                "{id} is a device. Name one of its sensors; list_sensors with {{\"device\": \"{id}\"}} lists them, and \
                 get_sensor_readings with the same argument reads them all."
            );
            return ArgumentFault::new(place(param, item), &received, "is the id of a device, not of a sensor", hint)
                .suggest(ids);
        }
        let meant = same_but_for_spelling(id, self.sensor_names());
        let mend = meant.map(|meant| self.replace(param, item, meant.into()));
        ArgumentFault::new(place(param, item), &received, "is not the id of a sensor here", self.sensor_hint())
            .suggest(meant.map_or_else(|| self.nearest_sensors(id), |meant| vec![meant]))
            .mended_by(mend)
    }

    /// A device that does not exist.
    pub fn no_such_device(&self, param: &Param, id: &str) -> ArgumentFault {
        let received = Value::from(id);
        if let Some(sensor) = self.registry.find_sensor(id) {
            let device = self.registry.device(self.registry.sensor(sensor).device).id.as_str();
            let hint =
                format!("{id} is a sensor of the device {device}. Name the device, or ask for the sensor itself.");
            return ArgumentFault::new(param.name, &received, "is the id of a sensor, not of a device", hint)
                .suggest([device]);
        }
        let meant = same_but_for_spelling(id, self.device_names());
        let mend = meant.map(|meant| Mend::Replace(param.name, meant.into()));
        ArgumentFault::new(param.name, &received, "is not the id of a device here", self.device_hint())
            .suggest(meant.map_or_else(|| self.nearest_devices(id), |meant| vec![meant]))
            .mended_by(mend)
    }

    /// A text of nothing but spaces.
    pub fn blank(&self, param: &Param, value: &Value) -> ArgumentFault {
        let hint = format!("Give words, for example {}, or leave it out: {}", param.example.to_json(), param.left_out);
        ArgumentFault::new(param.name, value, "holds nothing but spaces", hint)
    }

    /// A cursor that leads nowhere.
    pub fn bad_cursor(&self, param: &Param, value: &Value, err: CursorError) -> ArgumentFault {
        let hint = match err {
            CursorError::Damaged => "Send next_cursor exactly as it was answered, or leave it out for the first page.",
            CursorError::OtherQuery => {
                "Repeat the call that gave this cursor with all of its other arguments, or leave the cursor out to begin \
                 again. A cursor also ends when the gateway's configuration changes."
            }
        };
        ArgumentFault { of_cursor: true, ..ArgumentFault::new(param.name, value, err.to_string(), hint) }
    }

    /// An id that stands in a list already.
    pub fn twice(&self, param: &Param, at: usize, item: &Value) -> ArgumentFault {
        ArgumentFault::new(place(param, Some(at)), item, "stands in the list already", "Name each sensor once.")
            .mended_by(Some(Mend::RemoveItem(param.name, at)))
    }

    /// None of several parameters, or more than one.
    pub fn not_exactly_one(&self, members: &[&str], given: &Map<String, Value>) -> ArgumentFault {
        let joined = members.join(" or ");
        let received: Map<String, Value> = members
            .iter()
            .filter_map(|name| given.get(*name).map(|value| ((*name).to_owned(), cut_json(value))))
            .collect();
        let message = if received.is_empty() { "is missing" } else { "may not both be given" };
        let received = if received.is_empty() { Value::Null } else { Value::Object(received) };
        ArgumentFault::new(joined, &received, message, format!("Give exactly one of {}.", members.join(", ")))
    }

    fn sensor_names(&self) -> impl Iterator<Item = &str> {
        self.registry.sensors().map(|(_, sensor)| sensor.id.as_str())
    }

    fn device_names(&self) -> impl Iterator<Item = &str> {
        self.registry.devices().map(|(_, device)| device.id.as_str())
    }

    fn nearest_sensors(&self, wanted: &str) -> Vec<&str> {
        search::nearest(wanted, self.sensor_names(), MOST_SUGGESTIONS)
    }

    fn nearest_devices(&self, wanted: &str) -> Vec<&str> {
        search::nearest(wanted, self.device_names(), MOST_SUGGESTIONS)
    }

    fn sensor_hint(&self) -> String {
        let example = self.sensor_names().next().map(|id| format!(" such as {id}")).unwrap_or_default();
        format!("Give the id of a sensor of this gateway{example}, spelt exactly; list_sensors finds ids by words.")
    }

    fn device_hint(&self) -> String {
        let example = self.device_names().next().map(|id| format!(" such as {id}")).unwrap_or_default();
        format!("Give the id of a device of this gateway{example}, spelt exactly; list_devices lists them.")
    }
}

fn place(param: &Param, item: Option<usize>) -> String {
    match item {
        Some(at) => format!("{}[{at}]", param.name),
        None => param.name.to_owned(),
    }
}

fn strings(texts: Vec<&str>) -> Vec<Value> {
    texts.into_iter().map(Value::from).collect()
}

/// `sensorId` as `sensor_id`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    let mut after_small = false;
    for c in name.chars() {
        if c.is_ascii_uppercase() && after_small {
            snake.push('_');
        }
        after_small = c.is_ascii_lowercase() || c.is_ascii_digit();
        snake.push(c.to_ascii_lowercase());
    }
    snake
}
