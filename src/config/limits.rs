//! What one read of a device may ask for.

use super::field::Field;
use super::keys;
use super::reader::TableReader;
use crate::modbus::Table;
use crate::registry::sensor::{Forbidden, ReadLimits, ReadSpec};

pub(super) fn read_limits(device: &TableReader<'_, '_>) -> Option<ReadLimits> {
    let standard = ReadLimits::default();
    let most = |key, what, most: u16| match device.optional(key) {
        Some(field) => u16::try_from(field.integer(what, 1..=i64::from(most))?).ok(),
        None => Some(most),
    };
    let max_registers =
        most("max_registers", "the most registers that Modbus lets one read ask for", standard.max_registers);
    let max_bits = most("max_bits", "the most bits that Modbus lets one read ask for", standard.max_bits);
    let yes_unless_said = |key| device.optional(key).map_or(Some(true), |field| field.boolean());
    let (read_across_gaps, merge) = (yes_unless_said("read_across_gaps"), yes_unless_said("merge"));
    let tables = device.tables("forbidden", &keys::FORBIDDEN);
    let forbidden: Vec<Option<Forbidden>> = tables.iter().map(forbidden).collect();
    Some(ReadLimits {
        max_registers: max_registers?,
        max_bits: max_bits?,
        read_across_gaps: read_across_gaps?,
        merge: merge?,
        forbidden: forbidden.into_iter().collect::<Option<_>>()?,
    })
}

fn forbidden(range: &TableReader<'_, '_>) -> Option<Forbidden> {
    let table = range.required("table", "\"holding\"").and_then(|field| field.one_of(&Table::NAMES));
    let first = range.required("first", "110").and_then(|field| address(&field));
    let last = range.optional("last");
    let last_or_first = last.as_ref().map_or(first, address);
    let (table, first, last_or_first) = (Table::ALL[table?], first?, last_or_first?);
    if let Some(last) = last.filter(|_| last_or_first < first) {
        last.fault(
            "the last register comes before the first",
            format!("write first = {last_or_first}, last = {first}"),
        );
        return None;
    }
    Some(Forbidden { table, first, last: last_or_first })
}

fn address(field: &Field<'_, '_>) -> Option<u16> {
    u16::try_from(field.integer("an address", 0..=65_535)?).ok()
}

/// Whether a sensor's registers may be read, and at once.
pub(super) fn fits_one_read(field: &Field<'_, '_>, spec: &ReadSpec, limits: Option<&ReadLimits>) -> bool {
    let Some(limits) = limits else { return true };
    let (count, most) = (spec.count(), limits.max_registers);
    if !spec.table.is_bits() && count > most {
        field.fault_of_key(
            match spec.factor {
                None => format!("this value has {count} registers, and the device gives {most} at once"),
                Some(_) => {
                    format!("this value and its factor take {count} registers, and the device gives {most} at once")
                }
            },
            format!("raise max_registers of the device to {count}, if it can do that"),
        );
        return false;
    }
    let last = u32::from(spec.address) + u32::from(count) - 1;
    let touches =
        |range: &&Forbidden| range.table == spec.table && u32::from(range.first) <= last && spec.address <= range.last;
    if let Some(range) = limits.forbidden.iter().find(touches) {
        field.fault_of_key(
            format!("the device forbids the registers {} to {} of {}", range.first, range.last, range.table),
            "remove the sensor, or narrow the range in forbidden",
        );
        return false;
    }
    true
}
