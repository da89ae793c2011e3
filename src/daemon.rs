//! The daemon: everything is opened, then everything is started; and stopped in order.
//!
//! A device, a line or a broker that is away is no reason not to start: the plant side polls, the session connects, and each
//! says what it lacks. Only what a person has to mend stops the start: a taken port, a certificate that cannot be read.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::board::Board;
use crate::clock;
use crate::config::{BrokerEndpoint, Config};
use crate::facts::Facts;
use crate::field::link;
use crate::gate::broker::{BrokerError, EmbeddedBroker};
use crate::gate::connect::{AccessError, BrokerAccess};
use crate::gate::dispatch::Dispatcher;
use crate::gate::publisher::Publisher;
use crate::gate::session::{Session, SessionSettings};
use crate::gate::topics::Topics;
use crate::metrics::endpoint::Endpoint;
use crate::metrics::exporter::Exporter;
use crate::progress::{Pledge, Progress, Stuck};
use crate::registry::count_of;
use crate::registry::reading::DeviceStatus;
use crate::tools::Toolbox;
use crate::tools::dialect::catalog_json;

/// How long each part of the stop may take: calls in flight, the last status, the goodbye to the broker.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long the whole stop may take. Whatever still runs then is cut off.
const STOPPED_WITHIN: Duration = Duration::from_secs(5);

