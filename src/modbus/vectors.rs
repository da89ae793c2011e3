//! Known registers and what they hold, from field cases, standards and manuals of devices.

use super::words::{DataType, DecodeError, Encoding, NoValueCode, NoValueCodeError, WordOrder};
use crate::quantity::{Finite, Value};

/// Registers as they were on the wire, their type and order, and the value as text.
struct Vector {
    source: &'static str,
    data_type: &'static str,
    order: &'static str,
    wire: &'static str,
    value: &'static str,
}

const fn vector(
    source: &'static str,
    data_type: &'static str,
    order: &'static str,
    wire: &'static str,
    value: &'static str,
) -> Vector {
    Vector { source, data_type, order, wire, value }
}

#[rustfmt::skip]
const VECTORS: &[Vector] = &[
    vector("case C01", "f32", "CDAB", "B852 436E", "238.72"),
    vector("case C01", "u32", "CDAB", "B852 436E", "1131329618"),
    vector("case C03", "f32", "ABCD", "4366 6666", "230.4"),
    vector("case C03", "f32", "ABCD", "4365 CCCD", "229.8"),
    vector("case C03", "f32", "ABCD", "4367 199A", "231.1"),
    vector("case C03", "f32", "ABCD", "4086 6666", "4.2"),
    vector("case C03", "f32", "CDAB", "6666 4365", "229.4"),
    vector("case C03", "f32", "CDAB", "CCCD 4367", "231.8"),
    vector("case C03", "f32", "CDAB", "199A 4086", "4.190625"),
    vector("case C04", "i32", "ABCD", "8000 0000", "-2147483648"),
    vector("case C04", "u32", "ABCD", "FFFF FFFF", "4294967295"),
    vector("case C04", "u64", "ABCD", "FFFF FFFF FFFF FFFF", "18446744073709551615"),
    vector("case C04", "i32", "ABCD", "0000 07D9", "2009"),
    vector("case C04", "i32", "ABCD", "FFFF FFFF", "-1"),
    vector("case C06", "f32", "ABCD", "41AC 0000", "21.5"),
    vector("case C07", "i16", "ABCD", "0264", "612"),
    vector("case C07", "i16", "ABCD", "17D7", "6103"),
    vector("case C07", "i16", "ABCD", "FFFF", "-1"),
    vector("case C09", "u64", "ABCD", "0020 0000 0000 0001", "9007199254740993"),
    vector("case C09", "i64", "ABCD", "FFDF FFFF FFFF FFFF", "-9007199254740993"),
    vector("case C09", "u64", "ABCD", "FFFF FFFF FFFF FFFE", "18446744073709551614"),
    vector("case C12", "u32", "ABCD", "0001 FFFF", "131071"),
    vector("case C12", "u32", "ABCD", "0003 0001", "196609"),
    vector("case C15", "f32", "ABCD", "4369 199A", "233.1"),
    vector("case C15", "u16", "ABCD", "0003", "3"),
    vector("case C15", "i16", "ABCD", "0044", "68"),
    vector("case C22", "f32", "ABCD", "4236 0000", "45.5"),
    vector("case C25", "f32", "ABCD", "C144 0000", "-12.25"),
    vector("case C38", "u32", "CDAB", "1130 0001", "69936"),

    vector("V1.1b3, section 6.3", "u16", "ABCD", "022B", "555"),
    vector("Eastron SDM630 and SDM320, phase 1 volts", "f32", "ABCD", "4366 3334", "230.20001"),
    vector("Eastron SDM320, width of pulse 1", "f32", "ABCD", "42C8 0000", "100"),
    vector("SunSpec marker, as a number", "u32", "ABCD", "5375 6E53", "1400204883"),
    vector("SunSpec marker", "string", "ABCD", "5375 6E53", "SunS"),
    vector("SunSpec scale factor", "i16", "ABCD", "FFFE", "-2"),
    vector("IEEE 754, 123.456 as single", "f32", "ABCD", "42F6 E979", "123.456"),
    vector("IEEE 754, smallest normal single", "f32", "ABCD", "0080 0000", "0.000000000000000000000000000000000000011754944"),
    vector("IEEE 754, pi as double", "f64", "ABCD", "4009 21FB 5444 2D18", "3.141592653589793"),
    vector("IEEE 754, a tenth as double", "f64", "ABCD", "3FB9 9999 9999 999A", "0.1"),

    // One value in every order: 123456.789 as double, 305419896 = 0x12345678, 81985529216486895 = 0x0123456789ABCDEF.
    vector("orders of u16", "u16", "ABCD", "1234", "4660"),
    vector("orders of u16", "u16", "CDAB", "1234", "4660"),
    vector("orders of u16", "u16", "BADC", "3412", "4660"),
    vector("orders of u16", "u16", "DCBA", "3412", "4660"),
    vector("orders of u32", "u32", "ABCD", "1234 5678", "305419896"),
    vector("orders of u32", "u32", "CDAB", "5678 1234", "305419896"),
    vector("orders of u32", "u32", "BADC", "3412 7856", "305419896"),
    vector("orders of u32", "u32", "DCBA", "7856 3412", "305419896"),
    vector("orders of u64", "u64", "ABCDEFGH", "0123 4567 89AB CDEF", "81985529216486895"),
    vector("orders of u64", "u64", "GHEFCDAB", "CDEF 89AB 4567 0123", "81985529216486895"),
    vector("orders of u64", "u64", "BADCFEHG", "2301 6745 AB89 EFCD", "81985529216486895"),
    vector("orders of u64", "u64", "HGFEDCBA", "EFCD AB89 6745 2301", "81985529216486895"),
    vector("orders of f64", "f64", "ABCD", "40FE 240C 9FBE 76C9", "123456.789"),
    vector("orders of f64", "f64", "CDAB", "76C9 9FBE 240C 40FE", "123456.789"),
    vector("orders of f64", "f64", "BADC", "FE40 0C24 BE9F C976", "123456.789"),
    vector("orders of f64", "f64", "DCBA", "C976 BE9F 0C24 FE40", "123456.789"),
    vector("orders of texts", "string", "CDAB", "5375 6E53", "SunS"),
    vector("orders of texts", "string", "BADC", "7553 536E", "SunS"),
    vector("orders of texts", "string", "DCBA", "7553 536E", "SunS"),
    vector("padding of texts", "string", "ABCD", "4142 4300 0000", "ABC"),
    vector("padding of texts", "string", "ABCD", "2041 2042 2020 2000", " A B"),
    vector("texts beyond ASCII", "string", "ABCD", "C2B0 4300", "°C"),
    vector("decimal digits", "bcd16", "ABCD", "1234", "1234"),
    vector("decimal digits", "bcd16", "ABCD", "0007", "7"),
    vector("decimal digits", "bcd16", "BADC", "3412", "1234"),
    vector("decimal digits", "bcd32", "ABCD", "9876 5432", "98765432"),
    vector("decimal digits", "bcd32", "CDAB", "5432 9876", "98765432"),
    vector("empty texts", "string", "ABCD", "0000 0000", ""),
];

