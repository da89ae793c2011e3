//! A Modbus RTU line whose slave we did not write: pymodbus at the other end of a socat cable.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::gateway::{GATEWAY, Gateway, failed, good, mqtt, observer, plant, tcp, units};
use crate::support::peers::{self, Cable, Mosquitto, Slave, mosquitto_rr};
use crate::support::wait_for;

// covers: E2, E7, A7, C10
#[test]
fn two_units_share_a_line_and_one_of_them_leaves_and_returns() {
    if !peers::available() {
        return;
    }
    let mosquitto = Mosquitto::start();
    let cable = Cable::lay();
    let mut slave = Slave::serial(&units(), &cable.slave_end);
    // A pseudo-terminal keeps no parity bit, so none is asked for.
    let link = format!("serial = \"{}\"\nbaud = 19200\nparity = \"none\"", cable.gateway_end.display());
    let _gateway = Gateway::run(&plant(&mqtt(mosquitto.port()), &link));
    let observer = observer(mosquitto.port());
    let read = |sensor: &str| -> Value {
        let arguments = json!({ "sensor_id": sensor });
        mosquitto_rr(mosquitto.port(), GATEWAY, "plain", "get_sensor_reading", &arguments)
    };

    let published = observer.reading_after(0, "A_LINE1_042", |reading| reading["quality"] == "good");
    assert_eq!(published["value"], 47.3);
    let published = observer.reading_after(0, "A_LINE1_050", |reading| reading["quality"] == "good");
    assert_eq!(published["value"], -9.7);
    assert_eq!(good(&read("A_LINE1_042"))["value"], 47.3);

    let refused = failed(&read("A_LINE1_43"), "INVALID_ARGUMENT");
    let suggestions = refused["faults"][0]["suggestions"].as_array().expect("suggestions");
    assert!(suggestions.contains(&json!("A_LINE1_042")), "{refused}");

    let mark = observer.mark();
    slave.fall_silent(1);
    observer.reading_after(mark, "A_LINE1_042", |reading| reading["quality"] == "bad" && reading["value"].is_null());
    let offline = failed(&read("A_LINE1_042"), "SENSOR_OFFLINE");
    assert!(offline["cause"].is_string() && offline["offline_since"].is_string(), "{offline}");
    assert_eq!(offline["last_good"]["value"], 47.3, "{offline}");
    assert_eq!(good(&read("A_LINE1_050"))["value"], -9.7, "the other unit on the line is still read");

    let mark = observer.mark();
    slave.set(1, json!({ "table": "holding", "address": 100, "type": "f32", "value": -3.5 }));
    slave.answer(1);
    let back = observer.reading_after(mark, "A_LINE1_042", |reading| reading["quality"] == "good");
    assert_eq!(back["value"], -3.5);
    assert_eq!(good(&read("A_LINE1_042"))["value"], -3.5);
}

// covers: E2
#[test]
fn a_device_on_a_line_says_what_it_is() {
    if !peers::available() {
        return;
    }
    let cable = Cable::lay();
    let _slave = Slave::serial(&units(), &cable.slave_end);
    says_what_it_is(&format!("serial = \"{}\"\nbaud = 19200\nparity = \"none\"", cable.gateway_end.display()));
}

// covers: E1
#[test]
fn a_device_over_tcp_says_what_it_is() {
    if !peers::available() {
        return;
    }
    let slave = Slave::tcp(&units());
    says_what_it_is(&tcp(slave.port()));
}

/// Of two devices, one is asked what it is.
fn says_what_it_is(link: &str) {
    let mosquitto = Mosquitto::start();
    let plant = plant(&mqtt(mosquitto.port()), link).replace("unit = 1\n", "unit = 1\nidentify = true\n");
    let _gateway = Gateway::run(&plant);
    let observer = observer(mosquitto.port());
    let expected = json!({ "vendor": "Somebody Else", "product": "PM-16", "revision": "3.16" });
    observer.wait("the identity of the press", |message| {
        message.topic.ends_with("/device/press/status") && message.json["identity"] == expected
    });
    observer.reading_after(0, "A_LINE1_050", |reading| reading["quality"] == "good");
    let listed = good(&observer.call("list_devices", json!({})));
    let identities: Vec<&Value> =
        listed["items"].as_array().expect("items").iter().map(|item| &item["identity"]).collect();
    assert_eq!(identities, [&expected, &Value::Null], "{listed}");
}

