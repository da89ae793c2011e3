//! The nearest names to a mistyped one: for sensor ids in calls, and for keys and ids in a configuration.
//!
//! Pure and deterministic: the same names give the same suggestions in the same order, whatever order they come in.
//! Absent on purpose: a search by words, which reads names and descriptions and not ids.

use strsim::osa_distance;

use crate::ids::NAME_CAPACITY;

/// A wanted text longer than this is no mistyped name, and comparing it would cost its length times every name's.
const LONGEST_WANTED: usize = 2 * NAME_CAPACITY;

/// The known names nearest to `wanted`, best first, at most `limit`; none that is too far to be meant.
///
/// Letter case and separators count little. Swapped neighbours (`A_LINE1_024` for `A_LINE1_042`) count less than a wrong
/// character. A name that begins with what was given, or holds it, comes after those that were merely mistyped.
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>, limit: usize) -> Vec<&'a str> {
    let wanted = wanted.trim().to_lowercase();
    let length = wanted.chars().count();
    if length == 0 || length > LONGEST_WANTED {
        return Vec::new();
    }
    let mut found: Vec<(usize, &str)> =
        known.into_iter().filter_map(|name| Some((distance(&wanted, &name.to_lowercase())?, name))).collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().take(limit).map(|(_, name)| name).collect()
}

/// How far a name is from the wanted one, both in lower case; `None` where it cannot be meant.
///
/// The weights order the ways in which names go wrong: case, separators, swapped neighbours, wrong characters, parts.
fn distance(wanted: &str, name: &str) -> Option<usize> {
    if wanted == name {
        return Some(0);
    }
    let (bare_wanted, bare_name) = (without_separators(wanted), without_separators(name));
    if bare_wanted == bare_name {
        return Some(1);
    }
    let edits = osa_distance(&bare_wanted, &bare_name);
    if edits == 1 && sorted_characters(&bare_wanted) == sorted_characters(&bare_name) {
        return Some(2);
    }
    if edits <= edits_allowed(&bare_wanted) {
        return Some(1 + 2 * edits);
    }
    let (short, long) = if wanted.len() < name.len() { (wanted, name) } else { (name, wanted) };
    let rest = long.len() - short.len();
    if short.chars().count() < SHORTEST_PART || rest > NAME_CAPACITY {
        return None;
    }
    match () {
        () if long.starts_with(short) => Some(PART + rest),
        () if long.contains(short) => Some(PART + NAME_CAPACITY + rest),
        () => None,
    }
}

/// Parts shorter than this stand in too many names to say anything.
const SHORTEST_PART: usize = 3;
/// A part of a name is farther than any mistyped whole.
const PART: usize = 10;

/// One edit in three characters, and never more than three: beyond that, any id of the same form would be near.
fn edits_allowed(wanted: &str) -> usize {
    ((wanted.chars().count() + 1) / 3).min(3)
}

fn without_separators(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '_' | '-' | '.' | ' ' | '/')).collect()
}

fn sorted_characters(text: &str) -> Vec<char> {
    let mut characters: Vec<char> = text.chars().collect();
    characters.sort_unstable();
    characters
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: [&str; 6] = ["A_LINE1_042", "A_LINE1_025", "A_LINE1_001", "A_LINE2_042", "B_OVEN_007", "B_OVEN_TEMP"];

    fn check(wanted: &str, expected: &[&str]) {
        assert_eq!(nearest(wanted, IDS, 2), expected, "{wanted:?}");
        assert_eq!(nearest(wanted, IDS.into_iter().rev(), 2), expected, "{wanted:?}, names in another order");
    }

    #[test]
    fn what_was_meant_comes_first() {
        check("a_line1_042", &["A_LINE1_042", "A_LINE2_042"]);
        check("A-LINE1-042", &["A_LINE1_042", "A_LINE2_042"]);
        check("A_LINE1_42", &["A_LINE1_042", "A_LINE1_025"]);
        check("A_LINE1_O42", &["A_LINE1_042", "A_LINE2_042"]);
    }

    #[test]
    fn swapped_digits_are_nearer_than_a_wrong_digit() {
        check("A_LINE1_024", &["A_LINE1_042", "A_LINE1_025"]);
        check("A-LINE1-024", &["A_LINE1_042", "A_LINE1_025"]);
    }

    #[test]
    fn the_beginning_or_a_part_of_a_name_finds_it() {
        check("B_OVEN", &["B_OVEN_007", "B_OVEN_TEMP"]);
        check("OVEN_TEMP", &["B_OVEN_TEMP"]);
        assert_eq!(nearest("byteorder", ["order", "bit", "scale"], 1), ["order"]);
    }

    #[test]
    fn what_is_too_far_is_not_suggested() {
        check("Z_TANK_900", &[]);
        check("042", &["A_LINE1_042", "A_LINE2_042"]);
        check("", &[]);
        check("   ", &[]);
        check("x", &[]);
        check(&"A_LINE1_042".repeat(1000), &[]);
        assert_eq!(nearest("ib", ["id", "unit"], 3), ["id"]);
        assert_eq!(nearest("qos", ["id", "url"], 3), Vec::<&str>::new());
    }
}
