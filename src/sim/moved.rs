//! The configuration with which a gateway finds the plant: the same one, with the places of its links replaced.
//!
//! It is the text of the file that is changed, and only the values of `tcp`, `serial` and `rtu_over_tcp`, so that comments and layout
//! stay and any real configuration can be tried without a plant.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::{Place, ServedLink};
use crate::registry::Registry;
use crate::registry::sensor::Endpoint;

/// Why a configuration cannot be moved.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// It is no TOML.
    #[error("the file is no TOML")]
    NotToml(#[from] toml::de::Error),
    /// A served link is not in the file, or has no place there.
    #[error("the file has no [[link]] with id = {link:?} and a `tcp` or `serial` that is a text")]
    NoSuchLink {
        /// The link.
        link: String,
    },
}

/// The text of a configuration with the places of the served links.
pub fn move_text(text: &str, served: &[ServedLink]) -> Result<String, MoveError> {
    let file = DeTable::parse(text)?;
    let mut changes = Vec::new();
    for link in served {
        let span = place_of(file.get_ref(), link)
            .ok_or_else(|| MoveError::NoSuchLink { link: link.link.as_str().to_owned() })?;
        changes.push((span, link.place.to_string()));
    }
    changes.sort_by_key(|(span, _)| span.start);
    let mut moved = String::with_capacity(text.len());
    let mut copied = 0;
    for (span, place) in changes {
        moved.push_str(&text[copied..span.start]);
        moved.push_str(&toml_string(&place));
        copied = span.end;
    }
    moved.push_str(&text[copied..]);
    Ok(moved)
}

/// A registry with the places of the served links.
pub fn move_registry(registry: &Registry, served: &[ServedLink]) -> Registry {
    let mut moved = Registry::default();
    for (_, link) in registry.links() {
        let mut link = link.clone();
        link.devices.clear();
        let place = served.iter().find(|served| served.link == link.id).map(|served| &served.place);
        match (&mut link.endpoint, place) {
            (Endpoint::Tcp { host, port } | Endpoint::RtuOverTcp { host, port, .. }, Some(Place::Tcp(address))) => {
                if let Some((moved_host, moved_port)) = split_address(address) {
                    *host = moved_host;
                    *port = moved_port;
                }
            }
            (Endpoint::Serial(settings), Some(Place::Serial(path))) => settings.path = path.display().to_string(),
            _ => {}
        }
        moved.add_link(link).expect("names are unique in the registry that they come from");
    }
    for (_, device) in registry.devices() {
        let mut device = device.clone();
        device.sensors.clear();
        moved.add_device(device).expect("names are unique in the registry that they come from");
    }
    for (_, sensor) in registry.sensors() {
        moved.add_sensor(sensor.clone()).expect("names are unique in the registry that they come from");
    }
    moved
}

fn split_address(address: &str) -> Option<(String, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    Some((host.trim_start_matches('[').trim_end_matches(']').to_owned(), port.parse().ok()?))
}

/// Where in the text the link's place stands, quotes included.
fn place_of(file: &DeTable<'_>, served: &ServedLink) -> Option<Range<usize>> {
    let keys: &[&str] = match served.place {
        Place::Tcp(_) => &["tcp", "rtu_over_tcp"],
        Place::Serial(_) => &["serial"],
    };
    let links = file.get("link")?.get_ref().as_array()?;
    let mut tables = links.iter().filter_map(|link| link.get_ref().as_table());
    let named =
        |table: &&DeTable<'_>| table.get("id").and_then(|id| id.get_ref().as_str()) == Some(served.link.as_str());
    let table = tables.find(named)?;
    let value = keys.iter().find_map(|key| table.get(*key))?;
    matches!(value.get_ref(), DeValue::String(_)).then(|| value.span())
}

/// A text as TOML writes it. What a path may hold and TOML may not is escaped.
fn toml_string(text: &str) -> String {
    let escaped: String = text
        .chars()
        .map(|c| match c {
            '"' | '\\' => format!("\\{c}"),
            c if c.is_control() => format!("\\u{:04X}", u32::from(c)),
            c => c.to_string(),
        })
        .collect();
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(link: &str, place: Place) -> ServedLink {
        ServedLink { link: link.parse().unwrap(), place, units: vec![1] }
    }

    const FILE: &str = r#"# The line.
[[link]]
id = "press-tcp"   # the press
tcp = '10.0.0.5:502' # by the door

[[link]]
serial = "/dev/ttyUSB0"
id = "rs485-a"
baud = 19200

[[device]]
id = "tcp"
"#;

    #[test]
    fn only_the_places_of_the_links_change() {
        let places = [
            served("rs485-a", Place::Serial(r#"/tmp/a "b"\c"#.into())),
            served("press-tcp", Place::Tcp("127.0.0.1:15020".into())),
        ];
        let expected =
            FILE.replace("'10.0.0.5:502'", "\"127.0.0.1:15020\"").replace("\"/dev/ttyUSB0\"", r#""/tmp/a \"b\"\\c""#);
        let moved = move_text(FILE, &places).unwrap();
        assert_eq!(moved, expected);
        let read = DeTable::parse(&moved).unwrap();
        let serial = &read.get_ref()["link"].get_ref()[1].get_ref()["serial"];
        assert_eq!(serial.get_ref().as_str(), Some(r#"/tmp/a "b"\c"#));
    }

    #[test]
    fn a_link_that_the_file_does_not_have_is_named() {
        let error = move_text(FILE, &[served("rs485-b", Place::Serial("/tmp/b".into()))]).unwrap_err();
        assert!(error.to_string().contains("rs485-b"), "{error}");
        let error = move_text(FILE, &[served("press-tcp", Place::Serial("/tmp/b".into()))]).unwrap_err();
        assert!(error.to_string().contains("press-tcp"), "{error}");
        assert!(matches!(move_text("[[link", &[]), Err(MoveError::NotToml(_))));
    }
}
