//! The task that owns a link: it asks what the schedule says, keeps the board true, and holds the only retry loop.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::handle::{FieldHandle, FreshRead};
use super::line::{AskError, Line};
use super::plan::{self, PlannedRead};
use super::schedule::{Next, Schedule};
use crate::board::Board;
use crate::clock;
use crate::errors::chain;
use crate::modbus::pdu::ReadReply;
use crate::policy::backoff::Rest;
use crate::progress::{Pledge, Progress};
use crate::registry::heartbeat::HeartbeatWatch;
use crate::registry::reading::{DeviceStatus, Fault, OfflineCause, Stamp};
use crate::registry::{DeviceIndex, Link, LinkIndex, Registry, SensorIndex};

/// How many calls may wait at a link. One more is refused at once, which the caller sees as `RATE_LIMITED`: waiting for a
/// place would eat its deadline unseen.
const CALLS_WAITING: usize = 64;

/// How often a device that is known to answer is asked again at once when an answer is missing or damaged.
const ATTEMPTS: u32 = 2;

/// A register that the device refused is asked again after this long: somebody may have changed the device.
const REFUSED_AGAIN: Duration = Duration::from_secs(60);

/// Starts a task for each link. They end when `stop` is cancelled.
pub fn start(
    registry: &Arc<Registry>,
    board: &Arc<Board>,
    at_least_every: Duration,
    progress: &Arc<Progress>,
    stop: &CancellationToken,
) -> (FieldHandle, tokio::task::JoinSet<()>) {
    start_on(registry, board, at_least_every, progress, stop, |_, link| Line::new(link))
}

/// The same over lines of another making, such as pipes in memory.
pub fn start_on(
    registry: &Arc<Registry>,
    board: &Arc<Board>,
    at_least_every: Duration,
    progress: &Arc<Progress>,
    stop: &CancellationToken,
    line_of: impl Fn(LinkIndex, &Link) -> Line,
) -> (FieldHandle, tokio::task::JoinSet<()>) {
    let mut tasks = tokio::task::JoinSet::new();
    let mut senders = Vec::new();
    for (index, link) in registry.links() {
        let (sender, calls) = mpsc::channel(CALLS_WAITING);
        senders.push(sender);
        let line = line_of(index, link);
        let mut task = LinkTask::new(Arc::clone(registry), index, Arc::clone(board), line, calls, at_least_every);
        task.pledge = progress.enrol(format!("link {}", link.id));
        tasks.spawn(task.run(stop.clone()));
    }
    (FieldHandle::new(Arc::clone(registry), senders), tasks)
}

/// The owner of one link.
pub(super) struct LinkTask {
    registry: Arc<Registry>,
    link: LinkIndex,
    board: Arc<Board>,
    line: Line,
    schedule: Schedule,
    calls: mpsc::Receiver<FreshRead>,
    waiting: Vec<FreshRead>,
    devices: HashMap<DeviceIndex, Health>,
    heartbeats: HashMap<DeviceIndex, HeartbeatWatch>,
    link_failures: u32,
    at_least_every: Duration,
    pub(super) pledge: Pledge,
}

/// What the task knows of a device of its link.
#[derive(Debug, Default)]
struct Health {
    /// Failures in a row; a device with any is offline.
    failures: u32,
    answered: bool,
    cause: Option<OfflineCause>,
    /// Sensors whose last read gave no value though the device answered.
    without_value: Vec<SensorIndex>,
}

