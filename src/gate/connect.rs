//! How a broker is reached, for the gateway's session and for the client in [`super::agent`], and what a failure means.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rumqttc::mqttbytes::Error as MqttError;
use rumqttc::{
    ConnectReturnCode, ConnectionError, DisconnectReasonCode, MqttOptions, NetworkOptions, StateError,
    TlsConfiguration, TlsError, Transport,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::config::{BrokerConfig, BrokerEndpoint, Secret};

/// The largest packet that is taken: 1 MiB of arguments, and room for what stands around them.
///
/// It is told to the broker as Maximum Packet Size (MQTT 5, section 3.1.2.11.4), which then drops what is larger: a client
/// that only refuses a packet on arrival has to close the connection over it.
pub const MAX_PACKET: u32 = (1 << 20) + (1 << 16);

/// How long one try to connect may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How many packets the client puts into one write.
const MESSAGES_AT_ONCE: usize = 64;

/// How to reach a broker.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokerAccess {
    /// A name or an address; an IPv6 address stands without brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// What the broker's certificate is checked against; `None` connects without TLS.
    pub tls: Option<TlsTrust>,
    /// Who we say that we are.
    pub credentials: Option<Credentials>,
}

/// What a broker's certificate is checked against.
#[derive(Clone, Debug, PartialEq)]
pub enum TlsTrust {
    /// The certificates of the system.
    System,
    /// The certificates in this PEM file.
    File(PathBuf),
}

/// A user name, and a password if one is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Credentials {
    /// The user name.
    pub username: String,
    /// The password.
    pub password: Option<Secret>,
}

/// Why a broker cannot even be tried.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The file of certificates cannot be read.
    #[error("the certificates in {path} (broker.ca_file) cannot be read", path = path.display())]
    CaFile {
        /// Which file.
        path: PathBuf,
        /// Why not.
        #[source]
        err: std::io::Error,
    },
    /// The file holds no certificate.
    #[error("{path} (broker.ca_file) holds no certificate in PEM form", path = path.display())]
    NoCertificate {
        /// Which file.
        path: PathBuf,
    },
    /// TLS cannot be set up.
    #[error("TLS cannot be set up; name a file of certificates in broker.ca_file if the system has none")]
    Tls {
        /// Why not.
        #[source]
        err: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl BrokerAccess {
    /// What a configuration says of the broker. Of the embedded one that is what an agent has: its address, and no
    /// credentials; the gateway's own are made at its start.
    pub fn from_config(config: &BrokerConfig) -> BrokerAccess {
        let trust = || config.ca_file.clone().map_or(TlsTrust::System, TlsTrust::File);
        let credentials = config.username.clone().map(|username| {
            let password = config.password.clone();
            Credentials { username, password }
        });
        match &config.endpoint {
            BrokerEndpoint::Remote { host, port, tls } => {
                BrokerAccess { host: host.clone(), port: *port, tls: tls.then(trust), credentials }
            }
            BrokerEndpoint::Embedded { listen } => {
                BrokerAccess { host: listen.ip().to_string(), port: listen.port(), tls: None, credentials: None }
            }
        }
    }

    /// `host:port`, for people.
    pub fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The options of a client of this broker: a clean start, and all sizes bounded.
    pub(super) fn options(&self, client_id: &str) -> Result<MqttOptions, AccessError> {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let mut options = MqttOptions::new(client_id, (host, self.port));
        options.set_transport(self.transport()?);
        options.set_clean_start(true);
        options.set_connect_timeout(CONNECT_TIMEOUT);
        options.set_max_packet_size(Some(MAX_PACKET));
        // The default of 65,535 is allocated at once, 14 MB of it.
        options.set_outgoing_inflight_upper_limit(32);
        // What is queued goes out in one write; the default is a write for each packet.
        options.set_max_request_batch(MESSAGES_AT_ONCE);
        let mut network = NetworkOptions::new();
        network.set_tcp_nodelay(true);
        options.set_network_options(network);
        match &self.credentials {
            Some(Credentials { username, password: Some(password) }) => {
                options.set_credentials(username.as_str(), password.reveal().to_owned());
            }
            Some(Credentials { username, password: None }) => {
                options.set_username(username.as_str());
            }
            None => {}
        }
        Ok(options)
    }

    fn transport(&self) -> Result<Transport, AccessError> {
        match &self.tls {
            None => Ok(Transport::tcp()),
            Some(TlsTrust::System) => {
                Transport::try_tls_with_default_config().map_err(|err| AccessError::Tls { err: err.into() })
            }
            Some(TlsTrust::File(path)) => {
                let config = trusting(path)?;
                Ok(Transport::tls_with_config(TlsConfiguration::Rustls(Arc::new(config))))
            }
        }
    }
}

fn trusting(path: &PathBuf) -> Result<rustls::ClientConfig, AccessError> {
    let pem = std::fs::read(path).map_err(|err| AccessError::CaFile { path: path.clone(), err })?;
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok));
    if roots.is_empty() {
        return Err(AccessError::NoCertificate { path: path.clone() });
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|err| AccessError::Tls { err: err.into() })?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Why there is no session, by what someone would do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The broker cannot be reached, or went away. It passes by itself, or the network is to be looked at.
    #[error("the broker does not answer ({said})")]
    Away {
        /// What the system or the broker said.
        said: String,
    },
    /// The broker does not want us. A repeat will not help before someone changes something.
    #[error(
        "the broker refuses the connection ({said}); check broker.username and broker.password, and the broker's access rules for this client id"
    )]
    NotAuthorised {
        /// What the broker said.
        said: String,
    },
    /// Another client connected with our client id.
    #[error(
        "another client has connected under the same client id; two gateways have the same gateway.id, or two programs the same client name"
    )]
    TakenOver,
    /// One connection after the other was closed by the broker, each soon after it was made. Not every broker says why.
    #[error(
        "the broker has closed several connections soon after each was made; most likely another gateway runs with the same gateway.id ({said})"
    )]
    Unsteady {
        /// What was said at the last one.
        said: String,
    },
    /// The broker's certificate is not to be trusted, or it speaks no TLS.
    #[error(
        "TLS with the broker fails ({said}); check broker.ca_file, the name in broker.url against the certificate, and the clock"
    )]
    Tls {
        /// What the TLS library said.
        said: String,
    },
    /// The broker sent, or was sent, what MQTT does not allow.
    #[error("the connection was closed over a fault of the protocol ({said})")]
    Protocol {
        /// What it was.
        said: String,
    },
}

