//! The agents' side: topics and wire shapes, the broker, and calls.

pub mod bus;
pub mod dispatch;
pub mod duplicates;
pub mod jsonrpc;
pub mod reply;
pub mod router;
pub mod topics;
pub mod wire;

#[cfg(test)]
mod testing;
