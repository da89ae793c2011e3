//! Every key of the configuration, table by table.
//!
//! The one list: unknown keys are those that do not stand here, and a test compares it with `docs/configuration.md`.

use crate::registry::search::nearest;

/// The keys of one table.
#[derive(Debug)]
pub(super) struct TableKeys {
    /// Its name in a file; empty for the file itself.
    pub name: &'static str,
    pub keys: &'static [&'static str],
}

pub(super) const FILE: TableKeys =
    TableKeys { name: "", keys: &["gateway", "broker", "publish", "calls", "metrics", "sensors", "link", "device"] };
pub(super) const GATEWAY: TableKeys = TableKeys { name: "gateway", keys: &["id"] };
pub(super) const BROKER: TableKeys =
    TableKeys { name: "broker", keys: &["url", "username", "password", "password_file", "ca_file", "keep_alive"] };
pub(super) const PUBLISH: TableKeys =
    TableKeys { name: "publish", keys: &["qos", "at_least_every", "status_every", "grouping"] };
pub(super) const CALLS: TableKeys =
    TableKeys { name: "calls", keys: &["default_deadline", "max_deadline", "max_in_flight"] };
pub(super) const METRICS: TableKeys = TableKeys { name: "metrics", keys: &["listen"] };
pub(super) const SENSORS: TableKeys = TableKeys { name: "sensors", keys: &["id_format"] };
pub(super) const LINK: TableKeys = TableKeys {
    name: "link",
    keys: &[
        "id",
        "tcp",
        "serial",
        "rtu_over_tcp",
        "timeout",
        "request_gap",
        "connect_delay",
        "retry_max",
        "baud",
        "parity",
        "data_bits",
        "stop_bits",
        "local_echo",
        "short_silence",
    ],
};
pub(super) const DEVICE: TableKeys = TableKeys {
    name: "device",
    keys: &[
        "id",
        "name",
        "link",
        "unit",
        "poll_every",
        "max_registers",
        "max_bits",
        "read_across_gaps",
        "merge",
        "forbidden",
        "align",
        "heartbeat",
        "identify",
        "sensor",
    ],
};
pub(super) const FORBIDDEN: TableKeys = TableKeys { name: "device.forbidden", keys: &["table", "first", "last"] };
pub(super) const HEARTBEAT: TableKeys =
    TableKeys { name: "device.heartbeat", keys: &["table", "address", "reference", "max_unchanged"] };
pub(super) const SENSOR: TableKeys = TableKeys {
    name: "device.sensor",
    keys: &[
        "id",
        "name",
        "description",
        "read",
        "unit",
        "range",
        "valid",
        "max_rate",
        "dead_band",
        "no_value",
        "max_age",
    ],
};
pub(super) const READ: TableKeys = TableKeys {
    name: "device.sensor.read",
    keys: &[
        "table",
        "address",
        "reference",
        "type",
        "order",
        "bit",
        "bits",
        "registers",
        "scale",
        "offset",
        "scale_register",
        "enum",
        "flags",
    ],
};
pub(super) const SCALE_REGISTER: TableKeys =
    TableKeys { name: "device.sensor.read.scale_register", keys: &["address", "reference"] };

/// All tables, in the order of a file.
pub(super) const ALL: [&TableKeys; 14] = [
    &FILE,
    &GATEWAY,
    &BROKER,
    &PUBLISH,
    &CALLS,
    &METRICS,
    &SENSORS,
    &LINK,
    &DEVICE,
    &FORBIDDEN,
    &HEARTBEAT,
    &SENSOR,
    &READ,
    &SCALE_REGISTER,
];

/// What other tools and manuals call the same thing, where the letters alone would not lead there.
const OTHER_WORDS: [(&str, &str); 35] = [
    ("prometheus", "metrics"),
    ("mqtt", "broker"),
    ("server", "broker"),
    ("endian", "order"),
    ("endianness", "order"),
    ("wordswap", "order"),
    ("swap", "order"),
    ("multiplier", "scale"),
    ("factor", "scale"),
    ("gain", "scale"),
    ("register", "address"),
    ("function", "table"),
    ("register_type", "table"),
    ("datatype", "type"),
    ("format", "type"),
    ("slave", "unit"),
    ("slave_id", "unit"),
    ("interval", "poll_every"),
    ("poll_interval", "poll_every"),
    ("host", "tcp"),
    ("port", "serial"),
    ("valid_min", "valid"),
    ("valid_max", "valid"),
    ("min", "range"),
    ("max", "range"),
    ("deadband", "dead_band"),
    ("hysteresis", "dead_band"),
    ("threshold", "dead_band"),
    ("max_step", "max_rate"),
    ("rate_limit", "max_rate"),
    ("scale_factor", "scale_register"),
    ("sf", "scale_register"),
    ("states", "enum"),
    ("map", "enum"),
    ("watchdog", "heartbeat"),
];

impl TableKeys {
    pub fn knows(&self, key: &str) -> bool {
        self.keys.contains(&key)
    }

    /// The key that an unknown one was meant to be.
    pub fn meant_by(&self, key: &str) -> Option<&'static str> {
        let lower = key.to_lowercase();
        let other_word = OTHER_WORDS.iter().find(|(word, ours)| *word == lower && self.knows(ours));
        match other_word {
            Some((_, ours)) => Some(ours),
            None if self.name.is_empty() && lower == "sensor" => None,
            None => nearest(key, self.keys.iter().copied(), 1).first().copied(),
        }
    }

    /// What to write instead of an unknown key.
    pub fn instead_of(&self, key: &str) -> String {
        if self.name.is_empty() && key == "sensor" {
            return "a sensor stands below its device: [[device.sensor]]".into();
        }
        if let Some(meant) = self.meant_by(key) {
            return format!("did you mean {meant}?");
        }
        match ALL.iter().find(|table| !table.name.is_empty() && table.knows(key)) {
            Some(table) => format!("{key} belongs into {}", table.name),
            None => format!("remove it, or use one of: {}", self.keys.join(", ")),
        }
    }
}

/// Whether there may be several tables of that name.
pub(super) fn is_list(name: &str) -> bool {
    matches!(name, "link" | "device" | "sensor" | "forbidden")
}

/// How a table is written.
pub(super) fn example_of(table: &TableKeys) -> String {
    match table.name {
        "device.sensor.read" => "write { table = \"holding\", address = 100, type = \"u16\" }".into(),
        "device.sensor.read.scale_register" => "write { address = 101 }".into(),
        "device.heartbeat" => "write { table = \"holding\", address = 10, max_unchanged = \"30s\" }".into(),
        "link" | "device" | "device.sensor" | "device.forbidden" => format!("write [[{}]]", table.name),
        name => format!("write [{name}]"),
    }
}
