//! Where a sensor's registers are, and what they mean: the table `read`.

use rust_decimal::Decimal;

use super::field::Field;
use super::keys;
use super::names::{Meaning, meaning};
use super::place::{Place, address_beside, place};
use super::reader::TableReader;
use crate::modbus::Table;
use crate::modbus::words::{DataType, Encoding, NoValueCode, NoValueCodeError, WordOrder};
use crate::quantity::{Scaling, ScalingError};
use crate::registry::rules::Names;
use crate::registry::search::nearest;
use crate::registry::sensor::ReadSpec;

/// Where a value is and what its numbers are called.
pub(super) fn read_spec(read: &TableReader<'_, '_>) -> Option<(ReadSpec, Option<Names>)> {
    let place = place(read);
    let table = place.as_ref().and_then(|place| place.table);
    let data_type = data_type(read, table);
    let order = order(read, data_type, table);
    let meaning = meaning(read, data_type);
    let scaling = scaling(read, data_type, &meaning);
    let factor = read.optional("scale_register");
    let factor = factor.map(|field| (factor_address(&field, table, data_type, &meaning), field));
    let place = place?;
    let spec = ReadSpec {
        table: place.table?,
        address: place.address?,
        encoding: Encoding { data_type: data_type?, order: order? },
        scaling: scaling?,
        factor: None,
    };
    place.note_end(spec.address, spec.count()).then_some(())?;
    let spec = match factor {
        Some((address, field)) => with_factor(spec, address?, &field, &place)?,
        None => spec,
    };
    Some((spec, meaning.into_names()?))
}

fn factor_address(
    field: &Field<'_, '_>,
    table: Option<Table>,
    data_type: Option<DataType>,
    meaning: &Meaning,
) -> Option<u16> {
    let beside = field.table(&keys::SCALE_REGISTER)?;
    let is_quantity = !meaning.is_given() && data_type.is_none_or(is_number);
    if !is_quantity || table.is_some_and(Table::is_bits) {
        field.fault_of_key("only a number has a factor", "remove it");
        return None;
    }
    address_beside(&beside, table)
}

fn with_factor(spec: ReadSpec, factor: u16, field: &Field<'_, '_>, place: &Place<'_, '_>) -> Option<ReadSpec> {
    let value = spec.address..=spec.address + (spec.count() - 1);
    if value.contains(&factor) {
        field.fault("the value itself stands in this register", "write the address of its factor");
        return None;
    }
    let whole = spec.with_factor_at(factor);
    if whole.is_none() {
        let key = if place.field.path.ends_with("reference") { "reference" } else { "address" };
        field.fault(
            format!(
                "one request reads {} registers at most, and the value and its factor are further apart",
                spec.table.read_limit()
            ),
            format!(
                "check {key} here and in scale_register; a value and a factor of two requests do not belong together"
            ),
        );
    }
    whole
}

/// What the bits of a number tell, beside which it has its own name: `bits = [4, 7]`.
fn bits_of(field: &Field<'_, '_>, number: DataType) -> Option<DataType> {
    let (DataType::U16 | DataType::U32 | DataType::U64) = number else {
        field.fault_of_key(
            format!("{number} has no range of bits"),
            "write type = \"u16\", \"u32\" or \"u64\", or remove bits",
        );
        return None;
    };
    let ends = field.list()?;
    let [first, last] = ends.as_slice() else {
        field.fault("a range of bits is its lowest and its highest bit", "write [4, 7]");
        return None;
    };
    let highest = i64::from(number.registers()) * 16 - 1;
    let what = format!("a bit of {number}");
    let (first, last) = (first.integer(&what, 0..=highest), last.integer(&what, 0..=highest));
    let (first, last) = (first?, last?);
    if first > last {
        field.fault("the lowest bit of a range comes first", format!("write [{last}, {first}]"));
        return None;
    }
    let registers = u8::try_from(number.registers()).ok()?;
    Some(DataType::Bits { registers, first: u8::try_from(first).ok()?, last: u8::try_from(last).ok()? })
}

/// Whether a type holds a quantity, which may have a scale and a range.
pub(super) fn is_number(data_type: DataType) -> bool {
    !matches!(data_type, DataType::Bool { .. } | DataType::Text { .. })
}

