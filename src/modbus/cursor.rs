//! Bytes read from the front by a cursor that can say no, so that no input can make a reader panic.

/// What is left of some bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor(bytes)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next 16 bits, the high byte first, as every header field of Modbus is.
    pub fn word(&mut self) -> Option<u16> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_be_bytes(*word))
    }

    /// All that is left.
    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    /// The value, if nothing is left after it.
    pub fn at_end<T>(self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}
