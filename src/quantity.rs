//! A number that knows what it is: values, units, ranges and exact scaling.
//!
//! Decimal scaling is exact: `97` with scale `0.1` is `9.7`, and a 64-bit counter keeps its last digit. Nothing that is
//! not a float in the device goes through a float here. NaN and infinity are no values; they cannot be built.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

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
    /// A number that stands for a state, and has a name.
    Named(Arc<Named>),
    /// Bits that each have a name.
    Flags(Box<Flags>),
}

/// A number and the name of the state that it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// What the registers hold.
    pub number: i128,
    /// What it means.
    pub name: Box<str>,
}

/// Bits, and the names of those that are set, from the lowest bit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flags {
    /// What the registers hold.
    pub bits: u64,
    /// What it means; empty where no bit is set.
    pub names: Vec<Arc<str>>,
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

    /// The number behind a name or behind flags; of any other whole number itself.
    pub fn number(&self) -> Option<Value> {
        match self {
            Value::Integer(number) => Some(Value::Integer(*number)),
            Value::Named(named) => Some(Value::Integer(named.number)),
            Value::Flags(flags) => Some(Value::Integer(flags.bits.into())),
            Value::Bool(_) | Value::Decimal(_) | Value::Float(_) | Value::Text(_) => None,
        }
    }

    /// The value as a double, for the simulated plant and for people's terminals; `None` for what is no quantity.
    pub fn to_f64(&self) -> Option<f64> {
        match self {
            Value::Bool(bit) => Some(f64::from(u8::from(*bit))),
            Value::Integer(number) => Some(*number as f64),
            Value::Decimal(number) => number.to_string().parse().ok(),
            Value::Float(number) => Some(number.get()),
            Value::Text(_) | Value::Named(_) | Value::Flags(_) => None,
        }
    }

    /// Whether two quantities lie further apart than `distance`; exactly, wherever both are decimals of ordinary size.
    ///
    /// What is no quantity is apart as soon as it differs.
    pub fn is_further_than(&self, other: &Value, distance: Decimal) -> bool {
        let exact = self.to_decimal().zip(other.to_decimal()).and_then(|(one, two)| one.checked_sub(two));
        if let Some(difference) = exact {
            return difference.abs() > distance;
        }
        match self.to_f64().zip(other.to_f64()) {
            Some((one, two)) => (one - two).abs() > double_of(distance),
            None => self != other,
        }
    }

    fn to_decimal(&self) -> Option<Decimal> {
        match self {
            Value::Integer(number) => Decimal::try_from_i128_with_scale(*number, 0).ok(),
            Value::Decimal(number) => Some(*number),
            Value::Float(number) => decimal_of(*number),
            Value::Bool(_) | Value::Text(_) | Value::Named(_) | Value::Flags(_) => None,
        }
    }
}

fn double_of(number: Decimal) -> f64 {
    number.to_string().parse().unwrap_or(f64::NAN)
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
            Value::Named(named) => serializer.serialize_str(&named.name),
            Value::Flags(flags) => serializer.collect_seq(flags.names.iter().map(AsRef::<str>::as_ref)),
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
            Value::Named(named) => f.write_str(&named.name),
            Value::Flags(flags) if flags.names.is_empty() => f.write_str("none"),
            Value::Flags(flags) => f.write_str(&flags.names.join(" + ")),
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
    /// `None` when the result is no finite number, or has more digits than can be kept exactly.
    pub fn apply(&self, raw: Value) -> Option<Value> {
        self.apply_with(raw, PowerOfTen::ONE)
    }

    /// The same, with a further factor that the device gives: `raw × scale × 10^power + offset`.
    pub fn apply_with(&self, raw: Value, factor: PowerOfTen) -> Option<Value> {
        if self.is_none() && factor == PowerOfTen::ONE {
            return Some(raw);
        }
        if let Some(scaled) = raw.to_decimal().and_then(|number| self.apply_exactly(number, factor)) {
            return Some(Value::Decimal(scaled));
        }
        match raw {
            Value::Float(number) => {
                let scale = double_of(self.scale) * 10_f64.powi(factor.0.into());
                Finite::new(number.get() * scale + double_of(self.offset)).map(Value::Float)
            }
            // An integer whose product has too many digits: a rounded one would be another number.
            Value::Integer(_) | Value::Decimal(_) => None,
            other => Some(other),
        }
    }

    /// The product and the sum as whole numbers of one power of ten; `None` instead of anything rounded.
    fn apply_exactly(&self, raw: Decimal, factor: PowerOfTen) -> Option<Decimal> {
        let mantissa = raw.mantissa().checked_mul(self.scale.mantissa())?;
        let places = i64::from(raw.scale()) + i64::from(self.scale.scale()) - i64::from(factor.0);
        let finest = places.max(self.offset.scale().into()).max(0);
        let product = mantissa.checked_mul(power_of_ten(finest - places)?)?;
        let offset = self.offset.mantissa().checked_mul(power_of_ten(finest - i64::from(self.offset.scale()))?)?;
        let (mut sum, mut places) = (product.checked_add(offset)?, finest);
        while places > 0 && sum % 10 == 0 {
            (sum, places) = (sum / 10, places - 1);
        }
        Decimal::try_from_i128_with_scale(sum, u32::try_from(places).ok()?).ok()
    }
}

