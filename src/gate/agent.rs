//! A caller of our own: what `fieldgate call`, `watch`, `status` and `demo` speak, and what tests use. It is an ordinary
//! MQTT 5 client without any right or knowledge that another agent would not have.
//!
//! One connection, no reconnect: a caller that lost it asks again, under a new request.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use rumqttc::mqttbytes::QoS;
use rumqttc::{
    AsyncClient, Event, EventLoop, Packet, PubAckReason, Publish, PublishNotice, PublishNoticeError, PublishOptions,
    PublishProperties, PublishResult, SubscribeNoticeError, SubscribeReasonCode, matches,
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::gate::connect::{AccessError, BrokerAccess, Trouble};
use crate::gate::topics::Topics;
use crate::ids::{ClientId, GatewayId};

/// How long a broker may take to accept us and our subscription.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What the way through the broker may take beyond the deadline itself.
const ON_THE_WAY: Duration = Duration::from_millis(500);

/// Messages that wait for the reader of a subscription. When it is full, new ones are dropped and counted, because the
/// answers to requests come on the same connection and must not wait for a slow reader.
const MESSAGES: usize = 1024;

/// Why a caller has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The broker cannot even be tried.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The broker is not there, or does not want us.
    #[error("no connection to the broker at {address}: {trouble}{hint}")]
    NoBroker {
        /// Its address.
        address: String,
        /// Why not.
        trouble: Trouble,
        /// What to do about it.
        hint: &'static str,
    },
    /// The broker forbids what was to be published or read.
    #[error(
        "the broker does not let {client} use {topic} ({said}); its access rules have to bind this topic to this client id"
    )]
    NotAuthorised {
        /// Our client id.
        client: ClientId,
        /// The topic or filter.
        topic: String,
        /// What the broker said.
        said: String,
    },
    /// The broker says that nobody takes the request.
    #[error(
        "no gateway named {gateway} listens on the broker at {address}; start it with `fieldgate run`, or check the name and the broker"
    )]
    NobodyListens {
        /// The gateway that was asked.
        gateway: GatewayId,
        /// The broker's address.
        address: String,
    },
    /// No answer came in time.
    #[error(
        "the gateway {gateway} did not answer within {deadline:?}; check that `fieldgate run` is up and uses the broker at {address}"
    )]
    NoAnswer {
        /// The gateway that was asked.
        gateway: GatewayId,
        /// The broker's address.
        address: String,
        /// How long was waited.
        deadline: Duration,
    },
    /// The connection went while we waited. The request may have been served; ask again, with the same key if it writes.
    #[error("the connection to the broker at {address} was lost before the answer came: {said}")]
    Lost {
        /// The broker's address.
        address: String,
        /// Why.
        said: String,
    },
    /// The gateway answered with a JSON-RPC error.
    #[error("the gateway refuses the request: {message} (code {code})")]
    Rpc {
        /// The JSON-RPC code.
        code: i64,
        /// What the gateway says.
        message: String,
        /// Its further data, or null.
        data: Value,
    },
    /// The answer is none.
    #[error("the gateway answered with something that is no JSON-RPC answer")]
    NotAnAnswer,
}

/// A message that came on a subscription.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The topic it came on.
    pub topic: String,
    /// What it carries.
    pub payload: Bytes,
    /// Whether the broker had kept it from before the subscription.
    pub retained: bool,
}

/// The messages of one subscription, in their order.
#[derive(Debug)]
pub struct Messages {
    receiver: mpsc::Receiver<Message>,
    missed: Arc<AtomicU64>,
}

impl Messages {
    /// The next message; `None` when the connection has ended.
    pub async fn next(&mut self) -> Option<Message> {
        self.receiver.recv().await
    }

    /// How many messages were dropped, because the reader was too slow.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }
}

/// A connected caller.
#[derive(Debug)]
pub struct AgentClient {
    client: AsyncClient,
    name: ClientId,
    gateway: GatewayId,
    topics: Topics,
    address: String,
    shared: Arc<Mutex<Shared>>,
    next_id: AtomicU64,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: HashMap<String, oneshot::Sender<Value>>,
    streams: Vec<Stream>,
    ended: Option<String>,
}

#[derive(Debug)]
struct Stream {
    filter: String,
    sender: mpsc::Sender<Message>,
    missed: Arc<AtomicU64>,
}

