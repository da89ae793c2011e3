//! The nearest ids to a mistyped one.

/// The known names nearest to `wanted`, best first, at most `limit`; none that is too far to be meant.
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>, limit: usize) -> Vec<&'a str> {
    let _ = (wanted, known, limit);
    Vec::new()
}
