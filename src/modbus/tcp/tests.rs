//! Frames as the field's devices and gateways send them, whole, cut and false.

use super::*;
use crate::modbus::Table;
use crate::modbus::exception::ExceptionCode;
use crate::modbus::pdu::{ReadReply, ReadRequest};

/// An exchange that has just sent the request with this transaction id.
fn awaiting(transaction: u16, unit: u8, count: u16) -> TcpExchange {
    let mut exchange = TcpExchange::default();
    exchange.count_from(transaction.wrapping_sub(1));
    exchange.begin(unit, holding(0, count));
    exchange
}

fn holding(address: u16, count: u16) -> ReadRequest {
    ReadRequest::new(Table::Holding, address, count).expect("a request")
}

fn registers(registers: &[u16]) -> Received {
    Received::Reply(Ok(ReadReply::Registers(heapless::Vec::from_slice(registers).expect("few registers"))))
}

fn bytes(hex: &str) -> Vec<u8> {
    hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("hex")).collect()
}

#[test]
fn case_c16_a_late_answer_is_dropped_and_counted_and_shifts_nothing() {
    let mut exchange = TcpExchange::default();
    exchange.count_from(0x0F);
    assert_eq!(exchange.begin(1, holding(0x64, 1)).as_slice(), bytes("00 10 00 00 00 06 01 03 00 64 00 01"));
    // The first request has timed out.
    assert_eq!(exchange.begin(1, holding(0xC8, 1)).as_slice(), bytes("00 11 00 00 00 06 01 03 00 C8 00 01"));
    assert_eq!(exchange.receive(&bytes("00 10 00 00 00 05 01 03 02 00 64")), Received::NeedMore);
    assert_eq!(exchange.receive(&bytes("00 11 00 00 00 05 01 03 02 00 C8")), registers(&[200]));
    assert_eq!(exchange.late_answers(), 1);
    for poll in 0x12..0x20 {
        exchange.begin(1, holding(0x64, 1));
        assert_eq!(exchange.receive(&[0, poll, 0, 0, 0, 5, 1, 3, 2, 0, poll]), registers(&[u16::from(poll)]));
    }
    assert_eq!(exchange.late_answers(), 1);
}

#[test]
fn case_c18_a_stale_frame_directly_before_the_current_one_is_dropped_however_they_are_cut() {
    let stream = bytes(
        "00 0F 00 00 00 13 32 03 10 11 00 11 01 11 02 11 03 11 04 11 05 11 06 11 07 \
         00 10 00 00 00 0B 32 03 08 22 00 22 01 22 02 22 03",
    );
    let current = registers(&[0x2200, 0x2201, 0x2202, 0x2203]);

    let mut exchange = awaiting(0x10, 0x32, 4);
    assert_eq!(exchange.receive(&stream), current);
    assert_eq!(exchange.late_answers(), 1);

    let mut exchange = awaiting(0x10, 0x32, 4);
    let (last, before) = stream.split_last().expect("bytes");
    for byte in before {
        assert_eq!(exchange.receive(&[*byte]), Received::NeedMore);
    }
    assert_eq!(exchange.receive(&[*last]), current);

    for cut in 1..stream.len() {
        let mut exchange = awaiting(0x10, 0x32, 4);
        assert_eq!(exchange.receive(&stream[..cut]), Received::NeedMore);
        assert_eq!(exchange.receive(&stream[cut..]), current);
    }
}

#[test]
fn case_c19_a_length_that_cannot_be_true_breaks_the_connection_at_once() {
    let mut exchange = awaiting(5, 1, 1);
    assert_eq!(exchange.receive(&bytes("00 05 00 00 03 E8")), Received::Broken);
    assert_eq!(exchange.receive(&bytes("01 03 02 00 FA")), Received::Broken, "and it stays broken");
    exchange.reconnected();
    exchange.begin(1, holding(0, 1));
    assert_eq!(exchange.receive(&bytes("00 06 00 00 00 05 01 03 02 00 FB")), registers(&[251]));
}

