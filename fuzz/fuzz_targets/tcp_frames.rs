//! Any bytes, in any pieces, to one TCP connection.
#![no_main]

use fieldgate::modbus::Table;
use fieldgate::modbus::pdu::{ReadRequest, Received};
use fieldgate::modbus::tcp::TcpExchange;
use libfuzzer_sys::fuzz_target;

/// Which table, address, count and unit are asked for, and the pieces in which bytes come.
type Input = (u8, u16, u16, u8, Vec<Vec<u8>>);

fuzz_target!(|input: Input| {
    let (table, address, count, unit, pieces) = input;
    let Ok(request) = ReadRequest::new(Table::ALL[usize::from(table % 4)], address, count % 2001) else {
        return;
    };
    let in_pieces = first_outcome(unit, request, pieces.iter().map(Vec::as_slice));
    let in_bytes = first_outcome(unit, request, pieces.concat().chunks(1));
    // What comes at once behind an answer may make it doubtful.
    assert!(in_pieces == in_bytes || in_pieces == Some(Received::Broken));
});

fn first_outcome<'a>(unit: u8, request: ReadRequest, pieces: impl Iterator<Item = &'a [u8]>) -> Option<Received> {
    let mut exchange = TcpExchange::default();
    exchange.begin(unit, request);
    let mut first = None;
    let mut broken = false;
    for piece in pieces {
        let received = exchange.receive(piece);
        assert!(!broken || received == Received::Broken);
        broken |= received == Received::Broken;
        if let Received::Reply(Ok(reply)) = &received {
            let fits = reply.registers(0, request.count()).is_some() || reply.bit(request.count() - 1).is_some();
            assert!(fits);
        }
        if received != Received::NeedMore {
            first.get_or_insert(received);
        }
    }
    first
}
