//! The plant against the client of `tokio-modbus`, over TCP and on a pseudo-terminal.
//!
//! Registers are decoded here by hand, so that the plant is not checked with the code that it uses itself.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_modbus::ExceptionCode;
use tokio_modbus::client::{Client, Context, Reader, rtu, tcp};
use tokio_modbus::prelude::{Request, Slave, SlaveContext};
use tokio_serial::{SerialPortBuilder, SerialStream};

use super::sample;
use super::{Place, Plant, PlantOptions, RunningPlant};
use crate::modbus::Table;
use crate::modbus::pdu::{ReadReply, ReadRequest, Received};
use crate::modbus::rtu::RtuExchange;
use crate::quantity::Value;
use crate::registry::sensor::Endpoint;
use crate::registry::{Device, Link, Registry};

/// Long enough for any answer on a busy machine.
const LONG: Duration = Duration::from_secs(10);

/// How long a silent device is listened to. Nothing comes, so a longer wait would prove no more.
const SHORT: Duration = Duration::from_millis(150);

/// A folder that is removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("fieldgate-sim-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn start(folder: &Folder) -> RunningPlant {
    let options =
        PlantOptions { port_base: Some(0), serial_dir: Some(folder.0.clone()), seed: 1, ..PlantOptions::default() };
    Plant::start(sample::registry(), options).await.unwrap()
}

fn address(plant: &RunningPlant) -> String {
    match plant.place("press-tcp") {
        Some(Place::Tcp(address)) => address.clone(),
        other => panic!("{other:?}"),
    }
}

async fn connect(plant: &RunningPlant, unit: u8) -> Context {
    tcp::attach_slave(TcpStream::connect(address(plant)).await.unwrap(), Slave(unit))
}

fn port(folder: &Folder) -> PathBuf {
    folder.0.join("rs485-a")
}

fn builder(path: &Path) -> SerialPortBuilder {
    tokio_serial::new(path.display().to_string(), 19200)
}

fn open(path: &Path, unit: u8) -> Context {
    rtu::attach_slave(SerialStream::open(&builder(path)).unwrap(), Slave(unit))
}

async fn holding(client: &mut Context, address: u16, count: u16) -> Result<Vec<u16>, ExceptionCode> {
    timeout(LONG, client.read_holding_registers(address, count)).await.expect("an answer").expect("a connection")
}

async fn input(client: &mut Context, address: u16, count: u16) -> Result<Vec<u16>, ExceptionCode> {
    timeout(LONG, client.read_input_registers(address, count)).await.expect("an answer").expect("a connection")
}

/// The sample plant with another port of its serial line.
fn with_port(path: &Path, local_echo: bool) -> Arc<Registry> {
    let mut registry = Registry::default();
    let sample = sample::registry();
    for (_, link) in sample.links() {
        let mut link = Link { devices: Vec::new(), ..link.clone() };
        if let Endpoint::Serial(settings) = &mut link.endpoint {
            settings.path = path.display().to_string();
            settings.local_echo = local_echo;
        }
        registry.add_link(link).unwrap();
    }
    for (_, device) in sample.devices() {
        registry.add_device(Device { sensors: Vec::new(), ..device.clone() }).unwrap();
    }
    for (_, sensor) in sample.sensors() {
        registry.add_sensor(sensor.clone()).unwrap();
    }
    registry.into()
}

async fn do_ok(plant: &RunningPlant, line: &str) -> String {
    let reply = plant.command_line(line).await;
    assert!(reply.starts_with("ok "), "{line:?} was answered {reply:?}");
    reply
}

#[tokio::test]
async fn numbers_and_texts_arrive_over_tcp_as_they_were_set() {
    let folder = Folder::new("values");
    let plant = start(&folder).await;
    do_ok(&plant, "set A_LINE1_042 47.3").await;
    do_ok(&plant, "set A_LINE1_043 9.7").await;
    do_ok(&plant, "set A_LINE1_044 18446744073709551614").await;
    do_ok(&plant, "set A_LINE1_045 pump 7").await;
    let mut client = connect(&plant, 1).await;
    let float = holding(&mut client, 100, 2).await.unwrap();
    // The words come from the least significant, and 47.3 is 0x423D_3333.
    assert_eq!(float, [0x3333, 0x423D]);
    assert_eq!(holding(&mut client, 102, 1).await.unwrap(), [97]);
    assert_eq!(holding(&mut client, 110, 4).await.unwrap(), [0xFFFF, 0xFFFF, 0xFFFF, 0xFFFE]);
    let text: Vec<u8> = holding(&mut client, 200, 6).await.unwrap().into_iter().flat_map(u16::to_be_bytes).collect();
    assert!(text.starts_with(b"pump 7"), "{text:?}");
    assert_eq!(do_ok(&plant, "get A_LINE1_043").await, "ok A_LINE1_043 = 9.7 (kept)");
}

