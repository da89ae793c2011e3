//! The daemon does not lie about time. The slave serves a register that holds the moment at which it is read, so each value
//! says by itself how old it is, and the daemon's word can be held against it.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::support::gateway::{Gateway, mqtt, observer, plant, tcp, units};
use crate::support::mqtt::{Message, Mqtt};
use crate::support::peers::{self, Mosquitto, Slave};
use crate::support::timestamp_ms;

/// The sensor that holds the moment.
const MOMENT: &str = "A_LINE1_001";
/// `poll_every` and `max_age` of the sensor in the configuration.
const POLL_MS: i64 = 200;
const MAX_AGE_MS: i64 = 2000;
/// Both clocks are one, but its milliseconds are cut off at different ends.
const ROUNDING_MS: i64 = 2;
/// How long a message may take from the daemon to this test on a loaded machine.
const DELIVERY_MS: i64 = 1000;

/// Remembers what was said of each answer of the device.
#[derive(Default)]
struct Witness {
    said: HashMap<i64, (Value, Value)>,
}

impl Witness {
    /// Holds what a good reading claims against the moment in it. Returns that moment.
    fn check_good(&mut self, reading: &Value, seen_at_ms: i64) -> i64 {
        let served = reading["value"].as_i64().unwrap_or_else(|| panic!("a good reading has a value: {reading}"));
        let claimed = timestamp_ms(&reading["timestamp"]);
        assert!(claimed >= served - ROUNDING_MS, "read before it was served: {reading}");
        assert!(claimed <= served + POLL_MS, "the time of reading is {} ms late: {reading}", claimed - served);
        let age = reading["age_ms"].as_i64().unwrap_or_else(|| panic!("a reading tells its age: {reading}"));
        assert!(age <= MAX_AGE_MS, "good, but too old: {reading}");
        let real_age = seen_at_ms - served;
        assert!(real_age <= age + POLL_MS + DELIVERY_MS, "{real_age} ms old, but says {age}: {reading}");
        // However often an answer of the device is told, it keeps its value and its time.
        let seq = reading["seq"].as_i64().unwrap_or_else(|| panic!("a reading has a number: {reading}"));
        let told = (reading["value"].clone(), reading["timestamp"].clone());
        let before = self.said.entry(seq).or_insert_with(|| told.clone());
        assert_eq!(*before, told, "number {seq} is told in two ways: {reading}");
        served
    }
}

fn readings(seen: &[Message]) -> impl Iterator<Item = &Message> {
    seen.iter().filter(|message| message.topic.ends_with(&format!("/reading/press/{MOMENT}")))
}

fn call(observer: &Mqtt) -> (Value, i64) {
    let result = observer.call("get_sensor_reading", json!({ "sensor_id": MOMENT }));
    (result, crate::support::now_ms())
}

// covers: E1, E5, E7
#[test]
fn a_published_value_carries_its_moment_and_no_older_time_is_ever_good() {
    if !peers::available() {
        return;
    }
    let mosquitto = Mosquitto::start();
    let mut slave = Slave::tcp(&units());
    let _gateway = Gateway::run(&plant(&mqtt(mosquitto.port()), &tcp(slave.port())));
    let observer = observer(mosquitto.port());
    let is_good = |reading: &Value| reading["quality"] == "good";

    let mut witness = Witness::default();
    let mut newest = 0;
    for round in 0..3 {
        for _ in 0..10 {
            let mark = observer.mark();
            observer.reading_after(mark, MOMENT, is_good);
            let (result, at) = call(&observer);
            let served = witness.check_good(&result["structuredContent"], at);
            assert!(served >= newest, "an answer went back in time, in round {round}");
            newest = served;
        }
        let silent_since = slave.fall_silent(1);
        let mark = observer.mark();
        // Until the daemon can know, a value of before the silence may be given, as long as it is fresh. After that, never.
        while observer.seen()[mark..].iter().all(|message| !message.topic.ends_with(MOMENT) || is_good(&message.json)) {
            let (result, at) = call(&observer);
            if result["isError"] != true {
                witness.check_good(&result["structuredContent"], at);
            }
            assert!(at < silent_since + 30_000, "the silence is not noticed");
        }
        for _ in 0..10 {
            let (result, _) = call(&observer);
            assert_eq!(result["isError"], true, "the device is silent, and yet: {result}");
        }
        let mark = observer.mark();
        let answering_since = slave.answer(1);
        let back = observer.reading_after(mark, MOMENT, is_good);
        let served = back["value"].as_i64().expect("a moment");
        assert!(served >= answering_since - ROUNDING_MS, "a value of before the silence came as the first after it");
        newest = served;
    }

    let seen = observer.seen();
    let (mut newest_good, mut newest_time, mut last_seq) = (0, 0, 0);
    for message in readings(&seen) {
        let reading = &message.json;
        if is_good(reading) {
            let served = witness.check_good(reading, message.at_ms);
            assert!(served >= newest_good, "a published value went back in time: {reading}");
            let time = timestamp_ms(&reading["timestamp"]);
            assert!(time >= newest_time, "a published time went back: {reading}");
            let seq = reading["seq"].as_i64().unwrap_or_else(|| panic!("a reading has a number: {reading}"));
            assert!(seq >= last_seq, "a number went back: {reading}");
            (newest_good, newest_time, last_seq) = (served, time, seq);
        } else {
            assert_eq!(reading["value"], Value::Null, "a reading that is not good shows no value: {reading}");
            if let Some(old) = reading["last_good"]["value"].as_i64() {
                let time = timestamp_ms(&reading["last_good"]["timestamp"]);
                assert!((old - ROUNDING_MS..=old + POLL_MS).contains(&time), "an old value keeps its time: {reading}");
            }
        }
    }
    assert!(newest_good > 0, "readings were published");
}

// covers: E5, E7
#[test]
fn a_reading_that_the_broker_kept_of_a_dead_device_is_not_good() {
    if !peers::available() {
        return;
    }
    let mosquitto = Mosquitto::start();
    let mut slave = Slave::tcp(&units());
    let _gateway = Gateway::run(&plant(&mqtt(mosquitto.port()), &tcp(slave.port())));
    let first = observer(mosquitto.port());
    first.reading_after(0, MOMENT, |reading| reading["quality"] == "good");
    slave.fall_silent(1);
    let mark = first.mark();
    for sensor in [MOMENT, "A_LINE1_042", "A_LINE1_007"] {
        first.reading_after(mark, sensor, |reading| reading["quality"] == "bad");
    }
    // Whoever comes now is told by the broker alone.
    let late = Mqtt::connect(mosquitto.port(), crate::support::gateway::GATEWAY, "late", &["reading/press/+"]);
    for sensor in [MOMENT, "A_LINE1_042", "A_LINE1_007"] {
        let kept = late.reading_after(0, sensor, |_| true);
        assert_eq!(kept["quality"], "bad", "{kept}");
        assert_eq!(kept["value"], Value::Null, "{kept}");
    }
    assert!(late.seen().iter().take(3).all(|message| message.retained), "readings are retained");
}
