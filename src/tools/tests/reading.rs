//! `get_sensor_reading`: fresh and good with its time, or a typed error.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::advance;

use super::bench::{self, Bench, WARM, WISHES};
use crate::clock;
use crate::modbus::exception::ExceptionCode;
use crate::registry::reading::{Fault, OfflineCause};
use crate::tools::ToolName::GetSensorReading;
use crate::tools::answer::ToolError;
use crate::tools::offline::{Place, SensorOfflineError};

const SILENT: OfflineCause = OfflineCause::ConnectedButSilent;

fn of(id: &str) -> Value {
    json!({"sensor_id": id})
}

#[tokio::test(start_paused = true)]
async fn a_fresh_value_is_answered_with_its_unit_time_and_age_without_asking_the_device() {
    // covers: A3, B5
    let bench = Bench::new();
    bench.answered("A_LINE1_042", &WARM);
    advance(Duration::from_millis(212)).await;
    let reading = bench.call(GetSensorReading, of("A_LINE1_042")).await.expect("a reading");
    let members =
        ["value", "unit", "type", "quality", "reason", "age_ms", "status", "source", "attempts", "duration_ms"];
    let shown: Vec<&Value> = members.iter().map(|name| &reading[*name]).collect();
    let expected = json!([47.3, "°C", "f32", "good", null, 212, "ok", "polled", 0, 0]);
    assert_eq!(json!(shown), expected, "{reading:#}");
    assert_eq!(bench.waiting("press-tcp"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_value_older_than_allowed_is_read_again() {
    let mut bench = Bench::new();
    bench.answered("A_LINE1_042", &[0, 0]);
    advance(Duration::from_millis(3001)).await;
    bench.serve("press-tcp", |board, registry, index| {
        bench::answered(board, registry, index, &WARM);
        true
    });
    let reading = bench.call(GetSensorReading, of("A_LINE1_042")).await.expect("a reading");
    assert_eq!(json!([reading["value"], reading["source"], reading["attempts"]]), json!([47.3, "fresh", 1]));
    assert_eq!(reading["duration_ms"], 20);
}

#[tokio::test(start_paused = true)]
async fn max_age_zero_has_the_device_read_again_for_this_call() {
    let mut bench = Bench::new();
    bench.answered("A_LINE1_042", &[0, 0]);
    advance(Duration::from_millis(1)).await;
    bench.serve("press-tcp", |board, registry, index| {
        bench::answered(board, registry, index, &WARM);
        true
    });
    let arguments = json!({"sensor_id": "A_LINE1_042", "max_age_ms": 0});
    let reading = bench.call(GetSensorReading, arguments).await.expect("a reading");
    assert_eq!(json!([reading["value"], reading["source"]]), json!([47.3, "fresh"]));
}

#[tokio::test(start_paused = true)]
async fn a_caller_cannot_allow_what_the_registry_does_not() {
    // covers: E7
    let mut bench = Bench::new();
    bench.answered("A_LINE1_042", &WARM);
    advance(Duration::from_millis(3001)).await;
    bench.serve("press-tcp", |_, _, _| true);
    let arguments = json!({"sensor_id": "A_LINE1_042", "max_age_ms": 3_600_000});
    let error = bench.call(GetSensorReading, arguments).await.expect_err("an old value is no answer");
    assert_eq!(json!([error["error"], error["max_age_ms"]]), json!(["STALE_DATA", 3000]));
    assert_eq!(error["last_good"]["value"], 47.3);
    assert!(error.get("value").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_raw_value_is_the_number_before_scaling() {
    // covers: A3
    let bench = Bench::new();
    bench.answered("A_LINE1_043", &[97]);
    bench.answered("A_LINE1_044", &[1]);
    bench.answered("A_LINE1_045", &[0x0020, 0, 0, 1]);
    bench.answered("B_HALL2_002", &[0b1000]);
    let check = async |id: &str, unit: &str, expected: Value| {
        let arguments = json!({"sensor_id": id, "unit": unit});
        let reading = bench.call(GetSensorReading, arguments).await.expect("a reading");
        assert_eq!(json!([reading["value"], reading["unit"]]), expected, "{id} {unit}");
    };
    check("A_LINE1_043", "normalized", json!([9.7, "bar"])).await;
    check("A_LINE1_043", "raw", json!([97, "raw"])).await;
    check("A_LINE1_044", "normalized", json!([true, null])).await;
    check("A_LINE1_044", "raw", json!([true, "raw"])).await;
    check("A_LINE1_045", "normalized", json!(["9007199254740993", "kWh"])).await;
    check("A_LINE1_045", "raw", json!(["9007199254740993", "raw"])).await;
    check("B_HALL2_002", "raw", json!([true, "raw"])).await;
}

#[tokio::test(start_paused = true)]
async fn a_value_out_of_range_is_an_answer_that_says_so() {
    let bench = Bench::new();
    bench.answered("A_LINE1_042", &[0x43FA, 0]);
    let reading = bench.call(GetSensorReading, of("A_LINE1_042")).await.expect("a reading");
    let shown = json!([reading["value"], reading["quality"], reading["reason"], reading["status"]]);
    assert_eq!(shown, json!([500.0, "uncertain", "out_of_range", "uncertain"]));
}

#[tokio::test(start_paused = true)]
async fn case_c40_a_resting_device_is_not_asked_and_its_old_value_stays_apart() {
    // covers: E7, A9, D3
    let bench = Bench::new();
    bench.answered("A_LINE1_042", &WARM);
    advance(Duration::from_millis(1000)).await;
    bench.offline("press-plc", SILENT, Some(Duration::from_millis(8000)));
    let error = bench.call(GetSensorReading, of("A_LINE1_042")).await.expect_err("offline");
    let members = ["error", "class", "retryable", "retry_after_ms", "sensor_id", "device", "link", "cause", "scope"];
    let shown: Vec<&Value> = members.iter().map(|name| &error[*name]).collect();
    let expected = json!([
        "SENSOR_OFFLINE",
        "transient",
        true,
        8000,
        "A_LINE1_042",
        "press-plc",
        "press-tcp",
        "connected_but_silent",
        "device"
    ]);
    assert_eq!(json!(shown), expected, "{error:#}");
    assert_eq!(json!([error["last_good"]["value"], error["last_good"]["age_ms"]]), json!([47.3, 1000]));
    assert!(error.get("value").is_none());
    assert!(!error["message"].to_string().contains("47.3") && !error["hint"].to_string().contains("47.3"));
    assert_eq!(bench.waiting("press-tcp"), 0, "a call does not wake a device that rests");
}

#[tokio::test(start_paused = true)]
async fn a_message_says_sensor_link_and_since_when() {
    let bench = Bench::new();
    bench.offline("press-plc", SILENT, Some(Duration::from_secs(8)));
    let error = bench.call(GetSensorReading, of("A_LINE1_042")).await.expect_err("offline");
    let message = error["message"].as_str().expect("a text");
    let since = error["offline_since"].as_str().expect("a time");
    assert_eq!(message, format!("A_LINE1_042 has been offline on press-tcp since {}Z.", &since[11..19]));
    assert_eq!(error["last_good"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn what_was_never_tried_is_tried_even_while_its_device_rests() {
    let mut bench = Bench::new();
    let now = clock::now();
    let status = crate::registry::reading::DeviceStatus::Offline {
        cause: SILENT,
        next_try: Some(now.instant + Duration::from_secs(60)),
    };
    bench.toolbox.board.update_device(bench.device("press-plc"), now, |state| state.status = status);
    bench.serve("press-tcp", |board, registry, index| {
        bench::answered(board, registry, index, &WARM);
        true
    });
    let reading = bench.call(GetSensorReading, of("A_LINE1_042")).await.expect("a reading");
    assert_eq!(reading["value"], 47.3);
}

#[tokio::test(start_paused = true)]
async fn a_link_that_asks_in_vain_leaves_a_typed_error_and_not_an_internal_one() {
    let mut bench = Bench::new();
    let now = clock::now();
    let next_try = Some(now.instant + Duration::from_secs(60));
    let status = crate::registry::reading::DeviceStatus::Offline { cause: OfflineCause::PortGone, next_try };
    bench.toolbox.board.update_device(bench.device("meter-1"), now, |state| state.status = status);
    bench.serve("rs485-a", |_, _, _| true);
    let error = bench.call(GetSensorReading, of("B_HALL2_001")).await.expect_err("offline");
    assert_eq!(json!([error["error"], error["cause"], error["scope"]]), json!(["SENSOR_OFFLINE", "port_gone", "link"]));
}

/// What each fault of a read becomes.
#[tokio::test(start_paused = true)]
async fn every_fault_has_its_typed_error() {
    // covers: D1, A9
    let offline = |cause: &str, scope: &str| json!(["SENSOR_OFFLINE", "transient", true, cause, scope]);
    let cases = [
        (Fault::Offline(OfflineCause::Refused), offline("refused", "link")),
        (Fault::Offline(OfflineCause::NoRoute), offline("no_route", "link")),
        (Fault::Offline(SILENT), offline("connected_but_silent", "device")),
        (Fault::Offline(OfflineCause::UnitSilentBehindGateway), offline("unit_silent_behind_gateway", "device")),
        (Fault::Offline(OfflineCause::LineNoise), offline("line_noise", "device")),
        (Fault::DeviceFailed(ExceptionCode(4)), offline("device_exception", "sensor")),
        (Fault::Offline(OfflineCause::PortGone), offline("port_gone", "link")),
        (Fault::NoValue, offline("no_value", "sensor")),
        (Fault::NotANumber, offline("not_a_number", "sensor")),
        (Fault::Implausible, offline("implausible", "sensor")),
        (Fault::Jumped, offline("jumped", "sensor")),
        (Fault::Frozen, offline("frozen", "device")),
        (Fault::Busy(ExceptionCode(5)), json!(["DEVICE_BUSY", "transient", true, null, null])),
        (Fault::Busy(ExceptionCode(6)), json!(["DEVICE_BUSY", "transient", true, null, null])),
        (Fault::Refused(ExceptionCode(1)), json!(["MISCONFIGURED", "permanent", false, null, null])),
        (Fault::Refused(ExceptionCode(2)), json!(["MISCONFIGURED", "permanent", false, null, null])),
        (Fault::Refused(ExceptionCode(3)), json!(["MISCONFIGURED", "permanent", false, null, null])),
    ];
    for (fault, expected) in cases {
        let mut bench = Bench::new();
        bench.answered("A_LINE1_042", &WARM);
        advance(Duration::from_secs(4)).await;
        bench.serve("press-tcp", move |board, _, index| {
            board.sensor_failed(index, fault, clock::now());
            true
        });
        let error = bench.call(GetSensorReading, of("A_LINE1_042")).await.expect_err("a fault");
        let shown = json!([error["error"], error["class"], error["retryable"], error["cause"], error["scope"]]);
        assert_eq!(shown, expected, "{fault:?}: {error:#}");
        assert_eq!(error["retry_after_ms"].is_null(), error["retryable"] == false, "{fault:?}");
        assert!(error.get("value").is_none() && !error["message"].to_string().contains("47.3"), "{fault:?}");
        for member in ["sensor_id", "device", "link"] {
            assert!(error[member].is_string(), "{fault:?} names its {member}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_register_is_named_as_the_manual_names_it() {
    let bench = Bench::new();
    bench.failed("A_LINE1_042", Fault::Refused(ExceptionCode::ILLEGAL_DATA_ADDRESS));
    let mut bench = bench;
    bench.serve("press-tcp", |_, _, _| true);
    let error = bench.call(GetSensorReading, of("A_LINE1_042")).await.expect_err("refused");
    let members = ["exception_code", "exception_name", "table", "address", "reference"];
    let shown: Vec<&Value> = members.iter().map(|name| &error[*name]).collect();
    assert_eq!(json!(shown), json!([2, "illegal data address", "holding", 100, 40101]));
}

#[tokio::test(start_paused = true)]
async fn a_link_with_too_many_calls_waiting_refuses_and_says_when_to_come_again() {
    let bench = Bench::new();
    let toolbox = bench.toolbox.clone();
    let far = clock::instant() + Duration::from_secs(60);
    let index = bench.sensor("A_LINE1_042");
    for _ in 0..WISHES {
        let field = toolbox.field.clone();
        tokio::spawn(async move { field.refresh(index, far).await });
    }
    tokio::task::yield_now().await;
    assert_eq!(bench.waiting("press-tcp"), WISHES);
    let error = bench.call(GetSensorReading, of("A_LINE1_042")).await.expect_err("full");
    assert_eq!(json!([error["error"], error["retry_after_ms"]]), json!(["RATE_LIMITED", 1000]));
}

#[tokio::test(start_paused = true)]
async fn a_silent_link_ends_in_a_typed_error_before_the_deadline() {
    // covers: E6, D10
    let bench = Bench::new();
    let deadline = clock::instant() + Duration::from_secs(2);
    let error = bench.call_by(GetSensorReading, of("A_LINE1_042"), deadline).await.expect_err("too late");
    let shown = ["error", "retryable", "attempts"].map(|name| &error[name]);
    assert_eq!(json!(shown), json!(["DEADLINE_EXCEEDED", true, 1]));
    assert!(error["duration_ms"].as_u64().is_some_and(|millis| (1900..2000).contains(&millis)), "{error:#}");
    assert!(clock::instant() < deadline, "there is time left for the answer's way");
}

#[tokio::test(start_paused = true)]
async fn a_reason_that_the_board_learns_meanwhile_is_better_than_a_time_out() {
    let mut bench = Bench::new();
    bench.serve("press-tcp", |board, _, index| {
        board.sensor_failed(index, Fault::Offline(SILENT), clock::now());
        false
    });
    let error = bench.call(GetSensorReading, of("A_LINE1_042")).await.expect_err("offline");
    assert_eq!(error["error"], "SENSOR_OFFLINE");
}

#[tokio::test(start_paused = true)]
async fn a_value_that_the_board_learns_meanwhile_is_an_answer() {
    let mut bench = Bench::new();
    bench.serve("press-tcp", |board, registry, index| {
        bench::answered(board, registry, index, &WARM);
        false
    });
    let arguments = json!({"sensor_id": "A_LINE1_042", "max_age_ms": 10});
    let reading = bench.call(GetSensorReading, arguments).await;
    // By the deadline the value read for this call is older than the registry allows, so it is none any more.
    assert_eq!(reading.expect_err("stale by now")["error"], "STALE_DATA");
    let deadline = clock::instant() + Duration::from_secs(2);
    let reading = bench.call_by(GetSensorReading, of("A_LINE1_042"), deadline).await.expect("a reading");
    assert_eq!(json!([reading["value"], reading["source"]]), json!([47.3, "fresh"]));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_arrives_too_late_asks_nothing() {
    let bench = Bench::new();
    let error = bench.call_by(GetSensorReading, of("A_LINE1_042"), clock::instant()).await.expect_err("too late");
    assert_eq!(error["error"], "DEADLINE_EXCEEDED");
    assert_eq!(bench.waiting("press-tcp"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_stops_says_that_nothing_was_changed() {
    let mut bench = Bench::new();
    bench.wishes.clear();
    let error = bench.call(GetSensorReading, of("A_LINE1_042")).await.expect_err("stopping");
    assert_eq!(json!([error["error"], error["retryable"]]), json!(["DEADLINE_EXCEEDED", true]));
}

#[tokio::test(start_paused = true)]
async fn a_fresh_value_costs_one_wish_and_the_next_caller_none() {
    let mut bench = Bench::new();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    bench.serve("press-tcp", move |board, registry, index| {
        count.fetch_add(1, Ordering::SeqCst);
        bench::answered(board, registry, index, &WARM);
        true
    });
    for _ in 0..3 {
        bench.call(GetSensorReading, of("A_LINE1_042")).await.expect("a reading");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[test]
fn the_offline_error_reads_as_a_sentence_about_sensor_and_link() {
    let registry = bench::registry();
    let index = registry.find_sensor("A_LINE1_042").expect("a sensor");
    let now = crate::registry::reading::Stamp {
        instant: std::time::Instant::now(),
        wall: std::time::SystemTime::UNIX_EPOCH + Duration::from_millis(1_796_030_102_381),
    };
    let place = Place::of(&registry, index);
    let offline =
        SensorOfflineError::Unreachable { place, cause: SILENT, since: now, next_try: None, last_good: None, now };
    assert_eq!(offline.to_string(), "A_LINE1_042 has been offline on press-tcp since 09:15:02Z");
    let error = ToolError::from(offline).to_json();
    assert_eq!(error["offline_since"], "2026-11-30T09:15:02.381Z");
    assert_eq!(error["retry_after_ms"], 1000, "the pace of polling, where the next try is not known");
}
