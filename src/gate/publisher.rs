//! Publishes what the board says: readings, devices, and the gateway itself.
//!
//! It takes the changes from the board and hands their messages over; while there is no session it takes none, and
//! what changes meanwhile stays one mark per sensor and device. Each new session begins with the whole present state.
//!
//! A gateway publishes a thousand readings a second, so the way of a reading is short: what is marked together is taken
//! together, and at QoS 0 goes to the broker in one write.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use serde_json::{Map, Value};
use tokio::time::{MissedTickBehavior, interval, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::board::{Board, Change};
use crate::clock;
use crate::config::{Grouping, PublishConfig};
use crate::facts::Facts;
use crate::gate::bus::{Bus, BusError, Outgoing, OutgoingProperties, Outlet, Packets, Qos};
use crate::gate::topics::Topics;
use crate::gate::wire::{GatewayStatus, Presence, Reading, device_status_json, status_json, write_readings};
use crate::ids::GatewayId;
use crate::registry::{DeviceIndex, Registry, SensorIndex};

/// How often values are looked through for such as have grown too old.
const LOOK_FOR_STALE: Duration = Duration::from_secs(1);

/// How many changes are published before the clock is looked at again.
const CHANGES_AT_ONCE: usize = 256;

/// How long the answers of a device are gathered before they are published together: most devices need several requests,
/// and each message carries all readings.
const GATHER: Duration = Duration::from_millis(100);

/// How long the last status may take when the gateway stops.
const LAST_WORD: Duration = Duration::from_secs(1);

/// What is published on `catalog`, made anew for each session.
pub type Catalog = Arc<dyn Fn() -> Value + Send + Sync>;

/// What the publisher works with.
#[derive(Clone)]
pub struct Publisher {
    /// Which gateway.
    pub gateway: GatewayId,
    /// How readings are published.
    pub config: PublishConfig,
    /// The names on the board.
    pub registry: Arc<Registry>,
    /// Where changes come from.
    pub board: Arc<Board>,
    /// What the gateway knows of itself.
    pub facts: Arc<Facts>,
    /// Where messages go.
    pub bus: Bus,
    /// The tools.
    pub catalog: Catalog,
}

/// What the gateway says of itself now.
pub fn gateway_status<'a>(
    facts: &'a Facts,
    gateway: &'a GatewayId,
    presence: Presence,
    renewed_every: Duration,
) -> GatewayStatus<'a> {
    GatewayStatus {
        gateway,
        presence,
        boot_id: &facts.boot_id,
        version: facts.version(),
        started: facts.started.wall,
        clock_synchronised: clock::is_synchronised(),
        renewed_every,
    }
}

impl Publisher {
    /// Publishes until it is told to stop; then says that the gateway is offline, and returns within a second.
    pub async fn run(self, stop: CancellationToken) {
        let topics = Topics::new(&self.gateway);
        tokio::select! {
            () = self.follow_sessions(&topics) => {}
            () = stop.cancelled() => {}
        }
        if self.bus.is_connected() {
            let at = clock::now().wall;
            let farewell = self.status_message(&topics, Presence::Stopped { at });
            match timeout(LAST_WORD, self.bus.publish_confirmed(farewell)).await {
                Ok(Ok(())) => {}
                Ok(Err(err)) => debug!(%err, "the last status was not published"),
                Err(_) => debug!("the last status was not confirmed in time"),
            }
        }
    }

    async fn follow_sessions(&self, topics: &Topics) {
        let mut last = 0;
        while let Some(generation) = self.bus.next_session(last).await {
            last = generation;
            let Some(outlet) = self.bus.outlet(generation) else { continue };
            tokio::select! {
                () = self.serve(topics, &outlet) => {}
                () = self.bus.session_lost(generation) => {}
            }
        }
    }

