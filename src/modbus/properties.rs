//! What must hold for all bytes, however they are cut.

use proptest::collection::vec;
use proptest::prelude::*;

use super::Table;
use super::exception::ExceptionCode;
use super::identify::IdentifyRequest;
use super::pdu::{ReadReply, ReadRequest, Received, ReplyError};
use super::rtu::{RtuExchange, crc};
use super::tcp::TcpExchange;
use super::words::{DataType, Encoding, WordOrder};
use crate::quantity::Value;

fn any_request() -> impl Strategy<Value = ReadRequest> {
    (0..4_usize, any::<u16>(), any::<u16>()).prop_map(|(table, address, count)| {
        let table = Table::ALL[table];
        let count = count % table.read_limit() + 1;
        ReadRequest::new(table, address.min(u16::MAX - count), count).expect("a request within the limits")
    })
}

/// The data of a good answer, or the code of an exception.
type Answer = Result<Vec<u8>, u8>;

fn any_exchange() -> impl Strategy<Value = (ReadRequest, Answer)> {
    any_request().prop_flat_map(|request| {
        let length = usize::from(request.data_bytes());
        let answer = prop_oneof![4 => vec(any::<u8>(), length).prop_map(Ok), 1 => any::<u8>().prop_map(Err)];
        (Just(request), answer)
    })
}

fn pdu_of(request: ReadRequest, answer: &Answer) -> Vec<u8> {
    match answer {
        Ok(data) => [&[request.function(), data.len() as u8], &data[..]].concat(),
        Err(code) => vec![request.function() | 0x80, *code],
    }
}

fn tcp_frame(transaction: u16, unit: u8, pdu: &[u8]) -> Vec<u8> {
    let length = pdu.len() as u16 + 1;
    [&transaction.to_be_bytes(), &[0, 0][..], &length.to_be_bytes(), &[unit], pdu].concat()
}

fn rtu_frame(unit: u8, pdu: &[u8]) -> Vec<u8> {
    let body = [&[unit], pdu].concat();
    [&body[..], &crc(&body).to_le_bytes()].concat()
}

/// Feeds the stream in pieces that end at the cuts, and collects whatever is not [`Received::NeedMore`].
fn feed(mut receive: impl FnMut(&[u8]) -> Received, stream: &[u8], cuts: &[prop::sample::Index]) -> Vec<Received> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).chain([stream.len()]).collect();
    ends.sort_unstable();
    let mut start = 0;
    let mut received = Vec::new();
    for end in ends {
        received.push(receive(&stream[start..end]));
        start = end;
    }
    received.retain(|outcome| *outcome != Received::NeedMore);
    received
}

