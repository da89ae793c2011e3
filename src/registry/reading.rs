//! A value with its time, or a typed reason why there is none.
//!
//! [`Sample`] keeps its value private. The only way to it is [`Sample::at`], which gives the value *together with its age*,
//! and the only way to a value fit for an answer is [`SensorState::fresh`], which gives an [`Aged`] no older than allowed or
//! says why not. So no path can hand out a value without its age, or an old value as a new one.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rust_decimal::Decimal;

use crate::modbus::exception::ExceptionCode;
use crate::quantity::Value;
use crate::registry::SensorIndex;

/// A moment by both clocks: ages come from the monotonic one, timestamps for people from the wall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The monotonic clock.
    pub instant: Instant,
    /// The wall clock at the same moment.
    pub wall: SystemTime,
}

/// What a device answered for one sensor, and when.
///
/// Its value cannot be had without its age:
///
/// ```compile_fail
/// fn value_alone(sample: &fieldgate::registry::reading::Sample) -> &fieldgate::quantity::Value {
///     &sample.value // private: `sample.at(now)` gives the value together with its age
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    value: Value,
    words: Words,
    in_range: bool,
    read_at: Stamp,
    seq: u64,
}

impl Sample {
    /// A sample whose device answered at `read_at` with these words. A single bit is one word, 0 or 1.
    pub fn new(value: Value, words: &[u16], in_range: bool, read_at: Stamp) -> Sample {
        Sample { value, words: Words::of(words), in_range, read_at, seq: 0 }
    }

    /// When the device answered.
    pub fn read_at(&self) -> Stamp {
        self.read_at
    }

    /// The value, with its age at `now`.
    pub fn at(&self, now: Instant) -> Aged<'_> {
        Aged { sample: self, age: now.saturating_duration_since(self.read_at.instant) }
    }
}

/// The registers of one value. All but texts have four at most, and so cost no allocation at each poll.
#[derive(Clone, Debug, PartialEq)]
enum Words {
    Few { words: [u16; 4], count: u8 },
    Many(Box<[u16]>),
}

impl Words {
    fn of(given: &[u16]) -> Words {
        let mut words = [0; 4];
        match words.get_mut(..given.len()) {
            Some(places) => {
                places.copy_from_slice(given);
                Words::Few { words, count: given.len() as u8 }
            }
            None => Words::Many(given.into()),
        }
    }

    fn as_slice(&self) -> &[u16] {
        match self {
            Words::Few { words, count } => words.get(..usize::from(*count)).unwrap_or(words),
            Words::Many(words) => words,
        }
    }
}

/// A value and its age, which cannot be parted.
#[derive(Clone, Copy, Debug)]
pub struct Aged<'a> {
    sample: &'a Sample,
    age: Duration,
}

impl<'a> Aged<'a> {
    /// The engineering value.
    pub fn value(&self) -> &'a Value {
        &self.sample.value
    }

    /// The registers as they came, or one word of 0 or 1 for a bit.
    pub fn words(&self) -> &'a [u16] {
        self.sample.words.as_slice()
    }

    /// How old the value is.
    pub fn age(&self) -> Duration {
        self.age
    }

    /// When the device answered.
    pub fn read_at(&self) -> Stamp {
        self.sample.read_at
    }

    /// Whether the value lies in the engineering range.
    pub fn in_range(&self) -> bool {
        self.sample.in_range
    }

    /// Whether both say the same: the same words, in range or not.
    pub fn says_the_same(&self, other: &Sample) -> bool {
        self.sample.words == other.words && self.sample.in_range == other.in_range
    }

    /// The running number of the reading of this sensor since the start.
    pub fn seq(&self) -> u64 {
        self.sample.seq
    }
}

/// Why a device cannot be reached, as far as the gateway can tell (contract, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OfflineCause {
    /// The host refuses the connection.
    Refused,
    /// There is no way to the host, or its name is not known.
    NoRoute,
    /// The host takes connections, or the port is open, but no answer comes.
    ConnectedButSilent,
    /// A gateway in between says that the unit does not answer (exception 11).
    UnitSilentBehindGateway,
    /// A gateway in between has no path to the unit (exception 10): its configuration does not know it.
    NoPathBehindGateway,
    /// Answers come, but damaged ones.
    LineNoise,
    /// The serial port is not there, or cannot be opened.
    PortGone,
}

