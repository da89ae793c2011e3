//! Any bytes, in any pieces, to one serial line; some pieces are true frames, because no fuzzer guesses a CRC.

use fieldgate::modbus::Table;
use fieldgate::modbus::pdu::{ReadRequest, Received};
use fieldgate::modbus::rtu::{RtuExchange, crc};

/// Which table, address, count and unit are asked for, whether the line echoes, and the pieces. With `Some` a CRC follows, and
/// with `Some(true)` the bytes become the data of an answer.
pub type Input = (u8, u16, u16, u8, bool, Vec<(Option<bool>, Vec<u8>)>);

/// Panics if a promise is broken.
pub fn check(input: Input) {
    let (table, address, count, unit, local_echo, pieces) = input;
    let table = Table::ALL[usize::from(table % 4)];
    let Ok(request) = ReadRequest::new(table, address, 1 + count % table.read_limit()) else {
        return;
    };
    let pieces: Vec<Vec<u8>> = pieces
        .into_iter()
        .map(|(framed, mut bytes)| match framed {
            None => bytes,
            Some(false) => with_crc(&bytes),
            Some(true) => {
                bytes.resize(usize::from(request.data_bytes()), 0);
                with_crc(&[&[unit, request.function(), request.data_bytes()][..], &bytes].concat())
            }
        })
        .collect();
    let stream = pieces.concat();
    let exchange = || {
        let mut exchange = RtuExchange::new(local_echo);
        exchange.begin(unit, request);
        exchange
    };
    let in_pieces = first_outcome(exchange(), pieces.iter().map(Vec::as_slice));
    let in_bytes = first_outcome(exchange(), stream.chunks(1));
    assert_eq!(in_pieces, in_bytes);
    match in_pieces {
        None => {}
        Some(Received::Reply(Ok(reply))) => {
            let frame = with_crc(&[&[unit], &reply.encode(table)[..]].concat());
            assert!(stream.windows(frame.len()).any(|window| window == frame));
        }
        Some(Received::Reply(Err(_))) => assert!(stream.len() >= 5),
        Some(other) => panic!("{other:?}"),
    }
}

fn with_crc(body: &[u8]) -> Vec<u8> {
    [body, &crc(body).to_le_bytes()].concat()
}

fn first_outcome<'a>(mut exchange: RtuExchange, pieces: impl Iterator<Item = &'a [u8]>) -> Option<Received> {
    let mut first = None;
    for piece in pieces {
        let received = exchange.receive(piece);
        if received != Received::NeedMore {
            first.get_or_insert(received);
        }
    }
    first
}
