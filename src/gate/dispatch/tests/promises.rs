//! Every call ends once, by its deadline, on the caller's own topic.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::bench::*;
use crate::clock;

const RESPONSE: &str = "fieldgate/v1/gw/rpc/agent-1/response";

// covers: A7, B3
#[tokio::test(start_paused = true)]
async fn a_call_is_answered_once_with_its_id_and_its_correlation_data() {
    let bench = Bench::new();
    let mut message = request_of("agent-1", &call("call-7", "echo", json!({ "x": 1 })));
    message.correlation_data = Some(Bytes::from_static(b"\x00\xff"));
    message.response_topic = Some(format!("{RESPONSE}/7"));
    message.expiry = Some(Duration::from_secs(5));
    bench.send(message).await;
    let published = bench.finish().await;
    let [answer, copy] = &published[..] else { panic!("{published:?}") };

    assert_eq!(answer.topic, format!("{RESPONSE}/7"));
    assert_eq!(answer.properties.correlation_data.as_deref(), Some(b"\x00\xff".as_slice()));
    assert_eq!(answer.properties.content_type, Some("application/json"));
    assert_eq!(answer.properties.expiry, Some(Duration::from_secs(5)));
    let json = json_of(answer);
    assert_eq!(json["id"], "call-7");
    let structured = json!({ "echo": { "x": 1 }, "client": "agent-1" });
    assert_eq!(json["result"]["structuredContent"], structured);
    let text = json["result"]["content"][0]["text"].as_str().expect("text");
    assert_eq!(serde_json::from_str::<Value>(text).expect("JSON"), structured);

    assert_eq!(copy.topic, "fieldgate/v1/gw/result/agent-1/echo");
    assert_eq!(json_of(copy), structured);
    assert!(!copy.retain);
}

