//! What is no TOML, in words that say how to mend it.
//!
//! The parser goes on after most faults; where it gives up (a line without `=`), the line is blanked and the rest is read
//! anyway, because a fault in line 3 must not hide the one in line 300.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::fault::{Fault, Source};
use super::keys;
use super::reader::element_path;

/// What the syntax says of a file.
#[derive(Debug, Default)]
pub(super) struct Syntax {
    pub faults: Vec<Fault>,
    /// What was not understood; nothing more is to be said about it.
    pub unreadable: Vec<Range<usize>>,
    /// Whether a table's header was not understood, so that nobody knows where the keys below it belong.
    pub lost_a_table: bool,
}

/// So many lines without `=` are found in one run; a file with more is hardly a configuration.
const REPAIRS: usize = 50;

/// Notes what is no TOML, and gives the text that can be parsed: of the same length, with hopeless lines blanked.
pub(super) fn look_at(source: &Source<'_>) -> (Syntax, String) {
    let mut readable = source.text().to_owned();
    let mut blanked = Vec::new();
    for _ in 0..REPAIRS {
        let (_, errors) = DeTable::parse_recoverable(&readable);
        let hopeless = errors.iter().find(|error| error.message().starts_with("key with no value"));
        let Some(line) = hopeless.and_then(|error| error.span()).map(|span| source.line_around(span.start)) else {
            break;
        };
        if readable[line.clone()].trim().is_empty() {
            break;
        }
        readable.replace_range(line.clone(), &" ".repeat(line.len()));
        blanked.push(line);
    }
    let (document, mut errors) = DeTable::parse_recoverable(&readable);
    let places = Places::of(document.get_ref());
    let mut syntax = Syntax::default();
    for line in blanked {
        syntax.faults.push(without_value(source, &places, line.clone()));
        syntax.unreadable.push(line);
    }
    errors.sort_by_key(|error| error.span().map(|span| span.start));
    for error in errors {
        syntax.note(source, &places, error.span().unwrap_or(0..0), error.message());
    }
    if syntax.lost_a_table {
        // What is behind a lost header seems to stand in the table before it, and there twice.
        syntax.faults.retain(|fault| fault.message != DUPLICATE);
    }
    (syntax, readable)
}

impl Syntax {
    fn note(&mut self, source: &Source<'_>, places: &Places, span: Range<usize>, message: &str) {
        let line = source.line_around(span.start);
        let is_known = |part: &Range<usize>| part.start <= span.start && span.start <= part.end;
        if self.unreadable.iter().any(is_known) {
            return;
        }
        let token = token_around(source.text(), span.clone());
        if message.starts_with("unexpected leading zero") {
            let number = without_leading_zeros(&source.text()[token.clone()]);
            let why = "a number with leading zeros is refused, because some programs read it as octal".to_owned();
            let mend = Some(format!("remove the zeros: {number}"));
            self.faults.push(source.fault_that_quotes(token.clone(), &places.key_before(span.start), why, mend));
            // The rest of the line is understood.
            self.unreadable.push(token);
            return;
        }
        let is_header = source.text()[line.clone()].trim_start().starts_with('[');
        let (span, message, suggestion) = explain(source, span, token, message);
        let path = match () {
            () if is_header => String::new(),
            () if message == DUPLICATE => places.in_table_before(span.start, &source.text()[span.clone()]),
            () => places.key_before(span.start),
        };
        self.lost_a_table |= is_header && message != DUPLICATE;
        self.faults.push(source.fault_that_quotes(span, &path, message, suggestion));
        self.unreadable.push(line);
    }
}

/// Where the keys and tables of a file begin, in the order of the file.
#[derive(Debug, Default)]
struct Places {
    keys: Vec<(usize, String)>,
    tables: Vec<(usize, String)>,
}

impl Places {
    fn of(document: &DeTable<'_>) -> Places {
        let mut places = Places::default();
        places.add(document, "");
        places.keys.sort();
        places.tables.sort();
        places
    }

    fn add(&mut self, table: &DeTable<'_>, path: &str) {
        for (key, value) in table {
            let name = key.get_ref();
            let path = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
            match value.get_ref() {
                DeValue::Table(table) => self.add_table(value.span().start, table, path.clone()),
                DeValue::Array(elements) => {
                    for (place, element) in elements.iter().enumerate() {
                        if let DeValue::Table(table) = element.get_ref() {
                            let path = element_path(&path, place, element.get_ref());
                            self.add_table(element.span().start, table, path);
                        }
                    }
                }
                _ => {}
            }
            self.keys.push((key.span().start, path));
        }
    }

    fn add_table(&mut self, start: usize, table: &DeTable<'_>, path: String) {
        self.add(table, &path);
        self.tables.push((start, path));
    }

