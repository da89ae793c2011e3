//! Whole files: what a right one means, all faults of a wrong one, and any text at all.

use proptest::prelude::*;

use super::PLANT;
use crate::config::{BrokerEndpoint, Config, LoadError, Severity};
use crate::registry::sensor::Endpoint;

#[test]
fn a_right_file_means_what_it_says_and_takes_the_defaults_for_the_rest() {
    let parsed = Config::parse(PLANT, "f").expect("a right file");
    assert_eq!(parsed.warnings, []);
    let config = parsed.config;
    assert_eq!(config.gateway.as_str(), "gw-line1");
    assert_eq!(config.broker.endpoint, BrokerEndpoint::Remote { host: "10.0.0.2".into(), port: 1883, tls: false });
    let registry = &config.registry;
    let oil = registry.sensor(registry.find_sensor("A_LINE1_042").expect("the sensor"));
    assert_eq!((oil.read.address, oil.unit.as_str(), oil.max_age.as_secs()), (100, "°C", 3));
    let meter = registry.device(registry.find_device("meter").expect("the device"));
    assert_eq!((meter.unit, meter.limits.max_registers, meter.limits.read_across_gaps), (5, 125, true));
    let Endpoint::Serial(line) = &registry.link(meter.link).endpoint else { panic!("the meter is on a line") };
    assert_eq!((line.baud, line.stop_bits, line.bits_per_character()), (19_200, 1, 11));
}

const THIRTEEN: &str = r#"[gateway]
id = "gw line1"

[broker]
url = "http://10.0.0.2"
keepalive = "30s"

[[link]]
id = "press-tcp"
tcp = "10.0.0.5:70000"

[[device]]
id = "press-plc"
link = "pres-tcp"
unit = 0300
max_registers = 126
poll_every = 1

[[device.sensor]]
id = "A_LINE1_42"
read = { table = "holding", address = 65536, type = "float", scale = "0,1" }
range = [120, -20]
"#;

#[test]
fn all_faults_of_a_file_are_told_at_once() {
    let faults = Config::parse(THIRTEEN, "f").expect_err("a wrong file");
    let places: Vec<_> = faults.iter().map(|fault| (fault.line, fault.column)).collect();
    let expected = [
        (2, 6),
        (5, 7),
        (6, 1),
        (10, 7),
        (14, 8),
        (15, 8),
        (16, 17),
        (17, 14),
        (20, 6),
        (21, 39),
        (21, 53),
        (21, 70),
        (22, 9),
    ];
    assert_eq!(places, expected, "{faults}");
    assert!(faults.iter().all(|fault| fault.severity == Severity::Error && fault.suggestion.is_some()), "{faults}");
}

#[test]
fn a_misspelt_table_hides_no_fault_below_it() {
    let text = PLANT
        .replace("[[device.sensor]]", "[[device.sensors]]")
        .replace("address = 0", "adress = 0")
        .replace("[[link]]", "[[links]]");
    let faults = Config::parse(&text, "f").expect_err("a wrong file").to_string();
    for told in ["did you mean sensor?", "did you mean address?", "did you mean link?"] {
        assert!(faults.contains(told), "{told} in {faults}");
    }
    assert!(!faults.contains("there is no link"), "{faults}");
}

#[test]
fn a_file_with_nothing_in_it_says_what_a_file_needs() {
    let faults = Config::parse("", "empty.toml").expect_err("no configuration");
    let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let expected = [
        r#"empty.toml:1:1: gateway.id: id is missing; add [gateway] with id = "gw-line1""#,
        r#"empty.toml:1:1: broker.url: url is missing; add [broker] with url = "mqtt://10.0.0.2:1883""#,
        "empty.toml:1:1: warning: there is no device, so that nothing is read; \
         add [[link]], [[device]] and [[device.sensor]]",
    ];
    assert_eq!(said, expected);
}

#[test]
fn a_terminal_shows_the_line_with_a_mark_below_the_fault() {
    let faults = Config::parse(&PLANT.replace("unit = \"°C\"", "unit = \"°C\"\trange = 5"), "f").expect_err("a fault");
    let shown = faults.to_string();
    assert!(shown.contains("   |\n24 | unit = \"°C\"\trange = 5\n   |"), "{shown}");
    let faults = Config::parse(&PLANT.replace("unit = 1", "unit = 300"), "f").expect_err("a fault");
    let excerpt = faults.iter().next().expect("a fault").excerpt();
    assert_eq!(excerpt, "   |\n19 | unit = 300\n   |        ^^^\n");
    assert!(faults.to_string().ends_with("1 error"));
}

