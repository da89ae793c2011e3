//! RTU framing: unit, PDU and CRC on a serial line (Modbus over Serial Line V1.02, section 2.5.1).
//!
//! The standard ends a frame by silence. USB adapters deliver one frame in pieces many milliseconds apart, so here silence
//! means nothing: the request says which unit, function and length its answer must have, and that, with its CRC, is looked
//! for at every offset of what came. Absent on purpose: time. The caller waits, gives up, and keeps the line silent.

use super::pdu::{Received, Request};

/// The longest request: unit, PDU of 5 bytes, CRC.
const REQUEST_MAX: usize = 8;

/// What stands around a PDU: unit and CRC.
const AROUND_PDU_BYTES: usize = 3;

/// The longest answer (V1.02, section 2.5.1).
const ANSWER_MAX: usize = 256;

/// One line's side of request and answer. It looks for the awaited unit, function, length and CRC at every offset, so stray
/// bytes before and after an answer do no harm. The caller keeps the line silent after a time-out: RTU has no transaction id.
///
/// It holds at most 256 bytes: what cannot be the beginning of the answer is not kept.
#[derive(Debug)]
pub struct RtuExchange {
    local_echo: bool,
    awaited: Option<Awaited>,
    pending: heapless::Vec<u8, ANSWER_MAX>,
    skipped: bool,
}

/// A request whose answer has not been found yet.
#[derive(Clone, Debug)]
struct Awaited {
    unit: u8,
    request: Request,
    sent: heapless::Vec<u8, REQUEST_MAX>,
    echo: Echo,
}

/// Whether the line still owes us what we sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Echo {
    /// Nothing is an answer before the exact echo. If it never comes, what we sent collided on the line.
    Due,
    /// No echo is expected; but should it come, it must not be taken for an answer: with some addresses it has the form of
    /// one, and with a few even the CRC. An answer that is byte for byte what we sent is lost to this, and better lost.
    Possible,
    /// It has come.
    Past,
}

/// What the first of the pending bytes are.
enum Found<'a> {
    /// Perhaps the beginning of something.
    Undecided,
    /// One byte that belongs to nothing.
    Stray,
    /// What we sent.
    Echo,
    /// The answer, whole and undamaged; here is its PDU.
    Answer(&'a [u8]),
}

impl RtuExchange {
    /// An exchange on a line whose adapter repeats what we send, or not.
    pub fn new(local_echo: bool) -> RtuExchange {
        RtuExchange { local_echo, awaited: None, pending: heapless::Vec::new(), skipped: false }
    }

    /// The frame to send for a request; whatever came before is forgotten.
    pub fn begin(&mut self, unit: u8, request: impl Into<Request>) -> heapless::Vec<u8, REQUEST_MAX> {
        let request = request.into();
        let mut sent = heapless::Vec::new();
        // Unit, PDU of five bytes at the most, and CRC.
        let _ = sent.push(unit);
        let _ = sent.extend_from_slice(&request.encode());
        let _ = sent.extend_from_slice(&crc(&sent).to_le_bytes());
        let echo = if self.local_echo { Echo::Due } else { Echo::Possible };
        self.awaited = Some(Awaited { unit, request, sent: sent.clone(), echo });
        self.pending.clear();
        self.skipped = false;
        sent
    }

    /// Takes bytes as they came, and says what has come of the request that began last.
    ///
    /// Bytes after the answer are stray: nobody has asked for them.
    pub fn receive(&mut self, bytes: &[u8]) -> Received {
        let mut bytes = bytes;
        while let Some(mut awaited) = self.awaited.take() {
            let room = self.pending.capacity() - self.pending.len();
            let (taken, rest) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
            // It fits, because no more was taken than there is room.
            let _ = self.pending.extend_from_slice(taken);
            let answer = self.search(&mut awaited);
            if let Some(answer) = answer {
                self.skipped |= !self.pending.is_empty() || !rest.is_empty();
                self.pending.clear();
                return answer;
            }
            self.awaited = Some(awaited);
            if rest.is_empty() {
                return Received::NeedMore;
            }
            bytes = rest;
        }
        self.skipped |= !bytes.is_empty();
        Received::NeedMore
    }

