//! Modbus/TCP framing: the MBAP header (Messaging on TCP/IP V1.0b, section 3.1.3).
//!
//! The header's length field alone says where a frame ends, so a field that cannot be true leaves no way to find the next
//! frame: the connection is then [`Received::Broken`] for good, and the caller makes it anew.
//!
//! A length that can be true may still be false, because a gateway cut the answer short; and then the next frame's bytes take
//! the place of those that are missing. TCP has no checksum of its own that would tell. An answer is therefore believed only
//! if nothing speaks against it: its function and count agree with its length, no other frame can have begun inside it
//! (module `owed`), and what came behind it can begin a frame. Otherwise the connection is broken. Of an answer that was filled
//! up by the late answer to an earlier request this leaves one in doubt: it lacked a single byte, that byte came in one
//! piece with it, and of the late answer's other bytes at most four did.

use std::ops::RangeInclusive;

use super::cursor::Cursor;
use super::owed::Owed;
use super::pdu::{EXCEPTION_BIT, Received, ReplyError, Request};

/// Transaction, protocol and length: what must be known before a frame's end is.
const PREFIX_BYTES: usize = 6;

/// The least that the length field counts: unit, function and one byte, as in an exception.
const LENGTH_MIN: u16 = 3;

/// The most that the length field counts: the unit and a PDU of 253 bytes (V1.1b3, section 4.1).
const LENGTH_MAX: u16 = 254;

/// The longest frame, 260 bytes.
const FRAME_MAX: usize = PREFIX_BYTES + LENGTH_MAX as usize;

/// The transaction ids, which go round. Registers hold small numbers, small negative ones and text more often than these, so
/// that hardly any register looks like the header of an answer that is owed.
const TRANSACTION_IDS: RangeInclusive<u16> = 0x8001..=0xEFFF;

/// One connection's side of request and answer. Answers are matched by transaction id; late ones are dropped and counted.
///
/// It holds at most one frame of 260 bytes: each frame is dealt with as soon as its last byte is there.
///
/// **Unit ids.** An answer with data must come from the unit that was asked, or it is [`ReplyError::Malformed`]: behind a
/// gateway another unit's registers would be taken for this one's. Two exceptions to that rule. Units 0 and 255 both mean the
/// endpoint itself, as Messaging on TCP/IP V1.0b has it, and either answers for the other;
/// so a device that writes 255 into every answer is configured as unit 255. And an exception may come from unit 0 or 255
/// whatever unit was asked, since it is the gateway that speaks, and an exception is never a value.
#[derive(Debug)]
pub struct TcpExchange {
    transaction: u16,
    awaited: Option<Awaited>,
    frame: heapless::Vec<u8, FRAME_MAX>,
    owed: Owed,
    late_answers: u64,
    broken: bool,
}

/// The request whose answer would be given to the caller.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    unit: u8,
    request: Request,
}

impl Default for TcpExchange {
    fn default() -> TcpExchange {
        TcpExchange {
            transaction: *TRANSACTION_IDS.end(),
            awaited: None,
            frame: heapless::Vec::new(),
            owed: Owed::default(),
            late_answers: 0,
            broken: false,
        }
    }
}

impl TcpExchange {
    /// The frame to send for a request; whatever was outstanding is abandoned, and its late answer will be dropped.
    pub fn begin(&mut self, unit: u8, request: impl Into<Request>) -> heapless::Vec<u8, 12> {
        let request = request.into();
        if self.awaited.is_some() {
            self.owed.abandon(self.transaction);
        }
        self.transaction =
            if self.transaction == *TRANSACTION_IDS.end() { *TRANSACTION_IDS.start() } else { self.transaction + 1 };
        self.awaited = Some(Awaited { unit, request });
        let [transaction_high, transaction_low] = self.transaction.to_be_bytes();
        let pdu = request.encode();
        let mut frame = heapless::Vec::new();
        // A header of seven bytes and a PDU of five at the most.
        let _ = frame.extend_from_slice(&[transaction_high, transaction_low, 0, 0, 0, pdu.len() as u8 + 1, unit]);
        let _ = frame.extend_from_slice(&pdu);
        frame
    }

