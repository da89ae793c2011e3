//! What is wrong with a configuration: where, what was found, and how to mend it.
//!
//! A fault carries all that a person needs to mend it without opening the documentation, and the same for programs
//! (`--json`). Lines that may hold a password are never repeated, neither as text nor as a source line.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;

/// Whether a configuration with the fault can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The daemon does not start with it.
    Error,
    /// The daemon starts, and someone should know.
    Warning,
}

/// One thing that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The file, as it was named.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// Which key: `device[press-plc].sensor[A_LINE1_042].read.scale`. Empty where no key is concerned.
    pub path: String,
    /// Whether the file can be used nevertheless.
    pub severity: Severity,
    /// The offending text as it stands in the file; empty where something is missing, or must not be repeated.
    pub text: String,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub suggestion: Option<String>,
    /// The line of the file; `None` where it may hold a password.
    pub source_line: Option<String>,
    /// How many characters of the line the offending text covers.
    #[serde(skip)]
    width: usize,
}

impl Fault {
    /// The line of the file with a mark below the offending text, for terminals; empty where there is nothing to show.
    pub fn excerpt(&self) -> String {
        let Some(line) = &self.source_line else { return String::new() };
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        let before: String = line.chars().take(self.column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let room = line.chars().count().saturating_sub(self.column - 1);
        let mark = "^".repeat(self.width.min(room).max(1));
        // What steers a terminal has no business in it.
        let line = line.replace(|c: char| c.is_control() && c != '\t', "\u{FFFD}");
        format!("{margin} |\n{number} | {line}\n{margin} | {before}{mark}\n")
    }
}

impl Fault {
    /// The same fault of something that is missing: it has a place, and no offending text.
    pub(super) fn of_something_missing(mut self) -> Fault {
        self.text.clear();
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        if self.severity == Severity::Warning {
            f.write_str("warning: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        if !self.text.is_empty() {
            write!(f, " (found {})", self.text)?;
        }
        match &self.suggestion {
            Some(suggestion) => write!(f, "; {suggestion}"),
            None => Ok(()),
        }
    }
}

/// Every fault of one file, in the order of the file; at least one of them is an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Faults(Vec<Fault>);

impl Faults {
    pub(super) fn new(faults: Vec<Fault>) -> Faults {
        Faults(sorted(faults))
    }

    /// The faults in the order of the file, warnings among them.
    pub fn iter(&self) -> std::slice::Iter<'_, Fault> {
        self.0.iter()
    }

    /// How many of them are errors.
    pub fn errors(&self) -> usize {
        self.0.iter().filter(|fault| fault.severity == Severity::Error).count()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fault in &self.0 {
            writeln!(f, "{fault}\n{}", fault.excerpt())?;
        }
        f.write_str(&counted(self.errors(), self.0.len() - self.errors()))
    }
}

impl std::error::Error for Faults {}

/// `2 errors and 1 warning`.
pub(crate) fn counted(errors: usize, warnings: usize) -> String {
    let count = |number: usize, noun: &str| format!("{number} {noun}{}", if number == 1 { "" } else { "s" });
    match (errors, warnings) {
        (_, 0) => count(errors, "error"),
        (0, _) => count(warnings, "warning"),
        _ => format!("{} and {}", count(errors, "error"), count(warnings, "warning")),
    }
}

/// The text of a file, and where its lines begin.
#[derive(Debug)]
pub(super) struct Source<'i> {
    file: Arc<str>,
    text: &'i str,
    line_starts: Vec<usize>,
}

/// More of an offending text than this is cut; a fault is read on a terminal.
const TEXT_LIMIT: usize = 60;
/// A longer line is not shown; its mark would be lost in it.
const LONGEST_LINE: usize = 300;

impl<'i> Source<'i> {
    pub fn new(file: &str, text: &'i str) -> Source<'i> {
        let after_breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Source { file: file.into(), text, line_starts: std::iter::once(0).chain(after_breaks).collect() }
    }

    pub fn text(&self) -> &'i str {
        self.text
    }

    /// The bytes of the line that holds the offset, without its end.
    pub fn line_around(&self, offset: usize) -> Range<usize> {
        let line = self.line_of(offset);
        let start = self.line_starts[line];
        let next = self.line_starts.get(line + 1).map_or(self.text.len(), |next| next - 1);
        start..start + self.text[start..next].trim_end_matches('\r').len()
    }

    fn line_of(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= offset).saturating_sub(1)
    }

    pub fn fault(
        &self,
        span: Range<usize>,
        severity: Severity,
        path: &str,
        message: String,
        suggestion: Option<String>,
    ) -> Fault {
        let start = self.floor(span.start);
        let line = self.line_around(start);
        let end = self.floor(span.end.clamp(start, line.end.max(start)));
        let source_line = &self.text[line.clone()];
        let covered = &self.text[start..end];
        let secret = may_hold_a_secret(source_line);
        Fault {
            file: self.file.clone(),
            line: self.line_of(start) + 1,
            column: self.text[line.start..start].trim_start_matches('\u{feff}').chars().count() + 1,
            path: path.into(),
            severity,
            text: if secret { String::new() } else { shortened(covered) },
            message,
            suggestion: suggestion.filter(|text| !secret || covered.is_empty() || !text.contains(covered)),
            source_line: (!secret && source_line.len() <= LONGEST_LINE)
                .then(|| source_line.trim_start_matches('\u{feff}').to_owned()),
            width: covered.chars().count(),
        }
    }

    /// A fault whose suggestion repeats what stands in the line, and is left out where that may be a password.
    pub fn fault_that_quotes(
        &self,
        span: Range<usize>,
        path: &str,
        message: String,
        suggestion: Option<String>,
    ) -> Fault {
        let line = &self.text[self.line_around(self.floor(span.start))];
        let suggestion = suggestion.filter(|_| !may_hold_a_secret(line));
        self.fault(span, Severity::Error, path, message, suggestion)
    }

    fn floor(&self, offset: usize) -> usize {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        offset
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(TEXT_LIMIT) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.into(),
    }
}

/// Whether a line looks as if it held a password, also one whose key is mistyped, or a URL with credentials.
fn may_hold_a_secret(line: &str) -> bool {
    let line = line.to_lowercase();
    let in_url = line.contains('@');
    let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    let names_one = |word: &str| ["pass", "pasw", "pwd", "secret", "token"].iter().any(|name| word.starts_with(name));
    in_url
        || words
            .flat_map(|word| [Some(word), word.split_once('_').map(|(_, rest)| rest)])
            .flatten()
            .any(|word| names_one(word) && !word.ends_with("_file"))
}

/// The faults in the order of the file.
pub(super) fn sorted(mut faults: Vec<Fault>) -> Vec<Fault> {
    faults.sort_by_key(|fault| (fault.line, fault.column, fault.severity));
    faults
}
