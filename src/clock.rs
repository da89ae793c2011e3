//! The time: a moment by both clocks, its text, and whether the wall clock can be believed.

use std::time::{Instant, SystemTime};

use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

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
    const FORMAT: &[BorrowedFormatItem<'_>] =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    OffsetDateTime::from(wall).format(FORMAT).unwrap_or_else(|_| "9999-12-31T23:59:59.999Z".to_owned())
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
    }
}
