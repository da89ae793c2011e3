//! The command line: one file per command, each thin.

pub mod call;
pub mod check;
mod connect;
pub mod demo;
pub mod mcp;
pub mod plan;
pub mod read;
pub mod run;
pub mod sim;
pub mod status;
mod text;
pub mod tools;
pub mod watch;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::config::{Config, LoadError, Parsed};
use crate::errors::chain;
use crate::logging;

/// Where the service looks for its configuration.
pub const DEFAULT_CONFIG: &str = "/etc/fieldgate/fieldgate.toml";

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: it was done.
    Done,
    /// 1: it could not be done.
    Failed,
    /// 2: wrong usage, or a wrong configuration.
    Usage,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        match exit {
            Exit::Done => ExitCode::SUCCESS,
            Exit::Failed => ExitCode::from(1),
            Exit::Usage => ExitCode::from(2),
        }
    }
}

/// Reads PLCs and sensors over Modbus, and offers them to agents over MQTT as tools whose answers can be trusted.
#[derive(Debug, Parser)]
#[command(
    name = "fieldgate",
    version,
    after_help = "Examples:\n  \
        fieldgate demo                        see it all at work, with a simulated plant\n  \
        fieldgate check fieldgate.toml        check a configuration\n  \
        fieldgate plan fieldgate.toml         what it would ask, and how busy that keeps each line\n  \
        fieldgate run fieldgate.toml          run the gateway\n  \
        fieldgate call get_sensor_reading sensor_id=A_LINE1_042\n\n\
        Exit codes: 0 done, 1 it could not be done, 2 wrong usage or configuration."
)]
pub struct Cli {
    /// How much to log, as in RUST_LOG: error, warn, info, debug, or fieldgate::field=debug. `run` and `sim` log at info.
    #[arg(long, global = true, value_name = "FILTER")]
    log: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::RunArgs),
    Check(check::CheckArgs),
    Plan(plan::PlanArgs),
    Demo(demo::DemoArgs),
    Read(read::ReadArgs),
    Watch(watch::WatchArgs),
    Call(call::CallArgs),
    Tools(tools::ToolsArgs),
    Mcp(mcp::McpArgs),
    Status(status::StatusArgs),
    Sim(sim::SimArgs),
    /// Print a completion script for a shell.
    #[command(after_help = "Example:\n  fieldgate completions bash > /etc/bash_completion.d/fieldgate")]
    Completions {
        /// bash, zsh, fish, elvish or powershell.
        shell: clap_complete::Shell,
    },
}

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    if !matches!(cli.command, Command::Run(_) | Command::Sim(_) | Command::Demo(_)) {
        end_with_the_pipe();
        complain_of_a_full_disk();
    }
    let usual = match cli.command {
        Command::Run(_) | Command::Sim(_) => logging::OF_A_SERVICE,
        _ => logging::OF_A_COMMAND,
    };
    logging::start(cli.log.as_deref().unwrap_or(usual));
    let exit = match cli.command {
        Command::Run(args) => run::main(&args),
        Command::Check(args) => check::main(&args),
        Command::Plan(args) => plan::main(&args),
        Command::Demo(args) => demo::main(&args),
        Command::Read(args) => read::main(&args),
        Command::Watch(args) => watch::main(&args),
        Command::Call(args) => call::main(&args),
        Command::Tools(args) => tools::main(&args),
        Command::Mcp(args) => mcp::main(&args),
        Command::Status(args) => status::main(&args),
        Command::Sim(args) => sim::main(&args),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "fieldgate", &mut std::io::stdout());
            Exit::Done
        }
    };
    exit.into()
}

/// Lets a command end in silence when whoever reads its output has enough, as in `fieldgate tools | head`.
///
/// A service does not: there the loss of a reader is no reason to stop.
#[allow(unsafe_code)]
fn end_with_the_pipe() {
    // SAFETY: setting a signal to its default action touches no memory, and no other thread runs yet.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}

/// Which file describes the gateway.
#[derive(Clone, Debug, clap::Args)]
pub struct ConfigFile {
    /// The gateway's configuration file.
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
    /// The same, as an option.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigFile {
    /// The file that was named, or the service's.
    pub fn path(&self) -> &Path {
        self.file.as_deref().or(self.config.as_deref()).unwrap_or(Path::new(DEFAULT_CONFIG))
    }
}

/// What cannot be printed, as to a file on a full disk, ends a command with a reason and exit code 1, and not as a fault of ours.
fn complain_of_a_full_disk() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let said = info.payload().downcast_ref::<String>().map_or("", String::as_str);
        match said.strip_prefix("failed printing to stdout: ") {
            Some(why) => {
                complain(format_args!("the output cannot be written: {why}"));
                std::process::exit(1);
            }
            None => usual(info),
        }
    }));
}

/// Reads a configuration; faults are printed, and are the exit code.
pub fn load(path: &Path) -> Result<Config, Exit> {
    match Config::load(path) {
        Ok(Parsed { config, warnings }) => {
            warnings.iter().for_each(|warning| eprintln!("{warning}"));
            Ok(config)
        }
        Err(LoadError::Faulty(faults)) => {
            eprintln!("{faults}");
            Err(Exit::Usage)
        }
        Err(err @ LoadError::Unreadable { .. }) => {
            complain(chain(&err));
            if path == Path::new(DEFAULT_CONFIG) {
                eprintln!("Name a configuration with --config FILE; `fieldgate demo` needs none.");
            }
            Err(Exit::Usage)
        }
    }
}

/// Says why a command failed.
pub fn complain(err: impl Display) -> Exit {
    eprintln!("fieldgate: {err}");
    Exit::Failed
}

/// The runtime of the daemon and of every command: one thread, which is all that a gateway needs.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("the system grants an epoll and a timer")
}
