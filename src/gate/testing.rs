//! A small plant for the tests of this side.

use std::time::Duration;

use crate::modbus::Table;
use crate::modbus::words::{DataType, Encoding, WordOrder};
use crate::quantity::Scaling;
use crate::registry::sensor::{Endpoint, ReadSpec};
use crate::registry::{Device, Link, Registry, Sensor};

/// One link, one device `press-plc`, two sensors `A_LINE1_042` and `A_LINE1_043`.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    let link = Link {
        id: "press-tcp".parse().expect("a name"),
        endpoint: Endpoint::Tcp { host: "127.0.0.1".into(), port: 502 },
        timeout: Duration::from_secs(1),
        request_gap: Duration::ZERO,
        connect_delay: Duration::ZERO,
        retry_max: Duration::from_secs(30),
        devices: Vec::new(),
    };
    let link = registry.add_link(link).expect("a new name");
    let device = Device {
        id: "press-plc".parse().expect("a name"),
        name: String::new(),
        link,
        unit: 1,
        poll_every: Duration::from_secs(1),
        max_registers: 125,
        read_across_gaps: true,
        sensors: Vec::new(),
    };
    let device = registry.add_device(device).expect("a new name");
    for (id, address) in [("A_LINE1_042", 100), ("A_LINE1_043", 102)] {
        let sensor = Sensor {
            id: id.parse().expect("a name"),
            name: String::new(),
            description: String::new(),
            device,
            read: ReadSpec {
                table: Table::Holding,
                address,
                encoding: Encoding { data_type: DataType::F32, order: WordOrder::Abcd },
                scaling: Scaling::NONE,
            },
            unit: "°C".parse().expect("a unit"),
            range: None,
            no_value: Vec::new(),
            max_age: Duration::from_secs(3),
        };
        registry.add_sensor(sensor).expect("a new name");
    }
    registry
}
