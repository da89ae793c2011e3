//! A small plant, a gateway without a field side, and clients, for the tests of this side.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rumqttc::mqttbytes::QoS;
use rumqttc::{AsyncClient, Event, Packet, Publish, PublishNoticeError, PublishOptions};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::board::Board;
use crate::clock;
use crate::config::{Grouping, PublishConfig};
use crate::facts::Facts;
use crate::gate::agent::{AgentClient, Messages};
use crate::gate::bus::{Bus, Incoming};
use crate::gate::connect::{BrokerAccess, Trouble};
use crate::gate::publisher::Publisher;
use crate::gate::session::{Session, SessionSettings};
use crate::ids::GatewayId;
use crate::modbus::Table;
use crate::modbus::words::{DataType, Encoding, WordOrder};
use crate::quantity::{Finite, Scaling, Value};
use crate::registry::reading::Sample;
use crate::registry::rules::Rules;
use crate::registry::sensor::{Endpoint, ReadLimits, ReadSpec};
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
        limits: ReadLimits::default(),
        heartbeat: None,
        identify: false,
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
                factor: None,
            },
            unit: "°C".parse().expect("a unit"),
            range: None,
            rules: Rules::default(),
            no_value: Vec::new(),
            max_age: Duration::from_secs(3),
        };
        registry.add_sensor(sensor).expect("a new name");
    }
    registry
}

/// How long a test waits for what must come; reached only by a failure.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for what must come.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it comes in time")
}

/// The gateway of these tests.
pub fn gateway() -> GatewayId {
    "gw".parse().expect("a name")
}

/// An address on loopback with a free port.
pub fn any_port() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// The embedded broker without credentials, as any client reaches it.
pub fn access(address: SocketAddr) -> BrokerAccess {
    BrokerAccess { host: address.ip().to_string(), port: address.port(), tls: None, credentials: None }
}

/// A caller of this name.
pub async fn agent(broker: SocketAddr, name: &str) -> AgentClient {
    let name = name.parse().expect("a name");
    soon(AgentClient::connect(&access(broker), &gateway(), &name)).await.expect("the broker takes an agent")
}

/// A bare MQTT client, for what an agent of ours would never do.
pub struct RawClient {
    pub client: AsyncClient,
    pub incoming: mpsc::UnboundedReceiver<Publish>,
    task: JoinHandle<()>,
}

impl RawClient {
    /// Connects, or says why not.
    pub async fn connect(access: &BrokerAccess, client_id: &str) -> Result<RawClient, Trouble> {
        let mut options = access.options(client_id).expect("options");
        options.set_keep_alive(30);
        let (client, mut events) = AsyncClient::builder(options).capacity(512).build();
        soon(events.poll()).await.map_err(|err| Trouble::of(&err))?;
        let (sender, incoming) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            while let Ok(event) = events.poll().await {
                if let Event::Incoming(Packet::Publish(publish)) = event {
                    let _ = sender.send(publish);
                }
            }
        });
        Ok(RawClient { client, incoming, task })
    }

    /// Publishes with QoS 1, and says what the broker answered.
    pub async fn publish(&self, topic: &str, payload: &str, retain: bool) -> Result<(), PublishNoticeError> {
        let options = PublishOptions::at_least_once().retain(retain);
        let notice = self.client.publish_tracked(topic, payload, options).await.expect("queued");
        soon(notice.wait_completion_async()).await
    }

    /// Subscribes, and says whether the broker allows it.
    pub async fn subscribe(&self, filter: &str) -> bool {
        let notice = self.client.subscribe_tracked(filter, QoS::AtLeastOnce).await.expect("queued");
        soon(notice.wait_completion_async()).await.is_ok()
    }
}

