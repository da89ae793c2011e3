//! The broker inside the daemon, for a single gateway, the demo and tests: loopback only, bounded, and with the caller's
//! identity enforced. Behind the feature `embedded-broker`, so that a build without it has one dependency less.
//!
//! A client is who its MQTT client id says (contract, section 2): it may publish to its own request topic and nowhere
//! else, and may not read what other clients ask and are answered. The gateway alone has a password, made at each start.

use std::net::SocketAddr;

#[cfg(all(test, feature = "embedded-broker"))]
use crate::config::Secret;
use crate::gate::connect::{BrokerAccess, Credentials};
use crate::ids::GatewayId;

/// A broker that runs. It stops when it is told to, or dropped.
pub struct EmbeddedBroker {
    /// Where it listens; the port is a real one even if a free one was asked for.
    pub local_addr: SocketAddr,
    /// The user name and password of the gateway's own connection.
    pub credentials: Credentials,
    #[cfg(feature = "embedded-broker")]
    running: running::Running,
}

/// Why there is no embedded broker.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The program was built without it.
    #[error(
        "this program was built without the embedded broker; build it with the feature `embedded-broker`, or name a broker of your own in broker.url: mqtt://host:1883"
    )]
    NotBuiltIn,
    /// Other machines could reach it.
    #[error(
        "the embedded broker listens on this machine alone, and {listen} is no loopback address; write embedded://127.0.0.1:1883, or run a broker of your own for other machines"
    )]
    NotLoopback {
        /// The address in question.
        listen: SocketAddr,
    },
    /// Somebody listens there already.
    #[error(
        "another program listens on {listen} already; stop it (often a broker: `systemctl stop mosquitto`), use it with broker.url = \"mqtt://{listen}\", or give the embedded one another port"
    )]
    PortTaken {
        /// The address in question.
        listen: SocketAddr,
    },
    /// The system does not let us listen there.
    #[error("the embedded broker cannot listen on {listen}")]
    Listen {
        /// The address in question.
        listen: SocketAddr,
        /// Why not.
        #[source]
        err: std::io::Error,
    },
    /// The broker did not start.
    #[error("the embedded broker did not start: {said}")]
    Start {
        /// What it said.
        said: String,
    },
}

impl EmbeddedBroker {
    /// Starts a broker for this gateway. Port 0 takes a free one.
    pub async fn start(listen: SocketAddr, gateway: &GatewayId) -> Result<EmbeddedBroker, BrokerError> {
        if !listen.ip().is_loopback() {
            return Err(BrokerError::NotLoopback { listen });
        }
        start(listen, gateway).await
    }

    #[cfg(all(test, feature = "embedded-broker"))]
    pub(super) async fn restart(
        listen: SocketAddr,
        gateway: &GatewayId,
        secret: Secret,
    ) -> Result<EmbeddedBroker, BrokerError> {
        running::start_with(listen, gateway, secret).await
    }

    /// How the gateway itself reaches it.
    pub fn access(&self) -> BrokerAccess {
        let host = self.local_addr.ip().to_string();
        BrokerAccess { host, port: self.local_addr.port(), tls: None, credentials: Some(self.credentials.clone()) }
    }

    /// Whether it ended by itself.
    pub fn has_ended(&self) -> bool {
        #[cfg(feature = "embedded-broker")]
        return self.running.has_ended();
        #[cfg(not(feature = "embedded-broker"))]
        false
    }

    /// Stops it, and returns when its connections are closed, or after two seconds.
    pub async fn stop(self) {
        #[cfg(feature = "embedded-broker")]
        self.running.stop().await;
    }
}

#[cfg(not(feature = "embedded-broker"))]
async fn start(_listen: SocketAddr, _gateway: &GatewayId) -> Result<EmbeddedBroker, BrokerError> {
    Err(BrokerError::NotBuiltIn)
}

#[cfg(feature = "embedded-broker")]
use running::start;

#[cfg(feature = "embedded-broker")]
mod running {
    use std::future::{Future, ready};
    use std::pin::Pin;
    use std::sync::Arc;
    use std::time::Duration;

    use mqtt5::broker::MqttBroker;
    use mqtt5::broker::auth::{AuthProvider, AuthResult};
    use mqtt5::broker::config::{BrokerConfig, StorageBackend, StorageConfig};
    use mqtt5::broker::server::BrokerShutdownHandle;
    use mqtt5::packet::connect::ConnectPacket;
    use mqtt5::protocol::v5::reason_codes::ReasonCode;
    use tokio::net::TcpListener;
    use tokio::task::JoinHandle;
    use tokio::time::timeout;

    use super::{BrokerError, Credentials, EmbeddedBroker, GatewayId, SocketAddr};
    use crate::config::Secret;
    use crate::gate::connect::MAX_PACKET;
    use crate::gate::rights::Rights;
    use crate::gate::session::client_id;

    /// The user id that the gateway's own connection gets, and no other.
    const GATEWAY_USER: &str = "gateway";

    const STOP_TIMEOUT: Duration = Duration::from_secs(2);

    pub(super) struct Running {
        shutdown: BrokerShutdownHandle,
        task: JoinHandle<()>,
    }

    impl Running {
        pub(super) fn has_ended(&self) -> bool {
            self.task.is_finished()
        }

