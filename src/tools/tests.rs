//! The tools against a board that is set by hand, and links that answer as a test says.

mod batch;
pub(super) mod bench;
mod boundaries;
mod catalogue;
mod documentation;
mod listings;
mod meanings;
mod reading;
