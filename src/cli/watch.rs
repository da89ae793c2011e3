//! `fieldgate watch`: live readings in the terminal.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write as _};
use std::time::Duration;

use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::signal::unix::{SignalKind, signal};

use super::connect::AgentArgs;
use super::status::too_old;
use super::{Exit, complain, runtime, text};
use crate::clock;
use crate::errors::chain;
use crate::gate::agent::Message;
use crate::gate::topics::Topics;
use crate::registry::reading::Stamp;

/// Watch a gateway's readings as they are published.
///
/// On a terminal it is a table that is drawn anew twice a second; elsewhere each reading is a line.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldgate watch --config fieldgate.toml\n  \
    fieldgate watch --broker mqtt://127.0.0.1:1883 --gateway gw-line1 --device press-plc\n  \
    fieldgate watch --json | jq .value\n  \
    fieldgate watch --once              print what is known now, and end")]
pub struct WatchArgs {
    /// Only the readings of this device.
    #[arg(long, value_name = "ID")]
    device: Option<String>,
    /// Print each reading as a line of JSON.
    #[arg(long, conflicts_with = "once")]
    json: bool,
    /// Print one table of what the broker has, and end.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    agent: AgentArgs,
}

/// How often the table is drawn.
const DRAW: Duration = Duration::from_millis(500);

/// A reading and when it came here.
struct Seen {
    reading: Value,
    device: String,
    arrived: Stamp,
}

/// Runs the command.
pub fn main(args: &WatchArgs) -> Exit {
    runtime().block_on(watch(args))
}

async fn watch(args: &WatchArgs) -> Exit {
    let (agent, gateway) = match (args.agent.connect().await, args.agent.target()) {
        (Ok(agent), Ok((_, gateway))) => (agent, gateway),
        (Err(exit), _) | (_, Err(exit)) => return exit,
    };
    let device = args.device.as_deref().unwrap_or("+");
    let topics = Topics::new(&gateway);
    let filter = format!("{}/reading/{device}/+", topics.base());
    let (Ok(mut statuses), Ok(mut readings), Ok(mut interrupt)) = (
        agent.subscribe(&topics.status()).await.map_err(|err| complain(chain(&err))),
        agent.subscribe(&filter).await.map_err(|err| complain(chain(&err))),
        signal(SignalKind::interrupt()),
    ) else {
        return Exit::Failed;
    };
    let mut status = None;
    let as_table = args.once || (!args.json && std::io::stdout().is_terminal());
    let mut seen: BTreeMap<String, Seen> = BTreeMap::new();
    let mut draw = tokio::time::interval(DRAW);
    draw.tick().await;
    loop {
        tokio::select! {
            message = readings.next() => match message.map(read) {
                None => return complain("the connection to the broker was lost"),
                Some(None) => {}
                Some(Some((topic, entry))) => {
                    if !as_table {
                        print_line(&entry, args.json);
                    }
                    seen.insert(topic, entry);
                }
            },
            message = statuses.next() => {
                let Some(message) = message else { return complain("the connection to the broker was lost") };
                status = serde_json::from_slice(&message.payload).ok();
                if !as_table && !is_online(status.as_ref()) {
                    eprintln!("fieldgate: {gateway} is offline, and its readings are of before");
                }
            }
            _ = draw.tick(), if as_table => {
                let is_online = is_online(status.as_ref());
                let table = table(&seen, is_online, clock::now());
                let state = if is_online { "" } else { " is OFFLINE; its last readings" };
                if args.once {
                    print!("{table}");
                    agent.close().await;
                    return match (seen.is_empty(), is_online) {
                        (true, _) => complain("the broker has no readings of this gateway"),
                        (false, false) => complain(format_args!("{gateway} is offline; these are its last readings")),
                        (false, true) => Exit::Done,
                    };
                }
                print!("\x1b[H\x1b[2J{gateway}{state}, {} sensors; Ctrl-C ends\n\n{table}", seen.len());
                let _ = std::io::stdout().flush();
            }
            _ = interrupt.recv() => {
                agent.close().await;
                return Exit::Done;
            }
        }
    }
}

/// Whether the gateway's last status says that it is there, and is not too old for that. Its will says that it is not; before any
/// has come nothing is known against it.
fn is_online(status: Option<&Value>) -> bool {
    status.is_none_or(|status| status["status"] == "online" && !too_old(status, clock::now().wall))
}

