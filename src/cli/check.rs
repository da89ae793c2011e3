//! `fieldgate check`: all faults of a configuration at once, or what it means.
//!
//! The summary adds up what the file asks of each link, because a line that is asked for more than it can carry looks like
//! a bad cable. `--sensors` shows each address as it is sent beside the number that a manual has for it.

use std::path::Path;

use serde::Serialize;

use super::{ConfigFile, Exit, complain, text};
use crate::config::fault::counted;
use crate::config::reference::reference_of;
use crate::config::values::duration_text;
use crate::config::{BrokerEndpoint, Config, Fault, LoadError};
use crate::errors::chain;
use crate::field::load::{LinkLoad, Verdict};
use crate::memory::Need;
use crate::modbus::words::WordOrder;
use crate::registry::sensor::{Endpoint, Parity, Sensor};
use crate::registry::{DeviceIndex, LinkIndex, Registry, count_of};

/// Check a configuration: print all its faults, or what it means.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fieldgate check fieldgate.toml              faults, or a summary of links and devices\n  \
    fieldgate check --sensors fieldgate.toml    with the address of every sensor\n  \
    fieldgate check --json fieldgate.toml       the same for programs\n\n\
    Exit codes: 0 it can be used, 2 it has faults or cannot be read.")]
pub struct CheckArgs {
    #[command(flatten)]
    config: ConfigFile,
    /// List every sensor with its address: decimal, hexadecimal, and as manuals number it.
    #[arg(long)]
    sensors: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn main(args: &CheckArgs) -> Exit {
    match check(args.config.path(), args.sensors, args.json) {
        Ok((exit, report)) => {
            print!("{report}");
            exit
        }
        Err(err) => {
            complain(chain(&err));
            Exit::Usage
        }
    }
}

/// Checks a file: how the command ends, and what it prints. An error if the file cannot be read.
pub fn check(path: &Path, with_sensors: bool, as_json: bool) -> Result<(Exit, String), LoadError> {
    let (config, faults) = match Config::load(path) {
        Ok(parsed) => (Some(parsed.config), parsed.warnings),
        Err(LoadError::Faulty(faults)) => (None, faults.iter().cloned().collect()),
        Err(err) => return Err(err),
    };
    let report = Report {
        file: path.display().to_string(),
        usable: config.is_some(),
        faults,
        summary: config.as_ref().map(|config| Summary::of(config, with_sensors)),
    };
    let exit = if report.usable { Exit::Done } else { Exit::Usage };
    let printed = match as_json {
        true => serde_json::to_string_pretty(&report).map_or_else(|err| err.to_string(), |json| json + "\n"),
        false => report.for_people(),
    };
    Ok((exit, printed))
}

/// What is printed, for programs.
#[derive(Debug, Serialize)]
struct Report {
    file: String,
    usable: bool,
    faults: Vec<Fault>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<Summary>,
}

#[derive(Debug, Serialize)]
struct Summary {
    gateway: String,
    broker: String,
    links: Vec<LinkSummary>,
    devices: usize,
    sensors: usize,
    requests_per_second: f64,
    /// Beside the program itself: at work, and with every queue full.
    memory_bytes: usize,
    memory_bytes_at_most: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    sensor_list: Option<Vec<SensorSummary>>,
}

#[derive(Debug, Serialize)]
struct LinkSummary {
    id: String,
    endpoint: String,
    requests_per_second: f64,
    /// How much of the link's time its plan takes, as `fieldgate plan` adds it up.
    busy_percent: f64,
    #[serde(skip)]
    verdict: Verdict,
    devices: Vec<DeviceSummary>,
}

#[derive(Debug, Serialize)]
struct DeviceSummary {
    id: String,
    unit: u8,
    poll_every_ms: u64,
    sensors: usize,
    requests: usize,
    requests_per_second: f64,
}

#[derive(Debug, Serialize)]
struct SensorSummary {
    id: String,
    device: String,
    table: &'static str,
    address: u16,
    address_hex: String,
    reference: String,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<&'static str>,
    unit: String,
}

impl Summary {
    fn of(config: &Config, with_sensors: bool) -> Summary {
        let registry = &config.registry;
        let links: Vec<_> = registry.links().map(|(index, _)| link_summary(registry, index)).collect();
        let memory = Need::of(config);
        let list = || registry.sensors().map(|(_, sensor)| sensor_summary(registry, sensor)).collect();
        Summary {
            gateway: config.gateway.to_string(),
            broker: broker_text(&config.broker.endpoint),
            devices: registry.devices().len(),
            sensors: registry.sensors().len(),
            requests_per_second: rounded(links.iter().map(|link| link.requests_per_second).sum()),
            memory_bytes: memory.at_work,
            memory_bytes_at_most: memory.at_most,
            links,
            sensor_list: with_sensors.then(list),
        }
    }
}

fn link_summary(registry: &Registry, index: LinkIndex) -> LinkSummary {
    let link = registry.link(index);
    let load = LinkLoad::of(registry, index);
    LinkSummary {
        id: link.id.to_string(),
        endpoint: endpoint_text(&link.endpoint),
        requests_per_second: rounded(load.requests_per_second()),
        busy_percent: rounded(load.busy * 100.0),
        verdict: load.verdict(),
        devices: link.devices.iter().map(|device| device_summary(registry, &load, *device)).collect(),
    }
}

/// Two digits behind the point are enough for people, and make sums of reciprocals readable.
pub(super) fn rounded(number: f64) -> f64 {
    // The sum of nothing is -0.
    (number * 100.0).round() / 100.0 + 0.0
}

fn device_summary(registry: &Registry, load: &LinkLoad, index: DeviceIndex) -> DeviceSummary {
    let device = registry.device(index);
    let requests = load.of_device(index).count();
    DeviceSummary {
        id: device.id.to_string(),
        unit: device.unit,
        poll_every_ms: u64::try_from(device.poll_every.as_millis()).unwrap_or(u64::MAX),
        sensors: device.sensors.len(),
        requests,
        requests_per_second: rounded(requests as f64 / device.poll_every.as_secs_f64()),
    }
}

fn sensor_summary(registry: &Registry, sensor: &Sensor) -> SensorSummary {
    let read = &sensor.read;
    let order = read.encoding.order;
    let has_order = read.encoding.registers() > 1 || order != WordOrder::Abcd;
    SensorSummary {
        id: sensor.id.to_string(),
        device: registry.device(sensor.device).id.to_string(),
        table: read.table.name(),
        address: read.value_address(),
        address_hex: format!("0x{:04X}", read.value_address()),
        reference: reference_of(read.table, read.value_address()),
        r#type: read.encoding.data_type.name(),
        order: (has_order && !read.table.is_bits()).then(|| order.name()),
        unit: sensor.unit.to_string(),
    }
}

fn broker_text(endpoint: &BrokerEndpoint) -> String {
    match endpoint {
        BrokerEndpoint::Remote { host, port, tls } => {
            let scheme = if *tls { "mqtts" } else { "mqtt" };
            format!("{scheme}://{}", host_text(host, *port))
        }
        BrokerEndpoint::Embedded { listen } => format!("embedded://{listen}"),
    }
}

pub(super) fn endpoint_text(endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Tcp { host, port } => host_text(host, *port),
        Endpoint::Serial(line) | Endpoint::RtuOverTcp { line, .. } => {
            let parity = match line.parity {
                Parity::None => 'N',
                Parity::Even => 'E',
                Parity::Odd => 'O',
            };
            let through = if matches!(endpoint, Endpoint::Serial(_)) { "" } else { "RTU over TCP to " };
            format!("{through}{}, {} {}{parity}{}", line.path, line.baud, line.data_bits, line.stop_bits)
        }
    }
}

