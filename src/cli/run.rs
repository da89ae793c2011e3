//! `fieldgate run`: the gateway itself.

use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;
use tracing::error;

use super::{ConfigFile, Exit, complain, load, runtime};
use crate::daemon::Daemon;
use crate::errors::chain;
use crate::memory;
use crate::progress::Stuck;
use crate::service::{Notifier, watchdog_interval};

/// Run the gateway until it is told to stop (SIGTERM, SIGINT).
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  fieldgate run /etc/fieldgate/fieldgate.toml\n  fieldgate --log debug run --config ./line1.toml\n\n\
        Exit codes: 0 it was told to stop, 1 it could not go on, 2 the configuration is wrong or cannot be read."
)]
pub struct RunArgs {
    #[command(flatten)]
    config: ConfigFile,
}

/// How often the gateway looks whether its parts make progress; more often where the watchdog wants it.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Runs the command.
pub fn main(args: &RunArgs) -> Exit {
    let config = match load(args.config.path()) {
        Ok(config) => Arc::new(config),
        // One that is not there, or may not be read, mends itself as little as a wrong one: no service should try again.
        Err(_) => return Exit::Usage,
    };
    memory::give_back();
    runtime().block_on(run(config))
}

async fn run(config: Arc<crate::config::Config>) -> Exit {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return complain("signals cannot be waited for");
    };
    let daemon = match Daemon::start(config).await {
        Ok(daemon) => daemon,
        Err(err) => return complain(chain(&err)),
    };
    let notifier = Notifier::from_environment();
    notifier.ready(&daemon.summary());
    let stuck = tokio::select! {
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
        stuck = watch(&daemon, &notifier) => Some(stuck),
    };
    if let Some(stuck) = stuck {
        // No orderly stop: it would wait for what is stuck, and say that the gateway was stopped on purpose.
        error!("{stuck}; the gateway ends, to be started anew");
        return Exit::Failed;
    }
    notifier.stopping();
    daemon.stop().await;
    Exit::Done
}

/// Feeds the watchdog as long as every part makes progress, and returns when one does not.
async fn watch(daemon: &Daemon, notifier: &Notifier) -> Stuck {
    let mut looks = tokio::time::interval(watchdog_interval().map_or(LOOK_EVERY, |interval| interval.min(LOOK_EVERY)));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut said = String::new();
    loop {
        looks.tick().await;
        if let Some(stuck) = daemon.stuck() {
            return stuck;
        }
        notifier.alive();
        let state = daemon.state();
        if state != said {
            notifier.status(&state);
            said = state;
        }
    }
}
