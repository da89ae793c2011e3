//! The programs we did not write: Mosquitto, its clients, socat, pymodbus and the Python MCP client.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use super::process::Process;
use super::{folder, free_port, wait_for};

/// The Python interpreter that has the foreign peers; the first call installs what is missing.
fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let setup = script("setup");
        let mut command = Command::new(&setup);
        command.arg(concat!(env!("CARGO_TARGET_TMPDIR"), "/peers")).stderr(Stdio::inherit());
        let made = command.output().unwrap_or_else(|err| panic!("{} cannot be started: {err}", setup.display()));
        assert!(
            made.status.success(),
            "the programs that the tests work with are missing, and could not be installed (see above). Run \
             tests/peers/setup as root on Debian, or set FIELDGATE_SKIP_PEERS=1 to pass over the tests that need them."
        );
        let said = String::from_utf8(made.stdout).expect("a path is text");
        PathBuf::from(said.lines().last().expect("the interpreter is named"))
    })
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers").join(name)
}

/// Whether foreign peers can be used. Only someone who says so passes over the tests that need them; a machine that cannot
/// install them fails, because a test that silently did nothing would look like one that passed.
pub fn available() -> bool {
    if std::env::var_os("FIELDGATE_SKIP_PEERS").is_some_and(|skip| skip == "1") {
        eprintln!("passed over, because FIELDGATE_SKIP_PEERS=1");
        return false;
    }
    python();
    true
}

/// A program of Mosquitto's or Debian's; some of them live where only root's path leads.
pub fn program(name: &str) -> Command {
    python();
    let mut command = Command::new(name);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command
}

/// A Mosquitto of the test's own. It keeps nothing on disk, so a restart forgets sessions and retained messages.
pub struct Mosquitto {
    port: u16,
    configuration: PathBuf,
    process: Process,
}

impl Mosquitto {
    /// Starts one on a free port.
    pub fn start() -> Mosquitto {
        let port = free_port();
        let configuration = folder().join("mosquitto.conf");
        let text =
            format!("listener {port} 127.0.0.1\nallow_anonymous true\nset_tcp_nodelay true\npersistence false\n");
        std::fs::write(&configuration, text).expect("the test's folder can be written");
        let process = Self::spawn(&configuration, port);
        Mosquitto { port, configuration, process }
    }

    fn spawn(configuration: &Path, port: u16) -> Process {
        let process = Process::start("mosquitto", program("mosquitto").arg("-c").arg(configuration));
        wait_for("mosquitto to listen", || TcpStream::connect(("127.0.0.1", port)).ok());
        process
    }

    /// Its port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again, on the same port and knowing nothing.
    pub fn start_again(&mut self) {
        self.process = Self::spawn(&self.configuration, self.port);
    }
}

/// A slave made of pymodbus.
pub struct Slave {
    process: Process,
    port: Option<u16>,
}

impl Slave {
    /// Serves units over TCP, on a free port.
    pub fn tcp(units: &Value) -> Slave {
        Slave::start(units, &["--tcp", "127.0.0.1:0"])
    }

    /// Serves units as RTU slaves on a serial port.
    pub fn serial(units: &Value, port: &Path) -> Slave {
        Slave::start(units, &["--serial", port.to_str().expect("the build folder's name is text")])
    }

    fn start(units: &Value, arguments: &[&str]) -> Slave {
        let file = folder().join("units.json");
        std::fs::write(&file, units.to_string()).expect("the test's folder can be written");
        let mut command = Command::new(python());
        command.arg(script("pymodbus_slave.py")).arg("--units").arg(file).args(arguments);
        let process = Process::start("pymodbus", &mut command);
        let port = process.answer()["port"].as_u64().map(|port| port as u16);
        Slave { process, port }
    }

    /// Its TCP port.
    pub fn port(&self) -> u16 {
        self.port.expect("a slave on a serial line has no port")
    }

    fn order(&mut self, order: Value) -> Value {
        let answer = self.process.ask(&order);
        assert!(answer.get("error").is_none(), "the slave could not obey {order}: {answer}");
        answer
    }

    /// Changes the value of an entry, and tells the moment from which it is served.
    pub fn set(&mut self, unit: u8, entry: Value) -> i64 {
        let mut order = entry;
        order["unit"] = unit.into();
        self.order(json!({ "set": order }))["at_ms"].as_i64().expect("a moment")
    }

    /// Takes requests to a unit and never answers them; tells since when.
    pub fn fall_silent(&mut self, unit: u8) -> i64 {
        self.order(json!({ "silent": [unit] }))["at_ms"].as_i64().expect("a moment")
    }

    /// Answers every request to a unit with an exception.
    pub fn refuse(&mut self, unit: u8, code: u8) {
        self.order(json!({ "exception": { "unit": unit, "code": code } }));
    }

    /// Answers again for a unit; tells since when.
    pub fn answer(&mut self, unit: u8) -> i64 {
        self.order(json!({ "answer": [unit] }))["at_ms"].as_i64().expect("a moment")
    }

    /// Drops all connections and takes no new ones.
    pub fn close(&mut self) {
        self.order(json!({ "close": true }));
    }

