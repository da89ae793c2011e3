//! Messages in and out, as the rest of the daemon sees them: nothing here names an MQTT client's types in its face.
//!
//! The session owns the client's event loop; everyone else holds a [`Bus`]. While the broker is away nothing is queued: a
//! publish waits, no longer than its own expiry, and [`Bus::publish_now`] does not even wait.

use std::time::Duration;

use bytes::Bytes;
use rumqttc::mqttbytes::QoS;
use rumqttc::mqttbytes::v5::PublishProperties;
use rumqttc::{AsyncClient, ClientError, ManualAck, PublishNotice, PublishNoticeError, PublishOptions, Request};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use super::socket::{Lane, put_publish};
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

/// Acknowledges a request to the broker. Dropped without [`Ack::done`] it leaves the request unacknowledged. Either way it
/// gives back the room that the request took in memory.
#[derive(Debug)]
pub struct Ack {
    pending: Option<(AsyncClient, ManualAck)>,
    _room: Option<OwnedSemaphorePermit>,
}

impl Ack {
    /// An acknowledgement that nobody waits for: of a QoS 0 message, or in a test.
    pub fn none() -> Ack {
        Ack { pending: None, _room: None }
    }

    /// The acknowledgement of a message that takes this much room; `None` is for a message that wants none.
    pub(super) fn of(pending: Option<(AsyncClient, ManualAck)>, room: OwnedSemaphorePermit) -> Ack {
        Ack { pending, _room: Some(room) }
    }

