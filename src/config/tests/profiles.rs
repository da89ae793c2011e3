//! The examples of real devices: their files are read as a gateway reads them, and a recorded answer of each kind of device
//! gives the values that its manual says.

use std::time::{Instant, SystemTime};

use serde_json::{Value, json};

use crate::config::Config;
use crate::field::plan::plan_link;
use crate::modbus::Table;
use crate::registry::reading::{Fault, Stamp};
use crate::registry::{Registry, Sensor};

/// One answer of a device: the registers from an address on; single bits are words of 0 and 1.
struct Reply {
    device: &'static str,
    table: Table,
    address: u16,
    words: &'static str,
}

impl Reply {
    /// The words of a sensor's read, if the answer holds all of them.
    fn words_of(&self, device: &str, sensor: &Sensor) -> Option<Vec<u16>> {
        let read = &sensor.read;
        let words: Vec<u16> =
            self.words.split_whitespace().map(|word| u16::from_str_radix(word, 16).expect("hex")).collect();
        let offset = usize::from(read.address.checked_sub(self.address)?);
        let held = words.get(offset..offset + usize::from(read.count()))?;
        (device == self.device && read.table == self.table).then(|| held.to_vec())
    }
}

fn registry(file: &str) -> Registry {
    let parsed = Config::parse(file, "example.toml").unwrap_or_else(|faults| panic!("{faults}"));
    parsed.config.registry.as_ref().clone()
}

/// What each sensor of the file makes of the answers: `[value, unit]`, with the number behind a name, `"uncertain"` where it
/// is that, or the fault.
fn check(file: &str, replies: &[Reply], expected: &[(&str, Value)]) {
    let registry = registry(file);
    let now = Stamp { instant: Instant::now(), wall: SystemTime::UNIX_EPOCH };
    let mut found = Vec::new();
    for (_, sensor) in registry.sensors() {
        let device = registry.device(sensor.device).id.as_str();
        let Some(words) = replies.iter().find_map(|reply| reply.words_of(device, sensor)) else { continue };
        let meaning = match sensor.interpret(&words, now) {
            Ok(sample) => {
                let aged = sample.at(now.instant);
                let mut meaning = vec![aged.value().to_json(), sensor.unit.as_str().into()];
                let number = sensor.rules.names.as_ref().and_then(|_| aged.value().number());
                meaning.extend(number.map(|number| number.to_json()));
                meaning.extend((!aged.in_range()).then(|| "uncertain".into()));
                Value::Array(meaning)
            }
            Err(fault) => format!("{fault:?}").into(),
        };
        found.push((sensor.id.as_str().to_owned(), meaning));
    }
    let found: Vec<(&str, Value)> = found.iter().map(|(id, meaning)| (id.as_str(), meaning.clone())).collect();
    assert_eq!(found, expected);
}

fn holding(device: &'static str, address: u16, words: &'static str) -> Reply {
    Reply { device, table: Table::Holding, address, words }
}

fn input(device: &'static str, address: u16, words: &'static str) -> Reply {
    Reply { device, table: Table::Input, address, words }
}

#[test]
fn an_sdm630_meter_gives_what_its_display_shows() {
    check(
        include_str!("../../../docs/examples/sdm630-rtu.toml"),
        &[input("meter-main", 0, "4366 3333 4365 CCCD 4367 199A 4059 999A 4149 999A")],
        &[
            ("P1_MAIN_001", json!([230.2, "V"])),
            ("P1_MAIN_002", json!([229.8, "V"])),
            ("P1_MAIN_003", json!([231.1, "V"])),
            ("P1_MAIN_004", json!([3.4, "A"])),
            ("P1_MAIN_005", json!([12.6, "A"])),
        ],
    );
}

const COMMON: &str = "5375 6E53 0001 0041 536F 6C61 7245 6467 6500 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 \
    0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 \
    0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 3745 3141 3242 3343 0000 0000 0000 0000 \
    0000 0000 0000 0000 0000 0000 0000 0000 007E";
const INVERTER: &str = "0067 0032 05F3 01FC 01FB 01FC FFFE 0F96 0F91 0FA1 0900 08FB 0907 FFFF 17D7 FFFF 1387 FFFE 17DE FFFF \
    0078 FFFF 2703 FFFE 0132 3B27 0000 0000 0000 0000 0000 186A FFFF 8000 019C 8000 8000 FFFF 0004 0000 \
    0000 1080 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000";
const INPUTS: &str = "00A0 0030 FFFE FFFF 0000 0000 0000 0000 0002 0000 0001 5374 7269 6E67 2031 0000 0000 0000 0000 032C \
    0F1F 0C47 0000 2328 0000 0000 0029 0004 0000 0000 0002 5374 7269 6E67 2032 0000 0000 0000 0000 0322 \
    0F28 FFFF 0000 0000 0000 0000 0000 0000 0000 0000";

