//! The fault layer between a server and the wire: which answer belongs to which request, and what becomes of it.
//!
//! Pure; [`super::relay`] and [`super::line`] carry the bytes. A server that behaves, as `tokio-modbus` does, is thereby made
//! to misbehave without knowing of it, over TCP, on a serial line and in memory alike.

use std::collections::VecDeque;
use std::time::Duration;

use super::faults::{Action, Injector};
use super::frames::{Answers, Framing, RequestFrame, Requests};
use super::outbox::{Outbox, Outgoing};

/// The most requests whose answers are waited for. The oldest is forgotten for one more: silent devices never answer, and
/// an answer to a forgotten request goes out unharmed.
const OUTSTANDING: usize = 32;

/// One connection, or one serial line.
#[derive(Debug)]
pub struct Wire {
    requests: Requests,
    answers: Answers,
    outstanding: VecDeque<RequestFrame>,
    outbox: Outbox,
    deaf: bool,
}

impl Wire {
    /// A connection that was just made.
    pub fn new(framing: Framing) -> Wire {
        Wire {
            requests: Requests::new(framing),
            answers: Answers::new(framing),
            outstanding: VecDeque::new(),
            outbox: Outbox::default(),
            deaf: false,
        }
    }

    /// Takes what the client sent. Whether the server may have it.
    pub fn asked(&mut self, bytes: &[u8], injector: &mut Injector) -> bool {
        if self.deaf {
            return false;
        }
        for request in self.requests.receive(bytes) {
            injector.asked();
            if self.outstanding.len() == OUTSTANDING {
                self.outstanding.pop_front();
            }
            self.outstanding.push_back(request);
        }
        true
    }

    /// Takes what the server sent. Returns how long the line is to be away, if it goes.
    pub fn answered(&mut self, bytes: &[u8], injector: &mut Injector, now: Duration) -> Option<Duration> {
        let mut away = None;
        for answer in self.answers.receive(bytes) {
            let place = self.outstanding.iter().position(|request| request.is_answered_by(&answer));
            let Some(request) = place.and_then(|place| self.outstanding.remove(place)) else {
                self.send(vec![Action::Send { after: Duration::ZERO, pieces: whole(answer) }], now);
                continue;
            };
            let actions = injector.decide(&request, &answer, now);
            away = away.or(self.send(actions, now));
        }
        away
    }

    /// When there is something to do next.
    pub fn next_due(&self) -> Option<Duration> {
        if self.deaf { None } else { self.outbox.next_due() }
    }

    /// What is to be done on the wire by now, if anything.
    pub fn take(&mut self, now: Duration) -> Option<Outgoing> {
        if self.deaf {
            return None;
        }
        let outgoing = self.outbox.take(now)?;
        self.deaf = outgoing == Outgoing::Deafen;
        Some(outgoing)
    }

    fn send(&mut self, actions: Vec<Action>, now: Duration) -> Option<Duration> {
        let mut away = None;
        for action in actions {
            match action {
                Action::Send { after, pieces } => self.outbox.push(now + after, pieces),
                Action::Close => self.outbox.end(now, Outgoing::Close),
                Action::Deafen => self.outbox.end(now, Outgoing::Deafen),
                Action::GoAway(pause) => away = Some(pause),
            }
        }
        away
    }
}

fn whole(bytes: Vec<u8>) -> Vec<super::outbox::Piece> {
    vec![super::outbox::Piece { pause: Duration::ZERO, bytes }]
}
