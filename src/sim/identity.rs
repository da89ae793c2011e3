//! Values that say whose they are and of when, and the referee that reads them.
//!
//! A number of four registers or more holds unit, table, address and moment, so that a person can read them from it. One of
//! two registers holds the running number of its sensor and a shorter moment, and one of one register the same in 15 bits:
//! numbers are given in turn, so that neighbours never share one. A text says the same in hexadecimal. A bit cannot say
//! anything, but each has a course of its own, so that a swapped one is seen within a few reads. Neither the range nor the
//! scaling of a sensor is regarded, and types that are made of something else keep their usual signal.
//!
//! Pure. The referee compares with what the sensor *must* have held in the time between request and look, so that a value
//! of another sensor, of another moment, or of half of each is not accepted.

use std::time::Duration;

use super::pin::Words;
use super::signal::{integer_bounds, mix};
use crate::modbus::Table;
use crate::modbus::words::DataType;
use crate::quantity::{Finite, Value};
use crate::registry::{Registry, Sensor, SensorIndex};

/// How a value is cut into what says whose it is, and what says of when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// Above the moment.
    whose: u64,
    /// How many bits the moment has.
    moment_bits: u32,
    /// The moment's unit.
    tick: Duration,
}

impl Layout {
    fn ticks(&self, at: Duration) -> u64 {
        (at.as_millis() / self.tick.as_millis()) as u64
    }

    fn modulus(&self) -> u64 {
        1 << self.moment_bits
    }

    fn number(&self, tick: u64) -> u64 {
        (self.whose << self.moment_bits) | (tick % self.modulus())
    }
}

/// Why a value cannot be the sensor's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Verdict {
    /// It is another one's, or damaged.
    #[error("the value is not this sensor's: {0}")]
    Stranger(String),
    /// It is the sensor's, but of another moment.
    #[error("the value is of another moment: {0}")]
    OtherMoment(String),
}

/// The registers of a sensor at a moment; `None` for types that cannot say whose they are.
pub fn words(registry: &Registry, index: SensorIndex, at: Duration) -> Option<Words> {
    let sensor = registry.sensor(index);
    let layout = layout(registry, index, sensor)?;
    words_at_tick(sensor, index, layout, layout.ticks(at))
}

/// Whether these registers can be the sensor's, read between two moments. Types that cannot say are always accepted.
pub fn judge(
    registry: &Registry,
    index: SensorIndex,
    words: &[u16],
    between: (Duration, Duration),
) -> Result<(), Verdict> {
    let sensor = registry.sensor(index);
    let Some(layout) = layout(registry, index, sensor) else { return Ok(()) };
    let (first, last) = (layout.ticks(between.0), layout.ticks(between.1));
    let Some(number) = number_of(sensor, words) else {
        let held = |tick| words_at_tick(sensor, index, layout, tick).is_some_and(|held| held.as_slice() == words);
        let said = || format!("{words:04X?} between ticks {first} and {last}");
        return (first..=last).any(held).then_some(()).ok_or_else(|| Verdict::Stranger(said()));
    };
    let (whose, tick) = (number >> layout.moment_bits, number % layout.modulus());
    if whose != layout.whose {
        return Err(Verdict::Stranger(format!(
            "{number:#X} is of {whose:#X}, and it should be of {:#X}",
            layout.whose
        )));
    }
    let behind = tick.wrapping_sub(first) % layout.modulus();
    if behind <= last - first {
        return Ok(());
    }
    let span = format!("tick {tick}, and it should be {first} to {last} of {} ms each", layout.tick.as_millis());
    Err(Verdict::OtherMoment(span))
}

fn layout(registry: &Registry, index: SensorIndex, sensor: &Sensor) -> Option<Layout> {
    let running = index.place() as u64;
    let short = |whose, moment_bits, tick| Some(Layout { whose, moment_bits, tick: Duration::from_millis(tick) });
    let registers = match sensor.read.encoding.data_type {
        _ if sensor.read.table.is_bits() => return short(0, 32, 1000),
        DataType::Bool { .. } => return short(0, 32, 1000),
        DataType::F32 => 2,
        DataType::F64 => 4,
        DataType::Text { registers } if registers < 4 => return short(running % 251 + 1, 4, 1000),
        DataType::Text { .. } => 4,
        other if integer_bounds(other).is_some() => sensor.read.encoding.registers(),
        _ => return None,
    };
    match registers {
        // 15 bits, so that a signed register is not negative; 0 is left to registers that no sensor names.
        1 => short(running % 255 + 1, 7, 1000),
        // 24 bits, which a single-precision float holds exactly.
        2 => short(running % 4095 + 1, 12, 100),
        // 53 bits, which a double-precision float holds exactly.
        _ => {
            let unit = u64::from(registry.device(sensor.device).unit);
            let table = match sensor.read.table {
                Table::Coil => 0,
                Table::DiscreteInput => 1,
                Table::Input => 2,
                Table::Holding => 3,
            };
            short((unit << 18) | (table << 16) | u64::from(sensor.read.address), 27, 10)
        }
    }
}

