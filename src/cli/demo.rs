//! `fieldgate demo`: broker, simulated plant, gateway and an agent in one command, with nothing else installed.
//!
//! The plant is a process of its own, as a real one would be; the broker and the gateway run in this one; and the agent is an
//! ordinary MQTT client. Each step states what has to come, and the exit code says whether all of it did.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::signal::unix::{SignalKind, signal};

use super::{Exit, complain, runtime};
use crate::config::Config;
use crate::daemon::Daemon;
use crate::errors::chain;
use crate::gate::agent::{AgentClient, AgentError};

/// The plant of the demonstration, as a configuration that anyone could write.
const PLANT: &str = include_str!("demo.toml");

/// How long one step may take before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// See it all at work: an embedded broker, a simulated plant, the gateway, and an agent that asks it.
///
/// It ends by itself after some seconds: with exit code 0 if every answer was right, and 1 otherwise.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldgate demo             one conversation, some seconds\n  \
    fieldgate demo --stay      leave it running, and try the commands that it prints")]
pub struct DemoArgs {
    /// Leave everything running afterwards, and print commands to try.
    #[arg(long)]
    stay: bool,
    /// The port of the embedded broker on 127.0.0.1; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
}

/// Runs the command.
pub fn main(args: &DemoArgs) -> Exit {
    match runtime().block_on(demonstrate(args)) {
        Ok(exit) => exit,
        Err(err) => complain(format_args!("the demonstration could not go on: {}", chain(&err))),
    }
}

