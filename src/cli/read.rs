//! `fieldgate read`: a sensor straight from its device, without daemon and broker.

use serde_json::json;

use super::{Exit, complain, load, runtime};
use crate::clock;
use crate::config::reference::reference_of;
use crate::errors::chain;
use crate::field::line::{AskError, Line};
use crate::modbus::Table;
use crate::modbus::pdu::{ReadReply, ReadRequest};
use crate::registry::reading::{Fault, Sample, Stamp};
use crate::registry::{Registry, Sensor, search};

/// Read a sensor straight from its device. Needs no broker, and no running gateway.
///
/// A serial port has one user at a time: stop the service before you read over its port, or ask the service with
/// `fieldgate call get_sensor_reading`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldgate read A_LINE1_042 --config fieldgate.toml\n  \
    fieldgate read A_LINE1_042 --neighbours      also the registers before and after, to find an address off by one\n  \
    fieldgate read A_LINE1_042 A_LINE1_043 --json")]
pub struct ReadArgs {
    /// The sensors to read.
    #[arg(required = true, value_name = "SENSOR")]
    sensors: Vec<String>,
    /// The gateway's configuration file.
    #[arg(short, long, value_name = "FILE", default_value = super::DEFAULT_CONFIG)]
    config: std::path::PathBuf,
    /// Print JSON, one object a line.
    #[arg(long)]
    json: bool,
    /// Also read the addresses one below and one above.
    #[arg(long)]
    neighbours: bool,
}

/// Runs the command: 0 when every sensor had a value.
pub fn main(args: &ReadArgs) -> Exit {
    let config = match load(&args.config) {
        Ok(config) => config,
        Err(exit) => return exit,
    };
    let registry = &config.registry;
    let mut wanted = Vec::new();
    for id in &args.sensors {
        match registry.find_sensor(id) {
            Some(index) => wanted.push(registry.sensor(index)),
            None => return unknown(registry, id),
        }
    }
    runtime().block_on(async {
        let mut exit = Exit::Done;
        for sensor in wanted {
            if !read_and_print(registry, sensor, args).await {
                exit = Exit::Failed;
            }
        }
        exit
    })
}

fn unknown(registry: &Registry, id: &str) -> Exit {
    let near = search::nearest(id, registry.sensors().map(|(_, sensor)| sensor.id.as_str()), 3);
    match near.is_empty() {
        true => complain(format_args!("there is no sensor {id:?}; `fieldgate check --sensors` lists them")),
        false => complain(format_args!("there is no sensor {id:?}; do you mean {}?", near.join(" or "))),
    };
    Exit::Usage
}

async fn read_and_print(registry: &Registry, sensor: &Sensor, args: &ReadArgs) -> bool {
    let device = registry.device(sensor.device);
    let mut line = Line::new(registry.link(device.link));
    let started = clock::instant();
    let answer = read(&mut line, device.unit, sensor, sensor.read.address).await;
    let took_ms = clock::instant().saturating_duration_since(started).as_millis() as u64;
    let place = place(sensor.read.table, sensor.read.value_address());
    let good = matches!(answer, Ok((Ok(_), _)));
    if args.json {
        println!("{}", as_json(sensor, &answer, took_ms));
    } else {
        print_for_people(sensor, &answer, &place, took_ms);
    }
    if args.neighbours {
        for address in [sensor.read.address.checked_sub(1), sensor.read.address.checked_add(1)].into_iter().flatten() {
            let answer = read(&mut line, device.unit, sensor, address).await;
            let text = match &answer {
                Ok((sample, words)) => format!("{}  {}", describe(sample), hex(words)),
                Err(err) => chain(err),
            };
            println!("  {address:>5} (0x{address:04X}): {text}");
        }
    }
    good
}

type Answer = Result<(Result<Sample, Fault>, Vec<u16>), AskError>;

