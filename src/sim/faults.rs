//! Faults by chance: what becomes of an answer on its way back to the gateway.
//!
//! Pure: the answer and the time go in, what is to be done comes out, and the dice are seeded. [`super::wire`] carries it
//! out over TCP, on serial lines and in memory alike. At most one fault happens to one answer, so that the probabilities
//! of a device add up, and a share of 20 % is one answer in five.

mod kind;

use std::collections::HashMap;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

pub use kind::{FaultKind, Span};

use super::frames::{Framing, RequestFrame};
use super::outbox::Piece;
use super::plant::Asked;
use crate::modbus::Table;

/// The codes of `exception` without a code: all that the standard names.
const EXCEPTIONS: [u8; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 10, 11];

/// A line that goes away is back after this long, unless the rule says otherwise.
const AWAY: Duration = Duration::from_secs(3);

/// How many first answers `frozen` can keep. Further registers stay alive.
const FROZEN: usize = 4096;

/// Whom a rule concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Answers of one unit of the link.
    Unit(u8),
    /// Answers of every unit of the link.
    Link,
}

/// A fault that happens with a probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Whom it concerns.
    pub target: Target,
    /// What happens.
    pub kind: FaultKind,
    /// How often, from 0 to 1.
    pub probability: f64,
    /// How long it takes, for the kinds that take time.
    pub duration: Option<Duration>,
    /// The exception code; any of them, if none is given.
    pub code: Option<u8>,
}

/// What a device does with a request that it does not take, as a property and not by chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It says so, with this exception.
    Exception(u8),
    /// It says nothing.
    Silence,
}

/// What is done with an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// These pieces are sent, after a pause.
    Send {
        /// The pause before the first piece.
        after: Duration,
        /// The pieces, in order.
        pieces: Vec<Piece>,
    },
    /// The connection is closed, when what was to be sent at once is sent.
    Close,
    /// The connection stays open, but after this nothing comes through it any more in either direction.
    Deafen,
    /// The line is away for so long: its connections are closed, and none can be made.
    GoAway(Duration),
}

/// What has happened since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that came.
    pub requests: u64,
    /// Faults of each kind, in the order of [`FaultKind::ALL`].
    pub faults: [u64; FaultKind::ALL.len()],
}

impl Counts {
    /// Faults of all kinds.
    pub fn faults_in_all(&self) -> u64 {
        self.faults.iter().sum()
    }
}

/// The dice of one link.
#[derive(Debug)]
pub struct Injector {
    framing: Framing,
    /// How long the gateway waits on this link; late is what comes after it.
    timeout: Duration,
    dice: SmallRng,
    rules: Vec<Rule>,
    limits: HashMap<u8, (u16, Refusal)>,
    lacking: Vec<(u8, Table, u16, u16)>,
    connections: Option<u32>,
    away_until: Duration,
    last: Option<Vec<u8>>,
    frozen: HashMap<(u8, Table, u16, u16), Vec<u8>>,
    counts: Counts,
}

impl Injector {
    /// A link without faults.
    pub fn new(framing: Framing, timeout: Duration, seed: u64) -> Injector {
        Injector {
            framing,
            timeout,
            dice: SmallRng::seed_from_u64(seed),
            rules: Vec::new(),
            limits: HashMap::new(),
            lacking: Vec::new(),
            connections: None,
            away_until: Duration::ZERO,
            last: None,
            frozen: HashMap::new(),
            counts: Counts::default(),
        }
    }

    /// What has happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The rules, in the order in which they came.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Adds a rule, in place of one of the same kind for the same target. A sum above 1 is refused.
    pub fn set(&mut self, rule: Rule) -> Result<(), String> {
        if self.framing == Framing::Rtu && rule.kind.needs_connections() {
            return Err(format!("a serial line has no `{}`; that is for TCP", rule.kind));
        }
        let mut rules = self.rules.clone();
        rules.retain(|known| (known.target, known.kind) != (rule.target, rule.kind));
        rules.push(rule);
        let units = rules.iter().map(|rule| rule.target);
        let fullest = units.map(|target| sum(&rules, target)).fold(0.0, f64::max);
        if fullest > 1.0 + 1e-9 {
            return Err(format!("the faults would add up to {fullest}, and 1 is the most: one answer has one fault"));
        }
        self.rules = rules;
        Ok(())
    }

