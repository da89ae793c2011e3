//! How the commands that speak as an agent find the broker and the gateway.

use std::path::PathBuf;

use super::{Exit, complain, load};
use crate::config::{BrokerConfig, Config, Secret, Severity};
use crate::errors::chain;
use crate::gate::agent::AgentClient;
use crate::gate::connect::{BrokerAccess, Credentials};
use crate::ids::{ClientId, GatewayId};

/// Which broker, which gateway, and as whom.
#[derive(Clone, Debug, clap::Args)]
pub struct AgentArgs {
    /// Take the broker and the gateway's name from this configuration.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["broker", "gateway"])]
    config: Option<PathBuf>,
    /// The broker: mqtt://host:1883 or mqtts://host:8883.
    #[arg(long, value_name = "URL", requires = "gateway")]
    broker: Option<String>,
    /// The gateway's name.
    #[arg(long, value_name = "ID", requires = "broker")]
    gateway: Option<GatewayId>,
    /// Our own name: the MQTT client id, and the caller's level in the topics.
    #[arg(long, value_name = "NAME")]
    client: Option<ClientId>,
    /// The user name for the broker.
    #[arg(long, value_name = "NAME")]
    username: Option<String>,
    /// A file that holds the password for the broker.
    #[arg(long, value_name = "FILE", requires = "username")]
    password_file: Option<PathBuf>,
    /// A file of certificates (PEM) that the broker's is checked against.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

impl AgentArgs {
    /// The broker and the gateway that are meant.
    pub fn target(&self) -> Result<(BrokerAccess, GatewayId), Exit> {
        let (mut broker, gateway) = match (&self.broker, &self.gateway) {
            (Some(url), Some(gateway)) => (parse_broker(url)?, gateway.clone()),
            _ => {
                let path = self.config.as_deref().unwrap_or(std::path::Path::new(super::DEFAULT_CONFIG));
                let config = load(path)?;
                (config.broker, config.gateway)
            }
        };
        if self.ca_file.is_some() {
            broker.ca_file.clone_from(&self.ca_file);
        }
        let mut access = BrokerAccess::from_config(&broker);
        // The gateway's own password is not an agent's: what is not given here is not sent.
        access.credentials = match &self.username {
            Some(username) => Some(Credentials { username: username.clone(), password: self.password()? }),
            None if self.config.is_none() => None,
            None => access.credentials,
        };
        Ok((access, gateway))
    }

    fn password(&self) -> Result<Option<Secret>, Exit> {
        let Some(path) = &self.password_file else { return Ok(None) };
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Some(Secret::new(text.trim_end_matches(['\r', '\n']).to_owned()))),
            Err(err) => Err(complain(format_args!("{}: {err}", path.display()))),
        }
    }

    /// Connects. Without `--client` the name is one of its own for each process, so that two do not take each other's place.
    pub async fn connect(&self) -> Result<AgentClient, Exit> {
        let (access, gateway) = self.target()?;
        let name = self.client.clone().unwrap_or_else(own_name);
        AgentClient::connect(&access, &gateway, &name).await.map_err(|err| complain(chain(&err)))
    }
}

/// `cli-` and the number of this process.
fn own_name() -> ClientId {
    format!("cli-{}", std::process::id()).parse().expect("letters, a dash and digits are a name")
}

/// Reads a URL by the rules of `broker.url`.
fn parse_broker(url: &str) -> Result<BrokerConfig, Exit> {
    let quoted = serde_json::Value::from(url);
    let text = format!("[gateway]\nid = \"any\"\n[broker]\nurl = {quoted}\n");
    match Config::parse(&text, "--broker") {
        Ok(parsed) => Ok(parsed.config.broker),
        Err(faults) => {
            // A file without devices is warned of, which is no matter here.
            for fault in faults.iter().filter(|fault| fault.severity == Severity::Error) {
                complain(format_args!(
                    "--broker {url}: {}; {}",
                    fault.message,
                    fault.suggestion.as_deref().unwrap_or("")
                ));
            }
            Err(Exit::Usage)
        }
    }
}
