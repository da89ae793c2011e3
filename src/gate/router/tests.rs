//! The gateway's own tools, as MCP shows them.

use std::time::Duration;

use super::super::jsonrpc::{Message, parse};
use super::super::testing;
use super::*;
use crate::board::Board;
use crate::config::{BrokerConfig, BrokerEndpoint, CallsConfig, Config, PublishConfig};
use crate::facts::Facts;
use crate::field::handle::FieldHandle;

fn router() -> Router<Toolbox> {
    let registry = Arc::new(testing::registry());
    let config = Config {
        gateway: "gw".parse().expect("a name"),
        broker: BrokerConfig {
            endpoint: BrokerEndpoint::Embedded { listen: ([127, 0, 0, 1], 0).into() },
            username: None,
            password: None,
            ca_file: None,
            keep_alive: Duration::from_secs(30),
        },
        publish: PublishConfig {
            qos: 0,
            at_least_every: Duration::from_secs(60),
            status_every: Duration::from_secs(60),
            grouping: Default::default(),
        },
        calls: CallsConfig {
            default_deadline: Duration::from_secs(5),
            max_deadline: Duration::from_secs(60),
            max_in_flight: 8,
        },
        metrics: None,
        registry: registry.clone(),
    };
    Router::new(Arc::new(Toolbox {
        config: Arc::new(config),
        board: Arc::new(Board::new(registry.clone())),
        field: FieldHandle::new(registry, Vec::new()),
        facts: Arc::new(Facts::new()),
    }))
}

async fn ask(router: &Router<Toolbox>, method: &str, params: Value) -> Result<Value, ErrorData> {
    let text = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let Ok(Message::Request(request)) = parse(text.as_bytes()).entries.remove(0) else {
        panic!("{text} is no request")
    };
    let arrived = clock::instant();
    let call = Call { client: "agent-1".parse().expect("a name"), arrived, deadline: arrived + Duration::from_secs(5) };
    Ok(serde_json::to_value(router.serve(request, call).await?).expect("a result is JSON"))
}

// covers: A1
#[tokio::test(start_paused = true)]
async fn every_tool_is_listed_with_closed_arguments_a_result_and_hints() {
    let listed = ask(&router(), "tools/list", json!({})).await.expect("a list");
    let tools = listed["tools"].as_array().expect("an array");
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    let expected = [
        "list_sensors",
        "describe_sensor",
        "get_sensor_reading",
        "get_sensor_readings",
        "list_devices",
        "get_gateway_status",
    ];
    assert_eq!(names, expected);
    for tool in tools {
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{tool}");
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool}");
        assert!(tool["description"].is_string() && tool["title"].is_string(), "{tool}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_toolset_is_named_beside_those_that_exist() {
    let devices = ask(&router(), "tools/list", json!({ "toolset": "devices" })).await.expect("a list");
    assert_eq!(devices["tools"].as_array().map(Vec::len), Some(1));
    let error = ask(&router(), "tools/list", json!({ "toolset": "sensor" })).await.expect_err("no such toolset");
    assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
    assert_eq!(error.data.expect("data")["suggestions"], json!(["sensors"]));
}

#[tokio::test(start_paused = true)]
async fn a_tool_runs_with_arguments_in_a_string() {
    let called = ask(&router(), "tools/call", json!({ "name": "list_sensors", "arguments": "{\"limit\":1}" })).await;
    let result = called.expect("a result");
    assert_eq!(result["isError"], false, "{result}");
    assert_eq!(result["structuredContent"]["total"], 2);
    assert_eq!(result["structuredContent"]["returned"], 1);
}
