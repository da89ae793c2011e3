//! `fieldgate mcp`: a gateway's tools for any MCP client that starts its servers as programs (stdio).
//!
//! It passes messages on and changes none: what a client asks is what the gateway sees, and the other way round.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::connect::AgentArgs;
use super::{Exit, runtime};
use crate::errors::chain;
use crate::gate::agent::{AgentClient, AgentError};

/// Offer a gateway's tools to an MCP client over standard input and output.
///
/// The client starts this command as its server; each message goes to the gateway over MQTT, and each answer comes back.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example, in the configuration of an MCP client:\n  \
    {\"mcpServers\": {\"plant\": {\"command\": \"fieldgate\",\n    \
    \"args\": [\"mcp\", \"--broker\", \"mqtt://10.0.0.2:1883\", \"--gateway\", \"gw-line1\", \"--client\", \"agent-1\"]}}}\n\n\
    With the MCP Inspector:\n  \
    npx @modelcontextprotocol/inspector fieldgate mcp --broker mqtt://127.0.0.1:1883 --gateway demo")]
pub struct McpArgs {
    /// How long the gateway has for each answer, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 30_000)]
    deadline_ms: u64,
    #[command(flatten)]
    agent: AgentArgs,
}

/// Runs the command, until the client closes our input.
pub fn main(args: &McpArgs) -> Exit {
    runtime().block_on(bridge(args))
}

async fn bridge(args: &McpArgs) -> Exit {
    let bridge = match args.agent.connect().await {
        Ok(agent) => Arc::new(Bridge { agent: Mutex::new(Some(Arc::new(agent))), args: args.clone() }),
        Err(exit) => return exit,
    };
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut calls = JoinSet::new();
    while let Ok(Some(line)) = lines.next_line().await {
        while calls.try_join_next().is_some() {}
        if !line.trim().is_empty() {
            let bridge = Arc::clone(&bridge);
            calls.spawn(async move { bridge.pass_on(&line).await });
        }
    }
    while calls.join_next().await.is_some() {}
    Exit::Done
}

struct Bridge {
    /// `None` after the connection was lost; the next message makes a new one.
    agent: Mutex<Option<Arc<AgentClient>>>,
    args: McpArgs,
}

impl Bridge {
    async fn pass_on(&self, line: &str) {
        let message: Value = match serde_json::from_str(line) {
            Ok(message) => message,
            Err(err) => return print(&rpc_error(&Value::Null, -32700, &format!("the message is no JSON: {err}"))),
        };
        let id = message.get("id").cloned();
        if let Some(answer) = self.ask(&message, id.as_ref()).await {
            print(&answer);
        }
    }

    async fn ask(&self, message: &Value, id: Option<&Value>) -> Option<Value> {
        let Some(agent) = self.connected().await else {
            return id.map(|id| rpc_error(id, -32000, "the broker cannot be reached; call again later"));
        };
        let outcome = match id {
            None if !message.is_array() => agent.tell(message).await.map(|()| None),
            _ => agent.exchange(message, Duration::from_millis(self.args.deadline_ms)).await.map(Some),
        };
        match outcome {
            Ok(answer) => answer,
            Err(err) => {
                if matches!(err, AgentError::Lost { .. }) {
                    self.agent.lock().await.take();
                }
                id.map(|id| rpc_error(id, -32000, &chain(&err)))
            }
        }
    }

    async fn connected(&self) -> Option<Arc<AgentClient>> {
        let mut agent = self.agent.lock().await;
        if agent.is_none() {
            *agent = self.args.agent.connect().await.ok().map(Arc::new);
        }
        agent.clone()
    }
}

fn rpc_error(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

fn print(message: &Value) {
    let mut stdout = std::io::stdout().lock();
    // A client that closed its end hears no more; our input ends next.
    let _ = writeln!(stdout, "{message}").and_then(|()| stdout.flush());
}
