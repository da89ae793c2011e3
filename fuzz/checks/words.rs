//! Any registers as any type in any order, and any text as a code for "no value".

use fieldgate::modbus::words::{DataType, Encoding, NoValueCode, WordOrder};

/// Which type and order, its bit or its registers, the registers, and the code's text.
pub type Input = (u8, u8, u8, Vec<u16>, String);

/// Panics if a promise is broken.
pub fn check(input: Input) {
    let (name, order, size, mut words, code) = input;
    let name = DataType::NAMES[usize::from(name) % DataType::NAMES.len()];
    let data_type = match DataType::from_name(name) {
        Some(DataType::Bool { .. }) => DataType::Bool { bit: size % 16 },
        Some(DataType::Text { .. }) => DataType::Text { registers: size % 126 },
        Some(other) => other,
        None => panic!("{name} is no type"),
    };
    let encoding = Encoding { data_type, order: WordOrder::ALL[usize::from(order % 4)] };
    assert!(encoding.decode(&words).is_err() || words.len() == usize::from(encoding.registers()));

    words.resize(usize::from(encoding.registers()), 0);
    if let Ok(value) = encoding.decode(&words) {
        let back = encoding.encode(&value).expect("what was decoded can be encoded");
        assert_eq!(encoding.decode(&back), Ok(value));
    }
    if let Ok(code) = NoValueCode::parse(&code, data_type) {
        encoding.holds(&words, code);
    }
}
