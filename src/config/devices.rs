//! The devices of a configuration, each one unit id on a link, with their sensors.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use rust_decimal::Decimal;

use super::field::Field;
use super::id_format::IdFormat;
use super::keys;
use super::limits::{fits_one_read, read_limits};
use super::links::LinkDraft;
use super::place::place;
use super::read_spec::{is_number, no_value_code, read_spec};
use super::reader::TableReader;
use super::values::duration_text;
use crate::ids::{DeviceId, SensorId};
use crate::modbus::words::{DataType, NoValueCode};
use crate::quantity::{Range, Unit};
use crate::registry::heartbeat::Heartbeat;
use crate::registry::rules::{Names, Rules};
use crate::registry::search::nearest;
use crate::registry::sensor::{ReadLimits, ReadSpec};
use crate::registry::{Device, DeviceIndex, LinkIndex, Sensor};

/// What is known of a device, as far as it could be understood.
#[derive(Debug)]
pub(super) struct DeviceDraft<'a, 'i> {
    id: Option<DeviceId>,
    pub link: Option<LinkIndex>,
    unit: Option<u8>,
    pub device: Option<Device>,
    pub sensors: Vec<SensorDraft<'a, 'i>>,
    table: TableReader<'a, 'i>,
}

/// What is known of a sensor.
#[derive(Debug)]
pub(super) struct SensorDraft<'a, 'i> {
    id: Option<SensorId>,
    pub sensor: Option<Sensor>,
    table: TableReader<'a, 'i>,
}

/// Most bytes of a name for people.
const LONGEST_NAME: usize = 128;
/// Most bytes of a description.
const LONGEST_DESCRIPTION: usize = 1024;

pub(super) fn devices<'a, 'i>(
    file: &TableReader<'a, 'i>,
    links: &[LinkDraft<'_, '_>],
    id_format: Option<&IdFormat>,
) -> Vec<DeviceDraft<'a, 'i>> {
    let tables = file.tables("device", &keys::DEVICE).into_iter().enumerate();
    let drafts: Vec<_> =
        tables.map(|(place, table)| device(table, DeviceIndex(place as u32), links, id_format)).collect();
    note_repeated_ids(&drafts);
    note_repeated_units(&drafts);
    note_repeated_sensors(&drafts);
    drafts
}

fn device<'a, 'i>(
    table: TableReader<'a, 'i>,
    index: DeviceIndex,
    links: &[LinkDraft<'_, '_>],
    id_format: Option<&IdFormat>,
) -> DeviceDraft<'a, 'i> {
    let id: Option<DeviceId> = table.required("id", "\"press-plc\"").and_then(|field| field.name());
    let link = table.required("link", "\"press-tcp\"").and_then(|field| link_of(&field, links));
    let is_serial = link.and_then(|link| links[link.place()].is_serial);
    let unit = table.required("unit", "1").and_then(|field| unit(&field, is_serial));
    let poll = table.optional("poll_every");
    let poll_bounds = Duration::from_millis(10)..=Duration::from_secs(86_400);
    let poll_every = poll.map_or(Some(Duration::from_secs(1)), |field| field.duration(poll_bounds));
    let limits = read_limits(&table);
    let name = table.optional("name").map_or(Some(String::new()), |field| field.prose(LONGEST_NAME));
    let align = table.optional("align").map_or(Some(1), |field| alignment(&field));
    let heartbeat = table.optional("heartbeat").map(|field| heartbeat(&field, poll_every));
    let identify = table.optional("identify").map_or(Some(false), |field| field.boolean());
    let known = DeviceOfSensors { index, poll_every, limits: limits.as_ref(), align, id_format };
    let tables = table.tables("sensor", &keys::SENSOR);
    if tables.is_empty() && table.optional("sensor").is_none() {
        table.warn("this device has no sensors, and is never read", "add [[device.sensor]]");
    }
    let sensors = tables.into_iter().map(|table| sensor(table, &known)).collect();
    let finished = || {
        Some(Device {
            id: id.clone()?,
            name: name?,
            link: link?,
            unit: unit?,
            poll_every: poll_every?,
            limits: limits.clone()?,
            heartbeat: given(heartbeat)?,
            identify: identify?,
            sensors: Vec::new(),
        })
    };
    let device = finished();
    DeviceDraft { id, link, unit, device, sensors, table }
}

