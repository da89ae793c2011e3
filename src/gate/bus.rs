//! Messages in and out, as the rest of the daemon sees them: nothing here names an MQTT client's types in its face.
//!
//! The session owns the client's event loop and is the only writer of [`Connection`]; everyone else holds a [`Bus`]. While
//! the broker is away nothing is queued: a publish waits, no longer than its own expiry, and a caller that must not wait
//! asks [`Bus::is_connected`] first.

use std::time::{Duration, Instant};

use bytes::Bytes;
use rumqttc::mqttbytes::QoS;
use rumqttc::mqttbytes::v5::PublishProperties;
use rumqttc::{AsyncClient, ManualAck, PublishNoticeError, PublishOptions};
use tokio::sync::{mpsc, watch};

use crate::clock;
use crate::registry::reading::Stamp;

/// One message that arrived on a request topic.
#[derive(Debug)]
pub struct Incoming {
    /// The topic it came on.
    pub topic: String,
    /// What it carries.
    pub payload: Bytes,
    /// Whether the broker had kept it. A retained request is never executed.
    pub retained: bool,
    /// The MQTT 5 Response Topic, as the caller wrote it.
    pub response_topic: Option<String>,
    /// The MQTT 5 Correlation Data, to be returned unchanged.
    pub correlation_data: Option<Bytes>,
    /// What was left of the Message Expiry Interval when it arrived.
    pub expiry: Option<Duration>,
    /// When it arrived here.
    pub arrived: Stamp,
    /// How it is acknowledged.
    pub ack: Ack,
}

/// Acknowledges a request to the broker. Dropped without [`Ack::done`] it leaves the request unacknowledged.
#[derive(Debug)]
pub struct Ack(Option<PendingAck>);

#[derive(Debug)]
struct PendingAck {
    client: AsyncClient,
    ack: ManualAck,
    generation: u64,
    connection: watch::Receiver<Connection>,
}

impl Ack {
    /// An acknowledgement that nobody waits for: of a QoS 0 message, or in a test.
    pub fn none() -> Ack {
        Ack(None)
    }

    /// The acknowledgement of a message of this session.
    pub(super) fn of(client: AsyncClient, ack: ManualAck, connection: watch::Receiver<Connection>) -> Ack {
        let generation = connection.borrow().generation;
        Ack(Some(PendingAck { client, ack, generation, connection }))
    }

    /// Sends the acknowledgement. In another session than the message's it would name a packet that the broker does not
    /// know, so it is left out there.
    pub async fn done(self) {
        let Some(pending) = self.0 else { return };
        let same_session = {
            let connection = pending.connection.borrow();
            connection.up && connection.generation == pending.generation
        };
        if same_session {
            // The only failure is a client that has ended, and then nobody is left to acknowledge to.
            let _ = pending.client.manual_ack(pending.ack).await;
        }
    }
}

/// One message to publish.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    /// Where it goes.
    pub topic: String,
    /// What it carries.
    pub payload: Bytes,
    /// Whether the broker keeps it.
    pub retain: bool,
    /// The quality of service.
    pub qos: Qos,
    /// What MQTT 5 carries beside the payload.
    pub properties: OutgoingProperties,
}

/// The qualities of service in use; two of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qos {
    /// QoS 0.
    AtMostOnce,
    /// QoS 1.
    AtLeastOnce,
}

/// What MQTT 5 carries beside a payload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutgoingProperties {
    /// The caller's own, returned unchanged.
    pub correlation_data: Option<Bytes>,
    /// After this long the message is of no use: the broker drops it, and so does [`Bus::publish`].
    pub expiry: Option<Duration>,
    /// The kind of the payload: `application/json`.
    pub content_type: Option<&'static str>,
}

/// Why a message was not published.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The gateway is stopping.
    #[error("the broker session has ended")]
    Stopped,
    /// The broker was away until the message expired.
    #[error("the message to {topic} expired before the broker took it")]
    Expired {
        /// Where it was to go.
        topic: String,
    },
    /// The broker would close the connection over it.
    #[error("the message to {topic} takes {size} bytes, and the broker takes {limit} at most")]
    TooLarge {
        /// Where it was to go.
        topic: String,
        /// The size of its packet.
        size: usize,
        /// The broker's Maximum Packet Size.
        limit: u32,
    },
    /// The topic is none that can be published to.
    #[error("{topic:?} is no topic to publish to")]
    BadTopic {
        /// The text in question.
        topic: String,
    },
    /// The broker refused it.
    #[error("the broker did not take the message to {topic}")]
    Refused {
        /// Where it was to go.
        topic: String,
        /// What the broker said.
        #[source]
        err: PublishNoticeError,
    },
    /// The connection went before the broker confirmed it: it may have arrived, or not.
    #[error("the connection went before the broker confirmed the message to {topic}")]
    Unconfirmed {
        /// Where it was to go.
        topic: String,
    },
}

/// Whether there is a session now, and what it allows. The session task alone writes it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Connection {
    pub up: bool,
    pub generation: u64,
    pub maximum_packet_size: Option<u32>,
}

/// Where messages are handed over. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Bus(Line);

#[derive(Clone, Debug)]
enum Line {
    Client { client: AsyncClient, connection: watch::Receiver<Connection> },
    Recording(mpsc::Sender<Outgoing>),
}

impl Bus {
    pub(super) fn new(client: AsyncClient, connection: watch::Receiver<Connection>) -> Bus {
        Bus(Line::Client { client, connection })
    }

