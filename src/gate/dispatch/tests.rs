//! Calls through a bus in memory: what arrives as [`Incoming`], what leaves as [`Outgoing`].

mod bench;
mod conversations;
mod hostile;
mod promises;
mod standard_client;