    /// Takes connections again.
    pub fn listen(&mut self) {
        self.order(json!({ "listen": true }));
    }

    /// How many requests it has had: `requests`, `writes`, `by_unit`.
    pub fn count(&mut self) -> Value {
        self.order(json!({ "count": true }))
    }
}

/// Two serial ports with a cable between them, made by socat.
pub struct Cable {
    process: Process,
    /// The end for the slave.
    pub slave_end: PathBuf,
    /// The end for the gateway.
    pub gateway_end: PathBuf,
}

impl Cable {
    /// Lays one.
    pub fn lay() -> Cable {
        let folder = folder();
        let (slave_end, gateway_end) = (folder.join("slave"), folder.join("gateway"));
        Cable { process: Self::connect(&slave_end, &gateway_end), slave_end, gateway_end }
    }

    fn connect(slave_end: &Path, gateway_end: &Path) -> Process {
        let end = |path: &Path| format!("pty,raw,echo=0,link={}", path.display());
        let process = Process::start("socat", program("socat").arg(end(slave_end)).arg(end(gateway_end)));
        wait_for("socat to make its ports", || (slave_end.exists() && gateway_end.exists()).then_some(()));
        process
    }

    /// Takes both ports away, as pulling an adapter does.
    pub fn pull(&mut self) {
        self.process.kill();
        // A killed socat leaves its links behind, and they lead nowhere.
        for end in [&self.slave_end, &self.gateway_end] {
            std::fs::remove_file(end).expect("socat had made a link");
        }
    }

    /// Makes both ports again, under the same names.
    pub fn plug_in(&mut self) {
        self.process = Self::connect(&self.slave_end, &self.gateway_end);
    }
}

/// A converter between a TCP port and a serial line that hands bytes on as they are, made by socat.
pub struct Converter {
    process: Process,
    port: u16,
}

impl Converter {
    /// Starts one at the gateway's end of a cable.
    pub fn start(cable: &Cable) -> Converter {
        let port = free_port();
        Converter { process: Self::listen(port, cable), port }
    }

    fn listen(port: u16, cable: &Cable) -> Process {
        let (from, to) = (
            format!("TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork"),
            format!("FILE:{},raw,echo=0", cable.gateway_end.display()),
        );
        let process = Process::start("socat", program("socat").arg(from).arg(to));
        wait_for("the converter to listen", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        process
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends it, with its connections.
    pub fn leave(&mut self) {
        // socat serves each connection by a process of its own. It is stopped first, or it would serve the gateway that connects
        // again at once by another one, which would outlive it.
        self.process.signal("STOP");
        self.process.kill_children();
        self.process.kill();
    }

    /// Starts it again, on the same port.
    pub fn come_back(&mut self, cable: &Cable) {
        self.process = Self::listen(self.port, cable);
    }
}

/// Calls a tool as a plain MQTT 5 program does: `mosquitto_rr` publishes one request and prints the one answer. Returns the
/// tool's result.
pub fn mosquitto_rr(broker: u16, gateway: &str, client: &str, tool: &str, arguments: &Value) -> Value {
    // A repeated id with the same arguments would be answered from memory: that is a duplicate, and no new call.
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let id = format!("rr-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let params = json!({ "name": tool, "arguments": arguments });
    let request = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string();
    let base = format!("fieldgate/v1/{gateway}/rpc/{client}");
    let mut command = program("mosquitto_rr");
    command.args(["-h", "127.0.0.1", "-p", &broker.to_string(), "-W", "20", "-q", "1"]);
    command.args(["-t", &format!("{base}/request"), "-e", &format!("{base}/response"), "-m", &request]);
    let output = command.output().expect("mosquitto_rr can be started");
    let said = String::from_utf8_lossy(&output.stdout);
    let answer: Value = serde_json::from_str(&said).unwrap_or_else(|err| {
        panic!("mosquitto_rr got no JSON for {request}: {err}\n{said}{}", String::from_utf8_lossy(&output.stderr))
    });
    assert_eq!(answer["id"], id.as_str(), "the id comes back: {answer}");
    answer["result"].clone()
}

/// The official Python MCP client, connected; and the protocol revision that it agreed on with the gateway.
pub fn mcp_client(broker: u16, gateway: &str, client: &str, mode: &str) -> (Process, String) {
    let mut command = Command::new(python());
    command.arg(script("mcp_client.py")).args(["--broker", &format!("127.0.0.1:{broker}")]);
    command.args(["--gateway", gateway, "--client", client, "--mode", mode]);
    let process = Process::start("the Python MCP client", &mut command);
    let hello = process.answer();
    let revision = hello["protocol_version"].as_str().unwrap_or_else(|| panic!("no revision in {hello}"));
    (process, revision.to_owned())
}

/// What the parser of the Prometheus project finds at an address: a list of `[name, labels, value]`.
pub fn read_metrics(url: &str) -> Value {
    let output = Command::new(python()).arg(script("read_metrics.py")).arg(url).output().expect("python starts");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|err| panic!("no metrics at {url}: {err}\n{}", String::from_utf8_lossy(&output.stderr)))
}
