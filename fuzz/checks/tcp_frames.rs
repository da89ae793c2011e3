//! Any bytes, in any pieces, to one TCP connection on which requests were given up; some pieces are true frames, perhaps cut.

use fieldgate::modbus::Table;
use fieldgate::modbus::pdu::{ReadRequest, Received};
use fieldgate::modbus::tcp::TcpExchange;

/// Which table, address, count and unit are asked for, how many such requests were given up, and the pieces in which bytes
/// come. A piece that names one of the requests becomes the data of an answer to it, mostly one of the right size.
pub type Input = (u8, u16, u16, u8, u8, Vec<(Option<u8>, Vec<u8>)>);

/// Panics if a promise is broken.
pub fn check(input: Input) {
    let (table, address, count, unit, given_up, pieces) = input;
    let table = Table::ALL[usize::from(table % 4)];
    let Ok(request) = ReadRequest::new(table, address, 1 + count % table.read_limit()) else {
        return;
    };
    let begin = || {
        let mut exchange = TcpExchange::default();
        let sent: Vec<_> = (0..=given_up % 20).map(|_| exchange.begin(unit, request)).collect();
        (exchange, sent)
    };
    let (exchange, sent) = begin();
    let pieces: Vec<Vec<u8>> = pieces
        .into_iter()
        .map(|(answers, mut bytes)| match answers {
            None => bytes,
            Some(place) => {
                if place >= 64 {
                    bytes.resize(usize::from(request.data_bytes()), 0);
                }
                let header = &sent[usize::from(place) % sent.len()];
                let body = [&[unit, request.function(), bytes.len() as u8][..], &bytes].concat();
                [&header[..5], &[body.len() as u8], &body].concat()
            }
        })
        .collect();
    let in_pieces = first_outcome(exchange, request, pieces.iter().map(Vec::as_slice));
    let in_bytes = first_outcome(begin().0, request, pieces.concat().chunks(1));
    // What comes at once behind an answer may make it doubtful, and so may a last byte that comes alone.
    let is_doubt = |outcome: &Option<Received>| *outcome == Some(Received::Broken);
    assert!(in_pieces == in_bytes || is_doubt(&in_pieces) || is_doubt(&in_bytes));
}

fn first_outcome<'a>(
    mut exchange: TcpExchange,
    request: ReadRequest,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> Option<Received> {
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
