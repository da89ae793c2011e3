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
pub mod toolbox;
pub mod topics;
pub mod wire;

#[cfg(test)]
mod testing;
