//! Objects told member by member, once, and written in two ways: as JSON text at once, or through serde.
//!
//! A gateway writes a thousand readings a second. serde_json hands over each quotation mark by itself and looks at each
//! byte of texts that are known to need no escape, which costs four times as much as [`Text`] does.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::clock::Rfc3339;
use crate::quantity::Value as Number;

/// What a member of an object can be.
#[derive(Clone, Copy, Debug)]
pub enum Member<'a> {
    /// `null`.
    Null,
    /// A text in which nothing has to be escaped: a name, a word of ours.
    Plain(&'a str),
    /// Any other text.
    Text(&'a str),
    /// A number of things or milliseconds.
    Count(u64),
    /// The value of a sensor.
    Number(&'a Number),
    /// A moment.
    Time(Rfc3339),
    /// Registers as they came: `["0x423D","0x3333"]`.
    Words(&'a [u16]),
}

impl<'a> Member<'a> {
    /// The member that something is, or null where there is nothing.
    pub fn or_null<T>(something: Option<T>, member: impl FnOnce(T) -> Member<'a>) -> Member<'a> {
        something.map_or(Member::Null, member)
    }
}

impl Serialize for Member<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Member::Null => serializer.serialize_none(),
            Member::Plain(text) | Member::Text(text) => serializer.serialize_str(text),
            Member::Count(count) => serializer.serialize_u64(*count),
            Member::Number(number) => number.serialize(serializer),
            Member::Time(time) => time.serialize(serializer),
            Member::Words(words) => serializer.collect_seq(words.iter().map(|word| format!("0x{word:04X}"))),
        }
    }
}

/// Something that takes the members of an object one by one.
pub trait Members {
    /// Why a member cannot be taken.
    type Error;

    /// Takes a member. `key` is its name with quotation marks and colon, so that nobody has to put them together.
    fn put(&mut self, name: &'static str, key: &'static str, member: Member<'_>) -> Result<(), Self::Error>;

    /// Takes a member that is an object itself, or null.
    fn put_object(&mut self, name: &'static str, key: &'static str, it: Option<&impl Shape>)
    -> Result<(), Self::Error>;
}

/// Something that is told as an object.
pub trait Shape {
    /// Tells all members, in their order.
    fn tell<M: Members>(&self, to: &mut M) -> Result<(), M::Error>;
}

/// Takes a member under a name, whose key is put together at compile time.
macro_rules! member {
    ($to:expr, $name:literal, $member:expr) => {
        $to.put($name, concat!("\"", $name, "\":"), $member)?
    };
}
pub(super) use member;

/// A shape for serde.
#[derive(Debug)]
pub struct Told<'a, T>(pub &'a T);

impl<T: Shape> Serialize for Told<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = ByName(serializer.serialize_map(None)?);
        self.0.tell(&mut map)?;
        map.0.end()
    }
}

struct ByName<M>(M);

impl<M: SerializeMap> Members for ByName<M> {
    type Error = M::Error;

    fn put(&mut self, name: &'static str, _key: &'static str, member: Member<'_>) -> Result<(), M::Error> {
        self.0.serialize_entry(name, &member)
    }

    fn put_object(&mut self, name: &'static str, _key: &'static str, it: Option<&impl Shape>) -> Result<(), M::Error> {
        self.0.serialize_entry(name, &it.map(Told))
    }
}

/// Writes a shape as JSON text, behind what is there already.
pub fn write(shape: &impl Shape, text: &mut Vec<u8>) {
    text.push(b'{');
    let Ok(()) = shape.tell(&mut Text(text));
    // Every member leaves a comma behind it, and the last one's is the end.
    match text.last_mut() {
        Some(comma) if *comma == b',' => *comma = b'}',
        _ => text.push(b'}'),
    }
}

struct Text<'a>(&'a mut Vec<u8>);