fn data_type(read: &TableReader<'_, '_>, table: Option<Table>) -> Option<DataType> {
    let holds_bits = table.is_some_and(Table::is_bits);
    let bit = read.optional("bit");
    let registers = read.optional("registers");
    let given = match read.optional("type") {
        None if holds_bits => DataType::Bool { bit: 0 },
        // What a register holds cannot be guessed, and is asked for even if the table is not known yet.
        None => read.required("type", "\"u16\"").and(None)?,
        Some(field) => {
            let data_type = type_of(&field)?;
            if holds_bits && !matches!(data_type, DataType::Bool { .. }) {
                let name = table.map(Table::name).unwrap_or_default();
                field.fault(
                    format!("the table {name} holds single bits, and no {}", data_type.name()),
                    "write type = \"bool\", or read from holding or input",
                );
                return None;
            }
            data_type
        }
    };
    if let (Some(field), false) = (&registers, matches!(given, DataType::Text { .. })) {
        field.fault_of_key(
            format!("{} has its own number of registers", given.name()),
            "remove registers; only a string has it",
        );
    }
    if let (Some(field), false) = (&bit, matches!(given, DataType::Bool { .. })) {
        field.fault_of_key(format!("{} has no single bit", given.name()), "write type = \"bool\", or remove bit");
    }
    if let Some(field) = read.optional("bits") {
        return bits_of(&field, given);
    }
    match given {
        DataType::Bool { .. } => bit_of(read, bit, table),
        DataType::Text { .. } => {
            let count = read.required("registers", "8")?;
            let count = registers.unwrap_or(count).integer("the length of a string in registers", 1..=125)?;
            Some(DataType::Text { registers: u8::try_from(count).ok()? })
        }
        number => Some(number),
    }
}

/// What other programs and manuals call our types.
fn type_like(name: &str) -> Option<&'static str> {
    Some(match name.to_lowercase().replace(['_', '-', ' '], "").as_str() {
        "uint16" | "word" | "ushort" | "unsigned" => "u16",
        "int16" | "short" | "int" | "sint16" | "integer" => "i16",
        "uint32" | "dword" | "ulong" => "u32",
        "int32" | "long" | "sint32" | "dint" => "i32",
        "uint64" | "qword" => "u64",
        "int64" | "sint64" | "lint" => "i64",
        "float" | "float32" | "real" | "single" => "f32",
        "double" | "float64" | "lreal" => "f64",
        "boolean" | "bit" | "coil" => "bool",
        "bcd" => "bcd16",
        "str" | "text" | "ascii" | "char" => "string",
        _ => return None,
    })
}

fn type_of(field: &Field<'_, '_>) -> Option<DataType> {
    let text = field.text()?;
    if let Some(data_type) = DataType::from_name(text) {
        return Some(data_type);
    }
    let names = DataType::NAMES.join(", ");
    let meant = type_like(text).or_else(|| nearest(text, DataType::NAMES, 1).first().copied());
    let suggestion = match meant {
        Some(name) => format!("did you mean \"{name}\"?"),
        None => format!("use one of: {names}"),
    };
    field.fault(format!("this is none of: {names}"), suggestion);
    None
}

fn bit_of(read: &TableReader<'_, '_>, bit: Option<Field<'_, '_>>, table: Option<Table>) -> Option<DataType> {
    let Some(table) = table else { return Some(DataType::Bool { bit: 0 }) };
    match (bit, table.is_bits()) {
        (Some(field), true) => {
            field.fault_of_key(format!("each address of the table {table} is one bit"), "remove bit");
            None
        }
        (None, true) => Some(DataType::Bool { bit: 0 }),
        (Some(field), false) => {
            let bit = field.integer("a bit of a register", 0..=15)?;
            Some(DataType::Bool { bit: u8::try_from(bit).ok()? })
        }
        (None, false) => {
            let suggestion = "add bit = 0 for the least significant, up to 15; or read a coil";
            read.missing("bit", "a register has 16 bits, and bit says which".into(), suggestion.into());
            None
        }
    }
}

