//! What an answer, or none, means: for the board, for the health of the device, and for what is asked from now on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{debug, info, warn};

use super::health::rest_after;
use super::learnt::Pauses;
use super::line::AskError;
use super::link::{LinkTask, Tries};
use super::plan::{self, PlannedRead};
use super::search::{Findings, Search};
use crate::clock;
use crate::errors::chain;
use crate::modbus::exception::ExceptionCode;
use crate::modbus::identify::IdentifyRequest;
use crate::modbus::pdu::ReadReply;
use crate::policy::backoff::Rest;
use crate::registry::reading::{DeviceStatus, Fault, Identity, OfflineCause, RefusedSensor, Stamp};
use crate::registry::{DeviceIndex, Registry, SensorIndex};

/// A function that the device does not know is asked for again after this long: somebody may have changed the device.
const REFUSED_AGAIN: Duration = Duration::from_secs(60);

/// A device that failed while it read is asked for the same again after this long.
const FAILED_AGAIN: Duration = Duration::from_secs(2);

impl LinkTask {
    /// The device answered with data.
    pub(super) fn answered(&mut self, read: &PlannedRead, reply: &ReadReply, read_at: Stamp, started: Instant) {
        self.store(read, reply, read_at);
        let Some(health) = self.devices.get_mut(&read.device) else { return };
        let limit = health.long_reads.was_answered(read.request);
        let mut has_changed = false;
        for sensor in &read.sensors {
            has_changed |= health.learnt.answered(*sensor);
        }
        if let Some(limit) = limit {
            health.learnt.limit(read.request.table(), limit);
            self.hint_at_limit(read, limit, "silent on longer reads");
        }
        if has_changed || limit.is_some() {
            self.replan(read.device, read_at.instant);
        }
        self.came_back(read.device, read_at, started);
        self.answer_calls(|index| read.sensors.contains(&index));
    }

