//! The task that owns a link: it asks what the schedule says, and holds the only retry loop.
//!
//! What an answer means for the board, the devices and the plan stands in `outcome`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::handle::{FieldHandle, FreshRead};
use super::health::Health;
use super::line::{AskError, Line};
use super::plan::{self, PlannedRead};
use super::schedule::{Next, Schedule};
use crate::board::Board;
use crate::clock;
use crate::metrics::{Exchange, Outcome};
use crate::modbus::pdu::{ReadReply, Request};
use crate::policy::breaker::Admission;
use crate::policy::retry::Transient;
use crate::progress::{Pledge, Progress};
use crate::registry::reading::{OfflineCause, Stamp};
use crate::registry::{DeviceIndex, Link, LinkIndex, Registry, SensorIndex};

/// How many calls may wait at a link. One more is refused at once, which the caller sees as `RATE_LIMITED`: waiting for a
/// place would eat its deadline unseen.
const CALLS_WAITING: usize = 64;

/// A poll that waits for an answer is repeated within its period, or within so many time-outs where that is longer.
const TIMEOUTS_OF_A_POLL: u32 = 3;

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
    pub(super) registry: Arc<Registry>,
    pub(super) link: LinkIndex,
    pub(super) board: Arc<Board>,
    pub(super) schedule: Schedule,
    pub(super) waiting: Vec<FreshRead>,
    pub(super) devices: HashMap<DeviceIndex, Health>,
    pub(super) link_failures: u32,
    pub(super) at_least_every: Duration,
    line: Line,
    calls: mpsc::Receiver<FreshRead>,
    /// Reads that have been asked for and not answered yet, by device and first sensor; that of a heartbeat alone has none. Full is
    /// impossible: one for each read.
    tries: HashMap<(DeviceIndex, Option<SensorIndex>), Tries>,
    pub(super) pledge: Pledge,
}