    /// Sends the acknowledgement.
    pub async fn done(self) {
        if let Some((client, ack)) = self.pending {
            // Every session has a client of its own. After a reconnect this one has ended, and its error is right: in the
            // new session the packet identifier would name another message.
            let _ = client.manual_ack(ack).await;
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
    /// There is no session, and the message was not to wait for one.
    #[error("the broker is away, and the message to {topic} was not to wait")]
    Away {
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

/// One session with the broker, and what it allows.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub client: AsyncClient,
    /// Which session since the start; the first is 1.
    pub generation: u64,
    pub maximum_packet_size: Option<u32>,
    /// The short way of readings at QoS 0, where there is one.
    pub lane: Option<Lane>,
}

/// The session now, if there is one. The session task alone writes it.
pub(super) type Connection = watch::Receiver<Option<Live>>;

/// Where messages are handed over. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Bus(Line);

#[derive(Clone, Debug)]
enum Line {
    Broker(Connection),
    Recording(mpsc::Sender<Outgoing>),
}

impl Bus {
    pub(super) fn new(connection: Connection) -> Bus {
        Bus(Line::Broker(connection))
    }

    /// A bus without a broker, for tests: what is published arrives at the receiver, of which 1024 wait at most.
    pub fn recording() -> (Bus, mpsc::Receiver<Outgoing>) {
        let (sender, receiver) = mpsc::channel(1024);
        (Bus(Line::Recording(sender)), receiver)
    }

    /// Whether there is a session now.
    pub fn is_connected(&self) -> bool {
        match &self.0 {
            Line::Broker(connection) => connection.borrow().is_some(),
            Line::Recording(_) => true,
        }
    }

    /// Waits for a session later than this one; `None` when there never will be one again.
    pub async fn next_session(&self, after: u64) -> Option<u64> {
        match &self.0 {
            Line::Broker(connection) => {
                next_live(&mut connection.clone(), after).await.ok().map(|live| live.generation)
            }
            Line::Recording(_) if after == 0 => Some(1),
            Line::Recording(_) => std::future::pending().await,
        }
    }

    /// The way into this session, if it is still the present one.
    pub fn outlet(&self, generation: u64) -> Option<Outlet> {
        match &self.0 {
            Line::Broker(connection) => {
                let live = connection.borrow().clone().filter(|live| live.generation == generation)?;
                Some(Outlet(Way::Session(live)))
            }
            Line::Recording(sender) => Some(Outlet(Way::Recording(sender.clone()))),
        }
    }

    /// Waits until this session is over.
    pub async fn session_lost(&self, generation: u64) {
        match &self.0 {
            Line::Broker(connection) => {
                let other = |live: &Option<Live>| live.as_ref().is_none_or(|live| live.generation != generation);
                // An error is the end of the session task, and so of the session.
                let _ = connection.clone().wait_for(other).await;
            }
            Line::Recording(_) => std::future::pending().await,
        }
    }

    /// Hands a message to the client's queue; waits for a session, and for room, until it expires.
    pub async fn publish(&self, message: Outgoing) -> Result<(), BusError> {
        match &self.0 {
            Line::Broker(connection) => hand_over(&message, connection.clone(), Wait::ForSession, queue).await,
            Line::Recording(sender) => sender.send(message).await.map_err(|_| BusError::Stopped),
        }
    }

    /// Hands a message to the client's queue if there is a session now; waits for room only. For what is out of date
    /// after an outage: the copies of results.
    pub async fn publish_now(&self, message: Outgoing) -> Result<(), BusError> {
        match &self.0 {
            Line::Broker(connection) => hand_over(&message, connection.clone(), Wait::Never, queue).await,
            Line::Recording(sender) => sender.send(message).await.map_err(|_| BusError::Stopped),
        }
    }

    /// Publishes a message, and returns when the broker has confirmed it (QoS 1) or it has left the socket (QoS 0).
    pub async fn publish_confirmed(&self, message: Outgoing) -> Result<(), BusError> {
        match &self.0 {
            Line::Broker(connection) => {
                let notice = hand_over(&message, connection.clone(), Wait::ForSession, queue_tracked).await?;
                notice.wait_completion_async().await.map_err(|err| unconfirmed(message.topic, err))
            }
            Line::Recording(sender) => sender.send(message).await.map_err(|_| BusError::Stopped),
        }
    }
}

/// The way into one session, for a task that publishes much: nothing is looked up or copied for a message.
#[derive(Clone, Debug)]
pub struct Outlet(Way);

#[derive(Clone, Debug)]
enum Way {
    Session(Live),
    Recording(mpsc::Sender<Outgoing>),
}

impl Outlet {
    /// Whether readings at QoS 0 can go past the client's queue: [`Outlet::add`], then [`Outlet::send`].
    pub fn is_short(&self) -> bool {
        matches!(&self.0, Way::Session(live) if live.lane.is_some())
    }

    /// Adds a retained message of JSON at QoS 0 to those that are sent together.
    pub fn add(&self, packets: &mut Packets, topic: &str, payload: &[u8]) -> Result<(), BusError> {
        let before = packets.0.len();
        put_publish(&mut packets.0, topic, payload);
        let size = packets.0.len() - before;
        match &self.0 {
            Way::Session(Live { maximum_packet_size: Some(limit), .. }) if size > *limit as usize => {
                packets.0.truncate(before);
                Err(BusError::TooLarge { topic: topic.to_owned(), size, limit: *limit })
            }
            _ => Ok(()),
        }
    }

    /// Sends what was added; waits while the socket takes no more. What is lost with the session is marked anew with the
    /// next one.
    pub async fn send(&self, packets: &mut Packets) {
        if let Way::Session(Live { lane: Some(lane), .. }) = &self.0
            && !packets.0.is_empty()
        {
            // An error is the end of the session, which its own task notices.
            let _ = lane.send(&packets.0).await;
        }
        packets.0.clear();
    }

    /// Hands a message to the client's queue; waits for room only. `Away` when the session is over.
    pub async fn publish(&self, message: Outgoing) -> Result<(), BusError> {
        let live = match &self.0 {
            Way::Session(live) => live,
            Way::Recording(sender) => return sender.send(message).await.map_err(|_| BusError::Stopped),
        };
        message.check_size(live.maximum_packet_size)?;
        let options = message.options(message.properties.expiry);
        let queued = live.client.publish(message.topic, message.payload, options).await;
        queued.map_err(|err| match err {
            ClientError::InvalidRequest(request) => BusError::BadTopic { topic: topic_of(&request) },
            ClientError::RequestChannelFull(request) | ClientError::RequestChannelDisconnected(request) => {
                BusError::Away { topic: topic_of(&request) }
            }
            _ => BusError::Stopped,
        })
    }
}

/// Messages that are sent together.
#[derive(Debug, Default)]
pub struct Packets(Vec<u8>);

/// Where a request that was given back was to go.
fn topic_of(request: &Request) -> String {
    match request {
        Request::Publish(publish) => String::from_utf8_lossy(&publish.topic).into_owned(),
        _ => String::new(),
    }
}

async fn next_live(connection: &mut Connection, after: u64) -> Result<Live, BusError> {
    let later = |live: &Option<Live>| live.as_ref().is_some_and(|live| live.generation > after);
    let live = connection.wait_for(later).await.map_err(|_| BusError::Stopped)?.clone();
    live.ok_or(BusError::Stopped)
}

/// What to do while there is no session.
#[derive(Clone, Copy, PartialEq)]
enum Wait {
    ForSession,
    Never,
}

async fn queue(client: AsyncClient, message: Outgoing, options: PublishOptions) -> Result<(), ClientError> {
    client.publish(message.topic, message.payload, options).await
}

async fn queue_tracked(
    client: AsyncClient,
    message: Outgoing,
    options: PublishOptions,
) -> Result<PublishNotice, ClientError> {
    client.publish_tracked(message.topic, message.payload, options).await
}

/// Puts a message into the queue of the present session's client, or of a later one's if the session ends before the
/// message had a place: until then it has not left this process, so that it cannot be sent twice.
async fn hand_over<T, F>(
    message: &Outgoing,
    mut connection: Connection,
    wait: Wait,
    queue: impl Fn(AsyncClient, Outgoing, PublishOptions) -> F,
) -> Result<T, BusError>
where
    F: Future<Output = Result<T, ClientError>>,
{
    let topic = || message.topic.clone();
    let expires = message.properties.expiry.map(|expiry| clock::instant() + expiry);
    let work = async {
        let mut after = 0;
        loop {
            let live = match wait {
                Wait::ForSession => next_live(&mut connection, after).await?,
                Wait::Never => connection.borrow().clone().ok_or_else(|| BusError::Away { topic: topic() })?,
            };
            after = live.generation;
            message.check_size(live.maximum_packet_size)?;
            let left = expires.map(|moment| moment.saturating_duration_since(clock::instant()));
            match queue(live.client, message.clone(), message.options(left)).await {
                Err(ClientError::InvalidRequest(_)) => return Err(BusError::BadTopic { topic: topic() }),
                Err(_) if wait == Wait::Never => return Err(BusError::Away { topic: topic() }),
                Err(_) => {}
                Ok(done) => return Ok(done),
            }
        }
    };
    match message.properties.expiry {
        Some(expiry) => {
            let expired = |_| BusError::Expired { topic: topic() };
            tokio::time::timeout(expiry, work).await.map_err(expired)?
        }
        None => work.await,
    }
}

fn unconfirmed(topic: String, err: PublishNoticeError) -> BusError {
    match err {
        PublishNoticeError::Recv
        | PublishNoticeError::SessionReset
        | PublishNoticeError::BrokerOnlySessionResume
        | PublishNoticeError::Qos0NotFlushed => BusError::Unconfirmed { topic },
        err => BusError::Refused { topic, err },
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

    /// One that is too large would close the connection, and be sent again after each reconnect.
    fn check_size(&self, limit: Option<u32>) -> Result<(), BusError> {
        let size = self.packet_size();
        match limit {
            Some(limit) if size > limit as usize => Err(BusError::TooLarge { topic: self.topic.clone(), size, limit }),
            _ => Ok(()),
        }
    }

    fn options(&self, left: Option<Duration>) -> PublishOptions {
        let qos = match self.qos {
            Qos::AtMostOnce => QoS::AtMostOnce,
            Qos::AtLeastOnce => QoS::AtLeastOnce,
        };
        let properties = PublishProperties {
            // 1: the payload is UTF-8 (MQTT 5, section 3.3.2.3.2).
            payload_format_indicator: self.properties.content_type.map(|_| 1),
            // The broker counts in whole seconds; a started one counts, so that an answer is never dropped too early.
            message_expiry_interval: left.map(whole_seconds),
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
