//! A Modbus/TCP device, a broker and a caller that we did not write: pymodbus, Mosquitto and mosquitto_rr.

use serde_json::{Value, json};

use crate::support::gateway::{GATEWAY, Gateway, failed, good, mqtt, observer, plant, tcp, units};
use crate::support::mqtt::Mqtt;
use crate::support::peers::{self, Mosquitto, Slave, mosquitto_rr};

struct Scene {
    mosquitto: Mosquitto,
    slave: Slave,
    observer: Mqtt,
    _gateway: Gateway,
}

impl Scene {
    fn set() -> Scene {
        let mosquitto = Mosquitto::start();
        let slave = Slave::tcp(&units());
        let gateway = Gateway::run(&plant(&mqtt(mosquitto.port()), &tcp(slave.port())));
        let observer = observer(mosquitto.port());
        observer.reading_after(0, "A_LINE1_042", |reading| reading["quality"] == "good");
        Scene { mosquitto, slave, observer, _gateway: gateway }
    }

    fn read(&self, sensor: &str) -> Value {
        let arguments = json!({ "sensor_id": sensor });
        mosquitto_rr(self.mosquitto.port(), GATEWAY, "plain", "get_sensor_reading", &arguments)
    }
}

// covers: E1, E5, E6, A3, B3, B5
#[test]
fn what_the_device_holds_is_published_and_answered() {
    if !peers::available() {
        return;
    }
    let scene = Scene::set();
    let published = scene.observer.reading_after(0, "A_LINE1_042", |reading| reading["quality"] == "good");
    assert_eq!(published["value"], 47.3, "an f32 keeps the digits that it was written with: {published}");
    assert_eq!(published["unit"], "°C");
    assert_eq!(published["raw"], json!(["0x423D", "0x3333"]));

    let answered = good(&scene.read("A_LINE1_042"));
    for (member, expected) in [("value", json!(47.3)), ("unit", json!("°C")), ("quality", json!("good"))] {
        assert_eq!(answered[member], expected, "{member} in {answered}");
    }
    assert!(answered["timestamp"].is_string() && answered["age_ms"].is_u64(), "{answered}");
    assert_eq!(good(&scene.read("A_LINE1_007"))["value"], true);
    assert_eq!(good(&scene.read("A_LINE1_050"))["value"], -9.7, "decimal scaling is exact");
    assert_eq!(good(&scene.read("A_LINE1_051"))["value"], "9007199254740993", "no digit of a counter is lost");
}

// covers: A7, A8, A9
#[test]
fn a_wrong_id_is_answered_with_the_nearest_ones() {
    if !peers::available() {
        return;
    }
    let scene = Scene::set();
    let refused = failed(&scene.read("A_LINE1_024"), "INVALID_ARGUMENT");
    assert_eq!(refused["class"], "permanent");
    assert_eq!(refused["retryable"], false);
    let fault = &refused["faults"][0];
    assert_eq!(fault["parameter"], "sensor_id", "{refused}");
    assert_eq!(fault["received"], "A_LINE1_024", "{refused}");
    let suggestions = fault["suggestions"].as_array().unwrap_or_else(|| panic!("no suggestions in {refused}"));
    assert!(suggestions.contains(&json!("A_LINE1_042")), "{refused}");
}

// covers: E7, C10, D1
#[test]
fn a_silent_device_is_a_typed_error_and_comes_back_by_itself() {
    if !peers::available() {
        return;
    }
    let mut scene = Scene::set();
    let mark = scene.observer.mark();
    scene.slave.fall_silent(1);
    let published = scene.observer.reading_after(mark, "A_LINE1_042", |reading| reading["quality"] == "bad");
    assert_eq!(published["value"], Value::Null, "{published}");
    assert_eq!(published["reason"], "comm_failure", "{published}");
    assert_eq!(published["last_good"]["value"], 47.3, "the old value is kept apart: {published}");

    let offline = failed(&scene.read("A_LINE1_042"), "SENSOR_OFFLINE");
    assert_eq!(offline["class"], "transient", "{offline}");
    assert_eq!(offline["retryable"], true, "{offline}");
    // Its neighbour on the same connection answers, so the unit is silent and not the whole endpoint.
    let cause = offline["cause"].as_str().unwrap_or_default();
    assert!(["connected_but_silent", "unit_silent_behind_gateway"].contains(&cause), "{offline}");
    assert_eq!(offline["device"], "press", "{offline}");
    assert_eq!(offline["link"], "line", "{offline}");
    assert!(offline["offline_since"].is_string(), "{offline}");
    assert!(offline["retry_after_ms"].is_u64(), "{offline}");
    assert_eq!(offline["last_good"]["value"], 47.3, "{offline}");
    assert!(offline.get("value").is_none(), "no value beside the error: {offline}");
    assert_eq!(good(&scene.read("A_LINE1_050"))["value"], -9.7, "its neighbour on the line goes on");

    let mark = scene.observer.mark();
    scene.slave.set(1, json!({ "table": "holding", "address": 100, "type": "f32", "value": 50.25 }));
    scene.slave.answer(1);
    let back = scene.observer.reading_after(mark, "A_LINE1_042", |reading| reading["quality"] == "good");
    assert_eq!(back["value"], 50.25);
    assert_eq!(good(&scene.read("A_LINE1_042"))["value"], 50.25);
}

