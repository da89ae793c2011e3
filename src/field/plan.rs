//! What to ask together: neighbouring registers of a device become one read. Pure.
//!
//! A read never splits a value of several registers, never crosses tables, and keeps the device's limit. Holes between
//! sensors are read along where that is cheaper than a further request and the device allows it.

use std::time::Duration;

use crate::modbus::Table;
use crate::modbus::pdu::ReadRequest;
use crate::registry::sensor::Endpoint;
use crate::registry::{DeviceIndex, LinkIndex, Registry, SensorIndex};

/// One read request and whom it serves.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedRead {
    /// The device that is asked.
    pub device: DeviceIndex,
    /// What it is asked for.
    pub request: ReadRequest,
    /// The sensors in it, by address; never empty.
    pub sensors: Vec<SensorIndex>,
    /// How often.
    pub every: Duration,
}

/// The widest hole that is cheaper to read along than to ask twice.
///
/// On a serial line a register takes 2 characters; a further request takes 8, its answer 5 more than the data, and two
/// silences of 3.5 and the device's turnaround come on top, which is about ten registers. Over TCP a further request is a
/// further round trip, and no hole that fits is dearer.
fn widest_hole(endpoint: &Endpoint, table: Table) -> u16 {
    let registers = match endpoint {
        Endpoint::Serial(_) => 10,
        Endpoint::Tcp { .. } => 64,
    };
    if table.is_bits() { registers * 16 } else { registers }
}

/// All reads of a link, device by device.
pub fn plan_link(registry: &Registry, link: LinkIndex) -> Vec<PlannedRead> {
    registry.link(link).devices.iter().flat_map(|device| plan(registry, *device)).collect()
}

/// The reads of one device, in the order of table and address.
pub fn plan(registry: &Registry, index: DeviceIndex) -> Vec<PlannedRead> {
    let device = registry.device(index);
    let endpoint = &registry.link(device.link).endpoint;
    let mut sensors = device.sensors.clone();
    sensors.sort_by_key(|sensor| {
        let read = &registry.sensor(*sensor).read;
        (read.table, read.address)
    });
    let mut reads: Vec<PlannedRead> = Vec::new();
    for sensor in sensors {
        let table = registry.sensor(sensor).read.table;
        let limit = if table.is_bits() { table.read_limit() } else { device.max_registers.min(table.read_limit()) };
        let hole = if device.read_across_gaps { widest_hole(endpoint, table) } else { 0 };
        let joined = reads.last().and_then(|last| join(registry, last, sensor, hole, limit));
        match (joined, reads.last_mut()) {
            (Some(request), Some(last)) => {
                last.request = request;
                last.sensors.push(sensor);
            }
            _ => reads.extend(alone(registry, sensor)),
        }
    }
    reads
}

/// The request that covers a read and one more sensor behind it, if there may be one.
fn join(registry: &Registry, read: &PlannedRead, sensor: SensorIndex, hole: u16, limit: u16) -> Option<ReadRequest> {
    let spec = &registry.sensor(sensor).read;
    let request = read.request;
    let end = u32::from(request.address()) + u32::from(request.count());
    let new_end = end.max(u32::from(spec.address) + u32::from(spec.count()));
    let gap = u32::from(spec.address).saturating_sub(end);
    let count = u16::try_from(new_end - u32::from(request.address())).ok()?;
    if spec.table != request.table() || gap > u32::from(hole) || count > limit {
        return None;
    }
    ReadRequest::new(request.table(), request.address(), count).ok()
}

/// The read of one sensor alone. `None` cannot happen for a checked configuration.
fn alone(registry: &Registry, index: SensorIndex) -> Option<PlannedRead> {
    let sensor = registry.sensor(index);
    let request = ReadRequest::new(sensor.read.table, sensor.read.address, sensor.read.count()).ok()?;
    let every = registry.device(sensor.device).poll_every;
    Some(PlannedRead { device: sensor.device, request, sensors: vec![index], every })
}

