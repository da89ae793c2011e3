//! From a value to the registers that hold it: the way back through scaling and encoding.
//!
//! A person's wish (`set`) is met exactly or refused with what would be possible, so that a test that pins 9.7 never
//! reads 9.6.

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

use super::signal::{factor, scale_and_offset};
use crate::modbus::words::{DataType, Encoding, NoValueCode};
use crate::quantity::{Finite, Value};
use crate::registry::Sensor;

/// The registers of one sensor; for a coil or a discrete input one word that is 0 or not.
pub type Words = heapless::Vec<u16, 125>;

/// The registers for a raw value of the sensor's own signal, which never looks like "no value".
pub fn words_of_signal(sensor: &Sensor, raw: Value) -> Words {
    let words = encode(sensor, &raw).unwrap_or_default();
    let absent = |words: &Words| sensor.no_value.iter().any(|code| sensor.read.encoding.holds(words, *code));
    let Value::Integer(number) = raw else { return whole(sensor, words) };
    if !absent(&words) {
        return whole(sensor, words);
    }
    let beside = [number - 1, number + 1].map(Value::Integer);
    let other = beside.iter().filter_map(|raw| encode(sensor, raw)).find(|words| !absent(words));
    whole(sensor, other.unwrap_or(words))
}

/// The registers that hold a value given as text, in the engineering unit.
pub fn words_of_text(sensor: &Sensor, text: &str) -> Result<Words, String> {
    let named = sensor.rules.names.as_ref().and_then(|names| names.number_of(text));
    let raw = match sensor.read.encoding.data_type {
        _ if sensor.read.table.is_bits() => Value::Bool(bit_of(sensor, text)?),
        DataType::Bool { .. } => Value::Bool(bit_of(sensor, text)?),
        DataType::F32 | DataType::F64 => float_of(sensor, text)?,
        DataType::Text { .. } => Value::Text(text.into()),
        data_type => named.map_or_else(|| integer_of(sensor, data_type, text), |number| Ok(Value::Integer(number)))?,
    };
    let words = encode(sensor, &raw).ok_or_else(|| format!("{text:?} does not fit the registers of {}", sensor.id))?;
    Ok(whole(sensor, words))
}

/// Registers as they were given, if they are as many as a read of the sensor has.
pub fn words_as_given(sensor: &Sensor, words: &[u16]) -> Result<Words, String> {
    if sensor.read.table.is_bits() || matches!(sensor.read.encoding.data_type, DataType::Bool { .. }) {
        return Err(format!("{} is a bit; write `set {} true` or `false`", sensor.id, sensor.id));
    }
    let expected = usize::from(sensor.read.count());
    if words.len() != expected {
        return Err(format!("{} has {expected} registers, and {} were given", sensor.id, words.len()));
    }
    Words::from_slice(words).map_err(|_| format!("{} registers are more than one read", words.len()))
}

/// The registers that mean "no value".
pub fn words_of_no_value(sensor: &Sensor) -> Result<Words, String> {
    let encoding = sensor.read.encoding;
    let code = match (sensor.no_value.first(), encoding.data_type) {
        (Some(code), _) => *code,
        // NaN is no number for any reader, so that a float needs no code of its own.
        (None, DataType::F32) => NoValueCode(f32::NAN.to_bits().into()),
        (None, DataType::F64) => NoValueCode(f64::NAN.to_bits()),
        (None, _) => return Err(format!("{} has no `no_value` code in the configuration; use `raw`", sensor.id)),
    };
    let data_type = match encoding.registers() {
        1 => DataType::U16,
        2 => DataType::U32,
        4 => DataType::U64,
        _ => return Err(format!("{} has no width that a code could have; use `raw`", sensor.id)),
    };
    let as_integer = Encoding { data_type, order: encoding.order };
    let words = as_integer.encode(&Value::Integer(code.0.into()));
    words
        .map(|words| whole(sensor, words))
        .ok_or_else(|| format!("the code {:#X} is wider than the registers of {}; use `raw`", code.0, sensor.id))
}

/// The registers of a whole read: those of the value, and the factor beside it. What lies between is any.
fn whole(sensor: &Sensor, value: Words) -> Words {
    spread(sensor, value, factor().to_register())
}

