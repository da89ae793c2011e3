//! A plant, the links that read it, and a referee.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fieldgate::board::Board;
use fieldgate::clock;
use fieldgate::config::Config;
use fieldgate::field::handle::{FieldHandle, RefreshError};
use fieldgate::field::line::Line;
use fieldgate::field::link;
use fieldgate::field::transport::Pipes;
use fieldgate::registry::reading::{Fault, NoValueNow};
use fieldgate::registry::{LinkIndex, Registry, SensorIndex};
use fieldgate::sim::memory::MemoryPlant;
use fieldgate::sim::{Plant, PlantOptions, RunningPlant, identity};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The longest pause between two tries to reach a device of the plan.
pub const PROBE: Duration = Duration::from_secs(2);

/// A register that a device refused is asked again after this long.
pub const REFUSED_AGAIN: Duration = Duration::from_secs(60);

/// How long one request waits.
const TIMEOUT: Duration = Duration::from_millis(100);

/// The characters of the longest request and answer at the plan's bit rate, and what a stopped clock rounds up.
const ON_THE_LINE: Duration = Duration::from_millis(60);

/// Four links with five devices each.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    devices: u8,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan { devices: 5 }
    }
}

impl Plan {
    fn text(self) -> String {
        let mut text = String::from(
            "[gateway]\nid = \"gw\"\n[broker]\nurl = \"mqtt://127.0.0.1:1883\"\n[sensors]\nid_format = \"*\"\n",
        );
        let links = ["tcp-shared", "rtu-shared", "tcp-rough", "rtu-rough"];
        for (place, id) in links.into_iter().enumerate() {
            let endpoint = match id.starts_with("tcp") {
                true => format!("tcp = \"127.0.0.1:{}\"", 1502 + place),
                false => format!("serial = \"/nowhere/{id}\"\nbaud = 115200\nparity = \"none\""),
            };
            let common = format!("timeout = \"{}ms\"\nretry_max = \"{}s\"", TIMEOUT.as_millis(), PROBE.as_secs());
            let _ = writeln!(text, "[[link]]\nid = \"{id}\"\n{endpoint}\n{common}");
        }
        for link in links {
            for device in 0..self.devices {
                let id = format!("{link}-{device}");
                let _ = writeln!(text, "[[device]]\nid = \"{id}\"\nlink = \"{link}\"\nunit = {}", device + 1);
                text += "poll_every = \"250ms\"\n";
                text += &sensors(&id);
            }
        }
        text
    }
}

/// Sensors of every width, side by side and apart, in three tables.
fn sensors(device: &str) -> String {
    let described = [
        ("holding", 0, "u16"),
        ("holding", 1, "i16"),
        ("holding", 2, "u32"),
        ("holding", 4, "f32"),
        ("holding", 6, "u64"),
        ("holding", 10, "f64"),
        ("holding", 300, "u64"),
        ("holding", 304, "u64"),
        ("holding", 400, "u64"),
        ("input", 0, "u32"),
        ("input", 2, "i64"),
    ];
    let mut text = String::new();
    for (table, address, kind) in described {
        let _ = writeln!(text, "[[device.sensor]]\nid = \"{device}.{table}.{address}\"\nmax_age = \"3s\"");
        let _ = writeln!(text, "read = {{ table = \"{table}\", address = {address}, type = \"{kind}\" }}");
    }
    text
}

/// What the referee found.
#[derive(Debug, Default)]
pub struct Report {
    pub found: u64,
    pub first: Vec<String>,
    kinds: BTreeMap<&'static str, u64>,
}

impl Report {
    /// Counts what was found, and keeps the first few of each kind.
    pub fn add(&mut self, kind: &'static str, what: String) {
        self.found += 1;
        let count = self.kinds.entry(kind).or_default();
        *count += 1;
        if *count <= 4 {
            self.first.push(what);
        }
    }

    /// A run that has shown enough ends early.
    pub fn give_up_if_hopeless(&self, seed: u64) {
        if self.found > 200 {
            self.assert_clean(seed);
        }
    }

    pub fn assert_clean(&self, seed: u64) {
        assert_eq!(
            self.found, 0,
            "FIELDGATE_FAULT_SEED={seed} shows it again: {:?}, such as {:#?}",
            self.kinds, self.first
        );
    }
}

#[derive(Debug)]
enum Served {
    Memory(MemoryPlant),
    Real(RunningPlant),
}

