//! A small plant for tests: a TCP link with two units, a serial line with two, and every kind of register.

use std::sync::Arc;
use std::time::Duration;

use crate::modbus::Table;
use crate::modbus::words::{DataType, Encoding, NoValueCode, WordOrder};
use crate::quantity::{Range, Scaling, Unit};
use crate::registry::rules::Rules;
use crate::registry::sensor::{Endpoint, Parity, ReadLimits, ReadSpec, SerialSettings};
use crate::registry::{Device, DeviceIndex, Link, LinkIndex, Registry, Sensor};

/// A sensor in holding register 100.
pub(crate) fn sensor(id: &str, data_type: DataType, order: WordOrder) -> Sensor {
    Sensor {
        id: id.parse().unwrap(),
        name: String::new(),
        description: String::new(),
        device: DeviceIndex(0),
        read: ReadSpec {
            table: Table::Holding,
            address: 100,
            encoding: Encoding { data_type, order },
            scaling: Scaling::NONE,
            factor: None,
        },
        unit: Unit::default(),
        range: None,
        rules: Rules::default(),
        no_value: Vec::new(),
        max_age: Duration::from_secs(3),
    }
}

/// Adds a sensor of a device at an address.
fn add(registry: &mut Registry, device: DeviceIndex, table: Table, address: u16, mut sensor: Sensor) {
    sensor.device = device;
    sensor.read.table = table;
    sensor.read.address = address;
    registry.add_sensor(sensor).unwrap();
}

fn link(id: &str, endpoint: Endpoint) -> Link {
    Link {
        id: id.parse().unwrap(),
        endpoint,
        timeout: Duration::from_secs(1),
        request_gap: Duration::ZERO,
        connect_delay: Duration::ZERO,
        retry_max: Duration::from_secs(30),
        devices: Vec::new(),
    }
}

fn device(id: &str, link: LinkIndex, unit: u8) -> Device {
    Device {
        id: id.parse().unwrap(),
        name: String::new(),
        link,
        unit,
        poll_every: Duration::from_secs(1),
        limits: ReadLimits::default(),
        heartbeat: None,
        identify: false,
        sensors: Vec::new(),
    }
}

/// `press-plc` and `oven-plc` are units 1 and 2 of `press-tcp`; `pump-a` and `pump-b` are units 3 and 4 of `rs485-a`.
pub(crate) fn registry() -> Arc<Registry> {
    let mut registry = Registry::default();
    let tcp = Endpoint::Tcp { host: "127.0.0.1".into(), port: 0 };
    let tcp = registry.add_link(link("press-tcp", tcp)).unwrap();
    let serial = Endpoint::Serial(SerialSettings {
        path: "/nowhere/fieldgate-test".into(),
        baud: 19200,
        parity: Parity::Even,
        data_bits: 8,
        stop_bits: 1,
        local_echo: false,
        short_silence: false,
    });
    let serial = registry.add_link(link("rs485-a", serial)).unwrap();
    let press = registry.add_device(device("press-plc", tcp, 1)).unwrap();
    let oven = registry.add_device(device("oven-plc", tcp, 2)).unwrap();
    let pump_a = registry.add_device(device("pump-a", serial, 3)).unwrap();
    let pump_b = registry.add_device(device("pump-b", serial, 4)).unwrap();

    let float = || {
        let mut float = sensor("A_LINE1_042", DataType::F32, WordOrder::Cdab);
        float.range = Range::new(-20.0, 120.0);
        float.unit = "°C".parse().unwrap();
        float
    };
    let mut tenths = sensor("A_LINE1_043", DataType::I16, WordOrder::Abcd);
    tenths.read.scaling = Scaling::new("0.1".parse().unwrap(), "0".parse().unwrap()).unwrap();
    tenths.range = Range::new(0.0, 100.0);
    tenths.no_value = vec![NoValueCode(0x8000)];
    add(&mut registry, press, Table::Holding, 100, float());
    add(&mut registry, press, Table::Holding, 102, tenths);
    add(&mut registry, press, Table::Holding, 110, sensor("A_LINE1_044", DataType::U64, WordOrder::Abcd));
    let text = DataType::Text { registers: 6 };
    add(&mut registry, press, Table::Holding, 200, sensor("A_LINE1_045", text, WordOrder::Abcd));
    let bit = |id, bit| sensor(id, DataType::Bool { bit }, WordOrder::Abcd);
    add(&mut registry, press, Table::Input, 7, bit("A_LINE1_046", 0));
    add(&mut registry, press, Table::Input, 7, bit("A_LINE1_047", 15));
    add(&mut registry, press, Table::Coil, 5, bit("A_LINE1_048", 0));
    add(&mut registry, press, Table::DiscreteInput, 9, bit("A_LINE1_049", 0));
    add(&mut registry, oven, Table::Holding, 100, sensor("A_LINE1_050", DataType::U16, WordOrder::Abcd));
    add(&mut registry, pump_a, Table::Input, 0, sensor("A_LINE1_060", DataType::I32, WordOrder::Dcba));
    add(&mut registry, pump_b, Table::Input, 0, sensor("A_LINE1_061", DataType::F64, WordOrder::Abcd));
    Arc::new(registry)
}