impl OfflineCause {
    /// Its name in the contract.
    pub fn name(self) -> &'static str {
        match self {
            OfflineCause::Refused => "refused",
            OfflineCause::NoRoute => "no_route",
            OfflineCause::ConnectedButSilent => "connected_but_silent",
            OfflineCause::UnitSilentBehindGateway => "unit_silent_behind_gateway",
            OfflineCause::NoPathBehindGateway => "no_path_behind_gateway",
            OfflineCause::LineNoise => "line_noise",
            OfflineCause::PortGone => "port_gone",
        }
    }

    /// Whether the cause concerns every device of the link.
    pub fn concerns_the_link(self) -> bool {
        matches!(self, OfflineCause::Refused | OfflineCause::NoRoute | OfflineCause::PortGone)
    }
}

/// Why the last try to read a sensor gave no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The device cannot be reached.
    Offline(OfflineCause),
    /// The device says that the register does not exist or may not be read so (exceptions 1, 2, 3).
    Refused(ExceptionCode),
    /// The device says that it is busy (exceptions 5, 6).
    Busy(ExceptionCode),
    /// The device failed while it read the register (exception 4 and rarer ones).
    DeviceFailed(ExceptionCode),
    /// The device answered with its code for "no value".
    NoValue,
    /// The device answered with a float that is no number, or with bytes that are no text.
    NotANumber,
    /// The device answered with a value outside of what the plant says can be.
    Implausible,
    /// The device answered with a value further from the last than it can have moved since.
    Jumped,
    /// The device answers, but its heartbeat has stood still for too long: what it answers may be old.
    Frozen,
}

impl Fault {
    /// The reason in a published reading (contract, section 4), where there was a good value before or not.
    pub fn reason(self, ever_read: bool) -> &'static str {
        match self {
            Fault::Offline(_) if ever_read => "comm_failure",
            Fault::Offline(_) => "no_data",
            Fault::Refused(_) => "config_error",
            Fault::Busy(_) => "device_busy",
            Fault::DeviceFailed(_) => "device_failure",
            Fault::NoValue | Fault::NotANumber | Fault::Implausible | Fault::Jumped => "sensor_failure",
            Fault::Frozen => "stale",
        }
    }
}

/// What is known of a sensor now.
#[derive(Clone, Debug, Default)]
pub struct SensorState {
    last: Option<Sample>,
    fault: Option<(Fault, Stamp)>,
    /// A sample that came too far from the last one, until the next read confirms it or not.
    suspect: Option<Box<Sample>>,
    seq: u64,
}

/// Why a sensor has no value to give. There is nothing between this and an [`Aged`] value.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub enum NoValueNow<'a> {
    /// The sensor has not been read since the start.
    #[error("not read since the start")]
    NeverRead,
    /// The last try failed.
    #[error("the last try failed")]
    Failed {
        /// How.
        fault: Fault,
        /// Since when it has been failing so.
        since: Stamp,
        /// The last value, which is no answer.
        last: Option<Aged<'a>>,
    },
    /// There is a value, but an older one than allowed.
    #[error("older than allowed")]
    Stale {
        /// The value, which is no answer.
        last: Aged<'a>,
    },
}

impl SensorState {
    /// Whether a sample may follow the last one, for a sensor that moves no faster than `max_rate` (units per second).
    ///
    /// One sample that came too far is refused: that is what a register torn between two moments looks like. If the next
    /// one agrees with it, the value has really moved, and is taken. Two reads within a second may be a second's way apart.
    pub fn admits(&mut self, sample: &Sample, max_rate: Option<Decimal>) -> bool {
        let Some(max_rate) = max_rate else { return true };
        let follows = |known: &Sample| {
            let apart = sample.read_at.instant.saturating_duration_since(known.read_at.instant);
            let millis = i64::try_from(apart.as_millis()).unwrap_or(i64::MAX).max(1000);
            let reach = max_rate.checked_mul(Decimal::new(millis, 3));
            reach.is_none_or(|reach| !sample.value.is_further_than(&known.value, reach))
        };
        let admitted = self.last.as_ref().is_none_or(follows) || self.suspect.as_deref().is_some_and(follows);
        self.suspect = (!admitted).then(|| Box::new(sample.clone()));
        admitted
    }

