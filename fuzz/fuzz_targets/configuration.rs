//! Feeds [`checks`] to libFuzzer.
#![no_main]

#[path = "../checks/configuration.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &str| checks::check(input));