#[test]
fn case_c19_a_length_that_is_legal_but_false_shows_as_a_frame_that_never_ends() {
    let mut exchange = awaiting(5, 1, 1);
    assert_eq!(exchange.receive(&bytes("00 05 00 00 00 47 01 03 02 00 FA")), Received::NeedMore);
    assert!(exchange.is_mid_frame());
    exchange.reconnected();
    assert!(!exchange.is_mid_frame());
    exchange.begin(1, holding(0, 1));
    assert_eq!(exchange.receive(&bytes("00 06 00 00 00 05 01 03 02 00 FB")), registers(&[251]));
}

#[test]
fn the_length_field_may_be_3_to_254_and_the_protocol_only_0() {
    for length in 0..=u16::MAX {
        let [high, low] = length.to_be_bytes();
        let received = awaiting(1, 1, 1).receive(&[0, 9, 0, 0, high, low]);
        assert_eq!(received == Received::Broken, !(3..=254).contains(&length), "length {length}");
    }
    assert_eq!(awaiting(1, 1, 1).receive(&[0, 1, 0, 1, 0, 5]), Received::Broken);
}

#[test]
fn case_c31_a_gateways_exceptions_are_answers_and_leave_the_connection_whole() {
    for (code, byte) in [(ExceptionCode::GATEWAY_TARGET_SILENT, "0B"), (ExceptionCode::GATEWAY_PATH_UNAVAILABLE, "0A")]
    {
        let mut exchange = awaiting(0x21, 3, 2);
        let received = exchange.receive(&bytes(&format!("00 21 00 00 00 03 03 83 {byte}")));
        assert_eq!(received, Received::Reply(Err(ReplyError::Exception(code))));
        exchange.begin(1, holding(0, 1));
        assert_eq!(exchange.receive(&bytes("00 22 00 00 00 05 01 03 02 00 07")), registers(&[7]));
    }
}

#[test]
fn data_comes_only_from_the_unit_that_was_asked() {
    let check = |asked, answered, fits| {
        let received = awaiting(1, asked, 1).receive(&[0, 1, 0, 0, 0, 5, answered, 3, 2, 0, 7]);
        let expected = if fits { registers(&[7]) } else { Received::Reply(Err(ReplyError::Malformed)) };
        assert_eq!(received, expected, "unit {asked} was asked, unit {answered} answered");
    };
    check(1, 1, true);
    check(1, 2, false);
    check(1, 0, false);
    check(1, 255, false);
    check(0, 255, true);
    check(255, 0, true);
    check(255, 1, false);
}

#[test]
fn a_gateway_may_refuse_in_its_own_name() {
    let refused = Received::Reply(Err(ReplyError::Exception(ExceptionCode::GATEWAY_TARGET_SILENT)));
    assert_eq!(awaiting(1, 3, 1).receive(&[0, 1, 0, 0, 0, 3, 255, 0x83, 11]), refused);
    assert_eq!(awaiting(1, 3, 1).receive(&[0, 1, 0, 0, 0, 3, 0, 0x83, 11]), refused);
    let other = awaiting(1, 3, 1).receive(&[0, 1, 0, 0, 0, 3, 4, 0x83, 11]);
    assert_eq!(other, Received::Reply(Err(ReplyError::Malformed)));
}

#[test]
fn an_answer_that_does_not_fit_is_malformed_and_the_next_one_is_found() {
    let mut exchange = awaiting(1, 1, 1);
    let malformed = Received::Reply(Err(ReplyError::Malformed));
    assert_eq!(exchange.receive(&bytes("00 01 00 00 00 07 01 03 04 00 01 00 02")), malformed);
    exchange.begin(1, holding(0, 1));
    assert_eq!(exchange.receive(&bytes("00 02 00 00 00 05 01 03 02 00 07")), registers(&[7]));
}

