//! A number that knows what it is: values, units, ranges and exact scaling.
//!
//! Decimal scaling is exact: `97` with scale `0.1` is `9.7`, and a 64-bit counter keeps its last digit. Nothing that is
//! not a float in the device goes through a float here. NaN and infinity are no values; they cannot be built.

use std::fmt;
use std::str::FromStr;

use rust_decimal::Decimal;

/// One value of a sensor, after scaling. It carries no time: see [`crate::registry::reading::Sample`].
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A coil, a discrete input, or a bit of a register.
    Bool(bool),
    /// A whole number of at most 64 bits, signed or not, exact.
    Integer(i128),
    /// A scaled whole number, or a scaled float of ordinary size, exact in decimal.
    Decimal(Decimal),
    /// A finite float. A 32-bit float stands here as the double with the same shortest decimal text.
    Float(Finite),
    /// A text from registers.
    Text(Box<str>),
}

/// A float that is neither NaN nor infinite.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Finite(f64);

impl Finite {
    /// The number, if it is finite.
    pub fn new(number: f64) -> Option<Finite> {
        number.is_finite().then_some(Finite(number))
    }

    /// The double whose shortest text is that of the 32-bit float: `233.1`, and not `233.10000610351562`.
    pub fn from_f32(number: f32) -> Option<Finite> {
        if !number.is_finite() {
            return None;
        }
        let whole = number as i64;
        if whole as f32 == number && whole.unsigned_abs() < (1 << 24) {
            return Some(Finite(whole as f64));
        }
        Finite::new(number.to_string().parse().ok()?)
    }

    /// The number itself.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// The most digits that a JSON number holds for a reader that parses it into a double.
const DIGITS_OF_A_DOUBLE: u32 = 15;

impl Value {
    /// The value as JSON, in the shape of its `Serialize`.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// The value as a double, for ranges and dead bands; `None` for texts.
    pub fn to_f64(&self) -> Option<f64> {
        match self {
            Value::Bool(bit) => Some(f64::from(u8::from(*bit))),
            Value::Integer(number) => Some(*number as f64),
            Value::Decimal(number) => number.to_string().parse().ok(),
            Value::Float(number) => Some(number.get()),
            Value::Text(_) => None,
        }
    }

    fn to_decimal(&self) -> Option<Decimal> {
        match self {
            Value::Integer(number) => Decimal::try_from_i128_with_scale(*number, 0).ok(),
            Value::Decimal(number) => Some(*number),
            Value::Float(number) => decimal_of(*number),
            Value::Bool(_) | Value::Text(_) => None,
        }
    }
}

/// The value as JSON (contract, section 4): a number where every reader keeps its last digit, else a string.
///
/// Integers beyond 2^53 and decimals of more than 15 digits are strings.
impl serde::Serialize for Value {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Bool(bit) => serializer.serialize_bool(*bit),
            Value::Integer(number) => match i64::try_from(*number) {
                Ok(small) if small.unsigned_abs() <= 1 << 53 => serializer.serialize_i64(small),
                _ => serializer.collect_str(number),
            },
            Value::Decimal(number) => {
                let text = number.normalize().to_string();
                let digits = text.bytes().filter(u8::is_ascii_digit).count() as u32;
                match text.parse::<f64>() {
                    Ok(double) if digits <= DIGITS_OF_A_DOUBLE => match i64::from_str(&text) {
                        Ok(whole) => serializer.serialize_i64(whole),
                        Err(_) => serializer.serialize_f64(double),
                    },
                    _ => serializer.serialize_str(&text),
                }
            }
            Value::Float(number) => serializer.serialize_f64(number.get()),
            Value::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(bit) => write!(f, "{bit}"),
            Value::Integer(number) => write!(f, "{number}"),
            Value::Decimal(number) => write!(f, "{}", number.normalize()),
            Value::Float(number) => write!(f, "{}", number.get()),
            Value::Text(text) => f.write_str(text),
        }
    }
}

