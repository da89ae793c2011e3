//! The kinds of faults, by name.

use std::fmt;

/// Where a fault happens, which says what it can be commanded for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// One answer: for a device, or for every device of a link.
    Answer,
    /// The whole link.
    Link,
}

/// What can go wrong with an answer or with its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// No answer.
    Silence,
    /// The answer comes after the gateway's time-out.
    Late,
    /// The answer takes a while, but comes in time.
    Slow,
    /// The answer has another transaction id.
    Transaction,
    /// The answer is from another unit.
    Unit,
    /// An exception.
    Exception,
    /// The end of the answer is missing. Over TCP nothing else comes through the connection after it.
    Truncated,
    /// Stray bytes, a wrong bit, a damaged header.
    Noise,
    /// The request comes back before the answer.
    Echo,
    /// The answer comes in pieces.
    Split,
    /// Two answers come in one piece.
    Merged,
    /// The connection is closed instead of an answer.
    Close,
    /// The connection is closed after the answer.
    CloseAfter,
    /// The connection stays, and nothing comes through it any more.
    HalfOpen,
    /// The connection is reset as soon as it is made.
    Refused,
    /// The line goes away for a while.
    Away,
    /// The registers of the first answer again. Nothing on the wire tells.
    Frozen,
    /// The registers of another answer. Nothing on the wire tells.
    Swapped,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [FaultKind; 18] = [
        FaultKind::Silence,
        FaultKind::Late,
        FaultKind::Slow,
        FaultKind::Transaction,
        FaultKind::Unit,
        FaultKind::Exception,
        FaultKind::Truncated,
        FaultKind::Noise,
        FaultKind::Echo,
        FaultKind::Split,
        FaultKind::Merged,
        FaultKind::Close,
        FaultKind::CloseAfter,
        FaultKind::HalfOpen,
        FaultKind::Refused,
        FaultKind::Away,
        FaultKind::Frozen,
        FaultKind::Swapped,
    ];

    /// Its name in commands.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Silence => "silence",
            FaultKind::Late => "late",
            FaultKind::Slow => "slow",
            FaultKind::Transaction => "transaction",
            FaultKind::Unit => "unit",
            FaultKind::Exception => "exception",
            FaultKind::Truncated => "truncated",
            FaultKind::Noise => "noise",
            FaultKind::Echo => "echo",
            FaultKind::Split => "split",
            FaultKind::Merged => "merged",
            FaultKind::Close => "close",
            FaultKind::CloseAfter => "close-after",
            FaultKind::HalfOpen => "half-open",
            FaultKind::Refused => "refused",
            FaultKind::Away => "away",
            FaultKind::Frozen => "frozen",
            FaultKind::Swapped => "swapped",
        }
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<FaultKind> {
        FaultKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Where it happens.
    pub fn span(self) -> Span {
        match self {
            FaultKind::Refused | FaultKind::Away => Span::Link,
            _ => Span::Answer,
        }
    }

    /// Whether it needs connections or transaction ids, which a serial line does not have.
    pub fn needs_connections(self) -> bool {
        matches!(
            self,
            FaultKind::Transaction
                | FaultKind::Close
                | FaultKind::CloseAfter
                | FaultKind::HalfOpen
                | FaultKind::Refused
        )
    }

    /// Whether a duration may be given: how late, how slow, how long away.
    pub fn takes_duration(self) -> bool {
        matches!(self, FaultKind::Late | FaultKind::Slow | FaultKind::Away)
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
