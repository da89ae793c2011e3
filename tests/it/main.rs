//! The program as others meet it: over MQTT, on the command line, beside programs that we did not write. One file holds one
//! promise; what each test covers stands above it, by the rows of the requirements.

mod architecture;
mod bad_input;
mod broker_away;
mod calls;
mod cli;
// The demo brings a broker of its own.
#[cfg(feature = "embedded-broker")]
mod demo;
mod faults;
mod foreign_converter;
mod foreign_rtu;
mod foreign_tcp;
mod fuzzing;
mod mcp_client;
mod metrics;
mod mqtt311;
mod support;
mod truth;