impl LinkTask {
    pub(super) fn new(
        registry: Arc<Registry>,
        link: LinkIndex,
        board: Arc<Board>,
        line: Line,
        calls: mpsc::Receiver<FreshRead>,
        at_least_every: Duration,
    ) -> LinkTask {
        let schedule = Schedule::new(plan::plan_link(&registry, link), clock::instant());
        let devices = registry.link(link).devices.iter().map(|device| (*device, Health::default())).collect();
        let heartbeats = registry
            .link(link)
            .devices
            .iter()
            .filter_map(|device| Some((*device, HeartbeatWatch::new(registry.device(*device).heartbeat?))));
        let heartbeats = heartbeats.collect();
        LinkTask {
            heartbeats,
            registry,
            link,
            board,
            line,
            schedule,
            calls,
            waiting: Vec::new(),
            devices,
            link_failures: 0,
            at_least_every,
            pledge: Pledge::default(),
        }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) {
        loop {
            self.take_calls();
            let now = clock::instant();
            let step = self.schedule.next(now);
            self.pledge_for(&step, now);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.step(step) => {}
            }
        }
    }

    /// How long the next step takes at most; a request may be sent once more for each retry and for a closed connection.
    fn pledge_for(&self, step: &Next, now: Instant) {
        match step {
            Next::Read(_) => self.pledge.within(self.line.longest_ask() * (ATTEMPTS + 1)),
            Next::Wait(until) => self.pledge.within(until.saturating_duration_since(now)),
            Next::Idle => self.pledge.whenever(),
        }
    }

    async fn step(&mut self, step: Next) {
        match step {
            Next::Read(place) => self.ask(place).await,
            Next::Wait(until) => {
                tokio::select! {
                    call = self.calls.recv() => self.take_call_or_idle(call).await,
                    () = tokio::time::sleep_until(until.into()) => {}
                }
            }
            Next::Idle => {
                let call = self.calls.recv().await;
                self.take_call_or_idle(call).await;
            }
        }
    }

    fn take_calls(&mut self) {
        while let Ok(call) = self.calls.try_recv() {
            self.take_call(call);
        }
    }

    async fn take_call_or_idle(&mut self, call: Option<FreshRead>) {
        match call {
            Some(call) => self.take_call(call),
            // Every handle is gone, so the daemon is ending; polling goes on until it says stop.
            None => std::future::pending().await,
        }
    }

    /// Takes a call; one on a resting device is answered at once, since the board says all there is to say.
    fn take_call(&mut self, call: FreshRead) {
        let device = self.registry.sensor(call.sensor).device;
        if self.schedule.is_resting(device, clock::instant()) {
            let _ = call.done.send(());
            return;
        }
        self.schedule.wish(call.sensor);
        self.waiting.push(call);
    }

    /// Asks for one planned read, keeps the board true, and answers the calls that waited for it.
    async fn ask(&mut self, place: usize) {
        let read = self.schedule.read(place).clone();
        let started = clock::instant();
        let answer = self.ask_with_retry(&read).await;
        let now = clock::now();
        self.schedule.asked(place, started);
        let err = match answer {
            Ok((reply, read_at)) => return self.answered(&read, &reply, read_at, started),
            Err(err) => err,
        };
        debug!(link = %self.link_id(), device = %self.registry.device(read.device).id, error = %err, "no data");
        match err.fault() {
            Fault::Refused(_) | Fault::Busy(_) | Fault::DeviceFailed(_) => {
                self.refused(place, &read, err.fault(), now, started);
            }
            Fault::Offline(cause) => self.went_silent(read.device, cause, &err, now),
            // What only an answer can say.
            Fault::NoValue | Fault::NotANumber | Fault::Implausible | Fault::Jumped | Fault::Frozen => {}
        }
    }

    /// The only retry loop: a device that is known to answer is asked again at once, one that is absent is not.
    async fn ask_with_retry(&mut self, read: &PlannedRead) -> Result<(ReadReply, Stamp), AskError> {
        let unit = self.registry.device(read.device).unit;
        let attempts =
            if self.devices.get(&read.device).is_some_and(|health| health.failures > 0) { 1 } else { ATTEMPTS };
        let mut attempt = 1;
        loop {
            let answer = self.line.ask(unit, read.request).await;
            self.board.count_request(read.device, answer.is_err());
            match &answer {
                // A connection that a device closed while it was idle says nothing about the device.
                Err(AskError::Closed { reused: true }) if attempt == 1 => {}
                Err(err) if err.is_transient() && attempt < attempts => {}
                _ => return answer,
            }
            attempt += 1;
        }
    }

    fn answered(&mut self, read: &PlannedRead, reply: &ReadReply, read_at: Stamp, started: Instant) {
        let registry = Arc::clone(&self.registry);
        let watch = self.heartbeats.get_mut(&read.device);
        let frozen = watch.is_some_and(|watch| watch.heard(read.request, reply, read_at.instant));
        for index in &read.sensors {
            let sensor = registry.sensor(*index);
            let offset = sensor.read.address - read.request.address();
            let sample = words_of(reply, offset, sensor.read.count(), |words| match frozen {
                true => Err(Fault::Frozen),
                false => sensor.interpret(words, read_at),
            });
            match sample {
                Some(Ok(sample)) => {
                    let is_taken = self.board.sensor_answered(*index, sample, self.at_least_every);
                    self.note_value(*index, is_taken);
                }
                Some(Err(fault)) => {
                    self.board.sensor_failed(*index, fault, read_at);
                    self.note_value(*index, false);
                }
                None => debug!(sensor_id = %sensor.id, "the reply is shorter than the read, which its check rules out"),
            }
        }
        self.came_back(read.device, read_at, started);
        self.answer_calls(|index| read.sensors.contains(&index));
    }

    /// The device answered, but not with data: each sensor has its reason, and a merged read is asked in halves from now on.
    fn refused(&mut self, place: usize, read: &PlannedRead, fault: Fault, now: Stamp, started: Instant) {
        let busy = matches!(fault, Fault::Busy(_));
        match plan::split(&self.registry, read) {
            Some(halves) if !busy => {
                info!(device = %self.registry.device(read.device).id, table = %read.request.table(),
                    address = read.request.address(), count = read.request.count(), ?fault,
                    "a merged read was refused and is asked in two from now on");
                self.schedule.replace(place, halves, now.instant);
                let waiting = self.waiting.iter().filter(|call| read.sensors.contains(&call.sensor));
                waiting.for_each(|call| self.schedule.wish(call.sensor));
            }
            _ => {
                for index in &read.sensors {
                    self.board.sensor_failed(*index, fault, now);
                    self.note_value(*index, false);
                }
                if matches!(fault, Fault::Refused(_)) {
                    self.schedule.postpone(place, now.instant + REFUSED_AGAIN);
                }
                self.answer_calls(|index| read.sensors.contains(&index));
            }
        }
        self.came_back(read.device, now, started);
    }

    fn note_value(&mut self, index: SensorIndex, has_value: bool) {
        let sensor = self.registry.sensor(index);
        let Some(health) = self.devices.get_mut(&sensor.device) else { return };
        let known = health.without_value.iter().position(|known| *known == index);
        match (known, has_value) {
            (Some(place), true) => {
                health.without_value.swap_remove(place);
                info!(sensor_id = %sensor.id, device = %self.registry.device(sensor.device).id, "the sensor has a value again");
            }
            (None, false) => {
                health.without_value.push(index);
                let fault = self.board.look(index, |state| state.fault());
                let device = &self.registry.device(sensor.device).id;
                let error = fault.map(|fault| fault.reason(true));
                warn!(sensor_id = %sensor.id, %device, error, detail = ?fault, "the device answers, but has no value for the sensor");
            }
            _ => {}
        }
    }

    /// The device answered something at `at`, asked at `started`.
    fn came_back(&mut self, device: DeviceIndex, at: Stamp, started: Instant) {
        let Some(health) = self.devices.get_mut(&device) else { return };
        let was_away = health.failures > 0;
        let first = !health.answered;
        *health = Health {
            failures: 0,
            answered: true,
            cause: None,
            without_value: std::mem::take(&mut health.without_value),
        };
        let status = if health.without_value.is_empty() { DeviceStatus::Online } else { DeviceStatus::Degraded };
        self.board.update_device(device, at, |state| {
            state.status = status;
            state.last_answer = Some(at);
            state.last_latency = at.instant.saturating_duration_since(started);
        });
        if was_away || first {
            let name = &self.registry.device(device).id;
            let sensor_ids = sensor_ids(&self.registry, device);
            let again = if was_away { " again" } else { "" };
            info!(device = %name, link = %self.link_id(), sensor_ids, "the device answers{again}");
        }
        if was_away {
            self.schedule.wake(device, at.instant);
        }
        if std::mem::take(&mut self.link_failures) > 0 {
            self.wake_the_link(at.instant);
        }
    }

    /// The way is open again, so every device that was away for want of a way is asked now.
    fn wake_the_link(&mut self, now: Instant) {
        for (device, health) in &self.devices {
            if health.cause.is_some_and(OfflineCause::concerns_the_link) {
                self.schedule.wake(*device, now);
            }
        }
    }

    fn went_silent(&mut self, device: DeviceIndex, cause: OfflineCause, err: &AskError, now: Stamp) {
        if cause.concerns_the_link() {
            self.link_failures += 1;
            let rest = self.rest(self.link_failures, false);
            for device in self.registry.link(self.link).devices.clone() {
                self.set_offline(device, cause, err, now, rest);
            }
            return;
        }
        let others_alive =
            self.devices.iter().any(|(other, health)| *other != device && health.answered && health.failures == 0);
        let failures = self.devices.get(&device).map_or(0, |health| health.failures) + 1;
        let rest = self.rest(failures, others_alive);
        self.set_offline(device, cause, err, now, rest);
    }

    fn rest(&self, failures: u32, others_alive: bool) -> Duration {
        let longest = self.registry.link(self.link).retry_max;
        Rest { failures, cost: self.line.futile_cost(), others_alive, longest }.duration(rand::random())
    }

    fn set_offline(&mut self, device: DeviceIndex, cause: OfflineCause, err: &AskError, now: Stamp, rest: Duration) {
        let until = now.instant + rest;
        self.schedule.rest(device, until);
        let registry = Arc::clone(&self.registry);
        let name = &registry.device(device).id;
        let Some(health) = self.devices.get_mut(&device) else { return };
        if health.cause != Some(cause) {
            warn!(device = %name, link = %registry.link(self.link).id, error = cause.name(), detail = %chain(err),
                sensor_ids = sensor_ids(&registry, device), "the device is offline");
        }
        health.failures += 1;
        health.cause = Some(cause);
        for sensor in &registry.device(device).sensors {
            self.board.sensor_failed(*sensor, Fault::Offline(cause), now);
        }
        self.board.update_device(device, now, |state| {
            state.status = DeviceStatus::Offline { cause, next_try: Some(until) };
        });
        self.answer_calls(|index| registry.sensor(index).device == device);
    }

    /// Answers the calls whose sensor's state on the board is new, and forgets those that nobody waits for.
    fn answer_calls(&mut self, concerned: impl Fn(SensorIndex) -> bool) {
        let now = clock::instant();
        for call in std::mem::take(&mut self.waiting) {
            if concerned(call.sensor) {
                let _ = call.done.send(());
            } else if call.deadline > now && !call.done.is_closed() {
                self.waiting.push(call);
            }
        }
    }

    fn link_id(&self) -> &crate::ids::LinkId {
        &self.registry.link(self.link).id
    }
}

/// The sensors of a device, for the log.
fn sensor_ids(registry: &Registry, device: DeviceIndex) -> String {
    let ids: Vec<&str> =
        registry.device(device).sensors.iter().map(|index| registry.sensor(*index).id.as_str()).collect();
    ids.join(" ")
}

/// Hands the words of one sensor out of a reply; a bit becomes one word.
fn words_of<T>(reply: &ReadReply, offset: u16, count: u16, take: impl FnOnce(&[u16]) -> T) -> Option<T> {
    match reply {
        ReadReply::Registers(_) => reply.registers(offset, count).map(take),
        ReadReply::Bits(_) => reply.bit(offset).map(|bit| take(&[u16::from(bit)])),
    }
}