/// The bits that belong to the sensor, of each register that a read of it covers; its factor's among them.
pub fn mask_of(sensor: &Sensor) -> Words {
    let all = match sensor.read.encoding.data_type {
        _ if sensor.read.table.is_bits() => Words::from_slice(&[u16::MAX]).ok(),
        DataType::Bool { .. } => encode(sensor, &Value::Bool(true)),
        data_type @ DataType::Bits { .. } => {
            data_type.integer_bounds().and_then(|(_, most)| encode(sensor, &Value::Integer(most)))
        }
        data_type => {
            let mut words = Words::new();
            words.resize(data_type.registers().into(), u16::MAX).ok().map(|()| words)
        }
    };
    spread(sensor, all.unwrap_or_default(), u16::MAX)
}

fn spread(sensor: &Sensor, value: Words, factor: u16) -> Words {
    let read = &sensor.read;
    let Some(factor_address) = read.factor_address() else { return value };
    let mut words = Words::new();
    for place in 0..read.count() {
        let address = read.address + place;
        let in_value = address.checked_sub(read.value_address()).and_then(|place| value.get(usize::from(place)));
        let word = if address == factor_address { factor } else { in_value.copied().unwrap_or(0) };
        // A read has at most as many registers as the words have room for.
        let _ = words.push(word);
    }
    words
}

fn encode(sensor: &Sensor, raw: &Value) -> Option<Words> {
    match raw {
        Value::Bool(on) if sensor.read.table.is_bits() => Words::from_slice(&[u16::from(*on)]).ok(),
        _ => sensor.read.encoding.encode(raw),
    }
}

fn bit_of(sensor: &Sensor, text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err(format!("{text:?} is no bit; {} takes true or false", sensor.id)),
    }
}

fn float_of(sensor: &Sensor, text: &str) -> Result<Value, String> {
    let wrong = || format!("{text:?} is no finite number; {} takes one such as 47.3", sensor.id);
    let number: f64 = text.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(wrong)?;
    let (scale, offset) = scale_and_offset(sensor);
    let raw = match (scale == Decimal::ONE && offset.is_zero(), text.parse::<Decimal>()) {
        (true, _) => number,
        (false, Ok(exact)) => raw_of(exact, scale, offset).and_then(|raw| raw.to_f64()).ok_or_else(wrong)?,
        (false, Err(_)) => (number - offset.to_f64().unwrap_or(0.0)) / scale.to_f64().unwrap_or(1.0),
    };
    let finite = match sensor.read.encoding.data_type {
        DataType::F32 => Finite::from_f32(raw as f32),
        _ => Finite::new(raw),
    };
    finite.map(Value::Float).ok_or_else(|| format!("{text} is beyond what {} can hold", sensor.id))
}

fn integer_of(sensor: &Sensor, data_type: DataType, text: &str) -> Result<Value, String> {
    let wrong = || format!("{text:?} is no number; {} takes one such as 42", sensor.id);
    let wanted: Decimal = text.parse().map_err(|_| wrong())?;
    let (scale, offset) = scale_and_offset(sensor);
    let engineering = |raw: Decimal| raw.checked_mul(scale).and_then(|product| product.checked_add(offset));
    let raw = raw_of(wanted, scale, offset).ok_or_else(wrong)?;
    let whole = raw.round();
    if engineering(whole) != Some(wanted) {
        let around = [raw.floor(), raw.ceil()].map(|raw| engineering(raw).unwrap_or(raw).normalize().to_string());
        return Err(format!(
            "{} moves in steps of {}; the nearest to {text} are {} and {}",
            sensor.id,
            scale.abs().normalize(),
            around[0],
            around[1]
        ));
    }
    let (least, most) = data_type.integer_bounds().ok_or_else(wrong)?;
    let number = whole.to_i128().ok_or_else(wrong)?;
    if number < least || most < number {
        return Err(format!("{text} needs the raw number {number}, and {} holds {least} to {most}", sensor.id));
    }
    Ok(Value::Integer(number))
}

fn raw_of(engineering: Decimal, scale: Decimal, offset: Decimal) -> Option<Decimal> {
    engineering.checked_sub(offset)?.checked_div(scale)
}
