//! The embedded broker as clients meet it.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rumqttc::PublishNoticeError;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use std::time::Duration;

use super::agent::{AgentClient, AgentError};
use super::broker::{BrokerError, EmbeddedBroker};
use super::connect::Trouble;
use super::session::client_id;
use super::testing::{FakeBroker, RawClient, access, agent, any_port, gateway, soon};

async fn broker() -> EmbeddedBroker {
    EmbeddedBroker::start(any_port(), &gateway()).await.expect("a broker")
}

// covers: A2
#[tokio::test]
async fn a_client_reaches_its_own_request_topic_and_no_other() {
    let broker = broker().await;
    let agent = RawClient::connect(&access(broker.local_addr), "agent-1").await.expect("connected");
    let publish = async |topic: &str| agent.publish(topic, "{}", false).await;
    assert_eq!(publish("fieldgate/v1/gw/rpc/agent-1/request").await, Ok(()));
    for forbidden in [
        "fieldgate/v1/gw/rpc/agent-2/request",
        "fieldgate/v1/gw/rpc/agent-1/response",
        "fieldgate/v1/gw/status",
        "fieldgate/v1/gw/reading/press-plc/A_LINE1_042",
        "fieldgate/v1/gw/approval/c1",
        "elsewhere",
    ] {
        let refused = publish(forbidden).await.expect_err(forbidden);
        assert!(matches!(refused, PublishNoticeError::V5PubAck(_)), "{forbidden}: {refused}");
    }
}

#[tokio::test]
async fn a_client_does_not_see_what_others_ask_and_are_answered() {
    let broker = broker().await;
    let eve = RawClient::connect(&access(broker.local_addr), "eve").await.expect("connected");
    for forbidden in ["#", "fieldgate/v1/gw/#", "fieldgate/v1/gw/rpc/+/request", "fieldgate/v1/gw/rpc/agent-1/#"] {
        assert!(!eve.subscribe(forbidden).await, "{forbidden}");
    }
    let mut own = eve;
    assert!(own.subscribe("fieldgate/v1/gw/rpc/eve/#").await);
    assert!(own.subscribe("fieldgate/v1/gw/reading/#").await);

    let us = RawClient::connect(&broker.access(), &client_id(&gateway())).await.expect("the gateway");
    us.publish("fieldgate/v1/gw/rpc/agent-1/response", "secret", false).await.expect("taken");
    us.publish("fieldgate/v1/gw/rpc/eve/response", "hers", false).await.expect("taken");
    let first = soon(own.incoming.recv()).await.expect("a message");
    assert_eq!(first.payload, "hers");
}

#[tokio::test]
async fn nobody_else_connects_as_the_gateway() {
    let broker = broker().await;
    let us = RawClient::connect(&broker.access(), &client_id(&gateway())).await.expect("the gateway");
    let impostor = RawClient::connect(&access(broker.local_addr), &client_id(&gateway())).await;
    assert!(matches!(impostor.err(), Some(Trouble::NotAuthorised { .. })));
    us.publish("fieldgate/v1/gw/status", "{}", true).await.expect("the gateway was not thrown out");
}

#[tokio::test]
async fn a_client_whose_id_is_no_name_can_only_read() {
    let broker = broker().await;
    let viewer = RawClient::connect(&access(broker.local_addr), "mqtt viewer 3").await.expect("connected");
    assert!(viewer.subscribe("fieldgate/v1/gw/status").await);
    assert!(!viewer.subscribe("fieldgate/v1/gw/rpc/mqtt viewer 3/#").await);
    assert!(viewer.publish("fieldgate/v1/gw/rpc/mqtt viewer 3/request", "{}", false).await.is_err());
}

#[tokio::test]
async fn a_caller_is_told_that_no_gateway_answered() {
    let broker = broker().await;
    let agent = agent(broker.local_addr, "agent-1").await;
    let call = agent.call_tool("list_sensors", json!({}), Duration::from_millis(100));
    let err = soon(call).await.expect_err("no gateway");
    assert!(matches!(err, AgentError::NoAnswer { .. }), "{err}");
    assert!(err.to_string().contains("fieldgate run"), "{err}");
}

/// Mosquitto says so; the embedded broker does not.
#[tokio::test]
async fn a_caller_is_told_at_once_where_the_broker_knows_that_nobody_listens() {
    let listener = TcpListener::bind(any_port()).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let accept = async {
        let (mut broker, _) = FakeBroker::accept(&listener).await;
        broker.grant_subscription().await;
        broker
    };
    let (agent, mut broker) = tokio::join!(agent(address, "agent-1"), accept);
    let call = agent.call_tool("list_sensors", json!({}), Duration::from_secs(60));
    let acknowledge = async {
        let publish = broker.packet(0x30).await;
        let id = 2 + usize::from(publish[1]);
        // PUBACK with reason 0x10, no matching subscribers.
        broker.send(&[0x40, 3, publish[id], publish[id + 1], 0x10]).await;
    };
    let (outcome, ()) = soon(async { tokio::join!(call, acknowledge) }).await;
    let err = outcome.expect_err("nobody listens");
    assert!(matches!(err, AgentError::NobodyListens { .. }), "{err}");
}

#[tokio::test]
async fn a_caller_whose_connection_goes_is_told_at_once() {
    let broker = broker().await;
    let agent = agent(broker.local_addr, "agent-1").await;
    let call = agent.call_tool("list_sensors", json!({}), Duration::from_secs(60));
    let (outcome, ()) = soon(async { tokio::join!(call, broker.stop()) }).await;
    let err = outcome.expect_err("the broker is gone");
    assert!(matches!(err, AgentError::Lost { .. }), "{err}");
    let again = soon(agent.call_tool("list_sensors", json!({}), Duration::from_secs(60))).await;
    assert!(matches!(again, Err(AgentError::Lost { .. })));
}

