//! Tools that misbehave on request, and a dispatcher around them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::model::{ErrorData, Tool};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::clock;
use crate::config::CallsConfig;
use crate::gate::bus::{Ack, Bus, Incoming, Outgoing};
use crate::gate::dispatch::Dispatcher;
use crate::gate::router::Tools;
use crate::gate::topics::Topics;
use crate::tools::answer::{ErrorCode, ToolError};
use crate::tools::{Answer, Call};

/// `echo` returns its arguments, `slow` sleeps `ms` first, `offline` fails, `stuck` never ends, `broken` panics.
#[derive(Debug, Default)]
pub struct FakeTools {
    runs: AtomicUsize,
}

const NAMES: [&str; 5] = ["echo", "slow", "offline", "stuck", "broken"];

impl FakeTools {
    /// How many tools have been started.
    pub fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

impl Tools for FakeTools {
    fn list(&self, toolset: Option<&str>) -> Result<Vec<Tool>, ErrorData> {
        let schema = Map::from_iter([("type".to_owned(), json!("object"))]);
        let tool = |name: &'static str| Tool::new(name, "A tool for tests.", schema.clone());
        match toolset {
            None => Ok(NAMES.into_iter().map(tool).collect()),
            Some("good") => Ok(vec![tool("echo")]),
            Some(_) => Err(ErrorData::invalid_params("there is no such toolset; there is good", None)),
        }
    }

    async fn call(&self, tool: &str, arguments: Value, call: &Call) -> Option<Answer> {
        if !NAMES.contains(&tool) {
            return None;
        }
        self.runs.fetch_add(1, Ordering::SeqCst);
        let number = |name: &str| arguments.get(name).and_then(Value::as_u64).unwrap_or(0);
        let answer = match tool {
            "echo" => Ok(json!({ "echo": arguments, "client": call.client })),
            "slow" => {
                tokio::time::sleep(Duration::from_millis(number("ms"))).await;
                Ok(json!({ "slept_ms": number("ms") }))
            }
            "offline" => {
                let mut error = ToolError::new(ErrorCode::SensorOffline, "It is silent.", "Wait.");
                error.retry_after_ms = Some(8000);
                Err(error)
            }
            "stuck" => std::future::pending().await,
            _ => panic!("this tool is broken on purpose"),
        };
        Some(answer.map(|value| value.as_object().cloned().unwrap_or_default()))
    }
}

/// A dispatcher at work.
pub struct Bench {
    pub tools: Arc<FakeTools>,
    pub requests: mpsc::Sender<Incoming>,
    pub published: mpsc::Receiver<Outgoing>,
    running: JoinHandle<()>,
}

impl Bench {
    pub fn new() -> Bench {
        Bench::with(8)
    }

    pub fn with(max_in_flight: usize) -> Bench {
        let calls = CallsConfig {
            default_deadline: Duration::from_secs(10),
            max_deadline: Duration::from_secs(60),
            max_in_flight,
        };
        let topics = Topics::new(&"gw".parse().expect("a name"));
        let (bus, published) = Bus::recording();
        let (requests, incoming) = mpsc::channel(16);
        let tools = Arc::new(FakeTools::default());
        let running = tokio::spawn(Dispatcher::new(tools.clone(), bus, topics, calls).run(incoming));
        Bench { tools, requests, published, running }
    }

    pub async fn send(&self, message: Incoming) {
        self.requests.send(message).await.expect("the dispatcher runs");
    }

    /// The next answer; copies of results are passed over.
    pub async fn answer(&mut self) -> Outgoing {
        loop {
            let message = self.published.recv().await.expect("the dispatcher runs");
            if message.topic.contains("/rpc/") {
                return message;
            }
        }
    }

    /// Sends a request as `agent-1`, and returns the answer's payload.
    pub async fn ask(&mut self, request: Value) -> Value {
        self.send(request_of("agent-1", &request)).await;
        json_of(&self.answer().await)
    }

    /// Ends the dispatcher, and returns all that it has published and nobody has read.
    pub async fn finish(self) -> Vec<Outgoing> {
        let Bench { requests, mut published, running, .. } = self;
        drop(requests);
        let mut all = Vec::new();
        while let Some(message) = published.recv().await {
            all.push(message);
        }
        running.await.expect("the dispatcher ends well");
        all
    }
}

/// A request as an MQTT 3.1.1 client sends it: a topic and a payload.
pub fn bare(topic: &str, payload: impl AsRef<[u8]>) -> Incoming {
    Incoming {
        topic: topic.to_owned(),
        payload: payload.as_ref().to_vec().into(),
        retained: false,
        response_topic: None,
        correlation_data: None,
        expiry: None,
        arrived: clock::now(),
        ack: Ack::none(),
    }
}

pub fn request_of(client: &str, request: &Value) -> Incoming {
    bare(&format!("fieldgate/v1/gw/rpc/{client}/request"), request.to_string())
}

pub fn call(id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": params })
}

/// The same request with a member of `_meta` more.
pub fn with_meta(mut request: Value, key: &str, value: Value) -> Value {
    request["params"]["_meta"][key] = value;
    request
}

pub fn json_of(message: &Outgoing) -> Value {
    serde_json::from_slice(&message.payload).expect("an answer is JSON")
}

/// The typed error in an answer.
pub fn error_of(answer: &Value) -> &str {
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    answer["result"]["structuredContent"]["error"].as_str().expect("an error has a name")
}
