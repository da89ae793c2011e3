//! The tools that agents call (contract, section 6).

pub mod answer;

use std::sync::Arc;
use std::time::Instant;

use crate::board::Board;
use crate::config::Config;
use crate::facts::Facts;
use crate::field::handle::FieldHandle;
use crate::ids::ClientId;
use answer::ToolError;

/// What the tools work with.
#[derive(Clone, Debug)]
pub struct Toolbox {
    /// The configuration, with the registry.
    pub config: Arc<Config>,
    /// The state of every sensor and device.
    pub board: Arc<Board>,
    /// How to ask for a fresh read.
    pub field: FieldHandle,
    /// What the gateway knows of itself.
    pub facts: Arc<Facts>,
}

/// Who calls, and until when an answer is of use.
#[derive(Clone, Debug)]
pub struct Call {
    /// The caller, known by its topic.
    pub client: ClientId,
    /// When the request arrived.
    pub arrived: Instant,
    /// When an answer is of no use any more.
    pub deadline: Instant,
}

/// The structured result of a tool, or a typed error.
pub type Answer = Result<serde_json::Map<String, serde_json::Value>, ToolError>;

impl Toolbox {
    /// Runs a tool; `None` when there is no such tool. Arguments may be an object, or a string that holds one.
    pub async fn call(&self, tool: &str, arguments: serde_json::Value, call: &Call) -> Option<Answer> {
        let _ = (tool, arguments, call);
        unimplemented!()
    }
}