fn words(hex: &str) -> Vec<u16> {
    hex.split_whitespace().map(|word| u16::from_str_radix(word, 16).expect("hex")).collect()
}

fn encoding(data_type: &str, order: &str, registers: usize) -> Encoding {
    let data_type = match DataType::from_name(data_type).expect("a type") {
        DataType::Text { .. } => DataType::Text { registers: registers as u8 },
        other => other,
    };
    Encoding { data_type, order: WordOrder::from_name(order).expect("an order") }
}

fn abcd(data_type: DataType) -> Encoding {
    Encoding { data_type, order: WordOrder::Abcd }
}

#[test]
fn every_known_vector_has_its_value_and_goes_back_to_its_registers() {
    for Vector { source, data_type, order, wire, value } in VECTORS {
        let registers = words(wire);
        let encoding = encoding(data_type, order, registers.len());
        let decoded = encoding.decode(&registers).unwrap_or_else(|err| panic!("{source}: {err}"));
        assert_eq!(&decoded.to_string(), value, "{source}, {data_type} {order} {wire}");
        let back = encoding.encode(&decoded).unwrap_or_else(|| panic!("{source}: {value} does not go back"));
        assert_eq!(encoding.decode(&back).as_ref(), Ok(&decoded), "{source}");
        if *source != "padding of texts" {
            assert_eq!(&back[..], registers, "{source}");
        }
    }
}

