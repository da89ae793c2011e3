//! The names of things: gateway, link, device, sensor, caller.
//!
//! Each name is one level of an MQTT topic (contract, section 2), so its alphabet is `[A-Za-z0-9_.-]` and it never starts
//! with `$`. The kinds are types of their own, so that a device is never looked up by a link's name. All have a fixed
//! capacity: a name costs no allocation, and the memory of a registry is a function of its configuration.

use std::fmt;
use std::str::FromStr;

/// The longest name, in bytes. Long enough for `PLANT_ZONE_NNN` with room for plants that spell things out.
pub const NAME_CAPACITY: usize = 48;

/// Why a text is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing was given.
    #[error("a name is empty")]
    Empty,
    /// Longer than [`NAME_CAPACITY`] bytes.
    #[error("a name is {length} bytes long, and {NAME_CAPACITY} are the most")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// Outside of the alphabet of a topic level.
    #[error("{found:?} may not stand in a name; letters, digits, `_`, `.` and `-` may")]
    BadCharacter {
        /// The first character that does not belong.
        found: char,
    },
}

fn check_name(text: &str) -> Result<heapless::String<NAME_CAPACITY>, NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if let Some(found) = text.chars().find(|c| !allowed(*c)) {
        return Err(NameError::BadCharacter { found });
    }
    heapless::String::try_from(text).map_err(|_| NameError::TooLong { length: text.len() })
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(heapless::String<NAME_CAPACITY>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                check_name(text).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self.as_str(), f)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
    };
}

name_type!(
    /// The name of this gateway: `gw-line1`.
    GatewayId
);
name_type!(
    /// The name of a link, which is one TCP endpoint or one serial line: `press-tcp`.
    LinkId
);
name_type!(
    /// The name of a device, which is one unit id on a link: `press-plc`.
    DeviceId
);
name_type!(
    /// The name of a sensor; its form is the plant's (`sensors.id_format`): `A_LINE1_042`.
    SensorId
);
name_type!(
    /// The name of a caller: the `{client}` level of its request topic, and nothing that a payload says.
    ClientId
);

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<(), NameError>) {
        assert_eq!(text.parse::<SensorId>().map(drop), expected, "{text:?}");
    }

    #[test]
    fn a_name_is_one_topic_level() {
        check("A_LINE1_042", Ok(()));
        check("a.b-c", Ok(()));
        check("", Err(NameError::Empty));
        check("$SYS", Err(NameError::BadCharacter { found: '$' }));
        check("a/b", Err(NameError::BadCharacter { found: '/' }));
        check("a+", Err(NameError::BadCharacter { found: '+' }));
        check("Öl", Err(NameError::BadCharacter { found: 'Ö' }));
        check(&"x".repeat(49), Err(NameError::TooLong { length: 49 }));
    }
}