/// Why the demonstration could not go on.
#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error("{what}")]
    System {
        what: &'static str,
        #[source]
        err: std::io::Error,
    },
    #[error("the simulated plant ended before it was ready")]
    NoPlant,
    #[error("the configuration of the demonstration is wrong: {0}")]
    Config(String),
    #[error("the gateway did not start")]
    Gateway(#[from] crate::daemon::StartError),
    #[error("the agent has no connection")]
    Agent(#[from] AgentError),
}

fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> DemoError {
    move |err| DemoError::System { what, err }
}

async fn demonstrate(args: &DemoArgs) -> Result<Exit, DemoError> {
    let folder = Folder::make().map_err(system("no folder for the demonstration's files"))?;
    println!(
        "A plant is simulated: a press and an oven over Modbus/TCP, two energy meters on a serial line (Modbus RTU)."
    );
    let mut plant = SimulatedPlant::start(&folder.0, args.port).await?;
    let config = Arc::new(load(&folder.0.join("gateway.toml"))?);
    let daemon = Daemon::start(config).await?;
    println!("The gateway runs: {}.\n", daemon.summary());
    let access = daemon.broker_for_agents();
    let gateway = "demo".parse().expect("letters are a name");
    let agent = AgentClient::connect(&access, &gateway, &"demo-agent".parse().expect("a name")).await?;

    let mut talk = Talk { agent, wrong: 0, step: 0 };
    talk.converse(&mut plant).await?;
    let wrong = talk.wrong;
    talk.agent.close().await;
    println!(
        "{}",
        match wrong {
            0 => "Every answer was right.".to_owned(),
            wrong => format!("{wrong} answers were not as they have to be."),
        }
    );
    if args.stay {
        stay(&access.address(), &folder.0).await?;
    }
    daemon.stop().await;
    plant.stop().await;
    Ok(if wrong == 0 { Exit::Done } else { Exit::Failed })
}

fn load(path: &Path) -> Result<Config, DemoError> {
    Config::load(path).map(|parsed| parsed.config).map_err(|err| DemoError::Config(chain(&err)))
}

async fn stay(address: &str, folder: &Path) -> Result<(), DemoError> {
    let at = format!("--broker mqtt://{address} --gateway demo");
    let control = folder.join("plant.sock");
    let (host, port) = address.rsplit_once(':').unwrap_or((address, "1883"));
    println!(
        "\nIt goes on until Ctrl-C. In another terminal:\n\
        \n  fieldgate watch {at}\
        \n  fieldgate call get_sensor_reading sensor_id=A_LINE1_042 {at}\
        \n  fieldgate status {at}\
        \n  fieldgate sim --control {control} --send \"stop press-plc\"      (and `start press-plc`)\
        \n  fieldgate sim --control {control} --send help\
        \n  mosquitto_sub -h {host} -p {port} -t 'fieldgate/v1/demo/reading/#' -v\
        \n  mosquitto_rr -h {host} -p {port} -V mqttv5 -i me -t fieldgate/v1/demo/rpc/me/request -e fieldgate/v1/demo/rpc/me/response \\\
        \n    -m '{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"get_sensor_reading\",\"arguments\":{{\"sensor_id\":\"A_LINE1_042\"}}}}}}'\n",
        control = control.display(),
    );
    let mut interrupt = signal(SignalKind::interrupt()).map_err(system("signals cannot be waited for"))?;
    let mut terminate = signal(SignalKind::terminate()).map_err(system("signals cannot be waited for"))?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// A folder of this demonstration alone, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn make() -> std::io::Result<Folder> {
        let path =
            std::env::temp_dir().join(format!("fieldgate-demo-{}-{:08x}", std::process::id(), rand::random::<u32>()));
        std::fs::create_dir(&path)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed from the temporary folder is removed by the system some day.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The plant: `fieldgate sim` as a child, which ends when we do.
struct SimulatedPlant {
    child: Child,
    commands: ChildStdin,
    replies: Lines<BufReader<ChildStdout>>,
}

impl SimulatedPlant {
    async fn start(folder: &Path, broker_port: u16) -> Result<SimulatedPlant, DemoError> {
        let plant = folder.join("plant.toml");
        let text = PLANT.replace("embedded://127.0.0.1:0", &format!("embedded://127.0.0.1:{broker_port}"));
        std::fs::write(&plant, text).map_err(system("the plant's configuration cannot be written"))?;
        let program = std::env::current_exe().map_err(system("this program does not know where it is"))?;
        let mut child = Command::new(program)
            .arg("sim")
            .arg(&plant)
            .args(["--port-base", "0", "--until-stdin-closes", "--serial-dir"])
            .arg(folder)
            .arg("--control")
            .arg(folder.join("plant.sock"))
            .arg("--write-config")
            .arg(folder.join("gateway.toml"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(system("the simulated plant cannot be started"))?;
        let (Some(commands), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(DemoError::NoPlant);
        };
        let mut plant = SimulatedPlant { child, commands, replies: BufReader::new(stdout).lines() };
        loop {
            match plant.next_line().await?.as_str() {
                ready if ready.starts_with("ready") => return Ok(plant),
                line => println!("  {line}"),
            }
        }
    }

    async fn next_line(&mut self) -> Result<String, DemoError> {
        match tokio::time::timeout(PATIENCE, self.replies.next_line()).await {
            Ok(Ok(Some(line))) => Ok(line),
            _ => Err(DemoError::NoPlant),
        }
    }

    async fn command(&mut self, command: &str) -> Result<(), DemoError> {
        self.commands
            .write_all(format!("{command}\n").as_bytes())
            .await
            .map_err(system("the plant takes no command"))?;
        println!("  (the plant is told: {command} → {})", self.next_line().await?);
        Ok(())
    }

    async fn stop(mut self) {
        drop(self.commands);
        // It ends with its input; if it does not, dropping the child kills it.
        let _ = tokio::time::timeout(Duration::from_secs(2), self.child.wait()).await;
    }
}

/// The conversation of an agent with the gateway.
struct Talk {
    agent: AgentClient,
    wrong: usize,
    step: usize,
}

impl Talk {
    async fn converse(&mut self, plant: &mut SimulatedPlant) -> Result<(), DemoError> {
        self.title("The catalogue: what can be asked");
        let tools = self.agent.request("tools/list", json!({}), PATIENCE).await?;
        let names: Vec<&str> = members(&tools, "tools").iter().filter_map(|tool| tool["name"].as_str()).collect();
        println!("  ← {}", names.join(", "));
        self.expect(names.contains(&"get_sensor_reading"), "the tools are listed");

        self.title("A live value, with its unit, its time and its age");
        let one = json!({"sensor_id": "A_LINE1_042"});
        let good = self.until("get_sensor_reading", &one, |answer| answer["quality"] == "good").await?;
        self.expect(good["value"].is_number() && good["unit"] == "°C", "a good value in °C");
        self.expect(good["age_ms"].as_u64().is_some_and(|age| age <= 1_500), "no older than its sensor allows");

        self.title("Several at once, over TCP and from the serial line");
        let ids = json!({"sensor_ids": ["A_LINE1_043", "A_LINE1_044", "A_LINE2_001", "A_POWER_001", "A_POWER_002"]});
        let batch = self.until("get_sensor_readings", &ids, |answer| answer["complete"] == true).await?;
        self.expect(batch["returned"] == 5, "five of five were read");

        self.title("A wrong id: what was wrong, and what was probably meant");
        let refused = self.call("get_sensor_reading", &json!({"sensor_id": "A_LINE1_24"})).await?;
        self.expect(refused["error"] == "INVALID_ARGUMENT", "it is refused with a type");
        let fault = &refused["faults"][0];
        self.expect(
            fault["suggestions"].as_array().is_some_and(|near| !near.is_empty()),
            "and ids that exist are suggested",
        );

        self.title("A device dies");
        plant.command("stop press-plc").await?;
        let dead = self.until("get_sensor_reading", &one, |answer| answer["error"] == "SENSOR_OFFLINE").await?;
        self.expect(dead["cause"] == "connected_but_silent", "the cause is told apart: connected, but silent");
        self.expect(dead.get("value").is_none(), "there is no value in the answer");
        self.expect(dead["last_good"]["timestamp"].is_string(), "the last good one is kept apart, with its time");
        self.expect(dead["retry_after_ms"].is_number(), "and it says when to ask again");
        let other = self.call("get_sensor_reading", &json!({"sensor_id": "A_LINE2_001"})).await?;
        self.expect(other["quality"] == "good", "the other device is as good as before");

        self.title("It comes back, by itself");
        plant.command("start press-plc").await?;
        let back = self.until("get_sensor_reading", &one, |answer| answer["quality"] == "good").await?;
        self.expect(back["age_ms"].as_u64().is_some_and(|age| age <= 1_500), "a fresh value again");
        Ok(())
    }

    fn title(&mut self, text: &str) {
        self.step += 1;
        println!("{}. {text}", self.step);
    }

    fn expect(&mut self, right: bool, what: &str) {
        self.wrong += usize::from(!right);
        println!("  {} {what}", if right { "✓" } else { "✗ WRONG:" });
    }

    /// One call, shown with its answer.
    async fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value, DemoError> {
        println!("  → {tool} {arguments}");
        let answer = self.ask(tool, arguments).await?;
        println!("  ← {}", shown(&answer));
        Ok(answer)
    }

    async fn ask(&self, tool: &str, arguments: &Value) -> Result<Value, DemoError> {
        let answer = self.agent.call_tool(tool, arguments.clone(), Duration::from_secs(5)).await?;
        Ok(answer["structuredContent"].clone())
    }

    /// Calls until the answer is as hoped, or the patience ends; the last answer is shown.
    async fn until(
        &mut self,
        tool: &str,
        arguments: &Value,
        hoped: impl Fn(&Value) -> bool,
    ) -> Result<Value, DemoError> {
        println!("  → {tool} {arguments}");
        let started = Instant::now();
        loop {
            let answer = self.ask(tool, arguments).await?;
            if hoped(&answer) || started.elapsed() > PATIENCE {
                println!("  ← {}", shown(&answer));
                self.expect(hoped(&answer), &format!("after {:.1} s", started.elapsed().as_secs_f64()));
                return Ok(answer);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn members<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// The members of an answer that a reader wants to see first, in one line; of a batch, a line for each.
fn shown(answer: &Value) -> String {
    let items = members(answer, "items");
    if !items.is_empty() {
        let line = |item: &Value| format!("\n      {}", brief(item.get("reading").unwrap_or(item)));
        return format!("{} of {}{}", answer["returned"], answer["total"], items.iter().map(line).collect::<String>());
    }
    brief(answer)
}

fn brief(answer: &Value) -> String {
    const MEMBERS: [&str; 13] = [
        "sensor_id",
        "value",
        "unit",
        "quality",
        "reason",
        "timestamp",
        "age_ms",
        "error",
        "cause",
        "retry_after_ms",
        "last_good",
        "faults",
        "hint",
    ];
    let known = MEMBERS.iter().filter_map(|name| Some((name, answer.get(name).filter(|value| !value.is_null())?)));
    known.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("  ")
}