    /// Ends one kind of fault, or all of them, for a target. With `Link` also those of its units.
    pub fn clear(&mut self, target: Target, kind: Option<FaultKind>) {
        self.rules.retain(|rule| {
            let meant = target == Target::Link || rule.target == target;
            !(meant && kind.is_none_or(|kind| kind == rule.kind))
        });
    }

    /// Limits what one request to a unit may read; 0 ends it.
    pub fn limit(&mut self, unit: u8, most: u16, refusal: Refusal) {
        match most {
            0 => drop(self.limits.remove(&unit)),
            most => drop(self.limits.insert(unit, (most, refusal))),
        }
    }

    /// Takes registers from a unit: reads that touch one of them are refused with exception 2.
    pub fn lack(&mut self, unit: u8, table: Table, first: u16, last: u16) {
        self.lacking.push((unit, table, first, last));
    }

    /// Gives the unit all of its registers back.
    pub fn lack_nothing(&mut self, unit: u8) {
        self.lacking.retain(|(known, ..)| *known != unit);
    }

    /// Limits the number of connections.
    pub fn limit_connections(&mut self, most: Option<u32>) {
        self.connections = most;
    }

    /// Whether one more connection is taken, beside those that are open.
    pub fn admits(&mut self, open: u32, now: Duration) -> bool {
        if self.is_away(now) || self.connections.is_some_and(|most| open >= most) {
            return false;
        }
        let refused = self.probability_of(FaultKind::Refused);
        if refused > 0.0 && self.dice.random_bool(refused.min(1.0)) {
            self.count(FaultKind::Refused);
            return false;
        }
        true
    }

    /// Whether the line is away.
    pub fn is_away(&self, now: Duration) -> bool {
        self.away_until > now
    }

    /// Counts a request, whether it will be answered or not.
    pub fn asked(&mut self) {
        self.counts.requests += 1;
    }

    /// What becomes of an answer.
    pub fn decide(&mut self, request: &RequestFrame, answer: &[u8], now: Duration) -> Vec<Action> {
        let refusal = request.asked().and_then(|asked| self.refusal(request.unit(), asked));
        let refused = match refusal {
            Some(Refusal::Silence) => return Vec::new(),
            Some(Refusal::Exception(code)) => Some(request.exception(code)),
            None => None,
        };
        let answer = refused.as_deref().unwrap_or(answer);
        let actions = match self.choose(request.unit()) {
            Some(rule) => {
                self.count(rule.kind);
                self.perform(rule, request, answer, now)
            }
            None => vec![at_once(answer.to_vec())],
        };
        self.remember(request, answer);
        actions
    }

    fn refusal(&self, unit: u8, asked: Asked) -> Option<Refusal> {
        if let Some((most, refusal)) = self.limits.get(&unit)
            && asked.count > *most
        {
            return Some(*refusal);
        }
        let end = u32::from(asked.address) + u32::from(asked.count);
        let touches = |(of, table, first, last): &(u8, Table, u16, u16)| {
            *of == unit && *table == asked.table && u32::from(*first) < end && asked.address <= *last
        };
        self.lacking.iter().any(touches).then_some(Refusal::Exception(2))
    }

    /// Throws the dice once for all rules, so that at most one of them applies.
    fn choose(&mut self, unit: u8) -> Option<Rule> {
        if self.rules.is_empty() {
            return None;
        }
        let mut thrown: f64 = self.dice.random();
        let concerned = |rule: &&Rule| {
            (rule.target == Target::Link || rule.target == Target::Unit(unit)) && rule.kind != FaultKind::Refused
        };
        for rule in self.rules.iter().filter(concerned) {
            if thrown < rule.probability {
                return Some(*rule);
            }
            thrown -= rule.probability;
        }
        None
    }

