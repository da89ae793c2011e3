//! How a sensor's raw value moves: a pure function of a seed and of the time since the plant started.
//!
//! There is no state and no clock here, so two plants of one seed agree at every moment, and a test may ask about any
//! moment without running through the ones before. Values are raw, before scaling, because that is what registers hold.

use std::f64::consts::TAU;
use std::time::Duration;

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

use crate::modbus::words::DataType;
use crate::quantity::{Finite, Scaling, Value};
use crate::registry::Sensor;

/// The raw value of a sensor whose range is not known moves between these.
const UNKNOWN_RANGE: (f64, f64) = (0.0, 1000.0);

/// How far the slow wave reaches to either side of the middle, as a part of the range.
const WAVE: f64 = 0.35;

/// How far the noise reaches to either side of the wave. Together they stay well inside the range.
const NOISE: f64 = 0.02;

/// The noise changes this often, so that two reads within it agree.
const NOISE_EVERY_MS: u128 = 100;

/// How one sensor's raw value moves.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    seed: u64,
    shape: Shape,
}

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    /// A slow sine with a little noise.
    Wave { low: f64, high: f64, period: Duration, rounding: Rounding },
    /// Counts up, and starts anew at the end of its span.
    Counter { low: u64, span: u64, start: u64, per_second: u64 },
    /// Changes between off and on.
    Switch { every: Duration },
    /// Never changes.
    Fixed(Box<str>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Rounding {
    Integer { low: i128, high: i128 },
    Single { decimals: usize },
    Double { decimals: usize },
}

impl Signal {
    /// The signal of a sensor. The same seed and the same sensor give the same signal.
    pub fn of(sensor: &Sensor, seed: u64) -> Signal {
        let seed = sensor.id.as_str().bytes().fold(mix(seed), |hash, byte| mix(hash ^ u64::from(byte)));
        let (low, high) = raw_range(sensor);
        let wave = |rounding| Shape::Wave { low, high, period: Duration::from_secs(60 + seed % 240), rounding };
        let shape = match sensor.read.encoding.data_type {
            _ if sensor.read.table.is_bits() => Shape::Switch { every: Duration::from_secs(20 + seed % 40) },
            DataType::Bool { .. } => Shape::Switch { every: Duration::from_secs(20 + seed % 40) },
            DataType::U64 => counter(sensor, seed, low, high),
            DataType::F32 => wave(Rounding::Single { decimals: decimals_for(high - low) }),
            DataType::F64 => wave(Rounding::Double { decimals: decimals_for(high - low) }),
            DataType::Text { registers } => Shape::Fixed(fixed_text(sensor, registers)),
            DataType::U16 | DataType::I16 | DataType::U32 | DataType::I32 | DataType::I64 => {
                let (low, high) = (low.ceil() as i128, high.floor() as i128);
                wave(Rounding::Integer { low: low.min(high), high: high.max(low) })
            }
        };
        Signal { seed, shape }
    }

    /// The raw value at a moment after the start.
    pub fn at(&self, elapsed: Duration) -> Value {
        match &self.shape {
            Shape::Wave { low, high, period, rounding } => {
                let fraction = self.fraction(elapsed, *period);
                rounding.apply(low * (1.0 - fraction) + high * fraction)
            }
            Shape::Counter { low, span, start, per_second } => {
                let counted = u128::from(*start) + elapsed.as_millis() * u128::from(*per_second) / 1000;
                Value::Integer(i128::from(*low) + (counted % u128::from(*span)) as i128)
            }
            Shape::Switch { every } => {
                let phase = Duration::from_millis(self.seed % 20_000);
                Value::Bool(((elapsed + phase).as_secs_f64() / every.as_secs_f64()) as u64 % 2 == 1)
            }
            Shape::Fixed(text) => Value::Text(text.clone()),
        }
    }

    /// Where in the range the value is: between 0 and 1, and never at an end.
    fn fraction(&self, elapsed: Duration, period: Duration) -> f64 {
        let phase = (self.seed >> 16) as f64 / (u64::MAX >> 16) as f64;
        let wave = (TAU * (elapsed.as_secs_f64() / period.as_secs_f64() + phase)).sin();
        let tick = (elapsed.as_millis() / NOISE_EVERY_MS) as u64;
        let noise = 2.0 * (mix(self.seed ^ mix(tick)) as f64 / u64::MAX as f64) - 1.0;
        0.5 + WAVE * wave + NOISE * noise
    }
}

impl Rounding {
    fn apply(self, raw: f64) -> Value {
        let rounded = |decimals: usize| format!("{raw:.decimals$}").parse::<f64>().unwrap_or(raw);
        let float = match self {
            Rounding::Integer { low, high } => return Value::Integer((raw.round() as i128).clamp(low, high)),
            Rounding::Single { decimals } => Finite::from_f32(rounded(decimals) as f32),
            Rounding::Double { decimals } => Finite::new(rounded(decimals)),
        };
        float.map_or(Value::Integer(0), Value::Float)
    }
}

/// The scale and the offset of a scaling.
pub fn scale_and_offset(scaling: &Scaling) -> (Decimal, Decimal) {
    let at = |raw: i128| match scaling.apply(Value::Integer(raw)) {
        Some(Value::Decimal(number)) => number,
        _ => Decimal::from(raw),
    };
    (at(1) - at(0), at(0))
}

/// The smallest and the largest whole number of a type; `None` for what is not a whole number.
pub fn integer_bounds(data_type: DataType) -> Option<(i128, i128)> {
    match data_type {
        DataType::U16 => Some((0, i128::from(u16::MAX))),
        DataType::I16 => Some((i128::from(i16::MIN), i128::from(i16::MAX))),
        DataType::U32 => Some((0, i128::from(u32::MAX))),
        DataType::I32 => Some((i128::from(i32::MIN), i128::from(i32::MAX))),
        DataType::U64 => Some((0, i128::from(u64::MAX))),
        DataType::I64 => Some((i128::from(i64::MIN), i128::from(i64::MAX))),
        DataType::Bool { .. } | DataType::F32 | DataType::F64 | DataType::Text { .. } => None,
    }
}

/// Where the raw value may move: the range of the sensor before scaling, as far as its type reaches.
fn raw_range(sensor: &Sensor) -> (f64, f64) {
    let (mut low, mut high) = UNKNOWN_RANGE;
    if let Some(range) = sensor.range {
        let (scale, offset) = scale_and_offset(&sensor.read.scaling);
        let scale = scale.to_f64().unwrap_or(1.0);
        let offset = offset.to_f64().unwrap_or(0.0);
        let ends = [(range.low() - offset) / scale, (range.high() - offset) / scale];
        low = ends[0].min(ends[1]);
        high = ends[0].max(ends[1]);
    }
    let (least, most) = match sensor.read.encoding.data_type {
        DataType::F32 => (f64::from(f32::MIN), f64::from(f32::MAX)),
        other => integer_bounds(other).map_or((f64::MIN, f64::MAX), |(least, most)| (least as f64, most as f64)),
    };
    (low.clamp(least, most), high.clamp(least, most))
}

fn counter(sensor: &Sensor, seed: u64, low: f64, high: f64) -> Shape {
    let per_second = 1 + seed % 50;
    if sensor.range.is_none() {
        let start = 1_000_000_000 + (seed >> 8) % 1_000_000_000_000;
        return Shape::Counter { low: 0, span: u64::MAX, start, per_second };
    }
    let low = low.ceil() as u64;
    let span = (high.floor() as u64).saturating_sub(low).max(1);
    Shape::Counter { low, span, start: (seed >> 8) % span.div_ceil(2), per_second }
}

/// So many decimals that a step is about a thousandth of the span.
fn decimals_for(span: f64) -> usize {
    (3.0 - span.log10().floor()).clamp(0.0, 12.0) as usize
}

fn fixed_text(sensor: &Sensor, registers: u8) -> Box<str> {
    sensor.id.as_str().chars().take(usize::from(registers) * 2).collect::<String>().into()
}

/// A number that looks like chance and is none: each bit of the input changes about half of the output.
pub(super) fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::modbus::words::WordOrder;
    use crate::quantity::Range;
    use crate::sim::sample;

    const ANY_NUMBER: [DataType; 8] = [
        DataType::U16,
        DataType::I16,
        DataType::U32,
        DataType::I32,
        DataType::U64,
        DataType::I64,
        DataType::F32,
        DataType::F64,
    ];

    proptest! {
        #[test]
        fn a_signal_stays_inside_its_range_at_every_moment(
            seed: u64,
            kind in 0..ANY_NUMBER.len(),
            scale in prop::sample::select(vec!["1", "0.1", "0.001", "-0.1", "2.5"]),
            offset in prop::sample::select(vec!["0", "-40", "7.5"]),
            low in 0..500_i32,
            width in 20..5000_i32,
            seconds in 0..100_000_000_u64,
        ) {
            let mut sensor = sample::sensor("A_LINE1_001", ANY_NUMBER[kind], WordOrder::Abcd);
            sensor.read.scaling = Scaling::new(scale.parse().unwrap(), offset.parse().unwrap()).unwrap();
            // The range is built from raw numbers, because a range that the type cannot reach has no signal inside.
            let of_raw = |raw: i32| sensor.read.scaling.apply(Value::Integer(raw.into())).unwrap().to_f64().unwrap();
            let ends = [of_raw(low), of_raw(low + width)];
            sensor.range = Range::new(ends[0].min(ends[1]), ends[0].max(ends[1]));
            let raw = Signal::of(&sensor, seed).at(Duration::from_secs(seconds));
            let value = sensor.read.scaling.apply(raw).unwrap();
            prop_assert!(sensor.range.unwrap().contains(&value), "{value} of {:?}", sensor.range);
        }
    }

    #[test]
    fn a_signal_moves_and_repeats_for_the_same_seed() {
        let sensor = sample::sensor("A_LINE1_001", DataType::F32, WordOrder::Abcd);
        let course = |seed| {
            let signal = Signal::of(&sensor, seed);
            (0..60).map(|second| signal.at(Duration::from_secs(second))).collect::<Vec<_>>()
        };
        assert_eq!(course(1), course(1));
        assert_ne!(course(1), course(2));
        let values = course(1);
        assert!(values.windows(2).filter(|pair| pair[0] != pair[1]).count() > 50, "{values:?}");
    }

    #[test]
    fn a_counter_counts_up() {
        let sensor = sample::sensor("A_LINE1_001", DataType::U64, WordOrder::Abcd);
        let signal = Signal::of(&sensor, 7);
        let mut last = signal.at(Duration::ZERO).to_f64().unwrap();
        for second in 1..1000 {
            let next = signal.at(Duration::from_secs(second)).to_f64().unwrap();
            assert!(next > last, "{next} after {last}");
            last = next;
        }
    }

    #[test]
    fn a_bit_changes_now_and_then() {
        let sensor = sample::sensor("A_LINE1_001", DataType::Bool { bit: 3 }, WordOrder::Abcd);
        let signal = Signal::of(&sensor, 7);
        let course: Vec<Value> = (0..600).map(|second| signal.at(Duration::from_secs(second))).collect();
        let changes = course.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!((9..=30).contains(&changes), "{changes} changes in ten minutes");
    }

    #[test]
    fn a_text_fits_its_registers() {
        let sensor = sample::sensor("A_LINE1_001", DataType::Text { registers: 4 }, WordOrder::Abcd);
        assert_eq!(Signal::of(&sensor, 7).at(Duration::ZERO), Value::Text("A_LINE1_".into()));
    }
}