impl Trouble {
    /// What an error of the client means.
    pub(super) fn of(err: &ConnectionError) -> Trouble {
        let said = err.to_string();
        match err {
            ConnectionError::ConnectionRefused(code)
            | ConnectionError::MqttState(StateError::ConnFail { reason: code }) => Trouble::of_refusal(*code),
            ConnectionError::MqttState(StateError::ServerDisconnect { reason_code, .. }) => {
                Trouble::of_disconnect(*reason_code)
            }
            // rustls tells a bad certificate as invalid data; another I/O error is the network's.
            ConnectionError::Tls(TlsError::Io(err)) if err.kind() != ErrorKind::InvalidData => Trouble::Away { said },
            ConnectionError::Tls(_) => Trouble::Tls { said },
            ConnectionError::MqttState(StateError::Deserialization(MqttError::Io(_))) => Trouble::Away { said },
            ConnectionError::MqttState(StateError::Deserialization(_) | StateError::ProtocolViolation(_)) => {
                Trouble::Protocol { said }
            }
            ConnectionError::Timeout(_) => Trouble::Away { said: "no answer in time".into() },
            _ => Trouble::Away { said },
        }
    }

    fn of_refusal(code: ConnectReturnCode) -> Trouble {
        let said = format!("{code:?}");
        match code {
            ConnectReturnCode::BadUserNamePassword
            | ConnectReturnCode::NotAuthorized
            | ConnectReturnCode::Banned
            | ConnectReturnCode::BadAuthenticationMethod
            | ConnectReturnCode::BadClientId
            | ConnectReturnCode::ClientIdentifierNotValid => Trouble::NotAuthorised { said },
            _ => Trouble::Away { said },
        }
    }

    fn of_disconnect(code: DisconnectReasonCode) -> Trouble {
        let said = format!("{code:?}");
        match code {
            DisconnectReasonCode::SessionTakenOver => Trouble::TakenOver,
            DisconnectReasonCode::NotAuthorized | DisconnectReasonCode::AdministrativeAction => {
                Trouble::NotAuthorised { said }
            }
            DisconnectReasonCode::MalformedPacket
            | DisconnectReasonCode::ProtocolError
            | DisconnectReasonCode::PacketTooLarge
            | DisconnectReasonCode::TopicNameInvalid
            | DisconnectReasonCode::ReceiveMaximumExceeded => Trouble::Protocol { said },
            _ => Trouble::Away { said },
        }
    }
}

/// How long to wait before the next try: from half a second, doubling to half a minute, with a random part so that a
/// hundred gateways do not come back in the same second. The client itself would try again at once, for ever.
#[derive(Clone, Debug, Default)]
pub(super) struct Retry {
    failures: u32,
    /// Sessions in a row that the broker closed soon after they were made.
    short_sessions: u32,
}

impl Retry {
    const FIRST: Duration = Duration::from_millis(500);
    const LONGEST: Duration = Duration::from_secs(30);
    /// Where only a person can help; quick repeats would fill the broker's log, or lock the account.
    const REFUSED: Duration = Duration::from_secs(60);
    /// Two clients with one id throw each other out: the slower each is, the more the other can do.
    const TAKEN_OVER: Duration = Duration::from_secs(120);
    /// A session that lasted so long was a good one, and its end starts the count anew.
    const GOOD_SESSION: Duration = Duration::from_secs(10);

    /// A session that lasted less, and was closed by the other side, was cut short.
    const SHORT_SESSION: Duration = Duration::from_secs(60);
    /// So many of them in a row are no accident.
    const SHORT_SESSIONS: u32 = 3;