    /// Serves one session. Dropped at any point it loses nothing: the next session begins with everything.
    async fn serve(&self, topics: &Topics, outlet: &Outlet) {
        let since = clock::now().wall;
        hand_over(outlet, self.status_message(topics, Presence::Online { since, as_of: since })).await;
        hand_over(outlet, retained(topics.catalog(), (self.catalog)().to_string(), Qos::AtLeastOnce)).await;
        self.board.mark_all();
        let mut sheet = Sheet::default();
        let mut renew = interval(self.config.status_every.max(Duration::from_millis(1)));
        let mut look = interval(LOOK_FOR_STALE);
        for ticks in [&mut renew, &mut look] {
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            // The first tick comes at once, and the status has just been said.
            ticks.tick().await;
        }
        loop {
            tokio::select! {
                _ = renew.tick() => {
                    let as_of: SystemTime = clock::now().wall;
                    hand_over(outlet, self.status_message(topics, Presence::Online { since, as_of })).await;
                }
                _ = look.tick() => self.board.mark_stale(clock::instant()),
                change = self.board.next_change() => self.publish_changes(topics, outlet, &mut sheet, change).await,
                () = sleep_until(sheet.due()), if !sheet.gathering.is_empty() => {
                    self.publish_gathered(topics, outlet, &mut sheet).await;
                }
            }
        }
    }

    /// Publishes a change and those that are marked beside it: mostly all sensors of one answer.
    async fn publish_changes(&self, topics: &Topics, outlet: &Outlet, sheet: &mut Sheet, first: Change) {
        let others = std::iter::from_fn(|| self.board.try_next_change());
        for change in std::iter::once(first).chain(others).take(CHANGES_AT_ONCE) {
            match change {
                Change::Device(index) => hand_over(outlet, self.device_message(topics, index)).await,
                Change::Sensor(index) if self.config.grouping == Grouping::Device => {
                    sheet.gather(self.registry.sensor(index).device);
                }
                Change::Sensor(index) => {
                    let topic = self.write_reading(topics, &mut sheet.payload, index);
                    self.publish_readings(outlet, sheet, topic).await;
                }
            }
        }
        outlet.send(&mut sheet.packets).await;
    }

    /// Publishes the devices whose answers have been gathered for long enough.
    async fn publish_gathered(&self, topics: &Topics, outlet: &Outlet, sheet: &mut Sheet) {
        let now = clock::now();
        while let Some(device) = sheet.next_gathered(now.instant) {
            sheet.payload.clear();
            write_readings(&self.registry, device, &self.board, now, &mut sheet.payload);
            let topic = topics.readings(&self.registry.device(device).id);
            self.publish_readings(outlet, sheet, topic).await;
        }
        outlet.send(&mut sheet.packets).await;
    }

    /// Publishes what stands in the sheet: the short way, where it is sent with the others, or through the client.
    async fn publish_readings(&self, outlet: &Outlet, sheet: &mut Sheet, topic: String) {
        if self.config.qos == 0 && outlet.is_short() {
            report(outlet.add(&mut sheet.packets, &topic, &sheet.payload));
        } else {
            let qos = if self.config.qos == 0 { Qos::AtMostOnce } else { Qos::AtLeastOnce };
            hand_over(outlet, retained(topic, Bytes::copy_from_slice(&sheet.payload), qos)).await;
        }
    }

    fn status_message(&self, topics: &Topics, presence: Presence) -> Outgoing {
        let status = gateway_status(&self.facts, &self.gateway, presence, self.config.status_every);
        retained(topics.status(), status_json(&status).to_string(), Qos::AtLeastOnce)
    }

    /// Writes a reading as it is now, and returns its topic.
    fn write_reading(&self, topics: &Topics, payload: &mut Vec<u8>, index: SensorIndex) -> String {
        let sensor = self.registry.sensor(index);
        let device = self.registry.device(sensor.device);
        let now = clock::now();
        payload.clear();
        self.board.look(index, |state| Reading::of(sensor, state, now).write(payload));
        topics.reading(&device.id, &sensor.id)
    }

    fn device_message(&self, topics: &Topics, index: DeviceIndex) -> Outgoing {
        let state = self.board.device(index);
        let status = device_status_json(&self.registry, index, &state, clock::now());
        retained(topics.device_status(&self.registry.device(index).id), text(status), Qos::AtLeastOnce)
    }
}

fn text(object: Map<String, Value>) -> String {
    Value::Object(object).to_string()
}

fn retained(topic: String, payload: impl Into<Bytes>, qos: Qos) -> Outgoing {
    let properties = OutgoingProperties { content_type: Some("application/json"), ..OutgoingProperties::default() };
    Outgoing { topic, payload: payload.into(), retain: true, qos, properties }
}

/// What is being written, and what goes out together.
#[derive(Default)]
struct Sheet {
    payload: Vec<u8>,
    packets: Packets,
    /// Devices whose readings are published together, in the order of their moments. Full is impossible: each is in it once.
    gathering: VecDeque<(DeviceIndex, Instant)>,
}

