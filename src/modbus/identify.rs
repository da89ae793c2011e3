//! Read Device Identification: function 43 with MEI type 14 (V1.1b3, section 6.21), at the basic level.
//!
//! A device answers with as many objects as fit, and says with which one to go on. Many devices do not know the function,
//! and answer with exception 1.

use super::cursor::Cursor;

/// The function, which other protocols are wrapped in as well.
pub(super) const FUNCTION: u8 = 0x2B;

/// The type of what is wrapped.
const MEI_TYPE: u8 = 0x0E;

/// Basic identification, which every device has that knows the function: vendor, product code, revision.
const BASIC: u8 = 1;

/// The longest PDU (V1.1b3, section 4.1).
pub(super) const PDU_MAX: usize = 253;

/// Function, type, code, conformity, more, next object, number of objects.
const HEADER_BYTES: usize = 7;

/// A request for the objects of the basic identification from one on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdentifyRequest {
    first: u8,
}

impl IdentifyRequest {
    /// Asks for the objects from this one on; from 0 for all.
    pub fn from_object(first: u8) -> IdentifyRequest {
        IdentifyRequest { first }
    }

    /// The request as bytes.
    pub fn encode(&self) -> [u8; 4] {
        [FUNCTION, MEI_TYPE, BASIC, self.first]
    }

    /// How long the answer is that begins like this; `None` while that cannot be said. `Err` if no answer begins so.
    pub(super) fn answer_length(&self, pdu: &[u8]) -> Result<Option<usize>, NoAnswer> {
        let begins = [FUNCTION, MEI_TYPE, BASIC];
        if pdu.iter().zip(begins).any(|(found, expected)| *found != expected) {
            return Err(NoAnswer);
        }
        let Some(objects) = pdu.get(HEADER_BYTES - 1) else { return Ok(None) };
        let mut length = HEADER_BYTES;
        for _ in 0..*objects {
            let Some(bytes) = pdu.get(length + 1) else { return Ok(None) };
            length += 2 + usize::from(*bytes);
            if length > PDU_MAX {
                return Err(NoAnswer);
            }
        }
        Ok(Some(length))
    }

    /// What the bytes after the function say as the answer.
    pub(super) fn decode_data(&self, mut bytes: Cursor<'_>) -> Option<Identification> {
        let (mei_type, code) = (bytes.byte()?, bytes.byte()?);
        let (_conformity, more, next, objects) = (bytes.byte()?, bytes.byte()?, bytes.byte()?, bytes.byte()?);
        if mei_type != MEI_TYPE || code != BASIC {
            return None;
        }
        let rest = heapless::Vec::from_slice(bytes.rest()).ok()?;
        let identification = Identification { rest, next: (more != 0).then_some(next) };
        let (count, length) =
            identification.objects().fold((0, 0), |(count, length), (_, text)| (count + 1, length + 2 + text.len()));
        (count == objects && length == identification.rest.len()).then_some(identification)
    }
}

/// No answer to the request begins so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoAnswer;

/// Some objects of a device's identification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identification {
    rest: heapless::Vec<u8, PDU_MAX>,
    next: Option<u8>,
}

impl Identification {
    /// The objects, each with its id: 0 vendor, 1 product code, 2 revision.
    pub fn objects(&self) -> impl Iterator<Item = (u8, &[u8])> {
        let mut rest = &self.rest[..];
        std::iter::from_fn(move || {
            let [id, length, after @ ..] = rest else { return None };
            let (text, after) = after.split_at_checked(usize::from(*length))?;
            rest = after;
            Some((*id, text))
        })
    }

    /// The object to go on with, if there are more.
    pub fn next(&self) -> Option<u8> {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modbus::exception::ExceptionCode;
    use crate::modbus::pdu::{ReadReply, ReplyError, Request};

    const VENDOR: &[u8] = b"Company identification";
    const PRODUCT: &[u8] = b"Product code XX";
    const REVISION: &[u8] = b"V2.11";

    fn request(first: u8) -> Request {
        IdentifyRequest::from_object(first).into()
    }

    fn pdu(more: u8, next: u8, objects: &[(u8, &[u8])]) -> Vec<u8> {
        let mut pdu = vec![0x2B, 0x0E, 1, 1, more, next, objects.len() as u8];
        for (id, text) in objects {
            pdu.extend([*id, text.len() as u8]);
            pdu.extend_from_slice(text);
        }
        pdu
    }

    fn decode(pdu: &[u8]) -> Result<Identification, ReplyError> {
        request(0).decode_reply(pdu).map(|reply| match reply {
            ReadReply::Identification(identification) => identification,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn the_example_of_the_standard_is_read_as_it_says() {
        // V1.1b3, section 6.21: one answer, and the same in two.
        assert_eq!(request(0).encode().as_slice(), [0x2B, 0x0E, 0x01, 0x00]);
        let all = [(0, VENDOR), (1, PRODUCT), (2, REVISION)];
        let whole = decode(&pdu(0, 0, &all)).expect("an identification");
        assert_eq!((whole.objects().collect::<Vec<_>>(), whole.next()), (all.to_vec(), None));
        let first = decode(&pdu(0xFF, 2, &all[..2])).expect("an identification");
        assert_eq!((first.objects().count(), first.next()), (2, Some(2)));
        assert_eq!(request(2).encode().as_slice(), [0x2B, 0x0E, 0x01, 0x02]);
        assert_eq!(decode(&[0xAB, 1]), Err(ReplyError::Exception(ExceptionCode::ILLEGAL_FUNCTION)));
    }

    #[test]
    fn an_answer_of_another_length_or_kind_is_malformed() {
        let whole = pdu(0, 0, &[(0, VENDOR), (1, PRODUCT)]);
        for length in 0..whole.len() {
            assert_eq!(decode(&whole[..length]), Err(ReplyError::Malformed), "{length} bytes of it");
        }
        assert_eq!(decode(&[&whole[..], &[0]].concat()), Err(ReplyError::Malformed), "a byte too many");
        for (place, byte) in [(1, 0x0D), (2, 2), (6, 1), (6, 3), (8, 0xFF)] {
            let mut other = whole.clone();
            other[place] = byte;
            assert_eq!(decode(&other), Err(ReplyError::Malformed), "byte {place} is {byte}");
        }
    }

    #[test]
    fn the_length_of_an_answer_is_known_as_soon_as_its_last_object_begins() {
        let whole = pdu(0, 0, &[(0, VENDOR), (1, PRODUCT)]);
        let request = IdentifyRequest::from_object(0);
        let known_from = whole.len() - PRODUCT.len();
        for length in 0..=whole.len() {
            let expected = (length >= known_from).then_some(whole.len());
            assert_eq!(request.answer_length(&whole[..length]), Ok(expected), "{length} bytes of it");
        }
        assert_eq!(request.answer_length(&[0x2B, 0x0D]), Err(NoAnswer));
        assert_eq!(request.answer_length(&[0x2B, 0x0E, 1, 1, 0, 0, 2, 0, 0xFF]), Err(NoAnswer), "no PDU is so long");
    }
}