    /// What is behind the end of a session, seen with those before it.
    pub fn judge(&mut self, trouble: Trouble, up_for: Option<Duration>) -> Trouble {
        match (trouble, up_for) {
            (Trouble::Away { said }, Some(up_for)) if up_for < Retry::SHORT_SESSION => {
                self.short_sessions += 1;
                match self.short_sessions >= Retry::SHORT_SESSIONS {
                    true => Trouble::Unsteady { said },
                    false => Trouble::Away { said },
                }
            }
            (trouble, _) => {
                self.short_sessions = 0;
                trouble
            }
        }
    }

    /// The pause after this failure of a session that was up for so long; `random` lies in 0..1.
    pub fn pause(&mut self, trouble: &Trouble, up_for: Option<Duration>, random: f64) -> Duration {
        if up_for.is_some_and(|up_for| up_for >= Retry::GOOD_SESSION) {
            self.failures = 0;
        }
        let doublings = self.failures.min(6);
        self.failures = self.failures.saturating_add(1);
        let base = match trouble {
            Trouble::Away { .. } | Trouble::Unsteady { .. } | Trouble::Protocol { .. } => {
                (Retry::FIRST * (1 << doublings)).min(Retry::LONGEST)
            }
            Trouble::NotAuthorised { .. } | Trouble::Tls { .. } => Retry::REFUSED,
            Trouble::TakenOver => Retry::TAKEN_OVER,
        };
        base.mul_f64(1.0 - 0.3 * random.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away() -> Trouble {
        Trouble::Away { said: "refused".into() }
    }

    #[test]
    fn pauses_grow_to_half_a_minute_and_start_anew_after_a_good_session() {
        let mut retry = Retry::default();
        let pauses: Vec<u128> = (0..9).map(|_| retry.pause(&away(), None, 0.0).as_millis()).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]);
        assert_eq!(retry.pause(&away(), Some(Duration::from_secs(1)), 0.0), Retry::LONGEST, "a flapping broker");
        assert_eq!(retry.pause(&away(), Some(Duration::from_secs(10)), 0.0), Retry::FIRST);
    }

    #[test]
    fn sessions_that_are_cut_short_again_and_again_point_to_a_second_gateway() {
        let mut retry = Retry::default();
        let soon = Some(Duration::from_secs(2));
        assert_eq!([retry.judge(away(), soon), retry.judge(away(), soon)], [away(), away()]);
        let third = retry.judge(away(), soon);
        assert!(third.to_string().contains("same gateway.id"), "{third}");
        assert_eq!(retry.judge(away(), None), away(), "a broker that is not there at all is another matter");
        assert_eq!(retry.judge(away(), Some(Duration::from_secs(600))), away());
    }

    #[test]
    fn the_random_part_shortens_a_pause_by_less_than_a_third() {
        let mut retry = Retry::default();
        assert_eq!(retry.pause(&away(), None, 1.0), Duration::from_millis(350));
    }

    #[test]
    fn what_only_a_person_can_mend_is_tried_slowly() {
        let mut retry = Retry::default();
        let refused = Trouble::of_refusal(ConnectReturnCode::BadUserNamePassword);
        assert_eq!(retry.pause(&refused, None, 0.0), Retry::REFUSED);
        let taken_over = Trouble::of_disconnect(DisconnectReasonCode::SessionTakenOver);
        assert_eq!(retry.pause(&taken_over, None, 0.0), Retry::TAKEN_OVER);
        assert!(refused.to_string().contains("broker.password"), "{refused}");
        assert!(taken_over.to_string().contains("gateway.id"), "{taken_over}");
    }

    #[test]
    fn a_broken_connection_is_no_fault_of_the_protocol_and_a_bad_certificate_no_outage() {
        let reset = || std::io::Error::from(ErrorKind::ConnectionReset);
        let broken = ConnectionError::MqttState(StateError::Deserialization(MqttError::Io(reset())));
        assert!(matches!(Trouble::of(&broken), Trouble::Away { .. }));
        assert!(matches!(Trouble::of(&ConnectionError::Tls(TlsError::Io(reset()))), Trouble::Away { .. }));
        let untrusted = std::io::Error::new(ErrorKind::InvalidData, "unknown issuer");
        assert!(matches!(Trouble::of(&ConnectionError::Tls(TlsError::Io(untrusted))), Trouble::Tls { .. }));
    }

    #[test]
    fn a_file_without_a_certificate_is_told_by_name() {
        let access = |path: &str| BrokerAccess {
            host: "localhost".into(),
            port: 8883,
            tls: Some(TlsTrust::File(path.into())),
            credentials: None,
        };
        let check = |path: &str, expected: &str| {
            let err = access(path).options("x").expect_err("no certificate there");
            assert!(err.to_string().contains(expected), "{err}");
        };
        check("/nowhere/ca.pem", "cannot be read");
        check("Cargo.toml", "holds no certificate");
    }
}