async fn read(line: &mut Line, unit: u8, sensor: &Sensor, address: u16) -> Answer {
    let count = count_from(address, sensor.read.count());
    let Ok(request) = ReadRequest::new(sensor.read.table, address, count) else {
        // What the configuration allows can be asked for; only a neighbour beyond the end cannot.
        return Ok((Err(Fault::NotANumber), Vec::new()));
    };
    let mut answer = line.ask(unit, request).await;
    if matches!(&answer, Err(err) if err.transient().is_some()) {
        answer = line.ask(unit, request).await;
    }
    let (reply, read_at) = answer?;
    let words = words(&reply, count);
    Ok((interpret(sensor, &words, read_at), words))
}

/// As many as wanted, or as there are up to the last address.
fn count_from(address: u16, wanted: u16) -> u16 {
    wanted.min((u16::MAX - address).saturating_add(1))
}

fn words(reply: &ReadReply, count: u16) -> Vec<u16> {
    match reply {
        ReadReply::Registers(_) => reply.registers(0, count).unwrap_or_default().to_vec(),
        ReadReply::Bits(_) => reply.bit(0).map(u16::from).into_iter().collect(),
        ReadReply::Identification(_) => Vec::new(),
    }
}

fn interpret(sensor: &Sensor, words: &[u16], read_at: Stamp) -> Result<Sample, Fault> {
    sensor.interpret(words, read_at)
}

fn describe(sample: &Result<Sample, Fault>) -> String {
    match sample {
        Ok(sample) => sample.at(clock::instant()).value().to_string(),
        Err(fault) => fault.reason(false).to_owned(),
    }
}

fn hex(words: &[u16]) -> String {
    words.iter().map(|word| format!("0x{word:04X}")).collect::<Vec<_>>().join(" ")
}

/// `holding 100 (0x0064, reference 40101)`.
fn place(table: Table, address: u16) -> String {
    format!("{table} {address} (0x{address:04X}, reference {})", reference_of(table, address))
}

fn print_for_people(sensor: &Sensor, answer: &Answer, place: &str, took_ms: u64) {
    match answer {
        Ok((Ok(sample), words)) => {
            let aged = sample.at(clock::instant());
            let range = if aged.in_range() { "good" } else { "uncertain: out of range" };
            println!(
                "{}  {} {}  {range}  at {}  in {took_ms} ms\n  {place}: {}",
                sensor.id,
                aged.value(),
                sensor.unit,
                clock::rfc3339(aged.read_at().wall),
                hex(words)
            );
        }
        Ok((Err(fault), words)) => {
            println!("{}  no value: {}\n  {place}: {}", sensor.id, fault.reason(false), hex(words));
        }
        Err(err) => println!("{}  no value: {}\n  {place}", sensor.id, chain(err)),
    }
}

fn as_json(sensor: &Sensor, answer: &Answer, took_ms: u64) -> serde_json::Value {
    let raw = |words: &[u16]| words.iter().map(|word| format!("0x{word:04X}")).collect::<Vec<_>>();
    match answer {
        Ok((Ok(sample), words)) => {
            let aged = sample.at(clock::instant());
            json!({
                "sensor_id": sensor.id,
                "value": aged.value().to_json(),
                "unit": sensor.unit.as_str(),
                "quality": if aged.in_range() { "good" } else { "uncertain" },
                "reason": (!aged.in_range()).then_some("out_of_range"),
                "timestamp": clock::rfc3339(aged.read_at().wall),
                "age_ms": aged.age().as_millis() as u64,
                "raw": raw(words),
                "duration_ms": took_ms,
            })
        }
        Ok((Err(fault), words)) => json!({
            "sensor_id": sensor.id, "value": null, "quality": "bad", "reason": fault.reason(false), "raw": raw(words),
            "duration_ms": took_ms,
        }),
        Err(err) => json!({
            "sensor_id": sensor.id, "value": null, "quality": "bad", "reason": err.fault().reason(false),
            "message": chain(err), "duration_ms": took_ms,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_address_and_the_last_can_be_read() {
        for (address, wanted, expected) in [(0, 1, 1), (0, 4, 4), (65_535, 1, 1), (65_535, 2, 1), (65_533, 4, 3)] {
            assert_eq!(count_from(address, wanted), expected, "{wanted} from {address}");
        }
    }
}