impl AgentClient {
    /// Connects, and subscribes to its own answers.
    pub async fn connect(
        access: &BrokerAccess,
        gateway: &GatewayId,
        name: &ClientId,
    ) -> Result<AgentClient, AgentError> {
        let address = access.address();
        let mut options = access.options(name.as_str())?;
        options.set_keep_alive(15);
        let (client, mut events) = AsyncClient::builder(options).capacity(64).build();
        let topics = Topics::new(gateway);
        let answers = topics.response(name);
        let subscribed = match timeout(CONNECT_TIMEOUT, subscribe_first(&client, &mut events, &answers)).await {
            Ok(subscribed) => subscribed,
            Err(_) => Err(Trouble::Away { said: "no answer in time".into() }),
        };
        let refusal = subscribed.map_err(|trouble| no_broker(&address, trouble))?;
        if let Some(code) = refusal {
            return Err(AgentError::NotAuthorised { client: name.clone(), topic: answers, said: format!("{code:?}") });
        }
        let shared = Arc::new(Mutex::new(Shared::default()));
        let task = tokio::spawn(drive(events, answers, Arc::clone(&shared)));
        let (name, gateway) = (name.clone(), gateway.clone());
        Ok(AgentClient { client, name, gateway, topics, address, shared, next_id: AtomicU64::new(1), task })
    }

    /// Who this caller is.
    pub fn name(&self) -> &ClientId {
        &self.name
    }

