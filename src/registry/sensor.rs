//! What a configuration says of a link, a device and a sensor.

use std::time::Duration;

use super::{DeviceIndex, LinkIndex, SensorIndex};
use crate::ids::{DeviceId, LinkId, SensorId};
use crate::modbus::Table;
use crate::modbus::words::{Encoding, NoValueCode};
use crate::quantity::{Range, Scaling, Unit};
use crate::registry::reading::{Fault, Sample, Stamp};

/// One TCP endpoint or one serial line. One task owns it.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its name.
    pub id: LinkId,
    /// Where it leads.
    pub endpoint: Endpoint,
    /// How long one request waits for its answer.
    pub timeout: Duration,
    /// The pause after an answer before the next request.
    pub request_gap: Duration,
    /// The pause after a connection is made before the first request.
    pub connect_delay: Duration,
    /// The longest pause between two tries to reach an absent device.
    pub retry_max: Duration,
    /// The devices on it, in the order of the configuration.
    pub devices: Vec<DeviceIndex>,
}

/// Where a link leads.
#[derive(Clone, Debug, PartialEq)]
pub enum Endpoint {
    /// Modbus/TCP: `host:port`. The host may be a name, which is looked up at each connect.
    Tcp {
        /// A host name or an address; an IPv6 address stands without brackets.
        host: String,
        /// The TCP port, 502 unless the configuration says otherwise.
        port: u16,
    },
    /// Modbus RTU on a serial port.
    Serial(SerialSettings),
    /// Modbus RTU through a TCP connection, to a converter that hands the bytes on to a serial line as they are.
    RtuOverTcp {
        /// A host name or an address, as for Modbus/TCP.
        host: String,
        /// The TCP port.
        port: u16,
        /// The line behind the converter; its path is the `host:port` that leads there.
        line: SerialSettings,
    },
}

impl Endpoint {
    /// The serial line that the requests go over in the end, if there is one.
    ///
    /// Its frames carry no transaction id, and only silence keeps one answer from the next request.
    pub fn line(&self) -> Option<&SerialSettings> {
        match self {
            Endpoint::Tcp { .. } => None,
            Endpoint::Serial(line) | Endpoint::RtuOverTcp { line, .. } => Some(line),
        }
    }
}

/// A serial port and how its characters look (Modbus over Serial Line V1.02, section 2.5.1).
#[derive(Clone, Debug, PartialEq)]
pub struct SerialSettings {
    /// The port, best by id: `/dev/serial/by-id/usb-…`.
    pub path: String,
    /// Bits per second.
    pub baud: u32,
    /// The parity bit; the standard's default is even.
    pub parity: Parity,
    /// 7 or 8; RTU needs 8.
    pub data_bits: u8,
    /// 1 or 2.
    pub stop_bits: u8,
    /// Whether the adapter repeats to us what we send.
    pub local_echo: bool,
}

/// The parity of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parity {
    /// No parity bit.
    None,
    /// Even.
    Even,
    /// Odd.
    Odd,
}

impl SerialSettings {
    /// Bits of one character on the line: start, data, parity and stop.
    pub fn bits_per_character(&self) -> u32 {
        1 + u32::from(self.data_bits) + u32::from(self.parity != Parity::None) + u32::from(self.stop_bits)
    }

    /// The silence that ends a frame: 3.5 characters, and 1.75 ms above 19,200 bit/s
    /// (Modbus over Serial Line V1.02, section 2.5.1.1).
    pub fn frame_silence(&self) -> Duration {
        if self.baud > 19_200 {
            return Duration::from_micros(1_750);
        }
        let bits = u64::from(self.bits_per_character());
        Duration::from_micros(bits * 3_500_000 / u64::from(self.baud))
    }

    /// How long so many characters take on the line.
    pub fn time_of(&self, characters: usize) -> Duration {
        let bits = u64::from(self.bits_per_character()) * characters as u64;
        Duration::from_nanos(bits * 1_000_000_000 / u64::from(self.baud))
    }
}

/// One unit id on a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Its name.
    pub id: DeviceId,
    /// The name for people; empty where none is given.
    pub name: String,
    /// The link it is on.
    pub link: LinkIndex,
    /// Its unit id (slave address): 1 to 247 on a serial line, 0 to 255 over TCP.
    pub unit: u8,
    /// How often its sensors are read, unless one says otherwise.
    pub poll_every: Duration,
    /// What one read of it may ask for.
    pub limits: ReadLimits,
    /// Its sensors, in the order of the configuration.
    pub sensors: Vec<SensorIndex>,
}

/// What one read of a device may ask for.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadLimits {
    /// The most registers: 1 to 125.
    pub max_registers: u16,
    /// The most bits: 1 to 2,000.
    pub max_bits: u16,
    /// Whether registers that no sensor names may be read along to save a request.
    pub read_across_gaps: bool,
    /// Whether one read may serve several sensors that have not the same registers.
    pub merge: bool,
    /// Registers that no read may touch.
    pub forbidden: Vec<Forbidden>,
}

/// Registers of a device that no read may touch, not even to save a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forbidden {
    /// The table.
    pub table: Table,
    /// The first of them.
    pub first: u16,
    /// The last of them; not below the first.
    pub last: u16,
}

impl Default for ReadLimits {
    /// What the standard allows (V1.1b3, sections 6.1 to 6.4).
    fn default() -> ReadLimits {
        ReadLimits {
            max_registers: Table::Holding.read_limit(),
            max_bits: Table::Coil.read_limit(),
            read_across_gaps: true,
            merge: true,
            forbidden: Vec::new(),
        }
    }
}

/// One measured thing: a register, a few of them, or a bit.
#[derive(Clone, Debug, PartialEq)]
pub struct Sensor {
    /// Its name, of the form that the plant chose.
    pub id: SensorId,
    /// The name for people; empty where none is given.
    pub name: String,
    /// More words for people and agents; empty where none are given.
    pub description: String,
    /// The device that holds it.
    pub device: DeviceIndex,
    /// Where and how it is read.
    pub read: ReadSpec,
    /// Its engineering unit.
    pub unit: Unit,
    /// The engineering range.
    pub range: Option<Range>,
    /// The device's codes for "no value", as bits of the sensor's own width.
    pub no_value: Vec<NoValueCode>,
    /// Older than this a value is stale.
    pub max_age: Duration,
}

/// Where a sensor's registers are, and what they mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadSpec {
    /// The table.
    pub table: Table,
    /// The zero-based PDU address of the first register or bit.
    pub address: u16,
    /// The type and the order of its words.
    pub encoding: Encoding,
    /// From the raw number to the engineering one.
    pub scaling: Scaling,
}

impl ReadSpec {
    /// How many registers or bits it covers.
    pub fn count(&self) -> u16 {
        if self.table.is_bits() { 1 } else { self.encoding.registers() }
    }
}

impl Sensor {
    /// What the device's words mean for this sensor: a sample, or why they are none. A single bit is one word, 0 or 1.
    pub fn interpret(&self, words: &[u16], read_at: Stamp) -> Result<Sample, Fault> {
        let encoding = &self.read.encoding;
        if self.no_value.iter().any(|code| encoding.holds(words, *code)) {
            return Err(Fault::NoValue);
        }
        let raw = encoding.decode(words).map_err(|_| Fault::NotANumber)?;
        let value = self.read.scaling.apply(raw).ok_or(Fault::NotANumber)?;
        let in_range = self.range.is_none_or(|range| range.contains(&value));
        Ok(Sample::new(value, words, in_range, read_at))
    }
}
