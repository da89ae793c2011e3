//! The gateway's session with its broker: one task that drives the client's event loop and does nothing else with it.
//!
//! Every connection gets a client of its own and a clean start, so that nothing of an old session (a queued message, an
//! acknowledgement, a subscription) can reach a new one. What has to survive an outage is kept where it is made: readings
//! as marks on the board, answers in the duplicate rule's store. Publishing happens elsewhere, through the [`Bus`]: from
//! here it would wait for a queue that only this task empties.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rumqttc::mqttbytes::QoS;
use rumqttc::{
    AckMode, AsyncClient, ConnAck, Event, EventLoop, LastWill, MqttOptions, Packet, Publish, RetainForwardRule, SubAck,
    SubscribeFilterInput, SubscribeReasonCode,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::clock;
use crate::facts::Facts;
use crate::gate::bus::{Ack, Bus, Incoming, Live};
use crate::gate::connect::{AccessError, BrokerAccess, Retry, Trouble};
use crate::gate::publisher::gateway_status;
use crate::gate::socket::{self, Lane};
use crate::gate::topics::Topics;
use crate::gate::wire::{Presence, status_json};
use crate::ids::GatewayId;
use crate::progress::Pledge;

/// How many requests the broker may send before the first of them is acknowledged.
const RECEIVE_MAXIMUM: u16 = 64;

/// Room for requests on their way to dispatch. A QoS 0 request that finds as many waiting as a broker may send is dropped
/// and counted, because it asked for no more than that. The rest is for QoS 1 alone, and is far more than Receive Maximum
/// should need: Mosquitto 2.0.11 stops there, but sends all that it has queued (1,000 messages unless set otherwise) after
/// the next acknowledgement. What finds even this full is dropped, counted, and acknowledged, so that the broker goes on.
const REQUESTS: usize = 1024 + RECEIVE_MAXIMUM as usize;

/// The bytes that all requests take together, from their arrival to their acknowledgement; the same rules hold when they
/// are used up.
pub const REQUEST_BYTES: usize = 8 << 20;

/// Room for messages on their way to the client. When it is full, whoever publishes waits.
const CLIENT_QUEUE: usize = 64;

/// How long a broker may take from the connection to the confirmed subscription.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the farewell may take when the gateway stops, and how much of that is for messages not yet acknowledged.
const FAREWELL: Duration = Duration::from_secs(2);
const LAST_ACKS: Duration = Duration::from_secs(1);

/// What a session needs to know.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// Which gateway.
    pub gateway: GatewayId,
    /// How to reach the broker.
    pub access: BrokerAccess,
    /// The longest silence before either side asks whether the other is there.
    pub keep_alive: Duration,
    /// How often the gateway's status is renewed; the will says so too.
    pub renewed_every: Duration,
}

/// The client id of a gateway.
pub fn client_id(gateway: &GatewayId) -> String {
    format!("fieldgate-{gateway}")
}

/// A session that can be run.
#[derive(Debug)]
pub struct Session {
    settings: SessionSettings,
    options: MqttOptions,
    topics: Topics,
    facts: Arc<Facts>,
    connection: watch::Sender<Option<Live>>,
    requests: mpsc::Sender<Incoming>,
    room: Arc<Semaphore>,
    generation: u64,
    pledge: Pledge,
}

/// How a connection ended.
enum Ended {
    Stopped,
    Failed { trouble: Trouble, up_for: Option<Duration> },
}

impl Session {
    /// Prepares a session: checks what can be checked without the broker, and connects nothing yet.
    pub fn open(
        settings: SessionSettings,
        facts: Arc<Facts>,
    ) -> Result<(Session, Bus, mpsc::Receiver<Incoming>), AccessError> {
        let mut options = settings.access.options(&client_id(&settings.gateway))?;
        options.set_keep_alive(u16::try_from(settings.keep_alive.as_secs()).unwrap_or(u16::MAX));
        options.set_receive_maximum(Some(RECEIVE_MAXIMUM));
        options.set_ack_mode(AckMode::Manual);
        let (connection, connected) = watch::channel(None);
        let (requests, incoming) = mpsc::channel(REQUESTS);
        let topics = Topics::new(&settings.gateway);
        let room = Arc::new(Semaphore::new(REQUEST_BYTES));
        let pledge = Pledge::default();
        let session = Session { settings, options, topics, facts, connection, requests, room, generation: 0, pledge };
        Ok((session, Bus::new(connected), incoming))
    }

    /// Lets somebody watch whether the session makes progress.
    pub fn watched_by(self, pledge: Pledge) -> Session {
        Session { pledge, ..self }
    }

