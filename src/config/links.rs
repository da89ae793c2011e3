//! The links of a configuration: one TCP endpoint or one serial line each.

use std::collections::HashMap;
use std::time::Duration;

use super::field::Field;
use super::keys;
use super::reader::TableReader;
use super::sections::host_and_port;
use crate::ids::LinkId;
use crate::registry::Link;
use crate::registry::sensor::{Endpoint, Parity, SerialSettings};

/// What is known of a link, as far as it could be understood.
#[derive(Debug)]
pub(super) struct LinkDraft<'a, 'i> {
    pub id: Option<LinkId>,
    pub is_serial: Option<bool>,
    pub link: Option<Link>,
    pub table: TableReader<'a, 'i>,
}

pub(super) fn links<'a, 'i>(file: &TableReader<'a, 'i>) -> Vec<LinkDraft<'a, 'i>> {
    let drafts: Vec<_> = file.tables("link", &keys::LINK).into_iter().map(link).collect();
    note_repeated_ids(&drafts);
    note_repeated_endpoints(&drafts);
    drafts
}

fn link<'a, 'i>(table: TableReader<'a, 'i>) -> LinkDraft<'a, 'i> {
    let id: Option<LinkId> = table.required("id", "\"press-tcp\"").and_then(|field| field.name());
    let time = |key, least, most, default| {
        let bounds = Duration::from_millis(least)..=Duration::from_secs(most);
        table.optional(key).and_then(|field| field.duration(bounds)).unwrap_or(Duration::from_millis(default))
    };
    let timeout = time("timeout", 10, 60, 1_000);
    let request_gap = time("request_gap", 0, 10, 0);
    let connect_delay = time("connect_delay", 0, 60, 0);
    let retry_max = time("retry_max", 1_000, 3_600, 60_000);
    let endpoint = endpoint(&table);
    let is_serial = match (&endpoint, given_places(&table).as_slice()) {
        (Some(endpoint), _) => Some(endpoint.line().is_some()),
        (None, [place]) => Some(*place != "tcp"),
        _ => None,
    };
    let link = id.clone().zip(endpoint).map(|(id, endpoint)| Link {
        id,
        endpoint,
        timeout,
        request_gap,
        connect_delay,
        retry_max,
        devices: Vec::new(),
    });
    LinkDraft { id, is_serial, link, table }
}

/// The keys that say where a link leads.
const PLACES: [&str; 3] = ["tcp", "serial", "rtu_over_tcp"];

/// Those of them that a link has.
fn given_places(table: &TableReader<'_, '_>) -> Vec<&'static str> {
    PLACES.into_iter().filter(|key| table.optional(key).is_some()).collect()
}

fn endpoint(table: &TableReader<'_, '_>) -> Option<Endpoint> {
    let given = given_places(table);
    if let [first, second, ..] = given.as_slice() {
        let field = table.optional(second)?;
        field.fault_of_key(format!("a link is either {first} or {second}"), "remove one of them, or make two links");
        // For its faults alone.
        let _ = serial_settings(table, None);
        return None;
    }
    let Some(key) = given.first() else {
        let suggestion = "add tcp = \"10.0.0.5:502\", or serial = \"/dev/serial/by-id/…\"";
        table.missing("tcp", "a link leads to a TCP endpoint or a serial line".into(), suggestion.into());
        return None;
    };
    let place = table.optional(key)?;
    match *key {
        "tcp" => {
            note_serial_keys(table);
            let (host, port) = tcp_place(&place)?;
            Some(Endpoint::Tcp { host, port })
        }
        "rtu_over_tcp" => {
            let place = tcp_place(&place);
            let line = serial_settings(table, place.as_ref().map(|(host, port)| place_text(host, *port)));
            let ((host, port), line) = (place?, line?);
            Some(Endpoint::RtuOverTcp { host, port, line })
        }
        _ => {
            if let Some(delay) = table.optional("connect_delay") {
                delay.fault_of_key("connect_delay belongs to a tcp link", "remove it");
            }
            serial_settings(table, serial_path(&place)).map(Endpoint::Serial)
        }
    }
}

