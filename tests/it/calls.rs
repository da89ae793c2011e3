//! Every call ends once: one typed answer by its deadline, and the same answer to the same call.

use std::time::{Duration, Instant};

use rumqttc::{PublishOptions, PublishProperties};
use serde_json::{Value, json};

use crate::support::gateway::{Gateway, failed, good, mqtt, observer, plant, tcp, units};
use crate::support::mqtt::Mqtt;
use crate::support::peers::{self, Mosquitto, Slave};
use crate::support::wait_for;

struct Scene {
    slave: Slave,
    observer: Mqtt,
    _gateway: Gateway,
    _mosquitto: Mosquitto,
}

impl Scene {
    fn set() -> Scene {
        let mosquitto = Mosquitto::start();
        let slave = Slave::tcp(&units());
        let gateway = Gateway::run(&plant(&mqtt(mosquitto.port()), &tcp(slave.port())));
        let observer = observer(mosquitto.port());
        observer.reading_after(0, "A_LINE1_042", |reading| reading["quality"] == "good");
        Scene { slave, observer, _gateway: gateway, _mosquitto: mosquitto }
    }

    fn send(&self, id: &str, arguments: Value, meta: Value) {
        let params = json!({ "name": "get_sensor_reading", "arguments": arguments, "_meta": meta });
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        self.observer.send(request.to_string());
    }
}

// covers: E6, C2
#[test]
fn a_call_to_a_silent_device_ends_once_and_within_its_deadline() {
    if !peers::available() {
        return;
    }
    let mut scene = Scene::set();
    scene.slave.fall_silent(1);
    let params = json!({ "name": "get_sensor_reading", "arguments": { "sensor_id": "A_LINE1_042", "max_age_ms": 0 } });
    let request = json!({ "jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": params }).to_string();
    let expiry = PublishProperties { message_expiry_interval: Some(1), ..PublishProperties::default() };
    let sent = Instant::now();
    scene.observer.publish("rpc/observer/request", request, PublishOptions::at_least_once().properties(expiry));
    // A call to the neighbour on the same line is not held up by it.
    assert_eq!(good(&scene.observer.call("get_sensor_reading", json!({ "sensor_id": "A_LINE1_050" })))["value"], -9.7);
    let answer = scene.observer.answer("slow");
    assert!(sent.elapsed() < Duration::from_millis(1500), "answered after {:?}", sent.elapsed());
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let error = answer["result"]["structuredContent"]["error"].as_str().unwrap_or_default().to_owned();
    // Which one depends on how far the link has come with its tries.
    assert!(["SENSOR_OFFLINE", "STALE_DATA", "DEADLINE_EXCEEDED"].contains(&error.as_str()), "{answer}");

    // Another value, because the same one is not published anew if a repetition was answered in time.
    let mark = scene.observer.mark();
    scene.slave.set(1, json!({ "table": "holding", "address": 100, "type": "f32", "value": -3.5 }));
    scene.slave.answer(1);
    scene.observer.reading_after(mark, "A_LINE1_042", |reading| reading["value"] == -3.5);
    assert_eq!(scene.observer.answers("slow"), 1, "one answer, also after the device is back");
}

// covers: E6
#[test]
fn an_expired_call_is_not_executed() {
    if !peers::available() {
        return;
    }
    let scene = Scene::set();
    scene.send("expired", json!({ "sensor_id": "A_LINE1_042" }), json!({ "fieldgate/deadline_ms": 0 }));
    failed(&scene.observer.answer("expired")["result"], "DEADLINE_EXCEEDED");
}

// covers: E6, B3
#[test]
fn the_same_call_again_gets_the_same_answer() {
    if !peers::available() {
        return;
    }
    let mut scene = Scene::set();
    let arguments = json!({ "sensor_id": "A_LINE1_042" });
    let meta = json!({ "fieldgate/deadline_ms": 60_000 });
    scene.send("twice", arguments.clone(), meta.clone());
    let first = scene.observer.answer("twice");
    assert_eq!(good(&first["result"])["value"], 47.3);

    let mark = scene.observer.mark();
    scene.slave.set(1, json!({ "table": "holding", "address": 100, "type": "f32", "value": 50.5 }));
    scene.observer.reading_after(mark, "A_LINE1_042", |reading| reading["value"] == 50.5);
    scene.send("twice", arguments.clone(), meta);
    wait_for("the second answer", || (scene.observer.answers("twice") == 2).then_some(()));
    let second = scene.observer.seen().into_iter().rfind(|message| message.json["id"] == "twice").expect("it came");
    assert_eq!(second.json, first, "a duplicate is not executed again");
    assert_eq!(
        good(&scene.observer.call("get_sensor_reading", arguments))["value"],
        50.5,
        "another id is another call"
    );
}

// covers: B3, B4, C2
#[test]
fn fifty_calls_at_once_each_get_their_own_answer() {
    if !peers::available() {
        return;
    }
    let scene = Scene::set();
    let sensors = ["A_LINE1_042", "A_LINE1_050", "A_LINE1_099"];
    for n in 0..50 {
        scene.send(&format!("n{n}"), json!({ "sensor_id": sensors[n % 3] }), json!({}));
    }
    for n in 0..50 {
        let result = scene.observer.answer(format!("n{n}"))["result"].clone();
        match n % 3 {
            0 => assert_eq!(good(&result)["value"], 47.3),
            1 => assert_eq!(good(&result)["value"], -9.7),
            _ => drop(failed(&result, "INVALID_ARGUMENT")),
        }
    }
    for n in 0..50 {
        assert_eq!(scene.observer.answers(format!("n{n}")), 1, "one answer and no more");
    }
}