#[test]
fn case_c01_a_float_stays_a_float_and_its_scale_is_applied_to_the_number() {
    let raw = encoding("f32", "CDAB", 2).decode(&words("B852 436E")).expect("a value");
    let scaling = crate::quantity::Scaling::new("0.01".parse().expect("a scale"), 0.into()).expect("a scaling");
    assert_eq!(scaling.apply(raw).expect("a value").to_string(), "2.3872");
}

#[test]
fn case_c03_an_order_is_followed_and_never_guessed() {
    // Three voltages and a current; one register too far and with swapped words two of them still look like voltages.
    let answer = words("4366 6666 4365 CCCD 4367 199A 4086 6666");
    let read = |order, first: usize| {
        let value = encoding("f32", order, 2).decode(&answer[first..first + 2]).expect("a value");
        value.to_string()
    };
    assert_eq!([0, 2, 4].map(|first| read("ABCD", first)), ["230.4", "229.8", "231.1"]);
    assert_eq!([1, 3, 5].map(|first| read("CDAB", first)), ["229.4", "231.8", "4.190625"]);
    for (order, wire) in [("ABCD", "4366 6666"), ("CDAB", "6666 4366"), ("BADC", "6643 6666"), ("DCBA", "6666 6643")] {
        assert_eq!(encoding("f32", order, 2).decode(&words(wire)).expect("a value").to_string(), "230.4", "{order}");
    }
}

#[test]
fn case_c04_a_code_for_no_value_is_compared_with_the_bits() {
    let check = |data_type, code: &str, wire: &str, holds| {
        let data_type = DataType::from_name(data_type).expect("a type");
        let code = NoValueCode::parse(code, data_type).expect("a code");
        assert_eq!(abcd(data_type).holds(&words(wire), code), holds, "{data_type} {code:?} {wire}");
    };
    check("i32", "0x80000000", "8000 0000", true);
    check("i32", "-2147483648", "8000 0000", true);
    check("u32", "0xFFFFFFFF", "FFFF FFFF", true);
    check("u64", "0xFFFFFFFFFFFFFFFF", "FFFF FFFF FFFF FFFF", true);
    check("i32", "0x80000000", "0000 07D9", false);
    check("i32", "0x80000000", "FFFF FFFF", false);
    check("f32", "0x7FC00000", "7FC0 0000", true);
    check("f32", "0x7FC00000", "FFC0 0000", false);
    check("f32", "-9999", "C61C 3C00", true);
    check("i16", "0x8000", "8000", true);
    check("bool", "65535", "FFFF", true);
}

#[test]
fn a_code_is_compared_after_the_order_is_undone_and_only_with_all_registers() {
    let swapped = encoding("u32", "CDAB", 2);
    assert!(swapped.holds(&[0x5678, 0x1234], NoValueCode(0x1234_5678)));
    assert!(!swapped.holds(&[0x1234, 0x5678], NoValueCode(0x1234_5678)));
    assert!(!abcd(DataType::U32).holds(&[0xFFFF], NoValueCode(0xFFFF)));
    assert!(!abcd(DataType::Text { registers: 1 }).holds(&[0x4142], NoValueCode(0x4142)));
}

