//! The agents' side: topics and wire shapes, the broker, and calls.

pub mod agent;
pub mod broker;
pub mod bus;
pub mod connect;
pub mod dispatch;
pub mod duplicates;
pub mod jsonrpc;
pub mod publisher;
pub mod reply;
pub mod rights;
pub mod router;
pub mod session;
mod socket;
pub mod topics;
pub mod wire;

#[cfg(all(test, feature = "embedded-broker"))]
mod broker_tests;
#[cfg(all(test, feature = "embedded-broker"))]
mod session_tests;
#[cfg(test)]
#[cfg_attr(not(feature = "embedded-broker"), allow(dead_code))]
mod testing;
