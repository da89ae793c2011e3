//! The form that every sensor id of a plant has: `PLANT_ZONE_NNN` unless the plant says otherwise.
//!
//! One form for all ids, because an agent that has seen three of them writes the fourth. A pattern consists of
//! - a word in capital letters, `PLANT`: one or more letters or digits;
//! - a run of `N` alone, `NNN`: so many digits;
//! - the separators `_`, `-` and `.`, which stand for themselves.
//!
//! A lone `*` takes every name.

use std::fmt;

use crate::ids::{NAME_CAPACITY, SensorId};

/// What every sensor id of a plant looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdFormat {
    pattern: String,
    /// Parts and separators, in turn; empty for `*`.
    parts: Vec<Part>,
    separators: Vec<char>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Word,
    Digits(usize),
}

/// Why a text is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a pattern is capital letters for words, N for digits, and `_`, `-` or `.` between them")]
pub struct IdFormatError;

impl Default for IdFormat {
    fn default() -> IdFormat {
        let parts = vec![Part::Word, Part::Word, Part::Digits(3)];
        IdFormat { pattern: "PLANT_ZONE_NNN".into(), parts, separators: vec!['_', '_'] }
    }
}

impl std::str::FromStr for IdFormat {
    type Err = IdFormatError;

    fn from_str(pattern: &str) -> Result<IdFormat, IdFormatError> {
        if pattern == "*" {
            return Ok(IdFormat { pattern: pattern.into(), parts: Vec::new(), separators: Vec::new() });
        }
        if pattern.len() > NAME_CAPACITY {
            return Err(IdFormatError);
        }
        let part = |word: &str| match () {
            () if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_uppercase()) => Err(IdFormatError),
            () if word.bytes().all(|byte| byte == b'N') => Ok(Part::Digits(word.len())),
            () => Ok(Part::Word),
        };
        let parts = pattern.split(is_separator).map(part).collect::<Result<_, _>>()?;
        let separators = pattern.chars().filter(|c| is_separator(*c)).collect();
        Ok(IdFormat { pattern: pattern.into(), parts, separators })
    }
}

impl IdFormat {
    /// Whether an id has this form.
    pub fn fits(&self, id: &str) -> bool {
        if self.parts.is_empty() {
            return true;
        }
        let separators = id.chars().filter(|c| is_separator(*c));
        let texts: Vec<&str> = id.split(is_separator).collect();
        separators.eq(self.separators.iter().copied())
            && texts.len() == self.parts.len()
            && texts.iter().zip(&self.parts).all(|(text, part)| part.fits(text))
    }

    /// An id of this form that is near to one that is not, if there is one: other separators, or another number of digits.
    pub fn mend(&self, id: &str) -> Option<SensorId> {
        let mut texts: Vec<&str> =
            id.split(|c: char| !c.is_ascii_alphanumeric()).filter(|text| !text.is_empty()).collect();
        if let (Some(Part::Digits(_)), Some(last)) = (self.parts.last(), texts.last())
            && texts.len() + 1 == self.parts.len()
        {
            let (word, digits) = last.split_at(last.trim_end_matches(|c: char| c.is_ascii_digit()).len());
            texts.pop();
            texts.extend([word, digits]);
        }
        if texts.len() != self.parts.len() {
            return None;
        }
        let mended: Option<Vec<String>> = texts.iter().zip(&self.parts).map(|(text, part)| part.mend(text)).collect();
        self.join(&mended?).parse().ok()
    }

    /// An id of this form.
    pub fn example(&self) -> String {
        let mut words = self.pattern.split(is_separator);
        let texts: Vec<String> = self
            .parts
            .iter()
            .map(|part| match (part, words.next()) {
                (Part::Word, word) => word.unwrap_or_default().to_owned(),
                (Part::Digits(count), _) => format!("{:0count$}", 1),
            })
            .collect();
        self.join(&texts)
    }

    fn join(&self, texts: &[String]) -> String {
        let mut separators = self.separators.iter();
        let mut id = String::new();
        for text in texts {
            id.push_str(text);
            id.extend(separators.next());
        }
        id
    }
}

impl Part {
    fn fits(self, text: &str) -> bool {
        match self {
            Part::Word => !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric()),
            Part::Digits(count) => text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit()),
        }
    }

    fn mend(self, text: &str) -> Option<String> {
        let mended = match self {
            Part::Word => text.to_owned(),
            Part::Digits(count) => format!("{:0>count$}", text.trim_start_matches('0')),
        };
        self.fits(&mended).then_some(mended)
    }
}

impl fmt::Display for IdFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.pattern)
    }
}

fn is_separator(c: char) -> bool {
    matches!(c, '_' | '-' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, id: &str, fits: bool, mended: Option<&str>) {
        let format: IdFormat = pattern.parse().expect("a pattern");
        assert_eq!(format.fits(id), fits, "{id} against {pattern}");
        if !fits {
            assert_eq!(format.mend(id).as_ref().map(SensorId::as_str), mended, "{id} mended for {pattern}");
        }
    }

    #[test]
    fn an_id_has_the_form_of_the_plant_or_is_mended() {
        let default = IdFormat::default().to_string();
        check(&default, "A_LINE1_042", true, None);
        check(&default, "a_line1_042", true, None);
        check(&default, "A-LINE1-042", false, Some("A_LINE1_042"));
        check(&default, "A_LINE1_42", false, Some("A_LINE1_042"));
        check(&default, "A_LINE1_0042", false, Some("A_LINE1_042"));
        check(&default, "A_LINE042", false, Some("A_LINE_042"));
        check(&default, "A_LINE1_1042", false, None);
        check(&default, "A_LINE1_TEMP", false, None);
        check(&default, "TEMP", false, None);
        check(&default, "", false, None);
        check("AREA-TT.NN", "A1-TT.07", true, None);
        check("AREA-TT.NN", "A1-TT-07", false, Some("A1-TT.07"));
        check("*", "anything-at.all", true, None);
    }

    #[test]
    fn a_pattern_is_capitals_digits_and_separators() {
        for bad in ["", "plant_NNN", "PLANT_", "_NNN", "PLANT ZONE", "PLANT_042", "*_NNN", &"X".repeat(49)] {
            assert_eq!(bad.parse::<IdFormat>(), Err(IdFormatError), "{bad:?}");
        }
        assert_eq!("PLANT_ZONE_NNN".parse::<IdFormat>(), Ok(IdFormat::default()));
        assert_eq!(IdFormat::default().example(), "PLANT_ZONE_001");
        assert!(IdFormat::default().fits(&IdFormat::default().example()));
    }
}
