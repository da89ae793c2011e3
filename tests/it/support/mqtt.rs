//! An MQTT 5 client that remembers everything it received, and when.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rumqttc::mqttbytes::QoS;
use rumqttc::{Client, Event, Incoming, MqttOptions, PublishOptions, PublishProperties, SubscribeFilter};
use serde_json::{Value, json};

use super::{now_ms, wait_for};

/// A message as it arrived.
#[derive(Clone, Debug)]
pub struct Message {
    /// Its topic.
    pub topic: String,
    /// What it carries, if that is JSON; null otherwise.
    pub json: Value,
    /// Whether the broker had kept it.
    pub retained: bool,
    /// Its correlation data.
    pub correlation: Option<Vec<u8>>,
    /// When it arrived, in milliseconds since 1970.
    pub at_ms: i64,
}

/// The client. It subscribes again whenever it has to connect again.
pub struct Mqtt {
    name: String,
    gateway: String,
    client: Client,
    seen: Arc<Mutex<Vec<Message>>>,
    next_id: AtomicU64,
}

impl Mqtt {
    /// Connects to a broker on loopback and subscribes to what follows `fieldgate/v1/{gateway}/`, and to its own answers.
    pub fn connect(port: u16, gateway: &str, name: &str, filters: &[&str]) -> Mqtt {
        let mut options = MqttOptions::new(name, ("127.0.0.1", port));
        options.set_keep_alive(30);
        options.set_unlimited_incoming_packet_size();
        let (client, mut connection) = Client::builder(options).capacity(1000).build();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let subscribed = Arc::new(AtomicU64::new(0));
        let own = format!("rpc/{name}/response");
        // Overlapping subscriptions would bring some messages twice.
        let own = (!filters.contains(&"#")).then_some(own.as_str());
        let filters: Vec<_> = filters.iter().copied().chain(own).collect();
        let topics: Vec<_> = filters.iter().map(|filter| format!("fieldgate/v1/{gateway}/{filter}")).collect();
        let (events, remember) = (client.clone(), Arc::clone(&seen));
        let acknowledged = Arc::clone(&subscribed);
        std::thread::spawn(move || {
            for event in connection.iter() {
                match event {
                    Ok(Event::Incoming(Incoming::ConnAck(_))) => {
                        let filters = topics.iter().map(|topic| SubscribeFilter::new(topic.as_str(), QoS::AtLeastOnce));
                        events.try_subscribe_many(filters).expect("the queue has room at the start");
                    }
                    Ok(Event::Incoming(Incoming::SubAck(_))) => {
                        acknowledged.fetch_add(1, Ordering::SeqCst);
                    }
                    Ok(Event::Incoming(Incoming::Publish(publish))) => {
                        remember.lock().expect("nobody panics here").push(message(&publish));
                    }
                    Ok(_) => {}
                    // The broker is away, or refuses; the loop ends with the test.
                    Err(_) => std::thread::sleep(Duration::from_millis(100)),
                }
            }
        });
        wait_for("the broker to accept subscriptions", || (subscribed.load(Ordering::SeqCst) > 0).then_some(()));
        Mqtt { name: name.to_owned(), gateway: gateway.to_owned(), client, seen, next_id: AtomicU64::new(1) }
    }

    /// Everything that arrived so far, in order.
    pub fn seen(&self) -> Vec<Message> {
        self.seen.lock().expect("nobody panics here").clone()
    }

    /// How many messages have arrived; what comes later starts there.
    pub fn mark(&self) -> usize {
        self.seen.lock().expect("nobody panics here").len()
    }

    /// Waits for a message that arrived after a mark.
    pub fn wait_after(&self, mark: usize, what: &str, is_it: impl Fn(&Message) -> bool) -> Message {
        wait_for(what, || {
            let seen = self.seen.lock().expect("nobody panics here");
            seen.iter().skip(mark).find(|message| is_it(message)).cloned()
        })
    }

    /// Waits for a message, which may have arrived already.
    pub fn wait(&self, what: &str, is_it: impl Fn(&Message) -> bool) -> Message {
        self.wait_after(0, what, is_it)
    }

    /// Waits for a reading of a sensor that arrived after a mark.
    pub fn reading_after(&self, mark: usize, sensor: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let what = format!("a reading of {sensor}");
        let end = format!("/{sensor}");
        let base = format!("fieldgate/v1/{}/reading/", self.gateway);
        let found = self.wait_after(mark, &what, |message| {
            message.topic.starts_with(&base) && message.topic.ends_with(&end) && is_it(&message.json)
        });
        found.json
    }

    /// Publishes anything at all, to a topic below `fieldgate/v1/{gateway}/`.
    pub fn publish(&self, topic: &str, payload: impl Into<Vec<u8>>, options: PublishOptions) {
        self.client.publish(self.topic(topic), payload.into(), options).expect("the client takes messages");
    }

    /// Publishes a request of this client's, whatever it is.
    pub fn send(&self, payload: impl Into<Vec<u8>>) {
        self.publish(&format!("rpc/{}/request", self.name), payload, PublishOptions::at_least_once());
    }

    /// Sends a JSON-RPC request, and waits for its answer.
    pub fn request(&self, method: &str, params: Value) -> Value {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let base = format!("fieldgate/v1/{}/rpc/{}", self.gateway, self.name);
        let properties = PublishProperties {
            response_topic: Some(format!("{base}/response")),
            correlation_data: Some(id.to_be_bytes().to_vec().into()),
            ..PublishProperties::default()
        };
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let options = PublishOptions::at_least_once().properties(properties);
        self.publish(&format!("rpc/{}/request", self.name), request.to_string(), options);
        let answer = self.wait(&format!("the answer to {request}"), |message| {
            message.topic.ends_with("/response") && message.correlation.as_deref() == Some(&id.to_be_bytes())
        });
        assert_eq!(answer.json["id"], id, "the id comes back with its correlation data");
        answer.json
    }

    /// Calls a tool, and returns its result: `isError`, `structuredContent`, `content`.
    pub fn call(&self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        answer.get("result").unwrap_or_else(|| panic!("no result in {answer}")).clone()
    }

    /// Waits for the answer with this id, whatever it is.
    pub fn answer(&self, id: impl Into<Value>) -> Value {
        let (id, topic) = (id.into(), self.topic(&format!("rpc/{}/response", self.name)));
        self.wait(&format!("the answer {id}"), |message| message.topic == topic && message.json["id"] == id).json
    }

    /// The answers with this id that have come so far.
    pub fn answers(&self, id: impl Into<Value>) -> usize {
        let id = id.into();
        self.seen().iter().filter(|message| message.topic.ends_with("/response") && message.json["id"] == id).count()
    }

    /// A topic of the gateway by its end.
    pub fn topic(&self, end: &str) -> String {
        format!("fieldgate/v1/{}/{end}", self.gateway)
    }
}

impl Drop for Mqtt {
    fn drop(&mut self) {
        // The broker may be gone already.
        let _ = self.client.try_disconnect_now();
    }
}

fn message(publish: &rumqttc::Publish) -> Message {
    let correlation = publish.properties.as_ref().and_then(|properties| properties.correlation_data.as_ref());
    Message {
        topic: String::from_utf8_lossy(&publish.topic).into_owned(),
        json: serde_json::from_slice(&publish.payload).unwrap_or(Value::Null),
        retained: publish.retain,
        correlation: correlation.map(|data| data.to_vec()),
        at_ms: now_ms(),
    }
}
