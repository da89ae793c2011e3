//! The tools that ask no device: listings, descriptions, and the gateway's own state.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::advance;

use super::bench::{self, Bench, WARM};
use crate::modbus::Table;
use crate::modbus::exception::ExceptionCode;
use crate::modbus::words::DataType;
use crate::registry::Registry;
use crate::registry::reading::{Fault, OfflineCause};
use crate::registry::sensor::Endpoint;
use crate::tools::ToolName::{self, DescribeSensor, GetGatewayStatus, ListDevices, ListSensors};

fn names(answer: &Value, member: &str) -> Vec<String> {
    let items = answer["items"].as_array().expect("items");
    items.iter().map(|item| item[member].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn sensors_are_listed_with_their_state_and_without_values() {
    // covers: D5, E8
    let bench = Bench::new();
    bench.answered("A_LINE1_042", &WARM);
    bench.failed("A_LINE1_043", Fault::Refused(ExceptionCode::ILLEGAL_DATA_ADDRESS));
    advance(Duration::from_millis(40)).await;
    let answer = bench.call(ListSensors, json!({})).await.expect("a list");
    let shown = ["total", "returned", "next_cursor", "match"].map(|name| &answer[name]);
    assert_eq!(json!(shown), json!([7, 7, null, "all"]));
    let expected = json!({"sensor_id": "A_LINE1_042", "name": "Hydraulic oil temperature", "device": "press-plc",
        "unit": "°C", "quality": "good", "reason": null, "age_ms": 40});
    assert_eq!(answer["items"][0], expected);
    assert_eq!(json!([answer["items"][1]["quality"], answer["items"][1]["reason"]]), json!(["bad", "config_error"]));
    assert!(!answer.to_string().contains("47.3"), "a listing gives no values");
}

#[tokio::test(start_paused = true)]
async fn sensors_are_found_by_words_in_any_order_and_case() {
    // covers: B6
    let bench = Bench::new();
    let check = async |query: &str, expected: &[&str], how: &str| {
        let answer = bench.call(ListSensors, json!({"query": query})).await.expect("a list");
        assert_eq!(names(&answer, "sensor_id"), expected, "{query}");
        assert_eq!(answer["match"], how, "{query}");
    };
    check("TEMPERATURE oil", &["A_LINE1_042"], "exact").await;
    check("oil", &["A_LINE1_042", "A_LINE1_043"], "exact").await;
    check("temprature", &["A_LINE1_042"], "similar").await;
    check("hall2", &["B_HALL2_001", "B_HALL2_002", "B_HALL2_003"], "exact").await;
    check("°c", &["A_LINE1_042"], "exact").await;
    check("meter-1 door", &["B_HALL2_002"], "exact").await;
    check("the oil temperature of the press", &["A_LINE1_042"], "partial").await;
    check("unobtainium", &[], "none").await;
}

#[tokio::test(start_paused = true)]
async fn a_listing_keeps_to_its_device() {
    let bench = Bench::new();
    let answer = bench.call(ListSensors, json!({"device": "meter-1"})).await.expect("a list");
    assert_eq!(names(&answer, "sensor_id"), ["B_HALL2_001", "B_HALL2_002", "B_HALL2_003"]);
    let none = bench.call(ListSensors, json!({"device": "spare"})).await.expect("a list");
    assert_eq!(json!([none["total"], none["items"]]), json!([0, []]));
}

#[tokio::test(start_paused = true)]
async fn pages_of_any_size_give_every_item_once() {
    // covers: D5, D10
    let bench = Bench::new();
    for tool in [ListSensors, ListDevices] {
        let member = if tool == ListSensors { "sensor_id" } else { "device" };
        let whole = names(&bench.call(tool, json!({})).await.expect("a list"), member);
        for limit in 1..=8 {
            let mut wish = json!({"limit": limit});
            let mut seen = Vec::new();
            loop {
                let answer = bench.call(tool, wish.clone()).await.expect("a page");
                assert_eq!(answer["total"], whole.len());
                seen.extend(names(&answer, member));
                if answer["next_cursor"].is_null() {
                    break;
                }
                wish["cursor"] = answer["next_cursor"].clone();
            }
            assert_eq!(seen, whole, "{limit} at a time");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cursor_that_is_damaged_or_of_another_query_is_a_typed_fault() {
    let bench = Bench::new();
    let page = bench.call(ListSensors, json!({"limit": 2, "query": "a_line1"})).await.expect("a page");
    let cursor = page["next_cursor"].as_str().expect("more to come").to_owned();
    let of_another = json!({"limit": 2, "cursor": cursor});
    assert_eq!(bench.faults(ListSensors, of_another).await, ["cursor belongs to another query"]);
    let of_another = json!({"cursor": cursor});
    assert_eq!(bench.faults(ListDevices, of_another).await, ["cursor belongs to another query"]);
    let damaged = json!({"query": "a_line1", "cursor": cursor.replace('-', "+")});
    let expected = ["cursor is not a cursor as this gateway hands them out"];
    assert_eq!(bench.faults(ListSensors, damaged).await, expected);
    let with_more = json!({"query": "a_line1", "limit": 0, "cursor": "junk"});
    assert_eq!(bench.faults(ListSensors, with_more).await, ["limit is less than 1"], "first things first");
}

#[tokio::test(start_paused = true)]
async fn the_largest_page_stays_within_its_size() {
    // covers: C6
    let mut registry = Registry::default();
    let link = bench::add_link(&mut registry, "tcp", Endpoint::Tcp { host: "10.0.0.5".into(), port: 502 });
    for number in 0..101 {
        let name = format!("a-device-with-a-name-as-long-as-they-get-{number:03}");
        let device = bench::add_device(&mut registry, &name, link, 1);
        let read = bench::read(Table::Holding, number, DataType::I16, "1");
        let id = format!("PLANT_WITH-A-LONG-NAME-OF-A-ZONE-IN-IT_{number:03}");
        bench::add_sensor(&mut registry, &id, &"long ".repeat(20), device, read, "m³/h");
    }
    let bench = Bench::with(registry);
    for tool in [ListSensors, ListDevices] {
        let answer = bench.call(tool, json!({"limit": 100})).await.expect("a page");
        assert_eq!(json!([answer["returned"], answer["total"]]), json!([100, 101]));
        assert!(answer.to_string().len() < 64 * 1024, "{}: {}", tool.as_str(), answer.to_string().len());
    }
}

#[tokio::test(start_paused = true)]
async fn a_description_says_everything_but_the_value() {
    // covers: E8
    let bench = Bench::new();
    bench.answered("A_LINE1_042", &WARM);
    let mut answer = bench.call(DescribeSensor, json!({"sensor_id": "A_LINE1_042"})).await.expect("a description");
    answer["as_of"].take();
    let expected = json!({
        "sensor_id": "A_LINE1_042", "name": "Hydraulic oil temperature", "description": null, "device": "press-plc",
        "device_name": null, "link": "press-tcp", "unit_id": 1, "unit": "°C", "range": [-20.0, 120.0],
        "valid": null, "max_rate": null, "dead_band": null,
        "read": {"table": "holding", "address": 100, "reference": 40101, "count": 2, "type": "f32", "bit": null,
            "bits": null, "order": "ABCD", "scale": "1", "offset": "0", "scale_register": null, "names": null},
        "no_value": [], "max_age_ms": 3000, "poll_every_ms": 1000, "writable": false,
        "quality": "good", "reason": null, "age_ms": 0, "as_of": null,
    });
    assert_eq!(answer, expected, "{answer:#}");
}

#[tokio::test(start_paused = true)]
async fn a_description_shows_bits_codes_and_scales_as_a_configuration_writes_them() {
    let bench = Bench::new();
    let check = async |id: &str, member: &str, expected: Value| {
        let answer = bench.call(DescribeSensor, json!({"sensor_id": id})).await.expect("a description");
        assert_eq!(answer[member], expected, "{id}");
    };
    let read = |table: &str, reference: u32, read: Value| {
        let mut whole = json!({
            "table": table, "reference": reference, "scale": "1", "offset": "0", "bits": null, "scale_register": null,
            "names": null,
        });
        for (name, value) in read.as_object().expect("an object") {
            whole[name] = value.clone();
        }
        whole
    };
    let coil = json!({"address": 5, "count": 1, "type": "bool", "bit": null, "order": null});
    check("A_LINE1_044", "read", read("coil", 6, coil)).await;
    let bit = json!({"address": 9, "count": 1, "type": "bool", "bit": 3, "order": null});
    check("B_HALL2_002", "read", read("holding", 40010, bit)).await;
    let scaled = json!({"address": 0, "count": 1, "type": "u16", "bit": null, "order": "ABCD", "scale": "0.1"});
    check("B_HALL2_001", "read", read("input", 30001, scaled)).await;
    check("B_HALL2_001", "no_value", json!(["0xFFFF"])).await;
    check("B_HALL2_001", "reason", json!("no_data")).await;
}

#[tokio::test(start_paused = true)]
async fn devices_are_listed_with_reason_and_next_try() {
    let bench = Bench::new();
    bench.online("press-plc");
    bench.offline("meter-1", OfflineCause::PortGone, Some(Duration::from_secs(9)));
    let answer = bench.call(ListDevices, json!({})).await.expect("a list");
    let show = |place: usize, members: &[&str]| -> Value {
        members.iter().map(|name| answer["items"][place][*name].clone()).collect()
    };
    let members = ["device", "link", "unit_id", "status", "reason", "scope", "sensors", "requests", "last_latency_ms"];
    let online = json!(["press-plc", "press-tcp", 1, "online", null, null, 4, 1, 12]);
    assert_eq!(show(0, &members), online);
    let offline = json!(["meter-1", "rs485-a", 3, "offline", "port_gone", "link", 3, 0, null]);
    assert_eq!(show(1, &members), offline);
    assert!(answer["items"][1]["next_try"].is_string() && answer["items"][1]["since"].is_string());
    let unasked = json!(["spare", "rs485-a", 4, "offline", "initial", null, 0, 0, null]);
    assert_eq!(show(2, &members), unasked, "online is said after a good answer, and not before");
    let online = bench.call(ListDevices, json!({"status": "online"})).await.expect("a list");
    assert_eq!(names(&online, "device"), ["press-plc"]);
}

#[tokio::test(start_paused = true)]
async fn the_gateway_counts_what_is_well() {
    let bench = Bench::new();
    bench.online("press-plc");
    bench.answered("A_LINE1_042", &WARM);
    bench.answered("B_HALL2_001", &[2301]);
    bench.toolbox.facts.set_broker(true, None);
    advance(Duration::from_millis(1500)).await;
    let answer = bench.call(GetGatewayStatus, json!({})).await.expect("a state");
    assert_eq!(answer["links"], json!({"total": 2, "answering": 1, "silent": 1}));
    assert_eq!(answer["devices"], json!({"total": 3, "online": 1, "degraded": 0, "offline": 2}));
    assert_eq!(answer["sensors"], json!({"total": 7, "good": 2, "uncertain": 0, "bad": 5}));
    assert_eq!(
        json!([answer["gateway"], answer["uptime_ms"], answer["broker"]["connected"]]),
        json!(["gw-line1", 1500, true])
    );
    advance(Duration::from_secs(3)).await;
    let answer = bench.call(GetGatewayStatus, json!({})).await.expect("a state");
    assert_eq!(answer["sensors"]["good"], 0, "what was read long ago is not well any more");
}

#[tokio::test(start_paused = true)]
async fn nothing_but_readings_asks_a_device() {
    let bench = Bench::new();
    for tool in [ListSensors, DescribeSensor, ListDevices, GetGatewayStatus] {
        bench.call(tool, bench::right_arguments(tool)).await.expect("an answer");
    }
    assert_eq!(bench.waiting("press-tcp") + bench.waiting("rs485-a"), 0);
    assert_eq!(ToolName::ALL.len(), 6, "a new tool is asked here, too");
}
