use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::field::testing::{Plan, word};
use crate::registry::heartbeat::Heartbeat;
use crate::registry::sensor::Forbidden;
use std::time::Instant;

fn requests(reads: &[PlannedRead]) -> Vec<(u16, u16)> {
    reads.iter().map(|read| (read.request.address(), read.request.count())).collect()
}

/// The plan of sensors at these addresses (with their widths), as (address, count) of each request.
fn check(plan_of: Plan, expected: &[(u16, u16)]) {
    let registry = plan_of.registry();
    assert_eq!(requests(&plan(&registry, DeviceIndex(0), &Learnt::default())), expected);
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
fn case_c40_a_heartbeat_is_read_along_where_that_is_cheaper_and_allowed() {
    let check = |plan_of: Plan, address: u16, expected: &[(u16, u16)]| {
        let max_unchanged = std::time::Duration::from_secs(30);
        let heartbeat = Heartbeat { table: Table::Holding, address, max_unchanged };
        self::check(plan_of.with_heartbeat(heartbeat), expected);
    };
    let sensors = || [(10, word(2)), (12, word(1))];
    check(Plan::tcp(&sensors()), 11, &[(10, 3)]);
    check(Plan::tcp(&sensors()), 2, &[(2, 11)]);
    check(Plan::tcp(&sensors()), 20, &[(10, 11)]);
    check(Plan::tcp(&sensors()).without_gaps(), 9, &[(9, 4)]);
    check(Plan::tcp(&sensors()).without_gaps(), 13, &[(10, 4)]);
    check(Plan::tcp(&sensors()).without_gaps(), 8, &[(10, 3), (8, 1)]);
    check(Plan::tcp(&sensors()).limit(3), 13, &[(10, 3), (13, 1)]);
    check(Plan::serial(&sensors()), 100, &[(10, 3), (100, 1)]);
}

#[test]
fn a_read_up_to_the_last_address_is_planned() {
    check(Plan::tcp(&[(65_534, word(2)), (65_530, word(4))]), &[(65_530, 6)]);
}

#[test]
fn two_sensors_on_one_register_share_it() {
    check(Plan::tcp(&[(10, word(2)), (10, word(1)), (11, word(1))]), &[(10, 2)]);
    check(
        Plan::tcp(&[(10, word(1)), (10, word(1)), (11, word(1))]).with(|limits| limits.merge = false),
        &[(10, 1), (11, 1)],
    );
}

#[test]
fn case_c32_no_read_touches_a_forbidden_register() {
    let sensors: Vec<(u16, u8)> =
        (100..120).filter(|address| *address != 110).map(|address| (address, word(1))).collect();
    let forbidden = |table| Forbidden { table, first: 110, last: 110 };
    let of_this_table = Plan::tcp(&sensors).with(|limits| limits.forbidden = vec![forbidden(Table::Holding)]);
    check(of_this_table, &[(100, 10), (111, 9)]);
    let of_another = Plan::tcp(&sensors).with(|limits| limits.forbidden = vec![forbidden(Table::Input)]);
    check(of_another, &[(100, 20)]);
}

#[test]
fn what_was_learnt_is_planned_around_and_never_in_crumbs() {
    let registry = Plan::tcp(&(0..16).map(|address| (address, word(1))).collect::<Vec<_>>()).registry();
    let mut learnt = Learnt::default();
    learnt.refused(SensorIndex(5), crate::field::learnt::Pauses::REFUSED, Instant::now());
    assert_eq!(requests(&plan(&registry, DeviceIndex(0), &learnt)), [(0, 5), (6, 10), (5, 1)]);
    learnt.holes.push((Table::Holding, 3..4));
    learnt.limit(Table::Holding, 8);
    let reads = plan(&registry, DeviceIndex(0), &learnt);
    let touches =
        |read: &&PlannedRead| (read.request.address()..read.request.address() + read.request.count()).contains(&3);
    assert_eq!(reads.iter().filter(touches).count(), 1, "the sensor there is read alone");
    assert!(reads.iter().all(|read| read.request.count() <= 8));
}

fn total(reads: &[PlannedRead], cost: LinkCost) -> Duration {
    reads.iter().map(|read| cost.of_read(read.request.table(), read.request.count())).sum()
}

/// Whether a set of sensors may share one read, by the rules' own words.
fn may_share(spans: &[Range<u32>], limits: &ReadLimits) -> bool {
    let start = spans.iter().map(|span| span.start).min().expect("not empty");
    let end = spans.iter().map(|span| span.end).max().expect("not empty");
    let is_one = spans.contains(&(start..end));
    let touched = (start..end).filter(|address| !spans.iter().any(|span| span.contains(address)));
    let gap_free = touched.count() == 0;
    let is_forbidden = |range: &Forbidden| u32::from(range.first) < end && start <= u32::from(range.last);
    is_one
        || (limits.merge
            && end - start <= u32::from(limits.max_registers)
            && (limits.read_across_gaps || gap_free)
            && !limits.forbidden.iter().any(is_forbidden))
}

/// What a partition costs, if it is allowed.
type Judge<'j> = dyn Fn(&[Vec<Range<u32>>]) -> Option<Duration> + 'j;

/// The cost of the cheapest of all partitions of the sensors, in order or not.
fn brute_force(spans: &[Range<u32>], limits: &ReadLimits, cost: LinkCost) -> Duration {
    fn go(rest: &[Range<u32>], blocks: &mut Vec<Vec<Range<u32>>>, judge: &Judge<'_>) -> Option<Duration> {
        let Some((span, rest)) = rest.split_first() else { return judge(blocks) };
        let mut best: Option<Duration> = None;
        for place in 0..=blocks.len() {
            if place == blocks.len() {
                blocks.push(Vec::new());
            }
            blocks[place].push(span.clone());
            best = best.into_iter().chain(go(rest, blocks, judge)).min();
            blocks[place].pop();
        }
        blocks.pop();
        best
    }
    let judge = |blocks: &[Vec<Range<u32>>]| {
        let used = || blocks.iter().filter(|block| !block.is_empty());
        used().all(|block| may_share(block, limits)).then(|| {
            let length = |block: &Vec<Range<u32>>| {
                let end = block.iter().map(|span| span.end).max().unwrap_or(0);
                (end - block.iter().map(|span| span.start).min().unwrap_or(0)) as u16
            };
            used().map(|block| cost.of_read(Table::Holding, length(block))).sum()
        })
    };
    go(spans, &mut Vec::new(), &judge).expect("each alone is always possible")
}

/// The plan of a reader that joins whatever fits, in the order of addresses.
fn greedy(spans: &[Range<u32>], limits: &ReadLimits, cost: LinkCost) -> Duration {
    let mut blocks: Vec<Vec<Range<u32>>> = Vec::new();
    for span in spans {
        let joined = blocks.last().map(|last| [last.as_slice(), std::slice::from_ref(span)].concat());
        match joined.filter(|joined| may_share(joined, limits)) {
            Some(joined) => *blocks.last_mut().expect("there is one") = joined,
            None => blocks.push(vec![span.clone()]),
        }
    }
    let length = |block: &[Range<u32>]| (block.iter().map(|span| span.end).max().unwrap_or(0) - block[0].start) as u16;
    blocks.iter().map(|block| cost.of_read(Table::Holding, length(block))).sum()
}

fn limits() -> impl Strategy<Value = ReadLimits> {
    let forbidden = vec((0_u16..60, 0_u16..3), 0..3);
    (4_u16..=125, any::<bool>(), prop::bool::weighted(0.9), forbidden).prop_map(|(most, gaps, merge, forbidden)| {
        let range = |(first, more): &(u16, u16)| Forbidden { table: Table::Holding, first: *first, last: first + more };
        ReadLimits {
            max_registers: most,
            read_across_gaps: gaps,
            merge,
            forbidden: forbidden.iter().map(range).collect(),
            ..ReadLimits::default()
        }
    })
}

fn sensors(addresses: std::ops::Range<u16>, most: usize) -> impl Strategy<Value = Vec<(u16, u8)>> {
    vec((addresses, prop::sample::select(vec![1_u8, 2, 4])), 1..most)
}

struct Planned {
    reads: Vec<PlannedRead>,
    spans: Vec<Range<u32>>,
    cost: LinkCost,
    sensors: usize,
}

fn planned(serial: bool, sensors: &[(u16, u8)], limits: &ReadLimits) -> Planned {
    let plan_of = if serial { Plan::serial(sensors) } else { Plan::tcp(sensors) };
    let registry = plan_of.with(|known| *known = limits.clone()).registry();
    let reads = plan(&registry, DeviceIndex(0), &Learnt::default());
    for read in &reads {
        let asked =
            u32::from(read.request.address())..u32::from(read.request.address()) + u32::from(read.request.count());
        let spans: Vec<Range<u32>> = read.sensors.iter().map(|sensor| span(&registry.sensor(*sensor).read)).collect();
        assert!(spans.iter().all(|span| asked.start <= span.start && span.end <= asked.end), "a value is split");
        assert!(may_share(&spans, limits), "{spans:?} share a read, and {limits:?}");
    }
    let mut spans: Vec<Range<u32>> = registry.sensors().map(|(_, sensor)| span(&sensor.read)).collect();
    spans.sort_by_key(|span| (span.start, span.end));
    let cost = LinkCost::of(registry.link(LinkIndex(0)));
    Planned { reads, spans, cost, sensors: registry.sensors().len() }
}

proptest! {
    #[test]
    fn every_sensor_is_read_once_and_never_dearer_than_one_by_one_or_greedily(
        serial: bool, sensors in sensors(0..400, 80), limits in limits()
    ) {
        let Planned { reads, spans, cost, sensors } = planned(serial, &sensors, &limits);
        let mut served: Vec<SensorIndex> = reads.iter().flat_map(|read| read.sensors.clone()).collect();
        served.sort();
        served.dedup();
        prop_assert_eq!(served.len(), sensors);
        prop_assert_eq!(reads.iter().map(|read| read.sensors.len()).sum::<usize>(), sensors);
        let one_by_one: Duration = spans.iter().map(|span| cost.of_read(Table::Holding, (span.end - span.start) as u16)).sum();
        prop_assert!(total(&reads, cost) <= one_by_one);
        prop_assert!(total(&reads, cost) <= greedy(&spans, &limits, cost));
    }

    #[test]
    fn no_partition_of_the_sensors_is_cheaper(serial: bool, sensors in sensors(0..60, 7), limits in limits()) {
        let Planned { reads, spans, cost, .. } = planned(serial, &sensors, &limits);
        let cheapest = brute_force(&spans, &limits, cost);
        prop_assert_eq!(total(&reads, cost), cheapest, "{:?}", requests(&reads));
    }
}
