//! What a call came to, as the bytes that go out.
//!
//! A tool that could not do what was asked is a *result* with `isError` (contract, section 5), also where the gateway and not
//! the tool says so: too many calls, no time left, a fault of our own. Everything else that goes wrong is a JSON-RPC error.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use rmcp::model::{CallToolResult, ErrorCode as RpcCode, ErrorData, MetaObject, ProtocolVersion, ServerResult};
use serde_json::Value;

use super::jsonrpc::{self, Fault, Id, Request, code};
use crate::tools::answer::{ErrorCode, ToolError};

/// The longest trace context that is carried along; W3C's `traceparent` has 55 characters.
const MAX_TRACEPARENT: usize = 128;

/// What is kept of a request for its answer.
#[derive(Clone, Debug)]
pub struct Head {
    /// The caller's id.
    pub id: Id,
    /// The method.
    pub method: String,
    /// The tool, where the request calls one.
    pub tool: Option<String>,
    /// The caller's trace, to be carried through.
    pub traceparent: Option<String>,
    /// Whether the caller speaks a revision in which every result has a `resultType`.
    is_stateless: bool,
}

impl Head {
    /// The head of a request.
    pub fn of(request: &Request) -> Head {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let tool = match request.method.as_str() {
            "tools/call" => Some(request.params.get("name").and_then(text).unwrap_or_default()),
            _ => None,
        };
        let version = request.meta("io.modelcontextprotocol/protocolVersion").and_then(Value::as_str);
        Head {
            id: request.id.clone(),
            method: request.method.clone(),
            tool,
            traceparent: request.meta("traceparent").and_then(text).filter(|text| text.len() <= MAX_TRACEPARENT),
            // Revisions are dates, and compare as texts.
            is_stateless: version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28.as_str()),
        }
    }
}

/// One answer, ready to be published. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The JSON-RPC response.
    pub payload: Bytes,
    /// The name or the number of the error in it.
    pub error: Option<Cow<'static, str>>,
    /// The sensor that the error is about.
    pub sensor_id: Option<String>,
    /// The structured result of a tool that ran, by itself.
    pub copy: Option<Bytes>,
}

impl Reply {
    /// The answer to a request that MCP has answered.
    pub fn of(head: &Head, outcome: Result<ServerResult, ErrorData>, took: Duration) -> Reply {
        match outcome {
            Ok(ServerResult::CallToolResult(result)) => Reply::of_tool(head, result, took),
            Ok(result) => Reply { payload: result_bytes(&head.id, &result), error: None, sensor_id: None, copy: None },
            Err(error) => Reply::of_error(Some(&head.id), &error),
        }
    }

    /// The answer to what is no request.
    pub fn of_fault(fault: Fault) -> Reply {
        Reply::of_error(fault.id.as_ref(), &ErrorData::new(RpcCode(fault.code), fault.message, None))
    }

    /// The answer to a request that the gateway itself refused or gave up.
    pub fn refusal(head: &Head, error: &ToolError, took: Duration) -> Reply {
        let data = Value::from(error.to_json());
        if head.tool.is_some() {
            let mut result = CallToolResult::structured_error(data);
            if !head.is_stateless {
                result.result_type = None;
            }
            return Reply::of_tool(head, result, took);
        }
        let code = if error.code == ErrorCode::Internal { code::INTERNAL } else { code::REFUSED };
        let error_data = ErrorData::new(RpcCode(code), error.message.clone(), Some(data));
        Reply { error: Some(error.code.name().into()), ..Reply::of_error(Some(&head.id), &error_data) }
    }

    /// The same answer without the copy for the result topic: nothing ran for it.
    pub fn without_copy(self) -> Reply {
        Reply { copy: None, ..self }
    }

    fn of_tool(head: &Head, mut result: CallToolResult, took: Duration) -> Reply {
        let meta = result.meta.get_or_insert_with(MetaObject::new);
        meta.insert("fieldgate/duration_ms".into(), (took.as_millis() as u64).into());
        if let Some(traceparent) = &head.traceparent {
            meta.set_traceparent(traceparent.as_str());
        }
        let text = result.content.first().and_then(|content| content.as_text());
        let copy = text.map(|content| Bytes::copy_from_slice(content.text.as_bytes()));
        let of_error = |name| match (&result.is_error, &result.structured_content) {
            (Some(true), Some(content)) => content.get(name).and_then(Value::as_str).map(str::to_owned),
            _ => None,
        };
        let (error, sensor_id) = (of_error("error").map(Cow::Owned), of_error("sensor_id"));
        Reply { payload: result_bytes(&head.id, &result), error, sensor_id, copy }
    }

    fn of_error(id: Option<&Id>, error: &ErrorData) -> Reply {
        let payload = jsonrpc::write_error(id, error).unwrap_or_default().into();
        Reply { payload, error: Some(error.code.0.to_string().into()), sensor_id: None, copy: None }
    }
}

/// A result as JSON text. What cannot be written as JSON is a fault of ours, and is said to be one.
fn result_bytes(id: &Id, result: &impl serde::Serialize) -> Bytes {
    let written = jsonrpc::write_result(id, result).or_else(|err| {
        let error = ErrorData::internal_error(format!("the result could not be written: {err}"), None);
        jsonrpc::write_error(Some(id), &error)
    });
    written.unwrap_or_default().into()
}
