//! The frames of requests and answers as the side of the devices sees them, over TCP and on a serial line.
//!
//! Pure. What comes from a client is not trusted and may be anything; what comes from our own server is whole, but perhaps
//! in pieces.

use super::plant::{Answer, Asked};
use crate::modbus::Table;
use crate::modbus::rtu::crc;

/// Transaction, protocol and length of a frame over TCP.
const PREFIX_BYTES: usize = 6;

/// A read request on a serial line: unit, PDU of 5 bytes, CRC.
const RTU_REQUEST_BYTES: usize = 8;

/// More bytes than this are no frame of either kind.
const FRAME_MAX: usize = 260;

/// Set in the function of an answer that is an exception.
const EXCEPTION_BIT: u8 = 0x80;

/// How frames are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Modbus/TCP.
    Tcp,
    /// Modbus RTU.
    Rtu,
}

impl Framing {
    /// A frame around a PDU; `transaction` is for TCP alone.
    pub fn frame(self, transaction: u16, unit: u8, pdu: &[u8]) -> Vec<u8> {
        let body = [&[unit], pdu].concat();
        match self {
            Framing::Tcp => {
                let length = u16::try_from(body.len()).unwrap_or(u16::MAX);
                [&transaction.to_be_bytes(), &[0, 0], &length.to_be_bytes(), body.as_slice()].concat()
            }
            Framing::Rtu => [body.as_slice(), &crc(&body).to_le_bytes()].concat(),
        }
    }

    /// The unit and the PDU of a whole frame.
    pub fn unit_and_pdu(self, frame: &[u8]) -> Option<(u8, &[u8])> {
        let body = match self {
            Framing::Tcp => frame.get(PREFIX_BYTES..)?,
            Framing::Rtu => frame.split_last_chunk::<2>()?.0,
        };
        let (unit, pdu) = body.split_first()?;
        Some((*unit, pdu))
    }

    /// The transaction id of a frame; 0 on a serial line, which has none.
    pub fn transaction(self, frame: &[u8]) -> u16 {
        match (self, frame) {
            (Framing::Tcp, [high, low, ..]) => u16::from_be_bytes([*high, *low]),
            _ => 0,
        }
    }
}

/// A whole request, as it was on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFrame {
    framing: Framing,
    bytes: Vec<u8>,
}

impl RequestFrame {
    /// The bytes as they came.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its transaction id; 0 on a serial line.
    pub fn transaction(&self) -> u16 {
        self.framing.transaction(&self.bytes)
    }

    /// The unit that is asked.
    pub fn unit(&self) -> u8 {
        self.framing.unit_and_pdu(&self.bytes).map_or(0, |(unit, _)| unit)
    }

    /// What is to be read, if it is a read.
    pub fn asked(&self) -> Option<Asked> {
        let (_, pdu) = self.framing.unit_and_pdu(&self.bytes)?;
        let [function, address_high, address_low, count_high, count_low] = *pdu.first_chunk::<5>()?;
        let table = match function {
            1 => Table::Coil,
            2 => Table::DiscreteInput,
            3 => Table::Holding,
            4 => Table::Input,
            _ => return None,
        };
        let word = |high, low| u16::from_be_bytes([high, low]);
        Some(Asked { table, address: word(address_high, address_low), count: word(count_high, count_low) })
    }

    /// The frame that answers it with this PDU.
    pub fn answer_with(&self, pdu: &[u8]) -> Vec<u8> {
        self.framing.frame(self.transaction(), self.unit(), pdu)
    }

    /// The frame that answers it with an exception.
    pub fn exception(&self, code: u8) -> Vec<u8> {
        self.answer_with(&[self.function() | EXCEPTION_BIT, code])
    }

    /// The frame that answers it as a device of the plant would; `None` for silence.
    pub fn respond(&self, answer: &Answer) -> Option<Vec<u8>> {
        let data: Vec<u8> = match answer {
            Answer::Silence => return None,
            Answer::Exception(code) => return Some(self.exception(*code)),
            Answer::Registers(words) => words.iter().flat_map(|word| word.to_be_bytes()).collect(),
            Answer::Bits(bits) => {
                let byte_of = |eight: &[bool]| {
                    eight.iter().enumerate().fold(0, |byte, (place, bit)| byte | (u8::from(*bit) << place))
                };
                bits.chunks(8).map(byte_of).collect()
            }
        };
        let length = u8::try_from(data.len()).ok()?;
        Some(self.answer_with(&[&[self.function(), length], data.as_slice()].concat()))
    }

    /// Whether an answer of this transaction, unit and PDU may be meant for it.
    pub(super) fn is_answered_by(&self, frame: &[u8]) -> bool {
        let Some((unit, pdu)) = self.framing.unit_and_pdu(frame) else { return false };
        let function = pdu.first().copied().unwrap_or(0);
        let of_this_size = match (self.asked(), pdu) {
            (Some(asked), [_, length, ..]) if function & EXCEPTION_BIT == 0 => {
                let bytes = if asked.table.is_bits() { asked.count.div_ceil(8) } else { asked.count.saturating_mul(2) };
                u16::from(*length) == bytes
            }
            _ => true,
        };
        self.framing.transaction(frame) == self.transaction()
            && unit == self.unit()
            && function & !EXCEPTION_BIT == self.function()
            && of_this_size
    }

    fn function(&self) -> u8 {
        self.framing.unit_and_pdu(&self.bytes).and_then(|(_, pdu)| pdu.first().copied()).unwrap_or(0)
    }
}

