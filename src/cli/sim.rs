//! `fieldgate sim`: the simulated plant as a process of its own.

use std::io::{self, BufRead, Write};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{RwLock, Semaphore, mpsc};
use tokio::task::{JoinHandle, JoinSet};

use super::Exit;
use crate::errors::chain;
use crate::registry::Registry;
use crate::sim::script::{self, Step};
use crate::sim::{Place, Plant, PlantOptions, RunningPlant, ServedLink, SimError, moved};

/// Answers for the devices of a configuration, as a Modbus server over TCP and on pseudo-terminals.
///
/// The values move plausibly inside their ranges. While it runs, devices are stopped, slowed and revived, links are
/// unplugged, and sensors are set, by commands on the standard input or on the control socket; `help` lists them.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct SimArgs {
    /// The configuration of the gateway whose devices are simulated
    #[arg(value_name = "FILE", required_unless_present = "send")]
    pub file: Option<PathBuf>,

    /// Listen on this address, whatever host a link is configured for
    #[arg(long, value_name = "ADDRESS")]
    pub bind: Option<IpAddr>,

    /// Listen on this port and the ones after it, in the order of the links; 0 takes free ones. Without --bind on
    /// 127.0.0.1
    #[arg(long, value_name = "PORT")]
    pub port_base: Option<u16>,

    /// Make the serial ports in this folder, named after their links, instead of where they are configured
    #[arg(long, value_name = "DIR")]
    pub serial_dir: Option<PathBuf>,

    /// Write the configuration with which a gateway finds this plant: the same text with other places of the links
    #[arg(long, value_name = "FILE")]
    pub write_config: Option<PathBuf>,

    /// Answer exception 2 for registers between sensors, instead of 0 in gaps of up to 64 registers
    #[arg(long)]
    pub strict_gaps: bool,

    /// Plants of one seed have the same values at the same time after their start
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,

    /// Values say whose they are and of when, instead of looking like measurements
    #[arg(long)]
    pub self_identifying: bool,

    /// Carry out the commands of this file, one a line, such as `fault press-plc silence 5%` or `at 10s unplug press-tcp`
    #[arg(long, value_name = "FILE")]
    pub faults: Option<PathBuf>,

    /// Repeat the chance of an earlier run; its seed was printed at the start
    #[arg(long, value_name = "NUMBER")]
    pub fault_seed: Option<u64>,

    /// Take commands on this Unix socket; with --send, the socket of the plant that is meant
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,

    /// Send one command to a running plant, print its reply, and end
    #[arg(long, value_name = "COMMAND", requires = "control", conflicts_with_all = ["file", "write_config"])]
    pub send: Option<String>,

    /// End when the standard input ends, so that a plant does not outlive the program that started it
    #[arg(long)]
    pub until_stdin_closes: bool,

    /// Print what is served as JSON, one object per line
    #[arg(long)]
    pub json: bool,
}

const EXAMPLES: &str = "\
Examples:
  Try a configuration without its plant:
    fieldgate sim plant.toml --port-base 15020 --serial-dir /tmp/ports --write-config sim.toml
    fieldgate run sim.toml

  A device dies and comes back (type it, or send it from elsewhere):
    fieldgate sim plant.toml --port-base 15020 --control /tmp/plant.sock
    fieldgate sim --control /tmp/plant.sock --send \"stop press-plc\"
    fieldgate sim --control /tmp/plant.sock --send \"start press-plc\"

  One answer in twenty is lost, at random; the same seed loses the same ones:
    fieldgate sim plant.toml --port-base 15020 --control /tmp/plant.sock --fault-seed 7
    fieldgate sim --control /tmp/plant.sock --send \"fault press-plc silence 5%\"

Commands: stop, start, slow, exception, unplug, plug, set, raw, novalue, free, get, list, fault, faults, limit, lack,
connections, help, quit. docs/simulator.md explains them.
Each is answered by one line that begins with `ok` or `error`.

Exit codes: 0 done, 1 it could not be done (with --send: the reply was an error), 2 wrong usage or configuration.";