// covers: E2, E7
#[test]
fn case_c52_a_port_that_vanishes_is_a_cause_of_its_own_and_is_opened_again_and_costs_nobody_anything() {
    if !peers::available() {
        return;
    }
    let mosquitto = Mosquitto::start();
    let mut cable = Cable::lay();
    let slave = Slave::serial(&units(), &cable.slave_end);
    let mut neighbour = Slave::tcp(&units());
    let link = format!("serial = \"{}\"\nbaud = 19200\nparity = \"none\"", cable.gateway_end.display());
    let plant = plant(&mqtt(mosquitto.port()), &link) + &another_link(&tcp(neighbour.port()));
    let mut gateway = Gateway::run(&plant);
    let observer = observer(mosquitto.port());
    observer.reading_after(0, "A_LINE1_042", |reading| reading["quality"] == "good");

    let mark = observer.mark();
    drop(slave);
    cable.pull();
    observer.reading_after(mark, "A_LINE1_042", |reading| reading["quality"] == "bad");
    let cause = wait_for("the cause to be known", || {
        let result = observer.call("get_sensor_reading", json!({ "sensor_id": "A_LINE1_042" }));
        let cause = failed(&result, "SENSOR_OFFLINE")["cause"].clone();
        (cause == "port_gone").then_some(cause)
    });
    assert_eq!(cause, "port_gone");

    // Nobody is held up by the wait for the port, and the wait costs nothing: a loop over empty reads would take a whole core.
    let mut requests = || neighbour.count()["requests"].as_u64().expect("a number");
    let (so_far, since, spent) = (requests(), Instant::now(), gateway.process().cpu_time());
    wait_for("twenty more reads of the neighbour", || (requests() >= so_far + 20).then_some(()));
    let (passed, spent) = (since.elapsed(), gateway.process().cpu_time() - spent);
    assert!(passed < Duration::from_secs(8), "twenty reads, one each 200 ms, took {passed:?}");
    assert!(spent < passed / 4, "{spent:?} of work in {passed:?}");

    let mark = observer.mark();
    cable.plug_in();
    let _slave = Slave::serial(&units(), &cable.slave_end);
    observer.reading_after(mark, "A_LINE1_042", |reading| reading["quality"] == "good");
}

// covers: E2, E5, E7
#[test]
fn case_c53_what_cannot_be_resolved_keeps_nothing_else_from_being_read() {
    if !peers::available() {
        return;
    }
    let cable = Cable::lay();
    let mut slave = Slave::serial(&units(), &cable.slave_end);
    let link = format!("serial = \"{}\"\nbaud = 19200\nparity = \"none\"", cable.gateway_end.display());
    let away = another_link("tcp = \"plc.invalid:502\"");

    // Neither the broker has an address nor a device, and the line is read all the same.
    let mut gateway = Gateway::run(&(plant("mqtt://broker.invalid:1883", &link) + &away));
    wait_for("the line to be read", || (slave.count()["requests"].as_u64()? > 50).then_some(()));
    gateway.assert_runs();
    drop(gateway);

    let mosquitto = Mosquitto::start();
    let mut gateway = Gateway::run(&(plant(&mqtt(mosquitto.port()), &link) + &away));
    let observer = observer(mosquitto.port());
    let cause = wait_for("the cause to be known", || {
        let result = observer.call("get_sensor_reading", json!({ "sensor_id": "A_LINE2_060" }));
        Some(failed(&result, "SENSOR_OFFLINE")["cause"].clone())
    });
    assert_eq!(cause, "no_route");
    let read = observer.call("get_sensor_reading", json!({ "sensor_id": "A_LINE1_042" }));
    assert_eq!(good(&read)["value"], 47.3);
    gateway.assert_runs();
}

/// Another link to unit 2, beside that of the plant.
fn another_link(link: &str) -> String {
    format!(
        r#"
[[link]]
id = "other"
{link}
timeout = "500ms"
retry_max = "1s"

[[device]]
id = "pump"
link = "other"
unit = 2
poll_every = "200ms"

[[device.sensor]]
id = "A_LINE2_060"
name = "Coolant temperature"
read = {{ table = "holding", address = 0, type = "i16", scale = 0.1 }}
max_age = "2s"
"#
    )
}