/// The shortest text of the float, as a decimal; `None` where 28 digits do not hold it.
fn decimal_of(number: Finite) -> Option<Decimal> {
    if number.get() != 0.0 && !(1e-12..1e15).contains(&number.get().abs()) {
        return None;
    }
    Decimal::from_str(&number.get().to_string()).ok()
}

/// How a raw number becomes an engineering one: `raw × scale + offset`, in decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scaling {
    scale: Decimal,
    offset: Decimal,
}

/// The most significant digits of a scale or an offset: 20 digits of a 64-bit counter and these 8 fit the 28 of a
/// [`Decimal`], so that no product is ever rounded.
pub const SCALE_DIGITS: usize = 8;

/// Why a scale or an offset is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScalingError {
    /// A scale of zero makes every value the same.
    #[error("a scale of 0 makes every reading the same")]
    ZeroScale,
    /// More digits than can be kept exactly.
    #[error("{0} has more than {SCALE_DIGITS} digits, and could not be kept exactly")]
    TooManyDigits(Decimal),
}

impl Scaling {
    /// No scaling: a raw value passes unchanged.
    pub const NONE: Scaling = Scaling { scale: Decimal::ONE, offset: Decimal::ZERO };

    /// A scaling whose products are exact.
    pub fn new(scale: Decimal, offset: Decimal) -> Result<Scaling, ScalingError> {
        if scale.is_zero() {
            return Err(ScalingError::ZeroScale);
        }
        for number in [scale, offset] {
            let number = number.normalize();
            let digits = number.mantissa().unsigned_abs().to_string().len();
            if digits > SCALE_DIGITS || number.scale() as usize > SCALE_DIGITS {
                return Err(ScalingError::TooManyDigits(number));
            }
        }
        Ok(Scaling { scale: scale.normalize(), offset: offset.normalize() })
    }

    /// The factor.
    pub fn scale(&self) -> Decimal {
        self.scale
    }

    /// What is added after the factor.
    pub fn offset(&self) -> Decimal {
        self.offset
    }

    /// Whether values pass unchanged.
    pub fn is_none(&self) -> bool {
        *self == Scaling::NONE
    }

    /// The engineering value of a raw one. Booleans and texts pass; floats beyond decimal size are scaled as floats.
    ///
    /// ```
    /// use fieldgate::quantity::{Scaling, Value};
    ///
    /// let tenths = Scaling::new("0.1".parse()?, "0".parse()?)?;
    /// let value = tenths.apply(Value::Integer(97)).expect("a finite number");
    /// assert_eq!(value.to_json(), 9.7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// `None` when the result is no finite number.
    pub fn apply(&self, raw: Value) -> Option<Value> {
        if self.is_none() {
            return Some(raw);
        }
        if let Some(scaled) =
            raw.to_decimal().and_then(|number| number.checked_mul(self.scale)?.checked_add(self.offset))
        {
            return Some(Value::Decimal(scaled.normalize()));
        }
        match raw {
            Value::Float(number) => {
                let as_double = |d: Decimal| d.to_string().parse::<f64>().unwrap_or(f64::NAN);
                let scaled = number.get() * as_double(self.scale) + as_double(self.offset);
                Finite::new(scaled).map(Value::Float)
            }
            other => Some(other),
        }
    }
}

/// The engineering range of a sensor, both ends included. Outside of it a value is uncertain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    low: Finite,
    high: Finite,
}

impl Range {
    /// The range from `low` to `high`, if it is one.
    pub fn new(low: f64, high: f64) -> Option<Range> {
        let range = Range { low: Finite::new(low)?, high: Finite::new(high)? };
        (low < high).then_some(range)
    }

    /// The low end.
    pub fn low(&self) -> f64 {
        self.low.get()
    }

    /// The high end.
    pub fn high(&self) -> f64 {
        self.high.get()
    }