/// What the plant's process needs to run.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// The links, devices and sensors.
    pub registry: Arc<Registry>,
    /// Where and how they are served.
    pub plant: PlantOptions,
    /// The moved configuration: the text that it is made from, and the file to write.
    pub write_config: Option<(String, PathBuf)>,
    /// The control socket.
    pub control: Option<PathBuf>,
    /// Whether the end of the standard input ends the plant.
    pub until_stdin_closes: bool,
    /// What happens to it, and when.
    pub script: Vec<Step>,
    /// Whether lines are JSON.
    pub json: bool,
}

impl SimArgs {
    /// The options for a configuration: what was parsed from the file, and its text.
    pub fn options(&self, registry: Arc<Registry>, text: &str, script: Vec<Step>) -> SimOptions {
        SimOptions {
            registry,
            script,
            plant: PlantOptions {
                bind: self.bind,
                port_base: self.port_base,
                serial_dir: self.serial_dir.clone(),
                strict_gaps: self.strict_gaps,
                seed: self.seed,
                fault_seed: self.fault_seed.unwrap_or_else(rand::random),
                self_identifying: self.self_identifying,
            },
            write_config: self.write_config.clone().map(|path| (text.to_owned(), path)),
            control: self.control.clone(),
            until_stdin_closes: self.until_stdin_closes,
            json: self.json,
        }
    }
}

impl SimArgs {
    /// The course of faults, if there is one.
    fn script(&self) -> Result<Vec<Step>, String> {
        let Some(path) = &self.faults else { return Ok(Vec::new()) };
        let text = std::fs::read_to_string(path).map_err(|err| format!("{}: {err}", path.display()))?;
        script::parse(&text).map_err(|message| format!("{}: {message}", path.display()))
    }
}

/// Runs the plant until `quit`, a signal, or (if so wished) the end of the standard input.
pub async fn run(options: SimOptions) -> Result<(), SimError> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(SimError::Signals)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(SimError::Signals)?;
    let fault_seed = options.plant.fault_seed;
    let plant = Plant::start(options.registry, options.plant).await?;
    let control = match &options.control {
        Some(path) => Some(ControlSocket::open(path, plant.clone())?),
        None => None,
    };
    if let Some((text, path)) = &options.write_config {
        let moved = moved::move_text(text, plant.endpoints())?;
        std::fs::write(path, moved).map_err(|err| SimError::WriteConfig { path: path.clone(), err })?;
    }
    announce(plant.endpoints(), fault_seed, options.json).map_err(SimError::Output)?;
    let player = play(plant.clone(), options.script, options.json);
    tokio::pin!(player);
    let mut playing = true;
    let mut lines = stdin_lines();
    let mut stdin_open = true;
    loop {
        tokio::select! {
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            () = plant.quit_commanded() => {
                if let Some(control) = &control {
                    control.finish_replies().await;
                }
                return Ok(());
            }
            played = &mut player, if playing => {
                played.map_err(SimError::Output)?;
                playing = false;
            }
            line = lines.recv(), if stdin_open => match line {
                Some(line) if line.trim().is_empty() => {}
                Some(line) => print(&plant.command_line(&line).await).map_err(SimError::Output)?,
                None if options.until_stdin_closes => return Ok(()),
                None => stdin_open = false,
            },
        }
    }
}

/// Sends one command to the plant at a control socket, and returns its reply.
pub async fn send(control: &Path, command: &str) -> Result<String, SimError> {
    exchange(control, command).await.map_err(|err| SimError::Control { path: control.to_owned(), err })
}

async fn exchange(control: &Path, command: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(control).await?;
    stream.write_all(format!("{}\n", command.replace(['\r', '\n'], " ")).as_bytes()).await?;
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply).await?;
    if reply.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the plant ended before it replied"));
    }
    Ok(reply.trim_end().to_owned())
}

/// Carries out the script, and tells of each step as if it had been typed.
async fn play(plant: RunningPlant, script: Vec<Step>, json: bool) -> io::Result<()> {
    let mut outcome = Ok(());
    plant
        .play(script, |step, reply| {
            let line = match json {
                true => json!({ "event": "script", "command": step.command.to_string(), "reply": reply }).to_string(),
                false => format!("{}: {reply}", step.command),
            };
            outcome = outcome.as_ref().map_err(|err: &io::Error| err.kind().into()).and_then(|()| print(&line));
        })
        .await;
    outcome
}

