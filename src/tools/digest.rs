//! A short, stable digest of JSON: for the catalogue's version and for cursors. It protects against mistakes, not attacks.

use serde_json::Value;

/// FNV-1a over 64 bits. The same text has the same digest on every machine and in every version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Digest {
        Digest::new()
    }
}

impl Digest {
    /// The digest of nothing: the offset basis of FNV-1a for 64 bits.
    pub fn new() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }

    /// Takes one part, and its end, so that `ab` + `c` is another thing than `a` + `bc`.
    pub fn part(self, text: &str) -> Digest {
        self.bytes(text.as_bytes()).bytes(&[0xFF])
    }

    fn bytes(self, bytes: &[u8]) -> Digest {
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        Digest(bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME)))
    }

    /// The digest as a number.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The digest as 16 hexadecimal digits.
    pub fn hex(self) -> String {
        format!("{:016x}", self.0)
    }
}

/// The digest of a JSON value; the order of an object's members does not matter.
pub fn of_json(value: &Value) -> Digest {
    Digest::new().part(&canonical(value))
}

/// JSON without spaces, the members of objects in the order of their names.
pub fn canonical(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort();
            let parts =
                names.into_iter().map(|name| format!("{}:{}", Value::from(name.as_str()), canonical(&members[name])));
            format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        plain => plain.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_digest_is_fnv_1a() {
        assert_eq!(Digest::new().bytes(b"").hex(), "cbf29ce484222325");
        assert_eq!(Digest::new().bytes(b"a").hex(), "af63dc4c8601ec8c");
        assert_eq!(Digest::new().bytes(b"foobar").hex(), "85944171f73967e8");
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(Digest::new().part("ab").part("c"), Digest::new().part("a").part("bc"));
    }

    #[test]
    fn the_order_of_members_does_not_matter() {
        let parse = |text: &str| serde_json::from_str::<Value>(text).expect("json");
        let one = parse(r#"{"b": [1, "x"], "a": {"d": null, "c": 2.5}}"#);
        let other = parse(r#"{"a": {"c": 2.5, "d": null}, "b": [1, "x"]}"#);
        assert_eq!(of_json(&one), of_json(&other));
        assert_eq!(canonical(&one), r#"{"a":{"c":2.5,"d":null},"b":[1,"x"]}"#);
        assert_ne!(of_json(&one), of_json(&json!({"a": 1})));
    }
}