fn link_of(field: &Field<'_, '_>, links: &[LinkDraft<'_, '_>]) -> Option<LinkIndex> {
    let wanted = field.text()?;
    let names: BTreeSet<&str> = links.iter().filter_map(|draft| draft.id.as_ref()).map(|id| id.as_str()).collect();
    let place = links.iter().position(|draft| draft.id.as_ref().is_some_and(|id| id.as_str() == wanted));
    if place.is_none() {
        let suggestion = match nearest(wanted, names.iter().copied(), 1).first() {
            Some(name) => format!("did you mean \"{name}\"?"),
            None if links.is_empty() => "add a [[link]] with this id".into(),
            None => format!("use one of: {}", names.iter().take(5).copied().collect::<Vec<_>>().join(", ")),
        };
        field.fault_of_reference(wanted, "there is no link with this id", suggestion);
    }
    place.map(|place| LinkIndex(place as u32))
}

fn unit(field: &Field<'_, '_>, is_serial: Option<bool>) -> Option<u8> {
    let unit = field.integer("a unit id", 0..=255)?;
    if is_serial == Some(true) && !(1..=247).contains(&unit) {
        let why = match unit {
            0 => "0 calls every device of a line, and none answers",
            _ => "a unit id on a serial line is 1 to 247",
        };
        field.fault(why, "use the address that is set at the device, 1 to 247");
        return None;
    }
    u8::try_from(unit).ok()
}

fn alignment(field: &Field<'_, '_>) -> Option<u16> {
    let places = ["1", "2", "4"];
    match field.plain_integer() {
        Some(align @ (1 | 2 | 4)) => u16::try_from(align).ok(),
        _ => {
            field.fault(
                format!("an alignment is one of: {}", places.join(", ")),
                "write 2 if values of two registers start at even addresses",
            );
            None
        }
    }
}

/// The register by which the device shows that it lives.
fn heartbeat(field: &Field<'_, '_>, poll_every: Option<Duration>) -> Option<Heartbeat> {
    let table = field.table(&keys::HEARTBEAT)?;
    let place = place(&table);
    let bounds = Duration::from_millis(100)..=Duration::from_secs(86_400);
    let longest = table.required("max_unchanged", "\"30s\"");
    let max_unchanged = longest.as_ref().and_then(|field| field.duration(bounds));
    if let (Some(field), Some(longest), Some(poll_every)) = (&longest, max_unchanged, poll_every)
        && longest < poll_every * 2
    {
        let every = duration_text(poll_every);
        field.fault(
            format!("the device is read every {every}, which shows no change in so short a time"),
            format!("use \"{}\" at the least", duration_text(poll_every * 2)),
        );
        return None;
    }
    let place = place?;
    Some(Heartbeat { table: place.table?, address: place.address?, max_unchanged: max_unchanged? })
}

/// What a device tells its sensors.
struct DeviceOfSensors<'f> {
    index: DeviceIndex,
    poll_every: Option<Duration>,
    limits: Option<&'f ReadLimits>,
    align: Option<u16>,
    id_format: Option<&'f IdFormat>,
}

