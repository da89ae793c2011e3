//! What the numbers of a sensor mean: `enum` and `flags`.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::field::Field;
use super::reader::TableReader;
use crate::modbus::words::DataType;
use crate::quantity::Named;
use crate::registry::rules::Names;

/// The names as far as they could be understood.
#[derive(Debug)]
pub(super) enum Meaning {
    /// The file gives none.
    None,
    /// They are given, and wrong.
    Faulty,
    Given(Names),
}

impl Meaning {
    pub fn is_given(&self) -> bool {
        !matches!(self, Meaning::None)
    }

    /// `None` if they are wrong, and the sensor cannot be built.
    pub fn into_names(self) -> Option<Option<Names>> {
        match self {
            Meaning::None => Some(None),
            Meaning::Faulty => None,
            Meaning::Given(names) => Some(Some(names)),
        }
    }
}

/// Most bytes of the name of a state or a flag.
const LONGEST_NAME: usize = 64;
/// Most states of one sensor; more is a mistake, and a longer list helps no reader.
const MOST_STATES: usize = 256;

pub(super) fn meaning(read: &TableReader<'_, '_>, data_type: Option<DataType>) -> Meaning {
    let found = match (read.optional("enum"), read.optional("flags")) {
        (None, None) => return Meaning::None,
        (Some(_), Some(flags)) => {
            flags.fault_of_key("enum names whole numbers, and flags names their bits", "keep one of them");
            None
        }
        (Some(field), None) => states(&field, data_type),
        (None, Some(field)) => flags(&field, data_type),
    };
    found.map_or(Meaning::Faulty, Meaning::Given)
}

fn states(field: &Field<'_, '_>, data_type: Option<DataType>) -> Option<Names> {
    let entries = entries(field)?;
    let data_type = data_type?;
    let Some((least, most)) = data_type.integer_bounds() else {
        field.fault_of_key(format!("{data_type} is no whole number, and has no states"), "remove enum");
        return None;
    };
    if entries.len() > MOST_STATES {
        field.fault(format!("{MOST_STATES} states are the most"), "keep those that the device's manual names");
        return None;
    }
    let lack = match data_type {
        DataType::Bits { .. } => "these bits hold no".to_owned(),
        _ => format!("{data_type} holds no"),
    };
    let mut names: Vec<_> = each(&entries, least..=most, &lack)?
        .into_iter()
        .map(|(number, name)| Arc::new(Named { number, name: name.into() }))
        .collect();
    names.sort_by_key(|named| named.number);
    Some(Names::Enum(names))
}

fn flags(field: &Field<'_, '_>, data_type: Option<DataType>) -> Option<Names> {
    let entries = entries(field)?;
    let data_type = data_type?;
    let (DataType::U16 | DataType::U32 | DataType::U64) = data_type else {
        let suggestion = "write type = \"u16\", \"u32\" or \"u64\" without bits, or remove flags";
        field.fault_of_key("flags are the bits of a whole unsigned number", suggestion);
        return None;
    };
    let highest = i128::from(data_type.registers()) * 16 - 1;
    let named = each(&entries, 0..=highest, &format!("{data_type} has no bit"))?;
    let mut seen = HashSet::new();
    for ((_, name), entry) in named.iter().zip(&entries) {
        if !seen.insert(name) {
            entry.1.fault("another bit has this name", "give each bit a name of its own");
            return None;
        }
        if name.contains('+') || name.trim() == "none" {
            entry.1.fault("this name would be read as several, or as none of them", "take another one");
            return None;
        }
    }
    let mut names = named
        .into_iter()
        .map(|(bit, name)| Some((u8::try_from(bit).ok()?, name.into())))
        .collect::<Option<Vec<(u8, Arc<str>)>>>()?;
    names.sort_by_key(|(bit, _)| *bit);
    Some(Names::Flags(names))
}

/// A number as it is written, and the name for it.
type Entry<'a, 'i> = (String, Field<'a, 'i>);

/// The entries of `{ 0 = "off", 3 = "on" }`, or of `["off", "on"]`, which counts from 0.
fn entries<'a, 'i>(field: &Field<'a, 'i>) -> Option<Vec<Entry<'a, 'i>>> {
    let entries: Vec<Entry<'a, 'i>> = match field.is_list() {
        true => field.list()?.into_iter().enumerate().map(|(place, name)| (place.to_string(), name)).collect(),
        false => field.entries("{ 0 = \"off\", 1 = \"on\" }")?,
    };
    if entries.is_empty() {
        field.fault("there is no name in it", "write { 0 = \"off\", 1 = \"on\" }");
        return None;
    }
    Some(entries)
}

/// Each number and name; every wrong one is noted.
fn each(entries: &[Entry<'_, '_>], bounds: RangeInclusive<i128>, lack: &str) -> Option<Vec<(i128, String)>> {
    let read: Vec<_> = entries.iter().map(|entry| number(entry, &bounds, lack).zip(name(&entry.1))).collect();
    read.into_iter().collect()
}

fn number((key, field): &Entry<'_, '_>, bounds: &RangeInclusive<i128>, lack: &str) -> Option<i128> {
    let number = key.parse::<i128>().ok().filter(|number| number.to_string() == *key);
    let inside = number.filter(|number| bounds.contains(number));
    if inside.is_none() {
        let (least, most) = (bounds.start(), bounds.end());
        let message = match number {
            Some(_) => format!("{lack} {key}"),
            None => format!("{key} is no whole number, or has leading zeros"),
        };
        field.fault_of_key(message, format!("use {least} to {most}"));
    }
    inside
}

fn name(field: &Field<'_, '_>) -> Option<String> {
    let name = field.prose(LONGEST_NAME)?;
    if name.is_empty() || name.contains(char::is_control) {
        field.fault("a name is a text in one line", "write the word of the device's manual");
        return None;
    }
    Some(name)
}