    fn perform(&mut self, rule: Rule, request: &RequestFrame, answer: &[u8], now: Duration) -> Vec<Action> {
        match rule.kind {
            FaultKind::Silence => Vec::new(),
            FaultKind::Late => vec![after(self.lateness(rule.duration), answer.to_vec())],
            FaultKind::Slow => {
                let slowest = rule.duration.unwrap_or(self.timeout.mul_f64(0.8));
                vec![after(slowest.mul_f64(self.dice.random()), answer.to_vec())]
            }
            FaultKind::Transaction => vec![at_once(self.with_other_transaction(request, answer))],
            FaultKind::Unit => vec![at_once(self.with_other_unit(request, answer))],
            FaultKind::Exception => {
                let any = EXCEPTIONS[self.dice.random_range(0..EXCEPTIONS.len())];
                vec![at_once(request.exception(rule.code.unwrap_or(any)))]
            }
            FaultKind::Truncated => {
                let kept = self.dice.random_range(1..answer.len().max(2));
                let beginning = at_once(answer.iter().copied().take(kept).collect());
                match self.framing {
                    Framing::Rtu => vec![beginning],
                    // What came after it would be taken for the rest, and without a sum nobody could tell.
                    Framing::Tcp => vec![beginning, Action::Deafen],
                }
            }
            FaultKind::Noise => vec![at_once(self.with_noise(answer))],
            FaultKind::Echo => vec![at_once([request.bytes(), answer].concat())],
            FaultKind::Split => vec![self.in_pieces(answer)],
            FaultKind::Merged => vec![at_once(self.merged(answer))],
            FaultKind::Close => vec![Action::Close],
            FaultKind::CloseAfter => vec![at_once(answer.to_vec()), Action::Close],
            FaultKind::HalfOpen => vec![Action::Deafen],
            FaultKind::Away => {
                let pause = rule.duration.unwrap_or(AWAY);
                self.away_until = now + pause;
                vec![Action::GoAway(pause)]
            }
            FaultKind::Frozen => vec![at_once(self.frozen(request, answer))],
            FaultKind::Swapped => vec![at_once(self.swapped(request, answer))],
            // It happens to connections, before there is an answer.
            FaultKind::Refused => vec![at_once(answer.to_vec())],
        }
    }

    /// Later than the gateway waits. On a serial line by less than one more time-out, unless wished otherwise: nobody can
    /// tell a later one from the answer to a repeat of the same request.
    fn lateness(&mut self, longest: Option<Duration>) -> Duration {
        let usual = match self.framing {
            Framing::Tcp => self.timeout.mul_f64(4.0),
            Framing::Rtu => self.timeout.mul_f64(1.8),
        };
        let longest = longest.unwrap_or(usual);
        let least = self.timeout.mul_f64(1.02).min(longest);
        least + (longest - least).mul_f64(self.dice.random())
    }

    fn with_other_transaction(&mut self, request: &RequestFrame, answer: &[u8]) -> Vec<u8> {
        let Some((unit, pdu)) = self.framing.unit_and_pdu(answer) else { return answer.to_vec() };
        // Half of them are of the request before, as from a gateway that is one answer behind.
        let back = if self.dice.random() { 1 } else { self.dice.random_range(1..=u16::MAX) };
        self.framing.frame(request.transaction().wrapping_sub(back), unit, pdu)
    }

    fn with_other_unit(&mut self, request: &RequestFrame, answer: &[u8]) -> Vec<u8> {
        let Some((unit, pdu)) = self.framing.unit_and_pdu(answer) else { return answer.to_vec() };
        let other = (u16::from(unit) + self.dice.random_range(0..246)) % 247 + 1;
        self.framing.frame(request.transaction(), u8::try_from(other).unwrap_or(1), pdu)
    }

    /// Damage that can be seen: a wrong bit on a serial line, which its CRC shows, or stray bytes; over TCP, where data have
    /// no sum, only what stands before the data.
    fn with_noise(&mut self, answer: &[u8]) -> Vec<u8> {
        let mut noisy = answer.to_vec();
        let stray: Vec<u8> = (0..self.dice.random_range(1..6)).map(|_| self.dice.random()).collect();
        match (self.framing, self.dice.random_range(0..3)) {
            (_, 0) => noisy.splice(0..0, stray).for_each(drop),
            (Framing::Rtu, 1) => noisy.extend(stray),
            (Framing::Rtu, _) => {
                let place = self.dice.random_range(0..noisy.len().max(1));
                noisy[place] ^= 1 << self.dice.random_range(0..8);
            }
            // The protocol id, and the length.
            (Framing::Tcp, 1) => noisy[3] = self.dice.random_range(1..=255),
            (Framing::Tcp, _) => noisy[5] = noisy[5].wrapping_add(self.dice.random_range(1..=255)),
        }
        noisy
    }

