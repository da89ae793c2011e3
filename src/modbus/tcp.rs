//! Modbus/TCP framing: the MBAP header (Messaging on TCP/IP V1.0b, section 3.1.3).
//!
//! The header's length field alone says where a frame ends, so a field that cannot be true leaves no way to find the next
//! frame: the connection is then [`Received::Broken`] for good, and the caller makes it anew.
//!
//! A length that can be true may still be false, because a gateway cut the answer short; and then the next frame's bytes take
//! the place of those that are missing. TCP has no checksum of its own that would tell. An answer is therefore believed only
//! if nothing speaks against it: its function and count agree with its length, no other frame can have begun inside it
//! ([`super::owed`]), and what came behind it can begin a frame. Otherwise the connection is broken. Of an answer that was filled
//! up by the late answer to an earlier request this leaves one in doubt: it lacked a single byte, that byte came in one
//! piece with it, and of the late answer's other bytes at most four did.

use super::cursor::Cursor;
use super::owed::Owed;
use super::pdu::{EXCEPTION_BIT, ReadRequest, Received, ReplyError};

/// Transaction, protocol and length: what must be known before a frame's end is.
const PREFIX_BYTES: usize = 6;

/// The least that the length field counts: unit, function and one byte, as in an exception.
const LENGTH_MIN: u16 = 3;

/// The most that the length field counts: the unit and a PDU of 253 bytes (V1.1b3, section 4.1).
const LENGTH_MAX: u16 = 254;

/// The longest frame, 260 bytes.
const FRAME_MAX: usize = PREFIX_BYTES + LENGTH_MAX as usize;

/// One connection's side of request and answer. Answers are matched by transaction id; late ones are dropped and counted.
///
/// It holds at most one frame of 260 bytes: each frame is dealt with as soon as its last byte is there.
///
/// **Unit ids.** An answer with data must come from the unit that was asked, or it is [`ReplyError::Malformed`]: behind a
/// gateway another unit's registers would be taken for this one's. Two exceptions to that rule. Units 0 and 255 both mean the
/// endpoint itself, as Messaging on TCP/IP V1.0b has it, and either answers for the other;
/// so a device that writes 255 into every answer is configured as unit 255. And an exception may come from unit 0 or 255
/// whatever unit was asked, since it is the gateway that speaks, and an exception is never a value.
#[derive(Debug, Default)]
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
    request: ReadRequest,
}