#[tokio::test]
async fn what_the_plant_says_is_what_a_client_reads() {
    let folder = Folder::new("agree");
    let plant = start(&folder).await;
    let sensor = plant.moved_registry().find_sensor("A_LINE1_044").unwrap();
    let mut client = connect(&plant, 1).await;
    let before = plant.value(sensor).unwrap().to_f64().unwrap();
    let words = holding(&mut client, 110, 4).await.unwrap();
    let after = plant.value(sensor).unwrap().to_f64().unwrap();
    let read = words.into_iter().fold(0_u64, |number, word| number << 16 | u64::from(word)) as f64;
    assert!(before <= read && read <= after, "{before} <= {read} <= {after}");
}

#[tokio::test]
async fn bits_keep_their_places() {
    let folder = Folder::new("bits");
    let plant = start(&folder).await;
    for line in ["set A_LINE1_046 true", "set A_LINE1_047 true", "set A_LINE1_048 on", "set A_LINE1_049 off"] {
        do_ok(&plant, line).await;
    }
    let mut client = connect(&plant, 1).await;
    assert_eq!(input(&mut client, 7, 1).await.unwrap(), [0x8001]);
    do_ok(&plant, "set A_LINE1_046 false").await;
    assert_eq!(input(&mut client, 7, 1).await.unwrap(), [0x8000]);
    assert_eq!(client.read_coils(5, 1).await.unwrap().unwrap(), [true]);
    assert_eq!(client.read_discrete_inputs(9, 1).await.unwrap().unwrap(), [false]);
}

#[tokio::test]
async fn units_of_one_link_are_apart() {
    let folder = Folder::new("units");
    let plant = start(&folder).await;
    do_ok(&plant, "set A_LINE1_050 7").await;
    let mut client = connect(&plant, 2).await;
    assert_eq!(holding(&mut client, 100, 1).await, Ok(vec![7]));
    client.set_slave(Slave(9));
    assert_eq!(holding(&mut client, 100, 1).await, Err(ExceptionCode::GatewayTargetDevice));
}

#[tokio::test]
async fn addresses_that_no_sensor_names_do_not_exist() {
    let folder = Folder::new("addresses");
    let plant = start(&folder).await;
    let mut client = connect(&plant, 1).await;
    let missing = Err(ExceptionCode::IllegalDataAddress);
    assert_eq!(holding(&mut client, 0, 1).await, missing);
    assert_eq!(holding(&mut client, 99, 2).await, missing);
    assert_eq!(holding(&mut client, 113, 2).await, missing, "a read across the end");
    assert_eq!(holding(&mut client, 150, 1).await, missing, "a wide gap");
    assert_eq!(holding(&mut client, 103, 7).await, Ok(vec![0; 7]), "a small gap reads as zeroes");
    assert_eq!(holding(&mut client, 100, 0).await, Err(ExceptionCode::IllegalDataValue));
    assert_eq!(holding(&mut client, 100, 126).await, Err(ExceptionCode::IllegalDataValue));
    let write = timeout(LONG, client.call(Request::WriteSingleRegister(100, 1))).await.unwrap().unwrap();
    assert_eq!(write, Err(ExceptionCode::IllegalFunction));
}

#[tokio::test]
async fn strict_gaps_do_not_exist_either() {
    let folder = Folder::new("strict");
    let options = PlantOptions {
        port_base: Some(0),
        serial_dir: Some(folder.0.clone()),
        strict_gaps: true,
        ..PlantOptions::default()
    };
    let plant = Plant::start(sample::registry(), options).await.unwrap();
    let mut client = connect(&plant, 1).await;
    assert_eq!(holding(&mut client, 103, 7).await, Err(ExceptionCode::IllegalDataAddress));
    assert_eq!(holding(&mut client, 100, 3).await.map(|words| words.len()), Ok(3), "neighbours have no gap");
}

