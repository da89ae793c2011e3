//! The tables about the gateway itself: its name, its broker, and how it publishes and answers.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::field::Field;
use super::id_format::IdFormat;
use super::reader::TableReader;
use super::values::{self, HostError, duration_text};
use super::{BrokerConfig, BrokerEndpoint, CallsConfig, Grouping, PublishConfig, Secret};
use crate::ids::GatewayId;
use crate::registry::search::nearest;

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub(super) fn gateway(table: &TableReader<'_, '_>) -> Option<GatewayId> {
    table.required("id", "\"gw-line1\"")?.name()
}

/// How a file beside the configuration is read.
pub(super) type ReadFile<'f> = &'f dyn Fn(&Path) -> std::io::Result<String>;

pub(super) fn broker(table: &TableReader<'_, '_>, read_file: ReadFile<'_>) -> Option<BrokerConfig> {
    let url = table.required("url", "\"mqtt://10.0.0.2:1883\"");
    let endpoint = url.as_ref().and_then(broker_endpoint);
    let username = table.optional("username").and_then(|field| field.prose(256));
    let password = password(table, read_file);
    let ca_file = table.optional("ca_file").and_then(|field| ca_file(&field, endpoint.as_ref(), read_file));
    let keep_alive = table.optional("keep_alive").and_then(|field| field.duration(seconds(5)..=seconds(3600)));
    note_what_does_not_fit(table, endpoint.as_ref());
    Some(BrokerConfig {
        endpoint: endpoint?,
        username,
        password,
        ca_file,
        keep_alive: keep_alive.unwrap_or(seconds(30)),
    })
}

const SCHEMES: [&str; 3] = ["mqtt", "mqtts", "embedded"];

/// What other programs call our schemes.
fn scheme_like(scheme: &str) -> &'static str {
    match scheme.to_lowercase().as_str() {
        "ssl" | "tls" | "mqtt+ssl" | "mqtt+tls" => "mqtts",
        "tcp" | "mqtt+tcp" => "mqtt",
        other => nearest(other, SCHEMES, 1).first().copied().unwrap_or("mqtt"),
    }
}

fn broker_endpoint(field: &Field<'_, '_>) -> Option<BrokerEndpoint> {
    let url = field.text()?;
    let Some((scheme, rest)) = url.split_once("://") else {
        let (scheme, rest) = SCHEMES
            .iter()
            .find_map(|scheme| Some((*scheme, url.strip_prefix(scheme)?.strip_prefix(':')?.trim_start_matches('/'))))
            .unwrap_or(("mqtt", url.trim_start_matches('/')));
        field.fault(
            "a broker's URL begins with mqtt://, mqtts:// or embedded://",
            format!("write \"{scheme}://{rest}\""),
        );
        return None;
    };
    if rest.contains('@') {
        field.fault("credentials do not belong into the URL", "use broker.username and broker.password_file");
        return None;
    }
    if !SCHEMES.contains(&scheme) {
        let meant = scheme_like(scheme);
        field.fault(format!("{scheme} is none of: {}", SCHEMES.join(", ")), format!("write \"{meant}://{rest}\""));
        return None;
    }
    let bare = rest.strip_suffix('/').unwrap_or(rest);
    if let Some((host, _)) = bare.split_once(['/', '?', '#']) {
        field.fault("a broker's URL ends with its host and port", format!("write \"{scheme}://{host}\""));
        return None;
    }
    let default_port = if scheme == "mqtts" { 8883 } else { 1883 };
    let (host, port) = host_and_port(field, bare, default_port)?;
    match scheme {
        "embedded" => embedded(field, &host, port),
        _ if port == 0 => {
            field.fault("a port is 1 to 65535", format!("write \"{scheme}://{host}:{default_port}\""));
            None
        }
        _ => Some(BrokerEndpoint::Remote { host, port, tls: scheme == "mqtts" }),
    }
}

fn embedded(field: &Field<'_, '_>, host: &str, port: u16) -> Option<BrokerEndpoint> {
    if !cfg!(feature = "embedded-broker") {
        field.fault("this build has no embedded broker", "use mqtt:// and the address of a broker");
        return None;
    }
    let listen = values::loopback(host, port);
    if listen.is_none() {
        field.fault(
            "the embedded broker listens on this machine alone",
            format!("write \"embedded://127.0.0.1:{port}\", or run a broker of its own for other machines"),
        );
    }
    Some(BrokerEndpoint::Embedded { listen: listen? })
}

/// A host and a port, or a fault that says how it is written.
pub(super) fn host_and_port(field: &Field<'_, '_>, text: &str, default_port: u16) -> Option<(String, u16)> {
    match values::host_and_port(text, default_port) {
        Ok(found) => Some(found),
        Err(err) => {
            let suggestion = match err {
                HostError::NoBrackets => format!("write [{text}]:{default_port}"),
                HostError::BadPort => {
                    let host = text.rsplit_once(':').map_or(text, |(host, _)| host);
                    format!("write {host}:{default_port}")
                }
                HostError::BadHost => format!("write it as 10.0.0.5:{default_port}, or a name that the network knows"),
            };
            field.fault(err.to_string(), suggestion);
            None
        }
    }
}

/// The longest password that MQTT carries (MQTT 5.0, section 1.5.6).
const LONGEST_PASSWORD: usize = 65_535;