    /// Takes an answer of the device.
    pub fn answered(&mut self, mut sample: Sample) {
        self.seq += 1;
        sample.seq = self.seq;
        self.last = Some(sample);
        self.fault = None;
    }

    /// Takes a failure. The last value is kept apart; `since` of the same failure stays the first one's.
    pub fn failed(&mut self, fault: Fault, at: Stamp) {
        match self.fault {
            Some((known, _)) if known == fault => {}
            Some((Fault::Offline(_), since)) if matches!(fault, Fault::Offline(_)) => self.fault = Some((fault, since)),
            _ => self.fault = Some((fault, at)),
        }
    }

    /// The value, if the last try gave one and it is no older than `max_age`.
    pub fn fresh(&self, now: Instant, max_age: Duration) -> Result<Aged<'_>, NoValueNow<'_>> {
        let last = self.last.as_ref().map(|sample| sample.at(now));
        match (self.fault, last) {
            (Some((fault, since)), last) => Err(NoValueNow::Failed { fault, since, last }),
            (None, None) => Err(NoValueNow::NeverRead),
            (None, Some(last)) if last.age() > max_age => Err(NoValueNow::Stale { last }),
            (None, Some(last)) => Ok(last),
        }
    }

    /// The last value, whatever came since: to compare with, and no answer.
    pub(crate) fn last_value(&self) -> Option<&Value> {
        self.last.as_ref().map(|last| &last.value)
    }

    /// Whether the last try failed, and how.
    pub fn fault(&self) -> Option<Fault> {
        self.fault.map(|(fault, _)| fault)
    }
}

/// Whether a device answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceStatus {
    /// Not asked yet since the start.
    #[default]
    Unknown,
    /// The last request was answered, and every sensor of it has a value.
    Online,
    /// It answers, but for some sensors with a refusal or without a value.
    Degraded,
    /// It cannot be reached.
    Offline {
        /// Why not.
        cause: OfflineCause,
        /// When it will be tried again; `None` when that is up to the link.
        next_try: Option<Instant>,
    },
}

impl DeviceStatus {
    /// Its name in the contract; a device that was not asked yet is offline: pain 3, it is online after a good answer.
    pub fn name(self) -> &'static str {
        match self {
            DeviceStatus::Online => "online",
            DeviceStatus::Degraded => "degraded",
            DeviceStatus::Unknown | DeviceStatus::Offline { .. } => "offline",
        }
    }
}

/// What is known of a device now.
#[derive(Clone, Debug, Default)]
pub struct DeviceState {
    /// Whether it answers.
    pub status: DeviceStatus,
    /// Since when it has had this status; `None` before the first request.
    pub since: Option<Stamp>,
    /// When it last answered anything.
    pub last_answer: Option<Stamp>,
    /// How long the last answer took.
    pub last_latency: Duration,
    /// Sensors that it refuses, and that are read apart from their neighbours.
    pub refused: Vec<RefusedSensor>,
    /// What it says that it is, if it was asked and said so.
    pub identity: Option<Arc<Identity>>,
    /// The most registers that it gives at once, if that was found out.
    pub learnt_max_registers: Option<u16>,
    /// The most bits that it gives at once, if that was found out.
    pub learnt_max_bits: Option<u16>,
}

/// What a device says that it is (V1.1b3, section 6.21). Texts as they came, without what cannot be printed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Identity {
    /// Who made it.
    pub vendor: String,
    /// Its product code.
    pub product: String,
    /// Its revision.
    pub revision: String,
}

impl Identity {
    /// Takes one object of an identification: 0 vendor, 1 product code, 2 revision. Others are not kept.
    pub fn take(&mut self, id: u8, text: &[u8]) {
        let place = match id {
            0 => &mut self.vendor,
            1 => &mut self.product,
            2 => &mut self.revision,
            _ => return,
        };
        let readable: String = String::from_utf8_lossy(text).chars().filter(|c| !c.is_control()).collect();
        *place = readable.trim().to_owned();
    }
}

/// A sensor that its device refuses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RefusedSensor {
    /// Which one.
    pub sensor: SensorIndex,
    /// How.
    pub fault: Fault,
    /// When it is tried again.
    pub next_try: Instant,
}

