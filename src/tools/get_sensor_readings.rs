//! `get_sensor_readings`: the live values of several sensors, side by side.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use serde_json::{Map, Value, json};

use super::answer::{ErrorClass, ErrorCode, ToolError};
use super::arguments::Arguments;
use super::get_sensor_reading::{MAX_AGE, UNIT};
use super::live::{Live, Wish, millis};
use super::page::{self, Page};
use super::spec::{Literal, Param, ParamKind, Rule, ToolSpec, Toolset, into_object};
use super::{Answer, Call, ToolName, Toolbox, output};
use crate::clock;
use crate::registry::{Registry, SensorIndex};

/// The most readings of one answer; all of them as errors still stay below 64 KiB.
const MOST: usize = 50;

/// How many reads one call has waiting at one link. More would take the places of other callers, and would not be faster:
/// a link asks one thing at a time.
const AT_ONCE_PER_LINK: usize = 8;

pub(super) const SPEC: ToolSpec = ToolSpec {
    name: ToolName::GetSensorReadings,
    title: "Get the live values of several sensors",
    summary: "Reads the live values of up to 50 sensors at once; the good ones are never lost for the bad ones.",
    description: "Reads the live values of several sensors in one call: a list of ids, or all sensors of one device. Use it \
                  in place of many calls of get_sensor_reading; for a single sensor use that. To find ids use \
                  list_sensors. It serves no past values, and no tool here does yet. Each item holds either a reading or a \
                  typed error of its own, such as SENSOR_OFFLINE (SensorOfflineError); look at complete before you draw a \
                  conclusion from the whole: false means that parts are missing. When nothing at all could be read, the \
                  answer is the error INCOMPLETE_DATA with the reason for each part. A time-out changes nothing and may \
                  be repeated.",
    toolset: Toolset::Sensors,
    params: &[
        Param {
            name: "sensor_ids",
            kind: ParamKind::SensorIds { max: MOST },
            required: false,
            description: "The ids of the sensors, each once, exactly as list_sensors shows them. Give either this or device.",
            example: Literal::Texts(&["A_LINE1_042", "A_LINE1_043"]),
            default: None,
            left_out: "device must be given.",
        },
        Param {
            name: "device",
            kind: ParamKind::DeviceId,
            required: false,
            description: "The id of a device, to read all of its sensors, 50 to a page. Give either this or sensor_ids.",
            example: Literal::Text("press-plc"),
            default: None,
            left_out: "sensor_ids must be given.",
        },
        UNIT,
        MAX_AGE,
        Param {
            name: "cursor",
            kind: ParamKind::Cursor,
            required: false,
            description: "Where to go on, for a device of more than 50 sensors: next_cursor of the answer before, with the \
                          same other arguments.",
            example: Literal::Text("32-9f1c2ab34d5e6f70-0a1b2c3d"),
            default: None,
            left_out: "the first page.",
        },
    ],
    rules: &[Rule::ExactlyOneOf(&["sensor_ids", "device"])],
    errors: &[
        ErrorCode::IncompleteData,
        ErrorCode::SensorOffline,
        ErrorCode::StaleData,
        ErrorCode::DeviceBusy,
        ErrorCode::Misconfigured,
        ErrorCode::RateLimited,
        ErrorCode::DeadlineExceeded,
        ErrorCode::Internal,
    ],
    on_timeout: "Parts that were read in time are in the answer; the others are items with DEADLINE_EXCEEDED, and complete is \
                 false. Nothing was changed. Repeat for the missing ids.",
    success,
};

fn success() -> Value {
    let item = json!({"oneOf": [
        output::closed(json!({"sensor_id": output::text(), "reading": output::reading()})),
        output::closed(json!({"sensor_id": output::text(), "error": output::error()})),
    ]});
    let besides = json!({
        "complete": {"type": "boolean"}, "failed": output::count(), "polled": output::count(), "fresh": output::count(),
        "attempts": output::count(), "duration_ms": output::count(),
    });
    output::listing(item, besides)
}

