//! The value of one key, taken as the type that its key has.
//!
//! Each way of taking it notes a fault if the value is another, or lies outside its bounds, and then gives `None`: what is
//! built from it is left out, and the walk goes on to the next fault.

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use rust_decimal::Decimal;
use toml::Spanned;
use toml::de::DeValue;

use super::fault::Severity;
use super::keys::{self, TableKeys};
use super::reader::{Notes, TableReader};
use super::values;
use crate::registry::search::nearest;

/// The value of one key, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Field<'a, 'i> {
    pub(super) notes: &'a Notes<'i>,
    pub(super) key_span: Range<usize>,
    pub(super) value: &'a Spanned<DeValue<'i>>,
    pub(super) path: String,
}

impl<'a, 'i> Field<'a, 'i> {
    /// Notes that the value is wrong, and what would be right.
    pub fn fault(&self, message: impl Into<String>, suggestion: impl Into<String>) {
        self.notes.note(&self.value.span(), Severity::Error, &self.path, message, Some(suggestion.into()));
    }

    /// Notes that the value is wrong, where nothing more can be said.
    pub fn fault_alone(&self, message: impl Into<String>, suggestion: Option<String>) {
        self.notes.note(&self.value.span(), Severity::Error, &self.path, message, suggestion);
    }

    /// Notes that the key itself has no place here.
    pub fn fault_of_key(&self, message: impl Into<String>, suggestion: impl Into<String>) {
        self.notes.note(&self.key_span, Severity::Error, &self.path, message, Some(suggestion.into()));
    }

    /// Notes that the value refers to `id`, which the file does not have; unless it stands where the file could not be read.
    pub fn fault_of_reference(&self, id: &str, message: impl Into<String>, suggestion: impl Into<String>) {
        if !self.notes.hides(id) {
            self.fault(message, suggestion);
        }
    }

    /// Notes that the daemon would start with this value, but that someone should know.
    pub fn warn(&self, message: impl Into<String>, suggestion: impl Into<String>) {
        self.notes.note(&self.value.span(), Severity::Warning, &self.path, message, Some(suggestion.into()));
    }

    /// Notes that the daemon would start with this key, but that someone should know.
    pub fn warn_of_key(&self, message: impl Into<String>, suggestion: impl Into<String>) {
        self.notes.note(&self.key_span, Severity::Warning, &self.path, message, Some(suggestion.into()));
    }

    fn value(&self) -> &'a DeValue<'i> {
        self.value.get_ref()
    }

    /// The value if it is a whole number, for keys that take more than one type.
    pub fn plain_integer(&self) -> Option<i64> {
        let number = self.value().as_integer()?;
        i64::from_str_radix(number.as_str(), number.radix()).ok()
    }

