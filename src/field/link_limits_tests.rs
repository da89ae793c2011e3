//! What a link's task learns of its devices, and what the difficult ones cost the others; in memory, with the clock stopped.

use std::time::Duration;

use super::bench::{Bench, MINUTE, Mood, offline};
use super::testing::{Plan, word};
use crate::clock;
use crate::modbus::Table;
use crate::modbus::exception::ExceptionCode;
use crate::quantity::Value;
use crate::registry::heartbeat::Heartbeat;
use crate::registry::reading::{DeviceStatus, Fault, OfflineCause};
use crate::registry::{DeviceIndex, SensorIndex};

const SECOND: Duration = Duration::from_secs(1);

fn row(addresses: std::ops::Range<u16>) -> Vec<(u16, u8)> {
    addresses.map(|address| (address, word(1))).collect()
}

fn good(register: u16) -> Result<Value, Option<Fault>> {
    Ok(Value::Integer(i128::from(register)))
}

fn refused(code: u8) -> Result<Value, Option<Fault>> {
    Err(Some(Fault::Refused(ExceptionCode(code))))
}

/// The requests of one second that begins half a second from now, as (address, count), sorted.
async fn requests_of_a_cycle(bench: &Bench) -> Vec<(u16, u16)> {
    tokio::time::sleep(SECOND / 2).await;
    let before = bench.requests().len();
    tokio::time::sleep(SECOND).await;
    let mut requests: Vec<_> =
        bench.requests().split_off(before).into_iter().map(|(_, address, count)| (address, count)).collect();
    requests.sort();
    requests
}

#[tokio::test(start_paused = true)]
async fn case_c32_a_bad_register_costs_log2_n_requests_and_is_planned_around() {
    let bench = Bench::new(Plan::tcp(&row(0..64)));
    bench.set_mood(1, Mood::Lacks(37));
    bench.plug_in();
    bench.until(37, refused(2)).await;
    for sensor in (0..64).filter(|sensor| *sensor != 37) {
        assert_eq!(bench.value(sensor, SECOND / 2), good(sensor as u16), "the same turn read all the others");
    }
    let asked = bench.requests().len();
    assert!(asked <= 1 + 6 + 1, "the refused read, and no more than log2(64) + 1: {:?}", bench.requests());
    assert_eq!(requests_of_a_cycle(&bench).await, [(0, 37), (38, 26)], "two blocks, and no crumbs");
    let state = bench.board.device(DeviceIndex(0));
    assert_eq!(state.status, DeviceStatus::Degraded);
    assert_eq!(state.refused.iter().map(|refused| refused.sensor).collect::<Vec<_>>(), [SensorIndex(37)]);
}

#[tokio::test(start_paused = true)]
async fn case_c32_a_refused_register_is_tried_again_ever_more_rarely_and_joins_when_it_is_mended() {
    let bench = Bench::new(Plan::tcp(&row(0..16)));
    bench.set_mood(1, Mood::Lacks(5));
    bench.plug_in();
    bench.until(5, refused(2)).await;
    tokio::time::sleep(MINUTE * 8).await;
    let alone = bench.requests().iter().filter(|(_, address, count)| (*address, *count) == (5, 1)).count();
    assert!((3..=4).contains(&alone), "after 1, 3 and 7 minutes: {alone}");
    bench.set_mood(1, Mood::Answers);
    tokio::time::sleep(MINUTE * 8).await;
    assert_eq!(bench.value(5, MINUTE), good(5));
    assert_eq!(requests_of_a_cycle(&bench).await, [(0, 16)]);
    assert_eq!((bench.status(0), bench.board.device(DeviceIndex(0)).refused.len()), (DeviceStatus::Online, 0));
}

#[tokio::test(start_paused = true)]
async fn case_c32_a_bad_hole_costs_no_sensor_anything_and_is_not_touched_again() {
    let bench =
        Bench::new(Plan::tcp(&row(100..120).into_iter().filter(|(address, _)| *address != 110).collect::<Vec<_>>()));
    bench.set_mood(1, Mood::Lacks(110));
    bench.plug_in();
    bench.until(18, good(119)).await;
    for (sensor, register) in (100..120).filter(|register| *register != 110).enumerate() {
        bench.until(sensor as u32, good(register)).await;
    }
    assert_eq!(requests_of_a_cycle(&bench).await, [(100, 10), (111, 9)]);
    let touches = |(_, address, count): &(u8, u16, u16)| (*address..address + count).contains(&110);
    let before = bench.requests().iter().filter(|request| touches(request)).count();
    tokio::time::sleep(MINUTE * 30).await;
    assert_eq!(bench.requests().iter().filter(|request| touches(request)).count(), before);
    assert_eq!(bench.status(0), DeviceStatus::Online);
}

