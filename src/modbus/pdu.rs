//! Protocol data units: read requests and their replies.
//!
//! A reply is checked against the request that it answers: the function must be the same, and the bytes must be exactly as
//! many as were asked for. A device that answers more or less has answered something else, and nothing of it is used.

use super::Table;
use super::cursor::Cursor;
use super::exception::ExceptionCode;
use super::identify::{self, Identification, IdentifyRequest, NoAnswer};

/// The bit that makes a function an exception answer (V1.1b3, section 7).
pub(super) const EXCEPTION_BIT: u8 = 0x80;

/// A read of neighbouring registers or bits: function 1 to 4. The count is within the limit of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    table: Table,
    address: u16,
    count: u16,
}

/// A read that the standard does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{count} at {address} of {table} cannot be read at once")]
pub struct ReadRequestError {
    table: Table,
    address: u16,
    count: u16,
}

impl ReadRequest {
    /// A read of `count` elements from `address`: 1 up to the limit of the table, and not beyond address 65535.
    pub fn new(table: Table, address: u16, count: u16) -> Result<ReadRequest, ReadRequestError> {
        if count == 0 || count > table.read_limit() || u32::from(address) + u32::from(count) > 0x1_0000 {
            return Err(ReadRequestError { table, address, count });
        }
        Ok(ReadRequest { table, address, count })
    }

    /// The table.
    pub fn table(&self) -> Table {
        self.table
    }

    /// The first address.
    pub fn address(&self) -> u16 {
        self.address
    }

    /// How many registers or bits.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// The function that does this read.
    pub fn function(&self) -> u8 {
        self.table.read_function()
    }

    /// How many bytes of data the reply has: 1 to 250.
    pub fn data_bytes(&self) -> u8 {
        let bytes = if self.table.is_bits() { self.count.div_ceil(8) } else { self.count * 2 };
        u8::try_from(bytes).unwrap_or(u8::MAX) // never more than 250, because `new` checked the count
    }

    /// The request as bytes: function, address, count.
    pub fn encode(&self) -> [u8; 5] {
        let [address_high, address_low] = self.address.to_be_bytes();
        let [count_high, count_low] = self.count.to_be_bytes();
        [self.function(), address_high, address_low, count_high, count_low]
    }

    /// The request that these bytes are, seen from the device's side.
    pub fn parse(pdu: &[u8]) -> Option<ReadRequest> {
        let mut bytes = Cursor::new(pdu);
        let table = Table::from_read_function(bytes.byte()?)?;
        let (address, count) = (bytes.word()?, bytes.word()?);
        bytes.at_end(ReadRequest::new(table, address, count).ok()?)
    }

    /// What these bytes say as the answer to this request.
    pub fn decode_reply(&self, pdu: &[u8]) -> Result<ReadReply, ReplyError> {
        Request::Read(*self).decode_reply(pdu)
    }

    fn decode_data(&self, mut bytes: Cursor<'_>) -> Option<ReadReply> {
        let announced = bytes.byte()?;
        let data = bytes.rest();
        if announced != self.data_bytes() || data.len() != usize::from(announced) {
            return None;
        }
        if self.table.is_bits() {
            return PackedBits::new(data, self.count).map(ReadReply::Bits);
        }
        let mut registers = heapless::Vec::new();
        while let Some(register) = bytes.word() {
            registers.push(register).ok()?;
        }
        Some(ReadReply::Registers(registers))
    }
}

/// Anything that is asked of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Registers or bits.
    Read(ReadRequest),
    /// What the device is.
    Identify(IdentifyRequest),
}

impl From<ReadRequest> for Request {
    fn from(request: ReadRequest) -> Request {
        Request::Read(request)
    }
}

impl From<IdentifyRequest> for Request {
    fn from(request: IdentifyRequest) -> Request {
        Request::Identify(request)
    }
}

impl Request {
    /// The function that does it.
    pub fn function(&self) -> u8 {
        match self {
            Request::Read(request) => request.function(),
            Request::Identify(_) => identify::FUNCTION,
        }
    }