#[test]
fn a_sunspec_inverter_scales_with_its_own_factors() {
    check(
        include_str!("../../../docs/examples/sunspec-inverter.toml"),
        &[
            holding("inverter", 40_000, COMMON),
            holding("inverter", 40_069, INVERTER),
            holding("inverter", 40_121, INPUTS),
        ],
        &[
            ("P1_ROOF_001", json!(["SolarEdge", ""])),
            ("P1_ROOF_002", json!(["7E1A2B3C", ""])),
            ("P1_ROOF_003", json!(["three phases", "", 103])),
            ("P1_ROOF_010", json!([15.23, "A"])),
            ("P1_ROOF_011", json!([230.4, "V"])),
            ("P1_ROOF_012", json!([610.3, "W"])),
            ("P1_ROOF_013", json!([49.99, "Hz"])),
            ("P1_ROOF_014", json!([20069.159, "kWh"])),
            ("P1_ROOF_015", json!("NoValue")),
            ("P1_ROOF_016", json!(["mppt", "", 4])),
            ("P1_ROOF_017", json!([["over temperature", "blown string fuse"], "", 0x1080])),
            ("P1_ROOF_020", json!([8.12, "A"])),
            ("P1_ROOF_021", json!([387.1, "V"])),
            ("P1_ROOF_022", json!([3143, "W"])),
            ("P1_ROOF_023", json!("NoValue")),
        ],
    );
}

#[test]
fn case_c07_an_inverter_at_night_has_no_power_and_no_factor_and_gives_neither_zero_nor_a_huge_number() {
    let registry = registry(include_str!("../../../docs/examples/sunspec-inverter.toml"));
    let power = registry.sensor(registry.find_sensor("P1_ROOF_012").expect("known"));
    let now = Stamp { instant: Instant::now(), wall: SystemTime::UNIX_EPOCH };
    let of = |words: [u16; 2]| power.interpret(&words, now).map(|sample| sample.at(now.instant).value().to_string());
    assert_eq!(of([0x0264, 0x0000]), Ok("612".into()));
    assert_eq!(of([0x17D7, 0xFFFF]), Ok("610.3".into()));
    assert_eq!(of([0x8000, 0x8000]), Err(Fault::NoValue));
    assert_eq!(of([0x0264, 0x8000]), Err(Fault::NoValue), "the value alone says nothing");
    assert_eq!(of([0x0264, 11]), Err(Fault::NoValue));
}

#[test]
fn case_c07_a_value_and_its_factor_are_read_in_one_request() {
    let registry = registry(include_str!("../../../docs/examples/sunspec-inverter.toml"));
    let mut with_factor = 0;
    for (link, _) in registry.links() {
        for read in plan_link(&registry, link) {
            let asked = read.request.address()..read.request.address() + read.request.count();
            for sensor in read.sensors.iter().map(|index| registry.sensor(*index)) {
                let last = sensor.read.value_address() + sensor.read.encoding.registers() - 1;
                let factor = sensor.read.factor_address();
                with_factor += usize::from(factor.is_some());
                for address in [sensor.read.value_address(), last].into_iter().chain(factor) {
                    assert!(asked.contains(&address), "{} needs {address}, and {asked:?} is asked", sensor.id);
                }
            }
        }
    }
    assert_eq!(with_factor, 10);
}

#[test]
fn a_victron_gx_tells_what_its_system_does() {
    check(
        include_str!("../../../docs/examples/victron-gx.toml"),
        &[
            input("gx-system", 800, "4332 3133 3445 4635 3637 3839"),
            input("gx-system", 817, "01C2 0000 0000 FF38 0000 0000 0000 0000 0000 00F0"),
            input("gx-system", 840, "020D FF85 FD7B 0057 0002 0000 0000 0000 0000 0000 0000"),
            input("gx-inverter", 3, "08FC"),
            input("gx-inverter", 23, "FFFB"),
            input("gx-inverter", 31, "000D"),
        ],
        &[
            ("P1_BATT_001", json!(["C2134EF56789", ""])),
            ("P1_BATT_002", json!([450, "W"])),
            ("P1_BATT_003", json!([-200, "W"])),
            ("P1_BATT_004", json!(["not connected", "", 240])),
            ("P1_BATT_005", json!([52.5, "V"])),
            ("P1_BATT_006", json!([-12.3, "A"])),
            ("P1_BATT_007", json!([-645, "W"])),
            ("P1_BATT_008", json!([87, "%"])),
            ("P1_BATT_009", json!(["discharging", "", 2])),
            ("P1_BATT_010", json!([0, "W"])),
            ("P1_BATT_020", json!([230, "V"])),
            ("P1_BATT_021", json!([-50, "W"])),
            // A state that newer firmware has, and this file has no name for: the number, and no other state's name.
            ("P1_BATT_022", json!([13, "", 13, "uncertain"])),
        ],
    );
}

#[test]
fn a_plc_map_has_words_swapped_bits_states_alarms_and_decimal_digits() {
    check(
        include_str!("../../../docs/examples/plc.toml"),
        &[
            input("plc", 0, "01F5"),
            holding("plc", 0x3000, "1267 0000 0000 42AF D687 0012 0051 8019 5678 1234"),
            Reply { device: "plc", table: Table::DiscreteInput, address: 0, words: "0001" },
        ],
        &[
            ("P1_LINE1_001", json!([50.1, "°C"])),
            ("P1_LINE1_002", json!([87.5, "bar"])),
            ("P1_LINE1_003", json!([1_234_567, ""])),
            ("P1_LINE1_004", json!(["automatic", "", 1])),
            ("P1_LINE1_005", json!([5, ""])),
            ("P1_LINE1_006", json!([["ready", "fault", "low oil", "emergency stop"], "", 0x8019])),
            ("P1_LINE1_007", json!([12_345_678, ""])),
            ("P1_LINE1_008", json!([true, ""])),
        ],
    );
    check(
        include_str!("../../../docs/examples/plc.toml"),
        &[input("plc", 0, "2134"), holding("plc", 0x3008, "567A 1234")],
        &[("P1_LINE1_001", json!("Implausible")), ("P1_LINE1_007", json!("NotANumber"))],
    );
}
