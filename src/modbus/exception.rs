//! Exception answers (Modbus Application Protocol V1.1b3, section 7).

use std::fmt;

/// The code of an exception answer. Unknown codes are kept as they came.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExceptionCode(pub u8);

impl ExceptionCode {
    /// 1: the device does not know the function.
    pub const ILLEGAL_FUNCTION: ExceptionCode = ExceptionCode(1);
    /// 2: the device does not have the address.
    pub const ILLEGAL_DATA_ADDRESS: ExceptionCode = ExceptionCode(2);
    /// 3: the device does not take such a count or value.
    pub const ILLEGAL_DATA_VALUE: ExceptionCode = ExceptionCode(3);
    /// 4: the device failed while it tried.
    pub const SERVER_DEVICE_FAILURE: ExceptionCode = ExceptionCode(4);
    /// 5: accepted, but it takes long.
    pub const ACKNOWLEDGE: ExceptionCode = ExceptionCode(5);
    /// 6: busy with something long.
    pub const SERVER_DEVICE_BUSY: ExceptionCode = ExceptionCode(6);
    /// 8: a parity error in the device's memory.
    pub const MEMORY_PARITY_ERROR: ExceptionCode = ExceptionCode(8);
    /// 10: a gateway has no path to the unit.
    pub const GATEWAY_PATH_UNAVAILABLE: ExceptionCode = ExceptionCode(10);
    /// 11: the unit behind a gateway does not answer.
    pub const GATEWAY_TARGET_SILENT: ExceptionCode = ExceptionCode(11);

    /// What the standard calls it, in lower case.
    pub fn name(self) -> &'static str {
        match self.0 {
            1 => "illegal function",
            2 => "illegal data address",
            3 => "illegal data value",
            4 => "server device failure",
            5 => "acknowledge",
            6 => "server device busy",
            8 => "memory parity error",
            10 => "gateway path unavailable",
            11 => "gateway target device failed to respond",
            _ => "unknown exception",
        }
    }
}

impl fmt::Display for ExceptionCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exception {} ({})", self.0, self.name())
    }
}

impl fmt::Debug for ExceptionCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