/// Finds whole requests in what a client sends. It holds at most one frame; what cannot be one is forgotten.
#[derive(Debug)]
pub struct Requests {
    framing: Framing,
    pending: Vec<u8>,
}

impl Requests {
    /// A stream that begins now.
    pub fn new(framing: Framing) -> Requests {
        Requests { framing, pending: Vec::new() }
    }

    /// Takes bytes as they came, and gives the requests that are whole now.
    pub fn receive(&mut self, bytes: &[u8]) -> Vec<RequestFrame> {
        self.pending.extend_from_slice(bytes);
        let mut requests = Vec::new();
        while let Some((start, length)) = self.find() {
            let bytes = self.pending[start..start + length].to_vec();
            self.pending.drain(..start + length);
            requests.push(RequestFrame { framing: self.framing, bytes });
        }
        match self.framing {
            Framing::Tcp if self.pending.len() > FRAME_MAX => self.pending.clear(),
            // A read request may still begin with the last seven bytes.
            Framing::Rtu => drop(self.pending.drain(..self.pending.len().saturating_sub(RTU_REQUEST_BYTES - 1))),
            Framing::Tcp => {}
        }
        requests
    }

    /// Where the next whole request is, and how long.
    fn find(&self) -> Option<(usize, usize)> {
        match self.framing {
            Framing::Tcp => {
                tcp_length(&self.pending).filter(|length| *length <= self.pending.len()).map(|all| (0, all))
            }
            Framing::Rtu => {
                let is_read = |window: &[u8]| {
                    let (body, sum) = window.split_at(RTU_REQUEST_BYTES - 2);
                    (1..=4).contains(&body[1]) && sum == crc(body).to_le_bytes()
                };
                self.pending.windows(RTU_REQUEST_BYTES).position(is_read).map(|start| (start, RTU_REQUEST_BYTES))
            }
        }
    }
}

/// Finds whole answers in what our own server sends.
#[derive(Debug)]
pub struct Answers {
    framing: Framing,
    pending: Vec<u8>,
}

impl Answers {
    /// A stream that begins now.
    pub fn new(framing: Framing) -> Answers {
        Answers { framing, pending: Vec::new() }
    }

    /// Takes bytes as they came, and gives the answers that are whole now.
    pub fn receive(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.pending.extend_from_slice(bytes);
        let mut answers = Vec::new();
        while let Some(length) = self.length().filter(|length| *length <= self.pending.len()) {
            answers.push(self.pending.drain(..length).collect());
        }
        answers
    }

    fn length(&self) -> Option<usize> {
        match (self.framing, self.pending.as_slice()) {
            (Framing::Tcp, pending) => tcp_length(pending),
            (Framing::Rtu, [_, function, ..]) if function & EXCEPTION_BIT != 0 => Some(5),
            (Framing::Rtu, [_, 1..=4, count, ..]) => Some(5 + usize::from(*count)),
            (Framing::Rtu, [_, 1..=4]) => None,
            // Of what is no read our server writes the whole answer at once.
            (Framing::Rtu, [_, _, ..]) => Some(self.pending.len()),
            (Framing::Rtu, _) => None,
        }
    }
}

/// The length of the frame that begins here, once its length field is there.
fn tcp_length(bytes: &[u8]) -> Option<usize> {
    let [.., high, low] = *bytes.first_chunk::<PREFIX_BYTES>()?;
    Some(PREFIX_BYTES + usize::from(u16::from_be_bytes([high, low])))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::modbus::pdu::{ReadReply, ReadRequest, Received};
    use crate::modbus::rtu::RtuExchange;
    use crate::modbus::tcp::TcpExchange;

    #[test]
    fn a_request_of_the_gateway_is_found_and_its_answer_is_understood_by_it() {
        let words = vec![7_u16, 0xFFFF];
        let request = ReadRequest::new(Table::Input, 40, 2).unwrap();
        let expected = Received::Reply(Ok(ReadReply::Registers(heapless::Vec::from_slice(&words).unwrap())));
        let mut tcp = TcpExchange::default();
        let found = Requests::new(Framing::Tcp).receive(&tcp.begin(9, request));
        assert_eq!(found[0].asked(), Some(Asked { table: Table::Input, address: 40, count: 2 }));
        assert_eq!(tcp.receive(&found[0].respond(&Answer::Registers(words.clone())).unwrap()), expected);
        let mut rtu = RtuExchange::new(false);
        let found = Requests::new(Framing::Rtu).receive(&rtu.begin(9, request));
        assert_eq!(found[0].unit(), 9);
        assert_eq!(rtu.receive(&found[0].respond(&Answer::Registers(words)).unwrap()), expected);
    }

    proptest! {
        #[test]
        fn frames_are_found_however_they_are_cut(cut in 1_usize..20, noise in prop::collection::vec(any::<u8>(), 0..30)) {
            for framing in [Framing::Tcp, Framing::Rtu] {
                let frames: Vec<Vec<u8>> =
                    (0..3).map(|number| framing.frame(number, 5, &[3, 0, number as u8, 0, 2])).collect();
                let mut stream = if framing == Framing::Rtu { noise.clone() } else { Vec::new() };
                stream.extend(frames.concat());
                let mut requests = Requests::new(framing);
                let found: Vec<Vec<u8>> = stream
                    .chunks(cut)
                    .flat_map(|piece| requests.receive(piece))
                    .map(|request| request.bytes)
                    .collect();
                prop_assert_eq!(found, frames);
            }
        }
    }
}
