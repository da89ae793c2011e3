//! The time: a moment by both clocks, its text, and whether the wall clock can be believed.

use std::time::{Instant, SystemTime};

use time::OffsetDateTime;

use crate::registry::reading::Stamp;

/// Now, by both clocks. The monotonic one is tokio's, so that a test can stop it.
pub fn now() -> Stamp {
    Stamp { instant: instant(), wall: SystemTime::now() }
}

/// Now, by the monotonic clock alone.
pub fn instant() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// RFC 3339 in UTC with milliseconds: `2026-11-30T09:15:02.381Z`.
pub fn rfc3339(wall: SystemTime) -> String {
    Rfc3339::of(wall).as_str().to_owned()
}

/// A moment as RFC 3339 in UTC with milliseconds, without an allocation: every reading carries one or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rfc3339([u8; 24]);

impl Rfc3339 {
    /// What is said of moments that have no four-digit year.
    const BEYOND: Rfc3339 = Rfc3339(*b"9999-12-31T23:59:59.999Z");

    /// The text of a moment.
    pub fn of(wall: SystemTime) -> Rfc3339 {
        let moment = OffsetDateTime::from(wall);
        let (year, month, day) = moment.to_calendar_date();
        let Some(year) = u16::try_from(year).ok().filter(|year| *year <= 9999) else { return Rfc3339::BEYOND };
        let (hour, minute, second, millisecond) = moment.to_hms_milli();
        let mut text = *b"0000-00-00T00:00:00.000Z";
        put_digits(&mut text[..4], year);
        put_digits(&mut text[5..7], u8::from(month).into());
        put_digits(&mut text[8..10], day.into());
        put_digits(&mut text[11..13], hour.into());
        put_digits(&mut text[14..16], minute.into());
        put_digits(&mut text[17..19], second.into());
        put_digits(&mut text[20..23], millisecond);
        Rfc3339(text)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        // Only digits were put into a text of ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl serde::Serialize for Rfc3339 {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Writes a number into places that hold all of its digits.
fn put_digits(places: &mut [u8], number: u16) {
    let mut rest = number;
    for place in places.iter_mut().rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

/// The wall time of a monotonic moment, reckoned from now. For moments to come, such as a next try.
pub fn wall_of(moment: Instant, now: Stamp) -> SystemTime {
    match moment.checked_duration_since(now.instant) {
        Some(ahead) => now.wall + ahead,
        None => now.wall - now.instant.saturating_duration_since(moment),
    }
}

/// Whether the kernel says that its clock follows a time source.
#[allow(unsafe_code)]
pub fn is_synchronised() -> bool {
    // SAFETY: `timex` is a plain C struct for which all zeroes is valid, and `modes` = 0 makes the call a pure read.
    let state = unsafe {
        let mut timex: libc::timex = std::mem::zeroed();
        libc::adjtimex(&mut timex)
    };
    state >= 0 && state != libc::TIME_ERROR
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_are_utc_with_milliseconds() {
        let wall = SystemTime::UNIX_EPOCH + Duration::from_millis(1_796_030_102_381);
        assert_eq!(rfc3339(wall), "2026-11-30T09:15:02.381Z");
        assert_eq!(rfc3339(SystemTime::UNIX_EPOCH), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(SystemTime::UNIX_EPOCH - Duration::from_millis(1)), "1969-12-31T23:59:59.999Z");
        assert_eq!(rfc3339(SystemTime::UNIX_EPOCH + Duration::from_secs(951_782_399)), "2000-02-28T23:59:59.000Z");
        assert_eq!(rfc3339(SystemTime::UNIX_EPOCH + Duration::from_secs(951_782_400)), "2000-02-29T00:00:00.000Z");
    }
}
