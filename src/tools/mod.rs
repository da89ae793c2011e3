//! The tools that agents call (contract, section 6).
//!
//! [`ToolName`] is the closed list. Each tool has one file: its arguments, its text, and its `run`. What a tool takes stands
//! in one table ([`spec`]), from which both the published JSON Schema and the check of a call are derived, so that the two
//! cannot disagree. [`arguments`] finds all faults of a call at once; [`answer`] is what an agent sees when it went wrong.
//! Absent on purpose: deadlines, duplicates and the conversation, which belong to [`crate::gate`]. No tool here changes
//! anything in the plant.

pub mod answer;
pub mod arguments;
mod describe_sensor;
pub mod dialect;
pub mod digest;
mod get_gateway_status;
mod get_sensor_reading;
mod get_sensor_readings;
mod list_devices;
mod list_sensors;
mod live;
pub mod offline;
mod output;
mod page;
pub mod spec;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

use crate::board::Board;
use crate::config::Config;
use crate::facts::Facts;
use crate::field::handle::FieldHandle;
use crate::ids::ClientId;
use crate::registry::search;
use answer::ToolError;
use spec::{ToolSpec, Toolset};

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

/// The closed list of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ToolName {
    /// Which sensors there are.
    ListSensors,
    /// All that is known of one sensor.
    DescribeSensor,
    /// The live value of one sensor.
    GetSensorReading,
    /// The live values of several sensors.
    GetSensorReadings,
    /// Which devices there are, and whether they answer.
    ListDevices,
    /// How the gateway itself is.
    GetGatewayStatus,
}

impl ToolName {
    /// All tools, in the order in which they are listed.
    pub const ALL: [ToolName; 6] = [
        ToolName::ListSensors,
        ToolName::DescribeSensor,
        ToolName::GetSensorReading,
        ToolName::GetSensorReadings,
        ToolName::ListDevices,
        ToolName::GetGatewayStatus,
    ];

    /// The name in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            ToolName::ListSensors => "list_sensors",
            ToolName::DescribeSensor => "describe_sensor",
            ToolName::GetSensorReading => "get_sensor_reading",
            ToolName::GetSensorReadings => "get_sensor_readings",
            ToolName::ListDevices => "list_devices",
            ToolName::GetGatewayStatus => "get_gateway_status",
        }
    }

    /// The tool of that name.
    pub fn from_name(name: &str) -> Option<ToolName> {
        ToolName::ALL.into_iter().find(|tool| tool.as_str() == name)
    }

    /// The tools whose names are nearest to one that does not exist.
    pub fn nearest(name: &str) -> Vec<&'static str> {
        search::nearest(name, ToolName::ALL.map(ToolName::as_str), 3)
    }

    /// What the tool takes, says and gives.
    pub fn spec(self) -> &'static ToolSpec {
        match self {
            ToolName::ListSensors => &list_sensors::SPEC,
            ToolName::DescribeSensor => &describe_sensor::SPEC,
            ToolName::GetSensorReading => &get_sensor_reading::SPEC,
            ToolName::GetSensorReadings => &get_sensor_readings::SPEC,
            ToolName::ListDevices => &list_devices::SPEC,
            ToolName::GetGatewayStatus => &get_gateway_status::SPEC,
        }
    }
}

/// There is no such toolset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no toolset {received:?}; there are {}", known.join(", "))]
pub struct UnknownToolset {
    /// What was asked for, cut to a length that can be shown.
    pub received: String,
    /// All toolsets.
    pub known: Vec<&'static str>,
    /// The nearest of them.
    pub suggestions: Vec<&'static str>,
}

/// The tools of one toolset, or all of them.
pub fn list(toolset: Option<&str>) -> Result<Vec<&'static ToolSpec>, UnknownToolset> {
    let wanted = toolset.map(find_toolset).transpose()?;
    let all = ToolName::ALL.into_iter().map(ToolName::spec);
    Ok(all.filter(|spec| wanted.is_none_or(|toolset| spec.toolset == toolset)).collect())
}

fn find_toolset(name: &str) -> Result<Toolset, UnknownToolset> {
    let known = Toolset::ALL.map(Toolset::as_str);
    Toolset::ALL.into_iter().find(|toolset| toolset.as_str() == name).ok_or_else(|| UnknownToolset {
        received: arguments::cut(name),
        known: known.to_vec(),
        suggestions: search::nearest(name, known, 1),
    })
}

impl Toolbox {
    /// The tools of one toolset, or all of them.
    pub fn list(&self, toolset: Option<&str>) -> Result<Vec<&'static ToolSpec>, UnknownToolset> {
        list(toolset)
    }

    /// Runs a tool; `None` when there is no such tool. Arguments may be an object, or a string that holds one.
    pub async fn call(&self, tool: &str, arguments: serde_json::Value, call: &Call) -> Option<Answer> {
        let tool = ToolName::from_name(tool)?;
        Some(self.run(tool, arguments, call).await)
    }

    async fn run(&self, tool: ToolName, given: serde_json::Value, call: &Call) -> Answer {
        let arguments = arguments::check(tool.spec(), given, &self.config.registry)?;
        match tool {
            ToolName::ListSensors => list_sensors::run(self, &arguments),
            ToolName::DescribeSensor => describe_sensor::run(self, &arguments),
            ToolName::GetSensorReading => get_sensor_reading::run(self, &arguments, call).await,
            ToolName::GetSensorReadings => get_sensor_readings::run(self, &arguments, call).await,
            ToolName::ListDevices => list_devices::run(self, &arguments),
            ToolName::GetGatewayStatus => Ok(get_gateway_status::run(self)),
        }
    }
}

/// A checked call lacks what its check demands; a fault of the gateway, and no panic.
fn unchecked(tool: ToolName) -> ToolError {
    let message = format!("{}: the checked arguments lack what the check demands.", tool.as_str());
    ToolError::new(answer::ErrorCode::Internal, message, "This is a fault of the gateway; report it.")
}