impl TcpExchange {
    /// The frame to send for a request; whatever was outstanding is abandoned, and its late answer will be dropped.
    pub fn begin(&mut self, unit: u8, request: ReadRequest) -> heapless::Vec<u8, 12> {
        if self.awaited.is_some() {
            self.owed.abandon(self.transaction);
        }
        self.transaction = self.transaction.wrapping_add(1);
        self.awaited = Some(Awaited { unit, request });
        let [transaction_high, transaction_low] = self.transaction.to_be_bytes();
        let [function, address_high, address_low, count_high, count_low] = request.encode();
        heapless::Vec::from_array([
            transaction_high,
            transaction_low,
            0,
            0,
            0,
            6,
            unit,
            function,
            address_high,
            address_low,
            count_high,
            count_low,
        ])
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
mod tests {
    use super::*;
    use crate::modbus::Table;
    use crate::modbus::exception::ExceptionCode;
    use crate::modbus::pdu::ReadReply;

    /// An exchange that has just sent the request with this transaction id.
    fn awaiting(transaction: u16, unit: u8, count: u16) -> TcpExchange {
        let mut exchange = TcpExchange::default();
        exchange.count_from(transaction.wrapping_sub(1));
        exchange.begin(unit, holding(0, count));
        exchange
    }

    fn holding(address: u16, count: u16) -> ReadRequest {
        ReadRequest::new(Table::Holding, address, count).expect("a request")
    }

    fn registers(registers: &[u16]) -> Received {
        Received::Reply(Ok(ReadReply::Registers(heapless::Vec::from_slice(registers).expect("few registers"))))
    }

    fn bytes(hex: &str) -> Vec<u8> {
        hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("hex")).collect()
    }

    #[test]
    fn case_c16_a_late_answer_is_dropped_and_counted_and_shifts_nothing() {
        let mut exchange = TcpExchange::default();
        exchange.count_from(0x0F);
        assert_eq!(exchange.begin(1, holding(0x64, 1)).as_slice(), bytes("00 10 00 00 00 06 01 03 00 64 00 01"));
        // The first request has timed out.
        assert_eq!(exchange.begin(1, holding(0xC8, 1)).as_slice(), bytes("00 11 00 00 00 06 01 03 00 C8 00 01"));
        assert_eq!(exchange.receive(&bytes("00 10 00 00 00 05 01 03 02 00 64")), Received::NeedMore);
        assert_eq!(exchange.receive(&bytes("00 11 00 00 00 05 01 03 02 00 C8")), registers(&[200]));
        assert_eq!(exchange.late_answers(), 1);
        for poll in 0x12..0x20 {
            exchange.begin(1, holding(0x64, 1));
            assert_eq!(exchange.receive(&[0, poll, 0, 0, 0, 5, 1, 3, 2, 0, poll]), registers(&[u16::from(poll)]));
        }
        assert_eq!(exchange.late_answers(), 1);
    }

    #[test]
    fn case_c18_a_stale_frame_directly_before_the_current_one_is_dropped_however_they_are_cut() {
        let stream = bytes(
            "00 0F 00 00 00 13 32 03 10 11 00 11 01 11 02 11 03 11 04 11 05 11 06 11 07 \
             00 10 00 00 00 0B 32 03 08 22 00 22 01 22 02 22 03",
        );
        let current = registers(&[0x2200, 0x2201, 0x2202, 0x2203]);

        let mut exchange = awaiting(0x10, 0x32, 4);
        assert_eq!(exchange.receive(&stream), current);
        assert_eq!(exchange.late_answers(), 1);

        let mut exchange = awaiting(0x10, 0x32, 4);
        let (last, before) = stream.split_last().expect("bytes");
        for byte in before {
            assert_eq!(exchange.receive(&[*byte]), Received::NeedMore);
        }
        assert_eq!(exchange.receive(&[*last]), current);

        for cut in 1..stream.len() {
            let mut exchange = awaiting(0x10, 0x32, 4);
            assert_eq!(exchange.receive(&stream[..cut]), Received::NeedMore);
            assert_eq!(exchange.receive(&stream[cut..]), current);
        }
    }

    #[test]
    fn case_c19_a_length_that_cannot_be_true_breaks_the_connection_at_once() {
        let mut exchange = awaiting(5, 1, 1);
        assert_eq!(exchange.receive(&bytes("00 05 00 00 03 E8")), Received::Broken);
        assert_eq!(exchange.receive(&bytes("01 03 02 00 FA")), Received::Broken, "and it stays broken");
        exchange.reconnected();
        exchange.begin(1, holding(0, 1));
        assert_eq!(exchange.receive(&bytes("00 06 00 00 00 05 01 03 02 00 FB")), registers(&[251]));
    }

    #[test]
    fn case_c19_a_length_that_is_legal_but_false_shows_as_a_frame_that_never_ends() {
        let mut exchange = awaiting(5, 1, 1);
        assert_eq!(exchange.receive(&bytes("00 05 00 00 00 47 01 03 02 00 FA")), Received::NeedMore);
        assert!(exchange.is_mid_frame());
        exchange.reconnected();
        assert!(!exchange.is_mid_frame());
        exchange.begin(1, holding(0, 1));
        assert_eq!(exchange.receive(&bytes("00 06 00 00 00 05 01 03 02 00 FB")), registers(&[251]));
    }

    #[test]
    fn the_length_field_may_be_3_to_254_and_the_protocol_only_0() {
        for length in 0..=u16::MAX {
            let [high, low] = length.to_be_bytes();
            let received = awaiting(1, 1, 1).receive(&[0, 9, 0, 0, high, low]);
            assert_eq!(received == Received::Broken, !(3..=254).contains(&length), "length {length}");
        }
        assert_eq!(awaiting(1, 1, 1).receive(&[0, 1, 0, 1, 0, 5]), Received::Broken);
    }

    #[test]
    fn case_c31_a_gateways_exceptions_are_answers_and_leave_the_connection_whole() {
        for (code, byte) in
            [(ExceptionCode::GATEWAY_TARGET_SILENT, "0B"), (ExceptionCode::GATEWAY_PATH_UNAVAILABLE, "0A")]
        {
            let mut exchange = awaiting(0x21, 3, 2);
            let received = exchange.receive(&bytes(&format!("00 21 00 00 00 03 03 83 {byte}")));
            assert_eq!(received, Received::Reply(Err(ReplyError::Exception(code))));
            exchange.begin(1, holding(0, 1));
            assert_eq!(exchange.receive(&bytes("00 22 00 00 00 05 01 03 02 00 07")), registers(&[7]));
        }
    }

    #[test]
    fn data_comes_only_from_the_unit_that_was_asked() {
        let check = |asked, answered, fits| {
            let received = awaiting(1, asked, 1).receive(&[0, 1, 0, 0, 0, 5, answered, 3, 2, 0, 7]);
            let expected = if fits { registers(&[7]) } else { Received::Reply(Err(ReplyError::Malformed)) };
            assert_eq!(received, expected, "unit {asked} was asked, unit {answered} answered");
        };
        check(1, 1, true);
        check(1, 2, false);
        check(1, 0, false);
        check(1, 255, false);
        check(0, 255, true);
        check(255, 0, true);
        check(255, 1, false);
    }

    #[test]
    fn a_gateway_may_refuse_in_its_own_name() {
        let refused = Received::Reply(Err(ReplyError::Exception(ExceptionCode::GATEWAY_TARGET_SILENT)));
        assert_eq!(awaiting(1, 3, 1).receive(&[0, 1, 0, 0, 0, 3, 255, 0x83, 11]), refused);
        assert_eq!(awaiting(1, 3, 1).receive(&[0, 1, 0, 0, 0, 3, 0, 0x83, 11]), refused);
        let other = awaiting(1, 3, 1).receive(&[0, 1, 0, 0, 0, 3, 4, 0x83, 11]);
        assert_eq!(other, Received::Reply(Err(ReplyError::Malformed)));
    }

    #[test]
    fn an_answer_that_does_not_fit_is_malformed_and_the_next_one_is_found() {
        let mut exchange = awaiting(1, 1, 1);
        let malformed = Received::Reply(Err(ReplyError::Malformed));
        assert_eq!(exchange.receive(&bytes("00 01 00 00 00 07 01 03 04 00 01 00 02")), malformed);
        exchange.begin(1, holding(0, 1));
        assert_eq!(exchange.receive(&bytes("00 02 00 00 00 05 01 03 02 00 07")), registers(&[7]));
    }

    #[test]
    fn a_length_that_the_count_inside_contradicts_breaks_the_connection() {
        let check = |frame| assert_eq!(awaiting(1, 1, 1).receive(&bytes(frame)), Received::Broken, "{frame}");
        check("00 01 00 00 00 03 01 03 02 00 FA");
        check("00 01 00 00 00 04 01 03 02 00 FA");
        check("00 01 00 00 00 06 01 03 02 00 FA 00");
        check("00 01 00 00 00 05 01 03 04 00 FA 00 FB");
        check("00 01 00 00 00 04 01 83 02 00");
    }

    #[test]
    fn a_second_answer_in_the_same_bytes_is_dropped_and_what_follows_is_kept() {
        let mut exchange = awaiting(1, 1, 1);
        let twice_and_a_half = bytes(
            "00 01 00 00 00 05 01 03 02 00 07 \
             00 01 00 00 00 05 01 03 02 00 08 \
             00 02 00 00 00 05 01",
        );
        assert_eq!(exchange.receive(&twice_and_a_half), registers(&[7]));
        assert_eq!(exchange.late_answers(), 1);
        exchange.begin(1, holding(0, 1));
        assert_eq!(exchange.receive(&bytes("03 02 00 09")), registers(&[9]));
    }

    #[test]
    fn case_c18_an_answer_with_no_frame_behind_it_is_not_believed() {
        let mut exchange = awaiting(1, 1, 1);
        let received = exchange.receive(&bytes("00 01 00 00 00 05 01 03 02 00 07 00 02 00 07 00 00"));
        assert_eq!(received, Received::Broken);
        // Cut by one byte, and followed by the late answer to the request before.
        let mut exchange = awaiting(0x10, 1, 2);
        let stream = bytes("00 10 00 00 00 07 01 03 04 00 07 00 00 0F 00 00 00 07 01 03 04 00 01 00 02");
        assert_eq!(exchange.receive(&stream), Received::Broken);
    }

    #[test]
    fn case_c18_three_bytes_behind_an_answer_that_begin_no_frame_are_enough_to_doubt_it() {
        for (behind, believed) in [("00 02", true), ("00 02 00", true), ("00 02 01", false), ("00 02 00 00 01", false)]
        {
            let received = awaiting(1, 1, 1).receive(&bytes(&format!("00 01 00 00 00 05 01 03 02 00 07 {behind}")));
            assert_eq!(received, if believed { registers(&[7]) } else { Received::Broken }, "{behind}");
        }
    }

    #[test]
    fn registers_that_look_like_a_late_answer_cost_one_connection_and_are_believed_once_it_has_come() {
        let looks_late = |transaction: u8| [0x47, transaction, 0, 0, 0, 5, 1, 3, 2, 0x47, 0x10];
        let mut exchange = awaiting(0x4710, 1, 1);
        exchange.begin(1, holding(0, 1));
        assert_eq!(exchange.receive(&looks_late(0x11)), Received::Broken);
        exchange.reconnected();
        exchange.begin(1, holding(0, 1));
        assert_eq!(exchange.receive(&looks_late(0x12)), registers(&[0x4710]));

        let mut exchange = awaiting(0x4710, 1, 1);
        exchange.begin(1, holding(0, 1));
        assert_eq!(exchange.receive(&looks_late(0x10)), Received::NeedMore);
        assert_eq!(exchange.receive(&looks_late(0x11)), registers(&[0x4710]));
    }

    #[test]
    fn transaction_ids_go_round() {
        let mut exchange = awaiting(0xFFFF, 1, 1);
        assert_eq!(exchange.receive(&bytes("FF FF 00 00 00 05 01 03 02 00 07")), registers(&[7]));
        assert_eq!(exchange.begin(1, holding(0, 1)).get(..2), Some(&[0, 0][..]));
    }
}
