//! `fieldgate plan`: what the gateway would ask, how busy that keeps each link, and how old a reading can get.
//!
//! The figures are the planner's own. A link that cannot carry its plan makes the command fail, because its readings would be
//! late for ever, and late in a way that looks like a bad cable.

use std::time::Duration;

use serde::Serialize;

use super::check::{advice, endpoint_text, rounded};
use super::{ConfigFile, Exit, load, text};
use crate::config::values::duration_text;
use crate::field::load::{LinkLoad, Verdict, bytes_of};
use crate::field::plan::PlannedRead;
use crate::registry::{LinkIndex, Registry, count_of};

/// Show what a configuration asks of its devices and lines, before it is deployed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldgate plan fieldgate.toml             the requests of each device, and the load of each link\n  \
    fieldgate plan --sensors fieldgate.toml   with the worst age of each sensor\n  \
    fieldgate plan --json fieldgate.toml      the same for programs\n\n\
    A link that is more than 70 % busy is warned of. What devices need to answer is assumed: 5 ms.\n\n\
    Exit codes: 0 every link can carry its plan, 1 one cannot, 2 the configuration has faults.")]
pub struct PlanArgs {
    #[command(flatten)]
    config: ConfigFile,
    /// List every sensor with the worst age of its reading, beside its max_age.
    #[arg(long)]
    sensors: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn main(args: &PlanArgs) -> Exit {
    let config = match load(args.config.path()) {
        Ok(config) => config,
        Err(exit) => return exit,
    };
    let report = Report::of(&config.registry, args.sensors);
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&report).unwrap_or_else(|err| err.to_string())),
        false => print!("{}", report.for_people()),
    }
    report.exit()
}

#[derive(Debug, Serialize)]
struct Report {
    links: Vec<LinkReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sensors: Option<Vec<SensorReport>>,
}

#[derive(Debug, Serialize)]
struct LinkReport {
    id: String,
    endpoint: String,
    busy_percent: f64,
    carries_the_plan: bool,
    round_ms: f64,
    requests: Vec<RequestReport>,
    #[serde(skip)]
    verdict: Verdict,
}

#[derive(Debug, Serialize)]
struct RequestReport {
    device: String,
    table: &'static str,
    address: u16,
    count: u16,
    sensors: usize,
    every_ms: u64,
    bytes: usize,
    time_ms: f64,
    worst_age_ms: u64,
}

#[derive(Debug, Serialize)]
struct SensorReport {
    id: String,
    device: String,
    worst_age_ms: u64,
    max_age_ms: u64,
    /// Whether a reading can be older than its sensor allows although every device answers.
    can_be_stale: bool,
}

impl Report {
    fn of(registry: &Registry, with_sensors: bool) -> Report {
        let loads: Vec<LinkLoad> = registry.links().map(|(index, _)| LinkLoad::of(registry, index)).collect();
        let sensors = || loads.iter().flat_map(|load| sensors_of(registry, load)).collect();
        Report {
            links: loads.iter().map(|load| link_report(registry, load.link, load)).collect(),
            sensors: with_sensors.then(sensors),
        }
    }

    fn exit(&self) -> Exit {
        match self.links.iter().all(|link| link.carries_the_plan) {
            true => Exit::Done,
            false => Exit::Failed,
        }
    }

    fn for_people(&self) -> String {
        let mut printed: String = self.links.iter().map(LinkReport::for_people).collect::<Vec<_>>().join("\n");
        if let Some(sensors) = &self.sensors {
            let columns = ["sensor", "device", "worst age", "max_age", ""];
            let rows: Vec<Vec<String>> = sensors.iter().map(SensorReport::row).collect();
            printed.push('\n');
            printed.push_str(&text::table(&columns, &rows, 0));
        }
        printed
    }
}

fn link_report(registry: &Registry, index: LinkIndex, load: &LinkLoad) -> LinkReport {
    let link = registry.link(index);
    LinkReport {
        id: link.id.to_string(),
        endpoint: endpoint_text(&link.endpoint),
        busy_percent: rounded(load.busy * 100.0),
        carries_the_plan: load.verdict() != Verdict::TooMuch,
        round_ms: in_ms(load.round),
        requests: load.reads.iter().map(|(read, time)| request_report(registry, load, read, *time)).collect(),
        verdict: load.verdict(),
    }
}