impl DeviceState {
    /// Whether it is left alone until its next try.
    pub fn is_resting(&self, now: Instant) -> bool {
        matches!(self.status, DeviceStatus::Offline { next_try: Some(next_try), .. } if next_try > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(instant: Instant) -> Stamp {
        Stamp { instant, wall: SystemTime::UNIX_EPOCH }
    }

    fn sample(number: i128, at: Instant) -> Sample {
        Sample::new(Value::Integer(number), &[number as u16], true, stamp(at))
    }

    /// Offers `(second, number)` to a sensor that moves at most 2 a second, and says which were taken.
    fn taken(offered: &[(u64, i128)]) -> Vec<bool> {
        let start = Instant::now();
        let mut state = SensorState::default();
        let offer = |(second, number): &(u64, i128)| {
            let sample = sample(*number, start + Duration::from_secs(*second));
            let admitted = state.admits(&sample, Some(Decimal::TWO));
            if admitted {
                state.answered(sample);
            }
            admitted
        };
        offered.iter().map(offer).collect()
    }

    #[test]
    fn case_c12_a_single_sample_that_leaps_is_refused_and_a_real_step_is_taken_at_the_next_read() {
        assert_eq!(taken(&[(0, 0), (1, 2), (2, 131_071), (3, 4)]), [true, true, false, true]);
        assert_eq!(taken(&[(0, 0), (1, 500), (2, 501), (3, 502)]), [true, false, true, true]);
        assert_eq!(taken(&[(0, 0), (1, 500), (2, 9000), (3, 700)]), [true, false, false, false]);
    }

    #[test]
    fn case_c49_an_age_is_the_monotonic_clocks_whatever_the_wall_does_meanwhile() {
        let start = Instant::now();
        let days = Duration::from_secs(14 * 24 * 3600);
        for wall in [SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + days, SystemTime::UNIX_EPOCH + days * 1_500] {
            let mut state = SensorState::default();
            state.answered(Sample::new(Value::Integer(7), &[7], true, Stamp { instant: start, wall }));
            let age_after = |seconds| {
                state.fresh(start + Duration::from_secs(seconds), Duration::from_secs(3)).ok().map(|aged| aged.age())
            };
            assert_eq!(age_after(2), Some(Duration::from_secs(2)));
            assert_eq!(age_after(4), None);
        }
    }

    #[test]
    fn a_value_may_have_moved_far_while_nobody_looked() {
        assert_eq!(taken(&[(0, 0), (10, 20), (20, 41), (100, 180)]), [true, true, false, true]);
        let start = Instant::now();
        let mut state = SensorState::default();
        state.answered(sample(0, start));
        assert!(state.admits(&sample(2, start + Duration::from_millis(5)), Some(Decimal::TWO)), "within a second");
        assert!(state.admits(&sample(900, start), None), "a sensor without a rate");
    }

    #[test]
    fn a_value_older_than_allowed_is_no_answer() {
        let start = Instant::now();
        let mut state = SensorState::default();
        assert!(matches!(state.fresh(start, Duration::MAX), Err(NoValueNow::NeverRead)));
        state.answered(sample(7, start));
        let later = start + Duration::from_secs(3);
        assert_eq!(state.fresh(later, Duration::from_secs(3)).expect("fresh").age(), Duration::from_secs(3));
        let too_late = later + Duration::from_millis(1);
        assert!(matches!(state.fresh(too_late, Duration::from_secs(3)), Err(NoValueNow::Stale { .. })));
    }

    #[test]
    fn a_failure_hides_the_value_at_once_and_keeps_it_apart() {
        let start = Instant::now();
        let mut state = SensorState::default();
        state.answered(sample(7, start));
        let silent = Fault::Offline(OfflineCause::ConnectedButSilent);
        state.failed(silent, stamp(start + Duration::from_secs(1)));
        state.failed(silent, stamp(start + Duration::from_secs(2)));
        let Err(NoValueNow::Failed { fault, since, last }) = state.fresh(start, Duration::MAX) else {
            panic!("a failed sensor has no value");
        };
        assert_eq!(fault, silent);
        assert_eq!(since.instant, start + Duration::from_secs(1), "offline since the first failure");
        assert_eq!(last.map(|last| last.value().clone()), Some(Value::Integer(7)));
        state.answered(sample(8, start + Duration::from_secs(3)));
        assert!(state.fresh(start, Duration::MAX).is_ok());
    }
}
