//! A registry, a board, and links without a plant. Each answer of a tool is checked against its published schema on the way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::board::Board;
use crate::clock;
use crate::config::{BrokerConfig, BrokerEndpoint, CallsConfig, Config, PublishConfig};
use crate::facts::Facts;
use crate::field::handle::{FieldHandle, FreshRead};
use crate::metrics::{Exchange, Outcome};
use crate::modbus::Table;
use crate::modbus::words::{DataType, Encoding, NoValueCode, WordOrder};
use crate::quantity::{Range, Scaling};
use crate::registry::reading::{DeviceStatus, Fault, OfflineCause, Sample};
use crate::registry::rules::Rules;
use crate::registry::sensor::{Endpoint, Parity, ReadLimits, ReadSpec, SerialSettings};
use crate::registry::{Device, DeviceIndex, Link, LinkIndex, Registry, Sensor, SensorIndex};
use crate::tools::{Call, ToolName, Toolbox};

/// How many wishes a link of the bench holds; more are refused.
pub const WISHES: usize = 8;

/// Everything that a tool works with.
pub struct Bench {
    pub toolbox: Toolbox,
    pub wishes: Vec<mpsc::Receiver<FreshRead>>,
}

impl Bench {
    pub fn new() -> Bench {
        Bench::with(registry())
    }

    pub fn with(registry: Registry) -> Bench {
        let registry = Arc::new(registry);
        let (senders, wishes) = registry.links().map(|_| mpsc::channel(WISHES)).unzip();
        let toolbox = Toolbox {
            board: Arc::new(Board::new(Arc::clone(&registry))),
            field: FieldHandle::new(Arc::clone(&registry), senders),
            facts: Arc::new(Facts::new()),
            config: Arc::new(config(registry)),
        };
        Bench { toolbox, wishes }
    }

    pub fn registry(&self) -> &Registry {
        &self.toolbox.config.registry
    }

    pub fn sensor(&self, id: &str) -> SensorIndex {
        self.registry().find_sensor(id).expect("a sensor of the bench")
    }

    pub fn device(&self, id: &str) -> DeviceIndex {
        self.registry().find_device(id).expect("a device of the bench")
    }

    /// The device answers with these words now.
    pub fn answered(&self, id: &str, words: &[u16]) {
        answered(&self.toolbox.board, self.registry(), self.sensor(id), words);
    }

    /// The last try to read the sensor fails now.
    pub fn failed(&self, id: &str, fault: Fault) {
        self.toolbox.board.sensor_failed(self.sensor(id), fault, clock::now());
    }

    /// The device is offline from now on, and so are its sensors.
    pub fn offline(&self, id: &str, cause: OfflineCause, next_try: Option<Duration>) {
        let now = clock::now();
        let next_try = next_try.map(|ahead| now.instant + ahead);
        let device = self.device(id);
        for sensor in &self.registry().device(device).sensors {
            self.toolbox.board.sensor_failed(*sensor, Fault::Offline(cause), now);
        }
        let status = DeviceStatus::Offline { cause, next_try };
        self.toolbox.board.update_device(device, now, |state| state.status = status);
    }

    pub fn online(&self, id: &str) {
        let now = clock::now();
        let device = self.device(id);
        let took = Duration::from_millis(12);
        let exchange = Exchange {
            outcome: Outcome::Data,
            is_repeat: false,
            sent: 12,
            received: 13,
            took,
            busy: took,
            ended: now.instant,
        };
        self.toolbox.board.meters().exchanged(self.registry().device(device).link, device, &exchange);
        self.toolbox.board.update_device(device, now, |state| {
            state.status = DeviceStatus::Online;
            state.last_answer = Some(now);
            state.last_latency = Duration::from_millis(12);
        });
    }

