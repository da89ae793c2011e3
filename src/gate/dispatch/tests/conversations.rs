//! MCP in all its revisions, and without any.

use serde_json::{Value, json};

use super::bench::*;

fn initialize(version: &str) -> Value {
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })
}

fn stateless(method: &str, params: Value) -> Value {
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let request = with_meta(request, "io.modelcontextprotocol/protocolVersion", json!("2026-07-28"));
    with_meta(request, "io.modelcontextprotocol/clientCapabilities", json!({}))
}

fn list(params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": params })
}

fn ping() -> Value {
    json!({ "jsonrpc": "2.0", "id": 4, "method": "ping" })
}

// covers: C13
#[tokio::test(start_paused = true)]
async fn a_handshake_agrees_on_a_revision_and_opens_a_conversation() {
    for (asked, agreed) in [
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let mut bench = Bench::new();
        let answer = bench.ask(initialize(asked)).await;
        assert_eq!(answer["result"]["protocolVersion"], agreed, "{answer}");
        assert_eq!(answer["result"]["serverInfo"]["name"], "fieldgate");
        assert_eq!(answer["result"]["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
        assert!(answer["result"]["instructions"].as_str().expect("text").contains("list_sensors"));
        assert!(answer["result"]["capabilities"]["tools"].is_object());
        bench.send(request_of("agent-1", &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))).await;
        let listed = bench.ask(list(json!({}))).await;
        assert_eq!(listed["result"]["tools"][0]["name"], "echo");
        assert!(listed["result"].get("resultType").is_none(), "older peers know no resultType");
        assert_eq!(bench.ask(call(3, "echo", json!({}))).await["result"]["isError"], false);
        assert_eq!(bench.ask(ping()).await["result"], json!({}));
    }
}

// covers: C13
#[tokio::test(start_paused = true)]
async fn a_stateless_caller_is_served_without_a_handshake() {
    let mut bench = Bench::new();
    let discovered = bench.ask(stateless("server/discover", json!({}))).await;
    let versions = &discovered["result"]["supportedVersions"];
    assert_eq!(*versions, json!(["2025-06-18", "2025-11-25", "2026-07-28"]), "{discovered}");
    let listed = bench.ask(stateless("tools/list", json!({}))).await;
    for answer in [&discovered, &listed] {
        assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
        assert!(answer["result"]["ttlMs"].is_u64() && answer["result"]["cacheScope"].is_string(), "{answer}");
    }
    let called = bench.ask(stateless("tools/call", json!({ "name": "echo" }))).await;
    assert_eq!(called["result"]["resultType"], "complete");
    let failed = bench.ask(stateless("tools/call", json!({ "name": "broken" }))).await;
    assert_eq!(failed["result"]["resultType"], "complete", "also where the gateway answers for the tool");
    assert_eq!(bench.ask(stateless("ping", json!({}))).await["error"]["code"], -32601);
}

#[tokio::test(start_paused = true)]
async fn the_current_revision_is_strict_about_its_metadata() {
    let mut bench = Bench::new();
    let version = |text: &str| ("io.modelcontextprotocol/protocolVersion", json!(text));
    let (key, value) = version("2031-01-01");
    let answer = bench.ask(with_meta(stateless("tools/list", json!({})), key, value)).await;
    assert_eq!(answer["error"]["code"], -32022);
    assert_eq!(answer["error"]["data"]["supported"], json!(["2025-06-18", "2025-11-25", "2026-07-28"]));
    let (key, value) = version("2026-07-28");
    assert_eq!(bench.ask(with_meta(list(json!({})), key, value)).await["error"]["code"], -32602);
    let without = json!({ "jsonrpc": "2.0", "id": 1, "method": "server/discover" });
    assert_eq!(bench.ask(without).await["error"]["code"], -32602);
}

#[tokio::test(start_paused = true)]
async fn a_plain_client_is_served_without_anything() {
    let mut bench = Bench::new();
    let called = bench.ask(call(1, "echo", json!({}))).await;
    assert_eq!(called["result"]["isError"], false);
    assert!(called["result"].get("resultType").is_none());
    let bare = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    assert_eq!(bench.ask(bare).await["result"]["tools"].as_array().map(Vec::len), Some(5));
    assert_eq!(bench.ask(ping()).await["result"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn the_three_ways_do_not_disturb_each_other() {
    let mut bench = Bench::new();
    bench.ask(stateless("tools/list", json!({}))).await;
    assert!(bench.ask(call(1, "echo", json!({}))).await.get("result").is_some());
    bench.ask(initialize("2025-06-18")).await;
    assert_eq!(bench.ask(stateless("tools/list", json!({}))).await["result"]["resultType"], "complete");
    assert!(bench.ask(list(json!({}))).await["result"].get("resultType").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_second_handshake_begins_anew_and_loses_no_running_call() {
    let mut bench = Bench::new();
    bench.ask(initialize("2025-06-18")).await;
    bench.ask(call(1, "echo", json!({}))).await;
    bench.send(request_of("agent-1", &call(2, "slow", json!({ "ms": 1000 })))).await;
    assert_eq!(bench.ask(initialize("2025-11-25")).await["result"]["protocolVersion"], "2025-11-25");
    bench.ask(call(1, "echo", json!({}))).await;
    assert_eq!(bench.tools.runs(), 3, "ids count from the start, so the old answer is not given again");
    assert_eq!(json_of(&bench.answer().await)["id"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_notification_first_closes_nothing() {
    let mut bench = Bench::new();
    bench.send(request_of("agent-1", &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))).await;
    assert!(bench.ask(initialize("2025-06-18")).await.get("result").is_some());
}

#[tokio::test(start_paused = true)]
async fn more_callers_than_are_remembered_are_all_served() {
    let mut bench = Bench::new();
    for round in 0..2 {
        for caller in 0..100 {
            let name = format!("agent-{caller}");
            bench.send(request_of(&name, &initialize("2025-06-18"))).await;
            assert!(json_of(&bench.answer().await).get("result").is_some());
            bench.send(request_of(&name, &call(round, "echo", json!({})))).await;
            assert_eq!(json_of(&bench.answer().await)["result"]["isError"], false);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_can_be_limited_to_a_toolset() {
    let mut bench = Bench::new();
    let count = |answer: &Value| answer["result"]["tools"].as_array().map(Vec::len);
    assert_eq!(count(&bench.ask(list(json!({ "toolset": "good" }))).await), Some(1));
    assert_eq!(count(&bench.ask(list(json!({ "_meta": { "fieldgate/toolset": "good" } }))).await), Some(1));
    assert_eq!(count(&bench.ask(list(json!({ "toolset": null }))).await), Some(5));
    let unknown = bench.ask(list(json!({ "toolset": "bad" }))).await;
    assert_eq!(unknown["error"]["code"], -32602);
    assert!(unknown["error"]["message"].as_str().expect("text").contains("good"), "{unknown}");
    assert_eq!(bench.ask(list(json!({ "toolset": 7 }))).await["error"]["code"], -32602);
    assert_eq!(bench.ask(list(json!({ "cursor": "x" }))).await["error"]["code"], -32602);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_tool_is_named_beside_those_that_exist() {
    let mut bench = Bench::new();
    let answer = bench.ask(call(1, "ecko", json!({}))).await;
    assert_eq!(answer["error"]["code"], -32602);
    let expected = "there is no tool \"ecko\"; there are echo, slow, offline, stuck, broken";
    assert_eq!(answer["error"]["message"], expected);
    assert_eq!(answer["error"]["data"]["suggestions"][0], "echo");
}