#[tokio::test(start_paused = true)]
async fn an_id_comes_back_as_it_was_written() {
    for id in ["1", "1.0", "-3", "18446744073709551616", "1e3", r#""a""#, r#""""#] {
        let bench = Bench::new();
        let request = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        bench.send(bare("fieldgate/v1/gw/rpc/agent-1/request", request)).await;
        let published = bench.finish().await;
        let text = std::str::from_utf8(&published[0].payload).expect("text");
        assert!(text.contains(&format!(r#""id":{id},"#)), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_goes_nowhere_but_to_the_caller() {
    for asked in ["fieldgate/v1/gw/rpc/agent-2/response", "fieldgate/v1/gw/status", "elsewhere", RESPONSE] {
        let bench = Bench::new();
        let mut message = request_of("agent-1", &call(1, "echo", json!({})));
        message.response_topic = Some(asked.into());
        bench.send(message).await;
        assert_eq!(bench.finish().await[0].topic, RESPONSE);
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_fails_answers_with_its_typed_error() {
    let mut bench = Bench::new();
    let answer = bench.ask(call(1, "offline", json!({}))).await;
    assert_eq!(error_of(&answer), "SENSOR_OFFLINE");
    assert_eq!(answer["result"]["structuredContent"]["retry_after_ms"], 8000);
    let text = answer["result"]["content"][0]["text"].as_str().expect("text");
    assert!(text.contains("SENSOR_OFFLINE"));
    assert_eq!(json_of(&bench.finish().await[0])["error"], "SENSOR_OFFLINE", "the copy says so too");
}

// covers: A7
#[tokio::test(start_paused = true)]
async fn a_tool_that_never_ends_is_answered_by_the_deadline() {
    let check = async |expiry_s: Option<u64>, wish_ms: Option<u64>, expected_ms: u64| {
        let mut bench = Bench::new();
        let mut request = call(1, "stuck", json!({}));
        if let Some(wish) = wish_ms {
            request = with_meta(request, "fieldgate/deadline_ms", wish.into());
        }
        let mut message = request_of("agent-1", &request);
        message.expiry = expiry_s.map(Duration::from_secs);
        let began = clock::instant();
        bench.send(message).await;
        assert_eq!(error_of(&json_of(&bench.answer().await)), "DEADLINE_EXCEEDED");
        let took_ms = (clock::instant() - began).as_millis() as u64;
        assert!(took_ms <= expected_ms && took_ms * 10 >= expected_ms * 9, "{took_ms} ms of {expected_ms}");
    };
    check(None, None, 10_000).await;
    check(Some(2), None, 2000).await;
    check(None, Some(300), 300).await;
    check(Some(2), Some(300), 300).await;
    check(Some(2), Some(5000), 2000).await;
    check(Some(3600), None, 60_000).await;
    check(None, Some(u64::MAX), 60_000).await;
}

#[tokio::test(start_paused = true)]
async fn an_expired_call_is_answered_and_not_executed() {
    for wish in [json!(0), json!(-1), json!(-1e300)] {
        let mut bench = Bench::new();
        let request = with_meta(call(1, "echo", json!({})), "fieldgate/deadline_ms", wish);
        assert_eq!(error_of(&bench.ask(request).await), "DEADLINE_EXCEEDED");
        assert_eq!(bench.tools.runs(), 0);
    }
    let mut bench = Bench::new();
    let mut message = request_of("agent-1", &call(1, "echo", json!({})));
    message.expiry = Some(Duration::from_secs(5));
    tokio::time::advance(Duration::from_secs(5)).await;
    bench.send(message).await;
    assert_eq!(error_of(&json_of(&bench.answer().await)), "DEADLINE_EXCEEDED");
    assert_eq!(bench.tools.runs(), 0);
    assert!(bench.finish().await.is_empty(), "nothing ran, so there is no result to copy");
}

#[tokio::test(start_paused = true)]
async fn a_retained_request_is_neither_executed_nor_answered() {
    let bench = Bench::new();
    let mut message = request_of("agent-1", &call(1, "echo", json!({})));
    message.retained = true;
    bench.send(message).await;
    let tools = bench.tools.clone();
    assert!(bench.finish().await.is_empty());
    assert_eq!(tools.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_arrives_twice_is_executed_once_and_answered_twice() {
    let mut bench = Bench::new();
    let first = bench.ask(call(1, "slow", json!({ "ms": 50 }))).await;
    let second = bench.ask(call(1, "slow", json!({ "ms": 50 }))).await;
    assert_eq!(first, second);
    assert_eq!(bench.tools.runs(), 1);

    bench.ask(call(1, "slow", json!({ "ms": 51 }))).await;
    assert_eq!(bench.tools.runs(), 2, "the same id with other arguments is another call");
    bench.send(request_of("agent-2", &call(1, "slow", json!({ "ms": 50 })))).await;
    bench.answer().await;
    assert_eq!(bench.tools.runs(), 3, "another caller's call is another call");
    tokio::time::advance(Duration::from_secs(11)).await;
    bench.ask(call(1, "slow", json!({ "ms": 50 }))).await;
    assert_eq!(bench.tools.runs(), 4, "after the deadline it is a new call");
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_of_a_running_call_waits_for_its_answer() {
    let mut bench = Bench::new();
    for correlation in ["a", "b"] {
        let mut message = request_of("agent-1", &call(1, "slow", json!({ "ms": 500 })));
        message.correlation_data = Some(correlation.into());
        bench.send(message).await;
    }
    let (first, second) = (bench.answer().await, bench.answer().await);
    assert_eq!(first.payload, second.payload);
    let mut correlations = [first, second].map(|answer| answer.properties.correlation_data);
    correlations.sort();
    assert_eq!(correlations, [Some("a".into()), Some("b".into())]);
    assert_eq!(bench.tools.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_with_less_time_does_not_wait_longer_than_it_may() {
    let mut bench = Bench::new();
    bench.send(request_of("agent-1", &call(1, "slow", json!({ "ms": 5000 })))).await;
    let hurried = with_meta(call(1, "slow", json!({ "ms": 5000 })), "fieldgate/deadline_ms", json!(100));
    assert_eq!(error_of(&bench.ask(hurried).await), "DEADLINE_EXCEEDED");
    assert_eq!(json_of(&bench.answer().await)["result"]["structuredContent"]["slept_ms"], 5000);
    assert_eq!(bench.tools.runs(), 1);
}

// covers: C2
#[tokio::test(start_paused = true)]
async fn a_slow_call_holds_up_no_other_call_of_the_same_caller() {
    let mut bench = Bench::new();
    bench.send(request_of("agent-1", &call("slow", "slow", json!({ "ms": 1000 })))).await;
    let began = clock::instant();
    assert_eq!(bench.ask(call("quick", "echo", json!({}))).await["id"], "quick");
    assert_eq!(clock::instant(), began);
    assert_eq!(json_of(&bench.answer().await)["id"], "slow");
}

#[tokio::test(start_paused = true)]
async fn one_call_too_many_is_told_when_to_come_back() {
    let mut bench = Bench::with(2);
    for id in 1..=2 {
        bench.send(request_of("agent-1", &call(id, "slow", json!({ "ms": 1000 })))).await;
    }
    let refused = bench.ask(call(3, "echo", json!({}))).await;
    assert_eq!(error_of(&refused), "RATE_LIMITED");
    assert_eq!(refused["result"]["structuredContent"]["retry_after_ms"], 1000);
    let refused = bench.ask(json!({ "jsonrpc": "2.0", "id": 4, "method": "tools/list" })).await;
    assert_eq!(refused["error"]["data"]["error"], "RATE_LIMITED");
    bench.answer().await;
    bench.answer().await;
    let repeated = bench.ask(call(3, "echo", json!({}))).await;
    assert_eq!(repeated["result"]["isError"], false, "a refusal is not kept for the repeat: {repeated}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_tool_is_a_typed_error_and_the_next_call_is_served() {
    let mut bench = Bench::new();
    assert_eq!(error_of(&bench.ask(call(1, "broken", json!({}))).await), "INTERNAL");
    assert_eq!(bench.ask(call(2, "echo", json!({}))).await["result"]["isError"], false);
}

// covers: B4, C2
#[tokio::test(start_paused = true)]
async fn a_batch_runs_side_by_side_and_each_id_gets_its_answer() {
    let mut bench = Bench::new();
    let batch = json!([
        call("a", "slow", json!({ "ms": 800 })),
        call("b", "offline", json!({})),
        { "jsonrpc": "2.0", "method": "notifications/initialized" },
        7,
        call("c", "slow", json!({ "ms": 900 })),
        call("d", "broken", json!({})),
    ]);
    let began = clock::instant();
    let answers = bench.ask(batch).await;
    assert_eq!((clock::instant() - began).as_millis(), 900);
    let ids: Vec<&Value> = answers.as_array().expect("an array").iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&json!("a"), &json!("b"), &Value::Null, &json!("c"), &json!("d")]);
    assert_eq!(answers[0]["result"]["structuredContent"]["slept_ms"], 800);
    assert_eq!(error_of(&answers[1]), "SENSOR_OFFLINE");
    assert_eq!(answers[2]["error"]["code"], -32600);
    assert_eq!(error_of(&answers[4]), "INTERNAL");
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_answered_by_the_shortest_deadline_in_it() {
    let mut bench = Bench::new();
    let hurried = with_meta(call("a", "echo", json!({})), "fieldgate/deadline_ms", json!(200));
    let began = clock::instant();
    let answers = bench.ask(json!([hurried, call("b", "stuck", json!({}))])).await;
    assert!((clock::instant() - began).as_millis() <= 200);
    assert_eq!(answers[0]["result"]["isError"], false);
    assert_eq!(error_of(&answers[1]), "DEADLINE_EXCEEDED");
}

// covers: B2
#[tokio::test(start_paused = true)]
async fn arguments_reach_the_tool_in_whatever_form_they_came() {
    let mut bench = Bench::new();
    let forms = [json!({ "x": 1 }), json!("{\"x\":1}"), json!([1]), json!(7), json!("")];
    for (id, arguments) in forms.into_iter().enumerate() {
        let answer = bench.ask(call(id, "echo", arguments.clone())).await;
        assert_eq!(answer["result"]["structuredContent"]["echo"], arguments);
    }
    let mut without = call("none", "echo", Value::Null);
    without["params"] = json!({ "name": "echo" });
    for request in [call("null", "echo", Value::Null), without] {
        assert_eq!(bench.ask(request).await["result"]["structuredContent"]["echo"], json!({}));
    }
}

// covers: B5
#[tokio::test(start_paused = true)]
async fn an_answer_says_how_long_it_took_and_carries_the_trace() {
    let mut bench = Bench::new();
    let request = with_meta(call(1, "slow", json!({ "ms": 40 })), "traceparent", json!("00-ab-cd-01"));
    let answer = bench.ask(request).await;
    assert_eq!(answer["result"]["_meta"], json!({ "fieldgate/duration_ms": 40, "traceparent": "00-ab-cd-01" }));
}