fn sensor<'a, 'i>(table: TableReader<'a, 'i>, device: &DeviceOfSensors<'_>) -> SensorDraft<'a, 'i> {
    let id_field = table.required("id", "\"A_LINE1_042\"");
    let id = id_field.and_then(|field| sensor_id(&field, device.id_format));
    let name = table.optional("name").map_or(Some(String::new()), |field| field.prose(LONGEST_NAME));
    let description =
        table.optional("description").map_or(Some(String::new()), |field| field.prose(LONGEST_DESCRIPTION));
    let read = table.required("read", "{ table = \"holding\", address = 100, type = \"u16\" }");
    let read = read.and_then(|field| {
        let reader = field.table(&keys::READ)?;
        let (spec, names) = read_spec(&reader)?;
        let is_possible = fits_one_read(&field, &spec, device.limits) && is_aligned(&reader, &spec, device.align);
        is_possible.then_some((spec, names))
    });
    let (read, names) = read.unzip();
    let kind = read.as_ref().map(|spec| Kind { spec, names: names.as_ref().and_then(Option::as_ref) });
    let unit = table.optional("unit").map_or(Some(Unit::default()), |field| engineering_unit(&field));
    let range = table.optional("range").map(|field| range(&field, kind));
    let valid = table.optional("valid").map(|field| valid(&field, kind, range.flatten()));
    let max_rate = table.optional("max_rate").map(|field| distance(&field, kind, "a rate"));
    let dead_band = table.optional("dead_band").map(|field| distance(&field, kind, "a dead band"));
    let no_value = table.optional("no_value").map_or(Some(Vec::new()), |field| no_value(&field, read.as_ref()));
    let max_age = max_age(&table, device.poll_every);
    let finished = || {
        Some(Sensor {
            id: id.clone()?,
            name: name?,
            description: description?,
            device: device.index,
            read: read?,
            unit: unit?,
            range: given(range)?,
            rules: Rules {
                valid: given(valid)?,
                max_rate: given(max_rate)?,
                dead_band: given(dead_band)?,
                names: names.clone()?,
            },
            no_value: no_value?,
            max_age: max_age?,
        })
    };
    let sensor = finished();
    SensorDraft { id, sensor, table }
}

/// A key that may be left out: `None` if it is given and wrong.
fn given<T>(key: Option<Option<T>>) -> Option<Option<T>> {
    key.map_or(Some(None), |value| value.map(Some))
}

/// What kind of value a sensor has, which decides what else can be said of it.
#[derive(Clone, Copy, Debug)]
struct Kind<'s> {
    spec: &'s ReadSpec,
    names: Option<&'s Names>,
}

impl Kind<'_> {
    /// Whether it is a quantity, which can be compared.
    fn is_quantity(self) -> bool {
        is_number(self.spec.encoding.data_type) && self.names.is_none()
    }
}

/// Whether a value of several registers starts where the device says that such values start.
fn is_aligned(read: &TableReader<'_, '_>, spec: &ReadSpec, align: Option<u16>) -> bool {
    let address = spec.value_address();
    let Some(align) = align.filter(|align| spec.encoding.registers() > 1 && !address.is_multiple_of(*align)) else {
        return true;
    };
    let key = if read.optional("address").is_some() { "address" } else { "reference" };
    let (below, above) = (address - address % align, address.saturating_add(align - address % align));
    if let Some(field) = read.optional(key) {
        let place = if key == "address" { String::new() } else { format!(" (address {address})") };
        field.fault(
            format!("values of this device start at multiples of {align}{place}"),
            format!("use address {below} or {above}; or change align of the device"),
        );
    }
    false
}

fn sensor_id(field: &Field<'_, '_>, format: Option<&IdFormat>) -> Option<SensorId> {
    let text = field.text()?;
    let Some(format) = format else { return field.name() };
    if format.fits(text) {
        return field.name();
    }
    let suggestion = match format.mend(text) {
        Some(id) => format!("\"{id}\" would do"),
        None => format!("such an id is \"{}\"; or change sensors.id_format", format.example()),
    };
    field.fault(format!("sensor ids of this plant have the form {format}"), suggestion);
    None
}

fn engineering_unit(field: &Field<'_, '_>) -> Option<Unit> {
    let text = field.prose(24)?;
    text.parse().ok()
}

/// What can be at all. It must hold the engineering range, or some of that could never be seen.
fn valid(field: &Field<'_, '_>, kind: Option<Kind<'_>>, engineering: Option<Range>) -> Option<Range> {
    let valid = range(field, kind)?;
    let outside = engineering.filter(|range| range.low() < valid.low() || valid.high() < range.high());
    if let Some(range) = outside {
        field.warn(
            format!(
                "the range [{}, {}] goes beyond what is valid, so that a value out there is none at all",
                range.low(),
                range.high()
            ),
            "make valid wider than range, or leave range out",
        );
    }
    Some(valid)
}

