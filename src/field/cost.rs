//! What a request costs: how long it keeps its link from everything else. Pure.
//!
//! The planner compares plans by it, and `fieldgate plan` adds it up, so the figures that are shown are the ones that were
//! decided by. What a device needs to answer is not known before it is asked; the assumptions stand below.

use std::time::Duration;

use crate::modbus::Table;
use crate::registry::Link;
use crate::registry::sensor::Endpoint;

/// How long a device on a serial line is assumed to think. Most take 2 to 10 ms; the frame's silence is the least, because
/// only that tells the device that the request has ended.
const SERIAL_TURNAROUND: Duration = Duration::from_millis(5);

/// How long a request over TCP is assumed to be under way, most of which a PLC waits for its own cycle.
const ROUND_TRIP: Duration = Duration::from_millis(5);

/// What a converter between TCP and a serial line is assumed to add: the network, and its wait for the end of a frame.
const CONVERTER_TRIP: Duration = Duration::from_millis(5);

/// What one byte over TCP is assumed to cost, which is the device's time to copy it rather than the network's. It is why a
/// needless register is not free.
const PER_BYTE: Duration = Duration::from_micros(1);

/// Bytes of a request: unit, PDU of 5, CRC (V1.1b3, sections 6.1 to 6.4); over TCP the header of 7 in place of unit and CRC.
const REQUEST_BYTES: [usize; 2] = [8, 12];

/// Bytes of an answer around its data: unit, function, byte count, CRC; over TCP header, function and byte count.
const ANSWER_BYTES: [usize; 2] = [5, 9];

/// The cost model of one link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkCost {
    /// Beside the bytes: silences, turnaround or round trip, and the pause that the configuration asks for.
    overhead: Duration,
    per_byte: Duration,
    bytes_around_data: usize,
}

impl LinkCost {
    /// The model of a link.
    pub fn of(link: &Link) -> LinkCost {
        let network = match &link.endpoint {
            Endpoint::RtuOverTcp { .. } => CONVERTER_TRIP,
            Endpoint::Tcp { .. } | Endpoint::Serial(_) => Duration::ZERO,
        };
        match link.endpoint.line() {
            Some(line) => {
                let silence = line.frame_silence();
                LinkCost {
                    overhead: silence.max(SERIAL_TURNAROUND) + silence.max(link.request_gap) + network,
                    per_byte: line.time_of(1),
                    bytes_around_data: REQUEST_BYTES[0] + ANSWER_BYTES[0],
                }
            }
            None => LinkCost {
                overhead: ROUND_TRIP + link.request_gap,
                per_byte: PER_BYTE,
                bytes_around_data: REQUEST_BYTES[1] + ANSWER_BYTES[1],
            },
        }
    }

    /// How long a read of so many elements keeps the link busy.
    pub fn of_read(&self, table: Table, count: u16) -> Duration {
        let bytes = u32::try_from(self.bytes_of_read(table, count)).unwrap_or(u32::MAX);
        self.overhead + self.per_byte * bytes
    }

    /// How many bytes a read of so many elements and its answer have.
    pub fn bytes_of_read(&self, table: Table, count: u16) -> usize {
        let count = usize::from(count);
        let data = if table.is_bits() { count.div_ceil(8) } else { count * 2 };
        self.bytes_around_data + data
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::testing::Plan;
    use crate::registry::LinkIndex;

    #[test]
    fn a_read_on_a_serial_line_costs_its_characters_two_silences_and_the_turnaround() {
        let registry = Plan::serial(&[]).registry();
        let cost = LinkCost::of(registry.link(LinkIndex(0)));
        // 19,200 bit/s and 11 bits in a character: 8 + 5 + 20 characters take 18.906 ms, and a silence 2.005 ms.
        let micros = cost.of_read(Table::Holding, 10).as_micros();
        assert!((25_900..=25_920).contains(&micros), "{micros}");
        assert_eq!(cost.bytes_of_read(Table::Coil, 17), 8 + 5 + 3);
    }

    #[test]
    fn over_tcp_a_round_trip_is_dearer_than_any_registers() {
        let registry = Plan::tcp(&[]).registry();
        let cost = LinkCost::of(registry.link(LinkIndex(0)));
        assert!(cost.of_read(Table::Holding, 125) < cost.of_read(Table::Holding, 1) * 2);
        assert!(cost.of_read(Table::Holding, 2) > cost.of_read(Table::Holding, 1), "a needless register is not free");
    }
}
