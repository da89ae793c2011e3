//! May this run now, and if not, when? Pure: time comes as an argument.

pub mod backoff;
pub mod breaker;
pub mod retry;