#[tokio::test]
async fn a_silent_device_does_not_delay_the_others_on_its_connection() {
    let folder = Folder::new("silent");
    let plant = start(&folder).await;
    do_ok(&plant, "stop press-plc").await;
    let mut client = connect(&plant, 1).await;
    assert!(timeout(SHORT, client.read_holding_registers(100, 1)).await.is_err(), "a stopped device answered");
    client.set_slave(Slave(2));
    assert!(holding(&mut client, 100, 1).await.is_ok());
    do_ok(&plant, "start press-plc").await;
    client.set_slave(Slave(1));
    assert!(holding(&mut client, 100, 1).await.is_ok());
}

#[tokio::test]
async fn a_slow_device_answers_late_and_others_elsewhere_at_once() {
    let folder = Folder::new("slow");
    let plant = start(&folder).await;
    do_ok(&plant, "slow press-plc 300ms").await;
    let mut slow = connect(&plant, 1).await;
    let mut other = connect(&plant, 2).await;
    let begun = tokio::time::Instant::now();
    let slow = tokio::spawn(async move { holding(&mut slow, 100, 1).await });
    assert!(holding(&mut other, 100, 1).await.is_ok());
    assert!(!slow.is_finished(), "the slow answer came before the quick one");
    assert!(slow.await.unwrap().is_ok());
    assert!(begun.elapsed() >= Duration::from_millis(300));
}

#[tokio::test]
async fn an_exception_is_answered_until_it_is_taken_back() {
    let folder = Folder::new("exception");
    let plant = start(&folder).await;
    let mut client = connect(&plant, 1).await;
    for (code, expected) in [(4, ExceptionCode::ServerDeviceFailure), (6, ExceptionCode::ServerDeviceBusy)] {
        do_ok(&plant, &format!("exception press-plc {code}")).await;
        assert_eq!(holding(&mut client, 100, 1).await, Err(expected));
    }
    do_ok(&plant, "exception press-plc off").await;
    assert!(holding(&mut client, 100, 1).await.is_ok());
}

