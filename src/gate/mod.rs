//! The agents' side: topics and wire shapes, the broker, and calls.

pub mod bus;
pub mod topics;
pub mod wire;

#[cfg(test)]
mod testing;
