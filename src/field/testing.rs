//! Registries for the tests of this folder.

use std::time::Duration;

use crate::modbus::Table;
use crate::modbus::words::{DataType, Encoding, WordOrder};
use crate::quantity::{Scaling, Unit};
use crate::registry::heartbeat::Heartbeat;
use crate::registry::rules::Rules;
use crate::registry::sensor::{Device, Endpoint, Link, Parity, ReadLimits, ReadSpec, Sensor, SerialSettings};
use crate::registry::{LinkIndex, Registry};

/// How many registers a test sensor has: 1, 2 or 4.
pub fn word(registers: u8) -> u8 {
    registers
}

/// A link with devices for a test; each sensor is an unsigned number in holding registers.
pub struct Plan {
    endpoint: Endpoint,
    devices: Vec<Vec<(u16, u8)>>,
    limits: ReadLimits,
    heartbeat: Option<Heartbeat>,
    request_gap: Duration,
    connect_delay: Duration,
}

impl Plan {
    pub fn tcp(sensors: &[(u16, u8)]) -> Plan {
        let endpoint = Endpoint::Tcp { host: "127.0.0.1".to_owned(), port: 502 };
        Plan {
            endpoint,
            devices: vec![sensors.to_vec()],
            limits: ReadLimits::default(),
            heartbeat: None,
            request_gap: Duration::ZERO,
            connect_delay: Duration::ZERO,
        }
    }

    pub fn serial(sensors: &[(u16, u8)]) -> Plan {
        let endpoint = Endpoint::Serial(SerialSettings {
            path: "/dev/null".to_owned(),
            baud: 19_200,
            parity: Parity::Even,
            data_bits: 8,
            stop_bits: 1,
            local_echo: false,
            short_silence: false,
        });
        Plan { endpoint, ..Plan::tcp(sensors) }
    }

    /// The same on a line behind a converter.
    pub fn rtu_over_tcp(sensors: &[(u16, u8)]) -> Plan {
        let plan = Plan::serial(sensors);
        let Endpoint::Serial(line) = plan.endpoint else { return plan };
        Plan { endpoint: Endpoint::RtuOverTcp { host: "127.0.0.1".to_owned(), port: 4001, line }, ..plan }
    }

    pub fn and_device(mut self, sensors: &[(u16, u8)]) -> Plan {
        self.devices.push(sensors.to_vec());
        self
    }

    pub fn limit(self, max_registers: u16) -> Plan {
        self.with(|limits| limits.max_registers = max_registers)
    }

    pub fn without_gaps(self) -> Plan {
        self.with(|limits| limits.read_across_gaps = false)
    }

    /// The same with a heartbeat of every device.
    pub fn with_heartbeat(self, heartbeat: Heartbeat) -> Plan {
        Plan { heartbeat: Some(heartbeat), ..self }
    }

    /// The same with a pause after each answer.
    pub fn with_gap(self, request_gap: Duration) -> Plan {
        Plan { request_gap, ..self }
    }

    /// The same with a pause after each connect.
    pub fn with_connect_delay(self, connect_delay: Duration) -> Plan {
        Plan { connect_delay, ..self }
    }

    /// The same with other limits of every device.
    pub fn with(mut self, change: impl FnOnce(&mut ReadLimits)) -> Plan {
        change(&mut self.limits);
        self
    }

    /// The registry: devices `D0`, `D1`, … with units 1, 2, …, and sensors `S0`, `S1`, …
    pub fn registry(&self) -> Registry {
        let mut registry = Registry::default();
        let link = registry.add_link(Link {
            id: "L".parse().expect("a name"),
            endpoint: self.endpoint.clone(),
            timeout: Duration::from_millis(300),
            request_gap: self.request_gap,
            connect_delay: self.connect_delay,
            retry_max: Duration::from_secs(30),
            devices: Vec::new(),
        });
        let link: LinkIndex = link.expect("a new name");
        let mut number = 0;
        for (place, sensors) in self.devices.iter().enumerate() {
            let device = registry
                .add_device(Device {
                    id: format!("D{place}").parse().expect("a name"),
                    name: String::new(),
                    link,
                    unit: place as u8 + 1,
                    poll_every: Duration::from_secs(1),
                    limits: self.limits.clone(),
                    heartbeat: self.heartbeat,
                    identify: false,
                    sensors: Vec::new(),
                })
                .expect("a new name");
            for (address, registers) in sensors {
                let data_type = match registers {
                    1 => DataType::U16,
                    2 => DataType::U32,
                    _ => DataType::U64,
                };
                let encoding = Encoding { data_type, order: WordOrder::Abcd };
                let read = ReadSpec {
                    table: Table::Holding,
                    address: *address,
                    encoding,
                    scaling: Scaling::NONE,
                    factor: None,
                };
                registry
                    .add_sensor(Sensor {
                        id: format!("S{number}").parse().expect("a name"),
                        name: String::new(),
                        description: String::new(),
                        device,
                        read,
                        unit: Unit::default(),
                        range: None,
                        rules: Rules::default(),
                        no_value: Vec::new(),
                        max_age: Duration::from_secs(3),
                    })
                    .expect("a new name");
                number += 1;
            }
        }
        registry
    }
}