/// A running gateway.
pub struct Daemon {
    config: Arc<Config>,
    access: BrokerAccess,
    board: Arc<Board>,
    facts: Arc<Facts>,
    progress: Arc<Progress>,
    broker: Option<EmbeddedBroker>,
    stop_publisher: CancellationToken,
    stop_session: CancellationToken,
    stop_links: CancellationToken,
    links: JoinSet<()>,
    publisher: JoinSet<()>,
    session: JoinSet<()>,
    dispatcher: JoinSet<()>,
    metrics: JoinSet<()>,
}

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The embedded broker did not start.
    #[error("the embedded broker is not there")]
    Broker(#[from] BrokerError),
    /// Nothing can listen where the metrics should be read.
    #[error("the metrics cannot be offered at {listen}; change metrics.listen, or end the program that listens there")]
    Metrics {
        /// What the configuration says.
        listen: SocketAddr,
        /// What the system says.
        #[source]
        err: io::Error,
    },
    /// The broker cannot even be tried.
    #[error("the broker cannot be reached")]
    Access(#[from] AccessError),
}

impl Daemon {
    /// Opens everything, and starts everything. Call it inside a runtime.
    pub async fn start(config: Arc<Config>) -> Result<Daemon, StartError> {
        let broker = match &config.broker.endpoint {
            BrokerEndpoint::Embedded { listen } => Some(EmbeddedBroker::start(*listen, &config.gateway).await?),
            BrokerEndpoint::Remote { .. } => None,
        };
        let access = match &broker {
            Some(broker) => broker.access(),
            None => BrokerAccess::from_config(&config.broker),
        };
        let facts = Arc::new(Facts::new());
        let settings = SessionSettings {
            gateway: config.gateway.clone(),
            access: access.clone(),
            keep_alive: config.broker.keep_alive,
            renewed_every: config.publish.status_every,
        };
        let (session, bus, requests) = Session::open(settings, Arc::clone(&facts))?;
        let progress = Arc::new(Progress::default());
        let session = session.watched_by(progress.enrol("the session with the broker".into()));

        let board = Arc::new(Board::new(Arc::clone(&config.registry)));
        let (stop_links, stop_publisher, stop_session) =
            (CancellationToken::new(), CancellationToken::new(), CancellationToken::new());
        let exporter =
            Exporter { registry: Arc::clone(&config.registry), board: Arc::clone(&board), facts: Arc::clone(&facts) };
        let metrics = match config.metrics {
            Some(listen) => one_task(open_metrics(listen, exporter).await?.run(stop_session.clone())),
            None => JoinSet::new(),
        };
        let (field, links) =
            link::start(&config.registry, &board, config.publish.at_least_every, &progress, &stop_links);
        let publisher = Publisher {
            gateway: config.gateway.clone(),
            config: config.publish.clone(),
            registry: Arc::clone(&config.registry),
            board: Arc::clone(&board),
            facts: Arc::clone(&facts),
            bus: bus.clone(),
            catalog: Arc::new(catalog_json),
        };
        let toolbox =
            Toolbox { config: Arc::clone(&config), board: Arc::clone(&board), field, facts: Arc::clone(&facts) };
        let dispatcher = Dispatcher::new(Arc::new(toolbox), bus, Topics::new(&config.gateway), config.calls.clone());
        let daemon = Daemon {
            links,
            publisher: one_task(until_end(
                progress.enrol("the publisher".into()),
                publisher.run(stop_publisher.clone()),
            )),
            dispatcher: one_task(until_end(progress.enrol("the dispatcher".into()), dispatcher.run(requests))),
            session: one_task(session.run(stop_session.clone())),
            metrics,
            config,
            access,
            board,
            facts,
            progress,
            broker,
            stop_publisher,
            stop_session,
            stop_links,
        };
        info!("{}", daemon.summary());
        Ok(daemon)
    }

    /// What runs, in one line.
    pub fn summary(&self) -> String {
        let registry = &self.config.registry;
        format!(
            "gateway {}: {} on {} and {}; broker {}{}",
            self.config.gateway,
            count_of(registry.sensors().len(), "sensor"),
            count_of(registry.devices().len(), "device"),
            count_of(registry.links().len(), "link"),
            self.access.address(),
            if self.broker.is_some() { " (embedded)" } else { "" },
        )
    }

    /// How it goes, in a few words: for `systemctl status`.
    pub fn state(&self) -> String {
        let devices = self.config.registry.devices();
        let silent = devices.filter(|(index, _)| !answers(self.board.device(*index).status)).count();
        let devices = match (self.config.registry.devices().len() - silent, silent) {
            (count, 0) => format!("all {count} devices answer"),
            (0, count) => format!("none of {count} devices answers"),
            (count, silent) => format!("{count} of {} devices answer", count + silent),
        };
        let broker = if self.facts.broker().connected { "connected to" } else { "without" };
        format!("gateway {}: {devices}; {broker} the broker {}", self.config.gateway, self.access.address())
    }

    /// Which part makes no progress, if one does not: a fault of the gateway, which a new start mends.
    ///
    /// Ask every few seconds: a task that is only late is found at the second time of asking.
    pub fn stuck(&self) -> Option<Stuck> {
        if self.broker.as_ref().is_some_and(EmbeddedBroker::has_ended) {
            return Some(Stuck::Ended { task: "the embedded broker".into() });
        }
        self.progress.check(clock::instant())
    }

    /// How an agent on this machine reaches the broker, without credentials.
    pub fn broker_for_agents(&self) -> BrokerAccess {
        BrokerAccess { credentials: None, ..self.access.clone() }
    }

    /// Stops in order: the plant side, the last status, the session with the calls that still run, the embedded broker.
    ///
    /// Returns within five seconds, whatever hangs.
    pub async fn stop(mut self) {
        let end = Instant::now() + STOPPED_WITHIN;
        self.stop_links.cancel();
        join(&mut self.links, "links", end).await;
        self.stop_publisher.cancel();
        join(&mut self.publisher, "publisher", end).await;
        self.stop_session.cancel();
        join(&mut self.session, "session", end).await;
        join(&mut self.dispatcher, "dispatcher", end).await;
        join(&mut self.metrics, "metrics", end).await;
        if let Some(broker) = self.broker {
            let _ = timeout_at(end, broker.stop()).await;
        }
        info!("stopped");
    }
}

async fn open_metrics(listen: SocketAddr, exporter: Exporter) -> Result<Endpoint, StartError> {
    let open = async {
        let endpoint = Endpoint::open(listen, exporter).await?;
        info!("metrics at http://{}/metrics", endpoint.address()?);
        Ok(endpoint)
    };
    open.await.map_err(|err| StartError::Metrics { listen, err })
}

fn one_task(task: impl Future<Output = ()> + Send + 'static) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(task);
    tasks
}

/// Runs a task that pledges nothing but not to end by itself.
async fn until_end(pledge: Pledge, task: impl Future<Output = ()>) {
    task.await;
    drop(pledge);
}

fn answers(status: DeviceStatus) -> bool {
    matches!(status, DeviceStatus::Online | DeviceStatus::Degraded)
}

/// Waits for tasks to end, and ends them when they take too long.
async fn join(tasks: &mut JoinSet<()>, name: &str, end: Instant) {
    let ended = timeout_at(end.min(Instant::now() + PATIENCE), async {
        while let Some(outcome) = tasks.join_next().await {
            if let Err(err) = outcome {
                warn!(error = %err, "{name}: a task failed");
            }
        }
    });
    if ended.await.is_err() {
        warn!("{name}: did not end in time and was cut off");
        tasks.abort_all();
    }
}
