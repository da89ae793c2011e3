//! The program under test, and the small plant that most tests give it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::folder;
use super::mqtt::Mqtt;
use super::process::Process;

/// The name of every test's gateway.
pub const GATEWAY: &str = "gw-test";

/// A running `fieldgate run`.
pub struct Gateway {
    process: Process,
    configuration: PathBuf,
}

impl Gateway {
    /// Starts the daemon on a configuration.
    pub fn run(configuration: &str) -> Gateway {
        let file = write_configuration(configuration);
        Gateway { process: Self::spawn(&file), configuration: file }
    }

    fn spawn(file: &Path) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fieldgate"));
        Process::start("fieldgate run", command.args(["run", "--config"]).arg(file))
    }

    /// The file that it runs on.
    pub fn configuration(&self) -> &Path {
        &self.configuration
    }

    /// The program itself.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Fails with the daemon's own words when it has ended.
    pub fn assert_runs(&mut self) {
        assert!(self.process.runs(), "the daemon has ended");
    }
}

/// Writes a configuration to a file of its own.
pub fn write_configuration(text: &str) -> PathBuf {
    let file = folder().join("fieldgate.toml");
    std::fs::write(&file, text).expect("the test's folder can be written");
    file
}

/// Runs one command of the program to its end.
pub fn fieldgate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fieldgate")).args(arguments).output().expect("the program can be started")
}

/// What the slaves of [`plant`] hold: two units that a real cabinet might have.
pub fn units() -> Value {
    json!({
        "1": [
            { "table": "holding", "address": 100, "type": "f32", "value": 47.3 },
            { "table": "input", "address": 0, "type": "moment" },
            { "table": "coil", "address": 7, "type": "bool", "value": true },
        ],
        "2": [
            { "table": "holding", "address": 0, "type": "i16", "value": -97 },
            { "table": "holding", "address": 10, "type": "u64", "value": 9007199254740993_u64 },
        ],
    })
}

/// A configuration for the two units on one link: `tcp = "…"`, or `serial = "…"` with its settings.
pub fn plant(broker: &str, link: &str) -> String {
    format!(
        r#"
[gateway]
id = "{GATEWAY}"

[broker]
url = "{broker}"

[[link]]
id = "line"
{link}
timeout = "500ms"
retry_max = "1s"

[[device]]
id = "press"
link = "line"
unit = 1
poll_every = "200ms"

[[device.sensor]]
id = "A_LINE1_042"
name = "Hydraulic oil temperature"
read = {{ table = "holding", address = 100, type = "f32" }}
unit = "°C"
range = [-20, 120]
max_age = "2s"

[[device.sensor]]
id = "A_LINE1_001"
name = "The moment at which the slave answered"
read = {{ table = "input", address = 0, type = "u64" }}
unit = "ms"
max_age = "2s"

[[device.sensor]]
id = "A_LINE1_007"
name = "Pump runs"
read = {{ table = "coil", address = 7, type = "bool" }}
max_age = "2s"

[[device]]
id = "mixer"
link = "line"
unit = 2
poll_every = "200ms"

[[device.sensor]]
id = "A_LINE1_050"
name = "Coolant temperature"
read = {{ table = "holding", address = 0, type = "i16", scale = 0.1 }}
unit = "°C"
max_age = "2s"

[[device.sensor]]
id = "A_LINE1_051"
name = "Energy counter"
read = {{ table = "holding", address = 10, type = "u64" }}
unit = "Wh"
max_age = "2s"
"#
    )
}

/// The address of a broker on loopback.
pub fn mqtt(port: u16) -> String {
    format!("mqtt://127.0.0.1:{port}")
}

/// The address of a broker inside the daemon.
#[cfg(feature = "embedded-broker")]
pub fn embedded(port: u16) -> String {
    format!("embedded://127.0.0.1:{port}")
}

/// A Modbus/TCP link to a port on loopback.
pub fn tcp(port: u16) -> String {
    format!("tcp = \"127.0.0.1:{port}\"")
}

/// A client that sees everything the gateway publishes, after the gateway has said that it is online.
pub fn observer(broker: u16) -> Mqtt {
    let observer = Mqtt::connect(broker, GATEWAY, "observer", &["#"]);
    let topic = format!("fieldgate/v1/{GATEWAY}/status");
    observer.wait("the gateway to be online", |message| message.topic == topic && message.json["status"] == "online");
    observer
}

/// Asserts that a tool did what was asked, and returns its structured content.
pub fn good(result: &Value) -> Value {
    assert_ne!(result["isError"], true, "{result}");
    result["structuredContent"].clone()
}

/// Asserts that a tool failed with this error, and returns its structured content.
pub fn failed(result: &Value, error: &str) -> Value {
    assert_eq!(result["isError"], true, "{result}");
    let content = result["structuredContent"].clone();
    assert_eq!(content["error"], error, "{content}");
    // The text says the same, for agents that read no structure.
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {result}"));
    assert!(text.contains(error), "{text}");
    content
}
