//! Modbus/TCP framing: the MBAP header (Messaging on TCP/IP V1.0b, section 3.1.3).

use super::pdu::{ReadRequest, Received};

/// One connection's side of request and answer. Answers are matched by transaction id; late ones are dropped and counted.
#[derive(Debug, Default)]
pub struct TcpExchange {}

impl TcpExchange {
    /// The frame to send for a request; whatever was outstanding is abandoned, and its late answer will be dropped.
    pub fn begin(&mut self, unit: u8, request: ReadRequest) -> heapless::Vec<u8, 12> {
        let _ = (unit, request);
        unimplemented!()
    }

    /// Takes bytes as they came, and says what has come of the request that began last.
    pub fn receive(&mut self, bytes: &[u8]) -> Received {
        let _ = bytes;
        unimplemented!()
    }

    /// How many answers came too late and were dropped.
    pub fn late_answers(&self) -> u64 {
        unimplemented!()
    }
}