fn power_of_ten(exponent: i64) -> Option<i128> {
    10_i128.checked_pow(u32::try_from(exponent).ok()?)
}

/// A factor that a device keeps in a register of its own: ten to a power of -10 to 10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerOfTen(i8);

impl PowerOfTen {
    /// Ten to the power of nothing.
    pub const ONE: PowerOfTen = PowerOfTen(0);

    /// The factor that a register says, as a signed number; `None` for SunSpec's "not implemented" (`0x8000`) and for any
    /// power outside of -10 to 10, by which nothing can be meant.
    pub fn from_register(word: u16) -> Option<PowerOfTen> {
        let power = i8::try_from(word as i16).ok()?;
        (-10..=10).contains(&power).then_some(PowerOfTen(power))
    }

    /// The power as a register has it.
    pub fn to_register(self) -> u16 {
        i16::from(self.0) as u16
    }

    /// The factor as a number.
    pub fn to_decimal(self) -> Decimal {
        let places = u32::from(self.0.unsigned_abs());
        match self.0 {
            0.. => Decimal::from(10_i64.pow(places)),
            _ => Decimal::new(1, places),
        }
    }
}

/// A range of engineering values, both ends included, and compared exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    low: Decimal,
    high: Decimal,
    /// The same ends, for what is a float itself.
    ends: [f64; 2],
}

impl Range {
    /// The range from `low` to `high`, if it is one.
    pub fn new(low: f64, high: f64) -> Option<Range> {
        Range::exact(decimal_of(Finite::new(low)?)?, decimal_of(Finite::new(high)?)?)
    }

    /// The range from `low` to `high`, if it is one.
    pub fn exact(low: Decimal, high: Decimal) -> Option<Range> {
        (low < high).then(|| Range { low, high, ends: [double_of(low), double_of(high)] })
    }

    /// The low end.
    pub fn low(&self) -> f64 {
        self.ends[0]
    }

    /// The high end.
    pub fn high(&self) -> f64 {
        self.ends[1]
    }

    /// Whether the value lies inside. What is no quantity has no range, and lies inside.
    pub fn contains(&self, value: &Value) -> bool {
        match value {
            Value::Float(number) => (self.ends[0]..=self.ends[1]).contains(&number.get()),
            other => other.to_decimal().is_none_or(|number| self.low <= number && number <= self.high),
        }
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
    fn case_c07_a_factor_from_a_register_is_a_power_of_ten_or_nothing() {
        let scaled = |raw: i128, scale: &str, offset: &str, factor: u16| {
            let scaling = Scaling::new(decimal(scale), decimal(offset)).expect("a scaling");
            let factor = PowerOfTen::from_register(factor).expect("a power");
            scaling.apply_with(Value::Integer(raw), factor).map(|value| value.to_string())
        };
        assert_eq!(scaled(612, "1", "0", 0).as_deref(), Some("612"));
        assert_eq!(scaled(6103, "1", "0", 0xFFFF).as_deref(), Some("610.3"));
        assert_eq!(scaled(12, "1", "0", 3).as_deref(), Some("12000"));
        assert_eq!(scaled(12, "0.5", "-1.25", 0xFFFE).as_deref(), Some("-1.19"));
        assert_eq!(scaled(18446744073709551615, "1", "0", 0xFFF6).as_deref(), Some("1844674407.3709551615"));
        for word in [0x8000, 0xFFF5, 11, 0x7FFF, 0x0100, 0xFF00] {
            assert_eq!(PowerOfTen::from_register(word), None, "{word:#06X}");
        }
        for word in [0xFFF6, 0xFFFF, 0, 1, 10] {
            assert_eq!(PowerOfTen::from_register(word).map(PowerOfTen::to_register), Some(word));
        }
    }

    #[test]
    fn what_has_too_many_digits_is_no_value_and_never_a_rounded_or_an_unscaled_one() {
        let scaling = Scaling::new(decimal("12345678"), decimal("0.00000001")).expect("a scaling");
        assert_eq!(scaling.apply(Value::Integer(18446744073709551615)), None);
        let far = PowerOfTen::from_register(10).expect("a power");
        assert_eq!(Scaling::NONE.apply_with(Value::Integer(18446744073709551615), far), None);
    }

    #[test]
    fn an_integer_is_compared_with_a_range_to_its_last_digit() {
        let range = Range::exact(Decimal::ZERO, decimal("9007199254740992")).expect("a range");
        assert!(range.contains(&Value::Integer(9007199254740992)));
        assert!(!range.contains(&Value::Integer(9007199254740993)), "as doubles both are the same");
    }

    #[test]
    fn a_distance_is_exact_where_decimals_are() {
        let number = |text: &str| Value::Decimal(decimal(text));
        assert!(!number("10.3").is_further_than(&number("10.1"), decimal("0.2")));
        assert!(number("10.31").is_further_than(&number("10.1"), decimal("0.2")));
        let float = |number: f64| Value::Float(Finite::new(number).expect("finite"));
        assert!(!float(10.3).is_further_than(&float(10.1), decimal("0.2")));
        assert!(float(1e300).is_further_than(&float(1e299), decimal("0.2")));
        let text = |text: &str| Value::Text(text.into());
        assert!(text("a").is_further_than(&text("b"), decimal("5")));
        assert!(!text("a").is_further_than(&text("a"), decimal("5")));
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