    /// The request as bytes, the function first.
    pub fn encode(&self) -> heapless::Vec<u8, 5> {
        let mut pdu = heapless::Vec::new();
        // None has more than five bytes.
        let _ = match self {
            Request::Read(request) => pdu.extend_from_slice(&request.encode()),
            Request::Identify(request) => pdu.extend_from_slice(&request.encode()),
        };
        pdu
    }

    /// The most bytes that the answer's PDU has.
    pub fn longest_answer(&self) -> usize {
        match self {
            Request::Read(request) => 2 + usize::from(request.data_bytes()),
            Request::Identify(_) => identify::PDU_MAX,
        }
    }

    /// How long the answer's PDU is that begins like this; `None` while that cannot be said. `Err` if no answer begins so.
    pub(super) fn answer_length(&self, pdu: &[u8]) -> Result<Option<usize>, NoAnswer> {
        match (pdu, self) {
            ([], _) => Ok(None),
            ([function, ..], _) if *function == self.function() | EXCEPTION_BIT => Ok(Some(2)),
            ([function, ..], _) if *function != self.function() => Err(NoAnswer),
            ([_, count, ..], Request::Read(request)) if *count != request.data_bytes() => Err(NoAnswer),
            (_, Request::Read(request)) => Ok(Some(2 + usize::from(request.data_bytes()))),
            (_, Request::Identify(request)) => request.answer_length(pdu),
        }
    }

    /// Whether function and byte count of this answer agree with its length, so far as they say one.
    ///
    /// An answer of another size than was asked for agrees; one that was cut, or that is counted wrongly by its frame, does not.
    /// Of an identification nothing is said: devices count its objects carelessly, and it is no value.
    pub(super) fn length_fits(&self, pdu: &[u8]) -> bool {
        match pdu {
            [function, rest @ ..] if *function == self.function() | EXCEPTION_BIT => rest.len() == 1,
            [function, count, data @ ..] if *function == self.function() => {
                matches!(self, Request::Identify(_)) || data.len() == usize::from(*count)
            }
            _ => true,
        }
    }

    /// What these bytes say as the answer to this request.
    pub fn decode_reply(&self, pdu: &[u8]) -> Result<ReadReply, ReplyError> {
        let mut bytes = Cursor::new(pdu);
        match bytes.byte() {
            Some(function) if function == self.function() => {
                let reply = match self {
                    Request::Read(request) => request.decode_data(bytes),
                    Request::Identify(request) => request.decode_data(bytes).map(ReadReply::Identification),
                };
                reply.ok_or(ReplyError::Malformed)
            }
            Some(function) if function == self.function() | EXCEPTION_BIT => {
                let code = bytes.byte().and_then(|code| bytes.at_end(ExceptionCode(code)));
                Err(code.map_or(ReplyError::Malformed, ReplyError::Exception))
            }
            _ => Err(ReplyError::Malformed),
        }
    }
}

/// What a device answered to a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadReply {
    /// Registers, as many as were asked for.
    Registers(heapless::Vec<u16, 125>),
    /// Bits, as many as were asked for.
    Bits(PackedBits),
    /// What the device is.
    Identification(Identification),
}

impl ReadReply {
    /// `count` registers from the one at `offset` after the first.
    pub fn registers(&self, offset: u16, count: u16) -> Option<&[u16]> {
        let offset = usize::from(offset);
        match self {
            ReadReply::Registers(registers) => registers.get(offset..offset + usize::from(count)),
            ReadReply::Bits(_) | ReadReply::Identification(_) => None,
        }
    }

    /// The bit at `offset` after the first.
    pub fn bit(&self, offset: u16) -> Option<bool> {
        match self {
            ReadReply::Registers(_) | ReadReply::Identification(_) => None,
            ReadReply::Bits(bits) => bits.get(offset),
        }
    }