pub(super) async fn run(toolbox: &Toolbox, arguments: &Arguments, call: &Call) -> Answer {
    let wanted = wanted(&toolbox.config.registry, arguments).ok_or_else(|| super::unchecked(SPEC.name))?;
    let places: Vec<usize> = (0..wanted.len()).collect();
    let page = page::cut(&places, arguments.place(), MOST);
    let sensors = wanted.get(arguments.place()..).unwrap_or_default();
    let sensors = &sensors[..page.places.len().min(sensors.len())];
    let results = read_all(toolbox, sensors, Wish::of(arguments), call).await;
    if !results.is_empty() && results.iter().all(|(_, result)| result.is_err()) {
        return Err(nothing(&toolbox.config.registry, results));
    }
    Ok(parts(toolbox, arguments, call, &page, results))
}

fn wanted(registry: &Registry, arguments: &Arguments) -> Option<Vec<SensorIndex>> {
    match arguments.sensors("sensor_ids") {
        Some(sensors) => Some(sensors.to_vec()),
        None => arguments.device("device").map(|device| registry.device(device).sensors.clone()),
    }
}

type Part = (SensorIndex, Result<Live, ToolError>);

/// Reads all of them, links side by side, and gives the results in the order of the wish.
async fn read_all(toolbox: &Toolbox, sensors: &[SensorIndex], wish: Wish, call: &Call) -> Vec<Part> {
    let registry = &toolbox.config.registry;
    let mut links: BTreeMap<_, Vec<(usize, SensorIndex)>> = BTreeMap::new();
    for (place, index) in sensors.iter().enumerate() {
        links.entry(registry.device(registry.sensor(*index).device).link).or_default().push((place, *index));
    }
    let read = |(place, index)| async move { (place, index, toolbox.read_live(index, wish, call).await) };
    let links = links
        .into_values()
        .map(|reads| futures::stream::iter(reads).map(read).buffer_unordered(AT_ONCE_PER_LINK).collect::<Vec<_>>());
    let mut results: Vec<_> = futures::future::join_all(links).await.into_iter().flatten().collect();
    results.sort_by_key(|(place, ..)| *place);
    results.into_iter().map(|(_, index, result)| (index, result)).collect()
}

fn parts(toolbox: &Toolbox, arguments: &Arguments, call: &Call, page: &Page, results: Vec<Part>) -> Map<String, Value> {
    let registry = &toolbox.config.registry;
    let now = clock::now();
    let good = || results.iter().filter_map(|(_, result)| result.as_ref().ok());
    let (returned, read) = (results.len(), good().count());
    let fresh = good().filter(|live| live.fresh).count();
    let attempts: u32 = good().map(|live| live.attempts).sum();
    let items: Vec<Value> = results
        .into_iter()
        .map(|(index, result)| {
            let id = registry.sensor(index).id.as_str();
            match result {
                Ok(live) => json!({"sensor_id": id, "reading": live.into_reading(now)}),
                Err(error) => json!({"sensor_id": id, "error": error.to_json()}),
            }
        })
        .collect();
    into_object(json!({
        "items": items, "total": page.total, "returned": returned,
        "next_cursor": page.next.map(|place| arguments.query().cursor(place)), "as_of": clock::rfc3339(now.wall),
        "complete": read == page.total, "failed": returned - read, "polled": read - fresh, "fresh": fresh,
        "attempts": attempts, "duration_ms": millis(now.instant.saturating_duration_since(call.arrived)),
    }))
}

/// Not a single value: an error as a whole. Where a repeat can help none of the parts, the whole says so, too.
fn nothing(registry: &Registry, results: Vec<Part>) -> ToolError {
    let errors: Vec<(SensorIndex, ToolError)> =
        results.into_iter().filter_map(|(index, result)| Some((index, result.err()?))).collect();
    let permanent = errors.iter().all(|(_, error)| error.code.class() == ErrorClass::Permanent);
    let (code, hint) = if permanent {
        (
            ErrorCode::Misconfigured,
            "Every part failed for good; each says why under parts. A repeat does not help; report this.",
        )
    } else {
        (
            ErrorCode::IncompleteData,
            "Do not use older values. Each part says under parts why; call again after retry_after_ms.",
        )
    };
    let message = format!("None of the {} sensors could be read.", errors.len());
    let wait = errors.iter().filter_map(|(_, error)| error.retry_after_ms).min();
    let parts: Vec<Value> = errors
        .iter()
        .map(|(index, error)| json!({"sensor_id": registry.sensor(*index).id.as_str(), "error": error.to_json()}))
        .collect();
    let error = ToolError::new(code, message, hint).with("failed", parts.len()).with("parts", parts);
    match wait {
        Some(wait) => error.retry_after(Duration::from_millis(wait)),
        None => error,
    }
}