#[tokio::test(start_paused = true)]
async fn case_c34_a_limit_that_a_device_reveals_by_an_exception_is_kept() {
    let bench = Bench::new(Plan::tcp(&row(0..100)));
    bench.set_mood(1, Mood::AtMost(60, 3));
    bench.plug_in();
    bench.until(99, good(99)).await;
    bench.until(0, good(0)).await;
    let cycle = requests_of_a_cycle(&bench).await;
    assert_eq!(cycle, [(0, 50), (50, 50)]);
    let state = bench.board.device(DeviceIndex(0));
    assert_eq!((state.status, state.learnt_max_registers), (DeviceStatus::Online, Some(50)));
}

#[tokio::test(start_paused = true)]
async fn case_c34_a_device_that_is_silent_on_long_reads_is_asked_for_shorter_ones() {
    let mut sensors = row(0..58);
    sensors.push((58, word(4)));
    sensors.extend(row(62..100));
    let bench = Bench::new(Plan::tcp(&sensors));
    bench.set_mood(1, Mood::AtMost(60, 0));
    bench.plug_in();
    let found = bench.until(96, good(99)).await;
    assert!(found < SECOND * 10, "{found:?}");
    tokio::time::sleep(SECOND * 2).await;
    let cycle = requests_of_a_cycle(&bench).await;
    assert!(cycle.len() <= 3 && cycle.iter().all(|(_, count)| *count <= 60), "{cycle:?}");
    assert!(bench.value(58, SECOND * 2).is_ok(), "the value of four registers is whole");
    assert_eq!(bench.status(0), DeviceStatus::Online);
}

#[tokio::test(start_paused = true)]
async fn a_function_that_the_device_does_not_know_is_not_sought_for_bad_registers() {
    let bench = Bench::new(Plan::tcp(&row(0..64)));
    bench.set_mood(1, Mood::Exception(1));
    bench.plug_in();
    bench.until(0, refused(1)).await;
    bench.until(63, refused(1)).await;
    tokio::time::sleep(SECOND * 30).await;
    assert_eq!(bench.requests().len(), 1, "nor asked again in the next turn");
    bench.set_mood(1, Mood::Answers);
    bench.until(63, good(63)).await;
}

#[tokio::test(start_paused = true)]
async fn a_device_that_fails_at_everything_blames_no_register_and_is_read_whole_when_it_is_back() {
    let bench = Bench::new(Plan::tcp(&row(0..64)));
    bench.set_mood(1, Mood::Exception(4));
    bench.plug_in();
    bench.until(63, Err(Some(Fault::DeviceFailed(ExceptionCode(4))))).await;
    assert!(bench.requests().len() <= 20, "{:?}", bench.requests().len());
    bench.set_mood(1, Mood::Answers);
    let back = bench.until(63, good(63)).await;
    assert!(back <= SECOND * 10, "{back:?}");
    assert_eq!(requests_of_a_cycle(&bench).await, [(0, 64)]);
}

#[tokio::test(start_paused = true)]
async fn a_busy_device_is_asked_three_times_and_its_neighbour_does_not_wait_meanwhile() {
    let bench = Bench::new(Plan::tcp(&[(7, word(1))]).and_device(&[(8, word(1))]));
    bench.set_mood(1, Mood::Exception(6));
    bench.plug_in();
    let neighbour = bench.until(1, good(8)).await;
    assert!(neighbour <= Duration::from_millis(20), "{neighbour:?}");
    bench.until(0, Err(Some(Fault::Busy(ExceptionCode(6))))).await;
    let units: Vec<u8> = bench.requests().iter().map(|(unit, ..)| *unit).collect();
    assert_eq!(units, [1, 2, 1, 1]);
    assert_eq!(bench.status(0), DeviceStatus::Degraded, "it answers, and is not offline");
}

