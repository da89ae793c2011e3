//! The official Python MCP client, over a page of MQTT transport (`tests/peers/mcp_client.py`).

use serde_json::{Value, json};

use crate::support::gateway::{GATEWAY, Gateway, failed, good, mqtt, observer, plant, tcp, units};
use crate::support::peers::{self, Mosquitto, Slave, mcp_client};

const READ_TOOLS: [&str; 6] = [
    "list_sensors",
    "describe_sensor",
    "get_sensor_reading",
    "get_sensor_readings",
    "list_devices",
    "get_gateway_status",
];

fn conversation(mode: &str, revisions: &[&str]) {
    let mosquitto = Mosquitto::start();
    let mut slave = Slave::tcp(&units());
    let _gateway = Gateway::run(&plant(&mqtt(mosquitto.port()), &tcp(slave.port())));
    let observer = observer(mosquitto.port());
    observer.reading_after(0, "A_LINE1_042", |reading| reading["quality"] == "good");
    observer.reading_after(0, "A_LINE1_050", |reading| reading["quality"] == "good");
    let (mut client, revision) = mcp_client(mosquitto.port(), GATEWAY, "agent-py", mode);
    assert!(revisions.contains(&revision.as_str()), "{mode} led to {revision}");

    let listed = client.ask(&json!({ "list_tools": true }));
    let tools = listed["tools"].as_array().unwrap_or_else(|| panic!("no tools in {listed}"));
    for name in READ_TOOLS {
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("{name} in {listed}"));
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "the schema of {name} is closed");
        assert!(tool["outputSchema"].is_object(), "{name} says what it answers");
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{name} says that it changes nothing");
    }

    let mut read = |sensor: &str| -> Value {
        client.ask(&json!({ "call": "get_sensor_reading", "arguments": { "sensor_id": sensor } }))
    };
    assert_eq!(good(&read("A_LINE1_042"))["value"], 47.3);
    let refused = failed(&read("A_LINE1_024"), "INVALID_ARGUMENT");
    assert!(refused["faults"][0]["suggestions"].as_array().is_some_and(|near| !near.is_empty()), "{refused}");

    let mark = observer.mark();
    slave.fall_silent(1);
    observer.reading_after(mark, "A_LINE1_042", |reading| reading["quality"] == "bad");
    let offline = failed(&read("A_LINE1_042"), "SENSOR_OFFLINE");
    assert_eq!(offline["last_good"]["value"], 47.3, "{offline}");

    let mark = observer.mark();
    slave.answer(1);
    observer.reading_after(mark, "A_LINE1_042", |reading| reading["quality"] == "good");
    assert_eq!(good(&read("A_LINE1_042"))["value"], 47.3);

    let unknown = client.ask(&json!({ "call": "no_such_tool", "arguments": {} }));
    assert_eq!(unknown["code"], -32602, "an unknown tool is a protocol error: {unknown}");

    // The client checks each result against the tool's output schema, and would answer `failed`.
    let calls: Vec<Value> = READ_TOOLS.iter().map(|tool| json!([tool, arguments_of(tool)])).collect();
    let answers = client.ask(&json!({ "calls": calls }));
    for (tool, result) in READ_TOOLS.iter().zip(answers["results"].as_array().expect("results")) {
        assert!(result.get("failed").is_none(), "{tool}: {result}");
        good(result);
    }
}

fn arguments_of(tool: &str) -> Value {
    match tool {
        "describe_sensor" | "get_sensor_reading" => json!({ "sensor_id": "A_LINE1_042" }),
        "get_sensor_readings" => json!({ "sensor_ids": ["A_LINE1_042", "A_LINE1_050"] }),
        _ => json!({}),
    }
}

// covers: C13, E6, E7, A7, D6, B4
#[test]
fn the_official_client_works_by_its_defaults() {
    if peers::available() {
        conversation("auto", &["2026-07-28"]);
    }
}

// covers: C13, E6, E7, A7, D6, B4
#[test]
fn the_official_client_works_with_the_handshake_of_2025() {
    if peers::available() {
        conversation("legacy", &["2025-11-25", "2025-06-18"]);
    }
}
