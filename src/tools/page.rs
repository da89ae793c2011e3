//! Listings in pages, and the cursors between them.
//!
//! A cursor says at which place of the registry the listing goes on, and for which query. The registry does not change while
//! it is used, so a page never skips or repeats an item; a cursor of another query or another registry is refused.

use serde_json::{Map, Value};

use super::ToolName;
use super::digest::{self, Digest};
use crate::registry::Registry;

/// The least, usual and most items of a page. A hundred items of a listing stay below 64 KiB.
pub const LIMIT: (i64, i64, i64) = (1, 50, 100);

/// A query, as far as its cursors must know it: the tool, what it filters by, and the registry that it looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query(u64);

/// Why a text is no place to go on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CursorError {
    /// Not as it was handed out.
    #[error("is not a cursor as this gateway hands them out")]
    Damaged,
    /// Handed out for other arguments, another tool, or before the registry changed.
    #[error("belongs to another query")]
    OtherQuery,
}

impl Query {
    /// Of a tool without pages, which hands out no cursor and takes none.
    pub const WITHOUT_PAGES: Query = Query(0);

    /// The query of a call: everything that it was given but the cursor itself and the size of the page.
    pub fn new(tool: ToolName, given: &Map<String, Value>, registry: &Registry) -> Query {
        let mut filters = given.clone();
        filters.remove("cursor");
        filters.remove("limit");
        let digest = Digest::new().part(tool.as_str()).part(&digest::canonical(&Value::Object(filters)));
        let digest = registry.devices().fold(digest, |digest, (_, device)| digest.part(device.id.as_str()));
        Query(registry.sensors().fold(digest, |digest, (_, sensor)| digest.part(sensor.id.as_str())).number())
    }

    /// A cursor for going on at `place`.
    pub fn cursor(self, place: usize) -> String {
        let body = format!("{place:x}-{:016x}", self.0);
        format!("{body}-{}", check_digits(&body))
    }

    /// The place that a cursor of this query names.
    pub fn place(self, cursor: &str) -> Result<usize, CursorError> {
        let (body, check) = cursor.rsplit_once('-').ok_or(CursorError::Damaged)?;
        let (place, query) = body.split_once('-').ok_or(CursorError::Damaged)?;
        if check != check_digits(body) {
            return Err(CursorError::Damaged);
        }
        if query != format!("{:016x}", self.0) {
            return Err(CursorError::OtherQuery);
        }
        usize::from_str_radix(place, 16).map_err(|_| CursorError::Damaged)
    }
}

fn check_digits(body: &str) -> String {
    format!("{:08x}", Digest::new().part(body).number() >> 32)
}

/// Some of the places that match, and how many there are in all.
#[derive(Debug, PartialEq, Eq)]
pub struct Page {
    /// The places of this page, in the order of the registry.
    pub places: Vec<usize>,
    /// How many match in all.
    pub total: usize,
    /// Where the next page begins; `None` at the end.
    pub next: Option<usize>,
}

/// The page of at most `limit` matching places from `start` on.
pub fn cut(matching: &[usize], start: usize, limit: usize) -> Page {
    let mut rest = matching.iter().copied().filter(|place| *place >= start);
    let places = rest.by_ref().take(limit).collect();
    Page { places, total: matching.len(), next: rest.next() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn query(given: Value) -> Query {
        let Value::Object(given) = given else { panic!("an object") };
        Query::new(ToolName::ListSensors, &given, &Registry::default())
    }

    #[test]
    fn a_cursor_leads_back_to_its_place() {
        let query = query(json!({"query": "oil"}));
        for place in [0, 1, 50, usize::MAX] {
            let cursor = query.cursor(place);
            assert_eq!(query.place(&cursor), Ok(place));
            assert!(cursor.len() <= super::super::spec::CURSOR_LENGTH);
        }
    }

    #[test]
    fn a_cursor_belongs_to_its_query_whatever_the_size_of_the_page() {
        let cursor = query(json!({"query": "oil", "limit": 5})).cursor(7);
        assert_eq!(query(json!({"query": "oil", "limit": 9, "cursor": cursor})).place(&cursor), Ok(7));
        assert_eq!(query(json!({"query": "water"})).place(&cursor), Err(CursorError::OtherQuery));
    }

    #[test]
    fn no_changed_character_of_a_cursor_passes() {
        let query = query(json!({}));
        let cursor = query.cursor(0x1a);
        for at in 0..cursor.len() {
            for other in ["0", "f", "-", "x"] {
                let mut damaged = cursor.clone();
                damaged.replace_range(at..=at, other);
                assert!(damaged == cursor || query.place(&damaged).is_err(), "{damaged}");
            }
        }
        for noise in ["", "-", "--", "1a", "ö-ö-ö"] {
            assert_eq!(query.place(noise), Err(CursorError::Damaged), "{noise}");
        }
    }

    #[test]
    fn pages_follow_each_other_without_gap_or_overlap() {
        let matching = [1, 4, 5, 9, 12];
        assert_eq!(cut(&matching, 0, 2), Page { places: vec![1, 4], total: 5, next: Some(5) });
        assert_eq!(cut(&matching, 5, 2), Page { places: vec![5, 9], total: 5, next: Some(12) });
        assert_eq!(cut(&matching, 12, 2), Page { places: vec![12], total: 5, next: None });
        assert_eq!(cut(&matching, 13, 2), Page { places: vec![], total: 5, next: None });
    }
}