#[tokio::test(start_paused = true)]
async fn case_c31_a_dead_unit_on_a_serial_line_costs_a_twentieth_of_its_time_with_the_quiet_after_it() {
    let bench = Bench::new(Plan::serial(&[(0, word(1))]).and_device(&[(100, word(1))]));
    bench.plug_in();
    bench.until(1, good(100)).await;
    bench.set_mood(1, Mood::Silent);
    bench.until(0, offline(OfflineCause::ConnectedButSilent)).await;
    let before = bench.requests().len();
    tokio::time::sleep(MINUTE * 20).await;
    let requests = bench.requests().split_off(before);
    let dead = requests.iter().filter(|(unit, ..)| *unit == 1).count();
    // A futile request waits 0.3 s, and then the line must be silent for 0.04 s; the rest of its lateness costs nobody anything.
    assert!(dead as f64 * 0.34 <= 0.05 * 1_200.0, "{dead} futile requests in 20 minutes");
    assert!(dead >= 40, "and yet it is looked for: {dead}");
    assert!(requests.len() - dead >= 1_195, "its neighbour was read {} times", requests.len() - dead);
    assert_eq!(bench.value(1, SECOND * 2), good(100));
}

#[tokio::test(start_paused = true)]
async fn case_c31_what_a_gateway_says_of_a_unit_closes_no_connection_and_has_two_reasons() {
    for (code, cause) in [(11, OfflineCause::UnitSilentBehindGateway), (10, OfflineCause::NoPathBehindGateway)] {
        let blocks = [(8, word(1)), (200, word(1)), (400, word(1))];
        let bench = Bench::new(Plan::tcp(&[(7, word(1))]).and_device(&blocks));
        bench.set_mood(2, Mood::Exception(code));
        // There is no second connection: closing this one would be the end.
        bench.plug_in();
        bench.until(1, offline(cause)).await;
        bench.until(3, offline(cause)).await;
        let dead = bench.requests().iter().filter(|(unit, ..)| *unit == 2).count();
        assert_eq!(dead, 1, "its other blocks are skipped");
        tokio::time::sleep(MINUTE).await;
        assert_eq!(bench.value(0, SECOND * 2), good(7));
        bench.set_mood(2, Mood::Answers);
        bench.until(3, good(400)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn case_c28_a_half_open_connection_is_given_up_for_a_new_one() {
    let bench = Bench::new(Plan::tcp(&[(7, word(1))]));
    bench.plug_in_nobody();
    bench.until(0, offline(OfflineCause::ConnectedButSilent)).await;
    bench.plug_in();
    let back = bench.until(0, good(7)).await;
    assert!(back <= SECOND * 10, "{back:?}");
}

#[tokio::test(start_paused = true)]
async fn case_c28_a_connection_that_dies_unseen_is_replaced_at_the_first_probe() {
    let bench = Bench::new(Plan::tcp(&[(7, word(1))]));
    bench.set_mood(1, Mood::Mute(SECOND * 10));
    bench.plug_in();
    bench.until(0, good(7)).await;
    tokio::time::sleep(SECOND * 9).await;
    bench.until(0, offline(OfflineCause::ConnectedButSilent)).await;
    bench.plug_in();
    let back = bench.until(0, good(7)).await;
    assert!(back <= SECOND, "the first rest has half a second: {back:?}");
}

#[tokio::test(start_paused = true)]
async fn case_c28_a_device_that_lost_its_connections_in_a_power_cut_is_silent_at_once_and_back_on_a_new_one() {
    let bench = Bench::new(Plan::tcp(&[(7, word(1))]));
    bench.plug_in();
    bench.until(0, good(7)).await;
    tokio::time::sleep(MINUTE).await;
    assert_eq!(bench.value(0, SECOND * 2), good(7));
    // No FIN and no RST: what is written is taken, and nothing comes. Nor is a new connection to be had.
    bench.set_mood(1, Mood::ForgetsConnections);
    let typed = bench.until(0, offline(OfflineCause::ConnectedButSilent)).await;
    assert!(typed <= SECOND * 2, "a poll and its attempts: {typed:?}");
    bench.until(0, offline(OfflineCause::Refused)).await;
    tokio::time::sleep(MINUTE * 2).await;
    assert_eq!(bench.value(0, MINUTE * 10), offline(OfflineCause::Refused), "and no old value is served");
    bench.set_mood(1, Mood::Answers);
    bench.plug_in();
    let back = bench.until(0, good(7)).await;
    assert!(back <= SECOND * 3, "{back:?}");
}

#[tokio::test(start_paused = true)]
async fn case_c28_a_new_connection_that_is_dead_from_the_start_is_not_waited_for_by_a_device_that_answers_at_once() {
    let bench = Bench::new(Plan::tcp(&[(7, word(1))]));
    bench.plug_in();
    bench.until(0, good(7)).await;
    bench.plug_in_nobody();
    bench.plug_in();
    bench.set_mood(1, Mood::ClosesOnce);
    tokio::time::sleep(SECOND * 3).await;
    assert_eq!(bench.value(0, SECOND), good(7), "it was read again within a second and a time-out");
}

#[tokio::test(start_paused = true)]
async fn case_c35_with_a_pause_after_connect_the_first_request_is_answered() {
    let bench = Bench::new(Plan::tcp(&[(7, word(1))]).with_connect_delay(SECOND * 5));
    bench.set_mood(1, Mood::Deaf(SECOND * 5));
    bench.plug_in();
    bench.until(0, good(7)).await;
    assert_eq!(bench.board.meters().device(DeviceIndex(0)).failures(), 0);
}

#[tokio::test(start_paused = true)]
async fn case_c35_a_device_that_hears_nothing_at_first_is_not_left_for_a_new_connection() {
    let bench = Bench::new(Plan::tcp(&[(7, word(1))]));
    bench.set_mood(1, Mood::Deaf(SECOND * 5));
    bench.plug_in();
    let found = bench.until(0, good(7)).await;
    assert!(found <= SECOND * 8, "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn case_c35_the_pause_between_requests_holds_across_all_units_of_a_line() {
    let gap = Duration::from_millis(100);
    let plan = Plan::serial(&[(0, word(1)), (100, word(1))]).and_device(&[(50, word(1))]).with_gap(gap);
    let bench = Bench::new(plan);
    bench.set_mood(1, Mood::Deaf(gap));
    bench.set_mood(2, Mood::Deaf(gap));
    bench.plug_in();
    let started = clock::instant();
    while bench.requests().len() < 1_000 && clock::instant() - started < MINUTE * 10 {
        tokio::time::sleep(SECOND).await;
    }
    assert!(bench.requests().len() >= 1_000);
    let failures: u64 = (0..2).map(|device| bench.board.meters().device(DeviceIndex(device)).failures()).sum();
    assert_eq!(failures, 0, "a device that is asked too soon does not answer");
}

#[tokio::test(start_paused = true)]
async fn a_search_that_is_broken_off_answers_no_call_with_an_old_value() {
    let bench = Bench::new(Plan::tcp(&row(0..16)));
    bench.plug_in();
    bench.until(15, good(15)).await;
    tokio::time::sleep(SECOND / 2).await;
    // The whole read is refused, and the first half of it gets no answer.
    bench.set_mood(1, Mood::RefusesOnceThenSilent);
    let before = clock::instant();
    assert_eq!(bench.handle.refresh(SensorIndex(15), before + SECOND * 10).await, Ok(()));
    let state = bench.value(15, clock::instant() - before);
    assert!(matches!(state, Ok(_) | Err(Some(_))), "{state:?}: what there is, is older than the call");
}

#[tokio::test(start_paused = true)]
async fn overlapping_sensors_are_told_apart_when_their_read_is_refused() {
    let bench = Bench::new(Plan::tcp(&[(10, word(1)), (10, word(2))]));
    bench.set_mood(1, Mood::Lacks(11));
    bench.plug_in();
    bench.until(0, good(10)).await;
    bench.until(1, refused(2)).await;
}

#[tokio::test(start_paused = true)]
async fn case_c40_a_heartbeat_that_is_refused_costs_the_sensors_nothing() {
    let max_unchanged = SECOND * 30;
    let heartbeat = Heartbeat { table: Table::Holding, address: 8, max_unchanged };
    let bench = Bench::new(Plan::tcp(&row(0..8)).with_heartbeat(heartbeat));
    bench.set_mood(1, Mood::Lacks(8));
    bench.plug_in();
    let found = bench.until(7, good(7)).await;
    assert!(found < SECOND, "{found:?}");
    assert_eq!(bench.requests().first(), Some(&(1, 0, 9)), "it is read along at first");
    tokio::time::sleep(SECOND * 3).await;
    assert_eq!(requests_of_a_cycle(&bench).await, [(0, 8)], "and from then on apart, and rarely");
    assert_eq!((bench.status(0), bench.value(0, SECOND * 2)), (DeviceStatus::Online, good(0)));
}