/// A distance of two values: above nothing.
fn distance(field: &Field<'_, '_>, kind: Option<Kind<'_>>, what: &str) -> Option<Decimal> {
    if kind.is_some_and(|kind| !kind.is_quantity()) {
        field.fault_of_key(format!("only numbers have {what}"), "remove it");
        return None;
    }
    let number = field.decimal()?;
    if number <= Decimal::ZERO {
        field.fault(format!("{what} is more than 0"), "leave it out if there is none");
        return None;
    }
    Some(number)
}

fn range(field: &Field<'_, '_>, kind: Option<Kind<'_>>) -> Option<Range> {
    if kind.is_some_and(|kind| !kind.is_quantity()) {
        field.fault_of_key("only numbers have a range", "remove it");
        return None;
    }
    let ends = field.list()?;
    let [low, high] = ends.as_slice() else {
        field.fault("a range is its low and its high end", "write [-20, 120]");
        return None;
    };
    let (low, high) = (low.decimal(), high.decimal());
    let (low, high) = (low?, high?);
    if low >= high {
        let suggestion = match low == high {
            true => "leave the range out if there is none".into(),
            false => format!("write [{high}, {low}]"),
        };
        field.fault("the low end of a range comes first, and below the high one", suggestion);
        return None;
    }
    Range::exact(low, high)
}

/// A device has a handful of codes for "no value"; more is a mistake.
const MOST_CODES: usize = 16;

fn no_value(field: &Field<'_, '_>, spec: Option<&ReadSpec>) -> Option<Vec<NoValueCode>> {
    let codes = field.list()?;
    if codes.len() > MOST_CODES {
        field.fault(format!("{MOST_CODES} codes are the most"), "keep those that the device's manual names");
        return None;
    }
    let spec = spec?;
    if spec.table.is_bits() || matches!(spec.encoding.data_type, DataType::Text { .. }) {
        field.fault_of_key("single bits and strings have no codes for \"no value\"", "remove it");
        return None;
    }
    let codes: Vec<Option<NoValueCode>> =
        codes.iter().map(|code| no_value_code(code, spec.encoding.data_type)).collect();
    codes.into_iter().collect()
}

/// Three polls may pass before a value is stale, so that one lost answer does not make it so.
const POLLS_TO_STALE: u32 = 3;

fn max_age(table: &TableReader<'_, '_>, poll_every: Option<Duration>) -> Option<Duration> {
    let bounds = Duration::from_millis(10)..=Duration::from_secs(7 * 86_400);
    let Some(field) = table.optional("max_age") else { return Some(poll_every? * POLLS_TO_STALE) };
    let max_age = field.duration(bounds)?;
    if let Some(poll_every) = poll_every.filter(|poll_every| max_age < *poll_every) {
        let every = duration_text(poll_every);
        field.warn(
            format!("the device is read every {every}, so that its value is stale before the next read"),
            format!("use \"{}\", or a shorter poll_every", duration_text(poll_every * POLLS_TO_STALE)),
        );
    }
    Some(max_age)
}

fn note_repeated_ids(drafts: &[DeviceDraft<'_, '_>]) {
    let mut seen = HashMap::new();
    for draft in drafts {
        let Some(id) = &draft.id else { continue };
        if seen.insert(id, ()).is_some()
            && let Some(field) = draft.table.optional("id")
        {
            field.fault("another device has this id", "give each device an id of its own");
        }
    }
}

fn note_repeated_units(drafts: &[DeviceDraft<'_, '_>]) {
    let mut seen = HashMap::new();
    for draft in drafts {
        let Some(key) = draft.link.zip(draft.unit) else { continue };
        if let Some(other) = seen.insert(key, draft.table.path().to_owned())
            && let Some(field) = draft.table.optional("unit")
        {
            field.fault(
                format!("{other} has this unit id on the same link"),
                "give each device its unit id, or put both lists of sensors below one device",
            );
        }
    }
}

fn note_repeated_sensors(drafts: &[DeviceDraft<'_, '_>]) {
    let mut seen = HashMap::new();
    for draft in drafts.iter().flat_map(|device| &device.sensors) {
        let Some(id) = &draft.id else { continue };
        if let Some(other) = seen.insert(id, draft.table.path().to_owned())
            && let Some(field) = draft.table.optional("id")
        {
            field.fault(format!("{other} has this id"), "give each sensor an id of its own, over all devices");
        }
    }
}
