//! Modbus as bytes: requests and replies, their framing on TCP and on a serial line, and registers as numbers.
//!
//! Pure: no socket, no clock, no `tokio`. Bytes come in, and frames, replies or typed faults come out, so that every rule is
//! tested with bytes alone. Sources: Modbus Application Protocol V1.1b3, Modbus over Serial Line V1.02, Modbus Messaging
//! on TCP/IP V1.0b. Absent on purpose: retries, time-outs and sockets, which belong to [`crate::field`].

mod cursor;
pub mod exception;
pub mod identify;
mod owed;
pub mod pdu;
pub mod rtu;
pub mod tcp;
pub mod words;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod vectors;

use std::fmt;

/// The four tables of a device (Modbus Application Protocol V1.1b3, section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Coils: read and write, one bit each, function 1.
    Coil,
    /// Discrete inputs: read only, one bit each, function 2.
    DiscreteInput,
    /// Holding registers: read and write, 16 bits each, function 3.
    Holding,
    /// Input registers: read only, 16 bits each, function 4.
    Input,
}

impl Table {
    /// All four.
    pub const ALL: [Table; 4] = [Table::Coil, Table::DiscreteInput, Table::Holding, Table::Input];

    /// The names of the tables in a configuration, in the order of the variants.
    pub const NAMES: [&'static str; 4] = ["coil", "discrete", "holding", "input"];

    /// The table of that name.
    pub fn from_name(name: &str) -> Option<Table> {
        Table::ALL.into_iter().find(|table| table.name() == name)
    }

    /// Its name in a configuration.
    pub fn name(self) -> &'static str {
        Table::NAMES[self as usize]
    }

    /// The function that reads it (V1.1b3, sections 6.1 to 6.4).
    pub fn read_function(self) -> u8 {
        match self {
            Table::Coil => 1,
            Table::DiscreteInput => 2,
            Table::Holding => 3,
            Table::Input => 4,
        }
    }

    /// The table that a function reads, if it is one of those that read.
    pub fn from_read_function(function: u8) -> Option<Table> {
        Table::ALL.into_iter().find(|table| table.read_function() == function)
    }

    /// Whether its elements are single bits.
    pub fn is_bits(self) -> bool {
        matches!(self, Table::Coil | Table::DiscreteInput)
    }

    /// The most elements of one read: 2,000 bits or 125 registers (V1.1b3, sections 6.1 to 6.4).
    pub fn read_limit(self) -> u16 {
        if self.is_bits() { 2000 } else { 125 }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
