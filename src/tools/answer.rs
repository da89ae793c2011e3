//! Typed errors as agents see them (contract, section 5).

use std::time::Duration;

use serde_json::{Map, Value};

/// The closed list of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// Schema, sense or reference; carries `faults`.
    InvalidArgument,
    /// The sensor's device cannot be read now.
    SensorOffline,
    /// There is a value, but an older one than allowed.
    StaleData,
    /// Part of what was asked for is missing.
    IncompleteData,
    /// The device says that it is busy.
    DeviceBusy,
    /// The breaker is open.
    CircuitOpen,
    /// Too many calls.
    RateLimited,
    /// Nothing was changed, and time ran out.
    DeadlineExceeded,
    /// The device says that the register does not exist, or may not be read so.
    Misconfigured,
    /// The caller may not.
    AccessDenied,
    /// The answer would exceed its limit.
    ResultTooLarge,
    /// A fault of the gateway.
    Internal,
}

/// Whether a repeat can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// It may pass by itself.
    Transient,
    /// The same call will fail again.
    Permanent,
    /// Nobody can tell.
    Unknown,
}

impl ErrorCode {
    /// The whole list.
    pub const ALL: [ErrorCode; 12] = [
        ErrorCode::InvalidArgument,
        ErrorCode::SensorOffline,
        ErrorCode::StaleData,
        ErrorCode::IncompleteData,
        ErrorCode::DeviceBusy,
        ErrorCode::CircuitOpen,
        ErrorCode::RateLimited,
        ErrorCode::DeadlineExceeded,
        ErrorCode::Misconfigured,
        ErrorCode::AccessDenied,
        ErrorCode::ResultTooLarge,
        ErrorCode::Internal,
    ];

    /// Its name in the contract.
    pub fn name(self) -> &'static str {
        match self {
            ErrorCode::InvalidArgument => "INVALID_ARGUMENT",
            ErrorCode::SensorOffline => "SENSOR_OFFLINE",
            ErrorCode::StaleData => "STALE_DATA",
            ErrorCode::IncompleteData => "INCOMPLETE_DATA",
            ErrorCode::DeviceBusy => "DEVICE_BUSY",
            ErrorCode::CircuitOpen => "CIRCUIT_OPEN",
            ErrorCode::RateLimited => "RATE_LIMITED",
            ErrorCode::DeadlineExceeded => "DEADLINE_EXCEEDED",
            ErrorCode::Misconfigured => "MISCONFIGURED",
            ErrorCode::AccessDenied => "ACCESS_DENIED",
            ErrorCode::ResultTooLarge => "RESULT_TOO_LARGE",
            ErrorCode::Internal => "INTERNAL",
        }
    }

    /// Its class in the contract.
    pub fn class(self) -> ErrorClass {
        match self {
            ErrorCode::SensorOffline
            | ErrorCode::StaleData
            | ErrorCode::IncompleteData
            | ErrorCode::DeviceBusy
            | ErrorCode::CircuitOpen
            | ErrorCode::RateLimited
            | ErrorCode::DeadlineExceeded => ErrorClass::Transient,
            ErrorCode::InvalidArgument
            | ErrorCode::Misconfigured
            | ErrorCode::AccessDenied
            | ErrorCode::ResultTooLarge => ErrorClass::Permanent,
            ErrorCode::Internal => ErrorClass::Unknown,
        }
    }
}

impl ErrorClass {
    /// Its name in the contract.
    pub fn name(self) -> &'static str {
        match self {
            ErrorClass::Transient => "transient",
            ErrorClass::Permanent => "permanent",
            ErrorClass::Unknown => "unknown",
        }
    }
}

/// What a tool answers when it could not do what was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolError {
    /// Which error.
    pub code: ErrorCode,
    /// What happened, for people and agents.
    pub message: String,
    /// What to do next.
    pub hint: String,
    /// When a repeat can help, in milliseconds from now.
    pub retry_after_ms: Option<u64>,
    /// Further members, as the contract has them for this error.
    pub details: Map<String, Value>,
}

impl ToolError {
    /// An error without further members.
    pub fn new(code: ErrorCode, message: impl Into<String>, hint: impl Into<String>) -> ToolError {
        ToolError { code, message: message.into(), hint: hint.into(), retry_after_ms: None, details: Map::new() }
    }

    /// The error with one more member.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> ToolError {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// The error with the time after which a repeat can help.
    ///
    /// At least a millisecond, because "at once" would invite the very loop that the time is there to prevent.
    pub fn retry_after(mut self, wait: Duration) -> ToolError {
        self.retry_after_ms = Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1));
        self
    }

    /// The error as the contract has it.
    pub fn to_json(&self) -> Map<String, Value> {
        let class = self.code.class();
        let mut object = Map::new();
        object.insert("error".into(), self.code.name().into());
        object.insert("class".into(), class.name().into());
        object.insert("message".into(), self.message.as_str().into());
        object.insert("hint".into(), self.hint.as_str().into());
        object.insert("retryable".into(), (class == ErrorClass::Transient).into());
        object.insert("retry_after_ms".into(), self.retry_after_ms.into());
        object.extend(self.details.clone());
        object
    }
}
