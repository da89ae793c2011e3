//! `fieldgate run`: the gateway itself.

use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};

use super::{ConfigFile, Exit, complain, load, runtime};
use crate::daemon::Daemon;
use crate::errors::chain;
use crate::memory;
use crate::service::{Notifier, watchdog_interval};

/// Run the gateway until it is told to stop (SIGTERM, SIGINT).
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  fieldgate run /etc/fieldgate/fieldgate.toml\n  fieldgate --log debug run --config ./line1.toml"
)]
pub struct RunArgs {
    #[command(flatten)]
    config: ConfigFile,
}

/// Runs the command.
pub fn main(args: &RunArgs) -> Exit {
    let config = match load(args.config.path()) {
        Ok(config) => Arc::new(config),
        Err(exit) => return exit,
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
    let watchdog = async {
        let Some(interval) = watchdog_interval() else { return std::future::pending::<()>().await };
        let mut beat = tokio::time::interval(interval);
        loop {
            beat.tick().await;
            notifier.alive();
        }
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = watchdog => {}
    }
    notifier.stopping();
    daemon.stop().await;
    Exit::Done
}
