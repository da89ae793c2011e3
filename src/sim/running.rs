//! A plant that is being served: its links, and what can be done to them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use super::control::{self, Command, did_you_mean};
use super::fault_command;
use super::faults::Counts;
use super::line::SerialSlave;
use super::plant::Plant;
use super::relay::LinkFaults;
use super::script::Step;
use super::slave::{SharedPlant, Slave, TcpSlave};
use super::{Place, PlantOptions, ServedLink, SimError};
use crate::quantity::Value;
use crate::registry::sensor::Endpoint;
use crate::registry::{LinkIndex, Registry, SensorIndex};

/// The most lines that wait to be unplugged. For one more only the connection is closed.
const LINES_AWAY: usize = 64;

/// A plant that is being served. Cheap to clone; the last one dropped closes every link.
#[derive(Clone, Debug)]
pub struct RunningPlant {
    plant: Arc<SharedPlant>,
    registry: Arc<Registry>,
    served: Arc<[ServedLink]>,
    links: Arc<Links>,
    quit: CancellationToken,
}

/// The links of a plant, which are unplugged and plugged by commands and by faults.
#[derive(Debug)]
struct Links {
    plant: Arc<SharedPlant>,
    faults: Vec<LinkFaults>,
    servers: Mutex<Vec<LinkServer>>,
}

/// A link, and its server while it is plugged in.
#[derive(Debug)]
enum LinkServer {
    Tcp { address: SocketAddr, server: Option<TcpSlave> },
    Serial { path: PathBuf, local_echo: bool, replace: bool, server: Option<SerialSlave> },
}

impl RunningPlant {
    /// Serves every link, or says which one cannot be.
    pub(super) async fn start(registry: Arc<Registry>, options: PlantOptions) -> Result<RunningPlant, SimError> {
        let plant = Arc::new(SharedPlant::new(Plant::with_options(registry.clone(), &options)));
        let (away, goes_away) = mpsc::channel(LINES_AWAY);
        let faults = LinkFaults::of_registry(&plant, &registry, options.fault_seed, &away);
        let mut links = Vec::new();
        let mut served = Vec::new();
        let mut tcp_links = 0;
        for (index, link) in registry.links() {
            let slave = Slave::new(plant.clone(), index);
            let link_faults = faults[index.place()].clone();
            let server = match &link.endpoint {
                Endpoint::Tcp { host, port } | Endpoint::RtuOverTcp { host, port, .. } => {
                    let moved_port = moved_port(options.port_base, tcp_links);
                    tcp_links += 1;
                    let port = moved_port
                        .map_or(Some(*port), |moved| moved)
                        .ok_or_else(|| SimError::PortsExhausted { link: link.id.clone() })?;
                    let host = moved_host(&options).map_or_else(|| host.clone(), |address| address.to_string());
                    let failed =
                        |err| SimError::Listen { link: link.id.clone(), address: format!("{host}:{port}"), err };
                    let listener = TcpListener::bind((host.as_str(), port)).await.map_err(failed)?;
                    let address = listener.local_addr().map_err(failed)?;
                    LinkServer::Tcp { address, server: Some(TcpSlave::start(slave, link_faults, listener)) }
                }
                Endpoint::Serial(settings) => {
                    let named = options.serial_dir.as_ref().map(|folder| whole_path(folder).join(link.id.as_str()));
                    let replace = named.is_some();
                    let path = named.unwrap_or_else(|| PathBuf::from(&settings.path));
                    let local_echo = settings.local_echo;
                    let server = SerialSlave::start(slave, link_faults, &path, local_echo, replace)
                        .map_err(|err| SimError::SerialPort { link: link.id.clone(), path: path.clone(), err })?;
                    LinkServer::Serial { path, local_echo, replace, server: Some(server) }
                }
            };
            let units = link.devices.iter().map(|device| registry.device(*device).unit).collect();
            served.push(ServedLink { link: link.id.clone(), place: server.place(), units });
            links.push(server);
        }
        let links = Arc::new(Links { plant: plant.clone(), faults, servers: Mutex::new(links) });
        tokio::spawn(let_lines_go_away(Arc::downgrade(&links), goes_away));
        Ok(RunningPlant { plant, registry, served: served.into(), links, quit: CancellationToken::new() })
    }