#[test]
fn faults_are_data_for_programs() {
    let faults = Config::parse(&PLANT.replace("unit = 1", "unit = 300"), "f").expect_err("a fault");
    let json = serde_json::to_value(&faults).expect("JSON");
    let expected = serde_json::json!([{
        "file": "f", "line": 19, "column": 8, "path": "device[press-plc].unit", "severity": "error", "text": "300",
        "message": "a unit id is 0 to 255", "suggestion": "use 255 at the most", "source_line": "unit = 300"
    }]);
    assert_eq!(json, expected);
}

#[test]
fn windows_line_ends_and_a_byte_order_mark_change_no_place() {
    let text = format!("\u{feff}{}", PLANT.replace("id = \"gw-line1\"", "id = \"\"").replace('\n', "\r\n"));
    let faults = Config::parse(&text, "f").expect_err("a fault");
    let fault = faults.iter().next().expect("a fault");
    assert_eq!((fault.line, fault.column, fault.source_line.as_deref()), (2, 6, Some("id = \"\"")));
}

#[test]
fn a_password_comes_from_a_file_of_its_own() {
    let text = PLANT.replace("1883\"", "1883\"\nusername = \"gw\"\npassword_file = \"mqtt.password\"");
    let read = |path: &std::path::Path| {
        assert_eq!(path.to_str(), Some("mqtt.password"));
        Ok("hunter2\r\n".to_owned())
    };
    let parsed = Config::parse_with(&text, "f", &read).expect("a right file");
    assert_eq!(parsed.config.broker.password.as_ref().map(|secret| secret.reveal()), Some("hunter2"));
    assert!(!format!("{:?}", parsed.config).contains("hunter2"));
}

#[test]
fn a_file_that_is_not_there_is_no_fault_of_a_configuration() {
    let missing = std::path::Path::new("no/such/folder/fieldgate.toml");
    let Err(LoadError::Unreadable { path, .. }) = Config::load(missing) else { panic!("there is no such file") };
    assert_eq!(path, missing);
}

/// A right file with some of its text replaced by other bits of configurations.
fn spoiled() -> impl Strategy<Value = String> {
    let bits = prop::sample::select(vec![
        "",
        "\"",
        "'''",
        "[",
        "]",
        "[[",
        "]]",
        "{",
        "}",
        "=",
        ",",
        ".",
        "#",
        "\n",
        "\r",
        "0",
        "012",
        "0x",
        "-",
        "1e999",
        "nan",
        "°",
        "\u{feff}",
        "\0",
        "true",
        "id",
        "read",
        "[device]",
        "[[device.sensor]]",
        "[link]",
        "a.b.c = 1\n",
        "password",
        "99999999999999999999",
        "1979-05-27",
        "order = \"X\"",
        "no_value = [[[",
        "range = [{}]",
    ]);
    prop::collection::vec((0..PLANT.len(), 0..12_usize, bits), 1..6).prop_map(|changes| {
        let mut text = PLANT.to_owned();
        for (at, length, bit) in changes {
            let mut start = at.min(text.len());
            while !text.is_char_boundary(start) {
                start -= 1;
            }
            let mut end = (start + length).min(text.len());
            while !text.is_char_boundary(end) {
                end += 1;
            }
            text.replace_range(start..end, bit);
        }
        text
    })
}

fn every_fault_has_its_place(text: &str) {
    let faults = match Config::parse(text, "f") {
        Ok(parsed) => parsed.warnings,
        Err(faults) => {
            assert!(faults.errors() > 0, "a refused file has an error: {text:?}");
            faults.iter().cloned().collect()
        }
    };
    for fault in faults {
        let line = text.split('\n').nth(fault.line - 1).expect("the line exists");
        assert!(fault.column <= line.chars().count() + 1, "{fault} in {text:?}");
        fault.excerpt();
    }
}

proptest! {
    #[test]
    fn any_text_is_understood_or_refused(text in any::<String>()) {
        every_fault_has_its_place(&text);
    }

    #[test]
    fn any_change_of_a_right_file_is_understood_or_refused(text in spoiled()) {
        every_fault_has_its_place(&text);
    }
}
