//! The session and the publisher with a broker: the embedded one, or one of a few lines that misbehaves.

use std::time::Duration;

use bytes::Bytes;
use rumqttc::{PublishOptions, PublishProperties};
use serde_json::json;
use tokio::net::TcpListener;

use super::broker::EmbeddedBroker;
use super::bus::{BusError, Outgoing, OutgoingProperties, Qos};
use super::connect::MAX_PACKET;
use super::session::client_id;
use super::testing::{FakeBroker, Gateway, RawClient, access, agent, any_port, gateway, message_on, soon};
use crate::config::Secret;

const STATUS: &str = "fieldgate/v1/gw/status";
const READING: &str = "fieldgate/v1/gw/reading/press-plc/A_LINE1_042";
const REQUEST: &str = "fieldgate/v1/gw/rpc/agent-1/request";

async fn broker() -> EmbeddedBroker {
    EmbeddedBroker::start(any_port(), &gateway()).await.expect("a broker")
}

fn message(topic: &str, payload: impl Into<Bytes>) -> Outgoing {
    let properties = OutgoingProperties::default();
    Outgoing { topic: topic.into(), payload: payload.into(), retain: false, qos: Qos::AtLeastOnce, properties }
}

// covers: E5
#[tokio::test]
async fn a_session_begins_with_status_catalog_devices_and_readings() {
    let broker = broker().await;
    let gateway = Gateway::start(broker.access(), 0);
    gateway.answer(47.3);
    let agent = agent(broker.local_addr, "agent-1").await;
    let mut status = agent.subscribe(STATUS).await.expect("allowed");
    let (online, _) = message_on(&mut status, STATUS, |json| json["status"] == "online").await;
    assert_eq!(online["boot_id"], json!(gateway.facts.boot_id));
    assert_eq!(online["renewed_every_ms"], 300);
    let (renewed, _) = message_on(&mut status, STATUS, |json| json["as_of"] != online["as_of"]).await;
    assert_eq!(renewed["since"], online["since"], "a renewal is no new session");

    let mut rest = agent.subscribe("fieldgate/v1/gw/device/#").await.expect("allowed");
    let device = "fieldgate/v1/gw/device/press-plc/status";
    let (device, _) = message_on(&mut rest, device, |_| true).await;
    assert_eq!((&device["status"], &device["reason"]), (&json!("offline"), &json!("initial")));
    let mut catalog = agent.subscribe("fieldgate/v1/gw/catalog").await.expect("allowed");
    let (tools, retained) = message_on(&mut catalog, "fieldgate/v1/gw/catalog", |_| true).await;
    assert_eq!((tools, retained), (json!({"tools": ["list_sensors"]}), true));
    let mut readings = agent.subscribe("fieldgate/v1/gw/reading/#").await.expect("allowed");
    let (reading, _) = message_on(&mut readings, READING, |_| true).await;
    assert_eq!((&reading["value"], &reading["quality"]), (&json!(47.3), &json!("good")));
    gateway.answer(48.5);
    let (reading, retained) = message_on(&mut readings, READING, |json| json["value"] == 48.5).await;
    assert_eq!((&reading["seq"], retained), (&json!(2), false));
}

// covers: E5
#[tokio::test]
async fn a_value_that_grows_old_replaces_the_retained_one() {
    let broker = broker().await;
    let gateway = Gateway::start(broker.access(), 1);
    gateway.answer(47.3);
    let agent = agent(broker.local_addr, "agent-1").await;
    let mut readings = agent.subscribe(READING).await.expect("allowed");
    message_on(&mut readings, READING, |json| json["quality"] == "good").await;
    // Nobody reads the sensor any more: after its three seconds it must not look alive.
    let (stale, _) = message_on(&mut readings, READING, |json| json["reason"] == "stale").await;
    assert_eq!((&stale["value"], &stale["last_good"]["value"]), (&json!(null), &json!(47.3)));
}