    /// Where each link is served, in the order of the configuration. An unplugged link comes back to the same place.
    pub fn endpoints(&self) -> &[ServedLink] {
        &self.served
    }

    /// Where one link is served.
    pub fn place(&self, link: &str) -> Option<&Place> {
        self.served.iter().find(|served| served.link.as_str() == link).map(|served| &served.place)
    }

    /// The registry that a gateway needs to find this plant: the same one, with the endpoints moved.
    pub fn moved_registry(&self) -> Registry {
        super::moved::move_registry(&self.registry, &self.served)
    }

    /// The value that a sensor's registers hold now; `None` while they hold none.
    pub fn value(&self, sensor: SensorIndex) -> Option<Value> {
        let at = self.elapsed();
        self.plant.lock().value(sensor, at)
    }

    /// How long the plant has been running.
    pub fn elapsed(&self) -> Duration {
        self.plant.elapsed()
    }

    /// Parses and carries out one line. The reply is one line that starts with `ok` or `error`.
    pub async fn command_line(&self, line: &str) -> String {
        match Command::parse(line) {
            Ok(command) => self.command(command).await,
            Err(message) => format!("error {message}"),
        }
    }

    /// Carries out a command. The reply is one line that starts with `ok` or `error`.
    pub async fn command(&self, command: Command) -> String {
        let result = match &command {
            Command::Unplug(link) => self.unplug(link.as_str()).await,
            Command::Plug(link) => self.plug(link.as_str()).await,
            Command::Help => Ok(control::help()),
            Command::Quit => {
                self.quit.cancel();
                Ok("the plant ends".to_owned())
            }
            Command::List(None) => {
                let links = self.describe_links().await;
                self.apply(&command).map(|devices| format!("{links}; {devices}"))
            }
            Command::Fault(command) => {
                let faults: Vec<&LinkFaults> = self.links.faults.iter().collect();
                fault_command::apply(command, &self.registry, &faults)
            }
            _ => self.apply(&command),
        };
        // A text that a sensor holds may have line breaks, and a reply is one line.
        match result {
            Ok(done) => format!("ok {}", done.replace(['\r', '\n'], " ")),
            Err(message) => format!("error {}", message.replace(['\r', '\n'], " ")),
        }
    }

    /// Returns when `quit` was commanded.
    pub async fn quit_commanded(&self) {
        self.quit.cancelled().await;
    }

    fn apply(&self, command: &Command) -> Result<String, String> {
        let at = self.elapsed();
        self.plant.lock().apply(command, at)
    }

    async fn describe_links(&self) -> String {
        let links = self.links.servers.lock().await;
        let one = |(served, server): (&ServedLink, &LinkServer)| {
            let state = if server.is_plugged() { "plugged" } else { "unplugged" };
            format!("{} at {} is {state}", served.link, served.place)
        };
        self.served.iter().zip(links.iter()).map(one).collect::<Vec<_>>().join(", ")
    }

    async fn unplug(&self, id: &str) -> Result<String, String> {
        self.links.unplug(self.find_link(id)?).await;
        Ok(format!("{id} is unplugged"))
    }

    async fn plug(&self, id: &str) -> Result<String, String> {
        let index = self.find_link(id)?;
        self.links.plug(index).await.map_err(|err| format!("{id} cannot be plugged in: {err}"))?;
        Ok(format!("{id} is plugged in at {}", self.served[index.place()].place))
    }

