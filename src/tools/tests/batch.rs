//! `get_sensor_readings`: good parts are never lost for bad ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::advance;

use super::bench::{self, Bench, WARM};
use crate::clock;
use crate::modbus::Table;
use crate::modbus::exception::ExceptionCode;
use crate::modbus::words::DataType;
use crate::registry::Registry;
use crate::registry::reading::{Fault, OfflineCause};
use crate::registry::sensor::Endpoint;
use crate::tools::ToolName::GetSensorReadings;

fn ids(answer: &Value) -> Vec<&str> {
    let items = answer["items"].as_array().expect("items");
    items.iter().map(|item| item["sensor_id"].as_str().expect("an id")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_batch_answers_in_the_order_of_the_wish() {
    let bench = Bench::new();
    bench.answered("A_LINE1_042", &WARM);
    bench.answered("B_HALL2_001", &[2301]);
    advance(Duration::from_millis(100)).await;
    let wish = json!({"sensor_ids": ["B_HALL2_001", "A_LINE1_042"]});
    let answer = bench.call(GetSensorReadings, wish).await.expect("readings");
    assert_eq!(ids(&answer), ["B_HALL2_001", "A_LINE1_042"]);
    let reading = &answer["items"][0]["reading"];
    assert_eq!(json!([reading["value"], reading["unit"], reading["age_ms"]]), json!([230.1, "V", 100]));
    let shown = ["total", "returned", "failed", "complete", "next_cursor", "polled", "fresh"].map(|name| &answer[name]);
    assert_eq!(json!(shown), json!([2, 2, 0, true, null, 2, 0]));
}

#[tokio::test(start_paused = true)]
async fn a_part_that_fails_leaves_the_others_and_says_that_the_whole_is_not_complete() {
    // covers: C2, C10, D5
    let bench = Bench::new();
    bench.answered("A_LINE1_042", &WARM);
    bench.offline("meter-1", OfflineCause::PortGone, Some(Duration::from_secs(9)));
    let wish = json!({"sensor_ids": ["A_LINE1_042", "B_HALL2_001"]});
    let answer = bench.call(GetSensorReadings, wish).await.expect("a part is better than nothing");
    assert_eq!(answer["items"][0]["reading"]["value"], 47.3);
    let error = &answer["items"][1]["error"];
    assert_eq!(json!([error["error"], error["retry_after_ms"]]), json!(["SENSOR_OFFLINE", 9000]));
    let shown = ["total", "returned", "failed", "complete"].map(|name| &answer[name]);
    assert_eq!(json!(shown), json!([2, 2, 1, false]));
}

#[tokio::test(start_paused = true)]
async fn nothing_at_all_is_an_error_that_lists_every_part() {
    // covers: E7
    let bench = Bench::new();
    bench.offline("press-plc", OfflineCause::Refused, Some(Duration::from_secs(30)));
    bench.offline("meter-1", OfflineCause::PortGone, Some(Duration::from_secs(9)));
    let wish = json!({"sensor_ids": ["A_LINE1_042", "B_HALL2_001"]});
    let error = bench.call(GetSensorReadings, wish).await.expect_err("nothing");
    assert_eq!(json!([error["error"], error["retryable"], error["failed"]]), json!(["INCOMPLETE_DATA", true, 2]));
    assert_eq!(error["retry_after_ms"], 9000, "the first part that can be tried again");
    assert_eq!(
        json!([error["parts"][0]["error"]["cause"], error["parts"][1]["error"]["cause"]]),
        json!(["refused", "port_gone"])
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_for_good_does_not_invite_a_repeat() {
    let mut bench = Bench::new();
    bench.serve("press-tcp", |board, _, index| {
        board.sensor_failed(index, Fault::Refused(ExceptionCode::ILLEGAL_DATA_ADDRESS), clock::now());
        true
    });
    let wish = json!({"device": "press-plc"});
    let error = bench.call(GetSensorReadings, wish).await.expect_err("nothing");
    let shown = ["error", "retryable", "retry_after_ms", "failed"].map(|name| &error[name]);
    assert_eq!(json!(shown), json!(["MISCONFIGURED", false, null, 4]));
}

#[tokio::test(start_paused = true)]
async fn a_silent_link_costs_its_own_parts_alone() {
    // covers: C2
    let mut bench = Bench::new();
    bench.serve("press-tcp", |board, registry, index| {
        bench::answered(board, registry, index, if registry.sensor(index).read.count() == 4 { &[0; 4] } else { &WARM });
        true
    });
    let arrived = clock::instant();
    let wish = json!({"sensor_ids": ["B_HALL2_001", "A_LINE1_042", "A_LINE1_045"]});
    let answer = bench.call_by(GetSensorReadings, wish, arrived + Duration::from_secs(2)).await.expect("parts");
    assert_eq!(answer["items"][0]["error"]["error"], "DEADLINE_EXCEEDED");
    assert_eq!(json!([answer["failed"], answer["fresh"], answer["complete"]]), json!([1, 2, false]));
    assert!(clock::instant() < arrived + Duration::from_secs(2));
    let age = answer["items"][1]["reading"]["age_ms"].as_u64().expect("an age");
    assert!(age > 1800, "the age is that at as_of, not at the moment of the read: {age}");
}

#[tokio::test(start_paused = true)]
async fn one_call_takes_no_more_than_its_share_of_a_links_places() {
    // covers: E11, C8
    let mut bench = Bench::with(big());
    let most = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most);
    bench.serve("tcp", move |board, registry, index| {
        seen.fetch_add(1, Ordering::SeqCst);
        bench::answered(board, registry, index, &[7]);
        true
    });
    let answer = bench.call(GetSensorReadings, json!({"device": "plc"})).await.expect("readings");
    assert_eq!(json!([answer["returned"], answer["failed"]]), json!([50, 0]), "a queue of eight places refuses none");
    assert_eq!(most.load(Ordering::SeqCst), 50);
}

#[tokio::test(start_paused = true)]
async fn a_large_device_comes_in_pages_and_no_page_claims_to_be_all() {
    // covers: D5, C6, D10
    let bench = Bench::with(big());
    for (_, sensor) in bench.registry().sensors() {
        bench.answered(sensor.id.as_str(), &[7]);
    }
    let mut seen = Vec::new();
    let mut wish = json!({"device": "plc"});
    loop {
        let answer = bench.call(GetSensorReadings, wish.clone()).await.expect("readings");
        assert_eq!(json!([answer["total"], answer["complete"]]), json!([120, false]));
        assert!(answer.to_string().len() < 64 * 1024);
        seen.extend(ids(&answer).into_iter().map(str::to_owned));
        if answer["next_cursor"].is_null() {
            break;
        }
        wish["cursor"] = answer["next_cursor"].clone();
    }
    let all: Vec<String> = bench.registry().sensors().map(|(_, sensor)| sensor.id.to_string()).collect();
    assert_eq!(seen, all);
}

#[tokio::test(start_paused = true)]
async fn the_worst_batch_stays_within_its_size() {
    // covers: C6
    let bench = Bench::with(big());
    let all: Vec<String> = bench.registry().sensors().map(|(_, sensor)| sensor.id.to_string()).collect();
    bench.offline("plc", OfflineCause::UnitSilentBehindGateway, Some(Duration::from_secs(9)));
    let error = bench.call(GetSensorReadings, json!({"sensor_ids": all[..50]})).await.expect_err("nothing");
    assert!(error.to_string().len() < 64 * 1024, "{}", error.to_string().len());
}

#[tokio::test(start_paused = true)]
async fn one_wrong_id_refuses_the_call_as_a_whole_and_all_wrong_ones_are_named() {
    // covers: A7, A8
    let bench = Bench::new();
    let wish =
        json!({"sensor_ids": ["A_LINE1_042", "A_LINE1_999", "press-plc", "A_LINE1_042", 7, "ü"], "unit": "kelvin"});
    let faults = bench.faults(GetSensorReadings, wish).await;
    let parameters: Vec<&str> = faults.iter().filter_map(|fault| fault.split(' ').next()).collect();
    let expected = ["sensor_ids[1]", "sensor_ids[2]", "sensor_ids[3]", "sensor_ids[4]", "sensor_ids[5]", "unit"];
    let mut sorted = parameters.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, expected, "{faults:#?}");
    assert_eq!(bench.waiting("press-tcp"), 0, "nothing was run");
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_of_ids_or_of_a_device_and_not_both() {
    let bench = Bench::new();
    let neither = bench.faults(GetSensorReadings, json!({})).await;
    assert_eq!(neither, ["sensor_ids or device is missing"]);
    let both = json!({"sensor_ids": ["A_LINE1_042"], "device": "press-plc"});
    assert_eq!(bench.faults(GetSensorReadings, both).await, ["sensor_ids or device may not both be given"]);
}

#[tokio::test(start_paused = true)]
async fn a_device_without_sensors_is_complete_with_none() {
    let bench = Bench::new();
    let answer = bench.call(GetSensorReadings, json!({"device": "spare"})).await.expect("no sensors, no fault");
    assert_eq!(json!([answer["total"], answer["returned"], answer["complete"]]), json!([0, 0, true]));
}

/// One device of 120 sensors.
fn big() -> Registry {
    let mut registry = Registry::default();
    let link = bench::add_link(&mut registry, "tcp", Endpoint::Tcp { host: "10.0.0.5".into(), port: 502 });
    let device = bench::add_device(&mut registry, "plc", link, 1);
    for number in 0..120 {
        let read = bench::read(Table::Holding, number, DataType::I16, "1");
        let id = format!("PLANT_WITH-A-LONG-NAME-OF-A-ZONE-IN-IT_{number:03}");
        bench::add_sensor(&mut registry, &id, "Something measured somewhere", device, read, "m³/h");
    }
    registry
}
