//! Where a register is: `table` and `address`, or `reference` in place of both.

use super::field::Field;
use super::reader::TableReader;
use super::reference::{self, ReferenceError, reference_of};
use crate::modbus::Table;

/// A table and an address, as far as they could be understood, and the key that names the address.
pub(super) struct Place<'a, 'i> {
    pub table: Option<Table>,
    pub address: Option<u16>,
    pub field: Field<'a, 'i>,
}

impl Place<'_, '_> {
    /// Whether the last of so many registers exists.
    pub fn note_end(&self, address: u16, count: u16) -> bool {
        let last = u32::from(address) + u32::from(count) - 1;
        if last > u32::from(u16::MAX) {
            let highest = 0x1_0000 - u32::from(count);
            self.field.fault(
                format!("{count} registers from {address} end beyond address 65535"),
                format!("{highest} is the highest address of this type"),
            );
        }
        last <= u32::from(u16::MAX)
    }
}

pub(super) fn place<'a, 'i>(read: &TableReader<'a, 'i>) -> Option<Place<'a, 'i>> {
    match (read.optional("reference"), read.optional("address")) {
        (Some(reference), Some(_)) => {
            reference.fault_of_key(
                "address and reference both say where the register is",
                "keep address for the zero-based PDU address, or reference for the number in a manual that counts 40001, 40002, …",
            );
            None
        }
        (Some(field), None) => {
            let found = reference_place(&field);
            note_table_beside_reference(read, found);
            let (table, address) = found.unzip();
            Some(Place { table, address, field })
        }
        (None, address) => {
            let table = read.required("table", "\"holding\"").and_then(|field| table(&field));
            if address.is_none() {
                let suggestion = "add address = 100 (zero-based), or reference = 40101 in place of table and address";
                read.missing("address", "address is missing".into(), suggestion.into());
            }
            let field = address?;
            let address = pdu_address(&field);
            Some(Place { table, address, field })
        }
    }
}

fn table(field: &Field<'_, '_>) -> Option<Table> {
    let place = field.one_of(&Table::NAMES)?;
    Table::from_name(Table::NAMES[place])
}

fn pdu_address(field: &Field<'_, '_>) -> Option<u16> {
    if let Some(number) = field.plain_integer()
        && number > i64::from(u16::MAX)
        && let Ok((table, address)) = reference::from_number(number)
    {
        field.fault(
            "an address is 0 to 65535, as the request carries it",
            format!("write reference = {number} in place of table and address if a manual numbers it so ({table} register at address {address})"),
        );
        return None;
    }
    u16::try_from(field.integer("an address", 0..=0xFFFF)?).ok()
}

fn reference_place(field: &Field<'_, '_>) -> Option<(Table, u16)> {
    let found = match (field.plain_integer(), field.plain_text()) {
        (Some(number), _) => reference::from_number(number),
        (_, Some(text)) => reference::from_text(text),
        _ => {
            field.fault("a reference is a number, or a text of five or six digits", "write reference = 40101");
            return None;
        }
    };
    match found {
        Ok(place) => Some(place),
        Err(err) => {
            let suggestion = match err {
                ReferenceError::CountsFromOne => {
                    "the first holding register is 40001; use address for zero-based numbers"
                }
                _ => "use table and address for the zero-based PDU address",
            };
            field.fault(err.to_string(), suggestion);
            None
        }
    }
}

fn note_table_beside_reference(read: &TableReader<'_, '_>, found: Option<(Table, u16)>) {
    let (Some(field), Some((table, address))) = (read.optional("table"), found) else { return };
    let reference = reference_of(table, address);
    let message = match field.plain_text() {
        Some(name) if name != table.name() => {
            format!("reference {reference} is in the table {table}, and this says another")
        }
        _ => format!("reference {reference} names the table {table} already"),
    };
    field.fault(message, "remove table, or write table and address in place of reference");
}

/// The address of a register in the same table as `table`, for what stands beside a value.
pub(super) fn address_beside(beside: &TableReader<'_, '_>, table: Option<Table>) -> Option<u16> {
    match (beside.optional("reference"), beside.optional("address")) {
        (Some(reference), Some(_)) => {
            reference.fault_of_key("address and reference both say where the register is", "keep one of them");
            None
        }
        (None, None) => {
            let suggestion = "add address = 101 (zero-based), or reference = 40102";
            beside.missing("address", "address is missing".into(), suggestion.into());
            None
        }
        (None, Some(field)) => pdu_address(&field),
        (Some(field), None) => {
            let (found, address) = reference_place(&field)?;
            if let Some(table) = table.filter(|table| *table != found) {
                field.fault(
                    format!("this is a register of the table {found}, and the value is in {table}"),
                    "a value and its factor are read in one request, and that has one table",
                );
                return None;
            }
            Some(address)
        }
    }
}