    /// Whether the value lies inside. What is no number has no range, and lies inside.
    pub fn contains(&self, value: &Value) -> bool {
        value.to_f64().is_none_or(|number| self.low.get() <= number && number <= self.high.get())
    }
}

/// An engineering unit as the plant writes it: `°C`, `bar`, `kW`. Empty where a value has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit(heapless::String<24>);

impl Unit {
    /// The unit as text; empty where there is none.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Unit {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Unit, UnitError> {
        heapless::String::try_from(text).map(Unit).map_err(|_| UnitError)
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A unit is at most 24 bytes of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a unit is at most 24 bytes long")]
pub struct UnitError;

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        text.parse().expect("a decimal")
    }

    fn check(raw: Value, scale: &str, offset: &str, json: &str) {
        let scaling = Scaling::new(decimal(scale), decimal(offset)).expect("a scaling");
        let value = scaling.apply(raw).expect("a value");
        assert_eq!(value.to_json().to_string(), json);
    }

    #[test]
    fn decimal_scaling_is_exact() {
        check(Value::Integer(97), "0.1", "0", "9.7");
        check(Value::Integer(3), "0.1", "0", "0.3");
        check(Value::Integer(68), "0.1", "0", "6.8");
        check(Value::Integer(196609), "0.1", "0", "19660.9");
        check(Value::Integer(2500), "0.1", "-100", "150");
        check(Value::Integer(18446744073709551614), "1", "0", "\"18446744073709551614\"");
        check(Value::Integer(18446744073709551614), "0.001", "0", "\"18446744073709551.614\"");
        check(Value::Float(Finite::from_f32(238.72).expect("finite")), "0.01", "0", "2.3872");
    }

    #[test]
    fn every_tenth_up_to_a_hundred_prints_without_noise() {
        for raw in 0..1000_i128 {
            let whole = raw / 10;
            let tenth = raw % 10;
            let expected = if tenth == 0 { whole.to_string() } else { format!("{whole}.{tenth}") };
            check(Value::Integer(raw), "0.1", "0", &expected);
        }
    }

    #[test]
    fn integers_are_numbers_up_to_2_to_the_53_and_strings_beyond() {
        assert_eq!(Value::Integer(9007199254740992).to_json().to_string(), "9007199254740992");
        assert_eq!(Value::Integer(9007199254740993).to_json().to_string(), "\"9007199254740993\"");
        assert_eq!(Value::Integer(-9007199254740993).to_json().to_string(), "\"-9007199254740993\"");
    }

    #[test]
    fn a_float_keeps_its_shortest_text() {
        let published = |number: f32| Value::Float(Finite::from_f32(number).expect("finite")).to_json().to_string();
        assert_eq!(published(f32::from_bits(0x4369_199A)), "233.1");
        assert_eq!(published(-12.25), "-12.25");
        assert_eq!(published(1.0), "1.0");
        assert_eq!(Finite::from_f32(f32::NAN), None);
        assert_eq!(Finite::from_f32(f32::INFINITY), None);
        assert_eq!(Finite::new(f64::NAN), None);
    }

    #[test]
    fn a_scale_that_could_not_be_kept_exactly_is_refused() {
        assert_eq!(Scaling::new(Decimal::ZERO, Decimal::ZERO), Err(ScalingError::ZeroScale));
        let long = decimal("0.123456789");
        assert_eq!(Scaling::new(long, Decimal::ZERO), Err(ScalingError::TooManyDigits(long)));
    }

    #[test]
    fn a_range_includes_its_ends() {
        let range = Range::new(-20.0, 120.0).expect("a range");
        assert!(range.contains(&Value::Integer(-20)));
        assert!(range.contains(&Value::Decimal(decimal("120.0"))));
        assert!(!range.contains(&Value::Decimal(decimal("120.1"))));
        assert_eq!(Range::new(1.0, 1.0), None);
        assert_eq!(Range::new(f64::NAN, 1.0), None);
    }
}
