//! Whatever arrives, the daemon goes on: bad input has a typed answer or none at all, and nothing is executed.

use rumqttc::{PublishOptions, PublishProperties};
use serde_json::{Value, json};

use crate::support::gateway::{GATEWAY, Gateway, failed, good, mqtt, observer, plant, tcp, units};
use crate::support::mqtt::{Message, Mqtt};
use crate::support::peers::{self, Mosquitto, Slave};
use crate::support::wait_for;

/// Where the bad input goes in: a broker's port, the daemon behind it, and the slave that must not notice.
struct Target {
    port: u16,
    gateway: Gateway,
    slave: Slave,
    _mosquitto: Option<Mosquitto>,
}

impl Target {
    fn behind_mosquitto() -> Target {
        let mosquitto = Mosquitto::start();
        let port = mosquitto.port();
        Target::start(port, &mqtt(port), Some(mosquitto))
    }

    #[cfg(feature = "embedded-broker")]
    fn with_embedded_broker() -> Target {
        let port = crate::support::free_port();
        Target::start(port, &crate::support::gateway::embedded(port), None)
    }

    fn start(port: u16, broker: &str, mosquitto: Option<Mosquitto>) -> Target {
        let slave = Slave::tcp(&units());
        let gateway = Gateway::run(&plant(broker, &tcp(slave.port())));
        if mosquitto.is_none() {
            wait_for("the embedded broker", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        }
        let target = Target { port, gateway, slave, _mosquitto: mosquitto };
        let agent = target.agent("starter");
        agent.reading_after(0, "A_LINE1_042", |reading| reading["quality"] == "good");
        target
    }

    fn agent(&self, name: &str) -> Mqtt {
        Mqtt::connect(self.port, GATEWAY, name, &["reading/#"])
    }

    /// The proof at the end: a good call is answered, and the plant saw nothing but reads of units that exist.
    fn assert_unharmed(mut self) {
        let agent = self.agent("afterwards");
        let result = agent.call("get_sensor_reading", json!({ "sensor_id": "A_LINE1_042" }));
        assert_eq!(good(&result)["value"], 47.3);
        let count = self.slave.count();
        assert_eq!(count["writes"], 0, "{count}");
        let units = count["by_unit"].as_object().expect("units");
        assert!(units.keys().all(|unit| ["1", "2"].contains(&unit.as_str())), "{count}");
        self.gateway.assert_runs();
        let log = self.gateway.process().log();
        assert!(!log.contains("panicked"), "something panicked");
    }
}

fn request(id: impl Into<Value>, method: &str, params: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params }).to_string()
}

fn tool_call(id: impl Into<Value>, arguments: Value) -> String {
    request(id, "tools/call", json!({ "name": "get_sensor_reading", "arguments": arguments }))
}

fn error_code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("no JSON-RPC error in {answer}"))
}

// covers: E6, A9, D6
#[test]
fn protocol_faults_are_json_rpc_errors() {
    if !peers::available() {
        return;
    }
    let target = Target::behind_mosquitto();
    let agent = target.agent("agent");
    for (id, bad, expected) in [
        (1, request(1, "no/such_method", json!({})), -32601),
        (2, request(2, "tools/call", json!({ "name": "no_such_tool", "arguments": {} })), -32602),
        (3, request(3, "tools/call", json!({ "arguments": {} })), -32602),
        (4, request(4, "tools/call", json!({ "name": 7 })), -32602),
    ] {
        agent.send(bad.clone());
        assert_eq!(error_code(&agent.answer(id)), expected, "for {bad}");
    }
    target.assert_unharmed();
}