    /// Serves the wishes of a link: the test says what each does to the board, and the wish is answered if it says so.
    pub fn serve(&mut self, link: &str, serve: impl Fn(&Board, &Registry, SensorIndex) -> bool + Send + 'static) {
        let LinkIndex(place) = self.registry().find_link(link).expect("a link of the bench");
        let (_, closed) = mpsc::channel(1);
        let mut wishes = std::mem::replace(&mut self.wishes[place as usize], closed);
        let (board, registry) = (Arc::clone(&self.toolbox.board), Arc::clone(&self.toolbox.config.registry));
        tokio::spawn(async move {
            let mut unanswered = Vec::new();
            while let Some(wish) = wishes.recv().await {
                tokio::time::sleep(Duration::from_millis(20)).await;
                if serve(&board, &registry, wish.sensor) {
                    let _ = wish.done.send(());
                } else {
                    unanswered.push(wish);
                }
            }
        });
    }

    /// How many wishes wait at a link.
    pub fn waiting(&self, link: &str) -> usize {
        self.wishes[self.registry().find_link(link).expect("a link of the bench").place()].len()
    }

    /// Calls a tool with five seconds of time. The answer meets the tool's output schema, success or not.
    pub async fn call(&self, tool: ToolName, arguments: Value) -> Result<Value, Value> {
        let arrived = clock::instant();
        self.call_by(tool, arguments, arrived + Duration::from_secs(5)).await
    }

    pub async fn call_by(&self, tool: ToolName, arguments: Value, deadline: Instant) -> Result<Value, Value> {
        let client = "agent-1".parse().expect("a name");
        let call = Call { client, arrived: clock::instant(), deadline };
        let answer = self.toolbox.call(tool.as_str(), arguments, &call).await.expect("a tool");
        let answer = answer.map(Value::Object).map_err(|error| Value::Object(error.to_json()));
        let (Ok(structured) | Err(structured)) = &answer;
        let validator = jsonschema::validator_for(&Value::Object(tool.spec().output_schema())).expect("a schema");
        let faults: Vec<String> = validator.iter_errors(structured).map(|error| error.to_string()).collect();
        assert!(faults.is_empty(), "{}: {structured:#}\n{faults:#?}", tool.as_str());
        assert_eq!(answer.is_err(), structured.get("error").is_some(), "errors and successes are told apart");
        answer
    }

    /// Calls a tool that refuses the arguments, and gives the faults as `parameter message`.
    pub async fn faults(&self, tool: ToolName, arguments: Value) -> Vec<String> {
        let error = self.call(tool, arguments).await.expect_err("refused arguments");
        assert_eq!(error["error"], "INVALID_ARGUMENT", "{error:#}");
        let faults = error["faults"].as_array().expect("faults");
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        faults.iter().map(|fault| format!("{} {}", text(&fault["parameter"]), text(&fault["message"]))).collect()
    }
}

/// The device of a sensor answers with these words now.
pub fn answered(board: &Board, registry: &Registry, index: SensorIndex, words: &[u16]) {
    let sensor = registry.sensor(index);
    let raw = sensor.read.encoding.decode(words).expect("words of the sensor's type");
    let value = sensor.read.scaling.apply(raw).expect("a value");
    let in_range = sensor.range.is_none_or(|range| range.contains(&value));
    board.sensor_answered(index, Sample::new(value, words, in_range, clock::now()), Duration::from_secs(60));
}

fn config(registry: Arc<Registry>) -> Config {
    let endpoint = BrokerEndpoint::Remote { host: "127.0.0.1".into(), port: 1883, tls: false };
    Config {
        gateway: "gw-line1".parse().expect("a name"),
        broker: BrokerConfig {
            endpoint,
            username: None,
            password: None,
            ca_file: None,
            keep_alive: Duration::from_secs(30),
        },
        publish: PublishConfig {
            qos: 0,
            at_least_every: Duration::from_secs(60),
            status_every: Duration::from_secs(60),
            grouping: Default::default(),
        },
        calls: CallsConfig {
            default_deadline: Duration::from_secs(5),
            max_deadline: Duration::from_secs(60),
            max_in_flight: 16,
        },
        metrics: None,
        registry,
    }
}