    /// Keeps the session up until it is told to stop; then says goodbye, so that the broker does not publish the will.
    ///
    /// Stop it after the publisher, which has the last word on `status`.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut retry = Retry::default();
        let mut outage = Outage::default();
        loop {
            let ended = self.one_connection(&stop, &mut outage).await;
            self.connection.send_replace(None);
            let Ended::Failed { trouble, up_for } = ended else { break };
            let trouble = retry.judge(trouble, up_for);
            self.facts.set_broker(false, Some(trouble.to_string()));
            let pause = retry.pause(&trouble, up_for, rand::random());
            outage.report(&self.settings.access.address(), &trouble, pause);
            self.pledge.within(pause);
            tokio::select! {
                () = sleep(pause) => {}
                () = stop.cancelled() => break,
            }
        }
        self.facts.set_broker(false, Some("the gateway is stopping".into()));
    }

    async fn one_connection(&mut self, stop: &CancellationToken, outage: &mut Outage) -> Ended {
        let mut options = self.options.clone();
        options.set_last_will(self.will());
        let lane = Arc::new(Mutex::new(None));
        if self.settings.access.tls.is_none() {
            share_socket(&mut options, Arc::clone(&lane));
        }
        let (client, mut events) = AsyncClient::builder(options).capacity(CLIENT_QUEUE).build();
        self.pledge.within(SUBSCRIBE_TIMEOUT);
        let subscribed = tokio::select! {
            subscribed = timeout(SUBSCRIBE_TIMEOUT, self.subscribe(&client, &mut events)) => subscribed,
            () = stop.cancelled() => return Ended::Stopped,
        };
        let (connack, refusal) = match subscribed {
            Ok(Ok(subscribed)) => subscribed,
            Ok(Err(trouble)) => return Ended::Failed { trouble, up_for: None },
            Err(_) => {
                let said = "it did not answer the connection or the subscription in time".into();
                return Ended::Failed { trouble: Trouble::Away { said }, up_for: None };
            }
        };
        let up_since = clock::instant();
        let lane = lane.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        self.come_up(&client, &connack, lane, refusal, outage);
        match self.serve(&client, &mut events, stop).await {
            Some(trouble) => {
                Ended::Failed { trouble, up_for: Some(clock::instant().saturating_duration_since(up_since)) }
            }
            None => Ended::Stopped,
        }
    }

    /// Connects and subscribes. The second part is why the broker refuses the subscription, if it does.
    async fn subscribe(
        &self,
        client: &AsyncClient,
        events: &mut EventLoop,
    ) -> Result<(ConnAck, Option<SubscribeReasonCode>), Trouble> {
        let mut accepted = None;
        loop {
            match events.poll().await.map_err(|err| Trouble::of(&err))? {
                Event::Incoming(Packet::ConnAck(connack)) => {
                    // The queue of a new client has room, and this task must not wait for it.
                    let queued = client.try_subscribe_many([self.request_filter()]);
                    queued.map_err(|err| Trouble::Protocol { said: err.to_string() })?;
                    accepted = Some(connack);
                }
                Event::Incoming(Packet::SubAck(SubAck { return_codes, .. })) => {
                    let refused = |code: &SubscribeReasonCode| !matches!(code, SubscribeReasonCode::Success(_));
                    let refusal = return_codes.into_iter().find(refused);
                    if let Some(connack) = accepted.take() {
                        return Ok((connack, refusal));
                    }
                }
                Event::Incoming(Packet::Publish(publish)) => self.take(client, publish),
                _ => {}
            }
        }
    }

    /// All callers' requests, without those that the broker has kept; kept ones that come anyway keep their mark.
    fn request_filter(&self) -> SubscribeFilterInput {
        SubscribeFilterInput::new(self.topics.all_requests(), QoS::AtLeastOnce)
            .no_local(true)
            .preserve_retain(true)
            .retain_forward_rule(RetainForwardRule::Never)
    }

    fn come_up(
        &mut self,
        client: &AsyncClient,
        connack: &ConnAck,
        lane: Option<Lane>,
        refusal: Option<SubscribeReasonCode>,
        outage: &mut Outage,
    ) {
        let address = self.settings.access.address();
        let deaf = refusal.map(|code| {
            let filter = self.topics.all_requests();
            format!("the broker refuses the subscription to {filter} ({code:?}): readings are published, but no call arrives; allow it in the broker's access rules")
        });
        if let Some(deaf) = &deaf {
            error!(broker = %address, "{deaf}");
        }
        outage.over(&address);
        self.facts.set_broker(true, deaf);
        self.generation += 1;
        let maximum_packet_size = connack.properties.as_ref().and_then(|properties| properties.max_packet_size);
        let keeps_messages = connack.properties.as_ref().and_then(|properties| properties.retain_available) != Some(0);
        // The client refuses what such a broker would close the connection over; then everything goes through it.
        let lane = lane.filter(|_| keeps_messages);
        let live = Live { client: client.clone(), generation: self.generation, maximum_packet_size, lane };
        self.connection.send_replace(Some(live));
    }

    /// Drives the session until it fails (`Some`) or the gateway stops.
    async fn serve(&self, client: &AsyncClient, events: &mut EventLoop, stop: &CancellationToken) -> Option<Trouble> {
        let mut stopped = std::pin::pin!(stop.cancelled());
        loop {
            // An idle client asks for a sign of life after each keep-alive, which is an event. None for longer than that: the
            // broker takes nothing more, and the client waits for it to, without looking at the time.
            let patience = self.settings.keep_alive * 2;
            self.pledge.within(patience);
            let event = {
                let mut poll = std::pin::pin!(events.poll());
                // In this order: there is an event for each packet that was sent, and mostly one is there already.
                tokio::select! {
                    biased;
                    event = &mut poll, if !stop.is_cancelled() => event,
                    () = sleep(patience), if !stop.is_cancelled() => {
                        return Some(Trouble::Away { said: "it takes nothing any more".into() });
                    }
                    () = &mut stopped => {
                        // The farewell waits in a queue of its own, and the poll under way will find it.
                        let _ = client.try_disconnect_with_timeout(LAST_ACKS);
                        let _ = timeout(FAREWELL, poll).await;
                        break;
                    }
                }
            };
            match event {
                Ok(Event::Incoming(Packet::Publish(publish))) => self.take(client, publish),
                Ok(_) => {}
                Err(err) => return Some(Trouble::of(&err)),
            }
        }
        // Ends by itself: when the farewell has been sent, the client has nothing more to do.
        let farewell = async { while events.poll().await.is_ok() {} };
        let _ = timeout(FAREWELL, farewell).await;
        None
    }

    /// Hands a request on. Never waits.
    fn take(&self, client: &AsyncClient, publish: Publish) {
        let ack = client.prepare_ack(&publish);
        let Some((place, room)) = self.place_for(&publish) else {
            self.facts.count_dropped_request();
            debug!(qos = ?publish.qos, "a request was dropped, because too many wait");
            // A client whose own queue is full, too, leaves it to the broker to send the request again.
            let _ = ack.map(|ack| client.try_manual_ack(ack));
            return;
        };
        let ack = Ack::of(ack.map(|ack| (client.clone(), ack)), room);
        match into_incoming(publish, ack) {
            Ok(incoming) => {
                place.send(incoming);
            }
            Err(topic) => warn!(?topic, "a message came on a topic that is no text"),
        }
    }

    /// A place in the queue and the bytes for a request, if there are both.
    fn place_for(&self, publish: &Publish) -> Option<(mpsc::Permit<'_, Incoming>, OwnedSemaphorePermit)> {
        let waiting = REQUESTS - self.requests.capacity();
        if publish.qos == QoS::AtMostOnce && waiting >= usize::from(RECEIVE_MAXIMUM) {
            return None;
        }
        let bytes = u32::try_from(publish.payload.len()).ok()?;
        let room = self.room.clone().try_acquire_many_owned(bytes).ok()?;
        Some((self.requests.try_reserve().ok()?, room))
    }

    /// What the broker says for us when it loses us.
    fn will(&self) -> LastWill {
        let status = gateway_status(&self.facts, &self.settings.gateway, Presence::Lost, self.settings.renewed_every);
        LastWill::new(self.topics.status(), status_json(&status).to_string(), QoS::AtLeastOnce, true, None)
    }
}