impl Sheet {
    fn gather(&mut self, device: DeviceIndex) {
        if !self.gathering.iter().any(|(known, _)| *known == device) {
            self.gathering.push_back((device, clock::instant() + GATHER));
        }
    }

    /// When the next device is to be published; any moment where there is none.
    fn due(&self) -> tokio::time::Instant {
        self.gathering.front().map_or_else(tokio::time::Instant::now, |(_, due)| (*due).into())
    }

    fn next_gathered(&mut self, now: Instant) -> Option<DeviceIndex> {
        let (device, due) = *self.gathering.front()?;
        if due > now {
            return None;
        }
        self.gathering.pop_front();
        Some(device)
    }
}

async fn hand_over(outlet: &Outlet, message: Outgoing) {
    report(outlet.publish(message).await);
}

fn report(published: Result<(), BusError>) {
    match published {
        // The session is over, and the next one begins with everything.
        Ok(()) | Err(BusError::Away { .. } | BusError::Stopped) => {}
        Err(err) => warn!(%err, "a message was not published"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::testing;
    use crate::quantity::Value as Number;
    use crate::registry::reading::Sample;
    use tokio::sync::mpsc::Receiver;

    fn publisher(grouping: Grouping) -> (Publisher, Receiver<Outgoing>) {
        let registry = Arc::new(testing::registry());
        let (bus, published) = Bus::recording();
        let times = (Duration::from_secs(60), Duration::from_secs(3600));
        let publisher = Publisher {
            gateway: "gw".parse().expect("a name"),
            config: PublishConfig { qos: 0, at_least_every: times.0, status_every: times.1, grouping },
            board: Arc::new(Board::new(Arc::clone(&registry))),
            registry,
            facts: Arc::new(Facts::new()),
            bus,
            catalog: Arc::new(|| Value::Null),
        };
        (publisher, published)
    }

    async fn next_of(published: &mut Receiver<Outgoing>, below: &str) -> (String, Value) {
        loop {
            let message = published.recv().await.expect("a message");
            if message.topic.starts_with(below) {
                return (message.topic, serde_json::from_slice(&message.payload).expect("JSON"));
            }
        }
    }

    fn answer(publisher: &Publisher, sensor: &str, number: i128) {
        let index = publisher.registry.find_sensor(sensor).expect("known");
        let sample = Sample::new(Number::Integer(number), &[number as u16], true, clock::now());
        publisher.board.sensor_answered(index, sample, Duration::from_secs(60));
    }

    #[tokio::test(start_paused = true)]
    async fn readings_of_a_device_travel_together_when_its_answers_have_been_gathered() {
        let (publisher, mut published) = publisher(Grouping::Device);
        let task = tokio::spawn(publisher.clone().run(CancellationToken::new()));
        let (topic, first) = next_of(&mut published, "fieldgate/v1/gw/reading").await;
        assert_eq!(topic, "fieldgate/v1/gw/readings/press-plc");
        assert_eq!(first["readings"][0]["reason"], "no_data", "the present state comes first");
        let begun = tokio::time::Instant::now();
        answer(&publisher, "A_LINE1_042", 7);
        tokio::time::sleep(GATHER / 2).await;
        answer(&publisher, "A_LINE1_043", 8);
        let (topic, both) = next_of(&mut published, "fieldgate/v1/gw/reading").await;
        assert_eq!(topic, "fieldgate/v1/gw/readings/press-plc");
        assert_eq!(begun.elapsed(), GATHER);
        let values: Vec<_> = both["readings"].as_array().expect("a list").iter().map(|one| &one["value"]).collect();
        assert_eq!((both["device"].as_str(), values), (Some("press-plc"), vec![&Value::from(7), &Value::from(8)]));
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_reading_has_a_topic_of_its_own_unless_told_otherwise() {
        let (publisher, mut published) = publisher(Grouping::Sensor);
        let task = tokio::spawn(publisher.clone().run(CancellationToken::new()));
        let mut topics = Vec::new();
        for _ in 0..2 {
            topics.push(next_of(&mut published, "fieldgate/v1/gw/reading").await.0);
        }
        let of = |sensor: &str| format!("fieldgate/v1/gw/reading/press-plc/{sensor}");
        assert_eq!(topics, [of("A_LINE1_042"), of("A_LINE1_043")]);
        task.abort();
    }
}