#[tokio::test]
async fn a_killed_gateway_is_told_offline_by_its_will() {
    let broker = broker().await;
    let gateway = Gateway::start(broker.access(), 0);
    let agent = agent(broker.local_addr, "agent-1").await;
    let mut status = agent.subscribe(STATUS).await.expect("allowed");
    message_on(&mut status, STATUS, |json| json["status"] == "online").await;
    let boot_id = gateway.facts.boot_id.clone();
    gateway.kill();
    let (offline, _) = message_on(&mut status, STATUS, |json| json["status"] == "offline").await;
    assert_eq!((&offline["reason"], &offline["boot_id"]), (&json!("connection_lost"), &json!(boot_id)));
}

#[tokio::test]
async fn a_stopped_gateway_has_the_last_word_itself() {
    let broker = broker().await;
    let gateway = Gateway::start(broker.access(), 0);
    let agent = agent(broker.local_addr, "agent-1").await;
    let mut status = agent.subscribe(STATUS).await.expect("allowed");
    message_on(&mut status, STATUS, |json| json["status"] == "online").await;
    gateway.stop().await;
    let mut last = agent.subscribe(STATUS).await.expect("allowed");
    let (offline, _) = message_on(&mut last, STATUS, |json| json["status"] == "offline").await;
    assert_eq!(offline["reason"], "stopped");
    assert!(offline["since"].is_string(), "{offline}");
}

