//! What a sensor's value must be beyond its type, and what its numbers are called.

use std::sync::Arc;

use rust_decimal::Decimal;

use crate::quantity::{Flags, Named, Range, Value};

/// What the plant knows of a value. The default knows nothing, and lets everything pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// What can be at all. Anything else is no value, where outside of the engineering range it is an uncertain one.
    pub valid: Option<Range>,
    /// The fastest that it moves, in units per second.
    pub max_rate: Option<Decimal>,
    /// It is published again only after it has moved by more than this.
    pub dead_band: Option<Decimal>,
    /// What its numbers mean.
    pub names: Option<Names>,
}

/// What the numbers of a sensor mean.
#[derive(Clone, Debug, PartialEq)]
pub enum Names {
    /// Each number has a name of its own; sorted by number.
    Enum(Vec<Arc<Named>>),
    /// Each bit has a name of its own; sorted by bit.
    Flags(Vec<(u8, Arc<str>)>),
}

impl Names {
    /// The value with its name, and whether it has one.
    ///
    /// A number that has none stays a number, so that nothing is lost, and is called unknown, so that nobody takes it for
    /// something else. A set bit without a name appears as `bit_7`: reserved bits are no reason to doubt the others.
    pub fn name(&self, value: Value) -> (Value, bool) {
        let Value::Integer(number) = value else { return (value, true) };
        match self {
            Names::Enum(names) => match names.binary_search_by_key(&number, |named| named.number) {
                Ok(place) => (Value::Named(Arc::clone(&names[place])), true),
                Err(_) => (value, false),
            },
            Names::Flags(names) => match u64::try_from(number) {
                Ok(bits) => (Value::Flags(Box::new(Flags { bits, names: set_bits(names, bits) })), true),
                Err(_) => (value, false),
            },
        }
    }

    /// The number that a name stands for; for flags, of several names with `+` between them, or `none`.
    pub fn number_of(&self, text: &str) -> Option<i128> {
        match self {
            Names::Enum(names) => names.iter().find(|named| named.name.as_ref() == text).map(|named| named.number),
            Names::Flags(_) if text == "none" => Some(0),
            Names::Flags(names) => {
                let mut parts = text.split('+').map(str::trim);
                parts.try_fold(0, |bits, part| {
                    let (bit, _) = names.iter().find(|(_, name)| name.as_ref() == part)?;
                    Some(bits | 1_i128 << bit)
                })
            }
        }
    }
}

fn set_bits(names: &[(u8, Arc<str>)], bits: u64) -> Vec<Arc<str>> {
    let set = (0..64_u8).filter(|bit| bits >> bit & 1 == 1);
    let named = set.map(|bit| match names.binary_search_by_key(&bit, |(bit, _)| *bit) {
        Ok(place) => Arc::clone(&names[place].1),
        Err(_) => format!("bit_{bit}").into(),
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modes() -> Names {
        let named = |number: i128, name: &str| Arc::new(Named { number, name: name.into() });
        Names::Enum(vec![named(-1, "fault"), named(0, "off"), named(3, "heating")])
    }

    fn alarms() -> Names {
        Names::Flags(vec![(0, "ready".into()), (3, "fault".into())])
    }

    fn check(names: &Names, number: i128, json: serde_json::Value, known: bool) {
        let (value, is_known) = names.name(Value::Integer(number));
        assert_eq!((value.to_json(), is_known), (json, known));
        assert_eq!(value.number(), Some(Value::Integer(number)), "the number stands beside the name");
    }

    #[test]
    fn a_number_with_a_name_is_that_name_and_one_without_stays_a_number() {
        check(&modes(), -1, "fault".into(), true);
        check(&modes(), 3, "heating".into(), true);
        check(&modes(), 4, 4.into(), false);
    }

    #[test]
    fn flags_are_the_names_of_the_set_bits_and_none_of_them_is_lost() {
        check(&alarms(), 0, serde_json::json!([]), true);
        check(&alarms(), 0b1001, serde_json::json!(["ready", "fault"]), true);
        check(&alarms(), 0b1_1000, serde_json::json!(["fault", "bit_4"]), true);
    }

    #[test]
    fn a_name_goes_back_to_its_number() {
        assert_eq!(modes().number_of("heating"), Some(3));
        assert_eq!(modes().number_of("Heating"), None);
        assert_eq!(alarms().number_of("ready + fault"), Some(0b1001));
        assert_eq!(alarms().number_of("none"), Some(0));
        assert_eq!(alarms().number_of("ready+smoke"), None);
    }
}