#[test]
fn a_code_of_another_width_is_refused_with_both_widths() {
    let refusal = |text: &str, data_type| NoValueCode::parse(text, data_type).expect_err("a refusal").to_string();
    assert_eq!(refusal("0x7FC000", DataType::F32), "the code has 24 bits, and f32 has 32");
    assert_eq!(refusal("0x80000000", DataType::I16), "the code has 32 bits, and i16 has 16");
    assert_eq!(refusal("0x00000000000000000", DataType::U64), "the code has 68 bits, and u64 has 64");
    assert_eq!(refusal("65536", DataType::U16), "the number does not fit the 16 bits of u16");
    assert_eq!(refusal("65535", DataType::I16), "the number does not fit the 16 bits of i16");
    assert_eq!(refusal("1e39", DataType::F32), "the number does not fit the 32 bits of f32");
    for text in [
        "",
        "0x",
        "0xGGGG",
        "-0x8000",
        "+1",
        "007",
        "1.5",
        "x",
        "NaN",
        "inf",
        "99999999999999999999999999999999999999999",
    ] {
        assert_eq!(NoValueCode::parse(text, DataType::U16), Err(NoValueCodeError::NotANumber), "{text}");
    }
    assert_eq!(NoValueCode::parse("0x0000", DataType::Text { registers: 1 }), Err(NoValueCodeError::OfText));
}

#[test]
fn case_c06_nan_and_infinity_are_no_values() {
    for wire in ["7FC0 0000", "FFC0 0000", "7F80 0000", "FF80 0000", "7F80 0001"] {
        assert_eq!(abcd(DataType::F32).decode(&words(wire)), Err(DecodeError::NotFinite), "{wire}");
    }
    for wire in ["7FF8 0000 0000 0000", "7FF0 0000 0000 0000", "FFF0 0000 0000 0000"] {
        assert_eq!(abcd(DataType::F64).decode(&words(wire)), Err(DecodeError::NotFinite), "{wire}");
    }
}

#[test]
fn bytes_that_are_no_text_are_no_value() {
    let text = |registers| abcd(DataType::Text { registers });
    for wire in ["FFFF", "41C2", "4109", "0041", "000A"] {
        assert_eq!(text(1).decode(&words(wire)), Err(DecodeError::NotText), "{wire}");
    }
    assert_eq!(text(2).decode(&words("4142")), Err(DecodeError::WrongCount));
}

#[test]
fn a_bool_is_its_bit_of_the_register_as_a_number() {
    let bit = |bit, order| Encoding { data_type: DataType::Bool { bit }, order };
    for place in 0..16 {
        assert_eq!(bit(place, WordOrder::Abcd).decode(&[1 << place]), Ok(Value::Bool(true)));
        assert_eq!(bit(place, WordOrder::Abcd).decode(&[!(1 << place)]), Ok(Value::Bool(false)));
    }
    assert_eq!(bit(0, WordOrder::Dcba).decode(&[0x0100]), Ok(Value::Bool(true)));
    assert_eq!(bit(200, WordOrder::Abcd).decode(&[0xFFFF]), Ok(Value::Bool(false)));
}

#[test]
fn what_a_type_cannot_hold_is_not_encoded() {
    let float = |number| Value::Float(Finite::new(number).expect("finite"));
    let refused = [
        (DataType::U16, Value::Integer(65_536)),
        (DataType::U16, Value::Integer(-1)),
        (DataType::I16, Value::Integer(32_768)),
        (DataType::U64, Value::Integer(1 << 64)),
        (DataType::U32, float(1e300)),
        (DataType::F32, float(1e39)),
        (DataType::F32, Value::Bool(true)),
        (DataType::Bool { bit: 0 }, Value::Integer(1)),
        (DataType::Bool { bit: 16 }, Value::Bool(true)),
        (DataType::Text { registers: 1 }, Value::Text("ABC".into())),
        (DataType::Text { registers: 2 }, Value::Text("A\n".into())),
        (DataType::Text { registers: 200 }, Value::Text("A".into())),
    ];
    for (data_type, value) in refused {
        assert_eq!(abcd(data_type).encode(&value), None, "{value:?} as {data_type}");
    }
}

