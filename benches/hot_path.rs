//! What each step of a reading's way costs, step by step: `cargo bench --bench hot_path`.
//!
//! Figures of two machines do not compare; those of two commits on one machine do: `-- --save-baseline NAME`, and then
//! `-- --baseline NAME`.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};

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

fn hot_path(criterion: &mut Criterion) {
    let mut step = |name: &str, work: &mut dyn FnMut()| {
        criterion.bench_function(name, |bencher| bencher.iter(&mut *work));
    };
    let registry = registry();
    let (link, _) = registry.links().next().expect("a link");
    let plan = plan_link(&registry, link);
    let read = plan[0].clone();
    let words: Vec<u8> = (0..read.request.count()).flat_map(|word| (word * 257).to_be_bytes()).collect();

    let mut tcp = TcpExchange::default();
    step("Modbus/TCP: a request and its answer", &mut || {
        let request = tcp.begin(1, read.request);
        let body = [&[1, 3, words.len() as u8], &words[..]].concat();
        let answer = [&request[..4], &(body.len() as u16).to_be_bytes(), &body].concat();
        black_box(tcp.receive(&answer));
    });
    let mut rtu = RtuExchange::new(false);
    let body = [&[1, 3, words.len() as u8], &words[..]].concat();
    let frame = [&body[..], &crc(&body).to_le_bytes()].concat();
    step("Modbus RTU: a request and its answer", &mut || {
        rtu.begin(1, read.request);
        black_box(rtu.receive(&frame));
    });

    rtu.begin(1, read.request);
    let Received::Reply(Ok(reply)) = rtu.receive(&frame) else { panic!("an answer") };
    let (index, sensor) = registry.sensors().next().expect("a sensor");
    let now = clock::now();
    step("an answer's words to a sample", &mut || {
        black_box(sensor.interpret(registers(&reply), now).expect("a value"));
    });

    let mut state = SensorState::default();
    state.answered(sensor.interpret(registers(&reply), now).expect("a value"));
    let mut text = Vec::new();
    step("a reading as JSON text", &mut || {
        text.clear();
        Reading::of(sensor, &state, now).write(&mut text);
        black_box(&text);
    });
    step("a reading as a JSON object, for a tool", &mut || {
        black_box(reading_json(&registry, index, &state, now));
    });

    let mut schedule = Schedule::new(plan.clone(), now.instant);
    let mut moment = now.instant;
    step("the schedule: what is next, and that it was asked", &mut || match schedule.next(moment) {
        Next::Read(place) => schedule.asked(place, moment),
        Next::Wait(until) => moment = until,
        Next::Idle => {}
    });
    step("the plan of a link with 1,000 sensors", &mut || {
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

criterion_group!(benches, hot_path);
criterion_main!(benches);