    /// Two to six pieces, or byte by byte; in all they take less than half of the time-out.
    fn in_pieces(&mut self, answer: &[u8]) -> Action {
        let most = answer.len().max(2);
        let wanted = if self.dice.random_range(0..4) == 0 { most } else { self.dice.random_range(2..=6) };
        let size = answer.len().div_ceil(wanted.min(most)).max(1);
        let count = answer.len().div_ceil(size).max(1);
        let longest = self.timeout.mul_f64(0.4 / count as f64);
        let pause = longest.mul_f64(self.dice.random());
        let pieces = answer.chunks(size).map(|bytes| Piece { pause, bytes: bytes.to_vec() }).collect();
        Action::Send { after: Duration::ZERO, pieces }
    }

    /// Two frames in one segment. Over TCP an old one comes first; on a serial line, where nobody could tell, it is the same
    /// one again.
    fn merged(&mut self, answer: &[u8]) -> Vec<u8> {
        match (self.framing, &self.last) {
            (Framing::Tcp, Some(last)) => [last.as_slice(), answer].concat(),
            (Framing::Tcp, None) => answer.to_vec(),
            (Framing::Rtu, _) => [answer, answer].concat(),
        }
    }

    /// The first answer to the same request, under the header of this one.
    fn frozen(&mut self, request: &RequestFrame, answer: &[u8]) -> Vec<u8> {
        let pdu = request.asked().and_then(|asked| self.frozen.get(&key(request.unit(), asked)));
        pdu.map_or_else(|| answer.to_vec(), |pdu| request.answer_with(pdu))
    }

    /// The answer to the request before, under the header of this one; with the data of this one's registers rotated where
    /// it has another size.
    fn swapped(&mut self, request: &RequestFrame, answer: &[u8]) -> Vec<u8> {
        let Some((_, pdu)) = self.framing.unit_and_pdu(answer) else { return answer.to_vec() };
        let last = self.last.as_deref().and_then(|last| self.framing.unit_and_pdu(last)).map(|(_, pdu)| pdu);
        match last {
            Some(last) if last.get(..2) == pdu.get(..2) && last != pdu => request.answer_with(last),
            _ => {
                let mut other = pdu.to_vec();
                if let Some(data) = other.get_mut(2..).filter(|data| data.len() >= 2) {
                    data.rotate_left(2);
                }
                request.answer_with(&other)
            }
        }
    }

    fn remember(&mut self, request: &RequestFrame, answer: &[u8]) {
        self.last = Some(answer.to_vec());
        let freezes = self.rules.iter().any(|rule| rule.kind == FaultKind::Frozen);
        if freezes
            && self.frozen.len() < FROZEN
            && let (Some(asked), Some((_, pdu))) = (request.asked(), self.framing.unit_and_pdu(answer))
        {
            self.frozen.entry(key(request.unit(), asked)).or_insert_with(|| pdu.to_vec());
        }
    }

    fn probability_of(&self, kind: FaultKind) -> f64 {
        self.rules.iter().filter(|rule| rule.kind == kind).map(|rule| rule.probability).sum()
    }

    fn count(&mut self, kind: FaultKind) {
        if let Some(place) = FaultKind::ALL.iter().position(|known| *known == kind) {
            self.counts.faults[place] += 1;
        }
    }
}

/// What the rules for a target add up to, with those of the whole link.
fn sum(rules: &[Rule], target: Target) -> f64 {
    let counts =
        |rule: &&Rule| rule.kind != FaultKind::Refused && (rule.target == target || rule.target == Target::Link);
    rules.iter().filter(counts).map(|rule| rule.probability).sum()
}

fn key(unit: u8, asked: Asked) -> (u8, Table, u16, u16) {
    (unit, asked.table, asked.address, asked.count)
}

fn at_once(bytes: Vec<u8>) -> Action {
    after(Duration::ZERO, bytes)
}

fn after(after: Duration, bytes: Vec<u8>) -> Action {
    Action::Send { after, pieces: vec![Piece { pause: Duration::ZERO, bytes }] }
}

#[cfg(test)]
#[path = "faults/tests.rs"]
mod tests;