/// What one read has cost so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tries {
    /// When it was first asked for.
    pub started: Instant,
    /// How often it was asked for.
    attempts: u32,
    /// How long that kept the line busy, the quiet after a silence included.
    pub spent: Duration,
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
        let health_of = |index: &DeviceIndex| (*index, Health::of(registry.device(*index)));
        let devices = registry.link(link).devices.iter().map(health_of).collect();
        LinkTask {
            registry,
            link,
            board,
            schedule,
            waiting: Vec::new(),
            devices,
            link_failures: 0,
            at_least_every,
            line,
            calls,
            tries: HashMap::new(),
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

    /// How long the next step takes at most. A search of many requests pledges anew for each.
    fn pledge_for(&self, step: &Next, now: Instant) {
        match step {
            Next::Read(_) => self.pledge_for_a_request(),
            Next::Wait(until) => self.pledge.within(until.saturating_duration_since(now)),
            Next::Idle => self.pledge.whenever(),
        }
    }

    /// A request may be sent once more for a closed connection.
    fn pledge_for_a_request(&self) {
        self.pledge.within(self.line.longest_ask() * 2);
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

    /// Asks for one planned read, unless its device rests.
    async fn ask(&mut self, place: usize) {
        let planned = self.schedule.read(place).clone();
        let Some(health) = self.devices.get_mut(&planned.device) else { return };
        let now = clock::instant();
        match health.breaker.admit(now) {
            Admission::Wait(pause) => self.schedule.rest(planned.device, now + pause),
            Admission::Pass => self.ask_for(place, planned, true).await,
            Admission::Probe => {
                // A device that was silent may be silent on long reads alone, and a short one tells.
                let is_silent = health.cause == Some(OfflineCause::ConnectedButSilent);
                let first = &planned.sensors[..planned.sensors.len().min(1)];
                let short = is_silent.then(|| plan::read_of(&self.registry, planned.device, first)).flatten();
                self.ask_for(place, short.unwrap_or(planned), false).await;
            }
        }
    }

    /// Asks for a read once. Without an answer it is asked for again later, if that is worth it and in time for whoever waits.
    async fn ask_for(&mut self, place: usize, read: PlannedRead, may_repeat: bool) {
        let key = (read.device, read.sensors.first().copied());
        let begun = clock::instant();
        let is_repeat = self.tries.contains_key(&key);
        let answer = self.ask_once(read.device, read.request, is_repeat).await;
        let now = clock::instant();
        let tries = self.tries.entry(key).or_insert(Tries { started: begun, attempts: 0, spent: Duration::ZERO });
        tries.attempts += 1;
        tries.spent += now - begun;
        let tries = *tries;
        if let Some(transient) = answer.as_ref().err().and_then(AskError::transient).filter(|_| may_repeat)
            && let Some(at) = self.again(&read, transient, tries, now)
        {
            self.hold_while_late(read.device);
            self.schedule.again(place, at);
            return;
        }
        self.tries.remove(&key);
        if self.schedule.read(place).request == read.request {
            self.schedule.asked(place, tries.started);
        }
        match answer {
            Ok((reply, read_at)) => {
                self.answered(&read, &reply, read_at, tries.started);
                self.identify(read.device).await;
            }
            Err(err) => {
                debug!(link = %self.link_id(), device = %self.registry.device(read.device).id, error = %err, "no data");
                self.failed(place, &read, &err, tries).await;
            }
        }
    }

    /// Until when a late answer of the device keeps it from being asked, if others can be asked meanwhile.
    fn late_until(&self, device: DeviceIndex) -> Option<Instant> {
        let is_shared = self.devices.len() > 1;
        self.line.late_until(self.registry.device(device).unit).filter(|_| is_shared)
    }

    /// Has others asked while a late answer of the device may still come.
    pub(super) fn hold_while_late(&mut self, device: DeviceIndex) {
        if let Some(late) = self.late_until(device) {
            self.schedule.hold(device, late);
        }
    }

    /// When a read is worth repeating, if it is: after its pause, and not before a late answer could be taken for the next one.
    fn again(&self, read: &PlannedRead, transient: Transient, tries: Tries, now: Instant) -> Option<Instant> {
        let deadline = self.deadline(read, tries.started);
        let at = transient.again(tries.attempts, now, deadline, rand::random())?;
        Some(self.late_until(read.device).map_or(at, |late| late.max(at))).filter(|at| *at < deadline)
    }

    /// Until when a read may be repeated: the calls that wait for it say, or else the poll.
    fn deadline(&self, read: &PlannedRead, started: Instant) -> Instant {
        let calls = self.waiting.iter().filter(|call| read.sensors.contains(&call.sensor)).map(|call| call.deadline);
        let of_the_poll = read.every.max(self.registry.link(self.link).timeout * TIMEOUTS_OF_A_POLL);
        calls.max().unwrap_or(started + of_the_poll)
    }

    /// One request. A connection that a device closed while it was idle says nothing about the device, so that it is asked on a
    /// new one at once.
    pub(super) async fn ask_once(
        &mut self,
        device: DeviceIndex,
        request: impl Into<Request>,
        is_repeat: bool,
    ) -> Result<(ReadReply, Stamp), AskError> {
        let request = request.into();
        self.pledge_for_a_request();
        let answer = self.ask_and_count(device, request, is_repeat).await;
        match answer {
            Err(AskError::Closed { reused: true }) => self.ask_and_count(device, request, true).await,
            answer => answer,
        }
    }

    async fn ask_and_count(
        &mut self,
        device: DeviceIndex,
        request: Request,
        is_repeat: bool,
    ) -> Result<(ReadReply, Stamp), AskError> {
        let begun = clock::instant();
        let answer = self.line.ask(self.registry.device(device).unit, request).await;
        let effort = self.line.effort();
        let meters = self.board.meters();
        if let Some(is_open) = effort.connected {
            meters.connected(self.link, is_open);
        }
        let outcome = answer.as_ref().map_or_else(AskError::outcome, |_| Some(Outcome::Data));
        if let (Some(outcome), Some(sent_at)) = (outcome, effort.sent_at) {
            let ended = clock::instant();
            let answered_at = answer.as_ref().map_or(ended, |(_, read_at)| read_at.instant);
            let (took, busy) = (answered_at - sent_at, ended - begun);
            let (sent, received) = (effort.sent, effort.received);
            meters.exchanged(self.link, device, &Exchange { outcome, is_repeat, sent, received, took, busy, ended });
        }
        answer
    }

    /// The reads of a device are others from now on, or not worth repeating.
    pub(super) fn forget_tries(&mut self, device: DeviceIndex) {
        self.tries.retain(|(of, _), _| *of != device);
    }

    /// Answers the calls whose sensor's state on the board is new, and forgets those that nobody waits for.
    pub(super) fn answer_calls(&mut self, concerned: impl Fn(SensorIndex) -> bool) {
        let now = clock::instant();
        for call in std::mem::take(&mut self.waiting) {
            if concerned(call.sensor) {
                let _ = call.done.send(());
            } else if call.deadline > now && !call.done.is_closed() {
                self.waiting.push(call);
            }
        }
    }

    pub(super) fn link_id(&self) -> &crate::ids::LinkId {
        &self.registry.link(self.link).id
    }
}
