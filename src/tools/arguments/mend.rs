//! Corrections that are certain: nobody could have meant anything else.

use std::cmp::Reverse;

use serde_json::{Map, Value};

use super::ArgumentFault;

/// How one fault goes away.
#[derive(Clone, Debug, PartialEq)]
pub enum Mend {
    /// Another value for a parameter.
    Replace(&'static str, Value),
    /// Another value for an item of a list.
    ReplaceItem(&'static str, usize, Value),
    /// One item of a list less.
    RemoveItem(&'static str, usize),
    /// Another name for a field.
    Rename(String, &'static str),
    /// One field less.
    Remove(String),
}

/// The arguments without the faults, if each fault has a certain correction. They are checked again before they are offered.
pub fn apply(given: &Map<String, Value>, faults: &[ArgumentFault]) -> Option<Map<String, Value>> {
    let mut mends: Vec<&Mend> = faults.iter().map(|fault| fault.mend.as_ref()).collect::<Option<_>>()?;
    mends.sort_by_key(|mend| mend.turn());
    let mut mended = given.clone();
    for mend in mends {
        match mend {
            Mend::Rename(from, to) => {
                let value = mended.remove(from)?;
                mended.insert((*to).to_owned(), value);
            }
            Mend::Remove(name) => drop(mended.remove(name)),
            Mend::Replace(name, value) => drop(mended.insert((*name).to_owned(), value.clone())),
            Mend::ReplaceItem(name, at, value) => *mended.get_mut(*name)?.get_mut(*at)? = value.clone(),
            Mend::RemoveItem(name, at) => {
                let items = mended.get_mut(*name)?.as_array_mut()?;
                if *at >= items.len() {
                    return None;
                }
                items.remove(*at);
            }
        }
    }
    Some(mended)
}

impl Mend {
    /// Names come right before values, values before items go, and items go from the end, so that each place is still what
    /// it was when the fault was found.
    fn turn(&self) -> (u8, Reverse<usize>) {
        match self {
            Mend::Rename(..) | Mend::Remove(_) => (0, Reverse(0)),
            Mend::Replace(..) | Mend::ReplaceItem(..) => (1, Reverse(0)),
            Mend::RemoveItem(_, at) => (2, Reverse(*at)),
        }
    }
}

/// The one known name that differs from the text in nothing but letter case, kind of separator, and spaces around it.
///
/// A name that differs in a letter or a digit is another name, however near: it may be the neighbour's sensor.
pub fn same_but_for_spelling<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = plain(text);
    let mut same = known.into_iter().filter(|name| plain(name) == wanted);
    match (same.next(), same.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

fn plain(text: &str) -> String {
    let separator = |c: char| matches!(c, '-' | '.' | ' ' | '/' | '_');
    text.trim().chars().map(|c| if separator(c) { '_' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_difference_of_spelling_is_certain() {
        let known = ["A_LINE1_042", "A_LINE1_043", "b.x", "b-x"];
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(same_but_for_spelling(text, known), expected, "{text}");
        };
        check(" a-line1 042 ", Some("A_LINE1_042"));
        check("A_LINE1_042", Some("A_LINE1_042"));
        check("A_LINE1_044", None);
        check("A_LINE1042", None);
        check("b_x", None);
        check("", None);
    }
}
