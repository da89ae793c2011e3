//! fieldgate reads PLCs and sensors over Modbus and offers them to remote agents over MQTT as tools whose answers can be
//! trusted: a value is fresh and good, with the time at which the device answered, or it is a typed error.
//!
//! The folders are the architecture. [`field`] faces the plant, [`gate`] faces the agents, and between them stand modules
//! that know no socket, no clock and no `tokio`: [`ids`], [`quantity`], [`modbus`], [`registry`].
//!
//! A reading: `field::plan` merges registers into one request, `field::link` sends it, [`modbus`] finds the frame, the reply
//! and the numbers, the [`board`] keeps the state, `gate::publisher` publishes what changed. A call: `gate::session` takes it,
//! `gate::dispatch` gives it a deadline, `gate::router` speaks MCP, [`tools`] checks and runs it.

pub mod board;
pub mod cli;
pub mod clock;
pub mod config;
pub mod daemon;
pub mod errors;
pub mod facts;
pub mod field;
pub mod gate;
pub mod ids;
pub mod logging;
pub mod modbus;
pub mod policy;
pub mod quantity;
pub mod registry;
pub mod service;
pub mod sim;
pub mod tools;
