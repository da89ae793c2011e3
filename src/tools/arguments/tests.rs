use serde_json::json;

use super::*;
use crate::tools::ToolName;
use crate::tools::tests::bench;

fn refusal(tool: ToolName, given: Value) -> Map<String, Value> {
    let registry = bench::registry();
    check(tool.spec(), given, &registry).expect_err("refused arguments").to_json()
}

fn faults(tool: ToolName, given: Value) -> Vec<Value> {
    let error = refusal(tool, given);
    error["faults"].as_array().expect("faults").clone()
}

#[test]
fn arguments_may_be_an_object_or_a_string_that_holds_one() {
    // covers: B2
    let registry = bench::registry();
    let spec = ToolName::GetSensorReading.spec();
    for given in [json!({"sensor_id": "A_LINE1_042"}), json!("{\"sensor_id\": \"A_LINE1_042\"}")] {
        let arguments = check(spec, given, &registry).expect("right arguments");
        assert_eq!(arguments.sensor("sensor_id"), registry.find_sensor("A_LINE1_042"));
    }
    assert!(check(ToolName::ListSensors.spec(), Value::Null, &registry).is_ok(), "no arguments are none");
}

#[test]
fn what_is_no_object_is_one_fault_of_the_arguments_as_a_whole() {
    for given in [json!(""), json!("{"), json!("[1]"), json!("\"{}\""), json!([]), json!(5), json!(true)] {
        let faults = faults(ToolName::ListSensors, given.clone());
        assert_eq!(faults.len(), 1, "{given}");
        assert_eq!(faults[0]["parameter"], "arguments", "{given}");
    }
}

#[test]
fn all_faults_of_a_call_come_at_once() {
    // covers: A8
    let given = json!({"sensor_id": "A_LINE1_024", "unit": "kelvin", "max_age_ms": -5, "bogus": 1});
    let faults = faults(ToolName::GetSensorReading, given);
    let parameters: Vec<&str> = faults.iter().filter_map(|fault| fault["parameter"].as_str()).collect();
    assert_eq!(parameters, ["bogus", "unit", "max_age_ms", "sensor_id"]);
    assert_eq!(faults[1]["suggestions"], json!(["normalized", "raw"]));
    assert_eq!(faults[2]["received"], -5);
}

#[test]
fn a_near_miss_is_answered_with_the_nearest_ids_and_never_mended() {
    // covers: A7
    let error = refusal(ToolName::GetSensorReading, json!({"sensor_id": "A_LINE1_024"}));
    assert_eq!(error["faults"][0]["suggestions"][0], "A_LINE1_042");
    assert!(error.get("corrected_call").is_none(), "another sensor's value would be a lie");
}

#[test]
fn a_mere_difference_of_spelling_is_answered_with_the_right_call() {
    let check = |tool: ToolName, given: Value, expected: Value| {
        let error = refusal(tool, given.clone());
        assert_eq!(
            error["corrected_call"],
            json!({"tool": tool.as_str(), "arguments": expected}),
            "{given}: {error:#?}"
        );
    };
    let right = json!({"sensor_id": "A_LINE1_042"});
    check(ToolName::GetSensorReading, json!({"sensor_id": "a_line1_042"}), right.clone());
    check(ToolName::GetSensorReading, json!({"sensor_id": " A-LINE1 042 "}), right.clone());
    check(ToolName::GetSensorReading, json!({"sensorId": "A_LINE1_042"}), right.clone());
    check(ToolName::GetSensorReading, json!({"Sensor-ID": "a_line1_042"}), right);
    let given = json!({"sensor_id": "A_LINE1_042", "unit": "RAW", "max_age_ms": "500"});
    check(ToolName::GetSensorReading, given, json!({"sensor_id": "A_LINE1_042", "unit": "raw", "max_age_ms": 500}));
    check(ToolName::GetGatewayStatus, json!({"verbose": true}), json!({}));
    check(ToolName::GetSensorReadings, json!({"sensor_ids": "A_LINE1_042"}), json!({"sensor_ids": ["A_LINE1_042"]}));
    let given = json!({"sensor_ids": ["A_LINE1_042", "A_LINE1_042", "a_line1_043", "A_LINE1_042", "b hall2 001"]});
    check(ToolName::GetSensorReadings, given, json!({"sensor_ids": ["A_LINE1_042", "A_LINE1_043", "B_HALL2_001"]}));
}

#[test]
fn one_uncertain_fault_holds_the_corrected_call_back() {
    let given = json!({"sensor_id": "a_line1_042", "max_age_ms": -5});
    assert!(refusal(ToolName::GetSensorReading, given).get("corrected_call").is_none());
}

#[test]
fn a_fault_behind_a_misspelt_name_is_found_in_the_same_call() {
    let faults = faults(ToolName::GetSensorReading, json!({"sensorId": "A_LINE1_999"}));
    let parameters: Vec<&str> = faults.iter().filter_map(|fault| fault["parameter"].as_str()).collect();
    assert_eq!(parameters, ["sensorId", "sensor_id"]);
    assert_eq!(faults[1]["message"], "is not the id of a sensor here");
}

#[test]
fn a_device_given_as_a_sensor_is_told_how_to_go_on() {
    let fault = &faults(ToolName::GetSensorReading, json!({"sensor_id": "meter-1"}))[0];
    assert_eq!(fault["message"], "is the id of a device, not of a sensor");
    assert_eq!(fault["suggestions"], json!(["B_HALL2_001", "B_HALL2_002", "B_HALL2_003"]));
    assert!(fault["hint"].as_str().is_some_and(|hint| hint.contains("get_sensor_readings")));
    let fault = &faults(ToolName::ListSensors, json!({"device": "A_LINE1_042"}))[0];
    assert_eq!(fault["message"], "is the id of a sensor, not of a device");
    assert_eq!(fault["suggestions"], json!(["press-plc"]));
}

#[test]
fn what_was_received_is_shown_but_not_at_any_length() {
    let fault = &faults(ToolName::ListSensors, json!({"query": "ä".repeat(5000)}))[0];
    let received = fault["received"].as_str().expect("a text");
    assert!(received.ends_with("… (5000 characters)") && received.chars().count() < 150, "{received}");
    assert_eq!(fault["message"], "is 5000 characters long, and 100 are the most");
    let fault = &faults(ToolName::ListSensors, json!({"limit": [1, 2]}))[0];
    assert_eq!(fault["received"], json!([1, 2]));
}

#[test]
fn a_whole_number_may_be_written_as_a_float() {
    let registry = bench::registry();
    let arguments = check(ToolName::ListSensors.spec(), json!({"limit": 5.0}), &registry).expect("right");
    assert_eq!(arguments.integer("limit"), Some(5));
    assert_eq!(
        faults(ToolName::ListSensors, json!({"limit": 5.5}))[0]["message"],
        "is a broken number, and not a whole number from 1 to 100"
    );
}