    /// The path of the last key before an offset.
    fn key_before(&self, offset: usize) -> String {
        last_before(&self.keys, offset).unwrap_or_default().to_owned()
    }

    /// The path of a key in the last table before an offset.
    fn in_table_before(&self, offset: usize, key: &str) -> String {
        match last_before(&self.tables, offset) {
            Some(table) => format!("{table}.{key}"),
            None => key.to_owned(),
        }
    }
}

fn last_before(places: &[(usize, String)], offset: usize) -> Option<&str> {
    let after = places.partition_point(|(start, _)| *start <= offset);
    places[..after].last().map(|(_, path)| path.as_str())
}

const DUPLICATE: &str = "this stands in the file twice";

fn explain(
    source: &Source<'_>,
    span: Range<usize>,
    token: Range<usize>,
    message: &str,
) -> (Range<usize>, String, Option<String>) {
    let text = source.text();
    if let Some((number, mended)) = decimal_comma(text, span.start) {
        return (number, "a number is written with a decimal point".into(), Some(format!("write {mended}")));
    }
    let found = &text[token.clone()];
    if message.starts_with("duplicate key") {
        let line = text[source.line_around(span.start)].trim_start();
        let suggestion = match line.starts_with('[') && keys::is_list(found) {
            true => format!("write [[{found}]] each time if there are several, or remove one of them"),
            false => "remove one of them".into(),
        };
        return (token, DUPLICATE.into(), Some(suggestion));
    }
    if message.starts_with("string values must be quoted") {
        return match found.is_empty() {
            true => {
                (source.line_around(span.start), "the key has no value".into(), Some("write it behind the =".into()))
            }
            false if found.chars().all(|c| c.is_ascii_digit() || c.is_whitespace()) => {
                let number: String = found.split_whitespace().collect();
                (token, "a number has no blanks".into(), Some(format!("write {number}")))
            }
            false => (token, "a text stands in quotes".into(), Some(format!("write \"{found}\""))),
        };
    }
    if message.starts_with("invalid float") && (found.matches('.').count() > 1 || found.contains(':')) {
        return (token, "a text stands in quotes".into(), Some(format!("write \"{found}\"")));
    }
    if message.starts_with("invalid basic string") || message.starts_with("invalid literal string") {
        return (token, "this text does not end".into(), Some("close the quotes in the same line".into()));
    }
    if message.starts_with("radix must be lowercase") {
        return (
            token,
            "the prefix of a number is lower case".into(),
            Some(format!("write {}", found.replacen('X', "x", 1))),
        );
    }
    if message.starts_with("invalid boolean") {
        return (token, "this is neither true nor false".into(), Some(format!("write {}", found.to_lowercase())));
    }
    (token, format!("this is no TOML: {message}"), None)
}

fn without_value(source: &Source<'_>, places: &Places, line: Range<usize>) -> Fault {
    let text = &source.text()[line.clone()];
    let start = line.start + text.len() - text.trim_start().len();
    let words = text.trim();
    let (key, value) = words.split_once(|c: char| c == ':' || c.is_whitespace()).unwrap_or((words, ""));
    let suggestion = match value.trim_matches([':', ' ']) {
        "" => format!("write {key} = …"),
        value => format!("write {key} = {value}"),
    };
    let path = places.in_table_before(start, key);
    let message = "a key is followed by = and its value".to_owned();
    source.fault_that_quotes(start..line.end, &path, message, Some(suggestion))
}

/// The word around a span: numbers with their signs and points, names.
fn token_around(text: &str, span: Range<usize>) -> Range<usize> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '+' | '-' | '.');
    let (Some(before), Some(after)) = (text.get(..span.start), text.get(span.end..)) else { return span };
    let start = before.trim_end_matches(is_word).len();
    let end = text.len() - after.trim_start_matches(is_word).len();
    start..end
}

fn without_leading_zeros(number: &str) -> String {
    let (sign, digits) = number.split_at(number.len() - number.trim_start_matches(['+', '-']).len());
    let rest = digits.trim_start_matches('0');
    let zero = if rest.starts_with(|c: char| c.is_ascii_digit()) { "" } else { "0" };
    format!("{sign}{zero}{rest}")
}

/// The number with a decimal comma at or just before an offset, and how it is written.
fn decimal_comma(text: &str, at: usize) -> Option<(Range<usize>, String)> {
    let is_part = |c: char| c.is_ascii_digit() || c == ',';
    let at = text.get(..at)?.trim_end_matches(' ').len();
    let start = text[..at].trim_end_matches(is_part).len();
    let end = text.len() - text[at..].trim_start_matches(is_part).len();
    let (whole, fraction) = text[start..end].trim_end_matches(',').split_once(',')?;
    let plain = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (plain(whole) && plain(fraction)).then(|| (start..end, format!("{whole}.{fraction}")))
}
