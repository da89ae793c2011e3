//! The agents' side: topics and wire shapes, the broker, and calls.

pub mod agent;
pub mod broker;
pub mod bus;
pub mod connect;
pub mod publisher;
pub mod rights;
pub mod session;
pub mod topics;
pub mod wire;

#[cfg(test)]
mod testing;
