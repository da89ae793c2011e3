//! Registers as numbers, and numbers as registers.
//!
//! [`Encoding::decode`] gives the raw value: exactly what the registers hold, before any scaling. [`Encoding::encode`] is its
//! inverse, for the simulated plant. Codes for "no value" are compared with the bits, before anything is made of them.

use std::fmt;

use crate::quantity::{Finite, Value};

/// What a sensor's registers hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataType {
    /// A coil, a discrete input, or (in a register) the bit of this number, 0 the least significant.
    Bool {
        /// 0 to 15; 0 for coils and discrete inputs.
        bit: u8,
    },
    /// Some neighbouring bits of an unsigned number of one, two or four registers, as an unsigned number of their own.
    Bits {
        /// 1, 2 or 4: the number that holds them.
        registers: u8,
        /// The lowest of them, 0 the least significant bit of the number.
        first: u8,
        /// The highest of them, and no lower than `first`.
        last: u8,
    },
    /// One register, unsigned.
    U16,
    /// One register, two's complement.
    I16,
    /// Two registers, unsigned.
    U32,
    /// Two registers, two's complement.
    I32,
    /// Four registers, unsigned.
    U64,
    /// Four registers, two's complement.
    I64,
    /// Two registers, IEEE 754 single.
    F32,
    /// Four registers, IEEE 754 double.
    F64,
    /// One register, four decimal digits of four bits each.
    Bcd16,
    /// Two registers, eight decimal digits of four bits each.
    Bcd32,
    /// Two characters in each register.
    Text {
        /// 1 to 125.
        registers: u8,
    },
}

impl DataType {
    /// The names of the types in a configuration.
    pub const NAMES: [&'static str; 12] =
        ["bool", "u16", "i16", "u32", "i32", "u64", "i64", "f32", "f64", "bcd16", "bcd32", "string"];

    /// The type of that name: a `bool` is bit 0, and a `string` one register long, until the configuration says otherwise.
    pub fn from_name(name: &str) -> Option<DataType> {
        Some(match name {
            "bool" => DataType::Bool { bit: 0 },
            "u16" => DataType::U16,
            "i16" => DataType::I16,
            "u32" => DataType::U32,
            "i32" => DataType::I32,
            "u64" => DataType::U64,
            "i64" => DataType::I64,
            "f32" => DataType::F32,
            "f64" => DataType::F64,
            "bcd16" => DataType::Bcd16,
            "bcd32" => DataType::Bcd32,
            "string" => DataType::Text { registers: 1 },
            _ => return None,
        })
    }

    /// Its name in a configuration; some bits of a number have the number's.
    pub fn name(self) -> &'static str {
        match self {
            DataType::Bool { .. } => "bool",
            DataType::Bits { registers: 4, .. } => "u64",
            DataType::Bits { registers: 2, .. } => "u32",
            DataType::Bits { .. } | DataType::U16 => "u16",
            DataType::I16 => "i16",
            DataType::U32 => "u32",
            DataType::I32 => "i32",
            DataType::U64 => "u64",
            DataType::I64 => "i64",
            DataType::F32 => "f32",
            DataType::F64 => "f64",
            DataType::Bcd16 => "bcd16",
            DataType::Bcd32 => "bcd32",
            DataType::Text { .. } => "string",
        }
    }

    /// How many registers it has.
    pub fn registers(self) -> u16 {
        match self {
            DataType::Bool { .. } | DataType::U16 | DataType::I16 | DataType::Bcd16 => 1,
            DataType::U32 | DataType::I32 | DataType::F32 | DataType::Bcd32 => 2,
            DataType::U64 | DataType::I64 | DataType::F64 => 4,
            DataType::Bits { registers, .. } | DataType::Text { registers } => u16::from(registers),
        }
    }

    /// The smallest and the largest whole number of the type; `None` for what is not a whole number.
    pub fn integer_bounds(self) -> Option<(i128, i128)> {
        Some(match self {
            DataType::U16 => (0, u16::MAX.into()),
            DataType::I16 => (i16::MIN.into(), i16::MAX.into()),
            DataType::U32 => (0, u32::MAX.into()),
            DataType::I32 => (i32::MIN.into(), i32::MAX.into()),
            DataType::U64 => (0, u64::MAX.into()),
            DataType::I64 => (i64::MIN.into(), i64::MAX.into()),
            DataType::Bits { first, last, .. } => (0, low_bits(first, last).into()),
            DataType::Bcd16 => (0, 9_999),
            DataType::Bcd32 => (0, 99_999_999),
            DataType::Bool { .. } | DataType::F32 | DataType::F64 | DataType::Text { .. } => return None,
        })
    }
}