    /// Carries out a script, and returns when its last step is done. What a step was answered is handed to `told`.
    pub async fn play(&self, script: Vec<Step>, mut told: impl FnMut(&Step, &str)) {
        for step in script {
            tokio::time::sleep(step.at.saturating_sub(self.elapsed())).await;
            let reply = self.command(step.command.clone()).await;
            told(&step, &reply);
        }
    }

    /// What has happened on a link.
    pub fn counts(&self, link: LinkIndex) -> Counts {
        self.links.faults[link.place()].injector().counts()
    }

    fn find_link(&self, id: &str) -> Result<LinkIndex, String> {
        let known = || self.registry.links().map(|(_, link)| link.id.as_str());
        self.registry.find_link(id).ok_or_else(|| format!("there is no link {id}{}", did_you_mean(id, known())))
    }
}

impl Links {
    async fn unplug(&self, link: LinkIndex) {
        let mut servers = self.servers.lock().await;
        match &mut servers[link.place()] {
            LinkServer::Tcp { server, .. } => {
                if let Some(server) = server.take() {
                    server.close().await;
                }
            }
            LinkServer::Serial { server, .. } => {
                if let Some(server) = server.take() {
                    server.close().await;
                }
            }
        }
    }

    async fn plug(&self, link: LinkIndex) -> io::Result<()> {
        let slave = Slave::new(self.plant.clone(), link);
        let mut servers = self.servers.lock().await;
        servers[link.place()].plug(slave, self.faults[link.place()].clone()).await
    }
}

/// Unplugs each line that goes away, and plugs it in again when its time has come. It holds no plant alive, and ends with it.
///
/// A link that is plugged or unplugged by hand meanwhile is plugged in at the end all the same.
async fn let_lines_go_away(links: Weak<Links>, mut goes_away: mpsc::Receiver<(LinkIndex, Duration)>) {
    while let Some((link, pause)) = goes_away.recv().await {
        let Some(there) = links.upgrade() else { return };
        there.unplug(link).await;
        let links = links.clone();
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            let Some(there) = links.upgrade() else { return };
            if let Err(err) = there.plug(link).await {
                tracing::warn!(?link, error = %err, "a line that was away cannot be plugged in again");
            }
        });
    }
}

impl LinkServer {
    fn is_plugged(&self) -> bool {
        match self {
            LinkServer::Tcp { server, .. } => server.is_some(),
            LinkServer::Serial { server, .. } => server.is_some(),
        }
    }

    fn place(&self) -> Place {
        match self {
            LinkServer::Tcp { address, .. } => Place::Tcp(reachable(*address).to_string()),
            LinkServer::Serial { path, .. } => Place::Serial(path.clone()),
        }
    }

    async fn plug(&mut self, slave: Slave, faults: LinkFaults) -> io::Result<()> {
        match self {
            LinkServer::Tcp { address, server: server @ None } => {
                *server = Some(TcpSlave::start(slave, faults, TcpListener::bind(*address).await?));
            }
            LinkServer::Serial { path, local_echo, replace, server: server @ None } => {
                *server = Some(SerialSlave::start(slave, faults, Path::new(path), *local_echo, *replace)?);
            }
            LinkServer::Tcp { .. } | LinkServer::Serial { .. } => {}
        }
        Ok(())
    }
}

/// The address at which this machine reaches a listener: one that listens everywhere is found on loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn moved_host(options: &PlantOptions) -> Option<IpAddr> {
    options.bind.or(options.port_base.map(|_| Ipv4Addr::LOCALHOST.into()))
}

/// The port of the n-th TCP link: `None` if ports stay as configured, `Some(None)` if none is left.
fn moved_port(base: Option<u16>, nth: u16) -> Option<Option<u16>> {
    base.map(|base| if base == 0 { Some(0) } else { base.checked_add(nth) })
}

/// A path from the root, since the configuration that is written may be used from another folder.
fn whole_path(folder: &std::path::Path) -> std::path::PathBuf {
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())
}
