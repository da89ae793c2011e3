//! Walks the tables of a file: each key is taken as a type, or a fault is noted and the walk goes on.
//!
//! Written by hand and not derived, because a derived reader stops at its first fault, loses the place of a value once it
//! is a number, and cannot tell `0.1` from the double that is nearest to it.

use std::cell::RefCell;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::fault::{Fault, Severity, Source};
use super::field::Field;
use super::keys::TableKeys;

/// Every fault so far, and what of the file could not be read at all.
#[derive(Debug)]
pub(super) struct Notes<'i> {
    source: Source<'i>,
    unreadable: Vec<Range<usize>>,
    faults: RefCell<Vec<Fault>>,
}

impl<'i> Notes<'i> {
    /// Notes on a file whose syntax has been looked at: nothing is said about the `unreadable` parts again.
    pub fn new(source: Source<'i>, unreadable: Vec<Range<usize>>, faults: Vec<Fault>) -> Notes<'i> {
        Notes { source, unreadable, faults: RefCell::new(faults) }
    }

    pub fn into_faults(self) -> Vec<Fault> {
        self.faults.into_inner()
    }

    pub(super) fn note(
        &self,
        span: &Range<usize>,
        severity: Severity,
        path: &str,
        message: impl Into<String>,
        suggestion: Option<String>,
    ) {
        if !self.is_unreadable(span) {
            let fault = self.source.fault(span.clone(), severity, path, message.into(), suggestion);
            self.faults.borrow_mut().push(fault);
        }
    }

    /// Notes something about a table as a whole, whose text says nothing.
    fn note_table(&self, table: &TableReader<'_, '_>, severity: Severity, path: &str, message: String, mend: String) {
        if self.is_complete() && !table.is_mistyped {
            let fault = self.source.fault(table.span.clone(), severity, path, message, Some(mend));
            self.faults.borrow_mut().push(fault.of_something_missing());
        }
    }

    fn is_unreadable(&self, span: &Range<usize>) -> bool {
        self.unreadable.iter().any(|part| part.start <= span.start && span.start <= part.end)
    }

    /// Whether the whole file could be read; only then can anything be called missing.
    fn is_complete(&self) -> bool {
        self.unreadable.is_empty()
    }

    /// Whether a word stands in a part that could not be read, and so may be declared there.
    pub(super) fn hides(&self, word: &str) -> bool {
        let is_between = |c: char| !c.is_alphanumeric() && !matches!(c, '-' | '_' | '.');
        self.unreadable.iter().any(|part| self.source.text()[part.clone()].split(is_between).any(|found| found == word))
    }
}

/// One table of the file, all of whose unknown keys are noted already.
#[derive(Clone, Debug)]
pub(super) struct TableReader<'a, 'i> {
    notes: &'a Notes<'i>,
    table: &'a DeTable<'i>,
    keys: &'static TableKeys,
    span: Range<usize>,
    path: String,
    /// Whether the file has the table at all.
    is_given: bool,
    /// Whether the table's name was misspelt, which is noted already and makes nothing missing in it.
    is_mistyped: bool,
}

impl<'a, 'i> TableReader<'a, 'i> {
    pub fn new(
        notes: &'a Notes<'i>,
        table: &'a DeTable<'i>,
        keys: &'static TableKeys,
        span: Range<usize>,
        path: String,
    ) -> TableReader<'a, 'i> {
        let reader = TableReader { notes, table, keys, span, path, is_given: true, is_mistyped: false };
        reader.note_unknown_keys();
        reader
    }

    fn note_unknown_keys(&self) {
        for key in self.table.keys().filter(|key| !self.keys.knows(key.get_ref())) {
            let name = key.get_ref().as_ref();
            let message = match self.keys.name {
                "" => "unknown table".to_owned(),
                table => format!("unknown key in {table}"),
            };
            self.notes.note(
                &key.span(),
                Severity::Error,
                &self.path_of(name),
                message,
                Some(self.keys.instead_of(name)),
            );
        }
    }