fn password(table: &TableReader<'_, '_>, read_file: ReadFile<'_>) -> Option<Secret> {
    let in_clear = table.optional("password");
    let file = table.optional("password_file");
    if let (Some(_), Some(file)) = (&in_clear, &file) {
        file.fault_of_key("the password is given twice", "keep password_file, and remove password");
        return None;
    }
    if let Some(field) = in_clear {
        field.warn(
            "the password stands in the file in clear",
            "put it into a file that only the daemon may read, and name that as password_file",
        );
        return field.text().map(|text| Secret::new(text.to_owned()));
    }
    let field = file?;
    let text = readable(&field, read_file)?;
    let password = text.strip_suffix('\n').map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line));
    if password.is_empty() || password.len() > LONGEST_PASSWORD || password.contains('\n') {
        field.fault("the password file holds no password", "write the password into its first and only line");
        return None;
    }
    Some(Secret::new(password.to_owned()))
}

fn ca_file(field: &Field<'_, '_>, endpoint: Option<&BrokerEndpoint>, read_file: ReadFile<'_>) -> Option<PathBuf> {
    let certificates = readable(field, read_file)?;
    if !certificates.contains("-----BEGIN CERTIFICATE-----") {
        field.fault("this file holds no certificate", "name a file in PEM form: -----BEGIN CERTIFICATE-----");
        return None;
    }
    if matches!(endpoint, Some(endpoint) if !matches!(endpoint, BrokerEndpoint::Remote { tls: true, .. })) {
        field.warn("certificates are not used without TLS", "write mqtts:// in broker.url, or remove ca_file");
    }
    field.text().map(PathBuf::from)
}

fn readable(field: &Field<'_, '_>, read_file: ReadFile<'_>) -> Option<String> {
    let path = field.text()?;
    match read_file(Path::new(path)) {
        Ok(text) => Some(text),
        Err(err) => {
            field.fault(format!("this file cannot be read: {err}"), "name a file that the daemon's user may read");
            None
        }
    }
}

fn note_what_does_not_fit(table: &TableReader<'_, '_>, endpoint: Option<&BrokerEndpoint>) {
    let username = table.optional("username");
    let password = table.optional("password").or_else(|| table.optional("password_file"));
    if let (None, Some(password)) = (&username, &password) {
        password.fault_of_key("a password needs a username", "add username = \"…\"");
    }
    if let (Some(BrokerEndpoint::Remote { host, tls: false, .. }), Some(password)) = (endpoint, &password)
        && values::loopback(host, 0).is_none()
    {
        password.warn_of_key("the password crosses the network in clear", "write mqtts:// in broker.url");
    }
}

pub(super) fn publish(table: &TableReader<'_, '_>) -> PublishConfig {
    let qos = table.optional("qos").and_then(|field| field.integer("the quality of service of readings", 0..=1));
    let time = |key, bounds| table.optional(key).and_then(|field| field.duration(bounds));
    PublishConfig {
        qos: qos.map_or(0, |qos| qos as u8),
        at_least_every: time("at_least_every", seconds(1)..=seconds(86_400)).unwrap_or(seconds(60)),
        status_every: time("status_every", seconds(1)..=seconds(3_600)).unwrap_or(seconds(30)),
        grouping: match table.optional("grouping").and_then(|field| field.one_of(&["sensor", "device"])) {
            Some(1) => Grouping::Device,
            _ => Grouping::Sensor,
        },
    }
}

pub(super) fn calls(table: &TableReader<'_, '_>) -> CallsConfig {
    let time = |key| table.optional(key).and_then(|field| field.duration(ms(100)..=seconds(3_600)));
    let in_flight = table.optional("max_in_flight").and_then(|field| field.integer("a number of calls", 1..=1024));
    let calls = CallsConfig {
        default_deadline: time("default_deadline").unwrap_or(seconds(10)),
        max_deadline: time("max_deadline").unwrap_or(seconds(60)),
        max_in_flight: in_flight.map_or(64, |count| count as usize),
    };
    let given = table.optional("default_deadline").or_else(|| table.optional("max_deadline"));
    if let Some(field) = given.filter(|_| calls.default_deadline > calls.max_deadline) {
        let (default, most) = (duration_text(calls.default_deadline), duration_text(calls.max_deadline));
        field.fault(
            format!("default_deadline ({default}) is longer than max_deadline ({most})"),
            "raise max_deadline, or lower default_deadline",
        );
    }
    calls
}

/// Where the metrics can be read, if anywhere.
pub(super) fn metrics(table: &TableReader<'_, '_>) -> Option<SocketAddr> {
    let field = table.optional("listen")?;
    let (host, port) = host_and_port(&field, field.text()?, METRICS_PORT)?;
    let listen = values::loopback(&host, port);
    if listen.is_none() {
        let message = "metrics are shown on this machine alone, because they are shown to anyone who asks";
        field.fault(message, format!("write \"127.0.0.1:{port}\", and put a proxy that asks who it is before it"));
    }
    listen
}

/// Taken where no port is given.
const METRICS_PORT: u16 = 9_502;

pub(super) fn id_format(table: &TableReader<'_, '_>) -> Option<IdFormat> {
    let Some(field) = table.optional("id_format") else { return Some(IdFormat::default()) };
    let text = field.text()?;
    match text.parse() {
        Ok(format) => Some(format),
        Err(err) => {
            let upper = text.to_uppercase();
            let suggestion = match upper.parse::<IdFormat>() {
                Ok(_) => format!("write \"{upper}\""),
                Err(_) => "write it as \"PLANT_ZONE_NNN\"; \"*\" takes every name".into(),
            };
            field.fault(format!("{err}"), suggestion);
            None
        }
    }
}