/// Splits a read that the device refused in two, at its widest hole, or else in the middle; `None` when it serves one sensor.
///
/// Repeated, this leaves the refused register alone, and the others of the block lose nothing.
pub fn split(registry: &Registry, read: &PlannedRead) -> Option<[PlannedRead; 2]> {
    if read.sensors.len() < 2 {
        return None;
    }
    let spec = |sensor: SensorIndex| registry.sensor(sensor).read;
    let end = |sensor: SensorIndex| u32::from(spec(sensor).address) + u32::from(spec(sensor).count());
    let gap_before =
        |place: &usize| u32::from(spec(read.sensors[*place]).address).saturating_sub(end(read.sensors[place - 1]));
    let middle = read.sensors.len() / 2;
    let widest =
        (1..read.sensors.len()).max_by_key(|place| (gap_before(place), usize::MAX - place.abs_diff(middle)))?;
    let cut = if gap_before(&widest) > 0 { widest } else { middle };
    let part = |sensors: &[SensorIndex]| -> Option<PlannedRead> {
        let address = spec(*sensors.first()?).address;
        let end = sensors.iter().map(|sensor| end(*sensor)).max()?;
        let count = u16::try_from(end - u32::from(address)).ok()?;
        let request = ReadRequest::new(read.request.table(), address, count).ok()?;
        Some(PlannedRead { device: read.device, request, sensors: sensors.to_vec(), every: read.every })
    };
    let (before, after) = read.sensors.split_at(cut);
    Some([part(before)?, part(after)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::testing::{Plan, word};

    /// The plan of sensors at these addresses (with their widths), as (address, count) of each request.
    fn check(plan_of: Plan, expected: &[(u16, u16)]) {
        let registry = plan_of.registry();
        let reads = plan(&registry, DeviceIndex(0));
        let got: Vec<(u16, u16)> = reads.iter().map(|read| (read.request.address(), read.request.count())).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn neighbours_are_read_together() {
        check(Plan::tcp(&[(0, word(2)), (2, word(2)), (4, word(1))]), &[(0, 5)]);
        check(Plan::tcp(&[(4, word(1)), (0, word(2)), (2, word(2))]), &[(0, 5)]);
    }

    #[test]
    fn a_hole_is_read_along_where_that_is_cheaper_and_allowed() {
        check(Plan::tcp(&[(0, word(1)), (40, word(1))]), &[(0, 41)]);
        check(Plan::serial(&[(0, word(1)), (40, word(1))]), &[(0, 1), (40, 1)]);
        check(Plan::serial(&[(0, word(1)), (8, word(1))]), &[(0, 9)]);
        check(Plan::tcp(&[(0, word(1)), (2, word(1))]).without_gaps(), &[(0, 1), (2, 1)]);
    }

    #[test]
    fn case_c34_a_devices_limit_never_cuts_a_value() {
        let mut sensors: Vec<(u16, u8)> = (0..58).map(|address| (address, word(1))).collect();
        sensors.push((58, word(4)));
        sensors.extend((62..100).map(|address| (address, word(1))));
        check(Plan::tcp(&sensors).limit(60), &[(0, 58), (58, 42)]);
    }

    #[test]
    fn case_c12_a_value_at_a_chunk_border_moves_whole() {
        let mut sensors: Vec<(u16, u8)> = (0..124).map(|address| (address, word(1))).collect();
        sensors.push((124, word(2)));
        check(Plan::tcp(&sensors), &[(0, 124), (124, 2)]);
    }

    #[test]
    fn a_read_up_to_the_last_address_is_planned() {
        check(Plan::tcp(&[(65_534, word(2)), (65_530, word(4))]), &[(65_530, 6)]);
    }

    #[test]
    fn two_sensors_on_one_register_share_it() {
        check(Plan::tcp(&[(10, word(2)), (10, word(1)), (11, word(1))]), &[(10, 2)]);
    }

    #[test]
    fn case_c32_splitting_leaves_the_refused_register_alone() {
        let registry = Plan::tcp(&[(0, word(1)), (1, word(2)), (3, word(1)), (4, word(1)), (5, word(1))]).registry();
        let illegal = 3;
        let mut open = plan(&registry, DeviceIndex(0));
        let mut requests = 0;
        let mut served = 0;
        let mut refused = Vec::new();
        while let Some(read) = open.pop() {
            requests += 1;
            let range = read.request.address()..read.request.address() + read.request.count();
            if !range.contains(&illegal) {
                served += read.sensors.len();
            } else if let Some(halves) = split(&registry, &read) {
                open.extend(halves);
            } else {
                refused.push(read.request.address());
            }
        }
        assert_eq!((served, refused), (4, vec![illegal]));
        assert!(requests <= 7, "{requests} requests");
    }

    #[test]
    fn a_hole_is_where_a_refused_read_is_cut_first() {
        let registry = Plan::tcp(&[(0, word(1)), (1, word(1)), (2, word(1)), (9, word(1))]).registry();
        let whole = plan(&registry, DeviceIndex(0)).remove(0);
        let [before, after] = split(&registry, &whole).expect("two halves");
        assert_eq!((before.request.count(), after.request.address()), (3, 9));
    }
}