/// A reading out of a message; anything else is left out.
fn read(message: Message) -> Option<(String, Seen)> {
    let reading: Value = serde_json::from_slice(&message.payload).ok()?;
    let device = message.topic.rsplit('/').nth(1)?.to_owned();
    Some((message.topic, Seen { reading, device, arrived: clock::now() }))
}

fn field(reading: &Value, name: &str) -> String {
    reading.get(name).map_or(String::new(), text::scalar)
}

fn print_line(entry: &Seen, json: bool) {
    let reading = &entry.reading;
    if json {
        println!("{reading}");
        return;
    }
    let reason = reading.get("reason").and_then(Value::as_str).map_or(String::new(), |reason| format!(" ({reason})"));
    println!(
        "{}  {}  {} {}  {}{reason}",
        field(reading, "timestamp"),
        field(reading, "sensor_id"),
        field(reading, "value"),
        field(reading, "unit"),
        field(reading, "quality")
    );
}

/// How old a reading is by now, in milliseconds: what the gateway said and the time since it came here, but no less than
/// its timestamp says, because the broker may have kept it for hours.
fn age_ms(entry: &Seen, now: Stamp) -> Option<u64> {
    let said = entry.reading.get("age_ms").and_then(Value::as_u64)?;
    let here = now.instant.saturating_duration_since(entry.arrived.instant).as_millis() as u64;
    let timestamp = entry.reading.get("timestamp").and_then(Value::as_str)?;
    let read_at = OffsetDateTime::parse(timestamp, &Rfc3339).ok()?;
    let by_the_wall = now.wall.duration_since(read_at.into()).map_or(0, |age| age.as_millis() as u64);
    Some(by_the_wall.max(said + here))
}

/// A reading that is not renewed grows old before the reader's eyes. Without its gateway none is good.
fn table(seen: &BTreeMap<String, Seen>, is_online: bool, now: Stamp) -> String {
    let rows: Vec<Vec<String>> = seen
        .values()
        .map(|entry| {
            let reading = &entry.reading;
            let age = age_ms(entry, now).map_or("-".to_owned(), |ms| format!("{}.{} s", ms / 1000, ms % 1000 / 100));
            vec![
                field(reading, "sensor_id"),
                entry.device.clone(),
                field(reading, "value"),
                field(reading, "unit"),
                if is_online { field(reading, "quality") } else { "bad".to_owned() },
                if is_online { field(reading, "reason") } else { "stale".to_owned() },
                age,
            ]
        })
        .collect();
    text::table(&["sensor", "device", "value", "unit", "quality", "reason", "age"], &rows, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn seen(at: Stamp) -> Seen {
        let reading = json!({
            "sensor_id": "A_LINE1_042", "value": 47.3, "unit": "°C", "quality": "good", "reason": null, "age_ms": 200,
            "timestamp": "2026-11-30T09:00:00.000Z",
        });
        Seen { reading, device: "press".to_owned(), arrived: at }
    }

    #[test]
    fn a_reading_that_is_not_renewed_grows_old_in_the_table() {
        let wall = OffsetDateTime::parse("2026-11-30T09:00:00.200Z", &Rfc3339).expect("a time").into();
        let at = Stamp { instant: std::time::Instant::now(), wall };
        let later = Stamp { instant: at.instant + Duration::from_secs(3), wall: wall + Duration::from_secs(3) };
        assert_eq!(
            table(&BTreeMap::from([("t".to_owned(), seen(at))]), true, later),
            "sensor       device  value  unit  quality  reason  age\nA_LINE1_042  press   47.3   °C    good     -       3.2 s\n"
        );
        assert_eq!(
            table(&BTreeMap::from([("t".to_owned(), seen(at))]), false, later),
            "sensor       device  value  unit  quality  reason  age\nA_LINE1_042  press   47.3   °C    bad      stale   3.2 s\n",
            "without its gateway"
        );
    }

    #[test]
    fn a_reading_that_the_broker_kept_for_an_hour_is_an_hour_old() {
        let wall = OffsetDateTime::parse("2026-11-30T10:00:00Z", &Rfc3339).expect("a time").into();
        let at = Stamp { instant: std::time::Instant::now(), wall };
        assert_eq!(age_ms(&seen(at), at), Some(3_600_000));
    }
}