// covers: E7
#[test]
fn a_refused_connection_is_another_cause_than_silence() {
    if !peers::available() {
        return;
    }
    let mut scene = Scene::set();
    let mark = scene.observer.mark();
    scene.slave.close();
    scene.observer.reading_after(mark, "A_LINE1_042", |reading| reading["quality"] == "bad");
    scene.observer.wait_after(mark, "the device to be offline", |message| {
        message.topic.ends_with("/device/press/status") && message.json["status"] == "offline"
    });
    let offline = crate::support::wait_for("the cause to be known", || {
        let offline = failed(&scene.read("A_LINE1_042"), "SENSOR_OFFLINE");
        (offline["cause"] == "refused").then_some(offline)
    });
    assert_eq!(offline["last_good"]["value"], 47.3, "{offline}");

    let mark = scene.observer.mark();
    scene.slave.listen();
    scene.observer.reading_after(mark, "A_LINE1_042", |reading| reading["quality"] == "good");
    scene.observer.reading_after(mark, "A_LINE1_050", |reading| reading["quality"] == "good");
}

// covers: E7, A9
#[test]
fn a_register_that_the_device_does_not_have_is_the_configurations_fault() {
    if !peers::available() {
        return;
    }
    let mut scene = Scene::set();
    scene.slave.refuse(1, 2);
    let mark = scene.observer.mark();
    let published = scene.observer.reading_after(mark, "A_LINE1_042", |reading| reading["quality"] == "bad");
    assert_eq!(published["reason"], "config_error", "{published}");
    let refused = failed(&scene.read("A_LINE1_042"), "MISCONFIGURED");
    assert_eq!(refused["class"], "permanent", "{refused}");
}

// covers: A9, A10, D3
#[test]
fn a_busy_device_is_asked_three_times_at_most_and_the_wait_is_passed_on() {
    if !peers::available() {
        return;
    }
    let mut scene = Scene::set();
    let figures = |scene: &Scene| {
        let listed = good(&scene.observer.call("list_devices", json!({})));
        let press = listed["items"].as_array().and_then(|items| items.iter().find(|item| item["device"] == "press"));
        let press = press.unwrap_or_else(|| panic!("no press in {listed}")).clone();
        let number = |name: &str| press[name].as_u64().unwrap_or_else(|| panic!("no {name} in {press}"));
        (number("requests"), number("retries"))
    };
    let mark = scene.observer.mark();
    scene.slave.refuse(1, 6);
    let published = scene.observer.reading_after(mark, "A_LINE1_042", |reading| reading["reason"] == "device_busy");
    assert!(published["quality"] != "good" && published["value"].is_null(), "{published}");
    let busy = failed(&scene.read("A_LINE1_042"), "DEVICE_BUSY");
    assert_eq!((&busy["class"], &busy["retryable"]), (&json!("transient"), &json!(true)), "{busy}");
    assert!(busy["retry_after_ms"].as_u64() > Some(0), "{busy}");

    let (requests_before, retries_before) = figures(&scene);
    let (requests, retries) = crate::support::wait_for("thirty more requests", || {
        let (requests, retries) = figures(&scene);
        (requests >= requests_before + 30).then_some((requests - requests_before, retries - retries_before))
    });
    let first = requests - retries;
    assert!(retries >= 1 && retries <= 2 * first + 2, "{retries} retries of {first} requests");
}