    /// Calls a tool, and returns the result as MCP has it: `isError`, `structuredContent`, `content`.
    pub async fn call_tool(&self, tool: &str, arguments: Value, deadline: Duration) -> Result<Value, AgentError> {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}), deadline).await
    }

    /// Sends a JSON-RPC request, and returns its result.
    ///
    /// The deadline goes along twice: as Message Expiry Interval, which counts in seconds and which the broker heeds, and
    /// to the millisecond in `_meta`.
    pub async fn request(&self, method: &str, mut params: Value, deadline: Duration) -> Result<Value, AgentError> {
        let id = self.fresh_id();
        if let Some(params) = params.as_object_mut() {
            let meta = params.entry("_meta").or_insert_with(|| json!({}));
            if let Some(meta) = meta.as_object_mut() {
                meta.entry("fieldgate/deadline_ms").or_insert_with(|| (deadline.as_millis() as u64).into());
            }
        }
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        into_result(self.exchange(&request, deadline).await?)
    }

    /// Sends a whole JSON-RPC request as it is, and returns its whole answer.
    pub async fn exchange(&self, request: &Value, deadline: Duration) -> Result<Value, AgentError> {
        let correlation = self.fresh_id();
        let answer = self.expect(&correlation)?;
        let outcome = timeout(deadline + ON_THE_WAY, self.send(&correlation, request, deadline, answer)).await;
        self.lock().waiting.remove(&correlation);
        outcome.unwrap_or_else(|_| {
            Err(AgentError::NoAnswer { gateway: self.gateway.clone(), address: self.address.clone(), deadline })
        })
    }

    /// Sends a JSON-RPC notification, which has no answer.
    pub async fn tell(&self, notification: &Value) -> Result<(), AgentError> {
        let topic = self.topics.request(&self.name);
        let options = PublishOptions::at_least_once();
        let sent = self.client.publish_tracked(topic, notification.to_string(), options).await;
        sent.map(drop).map_err(|_| self.lost())
    }

    fn fresh_id(&self) -> String {
        format!("{:x}-{}", rand::random::<u32>(), self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// Subscribes to topics, kept messages included.
    pub async fn subscribe(&self, filter: &str) -> Result<Messages, AgentError> {
        let (sender, receiver) = mpsc::channel(MESSAGES);
        let missed = Arc::new(AtomicU64::new(0));
        // First the reader, then the subscription: kept messages may come before its confirmation.
        self.lock().streams.push(Stream { filter: filter.to_owned(), sender, missed: Arc::clone(&missed) });
        let notice = self.client.subscribe_tracked(filter, QoS::AtLeastOnce).await.map_err(|_| self.lost())?;
        match notice.wait_completion_async().await {
            Ok(()) => Ok(Messages { receiver, missed }),
            Err(SubscribeNoticeError::V5SubAckFailure(codes)) => Err(AgentError::NotAuthorised {
                client: self.name.clone(),
                topic: filter.to_owned(),
                said: format!("{codes:?}"),
            }),
            Err(_) => Err(self.lost()),
        }
    }

    /// Says goodbye to the broker.
    pub async fn close(mut self) {
        if self.client.disconnect_now().await.is_ok() {
            let _ = timeout(Duration::from_secs(1), &mut self.task).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }

    fn lost(&self) -> AgentError {
        let said = self.lock().ended.clone().unwrap_or_else(|| "the client has ended".into());
        AgentError::Lost { address: self.address.clone(), said }
    }

    fn expect(&self, id: &str) -> Result<oneshot::Receiver<Value>, AgentError> {
        let (sender, answer) = oneshot::channel();
        let mut shared = self.lock();
        if shared.ended.is_some() {
            drop(shared);
            return Err(self.lost());
        }
        shared.waiting.insert(id.to_owned(), sender);
        Ok(answer)
    }

    async fn send(
        &self,
        id: &str,
        request: &Value,
        deadline: Duration,
        answer: oneshot::Receiver<Value>,
    ) -> Result<Value, AgentError> {
        let topic = self.topics.request(&self.name);
        let seconds = u32::try_from(deadline.as_millis().div_ceil(1000)).unwrap_or(u32::MAX);
        let properties = PublishProperties {
            payload_format_indicator: Some(1),
            message_expiry_interval: Some(seconds),
            response_topic: Some(self.topics.response(&self.name)),
            correlation_data: Some(Bytes::copy_from_slice(id.as_bytes())),
            content_type: Some("application/json".into()),
            ..PublishProperties::default()
        };
        let options = PublishOptions::at_least_once().properties(properties);
        let notice = self.client.publish_tracked(topic, request.to_string(), options).await.map_err(|_| self.lost())?;
        let mut answer = std::pin::pin!(answer);
        tokio::select! {
            biased;
            answer = &mut answer => return answer.map_err(|_| self.lost()),
            taken = self.taken(notice) => taken?,
        }
        answer.await.map_err(|_| self.lost())
    }

    /// Whether the broker took the request, and somebody listens.
    async fn taken(&self, notice: PublishNotice) -> Result<(), AgentError> {
        let refused = |said: String| AgentError::NotAuthorised {
            client: self.name.clone(),
            topic: self.topics.request(&self.name),
            said,
        };
        match notice.wait_async().await {
            Ok(PublishResult::Qos1(ack)) => match ack.reason {
                PubAckReason::Success => Ok(()),
                PubAckReason::NoMatchingSubscribers => {
                    Err(AgentError::NobodyListens { gateway: self.gateway.clone(), address: self.address.clone() })
                }
                reason => Err(refused(format!("{reason:?}"))),
            },
            Ok(_) => Ok(()),
            Err(PublishNoticeError::V5PubAck(reason)) => Err(refused(format!("{reason:?}"))),
            Err(_) => Err(self.lost()),
        }
    }
}

impl Drop for AgentClient {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn no_broker(address: &str, trouble: Trouble) -> AgentError {
    let hint = match trouble {
        Trouble::Away { .. } => {
            "; start the broker (or `fieldgate run`, if it holds an embedded one), or check the address"
        }
        _ => "",
    };
    AgentError::NoBroker { address: address.to_owned(), trouble, hint }
}

async fn subscribe_first(
    client: &AsyncClient,
    events: &mut EventLoop,
    answers: &str,
) -> Result<Option<SubscribeReasonCode>, Trouble> {
    loop {
        match events.poll().await.map_err(|err| Trouble::of(&err))? {
            Event::Incoming(Packet::ConnAck(_)) => {
                let queued = client.try_subscribe(answers, QoS::AtLeastOnce);
                queued.map_err(|err| Trouble::Protocol { said: err.to_string() })?;
            }
            Event::Incoming(Packet::SubAck(suback)) => {
                let refused = |code: &SubscribeReasonCode| !matches!(code, SubscribeReasonCode::Success(_));
                return Ok(suback.return_codes.into_iter().find(refused));
            }
            _ => {}
        }
    }
}

async fn drive(mut events: EventLoop, answers: String, shared: Arc<Mutex<Shared>>) {
    let err = loop {
        match events.poll().await {
            Ok(Event::Incoming(Packet::Publish(publish))) => take(&mut lock(&shared), &answers, publish),
            Ok(_) => {}
            Err(err) => break err,
        }
    };
    let mut shared = lock(&shared);
    shared.ended = Some(Trouble::of(&err).to_string());
    // Whoever waits sees that its sender is gone.
    shared.waiting.clear();
    shared.streams.clear();
}

fn take(shared: &mut Shared, answers: &str, publish: Publish) {
    let Ok(topic) = String::from_utf8(publish.topic.to_vec()) else { return };
    if topic == answers {
        return take_answer(shared, &publish);
    }
    shared.streams.retain(|stream| !stream.sender.is_closed());
    for stream in shared.streams.iter().filter(|stream| matches(&topic, &stream.filter)) {
        let message = Message { topic: topic.clone(), payload: publish.payload.clone(), retained: publish.retain };
        if stream.sender.try_send(message).is_err() {
            stream.missed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn take_answer(shared: &mut Shared, publish: &Publish) {
    let Ok(answer) = serde_json::from_slice::<Value>(&publish.payload) else { return };
    let correlation = publish.properties.as_ref().and_then(|properties| properties.correlation_data.as_ref());
    let id = match correlation {
        Some(data) => String::from_utf8_lossy(data).into_owned(),
        None => answer["id"].as_str().unwrap_or_default().to_owned(),
    };
    if let Some(sender) = shared.waiting.remove(&id) {
        // The caller may have given up meanwhile.
        let _ = sender.send(answer);
    }
}

fn into_result(mut answer: Value) -> Result<Value, AgentError> {
    if let Some(result) = answer.get_mut("result") {
        return Ok(result.take());
    }
    let error = answer.get_mut("error").ok_or(AgentError::NotAnAnswer)?;
    Err(AgentError::Rpc {
        code: error["code"].as_i64().unwrap_or_default(),
        message: error["message"].as_str().unwrap_or_default().to_owned(),
        data: error.get_mut("data").map(Value::take).unwrap_or_default(),
    })
}