    /// The path of the table itself.
    pub fn path(&self) -> &str {
        &self.path
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The value of a key, if the file has it; or that of a misspelt one, noted already, if it holds what has faults of its own.
    pub fn optional(&self, key: &'static str) -> Option<Field<'a, 'i>> {
        debug_assert!(self.keys.knows(key), "{key} is missing in keys.rs");
        let holds_more = |value: &DeValue<'_>| matches!(value, DeValue::Table(_) | DeValue::Array(_));
        let misspelt = || {
            let unknown = self.table.iter().filter(|(name, _)| !self.keys.knows(name.get_ref()));
            let mut meant = unknown.filter(|(name, _)| self.keys.meant_by(name.get_ref()) == Some(key));
            meant.find(|(_, value)| holds_more(value.get_ref()))
        };
        let (name, value) = self.table.get_key_value(key).or_else(misspelt)?;
        Some(Field { notes: self.notes, key_span: name.span(), value, path: self.path_of(key) })
    }

    /// The value of a key that the file must have; `example` shows how it is written.
    pub fn required(&self, key: &'static str, example: &str) -> Option<Field<'a, 'i>> {
        let field = self.optional(key);
        if field.is_none() {
            let suggestion = match self.is_given {
                true => format!("add {key} = {example}"),
                false => format!("add [{}] with {key} = {example}", self.keys.name),
            };
            self.missing(key, format!("{key} is missing"), suggestion);
        }
        field
    }

    /// Notes that something is missing here, unless it may stand in a part of the file that could not be read, or below a
    /// misspelt key.
    pub fn missing(&self, key: &str, message: String, suggestion: String) {
        if !self.has_misspelt(key) {
            self.notes.note_table(self, Severity::Error, &self.path_of(key), message, suggestion);
        }
    }

    fn has_misspelt(&self, key: &str) -> bool {
        let unknown = self.table.keys().map(|key| key.get_ref().as_ref()).filter(|name| !self.keys.knows(name));
        unknown.filter_map(|name| self.keys.meant_by(name)).any(|meant| meant == key)
    }

    /// Notes that the daemon would start with this table, but that someone should know.
    pub fn warn(&self, message: impl Into<String>, suggestion: impl Into<String>) {
        self.notes.note_table(self, Severity::Warning, &self.path, message.into(), suggestion.into());
    }

    /// The table of that name; an empty one where the file has none, so that each key takes its default.
    pub fn table(&self, key: &'static str, keys: &'static TableKeys, empty: &'a DeTable<'i>) -> TableReader<'a, 'i> {
        let field = self.optional(key);
        let is_mistyped = field.is_some() || self.has_misspelt(key);
        let given = field.and_then(|field| field.table(keys));
        given.unwrap_or_else(|| TableReader {
            notes: self.notes,
            table: empty,
            keys,
            span: self.span.clone(),
            path: self.path_of(key),
            is_given: false,
            is_mistyped,
        })
    }

    /// The tables of that name, each with its path: `device[press-plc]`, or `device[#2]` where it has no usable id.
    pub fn tables(&self, key: &'static str, keys: &'static TableKeys) -> Vec<TableReader<'a, 'i>> {
        let Some(field) = self.optional(key) else { return Vec::new() };
        let DeValue::Array(elements) = field.value.get_ref() else {
            field.fault(format!("there may be several, so that {key} is a list"), format!("write [[{}]]", keys.name));
            return Vec::new();
        };
        let numbered = elements.iter().enumerate();
        let tables = numbered.filter_map(|(place, element)| {
            let path = element_path(&field.path, place, element.get_ref());
            let element = Field { value: element, path, ..field.clone() };
            element.table(keys)
        });
        tables.collect()
    }
}

/// The path of an element of a list of tables.
pub(super) fn element_path(list: &str, place: usize, element: &DeValue<'_>) -> String {
    match element.get("id").and_then(|id| id.get_ref().as_str()) {
        Some(id) if !id.is_empty() && id.len() <= 64 && !id.contains(char::is_control) => format!("{list}[{id}]"),
        _ => format!("{list}[#{}]", place + 1),
    }
}
