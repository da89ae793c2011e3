//! `fieldgate tools`: the catalogue, in the form that a model's interface wants.

use super::{Exit, complain};
use crate::tools::dialect::Dialect;
use crate::tools::{self};

/// Print the tools and what they take.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldgate tools                       names and descriptions\n  \
    fieldgate tools --format openai       as the `tools` of an OpenAI request\n  \
    fieldgate tools --format anthropic --toolset sensors")]
pub struct ToolsArgs {
    /// The form of the JSON: mcp, openai or anthropic. Without it the list is for people.
    #[arg(long, value_name = "FORM", value_parser = ["mcp", "openai", "anthropic"])]
    format: Option<String>,
    /// Only the tools of this toolset.
    #[arg(long, value_name = "NAME")]
    toolset: Option<String>,
    /// The same as --format mcp.
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

/// Runs the command.
pub fn main(args: &ToolsArgs) -> Exit {
    let toolset = args.toolset.as_deref();
    let form = args.format.as_deref().or(args.json.then_some("mcp")).and_then(Dialect::from_name);
    let printed = match form {
        Some(dialect) => dialect.tools(toolset).map(|tools| println!("{tools:#}")),
        None => tools::list(toolset).map(|specs| specs.into_iter().for_each(print_for_people)),
    };
    match printed {
        Ok(()) => Exit::Done,
        Err(err) => {
            complain(err);
            Exit::Usage
        }
    }
}

fn print_for_people(spec: &tools::spec::ToolSpec) {
    println!("{}  ({})\n  {}", spec.name.as_str(), spec.toolset.as_str(), spec.summary);
    for param in spec.params {
        let need = if param.required { "required" } else { "optional" };
        println!("    {}: {}, {need}. {}", param.name, param.kind.words(), param.description);
    }
    println!();
}
