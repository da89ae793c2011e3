//! fieldgate reads PLCs and sensors over Modbus and offers them to remote agents over MQTT as tools whose answers can be
//! trusted: a value is fresh and good, with the time at which the device answered, or it is a typed error.
//!
//! The folders are the architecture. [`field`] faces the plant, [`gate`] faces the agents, and between them stand modules
//! that know no socket, no clock and no `tokio`: [`ids`], [`quantity`], [`modbus`], [`registry`].
//!
//! A reading: `field::plan` merges registers into one request, `field::link` sends it, [`modbus`] finds the frame, the reply
//! and the numbers, the [`board`] keeps the state, `gate::publisher` publishes what changed. A call: `gate::session` takes it,
//! `gate::dispatch` gives it a deadline, `gate::router` speaks MCP, [`tools`] checks and runs it.
//!
//! A configuration says everything that the gateway knows, and cannot be wrong once it is parsed:
//!
//! ```
//! use fieldgate::config::Config;
//!
//! let text = r#"
//!     [gateway]
//!     id = "gw-line1"
//!     [broker]
//!     url = "mqtt://10.0.0.2:1883"
//!     [[link]]
//!     id = "press-tcp"
//!     tcp = "10.0.0.5:502"
//!     [[device]]
//!     id = "press-plc"
//!     link = "press-tcp"
//!     unit = 1
//!     [[device.sensor]]
//!     id = "A_LINE1_042"
//!     read = { table = "holding", address = 100, type = "f32" }
//! "#;
//! let config = Config::parse(text, "fieldgate.toml").expect("no faults").config;
//! assert!(config.registry.find_sensor("A_LINE1_042").is_some());
//!
//! let faults = Config::parse(&text.replace("unit", "untt"), "fieldgate.toml").expect_err("a fault");
//! assert!(faults.to_string().contains("unit"));
//! ```

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
pub mod memory;
pub mod metrics;
pub mod modbus;
pub mod policy;
pub mod progress;
pub mod quantity;
pub mod registry;
pub mod service;
pub mod sim;
pub mod tools;