    fn store(&mut self, read: &PlannedRead, reply: &ReadReply, read_at: Stamp) {
        let registry = Arc::clone(&self.registry);
        let watch = self.devices.get_mut(&read.device).and_then(|health| health.heartbeat.as_mut());
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
                Some(Err(fault)) => self.has_no_value(*index, fault, read_at),
                None => debug!(sensor_id = %sensor.id, "the reply is shorter than the read, which its check rules out"),
            }
        }
    }

    /// There is no data, and no repetition is due.
    pub(super) async fn failed(&mut self, place: usize, read: &PlannedRead, err: &AskError, tries: Tries) {
        let now = clock::now();
        let fault = err.fault();
        match fault {
            Fault::Refused(_) | Fault::DeviceFailed(_) => self.refused(place, read, fault, now, tries.started).await,
            Fault::Busy(_) => {
                read.sensors.iter().for_each(|index| self.has_no_value(*index, fault, now));
                self.came_back(read.device, now, tries.started);
                self.answer_calls(|index| read.sensors.contains(&index));
            }
            Fault::Offline(cause) => {
                if let (AskError::Silent, Some(health)) = (err, self.devices.get_mut(&read.device)) {
                    health.long_reads.was_silent(read.request);
                }
                self.went_silent(read.device, cause, err, now, tries.spent);
            }
            // What only an answer can say.
            Fault::NoValue | Fault::NotANumber | Fault::Implausible | Fault::Jumped | Fault::Frozen => {}
        }
    }

    /// The device answered, but not with data. The sensor to blame is sought at once, and the others lose nothing.
    async fn refused(&mut self, place: usize, read: &PlannedRead, fault: Fault, now: Stamp, started: Instant) {
        let own = plan::read_of(&self.registry, read.device, &read.sensors);
        if own.is_some_and(|own| own.request != read.request) {
            return self.set_heartbeat_apart(read, now, started);
        }
        let is_of_the_function = fault == Fault::Refused(ExceptionCode::ILLEGAL_FUNCTION);
        let search = if is_of_the_function { None } else { Search::new(&self.registry, &read.sensors) };
        let findings = match search {
            Some(search) => self.search(read, search).await,
            None if is_of_the_function || !self.is_worth_remembering(read, fault) => {
                Findings { unread: read.sensors.clone(), ..Findings::default() }
            }
            None => {
                let any_answered = !read.sensors.is_empty();
                Findings { refused: read.sensors.clone(), any_answered, ..Findings::default() }
            }
        };
        let unasked = findings.unasked.clone();
        self.settle(place, read, fault, findings, now);
        self.came_back(read.device, now, started);
        self.answer_calls(|index| read.sensors.contains(&index) && !unasked.contains(&index));
        let still_waiting = self.waiting.iter().filter(|call| unasked.contains(&call.sensor));
        still_waiting.for_each(|call| self.schedule.wish(call.sensor));
    }

    /// A read that took the device's heartbeat along was refused. Its sensors are asked for again at once and without it, which
    /// tells whose fault it was.
    fn set_heartbeat_apart(&mut self, read: &PlannedRead, now: Stamp, started: Instant) {
        let Some(health) = self.devices.get_mut(&read.device) else { return };
        health.learnt.heartbeat_apart = true;
        self.replan(read.device, now.instant);
        read.sensors.iter().for_each(|sensor| self.schedule.wish(*sensor));
        self.came_back(read.device, now, started);
    }

    /// Whether a value that was refused alone is refused for its own sake: a device that fails may fail at anything.
    fn is_worth_remembering(&self, read: &PlannedRead, fault: Fault) -> bool {
        let learnt = self.devices.get(&read.device).map(|health| &health.learnt);
        let is_apart =
            read.sensors.first().is_some_and(|first| learnt.is_some_and(|learnt| learnt.apart(*first).is_some()));
        matches!(fault, Fault::Refused(_)) || is_apart
    }

    /// Seeks the bad register of a refused read; its good parts are this turn's readings. At most 20 requests, during which
    /// nothing else of the link is asked: a search that pauses would leave a block without values for seconds.
    async fn search(&mut self, read: &PlannedRead, mut search: Search) -> Findings {
        while let Some(probe) = search.next() {
            let part = PlannedRead { request: probe.request, sensors: probe.sensors, ..read.clone() };
            let is_good = match self.ask_once(read.device, part.request, false).await {
                Ok((reply, read_at)) => {
                    self.store(&part, &reply, read_at);
                    true
                }
                Err(err) if matches!(err.fault(), Fault::Refused(_) | Fault::DeviceFailed(_)) => false,
                // The next turn meets the same, and knows what to do about it.
                Err(_) => return search.gave_up(),
            };
            search = search.took(is_good);
        }
        search.into_findings()
    }

    /// Remembers what a search has found, and asks accordingly from now on.
    fn settle(&mut self, place: usize, read: &PlannedRead, fault: Fault, findings: Findings, now: Stamp) {
        let registry = Arc::clone(&self.registry);
        let device = &registry.device(read.device).id;
        let table = read.request.table();
        let is_failure = matches!(fault, Fault::DeviceFailed(_));
        // A device that fails at everything has no bad register, and neither has one that does not know the function.
        if !findings.any_answered && findings.unasked.is_empty() && (is_failure || findings.blames_nothing()) {
            read.sensors.iter().for_each(|index| self.has_no_value(*index, fault, now));
            self.schedule.postpone(place, now.instant + if is_failure { FAILED_AGAIN } else { REFUSED_AGAIN });
            return;
        }
        let without = findings.refused.iter().chain(&findings.overlapping).chain(&findings.unread);
        without.for_each(|index| self.has_no_value(*index, fault, now));
        let Some(health) = self.devices.get_mut(&read.device) else { return };
        let pauses = match is_failure {
            true => Pauses::failed(registry.link(self.link).retry_max),
            false => Pauses::REFUSED,
        };
        for index in &findings.refused {
            let is_new = health.learnt.apart(*index).is_none();
            health.learnt.refused(*index, pauses, now.instant);
            if is_new {
                let sensor = registry.sensor(*index);
                warn!(%device, sensor_id = %sensor.id, %table, address = sensor.read.address, ?fault,
                    "the device refuses this sensor, which is read apart from its neighbours from now on");
            }
        }
        findings.overlapping.iter().for_each(|index| health.learnt.set_apart(*index, true, now.instant));
        for hole in &findings.holes {
            health.learnt.holes.push((table, hole.clone()));
            info!(%device, %table, first = hole.start, last = hole.end - 1, ?fault,
                "the device refuses reads across these registers; hint: write them into [[device.forbidden]]");
        }
        if let Some(limit) = findings.limit {
            health.learnt.limit(table, limit);
            self.hint_at_limit(read, limit, "refuses longer reads");
        }
        if !findings.blames_nothing() {
            self.replan(read.device, now.instant);
        }
    }

    fn hint_at_limit(&self, read: &PlannedRead, limit: u16, why: &str) {
        let key = if read.request.table().is_bits() { "max_bits" } else { "max_registers" };
        info!(device = %self.registry.device(read.device).id, table = %read.request.table(),
            "the device gives at most {limit} at once, it is {why}; hint: write {key} = {limit}");
    }

    /// Plans the reads of a device anew with what it has revealed.
    fn replan(&mut self, device: DeviceIndex, now: Instant) {
        self.forget_tries(device);
        let Some(health) = self.devices.get(&device) else { return };
        let learnt = &health.learnt;
        let reads = plan::plan(&self.registry, device, learnt);
        self.schedule.replan(device, reads, now, |read| {
            read.sensors.first().and_then(|first| learnt.apart(*first)).map(|apart| apart.next_try)
        });
    }

    fn has_no_value(&mut self, index: SensorIndex, fault: Fault, at: Stamp) {
        self.board.sensor_failed(index, fault, at);
        self.note_value(index, false);
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
                let detail = fault.map(|fault| format!("{fault:?}"));
                warn!(sensor_id = %sensor.id, %device, error, detail, "the device answers, but has no value for the sensor");
            }
            _ => {}
        }
    }

    /// The device answered something at `at`, asked at `started`.
    fn came_back(&mut self, device: DeviceIndex, at: Stamp, started: Instant) {
        let Some(health) = self.devices.get_mut(&device) else { return };
        let was_away = health.breaker.succeeded();
        let is_first = !std::mem::replace(&mut health.answered, true);
        health.cause = None;
        let status = if health.without_value.is_empty() { DeviceStatus::Online } else { DeviceStatus::Degraded };
        let refused = self.refused_sensors(device);
        let Some(health) = self.devices.get(&device) else { return };
        self.board.update_device(device, at, |state| {
            state.status = status;
            state.last_answer = Some(at);
            state.last_latency = at.instant.saturating_duration_since(started);
            state.refused = refused;
            state.learnt_max_registers = health.learnt.max_registers;
            state.learnt_max_bits = health.learnt.max_bits;
        });
        if was_away || is_first {
            let name = &self.registry.device(device).id;
            let sensor_ids = sensor_ids(&self.registry, device);
            let again = if was_away { " again" } else { "" };
            info!(device = %name, link = %self.link_id(), sensor_ids, "the device answers{again}");
        }
        if was_away {
            self.schedule.wake(device, at.instant);
            if let Some(health) = self.devices.get_mut(&device) {
                health.learnt.device_is_back(at.instant);
                health.wants_identity = self.registry.device(device).identify;
            }
        }
        if std::mem::take(&mut self.link_failures) > 0 {
            self.wake_the_link(at.instant);
        }
    }

    /// Asks a device what it is, once after it has (come back and) answered: it may be another one than before.
    pub(super) async fn identify(&mut self, device: DeviceIndex) {
        let Some(health) = self.devices.get_mut(&device) else { return };
        if !std::mem::take(&mut health.wants_identity) {
            return;
        }
        let mut identity = Identity::default();
        let mut first = 0;
        // A device that has more to say than three objects goes on about itself for ever.
        for _ in 0..3 {
            let answer = self.ask_once(device, IdentifyRequest::from_object(first), false).await;
            let objects = match &answer {
                Ok((ReadReply::Identification(objects), _)) => objects,
                Ok(_) => return,
                Err(err) => {
                    info!(device = %self.registry.device(device).id, error = %chain(err),
                        "the device does not say what it is; hint: remove identify");
                    // What it said before may have been another device.
                    self.board.update_device(device, clock::now(), |state| state.identity = None);
                    self.hold_while_late(device);
                    return;
                }
            };
            objects.objects().for_each(|(id, text)| identity.take(id, text));
            match objects.next().filter(|next| *next > first) {
                Some(next) => first = next,
                None => break,
            }
        }
        let Identity { vendor, product, revision } = &identity;
        info!(device = %self.registry.device(device).id, vendor, product, revision, "the device says what it is");
        self.board.update_device(device, clock::now(), |state| state.identity = Some(Arc::new(identity)));
    }

    /// The sensors that the device refuses, as the board shows them.
    fn refused_sensors(&self, device: DeviceIndex) -> Vec<RefusedSensor> {
        let apart = self.devices.get(&device).into_iter().flat_map(|health| health.learnt.all_apart());
        let shown = apart.filter(|apart| apart.refusals > 0).filter_map(|apart| {
            let fault = self.board.look(apart.sensor, |state| state.fault())?;
            Some(RefusedSensor { sensor: apart.sensor, fault, next_try: apart.next_try })
        });
        shown.collect()
    }

    /// The way is open again, so every device that was away for want of a way is asked now.
    fn wake_the_link(&mut self, now: Instant) {
        for (device, health) in &mut self.devices {
            if health.cause.is_some_and(OfflineCause::concerns_the_link) {
                health.breaker.cut_short(now);
                self.schedule.wake(*device, now);
            }
        }
    }

    /// A device did not answer, after a try that kept the line busy for so long; or there is no way to any of them.
    fn went_silent(&mut self, device: DeviceIndex, cause: OfflineCause, err: &AskError, now: Stamp, spent: Duration) {
        let longest = self.registry.link(self.link).retry_max;
        if cause.concerns_the_link() {
            self.link_failures += 1;
            let rest = Rest { failures: self.link_failures, cost: spent, others_alive: false, longest };
            let pause = rest_after(cause, rest, rand::random());
            for device in self.registry.link(self.link).devices.clone() {
                self.set_offline(device, cause, err, now, |_| pause);
            }
            return;
        }
        let others_alive = self.devices.iter().any(|(other, health)| *other != device && health.is_alive());
        let rest = |failures| Rest { failures, cost: spent, others_alive, longest };
        self.set_offline(device, cause, err, now, |failures| rest_after(cause, rest(failures), rand::random()));
    }

    fn set_offline(
        &mut self,
        device: DeviceIndex,
        cause: OfflineCause,
        err: &AskError,
        now: Stamp,
        rest: impl FnOnce(u32) -> Duration,
    ) {
        let registry = Arc::clone(&self.registry);
        let name = &registry.device(device).id;
        let Some(health) = self.devices.get_mut(&device) else { return };
        let until = health.breaker.failed(now.instant, rest);
        let is_news = health.cause.replace(cause) != Some(cause);
        self.schedule.rest(device, until);
        self.forget_tries(device);
        if is_news {
            warn!(device = %name, link = %registry.link(self.link).id, error = cause.name(), detail = %chain(err),
                sensor_ids = sensor_ids(&registry, device), "the device is offline");
        }
        for sensor in &registry.device(device).sensors {
            self.board.sensor_failed(*sensor, Fault::Offline(cause), now);
        }
        self.board.update_device(device, now, |state| {
            state.status = DeviceStatus::Offline { cause, next_try: Some(until) };
        });
        self.answer_calls(|index| registry.sensor(index).device == device);
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
        ReadReply::Identification(_) => None,
    }
}