fn words_at_tick(sensor: &Sensor, index: SensorIndex, layout: Layout, tick: u64) -> Option<Words> {
    let number = layout.number(tick);
    let raw = match sensor.read.encoding.data_type {
        _ if sensor.read.table.is_bits() => return Words::from_slice(&[u16::from(bit(index, tick))]).ok(),
        DataType::Bool { .. } => Value::Bool(bit(index, tick)),
        DataType::F32 | DataType::F64 => Value::Float(Finite::new(number as f64)?),
        DataType::Text { registers } => {
            let room = usize::from(registers) * 2;
            let digits = format!("{number:014X}");
            // The last digits change fastest and tell most.
            Value::Text(digits.get(digits.len().saturating_sub(room)..)?.into())
        }
        _ => Value::Integer(number.into()),
    };
    sensor.read.encoding.encode(&raw)
}

/// The number that a sensor's registers hold; `None` for texts, bits, and what is no such number.
fn number_of(sensor: &Sensor, words: &[u16]) -> Option<u64> {
    if sensor.read.table.is_bits() {
        return None;
    }
    match sensor.read.encoding.decode(words).ok()? {
        Value::Integer(number) => u64::try_from(number).ok(),
        Value::Float(number) => {
            let number = number.get();
            (number >= 0.0 && number.fract() == 0.0 && number < 9.1e15).then_some(number as u64)
        }
        _ => None,
    }
}

fn bit(index: SensorIndex, tick: u64) -> bool {
    mix(mix(index.place() as u64) ^ tick) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::sample;

    const MOMENT: Duration = Duration::from_millis(1_234_560);

    fn every_sensor(check: impl Fn(&Registry, SensorIndex, &Sensor)) {
        let registry = sample::registry();
        for (index, sensor) in registry.sensors() {
            check(&registry, index, sensor);
        }
    }

    #[test]
    fn a_value_is_accepted_as_its_own_and_of_its_moment() {
        every_sensor(|registry, index, sensor| {
            let held = words(registry, index, MOMENT).unwrap();
            let between = (MOMENT - Duration::from_millis(5), MOMENT + Duration::from_millis(5));
            assert_eq!(judge(registry, index, &held, between), Ok(()), "{}", sensor.id);
        });
    }

    #[test]
    fn a_value_of_another_sensor_or_an_older_one_is_seen() {
        let between = (MOMENT, MOMENT + Duration::from_millis(300));
        every_sensor(|registry, index, sensor| {
            for (other, stranger) in registry.sensors() {
                let held = words(registry, other, MOMENT).unwrap();
                // A bit has two values, so one look at a stranger's tells nothing.
                if other == index || held.len() < 2 || sensor.read.count() != stranger.read.count() {
                    continue;
                }
                assert!(judge(registry, index, &held, between).is_err(), "{} for {}", stranger.id, sensor.id);
            }
            if sensor.read.count() > 1 {
                let old = words(registry, index, MOMENT - Duration::from_secs(3)).unwrap();
                assert!(judge(registry, index, &old, between).is_err(), "{}", sensor.id);
            }
        });
    }

    #[test]
    fn unit_address_and_moment_can_be_read_from_a_long_number() {
        let registry = sample::registry();
        let index = registry.find_sensor("A_LINE1_044").unwrap();
        let number = number_of(registry.sensor(index), &words(&registry, index, MOMENT).unwrap()).unwrap();
        assert_eq!(number >> 45, 1, "the unit");
        assert_eq!(number >> 27 & 0xFFFF, 110, "the address");
        assert_eq!(number & 0x7FF_FFFF, 123_456, "hundredths of a second");
    }
}