fn host_text(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

impl Report {
    fn for_people(&self) -> String {
        let faults: String = self.faults.iter().map(|fault| format!("{fault}\n{}\n", fault.excerpt())).collect();
        match &self.summary {
            None => {
                let errors =
                    self.faults.iter().filter(|fault| fault.severity == crate::config::Severity::Error).count();
                format!("{faults}{}: {}\n", self.file, counted(errors, self.faults.len() - errors))
            }
            Some(summary) => {
                let verdict = match self.faults.len() {
                    0 => "no faults".to_owned(),
                    warnings => format!("can be used, with {}", counted(0, warnings)),
                };
                format!("{faults}{}: {verdict}\n\n{}", self.file, summary.for_people())
            }
        }
    }
}

impl Summary {
    fn for_people(&self) -> String {
        let mut printed = format!("gateway  {}\nbroker   {}\n", self.gateway, self.broker);
        self.links.iter().for_each(|link| printed.push_str(&link.for_people()));
        printed.push_str(&format!(
            "\ntotal    {}, {}, {}, {} requests/s\n",
            count_of(self.links.len(), "link"),
            count_of(self.devices, "device"),
            count_of(self.sensors, "sensor"),
            self.requests_per_second,
        ));
        let megabytes = |bytes: usize| (bytes as f64 / 1e5).round() / 10.0;
        let (at_work, at_most) = (megabytes(self.memory_bytes), megabytes(self.memory_bytes_at_most));
        printed.push_str(&format!(
            "memory   {at_work} MB beside the program itself; {at_most} MB at the most, with every queue full\n"
        ));
        if let Some(sensors) = &self.sensor_list {
            printed.push('\n');
            printed.push_str(&sensor_table(sensors));
        }
        printed
    }
}

impl LinkSummary {
    fn for_people(&self) -> String {
        let busy = format!(", {} % busy{}", self.busy_percent, advice(self.verdict));
        let rows: Vec<Vec<String>> = self.devices.iter().map(DeviceSummary::row).collect();
        let columns = ["device", "unit", "every", "sensors", "requests", "requests/s"];
        let head =
            format!("\nlink     {}: {}, {} requests/s{busy}\n", self.id, self.endpoint, self.requests_per_second);
        if rows.is_empty() { head } else { head + &text::table(&columns, &rows, 9) }
    }
}

/// What to do about a load; `fieldgate plan` shows where it comes from.
pub(super) fn advice(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Fine => "",
        Verdict::Tight => ": poll less often, or raise the rate; see fieldgate plan",
        Verdict::TooMuch => ", more than it can carry: poll less often, or raise the rate; see fieldgate plan",
    }
}

