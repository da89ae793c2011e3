//! Protocol data units: read requests and their replies.

use super::Table;
use super::exception::ExceptionCode;

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
}

/// What a device answered to a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadReply {
    /// Registers, as many as were asked for.
    Registers(heapless::Vec<u16, 125>),
    /// Bits, packed as they came: the first asked for is the lowest of the first byte. Padding may be anything.
    Bits(heapless::Vec<u8, 250>),
}

impl ReadReply {
    /// `count` registers from the one at `offset` after the first.
    pub fn registers(&self, offset: u16, count: u16) -> Option<&[u16]> {
        let _ = (offset, count);
        unimplemented!()
    }

    /// The bit at `offset` after the first.
    pub fn bit(&self, offset: u16) -> Option<bool> {
        let _ = offset;
        unimplemented!()
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
pub enum Received {
    /// Not all of the answer yet.
    NeedMore,
    /// The answer.
    Reply(Result<ReadReply, ReplyError>),
    /// The stream cannot be understood any more; the connection must be made anew. Serial lines never say this.
    Broken,
}