fn order(read: &TableReader<'_, '_>, data_type: Option<DataType>, table: Option<Table>) -> Option<WordOrder> {
    let Some(field) = read.optional("order") else { return Some(WordOrder::default()) };
    let text = field.text()?;
    let Some(order) = WordOrder::from_name(text) else {
        let suggestion = match order_like(text).or_else(|| nearest(text, WordOrder::NAMES, 1).first().copied()) {
            Some(name) => format!("did you mean \"{name}\"?"),
            None => "ABCD is the standard's; CDAB has the low word first".into(),
        };
        field.fault(format!("this is none of: {}", WordOrder::NAMES.join(", ")), suggestion);
        return None;
    };
    if table.is_some_and(Table::is_bits) {
        field.fault_of_key("a single bit has no order", "remove it");
        return None;
    }
    let data_type = data_type?;
    let registers = Encoding { data_type, order }.registers();
    let is_text = matches!(data_type, DataType::Text { .. });
    if text.len() == 8 && (registers != 4 || is_text) {
        field.fault(
            format!("{text} orders 8 bytes, and {} is another type", data_type.name()),
            format!("write \"{}\"", order.name()),
        );
        return None;
    }
    if matches!(order, WordOrder::Cdab | WordOrder::Dcba) && (registers == 1 || is_text) {
        let why = match is_text {
            true => "a string has no word order".to_owned(),
            false => format!("{} is one register, and has no words to swap", data_type.name()),
        };
        let suggestion = match order {
            WordOrder::Dcba => "write \"BADC\" if the bytes of a register are swapped, or remove order",
            _ => "remove order",
        };
        field.fault(why, suggestion);
        return None;
    }
    Some(order)
}

/// What other programs and manuals call the orders.
fn order_like(name: &str) -> Option<&'static str> {
    Some(match name.to_lowercase().replace(['_', '-', ' '], "").as_str() {
        "big" | "bigendian" | "be" | "abcd" | "ab" | "1234" => "ABCD",
        "little" | "littleendian" | "le" | "4321" | "ba" => "DCBA",
        "wordswap" | "wordswapped" | "lowwordfirst" | "swapped" | "swap" | "3412" => "CDAB",
        "byteswap" | "byteswapped" | "2143" => "BADC",
        _ => return None,
    })
}

fn scaling(read: &TableReader<'_, '_>, data_type: Option<DataType>, meaning: &Meaning) -> Option<Scaling> {
    let scale = read.optional("scale");
    let offset = read.optional("offset");
    if meaning.is_given() || !data_type.is_none_or(is_number) {
        let kind = match meaning.is_given() {
            true => "number with a name",
            false => data_type.map(DataType::name).unwrap_or_default(),
        };
        for field in scale.iter().chain(&offset) {
            field.fault_of_key(format!("a {kind} is not scaled"), "remove it");
        }
        return Some(Scaling::NONE);
    }
    let scale_or_one = scale.as_ref().map_or(Some(Decimal::ONE), |field| scale_part(field, true));
    let offset_or_zero = offset.as_ref().map_or(Some(Decimal::ZERO), |field| scale_part(field, false));
    Scaling::new(scale_or_one?, offset_or_zero?).ok()
}

/// A scale or an offset that can be kept exactly, each judged by itself so that both faults are found.
fn scale_part(field: &Field<'_, '_>, is_scale: bool) -> Option<Decimal> {
    let number = field.decimal()?;
    let judged = match is_scale {
        true => Scaling::new(number, Decimal::ZERO),
        false => Scaling::new(Decimal::ONE, number),
    };
    match judged {
        Ok(_) => Some(number),
        Err(err) => {
            let suggestion = match err {
                ScalingError::ZeroScale => "write 1, or leave scale out",
                ScalingError::TooManyDigits(_) => "use a number of at most 8 digits, such as 0.1",
            };
            field.fault(err.to_string(), suggestion);
            None
        }
    }
}

/// A code for "no value": `"0x7FC00000"` or `0x8000` as bits, a decimal number as a number of the type.
pub(super) fn no_value_code(field: &Field<'_, '_>, data_type: DataType) -> Option<NoValueCode> {
    let Some(text) = field.number_or_text() else {
        field.fault("a code is a text such as \"0x7FC00000\"", "write it in quotes");
        return None;
    };
    match NoValueCode::parse(&text, data_type) {
        Ok(code) => Some(code),
        Err(err) => {
            let digits = usize::from(data_type.registers()) * 4;
            let suggestion = match &err {
                NoValueCodeError::Width { found, expected, .. } if found < expected => {
                    let bits = text.trim_start_matches(['0', 'x', 'X']);
                    format!(
                        "write all {digits} digits: \"0x{bits:0>digits$}\" or \"0x{bits:F>digits$}\", as the manual has it"
                    )
                }
                NoValueCodeError::OfText => "remove it".into(),
                _ => format!("write {digits} hexadecimal digits, as in \"0x{:0digits$X}\"", 1_u64 << (4 * digits - 1)),
            };
            field.fault(err.to_string(), suggestion);
            None
        }
    }
}
