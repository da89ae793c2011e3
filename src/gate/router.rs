//! MCP by `rmcp`, one conversation per caller.
//!
//! What a conversation remembers is little: which revision a caller agreed on in its handshake. A caller without one
//! speaks too, be it stateless (revision 2026-07-28, everything in `_meta`) or a plain MQTT client that sends a bare
//! `tools/call`. Each request is handed to rmcp's service in the task of its call, and its answer is the return value;
//! why not through rmcp's own loop stands in `docs/decisions.md`.
//!
//! Deliberately absent: topics, deadlines and duplicates, which are `dispatch`'s; the tools, which are behind [`Tools`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use futures::sink::Drain;
use futures::stream::Pending;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, CallToolResult, ClientJsonRpcMessage, ClientRequest,
    CustomRequest, CustomResult, ErrorCode, ErrorData, GetExtensions, GetMeta, Implementation, InitializeRequestParams,
    InitializeResult, ListToolsResult, NumberOrString, PaginatedRequestParams, ProtocolVersion, RequestMetaObject,
    ServerCapabilities, ServerConfig, ServerJsonRpcMessage, ServerResult, Tool,
};
use rmcp::service::{RequestContext, RunningService, Service, serve_directly};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Map, Value, json};

use super::jsonrpc::Request;
use crate::clock;
use crate::ids::ClientId;
use crate::registry::search;
use crate::tools::dialect::Dialect;
use crate::tools::{Answer, Call, Toolbox};

/// How many handshakes are remembered. When one more caller shakes hands, the one that was silent longest is forgotten;
/// it is then served like a caller without a handshake, which changes nothing that it would notice.
const MAX_CONVERSATIONS: usize = 64;

/// The revisions that are promised, and tested.
const REVISIONS: &[ProtocolVersion] =
    &[ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28];

const INSTRUCTIONS: &str = "Live values of a plant, read from its PLCs and sensors. Find sensors with list_sensors, then \
    read them with get_sensor_reading or get_sensor_readings. A result is a fresh value with the time at which the device \
    answered; whatever else happened is an error with a code, a hint, and whether and when a repeat can help. Never use an \
    older value, a guess or a zero in place of an error: report the error, or call again after retry_after_ms.";

/// The tools as the router sees them.
pub trait Tools: Send + Sync + 'static {
    /// The tools of one toolset, or all of them.
    fn list(&self, toolset: Option<&str>) -> Result<Vec<Tool>, ErrorData>;

    /// Runs a tool; `None` when there is no such tool. The arguments are as the caller sent them: an object, a string that
    /// should hold one, or something that the tool refuses.
    fn call(&self, tool: &str, arguments: Value, call: &Call) -> impl Future<Output = Option<Answer>> + Send;
}

impl Tools for Toolbox {
    fn list(&self, toolset: Option<&str>) -> Result<Vec<Tool>, ErrorData> {
        let specs = Toolbox::list(self, toolset).map_err(|err| {
            let data = json!({ "known": err.known, "suggestions": err.suggestions });
            ErrorData::invalid_params(err.to_string(), Some(data))
        })?;
        let tools = specs.into_iter().map(|spec| serde_json::from_value(Dialect::Mcp.tool(spec))).collect();
        Result::map_err(tools, |err| ErrorData::internal_error(format!("a tool cannot be described: {err}"), None))
    }

    async fn call(&self, tool: &str, arguments: Value, call: &Call) -> Option<Answer> {
        Toolbox::call(self, tool, arguments, call).await
    }
}

/// Answers requests of all callers.
#[derive(Debug)]
pub struct Router<T: Tools> {
    /// For everyone who has not shaken hands.
    plain: Arc<Conversation<T>>,
    tools: Arc<T>,
    conversations: Mutex<HashMap<ClientId, Remembered<T>>>,
}

/// A service of rmcp. Its loop hears nothing and says nothing, because requests are handed to the service directly and
/// nothing is sent to a caller unasked yet.
type Conversation<T> = RunningService<RoleServer, Server<T>>;

#[derive(Debug)]
struct Remembered<T: Tools> {
    conversation: Arc<Conversation<T>>,
    used: Instant,
}

impl<T: Tools> Router<T> {
    /// A router for these tools. It must be built inside a runtime, where rmcp starts its task.
    pub fn new(tools: Arc<T>) -> Router<T> {
        Router { plain: Arc::new(converse(&tools)), tools, conversations: Mutex::default() }
    }

    /// Answers one request, within the caller's conversation.
    pub async fn serve(&self, request: Request, call: Call) -> Result<ServerResult, ErrorData> {
        if request.method != "initialize" {
            return handle(&*self.conversation_of(&call.client), request, call).await;
        }
        let client = call.client.clone();
        let conversation = Arc::new(converse(&self.tools));
        let result = handle(&*conversation, request, call).await?;
        self.remember(client, conversation);
        Ok(result)
    }

    /// The caller's own conversation after a handshake, and everyone's without one.
    fn conversation_of(&self, client: &ClientId) -> Arc<Conversation<T>> {
        match self.conversations().get_mut(client) {
            Some(remembered) => {
                remembered.used = clock::instant();
                remembered.conversation.clone()
            }
            None => self.plain.clone(),
        }
    }

    /// Replaces a caller's conversation. Calls of the old one that still run hold it until they end.
    fn remember(&self, client: ClientId, conversation: Arc<Conversation<T>>) {
        let mut conversations = self.conversations();
        conversations.insert(client, Remembered { conversation, used: clock::instant() });
        if conversations.len() > MAX_CONVERSATIONS
            && let Some(silent) = conversations.iter().min_by_key(|(_, known)| known.used).map(|(id, _)| id.clone())
        {
            conversations.remove(&silent);
        }
    }