#[test]
fn a_length_that_the_count_inside_contradicts_breaks_the_connection() {
    let check = |frame| assert_eq!(awaiting(1, 1, 1).receive(&bytes(frame)), Received::Broken, "{frame}");
    check("00 01 00 00 00 03 01 03 02 00 FA");
    check("00 01 00 00 00 04 01 03 02 00 FA");
    check("00 01 00 00 00 06 01 03 02 00 FA 00");
    check("00 01 00 00 00 05 01 03 04 00 FA 00 FB");
    check("00 01 00 00 00 04 01 83 02 00");
}

#[test]
fn a_second_answer_in_the_same_bytes_is_dropped_and_what_follows_is_kept() {
    let mut exchange = awaiting(1, 1, 1);
    let twice_and_a_half = bytes(
        "00 01 00 00 00 05 01 03 02 00 07 \
         00 01 00 00 00 05 01 03 02 00 08 \
         00 02 00 00 00 05 01",
    );
    assert_eq!(exchange.receive(&twice_and_a_half), registers(&[7]));
    assert_eq!(exchange.late_answers(), 1);
    exchange.begin(1, holding(0, 1));
    assert_eq!(exchange.receive(&bytes("03 02 00 09")), registers(&[9]));
}

#[test]
fn case_c18_an_answer_with_no_frame_behind_it_is_not_believed() {
    let mut exchange = awaiting(1, 1, 1);
    let received = exchange.receive(&bytes("00 01 00 00 00 05 01 03 02 00 07 00 02 00 07 00 00"));
    assert_eq!(received, Received::Broken);
    // Cut by one byte, and followed by the late answer to the request before.
    let mut exchange = awaiting(0x10, 1, 2);
    let stream = bytes("00 10 00 00 00 07 01 03 04 00 07 00 00 0F 00 00 00 07 01 03 04 00 01 00 02");
    assert_eq!(exchange.receive(&stream), Received::Broken);
}

#[test]
fn case_c18_three_bytes_behind_an_answer_that_begin_no_frame_are_enough_to_doubt_it() {
    for (behind, believed) in [("00 02", true), ("00 02 00", true), ("00 02 01", false), ("00 02 00 00 01", false)] {
        let received = awaiting(1, 1, 1).receive(&bytes(&format!("00 01 00 00 00 05 01 03 02 00 07 {behind}")));
        assert_eq!(received, if believed { registers(&[7]) } else { Received::Broken }, "{behind}");
    }
}

#[test]
fn registers_that_look_like_a_late_answer_cost_one_connection_and_are_believed_once_it_has_come() {
    let looks_late = |transaction: u8| [0x47, transaction, 0, 0, 0, 5, 1, 3, 2, 0x47, 0x10];
    let mut exchange = awaiting(0x4710, 1, 1);
    exchange.begin(1, holding(0, 1));
    assert_eq!(exchange.receive(&looks_late(0x11)), Received::Broken);
    exchange.reconnected();
    exchange.begin(1, holding(0, 1));
    assert_eq!(exchange.receive(&looks_late(0x12)), registers(&[0x4710]));

    let mut exchange = awaiting(0x4710, 1, 1);
    exchange.begin(1, holding(0, 1));
    assert_eq!(exchange.receive(&looks_late(0x10)), Received::NeedMore);
    assert_eq!(exchange.receive(&looks_late(0x11)), registers(&[0x4710]));
}

#[test]
fn transaction_ids_go_round_and_are_none_that_registers_often_hold() {
    let mut exchange = TcpExchange::default();
    let ids: Vec<u16> = (0..0x7000)
        .map(|_| exchange.begin(1, holding(0, 1)))
        .map(|frame| u16::from_be_bytes([frame[0], frame[1]]))
        .collect();
    assert_eq!(ids.first(), ids.last(), "they go round");
    assert_eq!(ids.iter().collect::<std::collections::HashSet<_>>().len(), ids.len() - 1);
    assert!(ids.iter().all(|id| (0x8001..=0xEFFF).contains(id)));
}
