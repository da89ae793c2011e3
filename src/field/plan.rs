//! What to ask together: the reads of a device that cost its link the least. Pure.
//!
//! Sensors stand in a row by address, and a plan is where that row is cut. Any plan has an equally cheap one of that form:
//! of two reads, the sensor that starts first can take along all that start later and end within it. So a walk over the
//! cuts (`cheapest_cuts`) finds the cheapest plan of all, not a good one. A read never splits a value of several registers,
//! never crosses tables, and keeps the limits of the device, written or [learnt](super::learnt).

use std::ops::Range;
use std::time::Duration;

use super::cost::LinkCost;
use super::learnt::Learnt;
use crate::modbus::Table;
use crate::modbus::pdu::ReadRequest;
use crate::registry::sensor::{ReadLimits, ReadSpec};
use crate::registry::{DeviceIndex, LinkIndex, Registry, SensorIndex};

/// One read request and whom it serves.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedRead {
    /// The device that is asked.
    pub device: DeviceIndex,
    /// What it is asked for.
    pub request: ReadRequest,
    /// The sensors in it, by address; none where it reads a device's heartbeat alone.
    pub sensors: Vec<SensorIndex>,
    /// How often.
    pub every: Duration,
}

/// All reads of a link, device by device.
pub fn plan_link(registry: &Registry, link: LinkIndex) -> Vec<PlannedRead> {
    registry.link(link).devices.iter().flat_map(|device| plan(registry, *device, &Learnt::default())).collect()
}

/// The reads of one device, in the order of table and address; sensors that are read alone come last.
pub fn plan(registry: &Registry, index: DeviceIndex, learnt: &Learnt) -> Vec<PlannedRead> {
    let device = registry.device(index);
    let cost = LinkCost::of(registry.link(device.link));
    let is_apart = |sensor: &SensorIndex| learnt.apart(*sensor).is_some();
    let place_of = |sensor: &SensorIndex| {
        let spec = &registry.sensor(*sensor).read;
        (spec.table, span(spec).start, span(spec).end)
    };
    let mut sensors = device.sensors.clone();
    sensors.sort_by_key(place_of);
    let (apart, together): (Vec<_>, Vec<_>) = sensors.into_iter().partition(is_apart);
    let read_of = |sensors: &[SensorIndex]| read_of(registry, index, sensors);
    let mut reads = Vec::new();
    for sensors in together.chunk_by(|one, next| registry.sensor(*one).read.table == registry.sensor(*next).read.table)
    {
        let table = registry.sensor(sensors[0]).read.table;
        let rules = Rules::of(registry, &device.limits, learnt, table, cost);
        let spans: Vec<Range<u32>> = sensors.iter().map(|sensor| span(&registry.sensor(*sensor).read)).collect();
        reads.extend(cheapest_cuts(&spans, &rules).into_iter().filter_map(|block| read_of(&sensors[block])));
    }
    reads.extend(apart.chunk_by(|one, next| place_of(one) == place_of(next)).filter_map(read_of));
    read_heartbeat(registry, index, learnt, &mut reads);
    reads
}

/// Has one of the reads take the device's heartbeat along where that is allowed and cheaper, or else adds a read for it.
fn read_heartbeat(registry: &Registry, index: DeviceIndex, learnt: &Learnt, reads: &mut Vec<PlannedRead>) {
    let device = registry.device(index);
    let missing = device.heartbeat.and_then(|beat| beat.missing_in(reads.iter().map(|read| read.request)));
    let Some(alone) = missing else { return };
    let beat_alone = PlannedRead { device: index, request: alone, sensors: Vec::new(), every: device.poll_every };
    if learnt.heartbeat_apart {
        reads.push(beat_alone);
        return;
    }
    let rules = Rules::of(registry, &device.limits, learnt, alone.table(), LinkCost::of(registry.link(device.link)));
    let beat = u32::from(alone.address());
    let longer = reads.iter_mut().filter(|read| read.request.table() == alone.table()).filter_map(|read| {
        let first = u32::from(read.request.address());
        let end = first + u32::from(read.request.count());
        let (span, whole) = (first..end, first.min(beat)..end.max(beat + 1));
        let may = rules.merge && rules.allow(&whole) && (rules.across_gaps || first <= beat + 1 && beat <= end);
        let extra = rules.cost_of(&whole).saturating_sub(rules.cost_of(&span));
        let request = ReadRequest::new(alone.table(), first.min(beat) as u16, (whole.end - whole.start) as u16).ok()?;
        (may && extra < rules.cost_of(&(beat..beat + 1))).then_some((extra, request, read))
    });
    match longer.min_by_key(|(extra, ..)| *extra) {
        Some((_, request, read)) => read.request = request,
        None => reads.push(beat_alone),
    }
}