    /// Whether bytes came since the request that were no part of an answer to it.
    ///
    /// A piece of an answer counts until the rest is there, so that after a time-out this tells a line that was silent from
    /// one that was not understood. The echo of a line that is known to echo does not count.
    pub fn saw_noise(&self) -> bool {
        self.skipped || !self.pending.is_empty()
    }

    /// Goes through the pending bytes, removes those that are understood or stray, and gives the answer if it is whole.
    fn search(&mut self, awaited: &mut Awaited) -> Option<Received> {
        let mut start = 0;
        let answer = loop {
            let rest = self.pending.get(start..).unwrap_or_default();
            match awaited.examine(rest) {
                Found::Undecided => break None,
                Found::Stray => {
                    self.skipped = true;
                    start += 1;
                }
                Found::Echo => {
                    self.skipped |= awaited.echo != Echo::Due;
                    awaited.echo = Echo::Past;
                    start += awaited.sent.len();
                }
                Found::Answer(pdu) => {
                    start += pdu.len() + AROUND_PDU_BYTES;
                    break Some(Received::Reply(awaited.request.decode_reply(pdu)));
                }
            }
        };
        self.pending.drain(..start.min(self.pending.len()));
        answer
    }
}

impl Awaited {
    /// Decides about the first of these bytes. While they may become the answer nothing after them is looked at, because an
    /// answer's data may hold the bytes of another frame.
    fn examine<'a>(&self, bytes: &'a [u8]) -> Found<'a> {
        match self.echo {
            Echo::Due | Echo::Possible if bytes.starts_with(&self.sent) => Found::Echo,
            Echo::Due | Echo::Possible if self.sent.starts_with(bytes) => Found::Undecided,
            Echo::Due => Found::Stray,
            Echo::Possible | Echo::Past => self.examine_answer(bytes),
        }
    }

    fn examine_answer<'a>(&self, bytes: &'a [u8]) -> Found<'a> {
        let Some((unit, pdu)) = bytes.split_first() else { return Found::Undecided };
        if *unit != self.unit {
            return Found::Stray;
        }
        let length = match self.request.answer_length(pdu) {
            Ok(Some(length)) => length + AROUND_PDU_BYTES,
            Ok(None) => return Found::Undecided,
            Err(_) => return Found::Stray,
        };
        match bytes.get(..length) {
            None => Found::Undecided,
            Some(frame) => match body_of(frame) {
                Some([_unit, pdu @ ..]) => Found::Answer(pdu),
                _ => Found::Stray,
            },
        }
    }
}

/// A frame without its CRC, if the CRC is right. The low byte of the CRC comes first (V1.02, section 2.5.1.2).
fn body_of(frame: &[u8]) -> Option<&[u8]> {
    let (body, sum) = frame.split_last_chunk()?;
    (u16::from_le_bytes(*sum) == crc(body)).then_some(body)
}

/// The CRC-16 of a frame's body (V1.02, section 6.2.2).
pub fn crc(body: &[u8]) -> u16 {
    body.iter().fold(0xFFFF, |sum, byte| (sum >> 8) ^ CRC_OF_BYTE[usize::from(*byte ^ sum.to_le_bytes()[0])])
}

