//! rmcp's own client over a bus in memory: with the handshake, and stateless.

use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::bench::*;
use crate::gate::bus::{Incoming, Outgoing};

/// The page of code that carries MCP over MQTT at the client's end.
struct OverTheBus {
    requests: mpsc::Sender<Incoming>,
    published: mpsc::Receiver<Outgoing>,
}

impl Transport<RoleClient> for OverTheBus {
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let requests = self.requests.clone();
        async move {
            let message = serde_json::to_value(message)?;
            requests.send(request_of("agent-1", &message)).await.map_err(std::io::Error::other)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.published.recv().await?;
            if message.topic.contains("/rpc/") {
                return Some(serde_json::from_slice(&message.payload).expect("an answer that the client can read"));
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

// covers: C13
#[tokio::test(start_paused = true)]
async fn a_standard_client_finds_and_calls_tools_in_each_of_its_ways() {
    let stateless = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    for way in [ClientLifecycleMode::Initialize, stateless] {
        let Bench { requests, published, .. } = Bench::new();
        let client = ().serve_with_lifecycle(OverTheBus { requests, published }, way.clone()).await.expect("a server");
        assert_eq!(client.list_all_tools().await.expect("a list").len(), 5, "{way:?}");

        let arguments = json!({ "x": 1 }).as_object().cloned().unwrap_or_default();
        let echo = CallToolRequestParams::new("echo").with_arguments(arguments);
        let answer = client.call_tool(echo).await.expect("an answer");
        let content: Value = answer.structured_content.expect("a structured answer");
        assert_eq!(content, json!({ "echo": { "x": 1 }, "client": "agent-1" }), "{way:?}");

        let failed = client.call_tool(CallToolRequestParams::new("offline")).await.expect("an answer");
        assert_eq!(failed.is_error, Some(true), "{way:?}");
        assert!(client.call_tool(CallToolRequestParams::new("no_such_tool")).await.is_err(), "{way:?}");
    }
}
