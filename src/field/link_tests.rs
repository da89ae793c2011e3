//! The link's task against a device in memory, with the clock stopped.

use std::time::Duration;

use super::bench::{Bench, MINUTE, Mood, offline};
use super::testing::{Plan, word};
use crate::clock;
use crate::quantity::Value;
use crate::registry::SensorIndex;
use crate::registry::reading::{DeviceStatus, Fault, NoValueNow, OfflineCause};

#[tokio::test(start_paused = true)]
async fn case_c24_a_late_rtu_answer_is_never_taken_for_the_next_register() {
    late_answers_stay_apart(Plan::serial).await;
}

#[tokio::test(start_paused = true)]
async fn case_c24_nor_is_a_late_answer_of_rtu_over_tcp() {
    late_answers_stay_apart(Plan::rtu_over_tcp).await;
}

async fn late_answers_stay_apart(plan_of: impl Fn(&[(u16, u8)]) -> Plan) {
    // Two registers of one device, too far apart for one read, of the same shape; and the answers come about when the
    // patience of 300 ms ends.
    let bench = Bench::new(plan_of(&[(0, word(1)), (100, word(1)), (200, word(1))]));
    bench.plug_in();
    bench.until(2, Ok(Value::Integer(200))).await;
    let mut good = 0;
    let mut random = 12_345_u32;
    for _ in 0..10_000 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        bench.set_mood(1, Mood::Late(Duration::from_millis(u64::from(random >> 16) % 600)));
        tokio::time::sleep(Duration::from_millis(150)).await;
        for (sensor, register) in [(0, 0), (1, 100), (2, 200)] {
            if let Ok(value) = bench.value(sensor, MINUTE) {
                assert_eq!(value, Value::Integer(register), "another register's answer");
                good += 1;
            }
        }
    }
    assert!(good > 1_000, "only {good} looks found a value, which proves nothing");
    assert!(bench.requests().len() > 1_000);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_twice_is_not_the_answer_to_the_next_request() {
    let bench = Bench::new(Plan::serial(&[(0, word(1))]));
    bench.set_mood(1, Mood::SaysItTwice);
    bench.plug_in();
    for _ in 0..20 {
        bench.until(0, Ok(Value::Integer(bench.requests().len().max(1) as i128))).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(bench.value(0, MINUTE), Ok(Value::Integer(bench.requests().len() as i128)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_unit_on_a_serial_line_is_typed_and_its_neighbour_goes_on() {
    let bench = Bench::new(Plan::serial(&[(0, word(1))]).and_device(&[(100, word(2))]));
    bench.set_mood(1, Mood::Silent);
    bench.plug_in();
    bench.until(0, offline(OfflineCause::ConnectedButSilent)).await;
    bench.until(1, Ok(Value::Integer(100 * 65_536 + 101))).await;
    bench.set_mood(1, Mood::Answers);
    bench.until(0, Ok(Value::Integer(0))).await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_link_makes_every_device_offline_and_is_found_again_within_a_probe() {
    let bench = Bench::new(Plan::tcp(&[(7, word(1))]).and_device(&[(8, word(1))]));
    bench.until(0, offline(OfflineCause::Refused)).await;
    bench.until(1, offline(OfflineCause::Refused)).await;
    assert!(matches!(bench.status(1), DeviceStatus::Offline { next_try: Some(_), .. }));
    bench.plug_in();
    let back = bench.until(0, Ok(Value::Integer(7))).await;
    assert!(back <= Duration::from_secs(2), "{back:?}");
    bench.until(1, Ok(Value::Integer(8))).await;
    assert_eq!((bench.status(0), bench.status(1)), (DeviceStatus::Online, DeviceStatus::Online));
}

#[tokio::test(start_paused = true)]
async fn a_silent_device_is_typed_within_its_attempts_and_keeps_its_last_value_apart() {
    let bench = Bench::new(Plan::tcp(&[(7, word(1))]));
    bench.plug_in();
    bench.until(0, Ok(Value::Integer(7))).await;
    bench.set_mood(1, Mood::Silent);
    let typed = bench.until(0, offline(OfflineCause::ConnectedButSilent)).await;
    assert!(typed <= Duration::from_millis(1_700), "a poll and two time-outs: {typed:?}");
    let last = bench.board.look(SensorIndex(0), |state| match state.fresh(clock::instant(), MINUTE) {
        Err(NoValueNow::Failed { last, .. }) => last.map(|last| last.value().clone()),
        _ => None,
    });
    assert_eq!(last, Some(Value::Integer(7)));
    bench.set_mood(1, Mood::Answers);
    bench.until(0, Ok(Value::Integer(7))).await;
}

#[tokio::test(start_paused = true)]
async fn case_c31_a_dead_unit_costs_its_neighbours_next_to_nothing() {
    let bench = Bench::new(Plan::tcp(&[(7, word(1))]).and_device(&[(8, word(1)), (200, word(1)), (400, word(1))]));
    bench.plug_in();
    bench.until(0, Ok(Value::Integer(7))).await;
    bench.set_mood(2, Mood::Silent);
    let silent = offline(OfflineCause::ConnectedButSilent);
    bench.until(1, silent.clone()).await;
    assert_eq!(bench.value(3, MINUTE), silent, "its other blocks are not tried one by one");
    let before = bench.requests().len();
    tokio::time::sleep(MINUTE).await;
    let requests = bench.requests().split_off(before);
    let dead = requests.iter().filter(|(unit, ..)| *unit == 2).count();
    assert!(dead <= 12, "{dead} futile requests of 0.3 s in a minute are more than 5 %");
    assert!(requests.len() - dead >= 58, "the neighbour was read {} times in a minute", requests.len() - dead);
    assert_eq!(bench.value(0, Duration::from_millis(1_400)), Ok(Value::Integer(7)));
    bench.set_mood(2, Mood::Answers);
    bench.until(3, Ok(Value::Integer(400))).await;
}

#[tokio::test(start_paused = true)]
async fn exceptions_have_reasons_of_their_own() {
    let check = async |code: u8, expected: Result<Value, Option<Fault>>| {
        let bench = Bench::new(Plan::tcp(&[(7, word(1))]));
        bench.set_mood(1, Mood::Exception(code));
        bench.plug_in();
        bench.until(0, expected).await;
    };
    use crate::modbus::exception::ExceptionCode;
    check(1, Err(Some(Fault::Refused(ExceptionCode(1))))).await;
    check(2, Err(Some(Fault::Refused(ExceptionCode(2))))).await;
    check(3, Err(Some(Fault::Refused(ExceptionCode(3))))).await;
    check(4, Err(Some(Fault::DeviceFailed(ExceptionCode(4))))).await;
    check(6, Err(Some(Fault::Busy(ExceptionCode(6))))).await;
    check(10, offline(OfflineCause::NoPathBehindGateway)).await;
    check(11, offline(OfflineCause::UnitSilentBehindGateway)).await;
}

#[tokio::test(start_paused = true)]
async fn case_c32_an_illegal_register_costs_the_others_of_its_block_nothing() {
    use crate::modbus::exception::ExceptionCode;
    let sensors: Vec<(u16, u8)> = (0..16).map(|address| (address, word(1))).collect();
    let bench = Bench::new(Plan::tcp(&sensors));
    bench.set_mood(1, Mood::Lacks(5));
    bench.plug_in();
    bench.until(5, Err(Some(Fault::Refused(ExceptionCode(2))))).await;
    for sensor in (0..16).filter(|sensor| *sensor != 5) {
        bench.until(sensor, Ok(Value::Integer(i128::from(sensor)))).await;
    }
    assert!(bench.requests().len() <= 10, "{:?}", bench.requests());
    assert_eq!(bench.status(0), DeviceStatus::Degraded);
    bench.set_mood(1, Mood::Answers);
    let mended = bench.until(5, Ok(Value::Integer(5))).await;
    assert!(mended <= MINUTE);
    assert_eq!(bench.status(0), DeviceStatus::Online);
}

#[tokio::test(start_paused = true)]
async fn case_c16_a_late_answer_is_never_taken_for_another_register() {
    let bench = Bench::new(Plan::tcp(&[(100, word(1))]).and_device(&[(200, word(1))]));
    bench.plug_in();
    bench.until(1, Ok(Value::Integer(200))).await;
    bench.set_mood(1, Mood::Late(Duration::from_millis(330)));
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if let Ok(value) = bench.value(0, MINUTE) {
            assert_eq!(value, Value::Integer(100));
        }
        if let Ok(value) = bench.value(1, MINUTE) {
            assert_eq!(value, Value::Integer(200));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_closed_while_idle_is_made_anew_without_a_failure() {
    let bench = Bench::new(Plan::tcp(&[(7, word(1))]));
    bench.plug_in();
    bench.until(0, Ok(Value::Integer(7))).await;
    bench.plug_in();
    bench.set_mood(1, Mood::ClosesOnce);
    let mut offline = false;
    for _ in 0..110 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        offline |= bench.value(0, MINUTE).is_err();
    }
    assert!(!offline && bench.requests().len() >= 3, "{:?}", bench.requests());
}

#[tokio::test(start_paused = true)]
async fn a_call_is_answered_with_a_fresh_read_and_by_its_deadline() {
    let bench = Bench::new(Plan::tcp(&[(7, word(1))]));
    bench.plug_in();
    bench.until(0, Ok(Value::Integer(7))).await;
    let before = bench.requests().len();
    let deadline = clock::instant() + Duration::from_secs(1);
    let calls = (0..3).map(|_| bench.handle.refresh(SensorIndex(0), deadline));
    for outcome in futures::future::join_all(calls).await {
        assert_eq!(outcome, Ok(()));
    }
    assert_eq!(bench.requests().len(), before + 1, "equal calls in flight share one request");
    bench.set_mood(1, Mood::Silent);
    let soon = clock::instant() + Duration::from_millis(100);
    assert_eq!(bench.handle.refresh(SensorIndex(0), soon).await, Err(super::handle::RefreshError::Deadline));
    bench.until(0, offline(OfflineCause::ConnectedButSilent)).await;
    let asked = bench.requests().len();
    assert_eq!(bench.handle.refresh(SensorIndex(0), clock::instant() + MINUTE).await, Ok(()));
    assert_eq!(bench.requests().len(), asked, "a resting device is not asked by a call");
    assert_eq!(bench.registry.sensors().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_line_that_takes_no_bytes_is_given_up_for_a_new_one() {
    for plan in [Plan::tcp(&[(7, word(1))]), Plan::serial(&[(7, word(1))])] {
        let bench = Bench::new(plan);
        // Nobody reads here, and there is room for two bytes.
        let (_stuck, theirs) = tokio::io::duplex(2);
        bench.pipes.send(theirs).expect("the task runs");
        bench.plug_in();
        bench.until(0, Ok(Value::Integer(7))).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_link_keeps_its_pledges_whatever_its_devices_do() {
    // covers: E4
    for plan in [Plan::tcp(&[(7, word(1))]), Plan::serial(&[(7, word(1))])] {
        let bench = Bench::new(plan.and_device(&[(8, word(1))]));
        let moods = [Mood::Answers, Mood::Silent, Mood::Late(MINUTE), Mood::Exception(4), Mood::ClosesOnce];
        for (turn, mood) in moods.into_iter().enumerate() {
            bench.set_mood(1, mood);
            // At first there is no way to the device at all.
            if turn > 0 {
                bench.plug_in();
            }
            for _ in 0..120 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                assert_eq!(bench.progress.check(clock::instant()), None, "{mood:?}");
            }
        }
        bench.stop.cancel();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(bench.progress.check(clock::instant()).is_some(), "nobody watches the link");
    }
}

#[tokio::test(start_paused = true)]
async fn case_c19_a_damaged_length_costs_one_connection_and_the_next_request_is_answered() {
    // Beyond all frames, too long, too short, and one that takes a byte of the answer away.
    for length in [1_000, 71, 3, 4, 0] {
        let bench = Bench::new(Plan::tcp(&[(7, word(1))]));
        bench.plug_in();
        bench.until(0, Ok(Value::Integer(7))).await;
        bench.plug_in();
        bench.set_mood(1, Mood::MiscountsOnce(length));
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(bench.value(0, Duration::from_millis(1_400)), Ok(Value::Integer(7)), "length {length}");
        let outcomes = bench.board.meters().device(crate::registry::DeviceIndex(0)).failures();
        assert_eq!(outcomes, 1, "length {length}");
    }
}

#[tokio::test(start_paused = true)]
async fn case_c40_a_device_whose_heartbeat_stands_still_is_not_believed_though_it_answers() {
    let heartbeat = crate::registry::heartbeat::Heartbeat {
        table: crate::modbus::Table::Holding,
        address: 7,
        max_unchanged: Duration::from_secs(30),
    };
    let bench = Bench::new(Plan::tcp(&[(10, word(1)), (12, word(1))]).with_heartbeat(heartbeat));
    bench.plug_in();
    bench.until(0, Ok(Value::Integer(10))).await;
    // Every register of this device holds its own address for ever, the heartbeat's too.
    let after = bench.until(0, Err(Some(Fault::Frozen))).await;
    assert!(after >= Duration::from_secs(29), "{after:?}");
    assert_eq!(bench.value(1, MINUTE), Err(Some(Fault::Frozen)));
    assert_eq!(bench.status(0), DeviceStatus::Degraded);
}