/// As many set bits as there are from `first` to `last`, at the low end.
fn low_bits(first: u8, last: u8) -> u64 {
    let count = u32::from(last.saturating_sub(first)) + 1;
    u64::MAX.checked_shr(64_u32.saturating_sub(count)).unwrap_or(0)
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The order in which the bytes of a number come, most significant `A`.
///
/// A single register knows only whether its bytes are swapped, and so do texts: their words are always in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WordOrder {
    /// Big-endian, as the standard has it. For 64 bits `ABCDEFGH`.
    #[default]
    Abcd,
    /// The words from the least significant, bytes in order. For 64 bits `GHEFCDAB`.
    Cdab,
    /// The words in order, the bytes of each swapped. For 64 bits `BADCFEHG`.
    Badc,
    /// Little-endian. For 64 bits `HGFEDCBA`.
    Dcba,
}

impl WordOrder {
    /// The names of the orders in a configuration, in the order of the variants.
    pub const NAMES: [&'static str; 4] = ["ABCD", "CDAB", "BADC", "DCBA"];

    /// All four.
    pub const ALL: [WordOrder; 4] = [WordOrder::Abcd, WordOrder::Cdab, WordOrder::Badc, WordOrder::Dcba];

    /// The order of that name, in its spelling for 32 bits or for 64.
    pub fn from_name(name: &str) -> Option<WordOrder> {
        Some(match name {
            "ABCD" | "ABCDEFGH" => WordOrder::Abcd,
            "CDAB" | "GHEFCDAB" => WordOrder::Cdab,
            "BADC" | "BADCFEHG" => WordOrder::Badc,
            "DCBA" | "HGFEDCBA" => WordOrder::Dcba,
            _ => return None,
        })
    }

    /// Its name in a configuration, in the spelling for 32 bits.
    pub fn name(self) -> &'static str {
        match self {
            WordOrder::Abcd => "ABCD",
            WordOrder::Cdab => "CDAB",
            WordOrder::Badc => "BADC",
            WordOrder::Dcba => "DCBA",
        }
    }

    fn reverses_words(self) -> bool {
        matches!(self, WordOrder::Cdab | WordOrder::Dcba)
    }

    fn swaps_bytes(self) -> bool {
        matches!(self, WordOrder::Badc | WordOrder::Dcba)
    }

    /// A word as it is in the register, from the word as a number, and the other way round.
    fn swapped(self, word: u16) -> u16 {
        if self.swaps_bytes() { word.swap_bytes() } else { word }
    }
}

impl fmt::Display for WordOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A type and an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Encoding {
    /// What the registers hold.
    pub data_type: DataType,
    /// In which order.
    pub order: WordOrder,
}

/// The registers hold no value of their type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// NaN or infinity.
    #[error("the registers hold no finite number")]
    NotFinite,
    /// Four bits that are no decimal digit.
    #[error("the registers hold no decimal digits")]
    NotDecimal,
    /// Bytes that are no text.
    #[error("the registers hold no text")]
    NotText,
    /// Another number of registers than the type has; a fault of the caller.
    #[error("the type has another number of registers")]
    WrongCount,
}

impl Encoding {
    /// How many registers the type has.
    pub fn registers(&self) -> u16 {
        self.data_type.registers()
    }

    /// The number that the registers hold, unscaled.
    pub fn decode(&self, words: &[u16]) -> Result<Value, DecodeError> {
        if words.len() != usize::from(self.registers()) {
            return Err(DecodeError::WrongCount);
        }
        let bits = self.bits(words);
        let integer = |number: i128| Ok(Value::Integer(number));
        let float = |number: Option<Finite>| number.map(Value::Float).ok_or(DecodeError::NotFinite);
        match self.data_type {
            DataType::Bool { bit } => {
                Ok(Value::Bool(bits.checked_shr(u32::from(bit)).is_some_and(|bits| bits & 1 == 1)))
            }
            DataType::Bits { first, last, .. } => {
                let shifted = bits.checked_shr(u32::from(first)).unwrap_or(0);
                integer(i128::from(shifted & low_bits(first, last)))
            }
            DataType::U16 | DataType::U32 | DataType::U64 => integer(i128::from(bits)),
            DataType::I16 => integer(i128::from(bits as u16 as i16)),
            DataType::I32 => integer(i128::from(bits as u32 as i32)),
            DataType::I64 => integer(i128::from(bits as i64)),
            DataType::F32 => float(Finite::from_f32(f32::from_bits(bits as u32))),
            DataType::F64 => float(Finite::new(f64::from_bits(bits))),
            DataType::Bcd16 | DataType::Bcd32 => {
                number_of_digits(bits).map(|number| Value::Integer(number.into())).ok_or(DecodeError::NotDecimal)
            }
            DataType::Text { .. } => self.decode_text(words).map(Value::Text).ok_or(DecodeError::NotText),
        }
    }