// covers: E5, E6
#[tokio::test]
async fn case_c46_a_broker_that_lost_everything_gets_everything_again() {
    let first = broker().await;
    let address = first.local_addr;
    let access = first.access();
    let secret = access.credentials.as_ref().and_then(|given| given.password.clone()).expect("a password");
    let mut gateway = Gateway::start(access, 0);
    gateway.answer(47.3);
    assert_eq!(soon(gateway.bus.next_session(0)).await, Some(1));
    first.stop().await;
    soon(gateway.bus.session_lost(1)).await;
    assert!(!gateway.facts.broker().connected);
    gateway.answer(50.0);

    let _second = EmbeddedBroker::restart(address, &super::testing::gateway(), secret).await.expect("a broker");
    let agent = agent(address, "agent-1").await;
    let mut all = agent.subscribe("fieldgate/v1/gw/reading/#").await.expect("allowed");
    let mut status = agent.subscribe(STATUS).await.expect("allowed");
    message_on(&mut status, STATUS, |json| json["status"] == "online").await;
    message_on(&mut all, READING, |json| json["value"] == 50.0).await;
    let call = agent.request("tools/list", json!({}), Duration::from_secs(5));
    let answer = async {
        let request = soon(gateway.incoming.recv()).await.expect("a request");
        let response = message("fieldgate/v1/gw/rpc/agent-1/response", r#"{"jsonrpc":"2.0","id":1,"result":{"x":1}}"#);
        let properties = OutgoingProperties { correlation_data: request.correlation_data, ..Default::default() };
        gateway.bus.publish(Outgoing { properties, ..response }).await.expect("published");
        request.ack.done().await;
    };
    let (answered, ()) = soon(async { tokio::join!(call, answer) }).await;
    assert_eq!(answered.expect("an answer"), json!({"x": 1}));
    assert!(gateway.facts.broker().connected);
}

// covers: E5
#[tokio::test]
async fn case_c48_a_broker_that_is_away_holds_up_nobody() {
    let reserved = TcpListener::bind(any_port()).await.expect("a port");
    let address = reserved.local_addr().expect("an address");
    drop(reserved);
    let secret = Secret::new("for the test".into());
    let mut access = access(address);
    let credentials = super::connect::Credentials { username: "gateway".into(), password: Some(secret.clone()) };
    access.credentials = Some(credentials);
    let gateway = Gateway::start(access, 1);
    for number in 0..10_000 {
        gateway.answer(f64::from(number));
    }
    let away = gateway.bus.publish_now(message(STATUS, "{}")).await;
    assert!(matches!(away, Err(BusError::Away { .. })));
    let properties = OutgoingProperties { expiry: Some(Duration::from_millis(20)), ..Default::default() };
    let expired = soon(gateway.bus.publish(Outgoing { properties, ..message(STATUS, "{}") })).await;
    assert!(matches!(expired, Err(BusError::Expired { .. })));

    let broker = EmbeddedBroker::restart(address, &super::testing::gateway(), secret).await.expect("a broker");
    let agent = agent(broker.local_addr, "agent-1").await;
    let mut readings = agent.subscribe("fieldgate/v1/gw/reading/#").await.expect("allowed");
    let (first, _) = message_on(&mut readings, READING, |_| true).await;
    assert_eq!(first["seq"], 10_000, "the present state, and no backlog");
}

#[tokio::test]
async fn a_request_arrives_with_all_that_its_caller_said() {
    let broker = broker().await;
    let mut gateway = Gateway::start(broker.access(), 0);
    soon(gateway.bus.next_session(0)).await;
    let agent = RawClient::connect(&access(broker.local_addr), "agent-1").await.expect("connected");
    let properties = PublishProperties {
        message_expiry_interval: Some(7),
        response_topic: Some("fieldgate/v1/gw/rpc/agent-1/response/9".into()),
        correlation_data: Some(Bytes::from_static(b"\x00\xff")),
        ..PublishProperties::default()
    };
    let options = PublishOptions::at_least_once().properties(properties).retained();
    agent.client.publish(REQUEST, "{}", options).await.expect("queued");
    let request = soon(gateway.incoming.recv()).await.expect("a request");
    assert_eq!((request.topic.as_str(), &request.payload[..]), (REQUEST, &b"{}"[..]));
    assert_eq!(request.response_topic.as_deref(), Some("fieldgate/v1/gw/rpc/agent-1/response/9"));
    assert_eq!(request.correlation_data.as_deref(), Some(&b"\x00\xff"[..]));
    assert_eq!(request.expiry, Some(Duration::from_secs(7)));
    assert!(request.retained, "a request that the broker keeps is marked");
}

#[tokio::test]
async fn a_retained_request_is_not_asked_for() {
    let broker = broker().await;
    let agent = RawClient::connect(&access(broker.local_addr), "agent-1").await.expect("connected");
    agent.publish(REQUEST, "kept", true).await.expect("taken");
    let mut gateway = Gateway::start(broker.access(), 0);
    soon(gateway.bus.next_session(0)).await;
    agent.publish(REQUEST, "fresh", false).await.expect("taken");
    let request = soon(gateway.incoming.recv()).await.expect("a request");
    assert_eq!(request.payload, "fresh");
}

#[tokio::test]
async fn unacknowledged_requests_hold_back_further_ones_and_lose_none() {
    let broker = broker().await;
    let mut gateway = Gateway::start(broker.access(), 0);
    soon(gateway.bus.next_session(0)).await;
    let agent = RawClient::connect(&access(broker.local_addr), "agent-1").await.expect("connected");
    for number in 0..200 {
        agent.publish(REQUEST, &number.to_string(), false).await.expect("taken");
    }
    let mut waiting = Vec::new();
    for _ in 0..64 {
        waiting.push(soon(gateway.incoming.recv()).await.expect("a request"));
    }
    assert!(gateway.incoming.is_empty(), "64 under way are the most");
    for number in 0..200 {
        let request = waiting.remove(0);
        assert_eq!(request.payload, number.to_string());
        request.ack.done().await;
        if waiting.len() + number < 199 {
            waiting.push(soon(gateway.incoming.recv()).await.expect("the next request"));
        }
    }
    assert_eq!(gateway.facts.dropped_requests(), 0);
}

#[tokio::test]
async fn a_flood_without_assurance_is_dropped_and_counted_and_the_assured_pass() {
    let (mut broker, _, mut gateway, _listener) = fake().await;
    broker.grant_subscription().await;
    for _ in 0..500 {
        broker.send(&publish_packet(0x30, &[], b"q0")).await;
    }
    broker.send(&publish_packet(0x32, &[0, 7], b"q1")).await;
    let mut last = soon(gateway.incoming.recv()).await.expect("a request");
    let mut taken = 1;
    while last.payload != "q1" {
        last = soon(gateway.incoming.recv()).await.expect("a request");
        taken += 1;
    }
    assert_eq!(gateway.facts.dropped_requests() + taken, 501);
}

#[tokio::test]
async fn what_the_broker_would_not_take_is_refused_here() {
    let broker = broker().await;
    let gateway = Gateway::start(broker.access(), 0);
    let session = soon(gateway.bus.next_session(0)).await;
    let huge = message("fieldgate/v1/gw/rpc/agent-1/response", vec![b'x'; MAX_PACKET as usize]);
    let refused = soon(gateway.bus.publish(huge)).await;
    assert!(matches!(refused, Err(BusError::TooLarge { .. })), "{refused:?}");
    soon(gateway.bus.publish_confirmed(message(STATUS, "{}"))).await.expect("the session goes on");
    assert_eq!(soon(gateway.bus.next_session(0)).await, session);
}

#[tokio::test]
async fn a_message_larger_than_allowed_costs_one_reconnect_and_no_more() {
    let (mut broker, connect, gateway, listener) = fake().await;
    let limit = [&[0x27][..], &MAX_PACKET.to_be_bytes()].concat();
    assert!(connect.windows(5).any(|bytes| bytes == limit), "Maximum Packet Size is told");
    broker.grant_subscription().await;
    assert_eq!(soon(gateway.bus.next_session(0)).await, Some(1));
    // A PUBLISH of 2 MiB: this broker does not heed what it was told.
    broker.send(&[0x30, 0x80, 0x80, 0x80, 0x01]).await;
    soon(gateway.bus.session_lost(1)).await;
    let (mut again, _) = FakeBroker::accept(&listener).await;
    again.grant_subscription().await;
    assert_eq!(soon(gateway.bus.next_session(1)).await, Some(2));
    soon(gateway.bus.publish(message(STATUS, "{}"))).await.expect("the session serves");
}

/// The reason for this client (docs/decisions.md): the older one would say nothing, for ever.
#[tokio::test]
async fn a_publish_that_was_never_confirmed_says_so_when_the_session_is_gone() {
    let (mut broker, _, gateway, listener) = fake().await;
    broker.grant_subscription().await;
    soon(gateway.bus.next_session(0)).await;
    let publish = gateway.bus.publish_confirmed(message("fieldgate/v1/gw/escalation/e1", "{}"));
    let lose = async {
        while !broker.packet(0x30).await.windows(2).any(|bytes| bytes == b"e1") {}
        drop(broker);
        FakeBroker::accept(&listener).await
    };
    let (outcome, _again) = soon(async { tokio::join!(publish, lose) }).await;
    assert!(matches!(outcome, Err(BusError::Unconfirmed { .. })), "{outcome:?}");
}

#[tokio::test]
async fn a_refused_subscription_is_told_and_readings_go_on() {
    let (mut broker, _, gateway, _listener) = fake().await;
    let subscribe = broker.packet(0x80).await;
    broker.send(&[0x90, 4, subscribe[0], subscribe[1], 0, 0x87]).await;
    soon(gateway.bus.next_session(0)).await;
    let told = gateway.facts.broker();
    assert!(told.connected && told.last_error.is_some_and(|text| text.contains("access rules")));
    broker.packet(0x30).await;
}

#[tokio::test]
async fn a_session_taken_over_is_told_with_what_to_do() {
    let (mut broker, _, gateway, _listener) = fake().await;
    broker.grant_subscription().await;
    soon(gateway.bus.next_session(0)).await;
    broker.send(&[0xe0, 2, 0x8e, 0]).await;
    soon(gateway.bus.session_lost(1)).await;
    let told = async {
        while gateway.facts.broker().connected {
            tokio::task::yield_now().await;
        }
    };
    soon(told).await;
    assert!(gateway.facts.broker().last_error.is_some_and(|text| text.contains("gateway.id")));
}

async fn fake() -> (FakeBroker, Vec<u8>, Gateway, TcpListener) {
    let listener = TcpListener::bind(any_port()).await.expect("a port");
    let gateway = Gateway::start(access(listener.local_addr().expect("an address")), 0);
    let (broker, connect) = FakeBroker::accept(&listener).await;
    assert!(connect.windows(12).any(|bytes| bytes == client_id(&super::testing::gateway()).as_bytes()));
    (broker, connect, gateway, listener)
}

/// A PUBLISH to the request topic; `id` is empty for QoS 0.
fn publish_packet(first: u8, id: &[u8], payload: &[u8]) -> Vec<u8> {
    let length = 2 + REQUEST.len() + id.len() + 1 + payload.len();
    let head = [first, length as u8, 0, REQUEST.len() as u8];
    [&head, REQUEST.as_bytes(), id, &[0], payload].concat()
}
