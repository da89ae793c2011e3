//! Each fault as the gateway's own framing meets it.

use super::*;
use crate::modbus::pdu::{ReadRequest, Received};
use crate::modbus::rtu::RtuExchange;
use crate::modbus::tcp::TcpExchange;
use crate::sim::frames::Requests;
use crate::sim::plant::Answer;

const TIMEOUT: Duration = Duration::from_millis(100);

fn request(framing: Framing, transaction: u16) -> RequestFrame {
    let frame = framing.frame(transaction, 9, &[3, 0, 40, 0, 2]);
    Requests::new(framing).receive(&frame).remove(0)
}

fn answer(request: &RequestFrame, first: u16) -> Vec<u8> {
    request.respond(&Answer::Registers(vec![first, 7])).unwrap()
}

fn rule(kind: FaultKind, probability: f64) -> Rule {
    Rule { target: Target::Unit(9), kind, probability, duration: None, code: None }
}

fn always(framing: Framing, kind: FaultKind, seed: u64) -> Injector {
    let mut injector = Injector::new(framing, TIMEOUT, seed);
    injector.set(rule(kind, 1.0)).unwrap();
    injector
}

/// The bytes that come within the time-out.
fn in_time(actions: &[Action]) -> Vec<u8> {
    let sent = actions.iter().filter_map(|action| match action {
        Action::Send { after, pieces } if *after < TIMEOUT => Some(pieces),
        _ => None,
    });
    sent.flatten().flat_map(|piece| piece.bytes.clone()).collect()
}

#[test]
fn damage_never_becomes_another_answer_with_data() {
    use FaultKind::*;
    let damaging = [Silence, Late, Transaction, Unit, Exception, Truncated, Noise];
    for kind in damaging {
        for seed in 0..500 {
            let mut exchange = TcpExchange::default();
            let frame = exchange.begin(9, ReadRequest::new(Table::Holding, 40, 2).unwrap());
            let request = Requests::new(Framing::Tcp).receive(&frame).remove(0);
            let mut injector = always(Framing::Tcp, kind, seed);
            let bytes = in_time(&injector.decide(&request, &answer(&request, 5), Duration::ZERO));
            let received = exchange.receive(&bytes);
            assert!(!matches!(received, Received::Reply(Ok(_))), "{kind} {seed}: {bytes:02X?}");
        }
    }
}

#[test]
fn on_a_serial_line_an_answer_that_is_taken_is_the_right_one() {
    for kind in FaultKind::ALL.into_iter().filter(|kind| !kind.needs_connections() && *kind != FaultKind::Swapped) {
        for seed in 0..200 {
            let request = request(Framing::Rtu, 0);
            let mut injector = always(Framing::Rtu, kind, seed);
            let bytes = in_time(&injector.decide(&request, &answer(&request, 5), Duration::ZERO));
            let mut exchange = RtuExchange::new(false);
            exchange.begin(9, ReadRequest::new(Table::Holding, 40, 2).unwrap());
            if let Received::Reply(Ok(reply)) = exchange.receive(&bytes) {
                assert_eq!(reply.registers(0, 2), Some([5, 7].as_slice()), "{kind} {seed}");
            }
        }
    }
}

#[test]
fn the_same_seed_decides_the_same() {
    let course = |seed| {
        let mut injector = Injector::new(Framing::Tcp, TIMEOUT, seed);
        for kind in FaultKind::ALL {
            injector.set(rule(kind, 0.05)).unwrap();
        }
        let decide = |transaction| {
            let request = request(Framing::Tcp, transaction);
            injector.decide(&request, &answer(&request, transaction), Duration::ZERO)
        };
        (0..200).map(decide).collect::<Vec<_>>()
    };
    assert_eq!(course(1), course(1));
    assert_ne!(course(1), course(2));
}

#[test]
fn a_probability_is_a_share_of_the_answers() {
    let mut injector = Injector::new(Framing::Tcp, TIMEOUT, 3);
    injector.set(rule(FaultKind::Silence, 0.15)).unwrap();
    injector.set(rule(FaultKind::Slow, 0.05)).unwrap();
    let request = request(Framing::Tcp, 1);
    for _ in 0..10_000 {
        injector.decide(&request, &answer(&request, 5), Duration::ZERO);
    }
    let faults = injector.counts().faults_in_all();
    assert!((1_850..2_150).contains(&faults), "{faults}");
    assert!(injector.set(rule(FaultKind::Noise, 0.81)).is_err(), "more than every answer");
    injector.clear(Target::Unit(9), Some(FaultKind::Silence));
    assert!(injector.set(rule(FaultKind::Noise, 0.81)).is_ok());
}

#[test]
fn a_device_has_limits_and_lacks_registers() {
    let request = request(Framing::Tcp, 1);
    let mut injector = Injector::new(Framing::Tcp, TIMEOUT, 1);
    let mut first = |change: &dyn Fn(&mut Injector)| {
        change(&mut injector);
        in_time(&injector.decide(&request, &answer(&request, 5), Duration::ZERO))
    };
    assert_eq!(first(&|injector| injector.limit(9, 1, Refusal::Exception(3))), request.exception(3));
    assert!(first(&|injector| injector.limit(9, 1, Refusal::Silence)).is_empty());
    assert_eq!(first(&|injector| injector.limit(9, 0, Refusal::Silence)), answer(&request, 5));
    assert_eq!(first(&|injector| injector.lack(9, Table::Holding, 41, 41)), request.exception(2));
    assert_eq!(first(&|injector| injector.lack_nothing(9)), answer(&request, 5));
    assert_eq!(first(&|injector| injector.lack(9, Table::Holding, 42, 60)), answer(&request, 5));
}

#[test]
fn a_line_that_is_away_takes_no_connection_until_it_is_back() {
    let request = request(Framing::Tcp, 1);
    let mut injector = Injector::new(Framing::Tcp, TIMEOUT, 1);
    injector.limit_connections(Some(1));
    assert!(injector.admits(0, Duration::ZERO));
    assert!(!injector.admits(1, Duration::ZERO));
    let away = Rule { target: Target::Link, duration: Some(Duration::from_secs(2)), ..rule(FaultKind::Away, 1.0) };
    injector.set(away).unwrap();
    let actions = injector.decide(&request, &answer(&request, 5), Duration::from_secs(1));
    assert_eq!(actions, [Action::GoAway(Duration::from_secs(2))]);
    assert!(!injector.admits(0, Duration::from_millis(2_999)));
    assert!(injector.admits(0, Duration::from_secs(3)));
}

#[test]
fn an_answer_in_pieces_is_whole_before_the_time_out() {
    for seed in 0..200 {
        let request = request(Framing::Rtu, 0);
        let mut injector = always(Framing::Rtu, FaultKind::Split, seed);
        let actions = injector.decide(&request, &answer(&request, 5), Duration::ZERO);
        let [Action::Send { after, pieces }] = actions.as_slice() else { panic!("{actions:?}") };
        assert!(pieces.len() >= 2);
        let all: Duration = pieces.iter().map(|piece| piece.pause).sum();
        assert!(*after + all < TIMEOUT / 2, "{all:?}");
        assert_eq!(in_time(&actions), answer(&request, 5));
    }
}
