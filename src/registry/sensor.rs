//! What a configuration says of a link, a device and a sensor.

use std::time::Duration;

use super::{DeviceIndex, LinkIndex, SensorIndex};
use crate::ids::{DeviceId, LinkId, SensorId};
use crate::modbus::Table;
use crate::modbus::words::{Encoding, NoValueCode};
use crate::quantity::{PowerOfTen, Range, Scaling, Unit, Value};
use crate::registry::heartbeat::Heartbeat;
use crate::registry::reading::{Fault, Sample, Stamp};
use crate::registry::rules::Rules;

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
    /// Whether 3.5 characters of silence part two frames above 19,200 bit/s as well, where the standard recommends 1.75 ms.
    pub short_silence: bool,
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

    /// The silence that ends a frame: 3.5 characters; above 19,200 bit/s 1.75 ms, unless all devices of the line stand less
    /// (Modbus over Serial Line V1.02, section 2.5.1.1).
    pub fn frame_silence(&self) -> Duration {
        if self.baud > 19_200 && !self.short_silence {
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
    /// The register by which it shows that it lives; `None` where it has none.
    pub heartbeat: Option<Heartbeat>,
    /// Whether it is asked what it is (function 43) when it first answers, and when it is back.
    pub identify: bool,
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
    /// What else the value must be, and what it is called.
    pub rules: Rules,
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
    /// The zero-based PDU address of the first register or bit that is read. The value begins here, unless its factor stands
    /// before it: see [`ReadSpec::value_address`].
    pub address: u16,
    /// The type and the order of its words.
    pub encoding: Encoding,
    /// From the raw number to the engineering one.
    pub scaling: Scaling,
    /// Where the power of ten is that the device scales with; `None` where it has none.
    pub factor: Option<FactorPlace>,
}

/// Where value and factor are among the registers of one read, counted from the first of them.
///
/// They are never read apart: a device may change its factor at any moment, and then value and factor of two answers make
/// a number that never was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FactorPlace {
    value: u16,
    factor: u16,
}

impl ReadSpec {
    /// The same value with a factor at this address of the same table; `None` if no single read could hold both.
    pub fn with_factor_at(self, factor: u16) -> Option<ReadSpec> {
        let value = self.value_address();
        let address = value.min(factor);
        let place = FactorPlace { value: value - address, factor: factor - address };
        let spec = ReadSpec { address, factor: Some(place), ..self };
        (spec.count() <= self.table.read_limit()).then_some(spec)
    }

    /// How many registers or bits a read of it covers, from [`ReadSpec::address`] on: the value, its factor, and what lies
    /// between them.
    pub fn count(&self) -> u16 {
        let value = if self.table.is_bits() { 1 } else { self.encoding.registers() };
        self.factor.map_or(value, |place| (place.value + value).max(place.factor + 1))
    }

    /// The zero-based PDU address of the value.
    pub fn value_address(&self) -> u16 {
        self.address + self.factor.map_or(0, |place| place.value)
    }

    /// The zero-based PDU address of the factor.
    pub fn factor_address(&self) -> Option<u16> {
        self.factor.map(|place| self.address + place.factor)
    }

    /// The registers of the value, and the one of the factor, among all that were read; `None` if they are too few.
    fn parts<'w>(&self, words: &'w [u16]) -> Option<(&'w [u16], Option<u16>)> {
        let Some(place) = self.factor else { return Some((words, None)) };
        let value = usize::from(place.value);
        let factor = *words.get(usize::from(place.factor))?;
        Some((words.get(value..value + usize::from(self.encoding.registers()))?, Some(factor)))
    }
}

impl Sensor {
    /// What the device's words mean for this sensor: a sample, or why they are none. A single bit is one word, 0 or 1.
    ///
    /// The words are those of the whole read ([`ReadSpec::count`]); the sample keeps those of the value and of its factor.
    pub fn interpret(&self, words: &[u16], read_at: Stamp) -> Result<Sample, Fault> {
        let (value_words, factor) = self.read.parts(words).ok_or(Fault::NotANumber)?;
        let (value, in_range) = self.value_of(value_words, factor)?;
        let Some(factor) = factor else { return Ok(Sample::new(value, value_words, in_range, read_at)) };
        let kept = [value_words, &[factor]].concat();
        Ok(Sample::new(value, &kept, in_range, read_at))
    }