    /// Whether the registers hold this code.
    pub fn holds(&self, words: &[u16], code: NoValueCode) -> bool {
        let has_codes = !matches!(self.data_type, DataType::Text { .. });
        has_codes && words.len() == usize::from(self.registers()) && self.bits(words) == code.0
    }

    /// The registers that hold this value, or `None` if the type cannot: the inverse of [`Encoding::decode`].
    ///
    /// A number that falls between two of the type's is rounded to the nearest.
    pub fn encode(&self, value: &Value) -> Option<heapless::Vec<u16, 125>> {
        let bits = match (self.data_type, value) {
            (DataType::Bool { bit }, Value::Bool(on)) if bit < 16 => u64::from(*on) << bit,
            (DataType::Text { registers }, Value::Text(text)) => return self.encode_text(registers, text),
            (DataType::Bool { .. } | DataType::Text { .. }, _) => return None,
            (DataType::Bits { first, last, .. }, value) => {
                let number = u64::try_from(nearest_integer(value)?).ok()?;
                let fits = number <= low_bits(first, last);
                fits.then(|| number.checked_shl(first.into())).flatten()?
            }
            (DataType::Bcd16 | DataType::Bcd32, value) => {
                digits_of_number(nearest_integer(value)?, 4 * u32::from(self.registers()))?
            }
            (DataType::U16, value) => u16::try_from(nearest_integer(value)?).ok()?.into(),
            (DataType::I16, value) => i16::try_from(nearest_integer(value)?).ok()? as u16 as u64,
            (DataType::U32, value) => u32::try_from(nearest_integer(value)?).ok()?.into(),
            (DataType::I32, value) => i32::try_from(nearest_integer(value)?).ok()? as u32 as u64,
            (DataType::U64, value) => u64::try_from(nearest_integer(value)?).ok()?,
            (DataType::I64, value) => i64::try_from(nearest_integer(value)?).ok()? as u64,
            (DataType::F32, value) => nearest_f32(value)?.to_bits().into(),
            (DataType::F64, value) => nearest_f64(value)?.to_bits(),
        };
        self.words(bits)
    }

    /// The bits of a number of up to four registers, most significant first. Of a longer text only the last four count.
    fn bits(&self, words: &[u16]) -> u64 {
        let append = |bits: u64, word: &u16| bits << 16 | u64::from(self.order.swapped(*word));
        if self.order.reverses_words() { words.iter().rev().fold(0, append) } else { words.iter().fold(0, append) }
    }

    /// The registers of these bits.
    fn words(&self, bits: u64) -> Option<heapless::Vec<u16, 125>> {
        let mut words = heapless::Vec::new();
        for place in 0..self.registers() {
            let from_lowest = if self.order.reverses_words() { place } else { self.registers() - 1 - place };
            let word = bits.checked_shr(16 * u32::from(from_lowest))? as u16;
            words.push(self.order.swapped(word)).ok()?;
        }
        Some(words)
    }

    fn decode_text(&self, words: &[u16]) -> Option<Box<str>> {
        let mut bytes = heapless::Vec::<u8, 250>::new();
        for word in words {
            bytes.extend_from_slice(&self.order.swapped(*word).to_be_bytes()).ok()?;
        }
        let text = std::str::from_utf8(&bytes).ok()?.trim_end_matches(['\0', ' ']);
        (!text.contains(char::is_control)).then(|| text.into())
    }

    fn encode_text(&self, registers: u8, text: &str) -> Option<heapless::Vec<u16, 125>> {
        if text.len() > 2 * usize::from(registers) || text.contains(char::is_control) {
            return None;
        }
        let mut bytes = text.bytes();
        let mut words = heapless::Vec::new();
        for _ in 0..registers {
            let word = u16::from_be_bytes([bytes.next().unwrap_or(0), bytes.next().unwrap_or(0)]);
            words.push(self.order.swapped(word)).ok()?;
        }
        Some(words)
    }
}

/// The number whose decimal digits stand in the four-bit groups of `bits`; `None` if one of them is no digit.
fn number_of_digits(bits: u64) -> Option<u64> {
    (0..16).rev().try_fold(0_u64, |number, place| {
        let digit = bits >> (4 * place) & 0xF;
        (digit <= 9).then(|| number * 10 + digit)
    })
}

/// The inverse of [`number_of_digits`], for at most so many digits.
fn digits_of_number(number: i128, digits: u32) -> Option<u64> {
    let mut rest = u64::try_from(number).ok().filter(|number| *number < 10_u64.pow(digits))?;
    let mut bits = 0;
    for place in 0..digits {
        bits |= (rest % 10) << (4 * place);
        rest /= 10;
    }
    Some(bits)
}

