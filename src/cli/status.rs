//! `fieldgate status`: what a gateway says of itself and its devices on the broker.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::connect::AgentArgs;
use super::{Exit, complain, runtime, text};
use crate::clock;
use crate::errors::chain;
use crate::gate::agent::Messages;
use crate::gate::topics::Topics;

/// Show whether a gateway is online, and how its devices are, as the broker has it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldgate status --config fieldgate.toml\n  \
    fieldgate status --broker mqtt://127.0.0.1:1883 --gateway gw-line1 --json\n\n\
    Exit codes: 0 the gateway is online, 1 it is offline, unknown, or its status is too old to be believed.")]
pub struct StatusArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    agent: AgentArgs,
}

/// Kept messages come at once; when none has come for so long, there are no more.
const QUIET: Duration = Duration::from_millis(400);

/// Runs the command.
pub fn main(args: &StatusArgs) -> Exit {
    runtime().block_on(show(args))
}

async fn show(args: &StatusArgs) -> Exit {
    let (agent, gateway) = match (args.agent.connect().await, args.agent.target()) {
        (Ok(agent), Ok((_, gateway))) => (agent, gateway),
        (Err(exit), _) | (_, Err(exit)) => return exit,
    };
    let topics = Topics::new(&gateway);
    let status = agent.subscribe(&topics.status()).await;
    let devices = agent.subscribe(&format!("{}/device/+/status", topics.base())).await;
    let (mut status, mut devices) = match (status, devices) {
        (Ok(status), Ok(devices)) => (status, devices),
        (Err(err), _) | (_, Err(err)) => return complain(chain(&err)),
    };
    let status = kept(&mut status).await.into_values().next();
    let devices: Vec<Value> = kept(&mut devices).await.into_values().collect();
    agent.close().await;
    let Some(status) = status else {
        return complain(format_args!(
            "no gateway named {gateway} has ever been on this broker; check the name and the broker"
        ));
    };
    let old = too_old(&status, SystemTime::now());
    if args.json {
        println!("{}", json!({"status": status, "too_old": old, "devices": devices}));
    } else {
        print_for_people(&status, &devices, old);
    }
    match status.get("status").and_then(Value::as_str) {
        Some("online") if !old => Exit::Done,
        _ => Exit::Failed,
    }
}

/// The kept messages of a subscription, by topic.
async fn kept(messages: &mut Messages) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    while let Ok(Some(message)) = tokio::time::timeout(QUIET, messages.next()).await {
        if let Ok(value) = serde_json::from_slice(&message.payload) {
            found.insert(message.topic, value);
        }
    }
    found
}

/// Whether an online status has missed three of its own renewals: then nobody knows, and the broker has not noticed.
pub(super) fn too_old(status: &Value, now: SystemTime) -> bool {
    let as_of = status.get("as_of").and_then(Value::as_str).and_then(|text| OffsetDateTime::parse(text, &Rfc3339).ok());
    let every = status.get("renewed_every_ms").and_then(Value::as_u64);
    match (status.get("status").and_then(Value::as_str), as_of, every) {
        (Some("online"), Some(as_of), Some(every)) => {
            now.duration_since(as_of.into()).is_ok_and(|age| age > Duration::from_millis(every.saturating_mul(3)))
        }
        (Some("online"), ..) => true,
        _ => false,
    }
}

fn print_for_people(status: &Value, devices: &[Value], old: bool) {
    print!("{}", text::pretty(status));
    if old {
        println!(
            "This status has missed its renewals (now {}): the gateway may be gone.",
            clock::rfc3339(SystemTime::now())
        );
    }
    if !devices.is_empty() {
        println!("\n{}", text::pretty(&Value::from(devices.to_vec())).trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_online_status_that_missed_its_renewals_is_not_believed() {
        let at = |text: &str| SystemTime::from(OffsetDateTime::parse(text, &Rfc3339).expect("a time"));
        let status = json!({"status": "online", "as_of": "2026-11-30T09:00:00.000Z", "renewed_every_ms": 30_000});
        assert!(!too_old(&status, at("2026-11-30T09:01:30Z")));
        assert!(too_old(&status, at("2026-11-30T09:01:31Z")));
        assert!(too_old(&json!({"status": "online"}), at("2026-11-30T09:00:00Z")));
        assert!(!too_old(&json!({"status": "offline"}), at("2026-11-30T09:00:00Z")));
    }
}
