//! Whether a device lives, by a register that a living one keeps changing. Pure: words and time in, a judgement out.
//!
//! A gateway in between may go on serving the registers of a device that was unplugged, and every value of them looks
//! fresh. A constant value is no sign of that, since many are constant; a heartbeat that stands still is.

use std::time::{Duration, Instant};

use crate::modbus::Table;
use crate::modbus::pdu::{ReadReply, ReadRequest};

/// The register by which a device shows that it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// The table: holding or input registers, or one of the tables of bits.
    pub table: Table,
    /// The zero-based PDU address.
    pub address: u16,
    /// A device whose register has not changed for longer is not believed.
    pub max_unchanged: Duration,
}

impl Heartbeat {
    /// The request that must be made for the heartbeat alone, if none of the device's other ones reads it along.
    pub fn missing_in(&self, mut requests: impl Iterator<Item = ReadRequest>) -> Option<ReadRequest> {
        let is_read = requests.any(|request| self.offset_in(request).is_some());
        if is_read { None } else { ReadRequest::new(self.table, self.address, 1).ok() }
    }

    /// Where in the answer to a request the register is.
    fn offset_in(&self, request: ReadRequest) -> Option<u16> {
        let offset = self.address.checked_sub(request.address())?;
        (request.table() == self.table && offset < request.count()).then_some(offset)
    }
}

/// What is known of a device's heartbeat. Belongs to the task of the device's link.
#[derive(Clone, Copy, Debug)]
pub struct HeartbeatWatch {
    heartbeat: Heartbeat,
    last: Option<Beat>,
}

#[derive(Clone, Copy, Debug)]
struct Beat {
    word: u16,
    changed_at: Instant,
    seen_at: Instant,
}

impl HeartbeatWatch {
    /// A watch that has seen nothing yet, and believes the device.
    pub fn new(heartbeat: Heartbeat) -> HeartbeatWatch {
        HeartbeatWatch { heartbeat, last: None }
    }

    /// Takes the answer to a request, looks for the register in it, and says whether the device stands still, so that what
    /// it answers is not to be believed.
    ///
    /// A register that was not read for longer than it may stand still, because the device was away or nobody asked, begins
    /// anew: it cannot be told whether it stood still meanwhile.
    pub fn heard(&mut self, request: ReadRequest, reply: &ReadReply, at: Instant) -> bool {
        if let Some(word) = self.word_in(request, reply) {
            self.saw(word, at);
        }
        self.is_frozen()
    }

    fn word_in(&self, request: ReadRequest, reply: &ReadReply) -> Option<u16> {
        let offset = self.heartbeat.offset_in(request)?;
        match reply {
            ReadReply::Registers(_) => reply.registers(offset, 1).and_then(|words| words.first().copied()),
            ReadReply::Bits(_) => reply.bit(offset).map(u16::from),
            ReadReply::Identification(_) => None,
        }
    }

    fn saw(&mut self, word: u16, at: Instant) {
        let gap = |last: &Beat| at.saturating_duration_since(last.seen_at) > self.heartbeat.max_unchanged;
        let changed_at = match &self.last {
            Some(last) if last.word == word && !gap(last) => last.changed_at,
            _ => at,
        };
        self.last = Some(Beat { word, changed_at, seen_at: at });
    }

    /// Whether the register has stood still for too long, as far as it was seen.
    fn is_frozen(&self) -> bool {
        self.last
            .is_some_and(|last| last.seen_at.saturating_duration_since(last.changed_at) > self.heartbeat.max_unchanged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEARTBEAT: Heartbeat =
        Heartbeat { table: Table::Holding, address: 11, max_unchanged: Duration::from_secs(30) };

    /// Feeds `(second, word)` and says after each whether the device is frozen.
    fn course(beats: &[(u64, u16)]) -> Vec<bool> {
        let start = Instant::now();
        let mut watch = HeartbeatWatch::new(HEARTBEAT);
        let request = ReadRequest::new(Table::Holding, 10, 2).expect("a request");
        let heard = |(second, word): &(u64, u16)| {
            let words = heapless::Vec::from_slice(&[0, *word]).expect("two words");
            watch.heard(request, &ReadReply::Registers(words), start + Duration::from_secs(*second))
        };
        beats.iter().map(heard).collect()
    }

    #[test]
    fn case_c40_a_heartbeat_that_stands_still_is_found_out_and_one_that_beats_again_is_believed() {
        assert_eq!(
            course(&[(0, 4711), (15, 4711), (30, 4711), (31, 4711), (36, 4711), (41, 4712)]),
            [false, false, false, true, true, false]
        );
    }

    #[test]
    fn a_beating_device_is_believed_and_so_is_one_that_comes_back_after_a_pause() {
        assert_eq!(course(&[(0, 1), (20, 2), (40, 3), (60, 4)]), [false; 4]);
        assert_eq!(course(&[(0, 1), (3600, 1), (3620, 1), (3631, 1)]), [false, false, false, true]);
    }

    #[test]
    fn a_heartbeat_that_no_request_reads_along_needs_one_of_its_own() {
        let request = |table, address, count| ReadRequest::new(table, address, count).expect("a request");
        let beside = [request(Table::Holding, 0, 11), request(Table::Input, 11, 1), request(Table::Holding, 12, 5)];
        assert_eq!(HEARTBEAT.missing_in(beside.into_iter()), Some(request(Table::Holding, 11, 1)));
        assert_eq!(HEARTBEAT.missing_in([request(Table::Holding, 0, 12)].into_iter()), None);
    }

    #[test]
    fn other_registers_say_nothing_of_the_heartbeat() {
        let start = Instant::now();
        let mut watch = HeartbeatWatch::new(HEARTBEAT);
        let elsewhere = [(Table::Holding, 12), (Table::Holding, 0), (Table::Input, 10)];
        for second in 0..100 {
            for (table, address) in elsewhere {
                let request = ReadRequest::new(table, address, 2).expect("a request");
                let words = heapless::Vec::from_slice(&[7, 7]).expect("two words");
                assert!(!watch.heard(request, &ReadReply::Registers(words), start + Duration::from_secs(second)));
            }
        }
    }
}