/// A host and a port as a configuration writes them.
fn place_text(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

const SERIAL_KEYS: [&str; 6] = ["baud", "parity", "data_bits", "stop_bits", "local_echo", "short_silence"];

fn note_serial_keys(table: &TableReader<'_, '_>) {
    for field in SERIAL_KEYS.iter().filter_map(|key| table.optional(key)) {
        field.fault_of_key("this belongs to a serial line, and the link is tcp", "remove it");
    }
}

/// The port of Modbus/TCP (Modbus Messaging on TCP/IP V1.0b, section 4.2).
const MODBUS_PORT: u16 = 502;

fn tcp_place(field: &Field<'_, '_>) -> Option<(String, u16)> {
    let text = field.text()?;
    if let Some((_, rest)) = text.split_once("://") {
        field.fault("this is a host and a port, and no URL", format!("write \"{}\"", rest.trim_end_matches('/')));
        return None;
    }
    let (host, port) = host_and_port(field, text, MODBUS_PORT)?;
    if port == 0 {
        field.fault("a port is 1 to 65535", format!("write \"{host}:{MODBUS_PORT}\""));
        return None;
    }
    Some((host, port))
}

fn serial_settings(table: &TableReader<'_, '_>, path: Option<String>) -> Option<SerialSettings> {
    let baud = table.optional("baud").map_or(Some(DEFAULT_BAUD), |field| baud(&field));
    let parity = table.optional("parity").map_or(Some(Parity::Even), |field| parity(&field));
    let data_bits = table.optional("data_bits").map_or(Some(8), |field| data_bits(&field));
    let stop_bits =
        table.optional("stop_bits").map_or(Some(1), |field| field.integer("the number of stop bits", 1..=2));
    let local_echo = table.optional("local_echo").map_or(Some(false), |field| field.boolean());
    let short_silence = table.optional("short_silence").map_or(Some(false), |field| field.boolean());
    Some(SerialSettings {
        path: path?,
        baud: baud?,
        parity: parity?,
        data_bits: data_bits?,
        stop_bits: stop_bits? as u8,
        local_echo: local_echo?,
        short_silence: short_silence?,
    })
}

fn serial_path(field: &Field<'_, '_>) -> Option<String> {
    let path = field.text()?;
    if !path.starts_with('/') || path.len() > 255 || path.contains(char::is_control) {
        let suggestion = match path.starts_with("tty") || path.starts_with("serial/") {
            true => format!("write \"/dev/{path}\""),
            false => "write it as \"/dev/serial/by-id/…\" (ls /dev/serial/by-id lists what is there)".into(),
        };
        field.fault("a serial port is given by its whole path", suggestion);
        return None;
    }
    if path.starts_with("/dev/ttyUSB") || path.starts_with("/dev/ttyACM") {
        field.warn(
            "this name may be another adapter after the next plug or start",
            "use the adapter's own name: ls -l /dev/serial/by-id",
        );
    }
    Some(path.to_owned())
}

/// The rate that every device has to support (Modbus over Serial Line V1.02, section 3.2).
const DEFAULT_BAUD: u32 = 19_200;

const USUAL_BAUDS: [i64; 15] =
    [300, 600, 1_200, 2_400, 4_800, 9_600, 14_400, 19_200, 28_800, 38_400, 57_600, 76_800, 115_200, 187_500, 230_400];

fn baud(field: &Field<'_, '_>) -> Option<u32> {
    let baud = field.integer("a line's rate in bit/s", 300..=1_000_000)?;
    if !USUAL_BAUDS.contains(&baud)
        && let Some(usual) = USUAL_BAUDS.iter().min_by_key(|usual| usual.abs_diff(baud))
        && baud <= 230_400
    {
        field.warn("this rate is unusual, and not every adapter has it", format!("did you mean {usual}?"));
    }
    u32::try_from(baud).ok()
}

fn parity(field: &Field<'_, '_>) -> Option<Parity> {
    let place = field.one_of(&["none", "even", "odd"])?;
    Some([Parity::None, Parity::Even, Parity::Odd][place])
}

fn data_bits(field: &Field<'_, '_>) -> Option<u8> {
    let bits = field.integer("the number of data bits", 7..=8)?;
    if bits == 7 {
        field.fault("7 data bits are for Modbus ASCII; RTU needs all 8", "write 8, or leave it out");
        return None;
    }
    Some(8)
}

fn note_repeated_ids(drafts: &[LinkDraft<'_, '_>]) {
    let mut seen: HashMap<&str, ()> = HashMap::new();
    for draft in drafts {
        let Some(id) = &draft.id else { continue };
        if seen.insert(id.as_str(), ()).is_some()
            && let Some(field) = draft.table.optional("id")
        {
            field.fault("another link has this id", "give each link an id of its own");
        }
    }
}

/// Two tasks cannot share a serial port, and should not share a device's TCP port: many accept one connection only.
fn note_repeated_endpoints(drafts: &[LinkDraft<'_, '_>]) {
    let mut seen: HashMap<(String, u16), &LinkId> = HashMap::new();
    for draft in drafts {
        let Some(link) = &draft.link else { continue };
        let key = match &link.endpoint {
            Endpoint::Tcp { host, port } | Endpoint::RtuOverTcp { host, port, .. } => (host.to_lowercase(), *port),
            Endpoint::Serial(settings) => (settings.path.clone(), 0),
        };
        let Some(other) = seen.insert(key, &link.id) else { continue };
        let message = format!("link {other} leads there, too");
        if let Some(field) = draft.table.optional("serial") {
            field.fault(message, "put all devices of a line on one link");
        } else if let Some(field) = draft.table.optional("rtu_over_tcp") {
            field.fault(message, "put all devices of a line on one link");
        } else if let Some(field) = draft.table.optional("tcp") {
            field.warn(message, "put all units of a host on one link; many hosts accept one connection only");
        }
    }
}
