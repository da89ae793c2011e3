//! `docs/configuration.md` and the examples say what the parser does.

use std::collections::BTreeSet;

use crate::config::{Config, keys};

const DOCS: &str = include_str!("../../../docs/configuration.md");

/// One row of the tables of keys: the table, the key and its default.
fn rows() -> Vec<(&'static str, &'static str, &'static str)> {
    let mut rows = Vec::new();
    let mut table = "";
    for line in DOCS.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            table = match heading {
                "`read` of a sensor" => "device.sensor.read",
                "`scale_register` of a sensor" => "device.sensor.read.scale_register",
                "`heartbeat` of a device" => "device.heartbeat",
                name => name.trim_matches(['`', '[', ']']),
            };
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let ["", key, _, default, _, _, ""] = cells.as_slice()
            && let Some(key) = key.strip_prefix('`').and_then(|key| key.strip_suffix('`'))
        {
            rows.push((table, key, *default));
        }
    }
    rows
}

#[test]
fn every_key_is_described_and_every_described_key_exists() {
    let described: BTreeSet<(&str, &str)> = rows().into_iter().map(|(table, key, _)| (table, key)).collect();
    let tables = keys::ALL.iter().filter(|table| !table.name.is_empty());
    let known: BTreeSet<(&str, &str)> =
        tables.flat_map(|table| table.keys.iter().map(|key| (table.name, *key))).collect();
    assert_eq!(described, known);
}

/// A file with a place in every table; `-serial` is the second link.
const PLACES: &str = r#"
[gateway]
id = "gw"
<gateway>
[broker]
url = "mqtt://localhost"
<broker>
[publish]
<publish>
[calls]
<calls>
[sensors]
<sensors>
[[link]]
id = "press"
tcp = "10.0.0.5"
<link>
[[link]]
id = "line"
serial = "/dev/serial/by-id/usb"
<link-serial>
[[device]]
id = "meter"
link = "line"
unit = 1
[[device.sensor]]
id = "A_METER_001"
read = { table = "coil", address = 0 }
[[device]]
id = "plc"
link = "press"
unit = 1
<device>
[[device.sensor]]
id = "A_LINE1_042"
<device.sensor>
[device.sensor.read]
table = "holding"
address = 100
type = "f32"
<device.sensor.read>
"#;

fn with(place: &str, line: &str) -> String {
    let mark = format!("<{place}>");
    assert!(PLACES.contains(&mark), "{mark}");
    let text = PLACES.replace(&mark, line);
    let kept = text.lines().filter(|line| !line.starts_with('<'));
    kept.fold(String::new(), |text, line| text + line + "\n")
}

/// All that a file says; the registry's maps are left out, because their order is any.
fn meaning_of(text: &str) -> String {
    let Config { gateway, broker, publish, calls, metrics, registry } = match Config::parse(text, "f") {
        Ok(parsed) => parsed.config,
        Err(faults) => panic!("{faults}\n{text}"),
    };
    let links: Vec<_> = registry.links().collect();
    let devices: Vec<_> = registry.devices().collect();
    let sensors: Vec<_> = registry.sensors().collect();
    format!("{gateway} {broker:?} {publish:?} {calls:?} {metrics:?} {links:?} {devices:?} {sensors:?}")
}

#[test]
fn a_documented_default_is_what_leaving_the_key_out_means() {
    let without = meaning_of(&with("gateway", ""));
    let is_literal = |default: &str| default.len() > 2 && default.starts_with('`') && default.ends_with('`');
    let defaults: Vec<_> = rows().into_iter().filter(|(_, _, default)| is_literal(default)).collect();
    assert!(defaults.len() > 20, "the tables are found: {defaults:?}");
    for (table, key, default) in defaults {
        let is_serial = ["baud", "parity", "data_bits", "stop_bits", "local_echo", "short_silence"].contains(&key);
        let place = if is_serial { "link-serial" } else { table };
        let line = format!("{key} = {}", default.trim_matches('`'));
        assert_eq!(meaning_of(&with(place, &line)), without, "[{table}] {line}");
    }
}

#[test]
fn the_examples_have_neither_errors_nor_warnings() {
    let in_docs = DOCS.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let files = [
        include_str!("../../../docs/examples/tcp-device.toml"),
        include_str!("../../../docs/examples/sdm630-rtu.toml"),
        include_str!("../../../docs/examples/mixed-plant.toml"),
        include_str!("../../../docs/examples/sunspec-inverter.toml"),
        include_str!("../../../docs/examples/victron-gx.toml"),
        include_str!("../../../docs/examples/plc.toml"),
    ];
    for text in in_docs.chain(files) {
        match Config::parse(text, "example.toml") {
            Ok(parsed) => assert_eq!(parsed.warnings, [], "{text}"),
            Err(faults) => panic!("{faults}"),
        }
    }
}
