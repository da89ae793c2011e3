//! The checks of the fuzz targets (`fuzz/`), with fewer inputs, on every test run.
//!
//! The course is the same each time, so that a failure is the change's and not the day's. `PROPTEST_RNG_SEED` takes another one
//! and `PROPTEST_CASES` more of it.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngSeed};

#[path = "../../fuzz/checks/configuration.rs"]
mod configuration;
#[path = "../../fuzz/checks/rtu_frames.rs"]
mod rtu_frames;
#[path = "../../fuzz/checks/tcp_frames.rs"]
mod tcp_frames;
#[path = "../../fuzz/checks/words.rs"]
mod words;

fn course() -> Config {
    let config = Config { failure_persistence: None, ..Config::default() };
    match config.rng_seed {
        RngSeed::Random => Config { rng_seed: RngSeed::Fixed(3), ..config },
        RngSeed::Fixed(_) => config,
    }
}

fn project(part: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(part)
}

/// The examples that are shipped, from which a fuzzer starts as well.
fn examples() -> Vec<String> {
    let folder = std::fs::read_dir(project("docs/examples")).expect("the examples");
    let mut files: Vec<PathBuf> = folder.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read_to_string(file).expect("a text")).collect()
}

/// The fuzzer's own words.
fn dictionary() -> Vec<String> {
    let text = std::fs::read_to_string(project("fuzz/configuration.dict")).expect("a text");
    let words = text.lines().filter_map(|line| line.strip_prefix('"')?.strip_suffix('"'));
    words.map(|word| word.replace("\\\"", "\"")).collect()
}

/// Something that happens to a file in an editor.
#[derive(Clone, Debug)]
enum Edit {
    Remove(Index),
    Repeat(Index, Index),
    Cut(Index),
    Insert(Index, String),
    /// The value behind the equals sign of a line.
    Replace(Index, String),
}

fn any_edit() -> impl Strategy<Value = Edit> {
    const VALUES: &[&str] =
        &["0", "-1", "65536", "1e400", "nan", "[]", "{}", "\"\"", "\"0s\"", "true", "\"ä\"", "[1, 0]", "''"];
    let text = || {
        let value = select(VALUES).prop_map(str::to_owned);
        prop_oneof![3 => select(dictionary()), 3 => value, 1 => any::<String>()]
    };
    let place = any::<Index>;
    prop_oneof![
        place().prop_map(Edit::Remove),
        (place(), place()).prop_map(|(line, to)| Edit::Repeat(line, to)),
        place().prop_map(Edit::Cut),
        (place(), text()).prop_map(|(place, text)| Edit::Insert(place, text)),
        (place(), text()).prop_map(|(line, text)| Edit::Replace(line, text)),
    ]
}

impl Edit {
    fn apply(&self, text: &str) -> String {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let place = |place: &Index| {
            let place = place.index(text.len() + 1);
            (0..=place).rev().find(|place| text.is_char_boundary(*place)).unwrap_or_default()
        };
        let line = |line: &Index| line.index(text.lines().count().max(1));
        match self {
            _ if lines.is_empty() => {}
            Edit::Remove(at) => drop(lines.remove(line(at))),
            Edit::Repeat(at, to) => lines.insert(line(to), lines[line(at)].clone()),
            Edit::Cut(at) => return text[..place(at)].to_owned(),
            Edit::Insert(at, word) => return [&text[..place(at)], word, &text[place(at)..]].concat(),
            Edit::Replace(at, value) => {
                let line = &mut lines[line(at)];
                let key = line.split('=').next().unwrap_or_default().to_owned();
                *line = format!("{key}= {value}");
            }
        }
        lines.join("\n")
    }
}

#[test]
fn every_example_passes_the_check_of_configurations() {
    let examples = examples();
    assert!(examples.len() >= 5);
    examples.iter().for_each(|example| configuration::check(example));
}

proptest! {
    #![proptest_config(course())]

    #[test]
    fn any_configuration_is_refused_with_places_or_planned(
        example in select(examples()),
        edits in prop::collection::vec(any_edit(), 0..6),
        text in any::<String>(),
    ) {
        configuration::check(&text);
        configuration::check(&edits.iter().fold(example, |text, edit| edit.apply(&text)));
    }

    #[test]
    fn any_bytes_over_tcp_are_taken(input in any::<tcp_frames::Input>()) {
        tcp_frames::check(input);
    }

    #[test]
    fn any_bytes_on_a_line_are_taken(input in any::<rtu_frames::Input>()) {
        rtu_frames::check(input);
    }

    #[test]
    fn any_registers_are_decoded_and_encoded(input in any::<words::Input>()) {
        words::check(input);
    }
}