/// The CRC of every byte, because eight shifts for each byte of each answer would be most of the work of a read.
static CRC_OF_BYTE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut sum = byte as u16;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ 0xA001 } else { sum >> 1 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modbus::Table;
    use crate::modbus::exception::ExceptionCode;
    use crate::modbus::pdu::{ReadReply, ReadRequest, ReplyError};

    fn holding(address: u16, count: u16) -> ReadRequest {
        ReadRequest::new(Table::Holding, address, count).expect("a request")
    }

    fn awaiting(local_echo: bool, address: u16, count: u16) -> RtuExchange {
        let mut exchange = RtuExchange::new(local_echo);
        exchange.begin(1, holding(address, count));
        exchange
    }

    fn registers(registers: &[u16]) -> Received {
        Received::Reply(Ok(ReadReply::Registers(heapless::Vec::from_slice(registers).expect("few registers"))))
    }

    fn bytes(hex: &str) -> Vec<u8> {
        hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("hex")).collect()
    }

    fn with_crc(body: &[u8]) -> Vec<u8> {
        [body, &crc(body).to_le_bytes()].concat()
    }

    #[test]
    fn the_crc_is_the_one_of_the_standard() {
        assert_eq!(crc(b"123456789"), 0x4B37);
        assert_eq!(crc(&[0x02, 0x07]), 0x1241);
        let sdm630 = RtuExchange::new(false).begin(1, ReadRequest::new(Table::Input, 0, 2).expect("a request"));
        assert_eq!(sdm630.as_slice(), bytes("01 04 00 00 00 02 71 CB"));
    }

    #[test]
    fn case_c21_stray_bytes_before_and_after_an_answer_are_only_noticed() {
        for noisy in ["00 01 03 02 00 F7 F9 C2", "FF 01 03 02 00 F7 F9 C2", "01 03 02 00 F7 F9 C2 00 00 00"] {
            let mut exchange = RtuExchange::new(false);
            assert_eq!(exchange.begin(1, holding(0, 1)).as_slice(), bytes("01 03 00 00 00 01 84 0A"));
            assert_eq!(exchange.receive(&bytes(noisy)), registers(&[247]));
            assert!(exchange.saw_noise());
            exchange.begin(1, holding(0, 1));
            assert!(!exchange.saw_noise());
            assert_eq!(exchange.receive(&bytes("01 03 02 00 F8 B9 C6")), registers(&[248]));
            assert!(!exchange.saw_noise());
        }
    }

    #[test]
    fn case_c21_what_came_before_a_request_does_not_touch_its_answer() {
        let mut exchange = RtuExchange::new(false);
        assert_eq!(exchange.receive(&[0xFF]), Received::NeedMore);
        exchange.begin(1, holding(0, 1));
        assert!(!exchange.saw_noise());
        assert_eq!(exchange.receive(&bytes("01 03 02 00 F7 F9 C2")), registers(&[247]));

        // The zeros behind an answer may also come only after the next request.
        exchange.begin(1, holding(0, 1));
        assert_eq!(exchange.receive(&bytes("00 00 00")), Received::NeedMore);
        assert_eq!(exchange.receive(&bytes("01 03 02 00 F8 B9 C6")), registers(&[248]));
    }

    const ECHO_AND_ANSWER: &str = "01 03 00 00 00 02 C4 0B 01 03 04 42 36 00 00 0E 45";
    const HALF_ECHO_AND_ANSWER: &str = "C4 0B 01 03 04 42 36 00 00 0E 45";

    #[test]
    fn case_c22_an_echo_that_is_expected_is_removed_exactly() {
        let mut exchange = awaiting(true, 0, 2);
        assert_eq!(exchange.receive(&bytes(ECHO_AND_ANSWER)), registers(&[0x4236, 0]));
        assert!(!exchange.saw_noise(), "an expected echo is no noise");

        let mut exchange = awaiting(true, 0, 2);
        assert_eq!(exchange.receive(&bytes("01 03 00 00 00 02 C4 0B")), Received::NeedMore);
        assert!(!exchange.saw_noise(), "a device that is silent after the echo is silent");
    }

    #[test]
    fn case_c22_a_damaged_echo_is_a_collision_and_nothing_after_it_is_an_answer() {
        for damaged in [HALF_ECHO_AND_ANSWER, "01 03 00 00 00 03 C4 0B 01 03 04 42 36 00 00 0E 45"] {
            let mut exchange = awaiting(true, 0, 2);
            assert_eq!(exchange.receive(&bytes(damaged)), Received::NeedMore);
            assert!(exchange.saw_noise());
        }
    }

    #[test]
    fn case_c22_an_echo_that_is_not_expected_gives_no_wrong_number() {
        for echoed in [ECHO_AND_ANSWER, HALF_ECHO_AND_ANSWER] {
            let mut exchange = awaiting(false, 0, 2);
            assert_eq!(exchange.receive(&bytes(echoed)), registers(&[0x4236, 0]));
            assert!(exchange.saw_noise());
        }
    }

    #[test]
    fn no_echo_of_any_request_for_one_register_is_an_answer() {
        // The high byte of these addresses is the byte count of the answer: only the CRC tells echo from answer, and for some
        // units and addresses even the CRC does not.
        let mut would_pass = 0;
        for unit in 1..=247 {
            for low in 0..=u8::MAX {
                let mut exchange = RtuExchange::new(false);
                let echo = exchange.begin(unit, holding(u16::from_be_bytes([2, low]), 1));
                would_pass += u32::from(body_of(&echo[..7]).is_some());
                assert_eq!(exchange.receive(&echo), Received::NeedMore, "unit {unit}, address 0x02{low:02X}");
                let answer = with_crc(&[unit, 3, 2, 0x12, 0x34]);
                assert_eq!(exchange.receive(&answer), registers(&[0x1234]));
            }
        }
        assert!(would_pass > 0, "this test must have met an echo that looks like an answer");
    }

    #[test]
    fn case_c24_an_answer_of_another_shape_is_never_taken_and_what_came_before_the_request_is_forgotten() {
        let mut exchange = awaiting(false, 0, 1);
        // The answer to register 0 begins too late, and the request for register 10 is sent in its middle.
        assert_eq!(exchange.receive(&bytes("01 03 02 01")), Received::NeedMore);
        assert_eq!(exchange.begin(1, holding(10, 1)).as_slice(), bytes("01 03 00 0A 00 01 A4 08"));
        assert_eq!(exchange.receive(&bytes("11 79 D8")), Received::NeedMore);
        assert_eq!(exchange.receive(&bytes("01 03 02 02 22 39 3D")), registers(&[546]));

        for other in [&[2, 3, 2, 1, 0x11][..], &[1, 4, 2, 1, 0x11], &[1, 3, 4, 1, 0x11, 0, 0], &[1, 0x84, 2]] {
            let mut exchange = awaiting(false, 10, 1);
            assert_eq!(exchange.receive(&with_crc(other)), Received::NeedMore);
            assert!(exchange.saw_noise());
        }
    }

    #[test]
    fn case_c25_a_frame_in_pieces_is_no_error() {
        let mut exchange = awaiting(false, 0, 2);
        assert_eq!(exchange.receive(&bytes("01 03 04")), Received::NeedMore);
        assert!(exchange.saw_noise(), "a piece counts until the rest is there");
        assert_eq!(exchange.receive(&bytes("C1 44 00 00")), Received::NeedMore);
        assert_eq!(exchange.receive(&bytes("87 DA")), registers(&[0xC144, 0]));
        assert!(!exchange.saw_noise());
    }

    #[test]
    fn an_exception_is_an_answer() {
        let refused = Received::Reply(Err(ReplyError::Exception(ExceptionCode::ILLEGAL_DATA_ADDRESS)));
        assert_eq!(awaiting(false, 0, 2).receive(&with_crc(&[1, 0x83, 2])), refused);
    }

    #[test]
    fn a_damaged_answer_is_noise_and_a_whole_one_after_it_is_found() {
        let mut exchange = awaiting(false, 0, 1);
        assert_eq!(exchange.receive(&bytes("01 03 02 00 F7 F9 C3")), Received::NeedMore);
        assert!(exchange.saw_noise());
        assert_eq!(exchange.receive(&bytes("01 03 02 00 F7 F9 C2")), registers(&[247]));
    }

    #[test]
    fn a_frame_inside_an_answers_data_is_data() {
        let inner = with_crc(&[1, 0x83, 2]);
        let answer = with_crc(&[&[1, 3, 6], &inner[..], &[0]].concat());
        let expected = registers(&[0x0183, u16::from_be_bytes([2, inner[3]]), u16::from_be_bytes([inner[4], 0])]);
        let mut exchange = awaiting(false, 0, 3);
        for byte in &answer[..answer.len() - 1] {
            assert_eq!(exchange.receive(&[*byte]), Received::NeedMore);
        }
        assert_eq!(exchange.receive(&answer[answer.len() - 1..]), expected);
    }
}