fn request_report(registry: &Registry, load: &LinkLoad, read: &PlannedRead, time: Duration) -> RequestReport {
    RequestReport {
        device: registry.device(read.device).id.to_string(),
        table: read.request.table().name(),
        address: read.request.address(),
        count: read.request.count(),
        sensors: read.sensors.len(),
        every_ms: whole_ms(read.every),
        bytes: bytes_of(registry, read),
        time_ms: in_ms(time),
        worst_age_ms: whole_ms(load.worst_age(read)),
    }
}

fn sensors_of<'r>(registry: &'r Registry, load: &'r LinkLoad) -> impl Iterator<Item = SensorReport> + 'r {
    load.reads.iter().flat_map(move |(read, _)| {
        let worst_age = load.worst_age(read);
        read.sensors.iter().map(move |index| {
            let sensor = registry.sensor(*index);
            SensorReport {
                id: sensor.id.to_string(),
                device: registry.device(sensor.device).id.to_string(),
                worst_age_ms: whole_ms(worst_age),
                max_age_ms: whole_ms(sensor.max_age),
                can_be_stale: worst_age > sensor.max_age,
            }
        })
    })
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn in_ms(duration: Duration) -> f64 {
    rounded(duration.as_secs_f64() * 1_000.0)
}

impl LinkReport {
    fn for_people(&self) -> String {
        let head = format!(
            "link {}: {}, {}, {} % busy{}, one round takes {} ms\n",
            self.id,
            self.endpoint,
            count_of(self.requests.len(), "request"),
            self.busy_percent,
            advice(self.verdict),
            self.round_ms,
        );
        let columns = ["device", "table", "address", "count", "sensors", "every", "bytes", "time", "worst age"];
        let rows: Vec<Vec<String>> = self.requests.iter().map(RequestReport::row).collect();
        if rows.is_empty() { head } else { head + &text::table(&columns, &rows, 2) }
    }
}

impl RequestReport {
    fn row(&self) -> Vec<String> {
        vec![
            self.device.clone(),
            self.table.to_owned(),
            self.address.to_string(),
            self.count.to_string(),
            self.sensors.to_string(),
            duration_text(Duration::from_millis(self.every_ms)),
            self.bytes.to_string(),
            format!("{} ms", self.time_ms),
            format!("{} ms", self.worst_age_ms),
        ]
    }
}

impl SensorReport {
    fn row(&self) -> Vec<String> {
        vec![
            self.id.clone(),
            self.device.clone(),
            format!("{} ms", self.worst_age_ms),
            duration_text(Duration::from_millis(self.max_age_ms)),
            if self.can_be_stale { "can be stale".to_owned() } else { String::new() },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::testing::{Plan, word};

    #[test]
    fn a_plan_shows_requests_load_and_worst_age() {
        let registry = Plan::serial(&[(0, word(2)), (8, word(1)), (100, word(1))]).registry();
        let report = Report::of(&registry, true);
        let expected = "\
link L: /dev/null, 19200 8E1, 2 requests, 4.04 % busy, one round takes 40.36 ms
  device  table    address  count  sensors  every  bytes  time      worst age
  D0      holding  0        9      2        1s     31     24.77 ms  1340 ms
  D0      holding  100      1      1        1s     15     15.6 ms   1340 ms

sensor  device  worst age  max_age
S0      D0      1340 ms    3s
S1      D0      1340 ms    3s
S2      D0      1340 ms    3s
";
        assert_eq!(report.for_people(), expected);
        assert_eq!(report.exit(), Exit::Done);
    }

    #[test]
    fn a_line_that_cannot_carry_its_plan_is_refused_and_a_tight_one_warned_of() {
        let far_apart = |count: u16| (0..count).map(|place| (place * 130, word(1))).collect::<Vec<_>>();
        let tight = Report::of(&Plan::serial(&far_apart(50)).registry(), false);
        assert_eq!(tight.exit(), Exit::Done);
        assert!(tight.for_people().contains("poll less often"), "{}", tight.for_people());
        let too_much = Report::of(&Plan::serial(&far_apart(100)).registry(), false);
        assert_eq!(too_much.exit(), Exit::Failed);
        assert!(too_much.for_people().contains("more than it can carry"));
        assert_eq!(serde_json::to_value(&too_much).expect("JSON")["links"][0]["carries_the_plan"], false);
    }
}
