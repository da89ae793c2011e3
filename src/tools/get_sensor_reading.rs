//! `get_sensor_reading`: the live value of one sensor.

use super::answer::ErrorCode;
use super::arguments::Arguments;
use super::live::{Wish, millis};
use super::spec::{Literal, Param, ParamKind, ToolSpec, Toolset};
use super::{Answer, Call, ToolName, Toolbox, output};
use crate::clock;

/// The parameter that chooses between engineering and device numbers, for every tool that gives values.
pub(super) const UNIT: Param = Param {
    name: "unit",
    kind: ParamKind::Enum(&["normalized", "raw"]),
    required: false,
    description: "Whether the value is scaled to the sensor's engineering unit (\"normalized\"), or the number as the \
                  device has it, before scaling (\"raw\").",
    example: Literal::Text("normalized"),
    default: Some(Literal::Text("normalized")),
    left_out: "\"normalized\".",
};

/// The parameter that asks for younger values than the registry does, for every tool that gives values.
pub(super) const MAX_AGE: Param = Param {
    name: "max_age_ms",
    kind: ParamKind::Integer { min: 0, max: 3_600_000 },
    required: false,
    description: "The oldest value that will do, in milliseconds. 0 has the device read again for this call. It can only \
                  shorten the sensor's own max_age, never lengthen it.",
    example: Literal::Integer(1000),
    default: None,
    left_out: "the sensor's own max_age (describe_sensor shows it).",
};

/// The errors of every tool that gives values.
pub(super) const READ_ERRORS: &[ErrorCode] = &[
    ErrorCode::SensorOffline,
    ErrorCode::StaleData,
    ErrorCode::DeviceBusy,
    ErrorCode::Misconfigured,
    ErrorCode::RateLimited,
    ErrorCode::DeadlineExceeded,
    ErrorCode::Internal,
];

pub(super) const SPEC: ToolSpec = ToolSpec {
    name: ToolName::GetSensorReading,
    title: "Get the live value of one sensor",
    summary: "Reads the live value of one sensor, with unit, time, quality and age.",
    description: "Reads the live value of one sensor: value, unit, the time at which the device answered, quality and age. \
                  Use it when you know the sensor's id and need its value now. For several sensors use \
                  get_sensor_readings; to find an id use list_sensors; for the meaning, range and source of a value use \
                  describe_sensor. It serves no past values, and no tool here does yet: do not call it again and again to \
                  build a history. A value that is not fresh is never returned: an unreachable sensor is the error \
                  SENSOR_OFFLINE (SensorOfflineError), never null, zero or an old value; in an error, last_good is for \
                  people and no answer. A time-out changes nothing and may be repeated.",
    toolset: Toolset::Sensors,
    params: &[
        Param {
            name: "sensor_id",
            kind: ParamKind::SensorId,
            required: true,
            description: "The id of the sensor, exactly as list_sensors shows it.",
            example: Literal::Text("A_LINE1_042"),
            default: None,
            left_out: "",
        },
        UNIT,
        MAX_AGE,
    ],
    rules: &[],
    errors: READ_ERRORS,
    on_timeout: "No value was read in time, and nothing was changed. The value is unknown, not unchanged. Repeat after \
                 retry_after_ms, with a longer deadline.",
    success: output::reading_with_source,
};

pub(super) async fn run(toolbox: &Toolbox, arguments: &Arguments, call: &Call) -> Answer {
    let Some(index) = arguments.sensor("sensor_id") else { return Err(super::unchecked(SPEC.name)) };
    let result = toolbox.read_live(index, Wish::of(arguments), call).await;
    let now = clock::now();
    let duration_ms = millis(now.instant.saturating_duration_since(call.arrived));
    let live = result.map_err(|error| error.with("duration_ms", duration_ms))?;
    let (source, attempts) = (live.source(), live.attempts);
    let mut reading = live.into_reading(now);
    reading.insert("source".into(), source.into());
    reading.insert("attempts".into(), attempts.into());
    reading.insert("duration_ms".into(), duration_ms.into());
    Ok(reading)
}
