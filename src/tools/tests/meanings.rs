//! Readings whose numbers have names, factors and doubts.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::advance;

use super::bench::Bench;
use crate::clock;
use crate::config::Config;
use crate::registry::Registry;
use crate::tools::ToolName::{DescribeSensor, GetSensorReading};

const INVERTER: &str = include_str!("../../../docs/examples/sunspec-inverter.toml");

fn bench() -> Bench {
    let parsed = Config::parse(INVERTER, "f").unwrap_or_else(|faults| panic!("{faults}"));
    Bench::with(Registry::clone(&parsed.config.registry))
}

/// The device answers with these words of the sensor's read.
fn answered(bench: &Bench, id: &str, words: &[u16]) {
    let index = bench.sensor(id);
    let sample = bench.registry().sensor(index).interpret(words, clock::now()).expect("a value");
    bench.toolbox.board.sensor_answered(index, sample, Duration::from_secs(60));
}

async fn check(bench: &Bench, id: &str, unit: &str, members: &[&str], expected: Value) {
    let reading = bench.call(GetSensorReading, json!({"sensor_id": id, "unit": unit})).await.expect("a reading");
    let shown: Vec<&Value> = members.iter().map(|name| reading.get(*name).unwrap_or(&Value::Null)).collect();
    assert_eq!(json!(shown), expected, "{reading:#}");
}

#[tokio::test(start_paused = true)]
async fn a_state_is_its_name_with_the_number_beside_it_and_raw_is_the_number() {
    let bench = bench();
    answered(&bench, "P1_ROOF_016", &[4]);
    let members = ["value", "number", "quality", "type", "raw"];
    check(&bench, "P1_ROOF_016", "normalized", &members, json!(["mppt", 4, "good", "u16", ["0x0004"]])).await;
    check(&bench, "P1_ROOF_016", "raw", &members, json!([4, null, "good", "u16", ["0x0004"]])).await;
    answered(&bench, "P1_ROOF_016", &[11]);
    check(
        &bench,
        "P1_ROOF_016",
        "normalized",
        &["value", "number", "quality", "reason"],
        json!([11, 11, "uncertain", "out_of_range"]),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn flags_are_a_list_that_may_be_empty() {
    let bench = bench();
    answered(&bench, "P1_ROOF_017", &[0, 0]);
    check(&bench, "P1_ROOF_017", "normalized", &["value", "number"], json!([[], 0])).await;
    answered(&bench, "P1_ROOF_017", &[0x0001, 0x0080]);
    let expected = json!([["over temperature", "bit_16"], 0x1_0080]);
    check(&bench, "P1_ROOF_017", "normalized", &["value", "number"], expected).await;
    check(&bench, "P1_ROOF_017", "raw", &["value"], json!([0x1_0080])).await;
}

#[tokio::test(start_paused = true)]
async fn raw_is_the_number_before_scale_and_factor() {
    let bench = bench();
    answered(&bench, "P1_ROOF_012", &[0x17D7, 0xFFFF]);
    let members = ["value", "unit", "number", "raw"];
    check(&bench, "P1_ROOF_012", "normalized", &members, json!([610.3, "W", null, ["0x17D7", "0xFFFF"]])).await;
    check(&bench, "P1_ROOF_012", "raw", &members, json!([6103, "raw", null, ["0x17D7", "0xFFFF"]])).await;
}

#[tokio::test(start_paused = true)]
async fn case_c12_the_last_good_value_is_not_replaced_by_one_that_cannot_be() {
    let mut bench = bench();
    answered(&bench, "P1_ROOF_012", &[0x17D7, 0xFFFF]);
    advance(Duration::from_secs(5)).await;
    let torn = bench.registry().sensor(bench.sensor("P1_ROOF_012")).interpret(&[0x7FFF, 0], clock::now());
    bench.failed("P1_ROOF_012", torn.expect_err("32767 W is beyond 15000"));
    bench.serve("inverter-tcp", |_, _, _| true);
    let error = bench.call(GetSensorReading, json!({"sensor_id": "P1_ROOF_012"})).await.expect_err("no value");
    let shown = json!([error["error"], error["cause"], error["scope"], error["last_good"]["value"]]);
    assert_eq!(shown, json!(["SENSOR_OFFLINE", "implausible", "sensor", 610.3]));
}

#[tokio::test(start_paused = true)]
async fn a_sensor_is_described_with_its_names_its_factor_and_its_bits() {
    let bench = bench();
    let describe = async |id: &str| bench.call(DescribeSensor, json!({"sensor_id": id})).await.expect("described");
    let state = describe("P1_ROOF_016").await;
    assert_eq!(state["read"]["names"]["4"], "mppt");
    let power = describe("P1_ROOF_012").await;
    let read = &power["read"];
    assert_eq!(json!([read["address"], read["count"], read["scale_register"]]), json!([40083, 1, 40084]));
    assert_eq!(json!([power["valid"], power["dead_band"]]), json!([[-100.0, 15000.0], "5"]));
}
