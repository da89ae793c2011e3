//! The catalogue of tools in the forms that agents read: MCP, OpenAI and Anthropic, and the short one on the broker.

use serde_json::{Value, json};

use super::spec::{ToolSpec, Toolset};
use super::{ToolName, UnknownToolset, digest, list};

/// A form of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The Model Context Protocol: `inputSchema`, `outputSchema`, annotations.
    Mcp,
    /// OpenAI's function calling: `parameters`.
    OpenAi,
    /// Anthropic's tool use: `input_schema`.
    Anthropic,
}

impl Dialect {
    /// All forms.
    pub const ALL: [Dialect; 3] = [Dialect::Mcp, Dialect::OpenAi, Dialect::Anthropic];

    /// The name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Dialect::Mcp => "mcp",
            Dialect::OpenAi => "openai",
            Dialect::Anthropic => "anthropic",
        }
    }

    /// The form of that name.
    pub fn from_name(name: &str) -> Option<Dialect> {
        Dialect::ALL.into_iter().find(|dialect| dialect.as_str() == name)
    }

    /// One tool in this form.
    pub fn tool(self, spec: &ToolSpec) -> Value {
        let name = spec.name.as_str();
        match self {
            Dialect::Mcp => json!({
                "name": name, "title": spec.title, "description": spec.description,
                "inputSchema": spec.input_schema(), "outputSchema": spec.output_schema(),
                "annotations": spec.annotations(), "_meta": {"fieldgate/toolset": spec.toolset.as_str()},
            }),
            Dialect::OpenAi => json!({
                "type": "function",
                "function": {"name": name, "description": spec.description, "parameters": spec.input_schema()},
            }),
            Dialect::Anthropic => {
                json!({"name": name, "description": spec.description, "input_schema": spec.input_schema()})
            }
        }
    }

    /// The tools of one toolset, or all of them, in this form: a list.
    pub fn tools(self, toolset: Option<&str>) -> Result<Value, UnknownToolset> {
        Ok(list(toolset)?.into_iter().map(|spec| self.tool(spec)).collect())
    }
}

/// What stands on the broker: names, one line each, toolsets, and a digest that changes with any word of the catalogue.
pub fn catalog_json() -> Value {
    let specs = ToolName::ALL.map(ToolName::spec);
    let tools = specs
        .map(|spec| json!({"name": spec.name.as_str(), "description": spec.summary, "toolset": spec.toolset.as_str()}));
    let toolsets = Toolset::ALL.map(|toolset| {
        let names = specs.iter().filter(|spec| spec.toolset == toolset).map(|spec| spec.name.as_str());
        json!({"name": toolset.as_str(), "tools": names.collect::<Vec<_>>()})
    });
    json!({"tools": tools, "toolsets": toolsets, "digest": catalog_digest()})
}

/// A digest of the whole catalogue in its MCP form: `fnv1a64:` and 16 hexadecimal digits.
pub fn catalog_digest() -> String {
    let all: Value = ToolName::ALL.into_iter().map(|tool| Dialect::Mcp.tool(tool.spec())).collect();
    format!("fnv1a64:{}", digest::of_json(&all).hex())
}