    fn conversations(&self) -> MutexGuard<'_, HashMap<ClientId, Remembered<T>>> {
        self.conversations.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn converse<T: Tools>(tools: &Arc<T>) -> Conversation<T> {
    let silence: (Drain<ServerJsonRpcMessage>, Pending<ClientJsonRpcMessage>) =
        (futures::sink::drain(), futures::stream::pending());
    serve_directly(Server { tools: tools.clone() }, silence, None)
}

async fn handle<T: Tools>(
    conversation: &Conversation<T>,
    request: Request,
    call: Call,
) -> Result<ServerResult, ErrorData> {
    let mut request = into_rmcp(request, call)?;
    // The id stays with the dispatcher, which writes the answer; rmcp's has room for integers only.
    let mut context = RequestContext::new(NumberOrString::Number(0), conversation.peer().clone());
    context.meta = std::mem::take(request.get_meta_mut());
    context.extensions = std::mem::take(request.extensions_mut());
    conversation.service().handle_request(request, context).await
}

/// What the handler gets beside rmcp's own types, because those have no place for it.
#[derive(Clone, Debug)]
struct Job {
    /// The arguments of a tool; rmcp would refuse a string here.
    arguments: Value,
    /// The toolset of a list; rmcp would drop it.
    toolset: Option<String>,
    call: Call,
}

fn into_rmcp(request: Request, call: Call) -> Result<ClientRequest, ErrorData> {
    let Request { method, mut params, .. } = request;
    let mut job = Job { arguments: Value::Null, toolset: None, call };
    let mut request = match method.as_str() {
        "tools/call" => {
            let (name, meta) = (params.remove("name"), params.remove("_meta"));
            let Some(Value::String(name)) = name else {
                return Err(ErrorData::invalid_params("`params.name` must be the name of a tool", None));
            };
            job.arguments = match params.remove("arguments") {
                None | Some(Value::Null) => Value::Object(Map::new()),
                Some(arguments) => arguments,
            };
            let mut request = CallToolRequest::new(CallToolRequestParams::new(name));
            if let Some(Value::Object(meta)) = meta {
                request.extensions.insert(RequestMetaObject::from(meta));
            }
            ClientRequest::CallToolRequest(request)
        }
        _ => {
            job.toolset = toolset(&params)?;
            let message = Value::Object(Map::from_iter([
                ("method".to_owned(), method.into()),
                ("params".to_owned(), params.into()),
            ]));
            serde_json::from_value(message).map_err(|err| ErrorData::invalid_params(err.to_string(), None))?
        }
    };
    request.extensions_mut().insert(job);
    Ok(request)
}

/// The toolset that a list is limited to: a parameter, or a member of `_meta` for clients whose parameters are closed.
fn toolset(params: &Map<String, Value>) -> Result<Option<String>, ErrorData> {
    let in_meta = || params.get("_meta").and_then(|meta| meta.get("fieldgate/toolset"));
    match params.get("toolset").or_else(in_meta) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(name)) => Ok(Some(name.clone())),
        Some(_) => Err(ErrorData::invalid_params("`toolset` must be the name of a toolset", None)),
    }
}

/// rmcp's handler of one conversation.
#[derive(Debug)]
struct Server<T> {
    tools: Arc<T>,
}

impl<T: Tools> Server<T> {
    fn no_such_tool(&self, name: &str) -> ErrorData {
        let known = self.tools.list(None).unwrap_or_default();
        let names: Vec<&str> = known.iter().map(|tool| tool.name.as_ref()).collect();
        let nearest = search::nearest(name, names.iter().copied(), 3);
        let message = format!("there is no tool {name:?}; there are {}", names.join(", "));
        ErrorData::invalid_params(message, Some(json!({ "known": names, "suggestions": nearest })))
    }
}

impl<T: Tools> ServerHandler for Server<T> {
    fn get_info(&self) -> ServerConfig {
        let server = Implementation::new("fieldgate", env!("CARGO_PKG_VERSION"));
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities).with_server_info(server).with_instructions(INSTRUCTIONS)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(REVISIONS)
    }

    /// Agrees on a revision, and remembers the one agreed on; rmcp would remember the one asked for.
    async fn initialize(
        &self,
        mut request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let result = self.negotiate_initialize(&request)?;
        request.protocol_version = result.protocol_version.clone();
        context.peer.set_peer_info(request);
        Ok(result)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        if request.is_some_and(|request| request.cursor.is_some()) {
            return Err(ErrorData::invalid_params("there is no such page: the list has only one", None));
        }
        let toolset = context.extensions.get::<Job>().and_then(|job| job.toolset.as_deref());
        Ok(ListToolsResult::with_all_items(self.tools.list(toolset)?))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(job) = context.extensions.remove::<Job>() else {
            return Err(ErrorData::internal_error("the call lost its arguments on its way", None));
        };
        match self.tools.call(&request.name, job.arguments, &job.call).await {
            Some(Ok(result)) => Ok(CallToolResult::structured(result.into()).into()),
            Some(Err(error)) => Ok(CallToolResult::structured_error(error.to_json().into()).into()),
            None => Err(self.no_such_tool(&request.name)),
        }
    }

    /// What rmcp could not read: an unknown method, or a known one with parameters that do not fit it.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        if matches!(method.as_str(), "initialize" | "ping" | "server/discover" | "tools/list") {
            return Err(ErrorData::invalid_params(format!("the parameters do not fit {method}"), None));
        }
        let message = format!("there is no method {method:?}; there are tools/list, tools/call and server/discover");
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
    }
}

#[cfg(test)]
mod tests;
