//! RTU framing: unit, PDU and CRC on a serial line (Modbus over Serial Line V1.02, section 2.5.1).

use super::pdu::{ReadRequest, Received};

/// One line's side of request and answer. It looks for the awaited unit, function, length and CRC at every offset, so stray
/// bytes before and after an answer do no harm. The caller keeps the line silent after a time-out: RTU has no transaction id.
#[derive(Debug)]
pub struct RtuExchange {}

impl RtuExchange {
    /// An exchange on a line whose adapter repeats what we send, or not.
    pub fn new(local_echo: bool) -> RtuExchange {
        let _ = local_echo;
        RtuExchange {}
    }

    /// The frame to send for a request; whatever came before is forgotten.
    pub fn begin(&mut self, unit: u8, request: ReadRequest) -> heapless::Vec<u8, 8> {
        let _ = (unit, request);
        unimplemented!()
    }

    /// Takes bytes as they came, and says what has come of the request that began last.
    pub fn receive(&mut self, bytes: &[u8]) -> Received {
        let _ = bytes;
        unimplemented!()
    }

    /// Whether bytes came since the request that were no part of an answer to it.
    pub fn saw_noise(&self) -> bool {
        unimplemented!()
    }
}
