//! The tools in the form in which `rmcp` lists them.

use std::future::Future;

use rmcp::model::Tool;
use serde_json::Value;

use super::router::{Tools, UnknownToolset};
use crate::tools::dialect::Dialect;
use crate::tools::{Answer, Call, Toolbox};

impl Tools for Toolbox {
    fn list(&self, toolset: Option<&str>) -> Result<Vec<Tool>, UnknownToolset> {
        let specs = Toolbox::list(self, toolset)
            .map_err(|err| UnknownToolset { name: err.received, known: err.known.join(", ") })?;
        Ok(specs
            .into_iter()
            .map(|spec| serde_json::from_value(Dialect::Mcp.tool(spec)).expect("a test lists every tool through rmcp"))
            .collect())
    }

    fn call(&self, tool: &str, arguments: Value, call: &Call) -> impl Future<Output = Option<Answer>> + Send {
        Toolbox::call(self, tool, arguments, call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::ToolName;

    #[test]
    fn rmcp_loses_nothing_of_a_tool() {
        for tool in ToolName::ALL {
            let ours = Dialect::Mcp.tool(tool.spec());
            let theirs: Tool = serde_json::from_value(ours.clone()).expect("a tool that rmcp understands");
            assert_eq!(serde_json::to_value(theirs).expect("JSON"), ours);
        }
    }
}