/// Two links, three devices, seven sensors of most kinds.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    let tcp = add_link(&mut registry, "press-tcp", Endpoint::Tcp { host: "10.0.0.5".into(), port: 502 });
    let serial = SerialSettings {
        path: "/dev/ttyUSB0".into(),
        baud: 19_200,
        parity: Parity::Even,
        data_bits: 8,
        stop_bits: 1,
        local_echo: false,
        short_silence: false,
    };
    let line = add_link(&mut registry, "rs485-a", Endpoint::Serial(serial));
    let press = add_device(&mut registry, "press-plc", tcp, 1);
    let meter = add_device(&mut registry, "meter-1", line, 3);
    add_device(&mut registry, "spare", line, 4);
    let mut add = |id: &str, name: &str, device, read, unit: &str| {
        add_sensor(&mut registry, id, name, device, read, unit);
    };
    add("A_LINE1_042", "Hydraulic oil temperature", press, read(Table::Holding, 100, DataType::F32, "1"), "°C");
    add("A_LINE1_043", "Hydraulic oil pressure", press, read(Table::Holding, 102, DataType::I16, "0.1"), "bar");
    add("A_LINE1_044", "Press closed", press, read(Table::Coil, 5, DataType::Bool { bit: 0 }, "1"), "");
    add("A_LINE1_045", "Energy", press, read(Table::Holding, 20, DataType::U64, "1"), "kWh");
    add("B_HALL2_001", "Voltage of phase 1", meter, read(Table::Input, 0, DataType::U16, "0.1"), "V");
    add("B_HALL2_002", "Door", meter, read(Table::Holding, 9, DataType::Bool { bit: 3 }, "1"), "");
    add("B_HALL2_003", "", meter, read(Table::Holding, 40, DataType::Text { registers: 2 }, "1"), "");
    registry
}

pub fn add_link(registry: &mut Registry, id: &str, endpoint: Endpoint) -> LinkIndex {
    let link = Link {
        id: id.parse().expect("a name"),
        endpoint,
        timeout: Duration::from_secs(1),
        request_gap: Duration::ZERO,
        connect_delay: Duration::ZERO,
        retry_max: Duration::from_secs(60),
        devices: Vec::new(),
    };
    registry.add_link(link).expect("a new name")
}

pub fn add_device(registry: &mut Registry, id: &str, link: LinkIndex, unit: u8) -> DeviceIndex {
    let device = Device {
        id: id.parse().expect("a name"),
        name: String::new(),
        link,
        unit,
        poll_every: Duration::from_secs(1),
        limits: ReadLimits::default(),
        heartbeat: None,
        identify: false,
        sensors: Vec::new(),
    };
    registry.add_device(device).expect("a new name")
}

pub fn add_sensor(registry: &mut Registry, id: &str, name: &str, device: DeviceIndex, read: ReadSpec, unit: &str) {
    let with_range = read.encoding.data_type == DataType::F32;
    let with_code = read.encoding.data_type == DataType::U16;
    let sensor = Sensor {
        id: id.parse().expect("a name"),
        name: name.into(),
        description: String::new(),
        device,
        read,
        unit: unit.parse().expect("a unit"),
        range: if with_range { Range::new(-20.0, 120.0) } else { None },
        rules: Rules::default(),
        no_value: if with_code { vec![NoValueCode(0xFFFF)] } else { Vec::new() },
        max_age: Duration::from_secs(3),
    };
    registry.add_sensor(sensor).expect("a new name");
}

pub fn read(table: Table, address: u16, data_type: DataType, scale: &str) -> ReadSpec {
    let scale = scale.parse().expect("a decimal");
    let offset = "0".parse().expect("a decimal");
    ReadSpec {
        table,
        address,
        encoding: Encoding { data_type, order: WordOrder::Abcd },
        scaling: Scaling::new(scale, offset).expect("a scaling"),
        factor: None,
    }
}

/// Arguments that each tool takes.
pub fn right_arguments(tool: ToolName) -> Value {
    match tool {
        ToolName::DescribeSensor | ToolName::GetSensorReading => json!({"sensor_id": "A_LINE1_042"}),
        ToolName::GetSensorReadings => json!({"sensor_ids": ["A_LINE1_042", "B_HALL2_001"]}),
        ToolName::ListSensors | ToolName::ListDevices | ToolName::GetGatewayStatus => json!({}),
    }
}

/// 47.3 as an f32.
pub const WARM: [u16; 2] = [0x423D, 0x3333];
