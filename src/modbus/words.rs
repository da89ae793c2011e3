//! Registers as numbers, and numbers as registers.

use crate::quantity::Value;

/// What a sensor's registers hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataType {
    /// A coil, a discrete input, or (in a register) the bit of this number, 0 the least significant.
    Bool {
        /// 0 to 15; 0 for coils and discrete inputs.
        bit: u8,
    },
    /// One register, unsigned.
    U16,
    /// One register, two's complement.
    I16,
    /// Two registers, unsigned.
    U32,
    /// Two registers, two's complement.
    I32,
    /// Four registers, unsigned.
    U64,
    /// Four registers, two's complement.
    I64,
    /// Two registers, IEEE 754 single.
    F32,
    /// Four registers, IEEE 754 double.
    F64,
    /// Two characters in each register.
    Text {
        /// 1 to 125.
        registers: u8,
    },
}

/// The order in which the bytes of a number come, most significant `A`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WordOrder {
    /// Big-endian, as the standard has it. For 64 bits `ABCDEFGH`.
    #[default]
    Abcd,
    /// The words from the least significant, bytes in order. For 64 bits `GHEFCDAB`.
    Cdab,
    /// The words in order, the bytes of each swapped. For 64 bits `BADCFEHG`.
    Badc,
    /// Little-endian. For 64 bits `HGFEDCBA`.
    Dcba,
}

/// A type and an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Encoding {
    /// What the registers hold.
    pub data_type: DataType,
    /// In which order.
    pub order: WordOrder,
}

/// The registers hold no value of their type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// NaN or infinity.
    #[error("the registers hold no finite number")]
    NotFinite,
    /// Bytes that are no text.
    #[error("the registers hold no text")]
    NotText,
    /// Another number of registers than the type has; a fault of the caller.
    #[error("the type has another number of registers")]
    WrongCount,
}

/// A device's code for "no value": the bits of the whole value, most significant first, as wide as the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoValueCode(pub u64);

impl Encoding {
    /// How many registers the type has.
    pub fn registers(&self) -> u16 {
        match self.data_type {
            DataType::Bool { .. } | DataType::U16 | DataType::I16 => 1,
            DataType::U32 | DataType::I32 | DataType::F32 => 2,
            DataType::U64 | DataType::I64 | DataType::F64 => 4,
            DataType::Text { registers } => u16::from(registers),
        }
    }

    /// The number that the registers hold, unscaled.
    pub fn decode(&self, words: &[u16]) -> Result<Value, DecodeError> {
        let _ = words;
        unimplemented!()
    }

    /// Whether the registers hold this code.
    pub fn holds(&self, words: &[u16], code: NoValueCode) -> bool {
        let _ = (words, code);
        unimplemented!()
    }
}
