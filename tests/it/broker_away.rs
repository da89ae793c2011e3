//! The broker goes away, and comes back knowing nothing. The plant side does not notice; the agents' side mends itself.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::gateway::{GATEWAY, Gateway, good, mqtt, observer, plant, tcp, units};
use crate::support::mqtt::Mqtt;
use crate::support::peers::{self, Mosquitto, Slave};
use crate::support::wait_for;

// covers: E5
#[test]
fn case_c46_a_broker_that_forgot_everything_is_told_everything_again() {
    if !peers::available() {
        return;
    }
    let mut mosquitto = Mosquitto::start();
    let mut slave = Slave::tcp(&units());
    let mut gateway = Gateway::run(&plant(&mqtt(mosquitto.port()), &tcp(slave.port())));
    let before = observer(mosquitto.port());
    before.reading_after(0, "A_LINE1_042", |reading| reading["quality"] == "good");

    mosquitto.kill();
    // The plant side goes on: at five requests a second and more, fifty take ten seconds at the most.
    let requests = |slave: &mut Slave| slave.count()["requests"].as_u64().expect("a number");
    let (at_first, since) = (requests(&mut slave), Instant::now());
    wait_for("fifty more requests to the plant", || (requests(&mut slave) >= at_first + 50).then_some(()));
    assert!(since.elapsed() < Duration::from_secs(15), "polling became slow while the broker was away");
    gateway.assert_runs();
    slave.set(1, json!({ "table": "holding", "address": 100, "type": "f32", "value": 51.5 }));

    mosquitto.start_again();
    let back = Instant::now();
    let after = Mqtt::connect(mosquitto.port(), GATEWAY, "after", &["#"]);
    // A request that comes before the gateway has subscribed reaches nobody, so the call is repeated until it is heard.
    let mut id = 0;
    let answer = wait_for("a call to be answered", || {
        id += 1;
        let params = json!({ "name": "get_sensor_reading", "arguments": { "sensor_id": "A_LINE1_042" } });
        after.send(json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string());
        after.seen().into_iter().find(|message| message.topic.ends_with("/rpc/after/response"))
    });
    assert!(back.elapsed() < Duration::from_secs(5), "answered only after {:?}", back.elapsed());
    assert_eq!(good(&answer.json["result"])["value"], 51.5, "the present value, not that of before");

    let topic = |end: &str| format!("fieldgate/v1/{GATEWAY}/{end}");
    for end in ["status", "catalog", "device/press/status", "device/mixer/status", "reading/press/A_LINE1_042"] {
        after.wait(end, |message| message.topic == topic(end));
    }
    for sensor in ["A_LINE1_007", "A_LINE1_050", "A_LINE1_051"] {
        after.reading_after(0, sensor, |reading| reading["quality"] == "good");
    }
    let first = after.reading_after(0, "A_LINE1_042", |_| true);
    assert_eq!(first["value"], 51.5, "the present state is published, and no backlog of old ones: {first}");

    // Retained, that is: whoever comes later is told by the broker.
    let late = Mqtt::connect(mosquitto.port(), GATEWAY, "late", &["#"]);
    for end in ["status", "catalog", "device/press/status", "reading/press/A_LINE1_042"] {
        late.wait(end, |message| message.topic == topic(end) && message.retained);
    }
}

// covers: E5
#[test]
fn the_gateway_starts_without_a_broker_and_finds_it_later() {
    if !peers::available() {
        return;
    }
    let mut mosquitto = Mosquitto::start();
    mosquitto.kill();
    let mut slave = Slave::tcp(&units());
    let _gateway = Gateway::run(&plant(&mqtt(mosquitto.port()), &tcp(slave.port())));
    wait_for("the plant to be read", || (slave.count()["requests"].as_u64()? > 5).then_some(()));
    mosquitto.start_again();
    let observer = observer(mosquitto.port());
    observer.reading_after(0, "A_LINE1_042", |reading| reading["quality"] == "good");
}

// covers: E5
#[test]
fn the_will_says_that_a_killed_gateway_is_offline() {
    if !peers::available() {
        return;
    }
    let mosquitto = Mosquitto::start();
    let slave = Slave::tcp(&units());
    let mut gateway = Gateway::run(&plant(&mqtt(mosquitto.port()), &tcp(slave.port())));
    let observer = observer(mosquitto.port());
    let mark = observer.mark();
    gateway.process().kill();
    let will = observer.wait_after(mark, "the will", |message| {
        message.topic.ends_with("/status") && message.json["status"] == "offline"
    });
    assert_eq!(will.topic, format!("fieldgate/v1/{GATEWAY}/status"));
}

// covers: E5
#[test]
fn an_orderly_stop_says_so_and_ends_with_success() {
    if !peers::available() {
        return;
    }
    let mosquitto = Mosquitto::start();
    let slave = Slave::tcp(&units());
    let mut gateway = Gateway::run(&plant(&mqtt(mosquitto.port()), &tcp(slave.port())));
    let observer = observer(mosquitto.port());
    let mark = observer.mark();
    gateway.process().signal("TERM");
    observer.wait_after(mark, "the last word", |message| {
        message.topic == format!("fieldgate/v1/{GATEWAY}/status") && message.json["status"] == "offline"
    });
    assert!(gateway.process().end().success(), "a stop that was asked for is no failure");
}
