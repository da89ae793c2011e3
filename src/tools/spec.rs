//! What a tool takes: one table per tool, from which the JSON Schema and the check of a call are both derived.

use serde_json::{Map, Value, json};

use super::ToolName;
use super::answer::ErrorCode;
use crate::ids::NAME_CAPACITY;

/// The longest cursor, in characters; those that are handed out are shorter.
pub const CURSOR_LENGTH: usize = 64;

/// A group of tools that an agent can ask for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Toolset {
    /// Live values and what is known of sensors.
    Sensors,
    /// Devices and whether they answer.
    Devices,
    /// The gateway itself.
    Operations,
}

impl Toolset {
    /// All toolsets that have a tool.
    pub const ALL: [Toolset; 3] = [Toolset::Sensors, Toolset::Devices, Toolset::Operations];

    /// The name in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Toolset::Sensors => "sensors",
            Toolset::Devices => "devices",
            Toolset::Operations => "operations",
        }
    }
}

/// One tool: its text, its parameters, and what it may answer.
#[derive(Debug)]
pub struct ToolSpec {
    /// Which tool.
    pub name: ToolName,
    /// A title for people.
    pub title: &'static str,
    /// One line for the catalogue.
    pub summary: &'static str,
    /// When to use it, when not, and which tool serves instead.
    pub description: &'static str,
    /// Its group.
    pub toolset: Toolset,
    /// What it takes.
    pub params: &'static [Param],
    /// What must hold between parameters.
    pub rules: &'static [Rule],
    /// The errors of its own that it may answer, besides those of every call.
    pub errors: &'static [ErrorCode],
    /// What a time-out of it means.
    pub on_timeout: &'static str,
    /// The JSON Schema of a success.
    pub success: fn() -> Value,
}

/// One parameter.
#[derive(Debug)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub kind: ParamKind,
    /// Whether a call without it is refused.
    pub required: bool,
    /// What it is for.
    pub description: &'static str,
    /// A value that would be right.
    pub example: Literal,
    /// The value that stands for one left out, if there is one that a caller could write.
    pub default: Option<Literal>,
    /// What leaving it out means; empty where it is required.
    pub left_out: &'static str,
}

/// What a parameter takes.
///
/// Each kind has one arm in [`ParamKind::schema`] and one in `arguments`; a property test holds them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// The id of a sensor that exists.
    SensorId,
    /// The id of a device that exists.
    DeviceId,
    /// A list of ids of sensors that exist, each once.
    SensorIds {
        /// The most ids; one is the least.
        max: usize,
    },
    /// One of these words.
    Enum(&'static [&'static str]),
    /// A whole number.
    Integer {
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
    },
    /// A text that is not empty.
    Text {
        /// The most characters.
        max_len: usize,
    },
    /// Where a listing goes on, as it was handed out.
    Cursor,
}

/// A value in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Literal {
    /// A text.
    Text(&'static str),
    /// Several texts.
    Texts(&'static [&'static str]),
    /// A whole number.
    Integer(i64),
}

/// What must hold between parameters. It is checked for sense and stands in no schema, because several model APIs refuse
/// schemas with a choice at the top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// One of these must be given, and only one.
    ExactlyOneOf(&'static [&'static str]),
}

impl Literal {
    /// The value as JSON.
    pub fn to_json(self) -> Value {
        match self {
            Literal::Text(text) => text.into(),
            Literal::Texts(texts) => texts.to_vec().into(),
            Literal::Integer(number) => number.into(),
        }
    }
}

impl ParamKind {
    /// The JSON Schema of a value of this kind, without words.
    pub fn schema(self) -> Map<String, Value> {
        let schema = match self {
            ParamKind::SensorId | ParamKind::DeviceId => {
                json!({"type": "string", "minLength": 1, "maxLength": NAME_CAPACITY, "pattern": "^[A-Za-z0-9_.-]*$"})
            }
            ParamKind::SensorIds { max } => {
                json!({"type": "array", "minItems": 1, "maxItems": max, "items": ParamKind::SensorId.schema()})
            }
            ParamKind::Enum(words) => json!({"type": "string", "enum": words}),
            ParamKind::Integer { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
            ParamKind::Text { max_len } => json!({"type": "string", "minLength": 1, "maxLength": max_len}),
            ParamKind::Cursor => json!({"type": "string", "minLength": 1, "maxLength": CURSOR_LENGTH}),
        };
        into_object(schema)
    }

    /// What it takes, for people and for hints.
    pub fn words(self) -> String {
        match self {
            ParamKind::SensorId => "the id of a sensor".to_owned(),
            ParamKind::DeviceId => "the id of a device".to_owned(),
            ParamKind::SensorIds { max } => format!("a list of 1 to {max} sensor ids"),
            ParamKind::Enum(words) => format!("one of {}", quoted(words)),
            ParamKind::Integer { min, max } => format!("a whole number from {min} to {max}"),
            ParamKind::Text { max_len } => format!("a text of 1 to {max_len} characters"),
            ParamKind::Cursor => "a next_cursor as it was handed out".to_owned(),
        }
    }
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ")
}

impl Param {
    /// The JSON Schema of the parameter, with its words, example and default.
    fn schema(&self) -> Value {
        let mut schema = self.kind.schema();
        schema.insert("description".into(), self.text().into());
        schema.insert("examples".into(), json!([self.example.to_json()]));
        if let Some(default) = self.default {
            schema.insert("default".into(), default.to_json());
        }
        Value::Object(schema)
    }

    fn text(&self) -> String {
        match self.left_out {
            "" => self.description.to_owned(),
            left_out => format!("{} If left out: {left_out}", self.description),
        }
    }
}

impl ToolSpec {
    /// The parameter of that name.
    pub fn param(&self, name: &str) -> Option<&'static Param> {
        self.params.iter().find(|param| param.name == name)
    }

    /// The JSON Schema of the arguments: an object with these members and no others.
    pub fn input_schema(&self) -> Map<String, Value> {
        let properties: Map<String, Value> =
            self.params.iter().map(|param| (param.name.to_owned(), param.schema())).collect();
        let required: Vec<&str> = self.params.iter().filter(|param| param.required).map(|param| param.name).collect();
        into_object(json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        }))
    }

    /// The JSON Schema of the structured result: a success, or a typed error.
    pub fn output_schema(&self) -> Map<String, Value> {
        into_object(json!({"type": "object", "oneOf": [(self.success)(), super::output::error()]}))
    }

    /// What a client may rely on without understanding the text: nothing here changes anything, so a repeat is safe.
    pub fn annotations(&self) -> Map<String, Value> {
        into_object(json!({
            "title": self.title, "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true,
            "openWorldHint": false,
        }))
    }
}

/// The members of a JSON object that was just written down as one.
pub(super) fn into_object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