    /// The reply as the device sent it for this table: function, byte count, data. An identification belongs to no table.
    pub fn encode(&self, table: Table) -> heapless::Vec<u8, 252> {
        let mut pdu = heapless::Vec::new();
        // Both kinds of data hold at most 250 bytes, so nothing is ever refused for want of room.
        let _ = pdu.push(table.read_function());
        match self {
            ReadReply::Registers(registers) => {
                let _ = pdu.push((registers.len() * 2) as u8);
                for register in registers {
                    let _ = pdu.extend_from_slice(&register.to_be_bytes());
                }
            }
            ReadReply::Bits(bits) => {
                let _ = pdu.push(bits.as_bytes().len() as u8);
                let _ = pdu.extend_from_slice(bits.as_bytes());
            }
            ReadReply::Identification(_) => {}
        }
        pdu
    }
}

/// Bits, packed as they came: the first asked for is the lowest of the first byte. Padding after the last one may be
/// anything, is kept, and is never given out as a bit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedBits {
    bytes: heapless::Vec<u8, 250>,
    count: u16,
}

impl PackedBits {
    /// `count` bits in exactly as many bytes as they need.
    pub fn new(bytes: &[u8], count: u16) -> Option<PackedBits> {
        if bytes.len() != usize::from(count.div_ceil(8)) {
            return None;
        }
        Some(PackedBits { bytes: heapless::Vec::from_slice(bytes).ok()?, count })
    }

    /// The bit at `offset` after the first.
    pub fn get(&self, offset: u16) -> Option<bool> {
        if offset >= self.count {
            return None;
        }
        let byte = self.bytes.get(usize::from(offset / 8))?;
        Some(byte >> (offset % 8) & 1 == 1)
    }

    /// The bytes, padding included.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Why a reply that belongs to the request gives no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// The device refuses.
    #[error("the device answered {0}")]
    Exception(ExceptionCode),
    /// Another length or function than the request asked for.
    #[error("the answer does not fit the request")]
    Malformed,
}

/// What has come of a request after some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "a reply in a box would cost one allocation per request")]
pub enum Received {
    /// Not all of the answer yet.
    NeedMore,
    /// The answer.
    Reply(Result<ReadReply, ReplyError>),
    /// The stream cannot be understood any more; the connection must be made anew. Serial lines never say this.
    Broken,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(table: Table, address: u16, count: u16) -> ReadRequest {
        ReadRequest::new(table, address, count).expect("a request")
    }

    /// An example of the standard: the request's bytes, and what the reply's bytes say.
    fn check_registers(asked: ReadRequest, sent: [u8; 5], answered: &[u8], registers: &[u16]) {
        assert_eq!(asked.encode(), sent);
        assert_eq!(ReadRequest::parse(&sent), Some(asked));
        let reply = asked.decode_reply(answered).expect("a reply");
        assert_eq!(reply.registers(0, asked.count()), Some(registers));
        assert_eq!(reply.encode(asked.table()), answered);
    }

    fn check_bits(asked: ReadRequest, sent: [u8; 5], answered: &[u8], bits: &str) {
        assert_eq!(asked.encode(), sent);
        assert_eq!(ReadRequest::parse(&sent), Some(asked));
        let reply = asked.decode_reply(answered).expect("a reply");
        let got: String =
            (0..asked.count()).map(|offset| if reply.bit(offset).expect("a bit") { '1' } else { '0' }).collect();
        assert_eq!(got, bits);
        assert_eq!(reply.bit(asked.count()), None, "padding is no bit");
        assert_eq!(reply.encode(asked.table()), answered);
    }

    #[test]
    fn the_examples_of_the_standard_are_read_as_it_says() {
        // V1.1b3, sections 6.1 to 6.4.
        check_bits(
            request(Table::Coil, 19, 19),
            [0x01, 0x00, 0x13, 0x00, 0x13],
            &[0x01, 0x03, 0xCD, 0x6B, 0x05],
            "1011001111010110101",
        );
        check_bits(
            request(Table::DiscreteInput, 196, 22),
            [0x02, 0x00, 0xC4, 0x00, 0x16],
            &[0x02, 0x03, 0xAC, 0xDB, 0x35],
            "0011010111011011101011",
        );
        check_registers(
            request(Table::Holding, 107, 3),
            [0x03, 0x00, 0x6B, 0x00, 0x03],
            &[0x03, 0x06, 0x02, 0x2B, 0x00, 0x00, 0x00, 0x64],
            &[555, 0, 100],
        );
        check_registers(request(Table::Input, 8, 1), [0x04, 0x00, 0x08, 0x00, 0x01], &[0x04, 0x02, 0x00, 0x0A], &[10]);
    }