    /// The engineering value of these registers and this factor, and whether it is one that is expected.
    fn value_of(&self, words: &[u16], factor: Option<u16>) -> Result<(Value, bool), Fault> {
        let encoding = &self.read.encoding;
        if self.no_value.iter().any(|code| encoding.holds(words, *code)) {
            return Err(Fault::NoValue);
        }
        let factor = match factor {
            Some(word) => PowerOfTen::from_register(word).ok_or(Fault::NoValue)?,
            None => PowerOfTen::ONE,
        };
        let raw = encoding.decode(words).map_err(|_| Fault::NotANumber)?;
        let value = self.read.scaling.apply_with(raw, factor).ok_or(Fault::NotANumber)?;
        if self.rules.valid.is_some_and(|valid| !valid.contains(&value)) {
            return Err(Fault::Implausible);
        }
        let in_range = self.range.is_none_or(|range| range.contains(&value));
        Ok(match &self.rules.names {
            None => (value, in_range),
            Some(names) => {
                let (value, is_known) = names.name(value);
                (value, in_range && is_known)
            }
        })
    }

    /// The number in the words of a [`Sample`], unscaled and without its name; `None` if they are another sensor's.
    pub fn raw_value(&self, words: &[u16]) -> Option<Value> {
        let registers = if self.read.factor.is_some() { self.read.encoding.registers().into() } else { words.len() };
        self.read.encoding.decode(words.get(..registers)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Instant, SystemTime};

    use super::*;
    use crate::modbus::words::{DataType, WordOrder};
    use crate::sim::sample;

    fn stamp() -> Stamp {
        Stamp { instant: Instant::now(), wall: SystemTime::UNIX_EPOCH }
    }

    fn value(sensor: &Sensor, words: &[u16]) -> Result<(String, bool), Fault> {
        let now = stamp();
        let sample = sensor.interpret(words, now)?;
        let aged = sample.at(now.instant);
        Ok((aged.value().to_string(), aged.in_range()))
    }

    fn scaled(data_type: DataType, scale: &str) -> Sensor {
        let mut sensor = sample::sensor("A_LINE1_001", data_type, WordOrder::Abcd);
        sensor.read.scaling = Scaling::new(scale.parse().expect("a scale"), 0.into()).expect("a scaling");
        sensor
    }

    #[test]
    fn case_c04_codes_for_no_value_give_none_whatever_sign_and_scale_make_of_them() {
        let check = |data_type, scale, code, words: &[u16], expected: Result<&str, Fault>| {
            let mut sensor = scaled(data_type, scale);
            sensor.no_value = vec![NoValueCode(code)];
            assert_eq!(value(&sensor, words), expected.map(|text| (text.into(), true)));
        };
        check(DataType::I32, "1", 0x8000_0000, &[0x8000, 0], Err(Fault::NoValue));
        check(DataType::I32, "1", 0x8000_0000, &[0, 0x07D9], Ok("2009"));
        check(DataType::I32, "1", 0x8000_0000, &[0xFFFF, 0xFFFF], Ok("-1"));
        check(DataType::U32, "0.01", 0xFFFF_FFFF, &[0xFFFF, 0xFFFF], Err(Fault::NoValue));
        check(DataType::U64, "1", u64::MAX, &[0xFFFF; 4], Err(Fault::NoValue));
        // All of the bits count, and none but the code's own are a code.
        check(DataType::U64, "1", u64::MAX, &[0, 0, 0xFFFF, 0xFFFF], Ok("4294967295"));
        check(DataType::U64, "1", 0xFFFF_FFFF, &[0xFFFF; 4], Ok("18446744073709551615"));
        check(DataType::I16, "1", 0x8000, &[0x8001], Ok("-32767"));
    }

    #[test]
    fn case_c06_nan_and_infinity_are_no_values() {
        let sensor = scaled(DataType::F32, "1");
        for words in [[0x7FC0, 0], [0xFFC0, 0], [0x7F80, 0], [0xFF80, 0]] {
            assert_eq!(value(&sensor, &words), Err(Fault::NotANumber), "{words:04X?}");
        }
        assert_eq!(value(&sensor, &[0x41AC, 0]), Ok(("21.5".into(), true)));
    }

    #[test]
    fn case_c07_value_and_factor_are_found_wherever_they_stand_in_the_answer() {
        let check = |value_at: u16, factor_at: u16, words: &[u16], expected: &str| {
            let mut sensor = scaled(DataType::I16, "1");
            sensor.read.address = value_at;
            sensor.read = sensor.read.with_factor_at(factor_at).expect("near enough");
            let read = sensor.read;
            assert_eq!((read.address, usize::from(read.count())), (value_at.min(factor_at), words.len()));
            assert_eq!((read.value_address(), read.factor_address()), (value_at, Some(factor_at)));
            assert_eq!(value(&sensor, words), Ok((expected.into(), true)));
            let now = Stamp { instant: Instant::now(), wall: SystemTime::UNIX_EPOCH };
            let sample = sensor.interpret(words, now).expect("a value");
            let kept = sample.at(now.instant).words().to_vec();
            assert_eq!(kept, [6103, 0xFFFF], "the value's register and its factor's, and none between");
            assert_eq!(sensor.raw_value(&kept), Some(Value::Integer(6103)));
            assert_eq!(value(&sensor, &words[1..]), Err(Fault::NotANumber), "an answer too short");
        };
        check(100, 101, &[6103, 0xFFFF], "610.3");
        check(100, 104, &[6103, 7, 8, 9, 0xFFFF], "610.3");
        check(104, 100, &[0xFFFF, 7, 8, 9, 6103], "610.3");
        check(65_535, 65_534, &[0xFFFF, 6103], "610.3");
        let far = scaled(DataType::I16, "1").read;
        assert!(far.with_factor_at(224).is_some());
        assert_eq!(far.with_factor_at(225), None, "no read of 126 registers exists");
    }

    #[test]
    fn case_c09_a_64_bit_counter_keeps_its_last_digit() {
        let check = |data_type, scale, words: [u16; 4], expected: &str| {
            let sensor = scaled(data_type, scale);
            assert_eq!(value(&sensor, &words), Ok((expected.into(), true)));
            // In JSON it is a string, because most readers make a double of a number.
            let sample = sensor.interpret(&words, stamp()).expect("a value");
            assert_eq!(sample.at(stamp().instant).value().to_json(), expected);
        };
        check(DataType::U64, "1", [0x0020, 0, 0, 1], "9007199254740993");
        check(DataType::I64, "1", [0xFFDF, 0xFFFF, 0xFFFF, 0xFFFF], "-9007199254740993");
        check(DataType::U64, "1", [0xFFFF, 0xFFFF, 0xFFFF, 0xFFFE], "18446744073709551614");
        check(DataType::U64, "0.001", [0xFFFF, 0xFFFF, 0xFFFF, 0xFFFE], "18446744073709551.614");
    }

    #[test]
    fn case_c12_a_value_that_cannot_be_is_none_and_one_out_of_range_is_uncertain() {
        let mut sensor = scaled(DataType::U32, "0.1");
        sensor.range = Range::new(0.0, 10_000.0);
        sensor.rules.valid = Range::new(0.0, 15_000.0);
        assert_eq!(value(&sensor, &[0x0003, 0x0001]), Err(Fault::Implausible), "19660.9");
        assert_eq!(value(&sensor, &[0, 9999]), Ok(("999.9".into(), true)));
        assert_eq!(value(&sensor, &[0x0001, 0xADB1]), Ok(("11000.1".into(), false)));
        assert_eq!(value(&sensor, &[0x0002, 0x49F0]), Ok(("15000".into(), false)), "the end belongs to it");
    }

    #[test]
    fn case_c15_scaled_values_have_no_noise_digits() {
        let text = |sensor: &Sensor, words: &[u16]| value(sensor, words).expect("a value").0;
        assert_eq!(text(&scaled(DataType::F32, "1"), &[0x4369, 0x199A]), "233.1");
        assert_eq!(text(&scaled(DataType::U16, "0.1"), &[3]), "0.3");
        assert_eq!(text(&scaled(DataType::I16, "0.1"), &[0x44]), "6.8");
    }
}
