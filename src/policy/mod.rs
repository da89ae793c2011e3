//! May this run now, and if not, when? Pure: time comes as an argument.

pub mod backoff;