#[tokio::test]
async fn a_caller_is_told_that_there_is_no_broker() {
    let free = TcpListener::bind(any_port()).await.expect("a port");
    let address = free.local_addr().expect("an address");
    drop(free);
    let name = "agent-1".parse().expect("a name");
    let err = soon(AgentClient::connect(&access(address), &gateway(), &name)).await.expect_err("no broker");
    assert!(err.to_string().contains("start the broker"), "{err}");
}

#[tokio::test]
async fn a_taken_port_is_told_with_what_to_do() {
    let taken = TcpListener::bind(any_port()).await.expect("a port");
    let listen = taken.local_addr().expect("an address");
    let err = EmbeddedBroker::start(listen, &gateway()).await.err().expect("the port is taken");
    assert!(matches!(err, BrokerError::PortTaken { .. }), "{err}");
    let open = "0.0.0.0:0".parse().expect("an address");
    let err = EmbeddedBroker::start(open, &gateway()).await.err().expect("not for other machines");
    assert!(matches!(err, BrokerError::NotLoopback { .. }), "{err}");
}

#[tokio::test]
async fn a_stopped_broker_frees_its_port() {
    let first = broker().await;
    let address = first.local_addr;
    let _agent = agent(address, "agent-1").await;
    soon(first.stop()).await;
    let second = EmbeddedBroker::start(address, &gateway()).await.expect("the port is free again");
    agent(second.local_addr, "agent-1").await.close().await;
}

/// MQTT 3.1.1 on the same port: CONNECT, SUBSCRIBE, and its own request back is not for it to read, but readings are.
#[tokio::test]
async fn a_client_of_the_older_protocol_is_served() {
    let broker = broker().await;
    let us = RawClient::connect(&broker.access(), &client_id(&gateway())).await.expect("the gateway");
    us.publish("fieldgate/v1/gw/status", "{}", true).await.expect("taken");
    let mut stream = TcpStream::connect(broker.local_addr).await.expect("connected");
    stream.write_all(b"\x10\x0f\x00\x04MQTT\x04\x02\x00\x3c\x00\x03old").await.expect("sent");
    let mut connack = [0; 4];
    soon(stream.read_exact(&mut connack)).await.expect("CONNACK");
    assert_eq!(connack, [0x20, 2, 0, 0]);
    let topic = b"fieldgate/v1/gw/status";
    let mut subscribe = vec![0x82, 5 + topic.len() as u8, 0, 1, 0, topic.len() as u8];
    subscribe.extend_from_slice(topic);
    subscribe.push(0);
    stream.write_all(&subscribe).await.expect("sent");
    let mut came = Vec::new();
    while !came.ends_with(b"{}") {
        came.push(soon(stream.read_u8()).await.expect("the status"));
    }
}

// covers: B5
#[tokio::test]
async fn malformed_packets_do_not_end_the_broker() {
    let broker = broker().await;
    let connect: &[u8] = b"\x10\x14\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x07fuzzing";
    let bodies: [&[u8]; 16] = [
        b"\x20\x02\x00\x00",                         // a CONNACK from a client
        b"\xf0\x00",                                 // AUTH out of the blue
        b"\x00\x00",                                 // a reserved type
        b"\x30\xff\xff\xff\x7f",                     // a PUBLISH of 256 MiB
        b"\x30\xff\xff\xff\xff\x7f",                 // a length of five bytes
        b"\x36\x05\x00\x01a\x00\x00",                // QoS 3
        b"\x30\x02\x00\x09",                         // a topic longer than the packet
        b"\x30\x05\x00\x02\xc3\x28\x00",             // a topic that is no UTF-8
        b"\x30\x04\x00\x01\x00\x00",                 // a topic with U+0000
        b"\x32\x06\x00\x01a\x00\x00\x00",            // packet identifier 0
        b"\x82\x03\x00\x01\x00",                     // a SUBSCRIBE without filters
        b"\x82\x0b\x00\x01\x00\x00\x05a/#/b\x00",    // a bad wildcard
        b"\x80\x07\x00\x01\x00\x00\x01a\x00",        // wrong flags
        b"\x30\x08\x00\x01a\x04\x23\xff\xffx",       // an alias beyond the maximum
        b"\x62\x02\xff\xff",                         // a PUBREL for nothing
        b"\x10\x14\x00\x04MQTT\x05\x02\x00\x3c\x00", // half a second CONNECT
    ];
    for body in bodies {
        offer(&broker, &[connect, body].concat()).await;
        offer(&broker, body).await;
    }
    let mut random = SmallRng::seed_from_u64(20_260_730);
    for _ in 0..300 {
        let mut session = [connect, bodies[random.random_range(0..bodies.len())]].concat();
        for _ in 0..random.random_range(1..4) {
            let place = random.random_range(0..session.len());
            session[place] = random.random();
        }
        session.truncate(random.random_range(1..=session.len()));
        offer(&broker, &session).await;
    }
    agent(broker.local_addr, "agent-1").await.close().await;
}

/// Sends bytes on a connection of their own, and closes it.
async fn offer(broker: &EmbeddedBroker, bytes: &[u8]) {
    let mut stream = soon(TcpStream::connect(broker.local_addr)).await.expect("the broker listens");
    // The broker may close while we still send; that is its right.
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut answer = Vec::new();
    let _ = soon(stream.read_to_end(&mut answer)).await;
}
