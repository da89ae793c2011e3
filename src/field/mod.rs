//! The plant side: one task per link, each the owner of its socket or port, its schedule and its only retry loop.
//!
//! Nothing here waits for the broker or for an agent. [`plan`] decides what to ask together, [`link`] asks it, and
//! everyone else has a [`handle`].

#[cfg(test)]
mod bench;
pub mod cost;
mod fine_timer;
pub mod handle;
pub mod health;
pub mod learnt;
pub mod line;
pub mod link;
#[cfg(test)]
mod link_limits_tests;
#[cfg(test)]
mod link_tests;
pub mod load;
mod outcome;
pub mod plan;
pub mod schedule;
pub mod search;
#[cfg(test)]
pub(crate) mod testing;
pub mod transport;