/// Has the client connect through a socket whose other end is put into `lane`.
fn share_socket(options: &mut MqttOptions, lane: Arc<Mutex<Option<Lane>>>) {
    options.set_socket_connector(move |address, network| {
        let lane = Arc::clone(&lane);
        async move {
            let (socket, ours) = socket::share(rumqttc::default_socket_connect(address, network).await?);
            *lane.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(ours);
            Ok(socket)
        }
    });
}

fn into_incoming(publish: Publish, ack: Ack) -> Result<Incoming, Bytes> {
    let topic = String::from_utf8(publish.topic.to_vec()).map_err(|_| publish.topic)?;
    let properties = publish.properties.unwrap_or_default();
    Ok(Incoming {
        topic,
        payload: publish.payload,
        retained: publish.retain,
        response_topic: properties.response_topic,
        correlation_data: properties.correlation_data,
        expiry: properties.message_expiry_interval.map(|seconds| Duration::from_secs(u64::from(seconds))),
        arrived: clock::now(),
        ack,
    })
}

/// Tells an outage once, and its end once.
#[derive(Debug, Default)]
struct Outage {
    reported: Option<(std::mem::Discriminant<Trouble>, Instant)>,
    was_up: bool,
}

impl Outage {
    fn report(&mut self, address: &str, trouble: &Trouble, pause: Duration) {
        let kind = std::mem::discriminant(trouble);
        let since = match self.reported {
            Some((reported, _)) if reported == kind => return debug!(broker = address, ?pause, "still: {trouble}"),
            Some((_, since)) => since,
            None => clock::instant(),
        };
        self.reported = Some((kind, since));
        match trouble {
            Trouble::Away { .. } => warn!(broker = address, ?pause, "{trouble}; it is tried again until it answers"),
            _ => error!(broker = address, ?pause, "{trouble}; it is tried again now and then"),
        }
    }

    fn over(&mut self, address: &str) {
        match self.reported.take() {
            Some((_, since)) => {
                let away_for = clock::instant().saturating_duration_since(since);
                info!(broker = address, ?away_for, "the broker is there again");
            }
            None if self.was_up => info!(broker = address, "the session with the broker was renewed"),
            None => info!(broker = address, "connected to the broker"),
        }
        self.was_up = true;
    }
}