fn announce(served: &[ServedLink], fault_seed: u64, json: bool) -> io::Result<()> {
    for link in served {
        print(&if json { announcement_json(link) } else { announcement(link) })?;
    }
    // Printed always, because faults can be commanded at any time.
    print(&match json {
        true => json!({ "event": "fault_seed", "seed": fault_seed }).to_string(),
        false => format!("faults by chance: --fault-seed {fault_seed} repeats them"),
    })?;
    print(if json { r#"{"event":"ready"}"# } else { "ready; `help` lists the commands" })
}

fn announcement(served: &ServedLink) -> String {
    let units: Vec<String> = served.units.iter().map(u8::to_string).collect();
    let plural = if units.len() == 1 { "unit" } else { "units" };
    let verb = match served.place {
        Place::Tcp(_) => "listening on",
        Place::Serial(_) => "waiting at",
    };
    format!("{}: {verb} {} for {plural} {}", served.link, served.place, units.join(", "))
}

fn announcement_json(served: &ServedLink) -> String {
    let kind = match served.place {
        Place::Tcp(_) => "tcp",
        Place::Serial(_) => "serial",
    };
    json!({ "event": "listening", "link": served.link, kind: served.place.to_string(), "units": served.units })
        .to_string()
}

fn print(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

/// The lines of the standard input. They are read by a thread of its own, because a runtime that reads them itself
/// cannot end before the next line comes. When 16 lines wait, the thread waits too.
fn stdin_lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(16);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// The longest command line on the control socket.
const LONGEST_LINE: u64 = 4096;

/// The most programs that may be connected to the control socket at once. One more waits for a place.
const CONTROLLERS: usize = 16;

/// A control socket. Dropped, it is closed and its path is removed.
struct ControlSocket {
    path: PathBuf,
    task: JoinHandle<()>,
    /// Read-locked while a command is carried out and answered.
    replying: Arc<RwLock<()>>,
}

impl ControlSocket {
    fn open(path: &Path, plant: RunningPlant) -> Result<ControlSocket, SimError> {
        let failed = |err| SimError::Control { path: path.to_owned(), err };
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(SimError::ControlTaken { path: path.to_owned() });
        }
        let is_socket = |metadata: std::fs::Metadata| std::os::unix::fs::FileTypeExt::is_socket(&metadata.file_type());
        // Nobody listens there: it was left behind by a plant that was killed. Anything but a socket is not ours.
        if std::fs::symlink_metadata(path).is_ok_and(is_socket) {
            std::fs::remove_file(path).map_err(failed)?;
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let replying = Arc::new(RwLock::new(()));
        let task = tokio::spawn(serve_control(listener, plant, replying.clone()));
        Ok(ControlSocket { path: path.to_owned(), task, replying })
    }

    /// Waits until begun commands are answered, so that `quit` is too; a controller that takes no answer is left.
    async fn finish_replies(&self) {
        let _ = tokio::time::timeout(Duration::from_secs(1), self.replying.write()).await;
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.task.abort();
        // Gone is gone, whoever removed it.
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn serve_control(listener: UnixListener, plant: RunningPlant, replying: Arc<RwLock<()>>) {
    let places = Arc::new(Semaphore::new(CONTROLLERS));
    // The controllers end with this task, so that none keeps the plant alive.
    let mut controllers = JoinSet::new();
    loop {
        while controllers.try_join_next().is_some() {}
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (plant, replying) = (plant.clone(), replying.clone());
                controllers.spawn(async move {
                    // A controller that went away needs no reply.
                    let _ = serve_controller(stream, plant, &replying).await;
                    drop(place);
                });
            }
            Err(err) => {
                tracing::warn!(error = %err, "the control socket could not accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve_controller(stream: UnixStream, plant: RunningPlant, replying: &RwLock<()>) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = Vec::new();
        let read = (&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut line).await?;
        if read == 0 {
            return Ok(());
        }
        let too_long = read as u64 == LONGEST_LINE && !line.ends_with(b"\n");
        let _begun = replying.read().await;
        let reply = match std::str::from_utf8(&line) {
            _ if too_long => format!("error a command has at most {LONGEST_LINE} bytes"),
            Ok(line) => plant.command_line(line).await,
            Err(_) => "error a command is UTF-8 text".to_owned(),
        };
        writer.write_all(format!("{reply}\n").as_bytes()).await?;
        if too_long {
            return Ok(());
        }
    }
}

/// Runs the command.
pub fn main(args: &SimArgs) -> Exit {
    if let (Some(command), Some(control)) = (&args.send, &args.control) {
        return match super::runtime().block_on(send(control, command)) {
            Ok(reply) => {
                println!("{reply}");
                if reply.starts_with("ok") { Exit::Done } else { Exit::Failed }
            }
            Err(err) => super::complain(chain(&err)),
        };
    }
    let Some(file) = &args.file else { return Exit::Usage };
    let config = match super::load(file) {
        Ok(config) => config,
        Err(exit) => return exit,
    };
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(err) => return super::complain(format_args!("{}: {err}", file.display())),
    };
    let script = match args.script() {
        Ok(script) => script,
        Err(message) => {
            super::complain(message);
            return Exit::Usage;
        }
    };
    match super::runtime().block_on(run(args.options(config.registry, &text, script))) {
        Ok(()) => Exit::Done,
        Err(err) => super::complain(chain(&err)),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::sim::sample;

    #[derive(Debug, Parser)]
    struct OnlySim {
        #[command(flatten)]
        sim: SimArgs,
    }

    #[test]
    fn the_arguments_are_well_formed_and_their_examples_parse() {
        OnlySim::command().debug_assert();
        for line in EXAMPLES.lines().filter_map(|line| line.trim().strip_prefix("fieldgate sim ")) {
            let words = line.split('"').enumerate().flat_map(|(place, part)| match place % 2 {
                0 => part.split_whitespace().collect::<Vec<_>>(),
                _ => vec![part],
            });
            assert!(OnlySim::try_parse_from(std::iter::once("sim").chain(words)).is_ok(), "{line}");
        }
        assert!(OnlySim::try_parse_from(["sim"]).is_err(), "neither a file nor a command to send");
    }

    #[test]
    fn a_line_for_programs_is_one_json_object() {
        let link = |place| ServedLink { link: "press-tcp".parse().unwrap(), place, units: vec![1, 2] };
        let tcp = announcement_json(&link(Place::Tcp("127.0.0.1:15020".into())));
        assert_eq!(tcp, r#"{"event":"listening","link":"press-tcp","tcp":"127.0.0.1:15020","units":[1,2]}"#);
        let serial = announcement(&link(Place::Serial("/tmp/rs485-a".into())));
        assert_eq!(serial, "press-tcp: waiting at /tmp/rs485-a for units 1, 2");
    }

    #[tokio::test]
    async fn a_plant_is_commanded_over_its_socket_until_it_quits() {
        let folder = std::env::temp_dir().join(format!("fieldgate-sim-{}-control", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("plant.sock");
        let options = PlantOptions { port_base: Some(0), serial_dir: Some(folder.clone()), ..PlantOptions::default() };
        let plant = Plant::start(sample::registry(), options).await.unwrap();
        let control = ControlSocket::open(&path, plant.clone()).unwrap();
        assert_eq!(send(&path, "stop press-plc").await.unwrap(), "ok press-plc is silent");
        assert!(send(&path, "stop it now").await.unwrap().starts_with("error "));
        assert!(send(&path, &"x".repeat(5000)).await.unwrap().starts_with("error "));
        assert!(matches!(ControlSocket::open(&path, plant.clone()), Err(SimError::ControlTaken { .. })));
        assert!(send(&path, "quit").await.unwrap().starts_with("ok "));
        plant.quit_commanded().await;
        control.finish_replies().await;
        drop(control);
        assert!(!path.exists(), "the socket was left behind");
        drop(plant);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[tokio::test]
    async fn a_socket_left_behind_is_taken_over_and_another_file_is_not() {
        let folder = std::env::temp_dir().join(format!("fieldgate-sim-{}-left", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let options = PlantOptions { port_base: Some(0), serial_dir: Some(folder.clone()), ..PlantOptions::default() };
        let plant = Plant::start(sample::registry(), options).await.unwrap();
        let left = folder.join("left.sock");
        drop(std::os::unix::net::UnixListener::bind(&left).unwrap());
        assert!(ControlSocket::open(&left, plant.clone()).is_ok());
        let file = folder.join("file");
        std::fs::write(&file, "precious").unwrap();
        assert!(matches!(ControlSocket::open(&file, plant.clone()), Err(SimError::Control { .. })));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
        drop(plant);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
