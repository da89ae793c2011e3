//! Whether an answer over TCP may have taken its end from another frame.
//!
//! A gateway that cuts an answer short leaves a header that counts more bytes than come. The next frame's bytes fill it up,
//! and what results has the right transaction, the right length and wrong registers. No length and no count tells it; only
//! these do: what is left of the other header inside the answer, and what is left of the other frame behind it. This module
//! looks inside. What stands behind an answer is looked at by [`super::tcp`].
//!
//! A doubt costs a new connection, and with it the memory of what was owed. So no register that looks like a header
//! by chance is refused for ever.

/// Transaction, protocol and the high byte of the length, all of which are known of a frame that is owed.
const KNOWN_BYTES: usize = 5;

/// The requests of a connection that were given up and whose answers may still come.
///
/// Full is no fault: the oldest is forgotten, because it is the least likely to be answered.
#[derive(Debug, Default)]
pub(super) struct Owed {
    transactions: heapless::Vec<u16, 16>,
}

impl Owed {
    /// A request was given up.
    pub fn abandon(&mut self, transaction: u16) {
        if self.transactions.is_full() {
            self.transactions.remove(0);
        }
        // There is room, as one was just removed if there was none.
        let _ = self.transactions.push(transaction);
    }

    /// An answer came that nobody waits for any more.
    pub fn came(&mut self, transaction: u16) {
        self.transactions.retain(|owed| *owed != transaction);
    }

    /// The connection that owed them is gone.
    pub fn forget(&mut self) {
        self.transactions.clear();
    }

    /// Whether the body of the answer to `current`, all that its length counts, may hold another frame or the beginning of
    /// one.
    ///
    /// `came_last` is how many of the answer's bytes came in the last piece. The fewer bytes of a header there can be, the
    /// more often registers look like them. So what is owed is known by two bytes, or by one that came alone; what the
    /// current request itself might get twice, by three; and what nobody knows of, such as an answer with a wrong
    /// transaction id, by its whole header, and only while an answer is missing.
    pub fn may_be_inside(&self, body: &[u8], current: u16, came_last: usize) -> bool {
        let owed_from = if came_last == 1 { 1 } else { 2 };
        let mut rest = body;
        while let Some((_, next)) = rest.split_first() {
            let is_owed = |transaction: &u16| rest.len() >= owed_from && may_be_header_of(*transaction, rest);
            if self.transactions.iter().any(is_owed)
                || rest.len() >= 3 && may_be_header_of(current, rest)
                || !self.transactions.is_empty() && is_answer_to_a_read(rest)
            {
                return true;
            }
            rest = next;
        }
        false
    }
}

/// Whether the bytes, as many as there are, begin like a frame of this transaction.
fn may_be_header_of(transaction: u16, bytes: &[u8]) -> bool {
    let [transaction_high, transaction_low] = transaction.to_be_bytes();
    let header = [transaction_high, transaction_low, 0, 0, 0];
    match bytes.split_at_checked(KNOWN_BYTES) {
        None => header.starts_with(bytes),
        Some((known, rest)) => known == header && rest.first().is_none_or(|length| (3..=254).contains(length)),
    }
}

/// Whether the bytes begin like an answer to a read, whatever its transaction: header, function and count agree.
fn is_answer_to_a_read(bytes: &[u8]) -> bool {
    match bytes.first_chunk() {
        Some([_, _, 0, 0, 0, length, _unit, 1..=4, count]) => length.checked_sub(3) == Some(*count) && *count > 0,
        Some([_, _, 0, 0, 0, length, _unit, 0x81..=0x84, _code]) => *length == 3,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(owed: &[u16], body: &[u8], came_last: usize, doubtful: bool) {
        let mut memory = Owed::default();
        owed.iter().for_each(|transaction| memory.abandon(*transaction));
        assert_eq!(memory.may_be_inside(body, 0x1234, came_last), doubtful, "{owed:?} {body:02X?}");
    }

    #[test]
    fn a_frame_that_is_owed_is_known_by_two_bytes_at_the_end_or_by_all_of_its_header() {
        check(&[0x0105], &[1, 3, 2, 1, 5], 5, true);
        check(&[0x0105], &[1, 3, 4, 7, 1, 5, 0], 7, true);
        check(&[0x0105], &[1, 3, 10, 1, 5, 0, 0, 0, 5, 1, 3, 2, 0], 13, true);
        check(&[0x0105], &[1, 3, 10, 1, 5, 0, 0, 0, 2, 1, 3, 2, 0], 13, false);
        check(&[0x0105], &[1, 3, 4, 1, 5, 7, 7], 7, false);
        check(&[0x0106], &[1, 3, 2, 1, 5], 5, false);
        check(&[], &[1, 3, 2, 1, 5], 5, false);
    }

    #[test]
    fn one_byte_is_enough_only_if_it_came_alone() {
        check(&[0x0105], &[1, 3, 2, 7, 1], 1, true);
        check(&[0x0105], &[1, 3, 2, 7, 1], 2, false);
        check(&[0x0105], &[1, 3, 2, 7, 2], 1, false);
    }

    #[test]
    fn a_second_answer_to_the_same_request_is_known_by_three_bytes() {
        check(&[], &[1, 3, 4, 7, 0x12, 0x34, 0], 7, true);
        check(&[], &[1, 3, 4, 7, 7, 0x12, 0x34], 7, false);
    }

    #[test]
    fn a_frame_that_nobody_knows_of_is_known_while_an_answer_is_missing() {
        let data = [1, 3, 10, 0x77, 0x77, 0, 0, 0, 5, 1, 3, 2, 0];
        let exception = [1, 3, 10, 7, 0x77, 0x77, 0, 0, 0, 3, 1, 0x83, 2];
        check(&[1], &data, 13, true);
        check(&[1], &exception, 13, true);
        check(&[], &data, 13, false);
        check(&[1], &[1, 3, 10, 0x77, 0x77, 0, 0, 0, 5, 1, 3, 4, 0], 13, false);
    }

    #[test]
    fn what_came_is_not_owed_any_more_and_the_oldest_is_forgotten_first() {
        let mut owed = Owed::default();
        (1..=17).for_each(|transaction| owed.abandon(transaction << 8 | 0x77));
        assert!(!owed.may_be_inside(&[1, 0x77], 0, 2));
        assert!(owed.may_be_inside(&[2, 0x77], 0, 2));
        owed.came(0x0277);
        assert!(!owed.may_be_inside(&[2, 0x77], 0, 2));
        owed.forget();
        assert!(!owed.may_be_inside(&[17, 0x77], 0, 2));
    }
}