/// A plant, the links that read it, and a referee.
pub struct Course {
    registry: Arc<Registry>,
    board: Arc<Board>,
    handle: FieldHandle,
    plant: Served,
    /// When the plant's time began, by the clock of the links.
    started: Instant,
    /// Added to the time that an answer may have travelled: nothing while the clock is stopped between two events.
    slack: Duration,
    seen: HashMap<SensorIndex, u64>,
    stop: CancellationToken,
    _tasks: JoinSet<()>,
    calls: Arc<Mutex<Report>>,
    pub judged: u64,
    pub report: Report,
}

impl Drop for Course {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn options(seed: u64) -> PlantOptions {
    PlantOptions { fault_seed: seed, self_identifying: true, port_base: Some(0), ..PlantOptions::default() }
}

impl Course {
    pub fn in_memory(plan: Plan, seed: u64) -> Course {
        let registry = Config::parse(&plan.text(), "plan").expect("a sound plan").config.registry;
        let plant = MemoryPlant::new(Arc::clone(&registry), &options(seed));
        let started = clock::instant() - plant.elapsed();
        let pipes = plant.clone();
        let line = move |index, described: &fieldgate::registry::Link| {
            let link = pipes.link(index);
            Line::over_pipes(described, Pipes::new(move || link.connect()))
        };
        Course::new(registry, Served::Memory(plant), started, Duration::ZERO, line)
    }

    pub async fn served(plan: Plan, seed: u64) -> Course {
        let registry = Config::parse(&plan.text(), "plan").expect("a sound plan").config.registry;
        let options = PlantOptions { serial_dir: Some(crate::support::folder()), ..options(seed) };
        let plant = Plant::start(registry, options).await.expect("free ports");
        let started = clock::instant() - plant.elapsed();
        let moved = Arc::new(plant.moved_registry());
        // A loaded machine may keep an answer for a while after it came.
        let slack = Duration::from_millis(500);
        Course::new(moved, Served::Real(plant), started, slack, |_, link| Line::new(link))
    }

    fn new(
        registry: Arc<Registry>,
        plant: Served,
        started: Instant,
        slack: Duration,
        line: impl Fn(LinkIndex, &fieldgate::registry::Link) -> Line,
    ) -> Course {
        let board = Arc::new(Board::new(Arc::clone(&registry)));
        let stop = CancellationToken::new();
        let (handle, tasks) = link::start_on(&registry, &board, Duration::from_secs(60), &Arc::default(), &stop, line);
        Course {
            registry,
            board,
            handle,
            plant,
            started,
            slack,
            seen: HashMap::new(),
            stop,
            _tasks: tasks,
            calls: Arc::default(),
            judged: 0,
            report: Report::default(),
        }
    }

    pub fn command(&self, line: &str) {
        let Served::Memory(plant) = &self.plant else { panic!("a served plant is commanded otherwise") };
        plant.command_line(line).unwrap_or_else(|err| panic!("{line}: {err}"));
    }

    pub async fn command_served(&self, line: &str) {
        let Served::Real(plant) = &self.plant else { panic!("a plant in memory is commanded otherwise") };
        let reply = plant.command_line(line).await;
        // Some of the faults are not for serial lines.
        assert!(reply.starts_with("ok "), "{line}: {reply}");
    }

    pub fn fault(&self, target: &str, kind: &str, probability: f64) {
        self.command(&format!("fault {target} {kind} {probability}"));
    }

    pub fn elapsed(&self) -> Duration {
        clock::instant() - self.started
    }

    pub fn requests(&self) -> u64 {
        self.counts().map(|counts| counts.requests).sum()
    }

    pub fn faults(&self) -> u64 {
        self.counts().map(|counts| counts.faults_in_all()).sum()
    }

    fn counts(&self) -> impl Iterator<Item = fieldgate::sim::faults::Counts> {
        self.registry.links().map(|(link, _)| match &self.plant {
            Served::Memory(plant) => plant.link(link).counts(),
            Served::Real(plant) => plant.counts(link),
        })
    }

    /// Judges every value that is given as good and was not judged yet.
    pub fn judge_all(&mut self) {
        let now = clock::instant();
        for (index, sensor) in self.registry.sensors() {
            let known = self.seen.get(&index).copied();
            let verdict = self.board.look(index, |state| {
                let aged = state.fresh(now, sensor.max_age).ok()?;
                if aged.age() > sensor.max_age {
                    return Some((aged.seq(), Err(format!("{:?} old", aged.age()))));
                }
                if known == Some(aged.seq()) {
                    return None;
                }
                let read_at = aged.read_at().instant.saturating_duration_since(self.started);
                let earliest = read_at.saturating_sub(TIMEOUT + ON_THE_LINE + self.slack);
                let verdict = identity::judge(&self.registry, index, aged.words(), (earliest, read_at));
                Some((aged.seq(), verdict.map_err(|verdict| format!("{verdict}, read at {read_at:?}"))))
            });
            let Some((seq, verdict)) = verdict else { continue };
            self.seen.insert(index, seq);
            self.judged += 1;
            if let Err(message) = verdict {
                self.report.add("wrong value", format!("{}: {message}", sensor.id));
            }
        }
    }

