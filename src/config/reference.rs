//! Register numbers as many manuals write them: `40101` is the holding register at PDU address 100.
//!
//! Never guessed: a number above 40000 may be an address as well (SunSpec devices have theirs at 40000), so that the
//! key alone says which of the two is meant.

use crate::modbus::Table;

/// Why a number is no reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReferenceError {
    #[error(
        "a reference is 1 to 9999 (coil), 10001 to 19999 (discrete), 30001 to 39999 (input), 40001 to 49999 (holding), or has six digits"
    )]
    NoReference,
    #[error("references count from 1")]
    CountsFromOne,
    #[error("the register after 65536 does not exist")]
    TooHigh,
}

/// The table and PDU address of a reference written as a number: five digits, or six, or a coil's up to 9999.
///
/// A number has no leading zeros, so that coils of six digits can only be written as text.
pub(super) fn from_number(number: i64) -> Result<(Table, u16), ReferenceError> {
    match number {
        1..=9_999 => from_parts(0, number),
        10_000..=99_999 => from_parts(number / 10_000, number % 10_000),
        100_000..=499_999 => from_parts(number / 100_000, number % 100_000),
        _ => Err(ReferenceError::NoReference),
    }
}

/// The table and PDU address of a reference written as text, five or six digits: `"00001"`, `"400101"`.
pub(super) fn from_text(text: &str) -> Result<(Table, u16), ReferenceError> {
    if !matches!(text.len(), 5 | 6) || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ReferenceError::NoReference);
    }
    let (table, rest) = text.split_at(1);
    let number = |digits: &str| digits.parse::<i64>().map_err(|_| ReferenceError::NoReference);
    from_parts(number(table)?, number(rest)?)
}

fn from_parts(digit: i64, number: i64) -> Result<(Table, u16), ReferenceError> {
    let table = match digit {
        0 => Table::Coil,
        1 => Table::DiscreteInput,
        3 => Table::Input,
        4 => Table::Holding,
        _ => return Err(ReferenceError::NoReference),
    };
    if number == 0 {
        return Err(ReferenceError::CountsFromOne);
    }
    let address = u16::try_from(number - 1).map_err(|_| ReferenceError::TooHigh)?;
    Ok((table, address))
}

/// How a manual that counts from 1 writes an address: five digits, or six from the ten-thousandth on.
pub(crate) fn reference_of(table: Table, address: u16) -> String {
    let digit = match table {
        Table::Coil => 0,
        Table::DiscreteInput => 1,
        Table::Input => 3,
        Table::Holding => 4,
    };
    let number = u32::from(address) + 1;
    if number <= 9_999 { format!("{digit}{number:04}") } else { format!("{digit}{number:05}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_names_table_and_address() {
        let check = |text: &str, expected: Result<(Table, u16), ReferenceError>| {
            assert_eq!(from_text(text), expected, "{text:?}");
        };
        check("40101", Ok((Table::Holding, 100)));
        check("30001", Ok((Table::Input, 0)));
        check("10001", Ok((Table::DiscreteInput, 0)));
        check("00001", Ok((Table::Coil, 0)));
        check("065536", Ok((Table::Coil, 65535)));
        check("465536", Ok((Table::Holding, 65535)));
        check("465537", Err(ReferenceError::TooHigh));
        check("40000", Err(ReferenceError::CountsFromOne));
        check("20001", Err(ReferenceError::NoReference));
        check("4010", Err(ReferenceError::NoReference));
        check("4x101", Err(ReferenceError::NoReference));
        assert_eq!(from_number(1), Ok((Table::Coil, 0)));
        assert_eq!(from_number(9_999), Ok((Table::Coil, 9_998)));
        assert_eq!(from_number(40_101), Ok((Table::Holding, 100)));
        assert_eq!(from_number(400_101), Ok((Table::Holding, 100)));
        assert_eq!(from_number(0), Err(ReferenceError::NoReference));
        assert_eq!(from_number(-1), Err(ReferenceError::NoReference));
    }

    #[test]
    fn every_address_comes_back_from_its_reference() {
        for table in [Table::Coil, Table::DiscreteInput, Table::Input, Table::Holding] {
            for address in 0..=u16::MAX {
                assert_eq!(from_text(&reference_of(table, address)), Ok((table, address)));
            }
        }
    }
}
