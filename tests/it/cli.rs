//! The command line: its exit codes (0 done, 1 it could not be done, 2 wrong usage or configuration), and what it prints.

use std::process::Output;

use serde_json::Value;

use crate::support::free_port;
use crate::support::gateway::{Gateway, fieldgate, mqtt, observer, plant, tcp, units, write_configuration};
use crate::support::peers::{self, Mosquitto, Slave};

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("the program prints text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("the program prints text")
}

fn json(output: &Output) -> Value {
    let text = stdout(output);
    serde_json::from_str(&text).unwrap_or_else(|err| panic!("{err} in {text:?}; {}", stderr(output)))
}

#[test]
fn every_command_explains_itself_with_an_example() {
    let commands = ["run", "check", "demo", "sim", "read", "watch", "call", "tools", "mcp", "status", "completions"];
    for command in commands {
        let help = fieldgate(&[command, "--help"]);
        assert_eq!(code(&help), Some(0), "{command}");
        assert!(stdout(&help).contains("Example"), "{command} --help shows an example");
    }
}

#[test]
fn a_reader_that_has_enough_ends_a_command_in_silence() {
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_fieldgate"))
        .args(["completions", "bash"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!(stderr(&output), "");
}

#[test]
fn a_wrong_broker_is_refused_with_the_right_form() {
    let call = fieldgate(&["call", "list_sensors", "--broker", "http://a", "--gateway", "gw"]);
    assert_eq!(code(&call), Some(2));
    assert_eq!(
        stderr(&call),
        "fieldgate: --broker http://a: http is none of: mqtt, mqtts, embedded; write \"mqtt://a\"\n"
    );
}

#[test]
fn wrong_usage_ends_with_2() {
    for wrong in [&["chek"][..], &["read"], &["call"], &["check", "--no-such-option"], &["tools", "--format", "yaml"]] {
        assert_eq!(code(&fieldgate(wrong)), Some(2), "{wrong:?}");
    }
}

// covers: E8
#[test]
fn check_sums_up_a_good_configuration() {
    let file = write_configuration(&plant("mqtt://127.0.0.1:1883", "tcp = \"127.0.0.1:502\""));
    let path = file.to_str().expect("text");
    let check = fieldgate(&["check", path]);
    assert_eq!(code(&check), Some(0), "{}", stderr(&check));
    for part in ["line", "press", "mixer", "5 sensors", "requests/s"] {
        assert!(stdout(&check).contains(part), "{part} in {}", stdout(&check));
    }
    let check = json(&fieldgate(&["check", "--json", path]));
    assert_eq!(check["usable"], true, "{check}");
}

// covers: E8
#[test]
fn check_reports_every_fault_at_once_with_its_place_and_its_mend() {
    let good = plant("mqtt://127.0.0.1:1883", "tcp = \"127.0.0.1:502\"");
    let bad = good
        .replace("timeout = ", "timout = ")
        .replace("id = \"mixer\"\nlink = \"line\"", "id = \"mixer\"\nlink = \"lien\"")
        .replace("A_LINE1_050", "A_LINE1_50")
        .replace("type = \"f32\"", "type = \"f33\"")
        .replace("max_age = \"2s\"\n\n[[device]]", "max_age = \"two seconds\"\n\n[[device]]");
    let file = write_configuration(&bad);
    let path = file.to_str().expect("text");
    let place = |text: &str| {
        let line = bad.lines().position(|line| line.contains(text)).unwrap_or_else(|| panic!("no {text} in the file"));
        format!("{path}:{}:", line + 1)
    };
    let check = fieldgate(&["check", path]);
    assert_eq!(code(&check), Some(2));
    let said = stdout(&check) + &stderr(&check);
    let wrongs =
        [("timout", "timeout"), ("lien", "line"), ("A_LINE1_50", "A_LINE1_050"), ("f33", "f32"), ("two seconds", "s")];
    for (wrong, mend) in wrongs {
        let fault = said.lines().find(|line| line.starts_with(&place(wrong)));
        let fault = fault.unwrap_or_else(|| panic!("{wrong} is not reported at {} in:\n{said}", place(wrong)));
        assert!(fault.contains(wrong) && fault.contains(mend), "{fault}");
    }
    let run = fieldgate(&["run", "--config", path]);
    assert_eq!(code(&run), Some(2), "the daemon does not start on such a file");
}

#[test]
fn an_output_that_cannot_be_written_is_a_failure_with_a_reason() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_fieldgate"))
        .args(["tools", "--format", "mcp"])
        .stdout(full)
        .output()
        .expect("the program can be started");
    assert_eq!(code(&output), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("cannot be written"), "{}", stderr(&output));
}

#[test]
fn a_configuration_that_is_not_there_is_wrong_usage() {
    let file = crate::support::folder().join("absent.toml");
    let path = file.to_str().expect("text");
    // A service manager starts `run` again after a 1, and no file comes of that.
    for command in ["check", "run", "plan", "watch", "status"] {
        let output = fieldgate(&[command, "--config", path]);
        assert_eq!(code(&output), Some(2), "{command}");
        assert!(stderr(&output).contains(path), "{command} names the file");
    }
}

// covers: B1
#[test]
fn tools_prints_the_catalogue_in_three_dialects() {
    for (format, schema) in [("mcp", "inputSchema"), ("openai", "parameters"), ("anthropic", "input_schema")] {
        let output = fieldgate(&["tools", "--format", format]);
        assert_eq!(code(&output), Some(0), "{format}");
        let text = stdout(&output);
        serde_json::from_str::<Value>(&text).unwrap_or_else(|err| panic!("{format}: {err}"));
        assert!(text.contains(&format!("\"{schema}\"")) && text.contains("get_sensor_reading"), "{format}: {text}");
    }
    let people = stdout(&fieldgate(&["tools"]));
    assert!(people.contains("get_sensor_readings"), "{people}");
    assert_eq!(code(&fieldgate(&["tools", "--toolset", "sensor"])), Some(2), "there is no such toolset");
}

// covers: E1, E7, A7
#[test]
fn read_asks_the_device_itself() {
    if !peers::available() {
        return;
    }
    let slave = Slave::tcp(&units());
    let file = write_configuration(&plant("mqtt://127.0.0.1:1", &tcp(slave.port())));
    let path = file.to_str().expect("text");
    let reading = json(&fieldgate(&["read", "A_LINE1_042", "--config", path, "--json"]));
    assert_eq!(reading["value"], 47.3, "without broker and daemon: {reading}");
    let first = json(&fieldgate(&["read", "A_LINE1_050", "--config", path, "--json"]));
    assert_eq!(first["value"], -9.7, "the register at address 0: {first}");
    let people = fieldgate(&["read", "A_LINE1_042", "--config", path]);
    assert!(stdout(&people).contains("47.3"), "{}", stdout(&people));

    let unknown = fieldgate(&["read", "A_LINE1_024", "--config", path]);
    assert_eq!(code(&unknown), Some(2));
    assert!(stderr(&unknown).contains("A_LINE1_042"), "the nearest id is named: {}", stderr(&unknown));

    drop(slave);
    let gone = fieldgate(&["read", "A_LINE1_042", "--config", path]);
    assert_eq!(code(&gone), Some(1), "a device that is away has no value: {}", stdout(&gone));
}

// covers: E6, E7, A7
#[test]
fn call_and_status_speak_as_an_agent() {
    if !peers::available() {
        return;
    }
    let mosquitto = Mosquitto::start();
    let mut slave = Slave::tcp(&units());
    let mut gateway = Gateway::run(&plant(&mqtt(mosquitto.port()), &tcp(slave.port())));
    let observer = observer(mosquitto.port());
    observer.reading_after(0, "A_LINE1_042", |reading| reading["quality"] == "good");
    let path = gateway.configuration().to_str().expect("text").to_owned();
    let call = |arguments: &[&str]| fieldgate(&[&["call"], arguments, &["--config", &path]].concat());

    let good = call(&["get_sensor_reading", "sensor_id=A_LINE1_042", "--json"]);
    assert_eq!(code(&good), Some(0), "{}", stderr(&good));
    assert_eq!(json(&good)["value"], 47.3);
    let people = call(&["get_sensor_reading", "sensor_id=A_LINE1_042"]);
    assert!(stdout(&people).contains("47.3"), "{}", stdout(&people));
    let batch = call(&["get_sensor_readings", "sensor_ids=A_LINE1_042,A_LINE1_050", "--json"]);
    assert_eq!(code(&batch), Some(0), "{}{}", stdout(&batch), stderr(&batch));
    let wrong = call(&["get_sensor_reading", "sensor_id=A_LINE1_024", "--json"]);
    assert_eq!(code(&wrong), Some(2), "refused arguments are wrong usage");
    assert_eq!(json(&wrong)["error"], "INVALID_ARGUMENT");
    assert_eq!(code(&call(&["no_such_tool"])), Some(2), "so is a tool that is not there");

    let mark = observer.mark();
    slave.fall_silent(1);
    observer.reading_after(mark, "A_LINE1_042", |reading| reading["quality"] == "bad");
    let offline = call(&["get_sensor_reading", "sensor_id=A_LINE1_042", "--json"]);
    assert_eq!(code(&offline), Some(1), "an error is no success");
    assert_eq!(json(&offline)["error"], "SENSOR_OFFLINE");

    let broker = mqtt(mosquitto.port());
    let status = |gateway: &str| fieldgate(&["status", "--broker", &broker, "--gateway", gateway, "--json"]);
    let online = status(crate::support::gateway::GATEWAY);
    assert_eq!(code(&online), Some(0), "{}", stderr(&online));
    assert_eq!(json(&online)["status"]["status"], "online");
    assert_eq!(code(&status("gw-nowhere")), Some(1), "nobody has heard of it");
    gateway.process().signal("TERM");
    assert!(gateway.process().end().success());
    let offline = status(crate::support::gateway::GATEWAY);
    assert_eq!(code(&offline), Some(1), "a gateway that has stopped is not online");
    assert_eq!(json(&offline)["status"]["status"], "offline");
}

// covers: E11
#[test]
fn check_says_what_memory_a_gateway_needs_and_it_needs_no_more() {
    let sensors: String = (0..2_000)
        .map(|number| {
            format!(
                "[[device.sensor]]\nid = \"A_BULK_{number:04}\"\nname = \"Number {number}\"\nunit = \"°C\"\n\
                 read = {{ table = \"input\", address = {number}, type = \"u16\" }}\n"
            )
        })
        .collect();
    let broker = free_port();
    let text = plant(&mqtt(broker), "tcp = \"127.0.0.1:9\"") + "[[device]]\nid = \"bulk\"\nlink = \"line\"\nunit = 3\n";
    let mut gateway = Gateway::run(&format!("{text}{sensors}\n[sensors]\nid_format = \"*\"\n"));
    let path = gateway.configuration().display().to_string();
    let check = json(&fieldgate(&["check", "--json", &path]))["summary"].clone();
    let promised = check["memory_bytes"].as_u64().unwrap_or_else(|| panic!("no memory_bytes in {check}"));
    assert!(check["memory_bytes_at_most"].as_u64() > Some(promised), "{check}");
    // Its links have begun to fail, so that everything is there.
    gateway.process().wait_for_line("the device is offline");
    let anonymous = gateway.process().memory_bytes();
    assert!(anonymous <= promised + promised / 4, "{anonymous} bytes and not {promised}");
    assert!(anonymous >= promised / 4, "{anonymous} bytes: a promise of {promised} says nothing");
}