#[tokio::test]
async fn an_unplugged_tcp_link_drops_and_refuses_and_comes_back_to_its_port() {
    let folder = Folder::new("unplug-tcp");
    let plant = start(&folder).await;
    let mut client = connect(&plant, 1).await;
    assert!(holding(&mut client, 100, 1).await.is_ok());
    do_ok(&plant, "unplug press-tcp").await;
    assert!(timeout(LONG, client.read_holding_registers(100, 1)).await.expect("an end").is_err());
    let refused = TcpStream::connect(address(&plant)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert!(do_ok(&plant, "list").await.contains("press-tcp at 127.0.0.1:"));
    do_ok(&plant, "plug press-tcp").await;
    assert!(holding(&mut connect(&plant, 1).await, 100, 1).await.is_ok());
}

#[tokio::test]
async fn two_units_answer_on_a_serial_line_and_others_are_silent() {
    let folder = Folder::new("serial");
    let plant = start(&folder).await;
    do_ok(&plant, "set A_LINE1_060 -2").await;
    do_ok(&plant, "set A_LINE1_061 0.1").await;
    let mut client = open(&port(&folder), 3);
    assert_eq!(input(&mut client, 0, 2).await, Ok(vec![0xFEFF, 0xFFFF]));
    client.set_slave(Slave(9));
    assert!(timeout(SHORT, client.read_input_registers(0, 1)).await.is_err(), "a unit that is not there answered");
    client.set_slave(Slave(4));
    assert_eq!(input(&mut client, 0, 4).await, Ok(vec![0x3FB9, 0x9999, 0x9999, 0x999A]));
}

#[tokio::test]
async fn a_serial_line_outlives_noise_and_reopening() {
    let folder = Folder::new("noise");
    let plant = start(&folder).await;
    let mut noisy = SerialStream::open(&builder(&port(&folder))).unwrap();
    noisy.write_all(&[0x55; 200]).await.unwrap();
    drop(noisy);
    // The server may just be starting anew, so a request is repeated as a gateway would.
    let mut answers = Vec::new();
    for _ in 0..100 {
        let mut client = open(&port(&folder), 3);
        if let Ok(Ok(answer)) = timeout(SHORT, client.read_input_registers(0, 2)).await {
            answers.push(answer.map(|words| words.len()));
        }
        if answers.len() == 3 {
            break;
        }
    }
    assert_eq!(answers, [Ok(2), Ok(2), Ok(2)]);
    drop(plant);
}

#[tokio::test]
async fn a_broken_frame_ends_with_the_silence_after_it() {
    let folder = Folder::new("broken");
    let plant = start(&folder).await;
    let mut line = SerialStream::open(&builder(&port(&folder))).unwrap();
    // A write of 120 registers of which nothing comes after its length; a server without a sense of time would take the
    // next 30 requests for its rest.
    line.write_all(&[3, 0x10, 0, 0, 0, 120, 240]).await.unwrap();
    let mut client = rtu::attach_slave(line, Slave(3));
    let mut failures = 0;
    while timeout(SHORT, client.read_input_registers(0, 2)).await.is_err() {
        failures += 1;
        assert!(failures < 5, "the line is still waiting for the rest of a frame");
    }
    drop(plant);
}

#[tokio::test]
async fn an_unplugged_serial_link_vanishes_and_comes_back_under_its_name() {
    let folder = Folder::new("unplug-serial");
    let plant = start(&folder).await;
    let mut client = open(&port(&folder), 3);
    assert!(input(&mut client, 0, 2).await.is_ok());
    do_ok(&plant, "unplug rs485-a").await;
    assert!(std::fs::symlink_metadata(port(&folder)).is_err(), "the name is still there");
    assert!(timeout(LONG, client.read_input_registers(0, 2)).await.expect("an end").is_err(), "no hang-up");
    do_ok(&plant, "plug rs485-a").await;
    assert!(input(&mut open(&port(&folder), 3), 0, 2).await.is_ok());
    drop(plant);
    assert!(std::fs::symlink_metadata(port(&folder)).is_err(), "the name was left behind");
}

#[tokio::test]
async fn a_port_name_that_leads_elsewhere_is_not_taken() {
    let folder = Folder::new("taken");
    let name = folder.0.join("port");
    std::os::unix::fs::symlink("/dev/null", &name).unwrap();
    let registry = with_port(&name, false);
    let options = PlantOptions { port_base: Some(0), ..PlantOptions::default() };
    let error = Plant::start(registry, options).await.unwrap_err();
    assert!(error.to_string().contains("--serial-dir"), "{error}");
    assert_eq!(std::fs::read_link(&name).unwrap(), Path::new("/dev/null"));
}

#[tokio::test]
async fn a_wish_that_cannot_be_met_exactly_says_what_can() {
    let folder = Folder::new("wishes");
    let plant = start(&folder).await;
    let check = async |line: &str, expected: &str| {
        let reply = plant.command_line(line).await;
        assert!(reply.starts_with("error ") && reply.contains(expected), "{line:?} was answered {reply:?}");
    };
    check("set A_LINE1_043 9.75", "in steps of 0.1; the nearest to 9.75 are 9.7 and 9.8").await;
    check("set A_LINE1_043 4000", "holds -32768 to 32767").await;
    check("set A_LINE1_042 warm", "no finite number").await;
    check("set A_LINE1_045 much too long", "does not fit").await;
    check("set A_LINE1_046 maybe", "true or false").await;
    check("raw A_LINE1_042 1", "has 2 registers, and 1 were given").await;
    check("novalue A_LINE1_050", "has no `no_value` code").await;
    check("stop press", "there is no device press").await;
    check("stop press-plk", "did you mean press-plc").await;
    check("stpo press-plc", "did you mean `stop DEVICE`?").await;
    check("unplug press", "there is no link press").await;
    check("get A_LINE1_999", "there is no sensor A_LINE1_999").await;
}

#[tokio::test]
async fn no_value_is_what_the_configuration_says_it_is() {
    let folder = Folder::new("no-value");
    let plant = start(&folder).await;
    let mut client = connect(&plant, 1).await;
    do_ok(&plant, "novalue A_LINE1_043").await;
    assert_eq!(holding(&mut client, 102, 1).await.unwrap(), [0x8000]);
    assert_eq!(do_ok(&plant, "novalue A_LINE1_042").await, "ok A_LINE1_042 has no value (kept)");
    let words = holding(&mut client, 100, 2).await.unwrap();
    assert!(f32::from_bits(u32::from(words[1]) << 16 | u32::from(words[0])).is_nan());
    do_ok(&plant, "free A_LINE1_042").await;
    let sensor = plant.moved_registry().find_sensor("A_LINE1_042").unwrap();
    assert!(matches!(plant.value(sensor), Some(Value::Float(_))));
}

#[tokio::test]
async fn registers_of_one_answer_are_of_one_moment() {
    let folder = Folder::new("moment");
    let plant = start(&folder).await;
    do_ok(&plant, "set A_LINE1_044 0").await;
    let flipping = tokio::spawn({
        let plant = plant.clone();
        async move {
            loop {
                plant.command_line("set A_LINE1_044 18446744073709551615").await;
                tokio::task::yield_now().await;
                plant.command_line("set A_LINE1_044 0").await;
                tokio::task::yield_now().await;
            }
        }
    });
    let mut client = connect(&plant, 1).await;
    for _ in 0..200 {
        let words = holding(&mut client, 110, 4).await.unwrap();
        assert!(words == [0; 4] || words == [0xFFFF; 4], "{words:X?}");
    }
    flipping.abort();
}

#[tokio::test]
async fn a_line_with_local_echo_repeats_the_request_and_our_own_client_core_reads_past_it() {
    let folder = Folder::new("echo");
    let name = folder.0.join("port");
    let options = PlantOptions { port_base: Some(0), ..PlantOptions::default() };
    let plant = Plant::start(with_port(&name, true), options).await.unwrap();
    do_ok(&plant, "set A_LINE1_060 -2").await;
    let mut line = SerialStream::open(&builder(&name)).unwrap();
    let mut exchange = RtuExchange::new(true);
    let request = exchange.begin(3, ReadRequest::new(Table::Input, 0, 2).unwrap());
    line.write_all(&request).await.unwrap();
    let (mut heard, mut received) = (Vec::new(), Received::NeedMore);
    while received == Received::NeedMore {
        let mut bytes = [0; 64];
        let read = timeout(LONG, line.read(&mut bytes)).await.expect("an answer").unwrap();
        heard.extend_from_slice(&bytes[..read]);
        received = exchange.receive(&bytes[..read]);
    }
    assert!(heard.starts_with(&request), "{heard:X?} does not begin with the echo");
    let expected = heapless::Vec::from_slice(&[0xFEFF, 0xFFFF]).unwrap();
    assert_eq!(received, Received::Reply(Ok(ReadReply::Registers(expected))));
}

#[tokio::test]
async fn a_serial_line_behind_a_converter_is_read_through_its_tcp_port() {
    let mut registry = Registry::default();
    let plain = with_port(Path::new("/dev/null"), false);
    for (_, link) in plain.links() {
        let mut link = Link { devices: Vec::new(), ..link.clone() };
        if let Endpoint::Serial(line) = &link.endpoint {
            link.endpoint = Endpoint::RtuOverTcp { host: "127.0.0.1".into(), port: 0, line: line.clone() };
        }
        registry.add_link(link).unwrap();
    }
    for (_, device) in plain.devices() {
        registry.add_device(Device { sensors: Vec::new(), ..device.clone() }).unwrap();
    }
    for (_, sensor) in plain.sensors() {
        registry.add_sensor(sensor.clone()).unwrap();
    }
    let options = PlantOptions { port_base: Some(0), ..PlantOptions::default() };
    let plant = Plant::start(registry.into(), options).await.unwrap();
    do_ok(&plant, "set A_LINE1_060 -2").await;
    let moved = plant.moved_registry();
    let link = moved.find_link("rs485-a").unwrap();
    let mut line = crate::field::line::Line::new(moved.link(link));
    let request = ReadRequest::new(Table::Input, 0, 2).unwrap();
    for _ in 0..3 {
        let (reply, _) = line.ask(3, request).await.expect("an answer");
        assert_eq!(reply.registers(0, 2), Some(&[0xFEFF, 0xFFFF][..]));
    }
    assert!(line.ask(9, request).await.is_err(), "a unit that is not there answered");
    assert!(line.ask(3, request).await.is_ok(), "and the others are still read");
}
