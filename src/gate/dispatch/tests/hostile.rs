//! Whatever arrives: at most one answer, exactly one to a request, and nothing executed that was not asked for.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::bench::*;

const TOPIC: &str = "fieldgate/v1/gw/rpc/agent-1/request";

/// What one payload is answered with, and how many tools ran for it.
async fn outcome(payload: &[u8]) -> (Vec<Value>, usize) {
    let bench = Bench::new();
    bench.send(bare(TOPIC, payload)).await;
    let tools = bench.tools.clone();
    let answers = bench.finish().await.iter().filter(|message| message.topic.contains("/rpc/")).map(json_of).collect();
    (answers, tools.runs())
}

fn request(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
}

// covers: A7
#[tokio::test(start_paused = true)]
async fn malformed_requests_get_a_typed_answer_and_execute_nothing() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let table = [
        ("\u{0}\u{1}\u{2}".to_owned(), -32700),
        ("{\"jsonrpc\":".to_owned(), -32700),
        (String::new(), -32700),
        ("null".to_owned(), -32600),
        ("\"tools/call\"".to_owned(), -32600),
        ("[]".to_owned(), -32600),
        ("{}".to_owned(), -32600),
        (format!(r#"{{"x":{deep}}}"#), -32600),
        (call(1, "echo", json!({ "x": "y".repeat(1024 * 1024) })).to_string(), -32600),
        (request("tools/call", &format!(r#"{{"name":"echo","arguments":{deep}}}"#)), -32602),
        (request("tools/delete", "{}"), -32601),
        (request("tools/call", "{}"), -32602),
        (request("tools/call", "[]"), -32602),
        (request("tools/call", r#"{"name":7}"#), -32602),
        (request("tools/call", r#"{"name":"no_such_tool"}"#), -32602),
        (request("tools/call", r#"{"name":"a/b/#"}"#), -32602),
        (request("tools/call", r#"{"name":"echo","_meta":7}"#), -32602),
        (request("tools/call", r#"{"name":"echo","_meta":{"fieldgate/deadline_ms":"soon"}}"#), -32602),
        (request("initialize", r#"{"protocolVersion":7}"#), -32602),
        (request("resources/list", "{}"), -32601),
    ];
    for (payload, code) in table {
        let (answers, runs) = outcome(payload.as_bytes()).await;
        let shown: String = payload.chars().take(80).collect();
        assert_eq!(answers.len(), 1, "{shown}");
        assert_eq!(answers[0]["error"]["code"], code, "{shown}: {}", answers[0]);
        assert_eq!(runs, 0, "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_wants_no_answer_gets_none() {
    for payload in [
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"[{"jsonrpc":"2.0","method":"notifications/initialized"}]"#,
    ] {
        assert_eq!(outcome(payload.as_bytes()).await, (vec![], 0), "{payload}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_on_a_topic_that_is_no_callers_is_dropped() {
    let bench = Bench::new();
    for level in ["other/rpc/agent-1/request", "gw/rpc/a/b/request", "gw/rpc/agent-1/response", "gw/status"] {
        bench.send(bare(&format!("fieldgate/v1/{level}"), call(1, "echo", json!({})).to_string())).await;
    }
    let tools = bench.tools.clone();
    assert!(bench.finish().await.is_empty());
    assert_eq!(tools.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_calls_is_not_decided_by_what_the_payload_says() {
    let mut bench = Bench::new();
    let request = with_meta(call(1, "echo", json!({ "client": "agent-2" })), "client", json!("agent-2"));
    assert_eq!(bench.ask(request).await["result"]["structuredContent"]["client"], "agent-1");
}

const MEMBERS: [&str; 14] = [
    "jsonrpc",
    "id",
    "method",
    "params",
    "name",
    "arguments",
    "_meta",
    "cursor",
    "result",
    "error",
    "protocolVersion",
    "capabilities",
    "io.modelcontextprotocol/protocolVersion",
    "toolset",
];

const METHODS: [&str; 12] = [
    "tools/call",
    "tools/list",
    "initialize",
    "server/discover",
    "ping",
    "prompts/get",
    "resources/read",
    "subscriptions/listen",
    "logging/setLevel",
    "completion/complete",
    "tasks/get",
    "x",
];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        select(vec!["2.0", "tools/call", "echo", "stuck", "2026-07-28"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        let member = select(MEMBERS.to_vec()).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((member, inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Something that often is a request.
fn request_like() -> impl Strategy<Value = Value> {
    let id = prop_oneof![any::<i64>().prop_map(Value::from), ".{0,8}".prop_map(Value::from), any_json()];
    let method = prop_oneof![3 => select(METHODS.to_vec()).prop_map(Value::from), 1 => any_json()];
    (id, method, any_json())
        .prop_map(|(id, method, params)| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

/// Judged apart from the parser under test.
fn is_request(value: &Value) -> bool {
    value["jsonrpc"] == "2.0" && value["method"].is_string() && (value["id"].is_string() || value["id"].is_number())
}

fn run_outcome(payload: &[u8]) -> (Vec<Value>, usize) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(outcome(payload))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_json_gets_at_most_one_answer_and_a_request_exactly_one(value in prop_oneof![any_json(), request_like()]) {
        let (answers, _) = run_outcome(value.to_string().as_bytes());
        prop_assert!(answers.len() <= 1);
        if is_request(&value) {
            prop_assert_eq!(answers.len(), 1);
            prop_assert_eq!(&answers[0]["id"], &value["id"]);
            prop_assert!(answers[0].get("result").is_some() != answers[0].get("error").is_some());
        }
    }

    #[test]
    fn any_bytes_get_at_most_one_answer_and_execute_nothing(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let (answers, runs) = run_outcome(&bytes);
        prop_assert!(answers.len() <= 1);
        prop_assert_eq!(runs, 0);
    }
}