#[test]
fn a_number_between_two_of_the_types_is_rounded_to_the_nearest() {
    let check = |data_type, value: Value, registers: &[u16]| {
        assert_eq!(abcd(data_type).encode(&value).as_deref(), Some(registers), "{value:?} as {data_type}");
    };
    let decimal = |text: &str| Value::Decimal(text.parse().expect("a decimal"));
    let float = |number| Value::Float(Finite::new(number).expect("finite"));
    check(DataType::U16, decimal("96.9"), &[97]);
    check(DataType::I16, decimal("-2.5"), &[0xFFFD]);
    check(DataType::I16, float(-2.4), &[0xFFFE]);
    check(DataType::F32, decimal("233.1"), &[0x4369, 0x199A]);
    check(DataType::F32, Value::Integer(16_777_217), &[0x4B80, 0x0000]);
    check(DataType::F64, decimal("0.1"), &[0x3FB9, 0x9999, 0x9999, 0x999A]);
}

#[test]
fn every_name_of_a_type_or_an_order_is_read_back() {
    for name in DataType::NAMES {
        assert_eq!(DataType::from_name(name).map(DataType::name), Some(name));
    }
    for (order, name) in WordOrder::ALL.into_iter().zip(WordOrder::NAMES) {
        assert_eq!(order.name(), name);
        assert_eq!(WordOrder::from_name(name), Some(order));
    }
    assert_eq!(DataType::from_name("float"), None);
    assert_eq!(WordOrder::from_name("abcd"), None);
}

#[test]
fn four_bits_that_are_no_digit_are_no_number() {
    for wire in ["123A", "F000", "00C0"] {
        assert_eq!(abcd(DataType::Bcd16).decode(&words(wire)), Err(DecodeError::NotDecimal), "{wire}");
    }
    assert_eq!(abcd(DataType::Bcd32).decode(&words("1234 567F")), Err(DecodeError::NotDecimal));
    assert_eq!(abcd(DataType::Bcd16).encode(&Value::Integer(10_000)), None);
    assert_eq!(abcd(DataType::Bcd16).encode(&Value::Integer(-1)), None);
}

#[test]
fn a_range_of_bits_is_a_number_of_its_own_and_crosses_registers() {
    let check = |registers, first, last, order: &str, wire: &str, number: i128| {
        let order = WordOrder::from_name(order).expect("an order");
        let encoding = Encoding { data_type: DataType::Bits { registers, first, last }, order };
        assert_eq!(encoding.decode(&words(wire)), Ok(Value::Integer(number)), "{first} to {last} of {wire}");
        let alone = encoding.encode(&Value::Integer(number)).expect("it fits");
        assert_eq!(encoding.decode(&alone), Ok(Value::Integer(number)));
        let others = words(wire).iter().zip(&alone).all(|(all, some)| all & some == *some);
        assert!(others, "no other bit is set: {alone:04X?} of {wire}");
    };
    check(1, 4, 7, "ABCD", "1234", 3);
    check(1, 0, 15, "ABCD", "FFFF", 0xFFFF);
    check(1, 15, 15, "ABCD", "8000", 1);
    check(1, 4, 7, "BADC", "3412", 3);
    check(2, 12, 19, "ABCD", "1234 5678", 0x45);
    check(2, 12, 19, "CDAB", "5678 1234", 0x45);
    check(4, 0, 63, "ABCD", "FFFF FFFF FFFF FFFF", u64::MAX.into());
    check(4, 60, 63, "ABCD", "A000 0000 0000 0000", 0xA);
    let low = abcd(DataType::Bits { registers: 1, first: 4, last: 7 });
    assert_eq!(low.encode(&Value::Integer(16)), None, "a number that the bits cannot hold goes nowhere");
}
