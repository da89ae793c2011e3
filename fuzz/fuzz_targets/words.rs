//! Feeds [`checks`] to libFuzzer.
#![no_main]

#[path = "../checks/words.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: checks::Input| checks::check(input));