impl Drop for RawClient {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A gateway's session and publisher on a broker, with a plant that a test writes by hand.
pub struct Gateway {
    pub registry: Arc<Registry>,
    pub board: Arc<Board>,
    pub facts: Arc<Facts>,
    pub bus: Bus,
    pub incoming: mpsc::Receiver<Incoming>,
    stop_publisher: CancellationToken,
    stop_session: CancellationToken,
    publisher: JoinHandle<()>,
    session: JoinHandle<()>,
}

impl Gateway {
    /// Starts both tasks. Does not wait for the broker.
    pub fn start(access: BrokerAccess, qos: u8) -> Gateway {
        let registry = Arc::new(registry());
        let board = Arc::new(Board::new(Arc::clone(&registry)));
        let facts = Arc::new(Facts::new());
        let status_every = Duration::from_millis(300);
        let keep_alive = Duration::from_secs(5);
        let settings = SessionSettings { gateway: gateway(), access, keep_alive, renewed_every: status_every };
        let (session, bus, incoming) = Session::open(settings, Arc::clone(&facts)).expect("settings");
        let publisher = Publisher {
            gateway: gateway(),
            config: PublishConfig {
                qos,
                at_least_every: Duration::from_secs(60),
                status_every,
                grouping: Grouping::Sensor,
            },
            registry: Arc::clone(&registry),
            board: Arc::clone(&board),
            facts: Arc::clone(&facts),
            bus: bus.clone(),
            catalog: Arc::new(|| json!({"tools": ["list_sensors"]})),
        };
        let (stop_publisher, stop_session) = (CancellationToken::new(), CancellationToken::new());
        Gateway {
            registry,
            board,
            facts,
            bus,
            incoming,
            publisher: tokio::spawn(publisher.run(stop_publisher.clone())),
            session: tokio::spawn(session.run(stop_session.clone())),
            stop_publisher,
            stop_session,
        }
    }

    /// The device answers now, for the first sensor.
    pub fn answer(&self, value: f64) {
        let sensor = self.registry.find_sensor("A_LINE1_042").expect("known");
        let number = Value::Float(Finite::new(value).expect("finite"));
        let words = [(value as f32).to_bits() as u16, ((value as f32).to_bits() >> 16) as u16];
        let sample = Sample::new(number, &words, true, clock::now());
        self.board.sensor_answered(sensor, sample, Duration::from_secs(60));
    }

    /// Stops in the order of the daemon: the publisher has the last word, then the session ends.
    pub async fn stop(self) {
        self.stop_publisher.cancel();
        soon(self.publisher).await.expect("the publisher ends");
        self.stop_session.cancel();
        soon(self.session).await.expect("the session ends");
    }

    /// Ends both tasks as a kill would: the socket closes without a farewell.
    pub fn kill(self) {
        self.publisher.abort();
        self.session.abort();
    }
}

/// The next message on this topic that meets the condition, as JSON.
pub async fn message_on(messages: &mut Messages, topic: &str, wanted: impl Fn(&Json) -> bool) -> (Json, bool) {
    let found = async {
        loop {
            let message = messages.next().await.expect("the broker is there");
            if message.topic == topic {
                let json = serde_json::from_slice(&message.payload).expect("JSON");
                if wanted(&json) {
                    return (json, message.retained);
                }
            }
        }
    };
    soon(found).await
}

/// A broker of a few lines, for what a real one would not do.
pub struct FakeBroker {
    stream: TcpStream,
}

impl FakeBroker {
    /// Takes a connection and its CONNECT, and accepts it. Returns the CONNECT as bytes.
    pub async fn accept(listener: &TcpListener) -> (FakeBroker, Vec<u8>) {
        let (stream, _) = soon(listener.accept()).await.expect("a connection");
        let mut broker = FakeBroker { stream };
        let connect = broker.packet(0x10).await;
        // CONNACK: no session, success, no properties.
        broker.send(&[0x20, 3, 0, 0, 0]).await;
        (broker, connect)
    }

    /// Reads up to the next packet of this type, and returns its body.
    pub async fn packet(&mut self, first: u8) -> Vec<u8> {
        loop {
            let kind = soon(self.stream.read_u8()).await.expect("a packet");
            let mut length = 0;
            for shift in [0, 7, 14, 21] {
                let byte = soon(self.stream.read_u8()).await.expect("a length");
                length |= usize::from(byte & 0x7f) << shift;
                if byte & 0x80 == 0 {
                    break;
                }
            }
            let mut body = vec![0; length];
            soon(self.stream.read_exact(&mut body)).await.expect("a body");
            if kind & 0xf0 == first {
                return body;
            }
        }
    }

    /// Accepts the next subscription.
    pub async fn grant_subscription(&mut self) {
        let subscribe = self.packet(0x80).await;
        self.send(&[0x90, 4, subscribe[0], subscribe[1], 0, 1]).await;
    }

    /// Sends bytes.
    pub async fn send(&mut self, bytes: &[u8]) {
        soon(self.stream.write_all(bytes)).await.expect("sent");
    }
}