    /// Takes bytes as they came, and says what has come of the request that began last.
    ///
    /// Bytes after the answer are dealt with as well: a second answer is dropped and counted, and nothing of a frame is lost.
    /// An answer with something behind it that begins no frame is not believed.
    pub fn receive(&mut self, bytes: &[u8]) -> Received {
        let mut outcome = Received::NeedMore;
        let mut bytes = bytes;
        while !self.broken && !bytes.is_empty() {
            let before = bytes.len();
            bytes = self.fill(bytes);
            if let Some(reply) = self.finish_frame(before - bytes.len()) {
                outcome = reply;
            }
        }
        self.broken |= !self.can_be_a_frame();
        if self.broken { Received::Broken } else { outcome }
    }

    /// How many answers came too late, or twice, and were dropped.
    pub fn late_answers(&self) -> u64 {
        self.late_answers
    }

    /// Whether a frame has begun and not ended. After a time-out this means that a length field may have been damaged and
    /// that the next answers would be swallowed: the connection must be made anew.
    pub fn is_mid_frame(&self) -> bool {
        !self.frame.is_empty()
    }

    /// Forgets the old connection's bytes when a new one has been made.
    ///
    /// Transaction ids go on counting, because a gateway may answer a request of the old connection on the new one.
    pub fn reconnected(&mut self) {
        self.awaited = None;
        self.frame.clear();
        self.owed.forget();
        self.broken = false;
    }

    /// Takes the bytes that the current frame lacks, first of its prefix and then of all, and gives back the others.
    fn fill<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let target = self.frame_length().unwrap_or(PREFIX_BYTES);
        let missing = target.saturating_sub(self.frame.len()).min(bytes.len());
        let (taken, rest) = bytes.split_at_checked(missing).unwrap_or((bytes, &[]));
        // The target is at most the capacity, because `finish_frame` has refused longer frames.
        self.broken |= self.frame.extend_from_slice(taken).is_err();
        rest
    }

    /// What the frame is for the caller, if it is whole and the awaited one. A whole frame makes room for the next.
    fn finish_frame(&mut self, came_last: usize) -> Option<Received> {
        if self.frame.len() == PREFIX_BYTES {
            self.broken |= !self.can_be_a_frame();
            return None;
        }
        if self.frame_length() != Some(self.frame.len()) {
            return None;
        }
        let reply = self.take_answer(came_last);
        self.frame.clear();
        reply
    }

    /// Whether what there is of a prefix can be that of a frame: the protocol is 0, and the length has one byte.
    fn can_be_a_frame(&self) -> bool {
        self.frame.iter().skip(2).take(3).all(|byte| *byte == 0)
            && self.frame.get(5).is_none_or(|length| (LENGTH_MIN..=LENGTH_MAX).contains(&u16::from(*length)))
    }

    /// The whole frame's length, once its prefix is there.
    fn frame_length(&self) -> Option<usize> {
        let prefix = self.frame.first_chunk::<PREFIX_BYTES>()?;
        let [.., length_high, length_low] = *prefix;
        Some(PREFIX_BYTES + usize::from(u16::from_be_bytes([length_high, length_low])))
    }

    fn take_answer(&mut self, came_last: usize) -> Option<Received> {
        let mut frame = Cursor::new(&self.frame);
        let (transaction, _protocol, _length) = (frame.word()?, frame.word()?, frame.word()?);
        let body = frame.rest();
        let (unit, pdu) = (frame.byte()?, frame.rest());
        let Some(awaited) = self.awaited.filter(|_| transaction == self.transaction) else {
            self.late_answers += 1;
            self.owed.came(transaction);
            return None;
        };
        self.awaited = None;
        if !awaited.request.length_fits(pdu) || self.owed.may_be_inside(body, transaction, came_last) {
            self.broken = true;
            return None;
        }
        Some(Received::Reply(if awaited.may_come_from(unit, pdu) {
            awaited.request.decode_reply(pdu)
        } else {
            Err(ReplyError::Malformed)
        }))
    }
}

#[cfg(test)]
impl TcpExchange {
    /// Makes the next request's transaction id the one after this.
    pub(super) fn count_from(&mut self, transaction: u16) {
        self.transaction = transaction;
    }
}

impl Awaited {
    fn may_come_from(&self, unit: u8, pdu: &[u8]) -> bool {
        let is_endpoint = |unit| unit == 0 || unit == 255;
        let is_exception = pdu.first().is_some_and(|function| function & EXCEPTION_BIT != 0);
        unit == self.unit || is_endpoint(unit) && (is_exception || is_endpoint(self.unit))
    }
}

#[cfg(test)]
mod tests;