fn check_answer(request: ReadRequest, answer: &Answer, received: &[Received]) -> Result<(), TestCaseError> {
    match (answer, received) {
        (Ok(data), [Received::Reply(Ok(reply))]) => {
            prop_assert_eq!(&reply.encode(request.table())[2..], &data[..]);
            for offset in 0..request.count() {
                let bit = || data[usize::from(offset) / 8] >> (offset % 8) & 1 == 1;
                let register =
                    || u16::from_be_bytes([data[2 * usize::from(offset)], data[2 * usize::from(offset) + 1]]);
                match reply {
                    ReadReply::Bits(_) => prop_assert_eq!(reply.bit(offset), Some(bit())),
                    ReadReply::Registers(_) => prop_assert_eq!(reply.registers(offset, 1), Some(&[register()][..])),
                    ReadReply::Identification(_) => prop_assert!(false, "nobody asked for that"),
                }
            }
        }
        (Err(code), [Received::Reply(Err(ReplyError::Exception(ExceptionCode(received))))]) => {
            prop_assert_eq!(code, received);
        }
        other => prop_assert!(false, "{other:?}"),
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_request_that_parses_gives_its_bytes_again(bytes in vec(any::<u8>(), 0..8)) {
        if let Some(request) = ReadRequest::parse(&bytes) {
            prop_assert_eq!(&request.encode()[..], &bytes[..]);
        }
    }

    #[test]
    fn every_request_goes_through_its_bytes(request in any_request()) {
        prop_assert_eq!(ReadRequest::parse(&request.encode()), Some(request));
    }

    #[test]
    fn a_reply_that_parses_gives_its_bytes_again(
        (request, answer) in any_exchange(),
        (damage, place) in any::<(u8, prop::sample::Index)>(),
    ) {
        let mut pdu = pdu_of(request, &answer);
        let place = place.index(pdu.len());
        pdu[place] ^= damage;
        if let Ok(reply) = request.decode_reply(&pdu) {
            prop_assert_eq!(&reply.encode(request.table())[..], &pdu[..]);
        }
    }

    #[test]
    fn no_bytes_make_a_reply_of_another_size(request in any_request(), pdu in vec(any::<u8>(), 0..260)) {
        if let Ok(reply) = request.decode_reply(&pdu) {
            prop_assert!(reply.registers(0, request.count()).is_some() || reply.bit(request.count() - 1).is_some());
        }
    }

    #[test]
    fn tcp_gives_the_current_answer_once_however_the_stream_is_cut(
        (request, answer) in any_exchange(),
        unit in any::<u8>(),
        stale in vec((any::<u16>(), any::<u8>(), vec(any::<u8>(), 2..254)), 0..4),
        after in vec((any::<u16>(), any::<u8>(), vec(any::<u8>(), 2..254)), 0..3),
        cuts in vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut exchange = TcpExchange::default();
        let sent = exchange.begin(unit, request);
        let current = u16::from_be_bytes([sent[0], sent[1]]);
        prop_assert_eq!(ReadRequest::parse(&sent[7..]), Some(request));
        let others = |frames: &[(u16, u8, Vec<u8>)]| -> Vec<u8> {
            let other = |transaction: u16| if transaction == current { 0 } else { transaction };
            frames.iter().flat_map(|(transaction, unit, pdu)| tcp_frame(other(*transaction), *unit, pdu)).collect()
        };
        let stream = [others(&stale), tcp_frame(current, unit, &pdu_of(request, &answer)), others(&after)].concat();
        let received = feed(|bytes| exchange.receive(bytes), &stream, &cuts);
        check_answer(request, &answer, &received)?;
        prop_assert_eq!(exchange.late_answers(), (stale.len() + after.len()) as u64);
        prop_assert!(!exchange.is_mid_frame());
    }

    #[test]
    fn tcp_says_the_same_byte_by_byte_as_at_once_or_believes_none_of_it(
        (request, answer) in any_exchange(),
        mut stream in vec(any::<u8>(), 0..40),
    ) {
        let exchange = || { let mut exchange = TcpExchange::default(); exchange.begin(9, request); exchange };
        let [high, low, ..] = TcpExchange::default().begin(9, request)[..] else { panic!("a frame") };
        stream.splice(0..0, tcp_frame(u16::from_be_bytes([high, low]), 9, &pdu_of(request, &answer)));
        let (mut whole, mut single) = (exchange(), exchange());
        let at_once = whole.receive(&stream);
        let said: Vec<Received> = stream.iter().map(|byte| single.receive(&[*byte])).collect();
        match at_once {
            Received::Broken => prop_assert_eq!(said.last(), Some(&Received::Broken)),
            at_once => prop_assert_eq!(Some(&at_once), said.iter().find(|outcome| **outcome != Received::NeedMore)),
        }
    }

    #[test]
    fn case_c18_an_answer_that_was_cut_is_never_filled_up_from_the_frame_behind_it(
        asked in vec(any_exchange(), 2..5),
        from in prop_oneof![Just(0_u16), Just(0x4711)],
        lost in any::<prop::sample::Index>(),
        order in any::<prop::sample::Index>(),
        (cuts, in_one_piece) in (vec(any::<prop::sample::Index>(), 0..8), any::<bool>()),
    ) {
        let mut exchange = TcpExchange::default();
        // Small ids are the hardest, because registers look like them.
        exchange.count_from(from);
        let frames: Vec<Vec<u8>> = asked
            .iter()
            .map(|(request, answer)| {
                let sent = exchange.begin(9, *request);
                tcp_frame(u16::from_be_bytes([sent[0], sent[1]]), 9, &pdu_of(*request, answer))
            })
            .collect();
        let (current, late) = frames.split_last().expect("frames");
        // Somewhere behind the prefix, which says how long it would have been.
        let cut_short = &current[..6 + lost.index(current.len() - 6)];
        let first = order.index(late.len());
        let behind = late[first..].iter().chain(&late[..first]).chain([current]);
        let received: Vec<Received> = if in_one_piece {
            vec![exchange.receive(&[cut_short, &behind.flatten().copied().collect::<Vec<u8>>()].concat())]
        } else {
            // Each frame begins a piece, as each is one write of the device, and is cut anywhere, even into bytes.
            let mut received = feed(|bytes| exchange.receive(bytes), cut_short, &cuts);
            behind.for_each(|frame| received.extend(feed(|bytes| exchange.receive(bytes), frame, &cuts)));
            received
        };
        let (request, answer) = asked.last().expect("frames");
        for outcome in received {
            if let Received::Reply(Ok(reply)) = outcome {
                prop_assert_eq!(&Ok(reply.encode(request.table())[2..].to_vec()), answer, "{:02X?}", frames);
            }
        }
    }

    #[test]
    fn an_answer_that_was_cut_is_never_filled_up_byte_by_byte(
        (request, answer) in any_exchange(),
        earlier in 1..4_usize,
        (lost, late) in any::<(prop::sample::Index, prop::sample::Index)>(),
    ) {
        let mut exchange = TcpExchange::default();
        exchange.count_from(0);
        for _ in 0..=earlier {
            exchange.begin(9, request);
        }
        let late = late.index(earlier) as u16 + 1;
        // The registers of the late answer differ from the current one's in every byte.
        let other = answer.clone().map(|data| data.iter().map(|byte| !byte).collect());
        let current = tcp_frame(earlier as u16 + 1, 9, &pdu_of(request, &answer));
        let cut_short = &current[..6 + lost.index(current.len() - 6)];
        for byte in [cut_short, &tcp_frame(late, 9, &pdu_of(request, &other))].concat() {
            let received = exchange.receive(&[byte]);
            prop_assert!(!matches!(received, Received::Reply(Ok(_))), "{received:?}");
        }
    }

    #[test]
    fn late_answers_before_and_behind_the_current_one_cost_nothing_though_they_are_owed(
        mut asked in vec(any_exchange(), 2..5),
        before in any::<prop::sample::Index>(),
        cuts in vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut exchange = TcpExchange::default();
        exchange.count_from(0x4711);
        let mut frames = Vec::new();
        for (request, answer) in &mut asked {
            // A register that looks like a header is worth a new connection, and is not what this is about.
            answer.iter_mut().flatten().filter(|byte| **byte == 0x47).for_each(|byte| *byte = 0);
            if *answer == Err(0x47) {
                *answer = Err(1);
            }
            let sent = exchange.begin(9, *request);
            frames.push(tcp_frame(u16::from_be_bytes([sent[0], sent[1]]), 9, &pdu_of(*request, answer)));
        }
        let current = frames.pop().expect("frames");
        let (request, answer) = asked.last().expect("frames");
        frames.insert(before.index(frames.len() + 1), current);
        let received = feed(|bytes| exchange.receive(bytes), &frames.concat(), &cuts);
        check_answer(*request, answer, &received)?;
        prop_assert_eq!(exchange.late_answers(), frames.len() as u64 - 1);
    }

    #[test]
    fn an_identification_is_found_on_a_line_however_it_is_cut(
        objects in vec((any::<u8>(), vec(any::<u8>(), 0..40)), 0..6),
        stray in vec(any::<u8>(), 0..6),
        cuts in vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut pdu = vec![0x2B, 0x0E, 1, 1, 0, 0, objects.len() as u8];
        objects.iter().for_each(|(id, text)| pdu.extend([&[*id, text.len() as u8], &text[..]].concat()));
        prop_assume!(stray.iter().all(|byte| *byte != 9));
        let mut exchange = RtuExchange::new(false);
        exchange.begin(9, IdentifyRequest::from_object(0));
        let stream = [stray, rtu_frame(9, &pdu)].concat();
        let received = feed(|bytes| exchange.receive(bytes), &stream, &cuts);
        let [Received::Reply(Ok(ReadReply::Identification(found)))] = &received[..] else {
            return Err(TestCaseError::fail(format!("{received:?}")));
        };
        let expected: Vec<(u8, &[u8])> = objects.iter().map(|(id, text)| (*id, &text[..])).collect();
        prop_assert_eq!(found.objects().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn tcp_takes_any_bytes(pieces in vec(vec(any::<u8>(), 0..600), 0..6), request in any_request()) {
        let mut exchange = TcpExchange::default();
        exchange.begin(1, request);
        let mut broken = false;
        for piece in &pieces {
            let received = exchange.receive(piece);
            prop_assert!(!broken || received == Received::Broken);
            broken |= received == Received::Broken;
        }
    }

    #[test]
    fn rtu_finds_the_answer_between_stray_bytes_however_the_stream_is_cut(
        (request, answer) in any_exchange(),
        unit in 1..=247_u8,
        before in vec(any::<u8>(), 0..40),
        after in vec(any::<u8>(), 0..10),
        echoed in any::<bool>(),
        cuts in vec(any::<prop::sample::Index>(), 0..8),
    ) {
        // Stray bytes that begin like an answer, but are longer than it, are the one thing that hides it.
        prop_assume!(!before.contains(&unit));
        let mut exchange = RtuExchange::new(echoed);
        let sent = exchange.begin(unit, request);
        let echo = if echoed { &sent[..] } else { &[] };
        let stream = [echo, &before, &rtu_frame(unit, &pdu_of(request, &answer)), &after].concat();
        let received = feed(|bytes| exchange.receive(bytes), &stream, &cuts);
        check_answer(request, &answer, &received)?;
        prop_assert_eq!(exchange.saw_noise(), !before.is_empty() || !after.is_empty());
    }

    #[test]
    fn rtu_says_the_same_byte_by_byte_as_at_once(
        (request, answer) in any_exchange(),
        before in vec(prop_oneof![Just(1_u8), Just(3), Just(0x83), any::<u8>()], 0..20),
        echo in any::<bool>(),
    ) {
        let (mut whole, mut single) = (RtuExchange::new(false), RtuExchange::new(false));
        let sent = whole.begin(1, request);
        single.begin(1, request);
        let echo = if echo { &sent[..] } else { &[] };
        let stream = [&before, echo, &rtu_frame(1, &pdu_of(request, &answer))].concat();
        let at_once = whole.receive(&stream);
        let first = stream.iter().map(|byte| single.receive(&[*byte])).find(|outcome| *outcome != Received::NeedMore);
        prop_assert_eq!(at_once, first.unwrap_or(Received::NeedMore));
    }

    #[test]
    fn rtu_takes_any_bytes_and_gives_only_what_has_a_crc(
        pieces in vec(vec(prop_oneof![Just(1_u8), Just(3), Just(2), any::<u8>()], 0..600), 0..4),
        local_echo in any::<bool>(),
    ) {
        let mut exchange = RtuExchange::new(local_echo);
        exchange.begin(1, ReadRequest::new(Table::Holding, 0, 1).expect("a request"));
        for piece in &pieces {
            let received = exchange.receive(piece);
            prop_assert!(received != Received::Broken);
            if let Received::Reply(Ok(reply)) = received {
                let frame = rtu_frame(1, &reply.encode(Table::Holding));
                let stream = pieces.concat();
                prop_assert!(stream.windows(frame.len()).any(|window| window == frame));
            }
        }
    }

    #[test]
    fn every_type_in_every_order_is_what_the_letters_of_the_order_say(bytes in any::<[u8; 8]>()) {
        for (order, letters) in [
            ("ABCD", "ABCDEFGH"), ("CDAB", "GHEFCDAB"), ("BADC", "BADCFEHG"), ("DCBA", "HGFEDCBA"),
        ] {
            let order = WordOrder::from_name(order).expect("an order");
            prop_assert_eq!(WordOrder::from_name(letters), Some(order));
            let wire = |letters: &str| -> Vec<u16> {
                let sent: Vec<u8> = letters.bytes().map(|letter| bytes[usize::from(letter - b'A')]).collect();
                sent.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect()
            };
            let decode = |data_type, letters| Encoding { data_type, order }.decode(&wire(letters)).ok();
            let short: [u8; 4] = bytes[..4].try_into().expect("four bytes");
            let integer = |number: i128| Some(Value::Integer(number));
            prop_assert_eq!(decode(DataType::U64, letters), integer(u64::from_be_bytes(bytes).into()));
            prop_assert_eq!(decode(DataType::I64, letters), integer(i64::from_be_bytes(bytes).into()));
            prop_assert_eq!(decode(DataType::U32, order.name()), integer(u32::from_be_bytes(short).into()));
            prop_assert_eq!(decode(DataType::I32, order.name()), integer(i32::from_be_bytes(short).into()));
            let number = |value: Option<Value>| value.and_then(|value| value.to_f64());
            let double = Some(f64::from_be_bytes(bytes)).filter(|number| number.is_finite());
            prop_assert_eq!(number(decode(DataType::F64, letters)), double);
            let single = Some(f32::from_be_bytes(short)).filter(|number| number.is_finite());
            prop_assert_eq!(number(decode(DataType::F32, order.name())).map(|number| number as f32), single);
        }
    }

    #[test]
    fn what_registers_hold_goes_back_into_the_same_registers(words in any::<[u16; 4]>(), text in "[ -~°äß]{0,20}") {
        for order in WordOrder::ALL {
            for name in DataType::NAMES {
                let data_type = DataType::from_name(name).expect("a type");
                let encoding = Encoding { data_type, order };
                let registers = &words[..usize::from(encoding.registers())];
                let Ok(value) = encoding.decode(registers) else { continue };
                let back = encoding.encode(&value).expect("what was decoded can be encoded");
                prop_assert_eq!(encoding.decode(&back), Ok(value.clone()));
                // A bit leaves out the others, a text its padding, and a single does not keep the sign of zero.
                let is_whole = !matches!(data_type, DataType::Bool { .. } | DataType::Text { .. });
                if is_whole && value.to_f64() != Some(0.0) {
                    prop_assert_eq!(&back[..], registers);
                }
            }
            for (registers, first, last) in [(1, 3, 9), (2, 9, 20), (4, 0, 63), (4, 31, 47)] {
                let encoding = Encoding { data_type: DataType::Bits { registers, first, last }, order };
                let value = encoding.decode(&words[..usize::from(registers)]).expect("any bits are a number");
                let back = encoding.encode(&value).expect("what was decoded can be encoded");
                prop_assert_eq!(encoding.decode(&back), Ok(value));
            }
            let encoding = Encoding { data_type: DataType::Text { registers: 20 }, order };
            let back = encoding.encode(&Value::Text(text.as_str().into()));
            let decoded = back.and_then(|registers| encoding.decode(&registers).ok());
            prop_assert_eq!(decoded, (text.len() <= 40).then(|| Value::Text(text.trim_end_matches(' ').into())));
        }
    }

    #[test]
    fn any_registers_of_any_type_are_taken(
        words in vec(any::<u16>(), 0..140),
        bit in any::<u8>(),
        registers in any::<u8>(),
        bits in any::<(u8, u8)>(),
    ) {
        for order in WordOrder::ALL {
            for data_type in [
                DataType::Bool { bit },
                DataType::Bits { registers, first: bits.0, last: bits.1 },
                DataType::Text { registers },
                DataType::Bcd16,
                DataType::Bcd32,
                DataType::F64,
                DataType::I16,
            ] {
                let encoding = Encoding { data_type, order };
                let decoded = encoding.decode(&words);
                prop_assert_eq!(decoded.is_ok() && words.len() != usize::from(encoding.registers()), false);
                encoding.holds(&words, super::words::NoValueCode(0));
            }
        }
    }
}