    /// Notes every sensor of a sound device that has no value within its age.
    pub fn expect_fresh(&mut self, device: &str) {
        let now = clock::instant();
        let device = self.registry.find_device(device).expect("a device of the plan");
        for index in &self.registry.device(device).sensors {
            let sensor = self.registry.sensor(*index);
            let state = self.board.look(*index, |state| match state.fresh(now, sensor.max_age) {
                Ok(_) => None,
                Err(NoValueNow::Failed { fault, .. }) => Some(format!("{fault:?}")),
                Err(other) => Some(format!("{other}")),
            });
            if let Some(state) = state {
                let at = now - self.started;
                self.report.add(
                    "sound device without value",
                    format!("at {at:?} the sound sensor {} has no value: {state}", sensor.id),
                );
            }
        }
    }

    /// The sensors without a value, and whether their register was refused.
    pub fn without_value(&self) -> Vec<(String, bool)> {
        let now = clock::instant();
        let missing = |(index, sensor): (SensorIndex, &fieldgate::registry::Sensor)| {
            self.board.look(index, |state| match state.fresh(now, sensor.max_age) {
                Ok(_) => None,
                Err(why) => {
                    let refused = matches!(state.fault(), Some(Fault::Refused(_)));
                    Some((format!("{} ({why}: {:?})", sensor.id, state.fault()), refused))
                }
            })
        };
        self.registry.sensors().filter_map(missing).collect()
    }

    /// Callers that ask for fresh reads at random, and check that each call ends once and by its deadline.
    pub fn start_callers(&self, callers: u64, seed: u64) -> JoinSet<u64> {
        let mut tasks = JoinSet::new();
        for caller in 0..callers {
            let dice = SmallRng::seed_from_u64(seed ^ caller);
            let (registry, board) = (Arc::clone(&self.registry), Arc::clone(&self.board));
            let (handle, stop, calls) = (self.handle.clone(), self.stop.clone(), Arc::clone(&self.calls));
            tasks.spawn(call_on(registry, board, handle, stop, calls, dice));
        }
        tasks
    }

    /// Ends the callers, and returns how many calls there were.
    pub async fn end_callers(&mut self, mut callers: JoinSet<u64>) -> u64 {
        callers.abort_all();
        while callers.join_next().await.is_some() {}
        let calls = std::mem::take(&mut *self.calls.lock().expect("unpoisoned"));
        calls.first.into_iter().for_each(|message| self.report.add("call", message));
        calls.found
    }
}

async fn call_on(
    registry: Arc<Registry>,
    board: Arc<Board>,
    handle: FieldHandle,
    stop: CancellationToken,
    calls: Arc<Mutex<Report>>,
    mut dice: SmallRng,
) -> u64 {
    let sensors: Vec<SensorIndex> = registry.sensors().map(|(index, _)| index).collect();
    loop {
        tokio::time::sleep(Duration::from_millis(dice.random_range(0..400))).await;
        if stop.is_cancelled() {
            return 0;
        }
        let index = sensors[dice.random_range(0..sensors.len())];
        let asked = clock::instant();
        let deadline = asked + Duration::from_millis(dice.random_range(20..2_000));
        let outcome = handle.refresh(index, deadline).await;
        let ended = clock::instant();
        let sensor = registry.sensor(index);
        let older = board.look(index, |state| {
            let aged = state.fresh(ended, sensor.max_age).ok()?;
            (aged.read_at().instant < asked).then(|| aged.age())
        });
        let mut calls = calls.lock().expect("unpoisoned");
        calls.found += 1;
        let mut complain = |what: String| {
            if calls.first.len() < 12 {
                calls.first.push(format!("a call for {}: {what}", sensor.id));
            }
        };
        // A timer of tokio has a grain of one millisecond.
        if ended > deadline + Duration::from_millis(2) {
            complain(format!("it ended {:?} after its deadline", ended - deadline));
        }
        match (outcome, older) {
            (Ok(()), Some(age)) => complain(format!("it was answered with a value that is {age:?} old")),
            (Err(RefreshError::Stopping), _) => complain("it was dropped".to_owned()),
            _ => {}
        }
    }
}
