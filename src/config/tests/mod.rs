//! What is said of a wrong file.

mod docs;
mod gateway;
mod links;
mod meanings;
mod profiles;
mod sensors;
mod whole;

use super::*;

/// A right file; each test spoils it.
const PLANT: &str = r#"[gateway]
id = "gw-line1"

[broker]
url = "mqtt://10.0.0.2:1883"

[[link]]
id = "press-tcp"
tcp = "10.0.0.5:502"

[[link]]
id = "rs485-a"
serial = "/dev/serial/by-id/usb-a"
parity = "even"

[[device]]
id = "press-plc"
link = "press-tcp"
unit = 1

[[device.sensor]]
id = "A_LINE1_042"
read = { table = "holding", address = 100, type = "f32" }
unit = "°C"

[[device]]
id = "meter"
link = "rs485-a"
unit = 5

[[device.sensor]]
id = "B_POWER_001"
read = { table = "input", address = 0, type = "f32" }
"#;

/// What is said of the right file with one text replaced, each as `line:column: path: message (found …); suggestion`.
fn said(from: &str, to: &str) -> Vec<String> {
    assert!(PLANT.contains(from), "{from:?} stands in the plant");
    let faults = match Config::parse(&PLANT.replacen(from, to, 1), "f") {
        Ok(parsed) => parsed.warnings,
        Err(faults) => {
            assert!(faults.errors() > 0);
            faults.iter().cloned().collect()
        }
    };
    faults.iter().map(|fault| fault.to_string().trim_start_matches("f:").to_owned()).collect()
}

fn check(from: &str, to: &str, expected: &[&str]) {
    assert_eq!(said(from, to), expected, "{from:?} replaced by {to:?}");
}