/// The registers or bits that a sensor needs in one read.
pub(super) fn span(spec: &ReadSpec) -> Range<u32> {
    let first = u32::from(spec.address);
    first..first + u32::from(spec.count())
}

/// The one read that serves these sensors of a device and table, sorted by address. `None` where the standard has none.
pub(super) fn read_of(registry: &Registry, device: DeviceIndex, sensors: &[SensorIndex]) -> Option<PlannedRead> {
    let specs = || sensors.iter().map(|sensor| &registry.sensor(*sensor).read);
    let first = specs().map(|spec| spec.address).min()?;
    let end = specs().map(|spec| span(spec).end).max()?;
    let count = u16::try_from(end - u32::from(first)).ok()?;
    let request = ReadRequest::new(specs().next()?.table, first, count).ok()?;
    Some(PlannedRead { device, request, sensors: sensors.to_vec(), every: registry.device(device).poll_every })
}

/// What decides whether sensors of one table may share a read, and what that costs.
struct Rules {
    table: Table,
    most: u32,
    across_gaps: bool,
    merge: bool,
    untouchable: Vec<Range<u32>>,
    cost: LinkCost,
}

impl Rules {
    fn of(registry: &Registry, limits: &ReadLimits, learnt: &Learnt, table: Table, cost: LinkCost) -> Rules {
        let (written, found) = match table.is_bits() {
            true => (limits.max_bits, learnt.max_bits),
            false => (limits.max_registers, learnt.max_registers),
        };
        let forbidden = limits.forbidden.iter().filter(|range| range.table == table);
        let holes = learnt.holes.iter().filter(|(of, _)| *of == table);
        let refused = learnt.all_apart().map(|apart| &registry.sensor(apart.sensor).read);
        Rules {
            table,
            most: u32::from(found.map_or(written, |found| written.min(found)).min(table.read_limit())),
            across_gaps: limits.read_across_gaps,
            merge: limits.merge,
            untouchable: forbidden
                .map(|range| u32::from(range.first)..u32::from(range.last) + 1)
                .chain(holes.map(|(_, range)| range.clone()))
                .chain(refused.filter(|spec| spec.table == table).map(span))
                .collect(),
            cost,
        }
    }

    /// Whether a read may grow to this span. Once it may not, no longer one may.
    fn allow(&self, span: &Range<u32>) -> bool {
        let touches = |range: &Range<u32>| range.start < span.end && span.start < range.end;
        span.end - span.start <= self.most && !self.untouchable.iter().any(touches)
    }

    fn cost_of(&self, span: &Range<u32>) -> Duration {
        self.cost.of_read(self.table, u16::try_from(span.end - span.start).unwrap_or(u16::MAX))
    }
}

/// The cheapest way to cut a row of spans, sorted by start and end, into blocks of one read each; of equally cheap ones the
/// one with fewest reads, and then with the longest first ones. A span alone is always a block, whatever the limits say,
/// because there is no other way to read it.
fn cheapest_cuts(spans: &[Range<u32>], rules: &Rules) -> Vec<Range<usize>> {
    // The cheapest plan of the spans from each place on: its cost, its number of reads, and where its first block ends.
    let mut best = vec![(Duration::ZERO, 0_usize, spans.len()); spans.len() + 1];
    for first in (0..spans.len()).rev() {
        let plans = blocks_from(spans, first, rules).map(|(end, span)| {
            let (cost, reads, _) = best[end];
            (cost + rules.cost_of(&span), reads + 1, end)
        });
        let cheapest = plans.min_by_key(|(cost, reads, end)| (*cost, *reads, usize::MAX - end));
        best[first] = cheapest.unwrap_or((Duration::MAX, 0, first + 1));
    }
    let mut blocks = Vec::new();
    let mut start = 0;
    while start < spans.len() {
        let end = best[start].2;
        blocks.push(start..end);
        start = end;
    }
    blocks
}

/// Every block that may start with this span: where it ends in the row, and what it covers.
fn blocks_from<'s>(
    spans: &'s [Range<u32>],
    first: usize,
    rules: &'s Rules,
) -> impl Iterator<Item = (usize, Range<u32>)> + 's {
    let start = spans[first].start;
    let mut end = spans[first].end;
    // Whether one of the values alone covers the block, so that the others cost nothing and no limit can object.
    let mut is_one_value = true;
    (first..spans.len()).map_while(move |place| {
        let next = &spans[place];
        let has_gap = next.start > end;
        is_one_value &= next.start == start || next.end <= end;
        end = end.max(next.end);
        let block = start..end;
        let may = rules.merge && rules.allow(&block) && (rules.across_gaps || !has_gap);
        (is_one_value || may).then_some((place + 1, block))
    })
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