impl Members for Text<'_> {
    type Error = std::convert::Infallible;

    // Inlined: each member is of a known kind where it is told, and nothing of the match is left.
    #[inline(always)]
    fn put(&mut self, _name: &'static str, key: &'static str, member: Member<'_>) -> Result<(), Self::Error> {
        self.0.extend_from_slice(key.as_bytes());
        match member {
            Member::Null => self.0.extend_from_slice(b"null"),
            Member::Plain(text) => self.quoted(text),
            Member::Text(text) if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') => {
                self.quoted(text);
            }
            Member::Count(count) => self.digits(count),
            Member::Number(Number::Integer(number)) if number.unsigned_abs() <= 1 << 53 => {
                if *number < 0 {
                    self.0.push(b'-');
                }
                self.digits(number.unsigned_abs() as u64);
            }
            Member::Time(time) => self.quoted(time.as_str()),
            Member::Words(words) => self.words(words),
            // Texts and numbers into memory: it cannot fail.
            other => drop(serde_json::to_writer(&mut *self.0, &other)),
        }
        self.0.push(b',');
        Ok(())
    }

    fn put_object(
        &mut self,
        _name: &'static str,
        key: &'static str,
        it: Option<&impl Shape>,
    ) -> Result<(), Self::Error> {
        self.0.extend_from_slice(key.as_bytes());
        match it {
            Some(shape) => write(shape, self.0),
            None => self.0.extend_from_slice(b"null"),
        }
        self.0.push(b',');
        Ok(())
    }
}

impl Text<'_> {
    fn quoted(&mut self, text: &str) {
        self.0.push(b'"');
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(b'"');
    }

    fn digits(&mut self, number: u64) {
        let mut digits = [b'0'; 20];
        let mut first = digits.len();
        let mut rest = number;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
            first -= 1;
            if rest == 0 {
                break;
            }
        }
        self.0.extend_from_slice(&digits[first..]);
    }

    fn words(&mut self, words: &[u16]) {
        self.0.push(b'[');
        for (place, word) in words.iter().enumerate() {
            if place > 0 {
                self.0.push(b',');
            }
            let mut text = *b"\"0x0000\"";
            for (place, digit) in text[3..7].iter_mut().enumerate() {
                *digit = b"0123456789ABCDEF"[usize::from(*word >> (12 - 4 * place) & 0xF)];
            }
            self.0.extend_from_slice(&text);
        }
        self.0.push(b']');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::Finite;
    use proptest::prelude::*;

    struct Both<'a>(Vec<Member<'a>>);

    impl Shape for Both<'_> {
        fn tell<M: Members>(&self, to: &mut M) -> Result<(), M::Error> {
            for one in &self.0 {
                member!(to, "m", *one);
            }
            to.put_object("none", "\"none\":", None::<&Both<'_>>)
        }
    }

    fn check(members: Vec<Member<'_>>) {
        let shape = Both(members);
        let mut text = Vec::new();
        write(&shape, &mut text);
        assert_eq!(String::from_utf8(text).expect("text"), serde_json::to_string(&Told(&shape)).expect("JSON"));
    }

    proptest! {
        #[test]
        fn both_ways_write_the_same(
            count: u64, number: i128, float: f64, text: String, words in prop::collection::vec(any::<u16>(), 0..6),
        ) {
            let float = Number::Float(Finite::new(float).unwrap_or(Finite::new(0.5).expect("finite")));
            let (large, small) = (Number::Integer(number), Number::Integer(number >> 74));
            let (string, plain) = (Number::Text(text.as_str().into()), "plain");
            check(vec![
                Member::Null, Member::Plain(plain), Member::Text(&text), Member::Count(count), Member::Number(&large),
                Member::Number(&small), Member::Number(&float), Member::Number(&string), Member::Words(&words),
                Member::Time(Rfc3339::of(std::time::SystemTime::UNIX_EPOCH)),
            ]);
        }
    }

    #[test]
    fn the_ends_of_the_numbers_are_written_whole() {
        for number in [0, 1, -1, 9, 10, 1 << 53, -(1 << 53), (1 << 53) + 1, i128::from(u64::MAX)] {
            check(vec![Member::Number(&Number::Integer(number))]);
        }
        check(vec![Member::Count(0), Member::Count(u64::MAX)]);
        check(vec![]);
    }
}