    /// The value if it is a text, for keys that take more than one type.
    pub fn plain_text(&self) -> Option<&'a str> {
        match self.value() {
            DeValue::String(text) => Some(text),
            _ => None,
        }
    }

    /// The value if it is a text or a number, with the digits that the file has; hexadecimal ones behind `0x`.
    pub fn number_or_text(&self) -> Option<String> {
        match self.value() {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(number) => Some(number.to_string()),
            DeValue::Float(number) => Some(number.to_string()),
            _ => None,
        }
    }

    fn wrong_type<T>(&self, expected: &str, suggestion: Option<String>) -> Option<T> {
        let message = format!("{expected} belongs here, and this is {}", kind_of(self.value()));
        self.fault_alone(message, suggestion);
        None
    }

    /// A text.
    pub fn text(&self) -> Option<&'a str> {
        match self.value() {
            DeValue::String(text) => Some(text),
            DeValue::Integer(number) => self.wrong_type("a text", Some(format!("write \"{number}\""))),
            _ => self.wrong_type("a text", Some("write it in quotes".into())),
        }
    }

    /// A text for people: at most `longest` bytes, and no control characters.
    pub fn prose(&self, longest: usize) -> Option<String> {
        let text = self.text()?;
        if text.len() > longest {
            self.fault(format!("this text has {} bytes, and {longest} are the most", text.len()), "shorten it");
            return None;
        }
        if text.contains(|c: char| c.is_control() && c != '\n' && c != '\t') {
            self.fault("a control character stands in this text", "remove it");
            return None;
        }
        Some(text.trim().to_owned())
    }

    /// One of a closed list of texts; its place in the list.
    pub fn one_of(&self, names: &[&str]) -> Option<usize> {
        let text = self.text()?;
        let place = names.iter().position(|name| *name == text);
        if place.is_none() {
            let list = names.join(", ");
            let suggestion = match nearest(text, names.iter().copied(), 1).first() {
                Some(name) => format!("did you mean \"{name}\"?"),
                None => format!("use one of: {list}"),
            };
            self.fault(format!("this is none of: {list}"), suggestion);
        }
        place
    }

    /// Yes or no.
    pub fn boolean(&self) -> Option<bool> {
        match self.value() {
            DeValue::Boolean(value) => Some(*value),
            DeValue::String(text) if *text == "true" || *text == "false" => {
                self.wrong_type("true or false", Some(format!("write {text} without quotes")))
            }
            _ => self.wrong_type("true or false", Some("write true or false, without quotes".into())),
        }
    }

    /// A whole number within bounds; `what` names it in the fault.
    pub fn integer(&self, what: &str, bounds: RangeInclusive<i64>) -> Option<i64> {
        let number = match self.value() {
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok(),
            DeValue::String(text) => {
                let plain = text.trim().parse::<i64>().ok();
                return self.wrong_type("a whole number", plain.map(|number| format!("write {number} without quotes")));
            }
            _ => return self.wrong_type("a whole number", None),
        };
        let inside = number.filter(|number| bounds.contains(number));
        if inside.is_none() {
            let (least, most) = (bounds.start(), bounds.end());
            let between = if most - least == 1 { "or" } else { "to" };
            let suggestion = match number.is_some_and(|number| number < *least) {
                true => format!("use {least} at the least"),
                false => format!("use {most} at the most"),
            };
            self.fault(format!("{what} is {least} {between} {most}"), suggestion);
        }
        inside
    }

    /// A number, exactly as it is written.
    pub fn decimal(&self) -> Option<Decimal> {
        let text = match self.value() {
            DeValue::Integer(number) => number.as_str().to_owned(),
            DeValue::Float(number) => number.as_str().to_owned(),
            DeValue::String(text) => {
                let number = values::number_in(text);
                return self.wrong_type("a number", number.map(|number| format!("write {number} without quotes")));
            }
            _ => return self.wrong_type("a number", None),
        };
        let radix = self.value().as_integer().map_or(10, |number| number.radix());
        let number = values::decimal(&text, radix);
        if number.is_none() && text.ends_with(['n', 'f']) {
            self.fault("a number belongs here that others can be compared with", "write a number, or leave it out");
        } else if number.is_none() {
            self.fault_alone("this number cannot be kept exactly", Some("use a number with fewer digits".into()));
        }
        number
    }

    /// A span of time within bounds, written as `"250ms"`, `"1s"`, `"2m"` or `"1h"`.
    pub fn duration(&self, bounds: RangeInclusive<Duration>) -> Option<Duration> {
        let text = match self.value() {
            DeValue::String(text) => text,
            DeValue::Integer(number) => {
                let suggestion = format!("write \"{number}s\" or \"{number}ms\"");
                return self.wrong_type("a time with its unit", Some(suggestion));
            }
            _ => return self.wrong_type("a time with its unit", Some("write it as \"1s\" or \"250ms\"".into())),
        };
        let duration = match values::duration(text) {
            Ok(duration) => duration,
            Err(suggestion) => {
                self.fault("a time is a whole number and one of ms, s, m, h", suggestion);
                return None;
            }
        };
        if bounds.contains(&duration) {
            return Some(duration);
        }
        let (least, most) = (values::duration_text(*bounds.start()), values::duration_text(*bounds.end()));
        let suggestion = match duration < *bounds.start() {
            true => format!("use \"{least}\" at the least"),
            false => format!("use \"{most}\" at the most"),
        };
        self.fault(format!("this time is {least} to {most}"), suggestion);
        None
    }

    /// A name: gateway, link, device or sensor.
    pub fn name<T: std::str::FromStr<Err = crate::ids::NameError>>(&self) -> Option<T> {
        let text = self.text()?;
        match text.parse() {
            Ok(name) => Some(name),
            Err(err) => {
                self.fault_alone(err.to_string(), values::name_like(text).map(|name| format!("\"{name}\" would do")));
                None
            }
        }
    }

    /// The elements of a list.
    pub fn list(&self) -> Option<Vec<Field<'a, 'i>>> {
        let DeValue::Array(elements) = self.value() else {
            return self.wrong_type("a list", Some("write [ … ]".into()));
        };
        let numbered = elements.iter().enumerate();
        let fields = numbered.map(|(place, value)| Field {
            value,
            path: format!("{}[#{}]", self.path, place + 1),
            ..self.clone()
        });
        Some(fields.collect())
    }

    /// Whether the value is a list, for keys that take a list or a table.
    pub fn is_list(&self) -> bool {
        matches!(self.value(), DeValue::Array(_))
    }

    /// The keys and values of a table whose keys are free, in the order of the file; `example` shows how it is written.
    pub fn entries(&self, example: &str) -> Option<Vec<(String, Field<'a, 'i>)>> {
        let DeValue::Table(table) = self.value() else {
            return self.wrong_type("a table", Some(format!("write {example}")));
        };
        let mut entries: Vec<_> = table
            .iter()
            .map(|(key, value)| {
                let name = key.get_ref().to_string();
                let path = format!("{}.{name}", self.path);
                (name, Field { value, path, key_span: key.span(), ..self.clone() })
            })
            .collect();
        entries.sort_by_key(|(_, field)| field.key_span.start);
        Some(entries)
    }

    /// A table.
    pub fn table(&self, keys: &'static TableKeys) -> Option<TableReader<'a, 'i>> {
        match self.value() {
            DeValue::Table(table) => {
                Some(TableReader::new(self.notes, table, keys, self.value.span(), self.path.clone()))
            }
            DeValue::Array(_) => {
                self.wrong_type("one table", Some(format!("write [{}], with single brackets", keys.name)))
            }
            _ => self.wrong_type("a table", Some(keys::example_of(keys))),
        }
    }
}

fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
