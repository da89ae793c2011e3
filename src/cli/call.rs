//! `fieldgate call`: a tool, as an agent calls it, over MQTT.

use std::time::Duration;

use serde_json::{Map, Value};

use super::connect::AgentArgs;
use super::{Exit, complain, runtime, text};
use crate::errors::chain;
use crate::gate::agent::AgentError;
use crate::gate::jsonrpc::code;
use crate::tools::ToolName;
use crate::tools::spec::ParamKind;

/// Call a tool as an agent does, over MQTT, and print its answer.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldgate call list_sensors\n  \
    fieldgate call get_sensor_reading sensor_id=A_LINE1_042 max_age_ms=0\n  \
    fieldgate call get_sensor_readings sensor_ids=A_LINE1_042,A_LINE1_043 --json\n  \
    fieldgate call get_sensor_reading --arguments '{\"sensor_id\": \"A_LINE1_042\"}' \\\n      \
    --broker mqtt://127.0.0.1:1883 --gateway gw-line1\n\n\
    `fieldgate tools` lists the tools and what they take.\n\
    Exit codes: 0 the tool answered, 1 it answered with an error or not at all, 2 the arguments were refused.")]
pub struct CallArgs {
    /// The tool.
    tool: String,
    /// Its arguments, each as key=value. A list is separated by commas.
    #[arg(value_name = "KEY=VALUE")]
    pairs: Vec<String>,
    /// All arguments as one JSON object; key=value pairs go before it.
    #[arg(long, value_name = "JSON")]
    arguments: Option<String>,
    /// How long an answer is waited for, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    deadline_ms: u64,
    /// Print the structured answer as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    agent: AgentArgs,
}

/// Runs the command.
pub fn main(args: &CallArgs) -> Exit {
    let arguments = match arguments(args) {
        Ok(arguments) => arguments,
        Err(text) => {
            complain(text);
            return Exit::Usage;
        }
    };
    runtime().block_on(call(args, arguments))
}

async fn call(args: &CallArgs, arguments: Value) -> Exit {
    let agent = match args.agent.connect().await {
        Ok(agent) => agent,
        Err(exit) => return exit,
    };
    let answer = agent.call_tool(&args.tool, arguments, Duration::from_millis(args.deadline_ms)).await;
    agent.close().await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(err) => {
            // Such as a tool that does not exist.
            let is_wrong_usage = matches!(err, AgentError::Rpc { code, .. } if code == i64::from(code::INVALID_PARAMS));
            let exit = complain(chain(&err));
            return if is_wrong_usage { Exit::Usage } else { exit };
        }
    };
    let structured = answer.get("structuredContent").unwrap_or(&answer);
    match args.json {
        true => println!("{structured}"),
        false => print!("{}", text::pretty(structured)),
    }
    match (answer.get("isError").and_then(Value::as_bool), structured.get("error").and_then(Value::as_str)) {
        (Some(true), Some("INVALID_ARGUMENT")) => Exit::Usage,
        (Some(true), _) => Exit::Failed,
        _ => Exit::Done,
    }
}

/// The arguments as one object. The gateway checks them; here they only get their JSON types.
fn arguments(args: &CallArgs) -> Result<Value, String> {
    let mut arguments = match &args.arguments {
        None => Map::new(),
        Some(text) => match serde_json::from_str(text) {
            Ok(Value::Object(members)) => members,
            Ok(_) => return Err("--arguments takes a JSON object: {\"sensor_id\": \"A_LINE1_042\"}".to_owned()),
            Err(err) => return Err(format!("--arguments is no JSON: {err}")),
        },
    };
    for pair in &args.pairs {
        let (name, text) = pair
            .split_once('=')
            .ok_or_else(|| format!("{pair:?}: arguments are key=value, as in sensor_id=A_LINE1_042"))?;
        if arguments.contains_key(name) {
            return Err(format!("{pair:?}: {name} is given twice"));
        }
        let kind = ToolName::from_name(&args.tool).and_then(|tool| tool.spec().param(name)).map(|param| param.kind);
        arguments.insert(name.to_owned(), typed(text, kind));
    }
    Ok(arguments.into())
}

/// A word of the command line in the type that the parameter has; what no tool knows is JSON if it can be, else a text.
fn typed(text: &str, kind: Option<ParamKind>) -> Value {
    match kind {
        Some(ParamKind::SensorIds { .. }) if !text.starts_with('[') => text.split(',').map(Value::from).collect(),
        Some(ParamKind::SensorIds { .. } | ParamKind::Integer { .. }) | None => {
            serde_json::from_str(text).unwrap_or_else(|_| text.into())
        }
        Some(_) => text.into(),
    }
}
