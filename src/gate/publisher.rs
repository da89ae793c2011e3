//! Publishes what the board says: readings, devices, and the gateway itself.
//!
//! It takes the changes from the board and hands their messages over; while there is no session it takes none, and
//! what changes meanwhile stays one mark per sensor and device. Each new session begins with the whole present state.
//!
//! A gateway publishes a thousand readings a second, so the way of a reading is short: what is marked together is taken
//! together, and at QoS 0 goes to the broker in one write.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde_json::{Map, Value};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::board::{Board, Change};
use crate::clock;
use crate::config::PublishConfig;
use crate::facts::Facts;
use crate::gate::bus::{Bus, BusError, Outgoing, OutgoingProperties, Outlet, Packets, Qos};
use crate::gate::topics::Topics;
use crate::gate::wire::{GatewayStatus, Presence, Reading, device_status_json, status_json};
use crate::ids::GatewayId;
use crate::registry::{DeviceIndex, Registry, SensorIndex};

/// How often values are looked through for such as have grown too old.
const LOOK_FOR_STALE: Duration = Duration::from_secs(1);

/// How many changes are published before the clock is looked at again.
const CHANGES_AT_ONCE: usize = 256;

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
            }
        }
    }

    /// Publishes a change and those that are marked beside it: mostly all sensors of one answer.
    async fn publish_changes(&self, topics: &Topics, outlet: &Outlet, sheet: &mut Sheet, first: Change) {
        let short = self.config.qos == 0 && outlet.is_short();
        let others = std::iter::from_fn(|| self.board.try_next_change());
        for change in std::iter::once(first).chain(others).take(CHANGES_AT_ONCE) {
            match change {
                Change::Device(index) => hand_over(outlet, self.device_message(topics, index)).await,
                Change::Sensor(index) => {
                    let topic = self.write_reading(topics, &mut sheet.reading, index);
                    if short {
                        report(outlet.add(&mut sheet.packets, &topic, &sheet.reading));
                    } else {
                        hand_over(outlet, self.reading_message(topic, &sheet.reading)).await;
                    }
                }
            }
        }
        outlet.send(&mut sheet.packets).await;
    }

    fn status_message(&self, topics: &Topics, presence: Presence) -> Outgoing {
        let status = gateway_status(&self.facts, &self.gateway, presence, self.config.status_every);
        retained(topics.status(), status_json(&status).to_string(), Qos::AtLeastOnce)
    }

    /// Writes a reading as it is now, and returns its topic.
    fn write_reading(&self, topics: &Topics, reading: &mut Vec<u8>, index: SensorIndex) -> String {
        let sensor = self.registry.sensor(index);
        let device = self.registry.device(sensor.device);
        let now = clock::now();
        reading.clear();
        self.board.look(index, |state| Reading::of(sensor, state, now).write(reading));
        topics.reading(&device.id, &sensor.id)
    }

    fn reading_message(&self, topic: String, reading: &[u8]) -> Outgoing {
        let qos = if self.config.qos == 0 { Qos::AtMostOnce } else { Qos::AtLeastOnce };
        retained(topic, Bytes::copy_from_slice(reading), qos)
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

/// What one reading, and the readings that go out together, are written into.
#[derive(Default)]
struct Sheet {
    reading: Vec<u8>,
    packets: Packets,
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