impl DeviceSummary {
    fn row(&self) -> Vec<String> {
        vec![
            self.id.clone(),
            self.unit.to_string(),
            duration_text(std::time::Duration::from_millis(self.poll_every_ms)),
            self.sensors.to_string(),
            self.requests.to_string(),
            self.requests_per_second.to_string(),
        ]
    }
}

fn sensor_table(sensors: &[SensorSummary]) -> String {
    let columns = ["sensor", "device", "table", "address", "hex", "reference", "type", "order", "unit"];
    let row = |sensor: &SensorSummary| {
        vec![
            sensor.id.clone(),
            sensor.device.clone(),
            sensor.table.to_owned(),
            sensor.address.to_string(),
            sensor.address_hex.clone(),
            sensor.reference.clone(),
            sensor.r#type.to_owned(),
            sensor.order.unwrap_or("-").to_owned(),
            sensor.unit.clone(),
        ]
    };
    text::table(&columns, &sensors.iter().map(row).collect::<Vec<_>>(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples").join(name)
    }

    fn checked(name: &str, with_sensors: bool, as_json: bool) -> String {
        let (exit, printed) = check(&example(name), with_sensors, as_json).expect("the file is there");
        assert_eq!(exit, Exit::Done, "{printed}");
        printed
    }

    #[test]
    fn a_right_file_is_summed_up() {
        let printed = checked("sdm630-rtu.toml", false, false);
        let (head, rest) = printed.split_once('\n').expect("lines");
        assert!(head.ends_with("sdm630-rtu.toml: no faults"), "{head}");
        let expected = "
gateway  gw-energy
broker   mqtt://localhost:1883

link     rs485-a: /dev/serial/by-id/usb-FTDI_FT232R_USB_UART_A10KZP45-if00-port0, 9600 8N1, 1 requests/s, 5.97 % busy
         device      unit  every  sensors  requests  requests/s
         meter-main  1     2s     11       2         1

total    1 link, 1 device, 11 sensors, 1 requests/s
memory   1.8 MB beside the program itself; 47.9 MB at the most, with every queue full
";
        assert_eq!(rest, expected);
    }

    #[test]
    fn case_c55_and_c58_every_address_stands_beside_its_reference() {
        let printed = checked("tcp-device.toml", true, false);
        let table = printed.split("\n\n").last().expect("the table of sensors");
        let expected = "\
sensor       device     table     address  hex     reference  type  order  unit
A_LINE1_042  press-plc  holding   100      0x0064  40101      i16   -      °C
A_LINE1_043  press-plc  holding   102      0x0066  40103      f32   CDAB   bar
A_LINE1_044  press-plc  holding   104      0x0068  40105      u32   ABCD
A_LINE1_045  press-plc  discrete  0        0x0000  10001      bool  -
A_LINE1_046  press-plc  holding   106      0x006A  40107      bool  -
";
        assert_eq!(table, expected);
        assert!(checked("mixed-plant.toml", true, false).contains("40000    0x9C40  440001"));
    }

    #[test]
    fn programs_get_the_same_as_json() {
        let json: serde_json::Value = serde_json::from_str(&checked("tcp-device.toml", true, true)).expect("JSON");
        assert_eq!(json["usable"], true);
        assert_eq!(json["faults"], serde_json::json!([]));
        assert_eq!(json["summary"]["links"][0]["devices"][0]["requests"], 2);
        let sensor = &json["summary"]["sensor_list"][1];
        assert_eq!((&sensor["address"], &sensor["reference"]), (&102.into(), &"40103".into()));
    }

    #[test]
    fn a_wrong_file_ends_with_2_and_one_that_is_not_there_with_an_error() {
        // The manifest is TOML and no configuration.
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let (exit, printed) = check(&manifest, false, false).expect("the file is there");
        assert_eq!(exit, Exit::Usage);
        assert!(printed.contains("package: unknown table (found package)"), "{printed}");
        let (exit, printed) = check(&manifest, false, true).expect("the file is there");
        assert_eq!(exit, Exit::Usage);
        let json: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
        assert_eq!((&json["usable"], json.get("summary")), (&false.into(), None));
        let missing = check(Path::new("no/such/file.toml"), false, false);
        assert!(matches!(missing, Err(LoadError::Unreadable { .. })));
    }
}