        pub(super) async fn stop(mut self) {
            self.shutdown.shutdown();
            let _ = timeout(STOP_TIMEOUT, &mut self.task).await;
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            self.shutdown.shutdown();
            self.task.abort();
        }
    }

    pub(super) async fn start(listen: SocketAddr, gateway: &GatewayId) -> Result<EmbeddedBroker, BrokerError> {
        start_with(listen, gateway, Secret::new(format!("{:032x}", rand::random::<u128>()))).await
    }

    /// Starts with a password that is known before, so that a test can have a broker that comes back.
    pub(super) async fn start_with(
        listen: SocketAddr,
        gateway: &GatewayId,
        secret: Secret,
    ) -> Result<EmbeddedBroker, BrokerError> {
        try_port(listen).await?;
        let credentials = Credentials { username: client_id(gateway), password: Some(secret.clone()) };
        let start_error = |err: mqtt5::MqttError| BrokerError::Start { said: err.to_string() };
        let broker = MqttBroker::with_config(config(listen)).await.map_err(start_error)?;
        let mut broker = broker.with_auth_provider(Arc::new(Gatekeeper {
            rights: Rights::new(gateway),
            gateway_id: client_id(gateway),
            secret,
        }));
        let local_addr = broker.local_addr().ok_or_else(|| BrokerError::Start { said: "it does not listen".into() })?;
        let shutdown = broker.shutdown_handle();
        let mut ready = broker.ready_receiver();
        let task = tokio::spawn(async move {
            if let Err(err) = broker.run().await {
                tracing::error!(%err, "the embedded broker ended");
            }
        });
        let running = Running { shutdown, task };
        if ready.wait_for(|ready| *ready).await.is_err() {
            return Err(BrokerError::Start { said: "it ended at once".into() });
        }
        Ok(EmbeddedBroker { local_addr, credentials, running })
    }

    /// The broker tells a failure to listen as a text alone, so the port is tried first.
    async fn try_port(listen: SocketAddr) -> Result<(), BrokerError> {
        match TcpListener::bind(listen).await {
            Ok(_) => Ok(()),
            Err(err) if err.kind() == std::io::ErrorKind::AddrInUse => Err(BrokerError::PortTaken { listen }),
            Err(err) => Err(BrokerError::Listen { listen, err }),
        }
    }

    /// Every default that is unsafe or unbounded has another value here (docs/decisions.md).
    fn config(listen: SocketAddr) -> BrokerConfig {
        BrokerConfig {
            bind_addresses: vec![listen],
            max_clients: 256,
            max_packet_size: MAX_PACKET as usize,
            topic_alias_maximum: 0,
            shared_subscription_available: false,
            session_expiry_interval: Duration::from_secs(3600),
            max_subscriptions_per_client: 64,
            max_retained_messages: 20_000,
            max_retained_message_size: MAX_PACKET as usize,
            // Full: the broker drops QoS 0, and keeps QoS 1 in the client's session up to the limits below.
            client_channel_capacity: 256,
            max_outbound_inflight: 64,
            server_receive_maximum: Some(64),
            sys_topics_enabled: false,
            storage_config: StorageConfig {
                backend: StorageBackend::Memory,
                max_queued_messages_per_client: 1000,
                max_queued_bytes_per_client: 4 << 20,
                ..StorageConfig::default()
            },
            ..BrokerConfig::default()
        }
    }

    /// Decides who may connect, publish and subscribe.
    struct Gatekeeper {
        rights: Rights,
        gateway_id: String,
        secret: Secret,
    }

    type Decision<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

    impl Gatekeeper {
        fn admit(&self, connect: &ConnectPacket) -> AuthResult {
            if connect.client_id != self.gateway_id {
                return AuthResult::success();
            }
            let given = connect.password.as_deref().unwrap_or_default();
            if same(given, self.secret.reveal().as_bytes()) {
                return AuthResult::success_with_user(GATEWAY_USER);
            }
            AuthResult::fail_with_reason(ReasonCode::NotAuthorized, "this client id is the gateway's own; take another")
        }
    }

    /// Compares without telling by the time it takes how much was right.
    fn same(given: &[u8], expected: &[u8]) -> bool {
        given.len() == expected.len() && given.iter().zip(expected).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
    }

    impl AuthProvider for Gatekeeper {
        fn authenticate<'a>(
            &'a self,
            connect: &'a ConnectPacket,
            _address: SocketAddr,
        ) -> Decision<'a, mqtt5::Result<AuthResult>> {
            Box::pin(ready(Ok(self.admit(connect))))
        }

        fn authorize_publish<'a>(
            &'a self,
            client_id: &str,
            user_id: Option<&'a str>,
            topic: &'a str,
        ) -> Decision<'a, bool> {
            Box::pin(ready(user_id == Some(GATEWAY_USER) || self.rights.may_publish(client_id, topic)))
        }

        fn authorize_subscribe<'a>(
            &'a self,
            client_id: &str,
            user_id: Option<&'a str>,
            filter: &'a str,
        ) -> Decision<'a, bool> {
            Box::pin(ready(user_id == Some(GATEWAY_USER) || self.rights.may_subscribe(client_id, filter)))
        }
    }
}
