//! What each step of a reading's way costs, step by step: `cargo bench --bench hot_path`.
//!
//! Each step runs for a fifth of a second, five times over, and the best of them counts: on a busy machine everything
//! else measures the neighbours. Figures of two machines do not compare; those of two commits on one machine do.

use std::hint::black_box;
use std::time::{Duration, Instant};

use fieldgate::clock;
use fieldgate::config::Config;
use fieldgate::field::plan::plan_link;
use fieldgate::field::schedule::{Next, Schedule};
use fieldgate::gate::wire::{Reading, reading_json};
use fieldgate::modbus::pdu::{ReadReply, Received};
use fieldgate::modbus::rtu::{RtuExchange, crc};
use fieldgate::modbus::tcp::TcpExchange;
use fieldgate::registry::Registry;
use fieldgate::registry::reading::SensorState;

/// Registers of the one read that everything here is about.
const REGISTERS: usize = 100;

fn main() {
    let registry = registry();
    let (link, _) = registry.links().next().expect("a link");
    let plan = plan_link(&registry, link);
    let read = plan[0].clone();
    let words: Vec<u8> = (0..REGISTERS as u16).flat_map(|word| (word * 257).to_be_bytes()).collect();

    let mut tcp = TcpExchange::default();
    step("Modbus/TCP: a request and its answer", || {
        let request = tcp.begin(1, read.request);
        let body = [&[1, 3, words.len() as u8], &words[..]].concat();
        let answer = [&request[..4], &(body.len() as u16).to_be_bytes(), &body].concat();
        black_box(tcp.receive(&answer));
    });
    let mut rtu = RtuExchange::new(false);
    let body = [&[1, 3, words.len() as u8], &words[..]].concat();
    let frame = [&body[..], &crc(&body).to_le_bytes()].concat();
    step("Modbus RTU: a request and its answer", || {
        rtu.begin(1, read.request);
        black_box(rtu.receive(&frame));
    });

    rtu.begin(1, read.request);
    let Received::Reply(Ok(reply)) = rtu.receive(&frame) else { panic!("an answer") };
    let (index, sensor) = registry.sensors().next().expect("a sensor");
    let now = clock::now();
    step("an answer's words to a sample", || {
        black_box(sensor.interpret(registers(&reply), now).expect("a value"));
    });

    let mut state = SensorState::default();
    state.answered(sensor.interpret(registers(&reply), now).expect("a value"));
    let mut text = Vec::new();
    step("a reading as JSON text", || {
        text.clear();
        Reading::of(sensor, &state, now).write(&mut text);
        black_box(&text);
    });
    step("a reading as a JSON object, for a tool", || {
        black_box(reading_json(&registry, index, &state, now));
    });

    let mut schedule = Schedule::new(plan.clone(), now.instant);
    let mut moment = now.instant;
    step("the schedule: what is next, and that it was asked", || match schedule.next(moment) {
        Next::Read(place) => schedule.asked(place, moment),
        Next::Wait(until) => moment = until,
        Next::Idle => {}
    });
    step("the plan of a link with 1,000 sensors", || {
        black_box(plan_link(&registry, link));
    });
}

fn registers(reply: &ReadReply) -> &[u16] {
    reply.registers(0, 2).expect("the first two registers")
}

/// One link with ten devices of a hundred sensors each.
fn registry() -> std::sync::Arc<Registry> {
    let mut text = String::from(
        "[gateway]\nid = \"bench\"\n[broker]\nurl = \"mqtt://127.0.0.1:1883\"\n[sensors]\nid_format = \"*\"\n\
         [[link]]\nid = \"line\"\ntcp = \"127.0.0.1:502\"\n",
    );
    for device in 0..10 {
        text += &format!("[[device]]\nid = \"d{device}\"\nlink = \"line\"\nunit = {}\n", device + 1);
        for sensor in 0..100 {
            text += &format!(
                "[[device.sensor]]\nid = \"D{device}_{sensor}\"\nunit = \"°C\"\n\
                 read = {{ table = \"holding\", address = {}, type = \"i32\", scale = 0.1 }}\n",
                sensor * 2
            );
        }
    }
    Config::parse(&text, "bench.toml").expect("no faults").config.registry
}

/// Measures a step, and prints how long it takes.
fn step(name: &str, mut work: impl FnMut()) {
    const ROUND: Duration = Duration::from_millis(200);
    const ROUNDS: usize = 5;
    const AT_ONCE: u32 = 100;
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let (start, mut times) = (Instant::now(), 0_u32);
        while start.elapsed() < ROUND {
            (0..AT_ONCE).for_each(|_| work());
            times += AT_ONCE;
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(times));
    }
    println!("{name:<50} {best:>10.0} ns");
}