/// The whole number nearest to this one, halves away from zero.
fn nearest_integer(value: &Value) -> Option<i128> {
    match value {
        Value::Integer(number) => Some(*number),
        Value::Decimal(number) => {
            let whole = number.round_dp_with_strategy(0, rust_decimal::RoundingStrategy::MidpointAwayFromZero);
            whole.to_string().parse().ok()
        }
        Value::Float(number) => Some(number.get().round() as i128), // saturates, and then fits no type
        Value::Named(named) => Some(named.number),
        Value::Flags(flags) => Some(flags.bits.into()),
        Value::Bool(_) | Value::Text(_) => None,
    }
}

/// The single nearest to this number. Through its text, so that what [`Finite::from_f32`] made is undone exactly.
fn nearest_f32(value: &Value) -> Option<f32> {
    let number: f32 = decimal_text(value)?.parse().ok()?;
    number.is_finite().then_some(number)
}

fn nearest_f64(value: &Value) -> Option<f64> {
    let number: f64 = decimal_text(value)?.parse().ok()?;
    number.is_finite().then_some(number)
}

fn decimal_text(value: &Value) -> Option<String> {
    let is_number = matches!(value, Value::Integer(_) | Value::Decimal(_) | Value::Float(_));
    is_number.then(|| value.to_string())
}

/// A device's code for "no value": the bits of the whole value, most significant first, as wide as the type.
///
/// For a type with a word order these are the bits after the order is undone: what the manual prints, not what the wire has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoValueCode(pub u64);

/// Why a text is no code for "no value" of a type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoValueCodeError {
    /// Hexadecimal of another width. The digits are the bits, so a missing digit could stand anywhere.
    #[error("the code has {found} bits, and {data_type} has {expected}")]
    Width {
        /// The type.
        data_type: DataType,
        /// Four for each digit.
        found: usize,
        /// The bits of the type.
        expected: usize,
    },
    /// A decimal number that the type cannot hold.
    #[error("the number does not fit the {bits} bits of {data_type}")]
    DoesNotFit {
        /// The type.
        data_type: DataType,
        /// Its bits.
        bits: usize,
    },
    /// Neither hexadecimal nor decimal, or with leading zeros.
    #[error("a code is hexadecimal with all its digits, as in \"0x7FC00000\", or a decimal number")]
    NotANumber,
    /// Texts have none.
    #[error("a string has no code for \"no value\"")]
    OfText,
}

impl NoValueCode {
    /// The code in a text: hexadecimal with exactly the digits of the type, or a decimal number of the type.
    ///
    /// Hexadecimal means bits, so `0xFFFF` is a code of an `i16`. Decimal means the number, so the same code of an `i16` is `-1`.
    pub fn parse(text: &str, data_type: DataType) -> Result<NoValueCode, NoValueCodeError> {
        let bits = 16 * usize::from(data_type.registers());
        if matches!(data_type, DataType::Text { .. }) {
            return Err(NoValueCodeError::OfText);
        }
        if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            return parse_hexadecimal(digits, data_type, bits);
        }
        let value = parse_decimal(text, data_type).ok_or(NoValueCodeError::NotANumber)?;
        // A whole number stands behind a bit or some of its bits, and its code is one of that number.
        let data_type_of_code = match data_type {
            DataType::Bool { .. } | DataType::Bits { registers: 1, .. } => DataType::U16,
            DataType::Bits { registers: 2, .. } => DataType::U32,
            DataType::Bits { .. } => DataType::U64,
            other => other,
        };
        let encoding = Encoding { data_type: data_type_of_code, order: WordOrder::Abcd };
        let words = encoding.encode(&value).ok_or(NoValueCodeError::DoesNotFit { data_type, bits })?;
        Ok(NoValueCode(encoding.bits(&words)))
    }
}

fn parse_hexadecimal(digits: &str, data_type: DataType, expected: usize) -> Result<NoValueCode, NoValueCodeError> {
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(NoValueCodeError::NotANumber);
    }
    let found = 4 * digits.len();
    if found != expected {
        return Err(NoValueCodeError::Width { data_type, found, expected });
    }
    u64::from_str_radix(digits, 16).map(NoValueCode).map_err(|_| NoValueCodeError::NotANumber)
}

fn parse_decimal(text: &str, data_type: DataType) -> Option<Value> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let has_leading_zero = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
    if !digits.starts_with(|first: char| first.is_ascii_digit()) || has_leading_zero {
        return None;
    }
    match data_type {
        DataType::F32 | DataType::F64 => Finite::new(text.parse().ok()?).map(Value::Float),
        _ => text.parse().ok().map(Value::Integer),
    }
}