// covers: A5, A7, A8, B2
#[test]
fn wrong_arguments_are_answered_with_all_their_faults() {
    if !peers::available() {
        return;
    }
    let target = Target::behind_mosquitto();
    let agent = target.agent("agent");
    let faults = |id: i64, arguments: Value| -> Vec<String> {
        agent.send(tool_call(id, arguments));
        let refused = failed(&agent.answer(id)["result"], "INVALID_ARGUMENT");
        let faults = refused["faults"].as_array().unwrap_or_else(|| panic!("no faults in {refused}"));
        for fault in faults {
            assert!(fault["message"].is_string() && fault["hint"].is_string(), "a fault says how to mend it: {fault}");
        }
        faults.iter().map(|fault| fault["parameter"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(faults(1, json!({})), ["sensor_id"], "missing");
    assert_eq!(faults(2, json!({ "sensor_id": 42 })), ["sensor_id"], "of the wrong type");
    assert_eq!(faults(3, json!({ "sensor_id": null })), ["sensor_id"], "null");
    assert_eq!(faults(4, json!({ "sensor_id": "A_LINE1_042", "sensor": 1 })), ["sensor"], "unknown");
    assert_eq!(faults(5, json!({ "sensor_id": "A_LINE1_042", "unit": "kelvin" })), ["unit"], "outside its closed set");
    let mut all = faults(6, json!({ "sensor_id": 42, "unit": "kelvin", "colour": "red" }));
    all.sort();
    assert_eq!(all, ["colour", "sensor_id", "unit"], "all at once");
    let twice = json!("{\"sensor_id\": \"A_LINE1_042\", \"sensor_id\": \"A_LINE1_007\"}");
    for (id, arguments) in [(7, json!(7)), (8, json!([1, 2])), (9, json!("{")), (10, json!("7")), (12, twice)] {
        agent.send(tool_call(id, arguments));
        let answer = agent.answer(id);
        assert!(answer["result"]["isError"] == true || answer["error"]["code"].is_i64(), "{answer}");
    }
    agent.send(tool_call(11, json!("{\"sensor_id\": \"A_LINE1_042\"}")));
    assert_eq!(good(&agent.answer(11)["result"])["value"], 47.3, "a string that holds an object is an object");
    target.assert_unharmed();
}

/// Payloads that are no request at all, or hardly one.
fn not_requests() -> Vec<Vec<u8>> {
    let mut payloads: Vec<Vec<u8>> = [
        "",
        " ",
        "{",
        "}",
        "[",
        "[]",
        "{}",
        "null",
        "true",
        "42",
        "1e999",
        "\"text\"",
        "\u{feff}{}",
        "{\"jsonrpc\":\"2.0\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1}",
        "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"tools/list\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"tools/list\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"tools/list\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":[],\"method\":5}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":{}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"exit\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"\"}}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":[]}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":7}}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"tools/list\",\"method\":\"tools/call\"}",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    payloads.push(vec![0xFF, 0xFE, 0x00]);
    payloads.push(b"[".repeat(100_000));
    payloads.push(b"{\"a\":".repeat(50_000));
    payloads.push(request("x".repeat(100_000), "tools/list", json!({})).into_bytes());
    payloads.push(request(1, &"m".repeat(100_000), json!({})).into_bytes());
    payloads
}

/// Bytes without sense, the same at each run.
fn noise() -> Vec<Vec<u8>> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..300).map(|_| (0..next() % 700).map(|_| next() as u8).collect()).collect()
}

/// Everything that is bad, from one client; `topics` are those that the daemon listens on, by their ends.
fn storm(target: &Target, topics: &[&str]) {
    let agent = target.agent("agent");
    for topic in topics {
        for payload in not_requests().into_iter().chain(noise()) {
            agent.publish(topic, payload, PublishOptions::at_least_once());
        }
        // The broker hands messages on in order, so this part of the storm is over when this call is answered.
        let result = agent.call("get_sensor_reading", json!({ "sensor_id": "A_LINE1_042" }));
        assert_eq!(good(&result)["value"], 47.3);
    }
    // Nothing is passed over in silence: each piece of noise had its answer, however fast it all came.
    let unreadable = |message: &&Message| message.json["error"]["code"] == -32700;
    wait_for("an answer to every piece of noise", || {
        (agent.seen().iter().filter(unreadable).count() >= noise().len()).then_some(())
    });
    for message in agent.seen().iter().filter(|message| message.topic.ends_with("/response")) {
        let typed = message.json["error"]["code"].is_i64() || message.json["result"].is_object();
        assert!(typed, "an answer that is neither an error nor a result: {message:?}");
    }
}

// covers: E6
#[test]
fn malformed_requests_and_noise_end_nothing() {
    if !peers::available() {
        return;
    }
    let target = Target::behind_mosquitto();
    storm(&target, &["rpc/agent/request", "rpc/no name/request", "rpc/~/request", "status", "catalog"]);
    target.assert_unharmed();
}

// covers: E6
#[cfg(feature = "embedded-broker")]
#[test]
fn malformed_requests_and_noise_end_nothing_on_the_embedded_broker() {
    if !peers::available() {
        return;
    }
    let target = Target::with_embedded_broker();
    storm(&target, &["rpc/agent/request"]);
    target.assert_unharmed();
}

// covers: E6, A8
#[test]
fn a_mebibyte_of_arguments_is_refused_or_dropped() {
    if !peers::available() {
        return;
    }
    let target = Target::behind_mosquitto();
    let agent = target.agent("agent");
    let big = "x".repeat(1 << 20);
    agent.send(tool_call("big-value", json!({ "sensor_id": big })));
    agent.send(tool_call("big-name", json!({ &big[..]: 1 })));
    let many: Vec<_> = (0..100_000).map(|n| format!("A_LINE1_{n:03}")).collect();
    let params = json!({ "name": "get_sensor_readings", "arguments": { "sensor_ids": many } });
    agent.send(request("big-list", "tools/call", params));
    let result = agent.call("get_sensor_reading", json!({ "sensor_id": "A_LINE1_042" }));
    assert_eq!(good(&result)["value"], 47.3);
    for message in agent.seen().iter().filter(|message| message.topic.ends_with("/response")) {
        let refused = message.json["result"]["isError"] == true || message.json["error"]["code"].is_i64();
        let is_big = message.json["id"].as_str().is_some_and(|id| id.starts_with("big"));
        assert!(refused || !is_big, "an answer that is no refusal: {message:?}");
        assert!(message.json.to_string().len() < 64 * 1024, "a refusal does not send everything back");
    }
    target.assert_unharmed();
}

// covers: E6
#[test]
fn a_request_that_the_broker_had_kept_is_never_executed() {
    if !peers::available() {
        return;
    }
    let mosquitto = Mosquitto::start();
    let early = Mqtt::connect(mosquitto.port(), GATEWAY, "agent", &[]);
    let kept = tool_call("kept", json!({ "sensor_id": "A_LINE1_042" }));
    early.publish("rpc/agent/request", kept, PublishOptions::at_least_once().retained());
    let slave = Slave::tcp(&units());
    let _gateway = Gateway::run(&plant(&mqtt(mosquitto.port()), &tcp(slave.port())));
    observer(mosquitto.port()).reading_after(0, "A_LINE1_042", |reading| reading["quality"] == "good");
    for _ in 0..5 {
        good(&early.call("get_sensor_reading", json!({ "sensor_id": "A_LINE1_042" })));
    }
    let answered = early.seen().into_iter().find(|message| message.json["id"] == "kept");
    assert!(answered.is_none_or(|message| message.json.get("result").is_none()), "the retained request was executed");
}

// covers: E6
#[test]
fn an_answer_goes_nowhere_but_to_its_callers_own_topics() {
    if !peers::available() {
        return;
    }
    let target = Target::behind_mosquitto();
    let all = observer(target.port);
    let agent = target.agent("agent");
    let elsewhere = ["rpc/other/response", "status", "rpc/agent/request", "rpc/agent2/response", "reading/x/y"];
    for (id, topic) in elsewhere.iter().enumerate() {
        let properties = PublishProperties { response_topic: Some(agent.topic(topic)), ..PublishProperties::default() };
        let options = PublishOptions::at_least_once().properties(properties);
        agent.publish("rpc/agent/request", tool_call(id, json!({ "sensor_id": "A_LINE1_042" })), options);
    }
    let inside = PublishProperties {
        response_topic: Some(agent.topic("rpc/agent/response/mine")),
        ..PublishProperties::default()
    };
    let options = PublishOptions::at_least_once().properties(inside);
    agent.publish("rpc/agent/request", tool_call("mine", json!({ "sensor_id": "A_LINE1_042" })), options);
    let mine = all.wait("the answer on a topic of the caller's own", |message| {
        message.json["id"] == "mine" && message.json.get("result").is_some()
    });
    assert_eq!(mine.topic, agent.topic("rpc/agent/response/mine"));
    for message in all.seen() {
        if message.json.get("result").is_some() || message.json.get("error").is_some() {
            let own = message.topic.starts_with(&agent.topic("rpc/agent/response"))
                || message.topic.starts_with(&agent.topic("rpc/starter/response"))
                || message.topic.contains("/result/");
            assert!(own, "an answer went astray: {message:?}");
        }
    }
    target.assert_unharmed();
}

// covers: E6
#[cfg(feature = "embedded-broker")]
#[test]
fn the_embedded_broker_refuses_a_request_in_another_clients_name() {
    if !peers::available() {
        return;
    }
    let target = Target::with_embedded_broker();
    let (impostor, victim) = (target.agent("impostor"), target.agent("victim"));
    impostor.publish(
        "rpc/victim/request",
        tool_call("stolen", json!({ "sensor_id": "A_LINE1_042" })),
        PublishOptions::at_least_once(),
    );
    for topic in ["status", "catalog", "reading/press/A_LINE1_042", "device/press/status", "rpc/victim/response"] {
        impostor.publish(topic, "forged", PublishOptions::at_least_once());
    }
    good(&impostor.call("get_sensor_reading", json!({ "sensor_id": "A_LINE1_042" })));
    good(&victim.call("get_sensor_reading", json!({ "sensor_id": "A_LINE1_042" })));
    assert_eq!(victim.answers("stolen"), 0, "a request in the victim's name was executed");
    let forged = |message: &Message| message.json.is_null();
    assert!(!victim.seen().iter().any(forged), "a client spoke in the gateway's name");

    let spy = Mqtt::connect(target.port, GATEWAY, "spy", &["rpc/victim/response"]);
    good(&victim.call("get_sensor_reading", json!({ "sensor_id": "A_LINE1_042" })));
    good(&spy.call("get_sensor_reading", json!({ "sensor_id": "A_LINE1_042" })));
    let overheard = spy.seen().iter().filter(|message| message.topic.contains("/rpc/victim/")).count();
    assert_eq!(overheard, 0, "a client read another's answers");
    target.assert_unharmed();
}