    #[test]
    fn case_c10_the_lowest_bit_of_the_first_byte_is_the_first_coil_and_padding_is_ignored() {
        let asked = request(Table::Coil, 0x0100, 11);
        for answered in [[0x01, 0x02, 0x4D, 0x05], [0x01, 0x02, 0x4D, 0xFD]] {
            check_bits(asked, [0x01, 0x01, 0x00, 0x00, 0x0B], &answered, "10110010101");
        }
        assert_eq!(asked.decode_reply(&[0x01, 0x01, 0x4D]), Err(ReplyError::Malformed));
        assert_eq!(asked.decode_reply(&[0x01, 0x03, 0x4D, 0x05, 0x00]), Err(ReplyError::Malformed));
    }

    #[test]
    fn a_reply_of_another_length_or_function_gives_no_data() {
        let asked = request(Table::Holding, 0, 2);
        let malformed: [&[u8]; 11] = [
            &[],
            &[0x03],
            &[0x03, 0x04],
            &[0x03, 0x02, 0x00, 0x01],
            &[0x03, 0x04, 0x00, 0x01],
            &[0x03, 0x04, 0x00, 0x01, 0x00],
            &[0x03, 0x04, 0x00, 0x01, 0x00, 0x02, 0x00],
            &[0x03, 0x06, 0x00, 0x01, 0x00, 0x02, 0x00, 0x03],
            &[0x04, 0x04, 0x00, 0x01, 0x00, 0x02],
            &[0x83],
            &[0x84, 0x02],
        ];
        for pdu in malformed {
            assert_eq!(asked.decode_reply(pdu), Err(ReplyError::Malformed), "{pdu:02X?}");
        }
    }

    #[test]
    fn every_exception_code_is_kept_as_it_came() {
        let asked = request(Table::Coil, 0x04A1, 1);
        for code in 0..=u8::MAX {
            assert_eq!(asked.decode_reply(&[0x81, code]), Err(ReplyError::Exception(ExceptionCode(code))));
        }
        assert_eq!(asked.decode_reply(&[0x81, 2, 0]), Err(ReplyError::Malformed));
    }

    #[test]
    fn only_what_was_asked_for_can_be_taken_from_a_reply() {
        let asked = request(Table::Holding, 10, 3);
        let reply = asked.decode_reply(&[3, 6, 0, 1, 0, 2, 0, 3]).expect("a reply");
        assert_eq!(reply.registers(1, 2), Some(&[2, 3][..]));
        assert_eq!(reply.registers(2, 2), None);
        assert_eq!(reply.registers(u16::MAX, u16::MAX), None);
        assert_eq!(reply.bit(0), None);
    }

    #[test]
    fn a_read_that_the_standard_forbids_cannot_be_built() {
        for (table, limit) in [(Table::Holding, 125), (Table::Input, 125), (Table::Coil, 2000)] {
            assert!(ReadRequest::new(table, 0, 0).is_err());
            assert!(ReadRequest::new(table, 0, limit).is_ok());
            assert!(ReadRequest::new(table, 0, limit + 1).is_err());
            assert!(ReadRequest::new(table, 65_535, 1).is_ok());
            assert!(ReadRequest::new(table, 65_535, 2).is_err());
        }
        assert_eq!(ReadRequest::parse(&[3, 0, 0, 0, 126]), None);
        assert_eq!(ReadRequest::parse(&[6, 0, 0, 0, 1]), None);
        assert_eq!(ReadRequest::parse(&[3, 0, 0, 0, 1, 0]), None);
    }
}
