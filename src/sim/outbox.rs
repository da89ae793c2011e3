//! What is still to be sent on one connection or line, and when.
//!
//! Pure; time is counted from the start of the plant. A frame that has begun is sent to its end before another begins,
//! because even a bad server does not interleave its own frames.

use std::collections::VecDeque;
use std::time::Duration;

/// The most frames that wait. One more is dropped, which the client sees as silence: only a client that sends on without
/// waiting for answers can get there.
const FRAMES_WAITING: usize = 64;

/// Bytes that are sent at once, and the pause before them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The pause after the piece before.
    pub pause: Duration,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// What is to be done on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// These bytes are written at once.
    Bytes(Vec<u8>),
    /// The connection is closed.
    Close,
    /// Nothing comes through the connection any more.
    Deafen,
}

#[derive(Debug)]
struct Waiting {
    due: Duration,
    pieces: VecDeque<Piece>,
    /// What is done instead, if there are no pieces.
    end: Outgoing,
}

/// The frames of one connection that wait for their moment.
#[derive(Debug, Default)]
pub struct Outbox {
    waiting: Vec<Waiting>,
    begun: Option<Waiting>,
}

impl Outbox {
    /// Has a frame sent at a moment.
    pub fn push(&mut self, due: Duration, pieces: Vec<Piece>) {
        if self.waiting.len() < FRAMES_WAITING && !pieces.is_empty() {
            self.waiting.push(Waiting { due, pieces: pieces.into(), end: Outgoing::Close });
        }
    }

    /// Has the connection ended at a moment, after what is due by then.
    pub fn end(&mut self, due: Duration, end: Outgoing) {
        self.waiting.push(Waiting { due, pieces: VecDeque::new(), end });
    }

    /// When there is something to do next.
    pub fn next_due(&self) -> Option<Duration> {
        match &self.begun {
            Some(begun) => Some(begun.due),
            None => self.waiting.iter().map(|frame| frame.due).min(),
        }
    }

    /// What is due by now, if anything.
    pub fn take(&mut self, now: Duration) -> Option<Outgoing> {
        if self.next_due()? > now {
            return None;
        }
        let mut frame = match self.begun.take() {
            Some(frame) => frame,
            // The first of equals, so that what was pushed first goes first.
            None => {
                let first = (0..self.waiting.len()).min_by_key(|place| self.waiting[*place].due)?;
                self.waiting.remove(first)
            }
        };
        let Some(piece) = frame.pieces.pop_front() else { return Some(frame.end) };
        if let Some(next) = frame.pieces.front() {
            frame.due = now + next.pause;
            self.begun = Some(frame);
        }
        Some(Outgoing::Bytes(piece.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn piece(pause: u64, byte: u8) -> Piece {
        Piece { pause: at(pause), bytes: vec![byte] }
    }

    #[test]
    fn a_frame_that_has_begun_is_not_interrupted_by_one_that_falls_due() {
        let mut outbox = Outbox::default();
        outbox.push(at(0), vec![piece(0, 1), piece(20, 2)]);
        outbox.push(at(10), vec![piece(0, 3)]);
        outbox.end(at(10), Outgoing::Close);
        assert_eq!(outbox.take(at(0)), Some(Outgoing::Bytes(vec![1])));
        assert_eq!((outbox.take(at(10)), outbox.next_due()), (None, Some(at(20))));
        assert_eq!(outbox.take(at(20)), Some(Outgoing::Bytes(vec![2])));
        assert_eq!(outbox.take(at(20)), Some(Outgoing::Bytes(vec![3])));
        assert_eq!(outbox.take(at(20)), Some(Outgoing::Close));
        assert_eq!(outbox.next_due(), None);
    }
}
