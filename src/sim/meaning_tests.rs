//! The plant serves what has a meaning beyond a number, and a gateway reads the same from it.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::control::Command;
use super::plant::{Answer, Asked, Plant};
use crate::config::Config;
use crate::modbus::Table;
use crate::quantity::Value;
use crate::registry::Registry;
use crate::registry::reading::Stamp;

const EXAMPLES: [&str; 3] = [
    include_str!("../../docs/examples/sunspec-inverter.toml"),
    include_str!("../../docs/examples/victron-gx.toml"),
    include_str!("../../docs/examples/plc.toml"),
];

fn registry(file: &str) -> Arc<Registry> {
    Config::parse(file, "example.toml").unwrap_or_else(|faults| panic!("{faults}")).config.registry
}

/// What a gateway makes of the words of one sensor, and whether that is expected.
fn read(plant: &Plant, registry: &Registry, id: &str, at: Duration) -> (Value, bool) {
    let sensor = registry.sensor(registry.find_sensor(id).expect("known"));
    let device = registry.device(sensor.device);
    let asked = Asked { table: sensor.read.table, address: sensor.read.address, count: sensor.read.count() };
    let words: Vec<u16> = match plant.read(device.link, device.unit, asked, at) {
        Answer::Registers(words) => words,
        Answer::Bits(bits) => bits.into_iter().map(u16::from).collect(),
        other => panic!("{id}: {other:?}"),
    };
    let now = Stamp { instant: Instant::now(), wall: SystemTime::UNIX_EPOCH };
    let sample = sensor.interpret(&words, now).unwrap_or_else(|fault| panic!("{id}: {fault:?} of {words:04X?}"));
    let aged = sample.at(now.instant);
    (aged.value().clone(), aged.in_range())
}

#[test]
fn every_sensor_of_the_examples_has_an_expected_value_at_every_moment() {
    for registry in EXAMPLES.map(registry) {
        let plant = Plant::new(Arc::clone(&registry), 7, true);
        for (index, sensor) in registry.sensors() {
            for second in (0..600).step_by(7) {
                let at = Duration::from_secs(second);
                let (value, in_range) = read(&plant, &registry, sensor.id.as_str(), at);
                assert!(in_range, "{} is {value} at {second} s", sensor.id);
                assert_eq!(plant.value(index, at).as_ref(), Some(&value), "the plant says what it serves");
            }
        }
    }
}

#[test]
fn a_state_flags_and_a_scaled_value_are_set_by_what_they_mean() {
    let inverter = registry(EXAMPLES[0]);
    let mut plant = Plant::new(Arc::clone(&inverter), 7, false);
    let mut check = |id: &str, text: &str| {
        let command = Command::parse(&format!("set {id} {text}")).expect("a command");
        plant.apply(&command, Duration::ZERO).expect("done");
        assert_eq!(read(&plant, &inverter, id, Duration::ZERO).0.to_string(), text);
    };
    check("P1_ROOF_016", "throttled");
    check("P1_ROOF_017", "ground fault + cabinet open");
    check("P1_ROOF_012", "610.3");
    check("P1_ROOF_017", "none");
    let night = Command::parse("novalue P1_ROOF_012").expect("a command");
    plant.apply(&night, Duration::ZERO).expect("done");
    assert_eq!(plant.value(inverter.find_sensor("P1_ROOF_012").expect("known"), Duration::ZERO), None);
}

#[test]
fn values_that_share_a_register_do_not_disturb_each_other() {
    let plc = registry(EXAMPLES[2]);
    let mut plant = Plant::new(Arc::clone(&plc), 7, false);
    for line in ["set P1_LINE1_004 setup", "set P1_LINE1_005 9"] {
        plant.apply(&Command::parse(line).expect("a command"), Duration::ZERO).expect("done");
    }
    let value = |id| read(&plant, &plc, id, Duration::ZERO).0.to_string();
    assert_eq!((value("P1_LINE1_004").as_str(), value("P1_LINE1_005").as_str()), ("setup", "9"));
}

#[test]
fn case_c40_the_heartbeat_of_a_simulated_device_beats() {
    let plc = registry(EXAMPLES[2]);
    let plant = Plant::new(Arc::clone(&plc), 7, true);
    let device = plc.device(plc.find_device("plc").expect("known"));
    let asked = Asked { table: Table::Holding, address: 0x3000, count: 1 };
    let beat = |second| match plant.read(device.link, device.unit, asked, Duration::from_secs(second)) {
        Answer::Registers(words) => words[0],
        other => panic!("{other:?}"),
    };
    assert_eq!((beat(1), beat(2), beat(65_537)), (1, 2, 1));
}
