//! The agents' side: topics and wire shapes, the broker, and calls.

pub mod bus;
pub mod topics;