    /// A bus without a broker, for tests: what is published arrives at the receiver, of which 1024 wait at most.
    pub fn recording() -> (Bus, mpsc::Receiver<Outgoing>) {
        let (sender, receiver) = mpsc::channel(1024);
        (Bus(Line::Recording(sender)), receiver)
    }

    /// Whether there is a session now.
    pub fn is_connected(&self) -> bool {
        match &self.0 {
            Line::Client { connection, .. } => connection.borrow().up,
            Line::Recording(_) => true,
        }
    }

    /// Waits until there is a session; false when there never will be one again.
    pub async fn connected(&self) -> bool {
        match &self.0 {
            Line::Client { connection, .. } => connection.clone().wait_for(|connection| connection.up).await.is_ok(),
            Line::Recording(_) => true,
        }
    }

    /// Hands a message to the client's queue; waits for a session, and for room, until it expires.
    pub async fn publish(&self, message: Outgoing) -> Result<(), BusError> {
        match &self.0 {
            Line::Client { client, connection } => {
                let topic = message.topic.clone();
                let handed = bounded(&topic, message.properties.expiry, async {
                    let message = admit(message, connection.clone()).await?;
                    let options = message.options();
                    client.publish(message.topic, message.payload, options).await.map_err(|err| refused(&topic, err))
                });
                handed.await
            }
            Line::Recording(sender) => sender.send(message).await.map_err(|_| BusError::Stopped),
        }
    }

    /// Publishes a message, and returns when the broker has confirmed it (QoS 1) or it has left the socket (QoS 0).
    pub async fn publish_confirmed(&self, message: Outgoing) -> Result<(), BusError> {
        match &self.0 {
            Line::Client { client, connection } => {
                let topic = message.topic.clone();
                let notice = bounded(&topic, message.properties.expiry, async {
                    let message = admit(message, connection.clone()).await?;
                    let options = message.options();
                    let queued = client.publish_tracked(message.topic, message.payload, options).await;
                    queued.map_err(|err| refused(&topic, err))
                });
                notice.await?.wait_completion_async().await.map_err(|err| match err {
                    PublishNoticeError::Recv
                    | PublishNoticeError::SessionReset
                    | PublishNoticeError::BrokerOnlySessionResume
                    | PublishNoticeError::Qos0NotFlushed => BusError::Unconfirmed { topic },
                    err => BusError::Refused { topic, err },
                })
            }
            Line::Recording(sender) => sender.send(message).await.map_err(|_| BusError::Stopped),
        }
    }
}

async fn bounded<T>(
    topic: &str,
    expiry: Option<Duration>,
    work: impl Future<Output = Result<T, BusError>>,
) -> Result<T, BusError> {
    match expiry {
        Some(expiry) => match tokio::time::timeout(expiry, work).await {
            Ok(result) => result,
            Err(_) => Err(BusError::Expired { topic: topic.to_owned() }),
        },
        None => work.await,
    }
}

/// Waits for a session, and checks the message against what the broker takes: one that is too large would close the
/// connection, and the client would send it again after each reconnect, for ever.
async fn admit(mut message: Outgoing, mut connection: watch::Receiver<Connection>) -> Result<Outgoing, BusError> {
    let began: Instant = clock::instant();
    let now = *connection.wait_for(|connection| connection.up).await.map_err(|_| BusError::Stopped)?;
    if let Some(expiry) = &mut message.properties.expiry {
        *expiry = expiry.saturating_sub(clock::instant().saturating_duration_since(began));
    }
    let size = message.packet_size();
    match now.maximum_packet_size {
        Some(limit) if size > limit as usize => Err(BusError::TooLarge { topic: message.topic, size, limit }),
        _ => Ok(message),
    }
}

fn refused(topic: &str, err: rumqttc::ClientError) -> BusError {
    match err {
        rumqttc::ClientError::InvalidRequest(_) => BusError::BadTopic { topic: topic.to_owned() },
        _ => BusError::Stopped,
    }
}

/// The longest fixed header, packet identifier and lengths of a PUBLISH (MQTT 5, section 3.3).
const PUBLISH_OVERHEAD: usize = 5 + 2 + 2 + 4;

impl Outgoing {
    /// The most bytes that its packet takes.
    fn packet_size(&self) -> usize {
        let properties = &self.properties;
        let correlation = properties.correlation_data.as_ref().map_or(0, |data| 3 + data.len());
        let content_type = properties.content_type.map_or(0, |text| 3 + text.len());
        let expiry = if properties.expiry.is_some() { 5 } else { 0 };
        // 2: the Payload Format Indicator.
        PUBLISH_OVERHEAD + self.topic.len() + correlation + content_type + expiry + 2 + self.payload.len()
    }

    fn options(&self) -> PublishOptions {
        let qos = match self.qos {
            Qos::AtMostOnce => QoS::AtMostOnce,
            Qos::AtLeastOnce => QoS::AtLeastOnce,
        };
        let properties = PublishProperties {
            // 1: the payload is UTF-8 (MQTT 5, section 3.3.2.3.2).
            payload_format_indicator: self.properties.content_type.map(|_| 1),
            // The broker counts in whole seconds; a started one counts, so that an answer is never dropped too early.
            message_expiry_interval: self.properties.expiry.map(whole_seconds),
            correlation_data: self.properties.correlation_data.clone(),
            content_type: self.properties.content_type.map(str::to_owned),
            ..PublishProperties::default()
        };
        PublishOptions::new(qos).retain(self.retain).properties(properties)
    }
}

fn whole_seconds(expiry: Duration) -> u32 {
    u32::try_from(expiry.as_millis().div_ceil(1000)).unwrap_or(u32::MAX)
}
