//! JSON-RPC 2.0 as it arrives: bytes to requests, before MCP has a say.
//!
//! `rmcp` parses a message as a whole or not at all, narrows ids to 64-bit integers, and takes a known method with wrong
//! parameters for an unknown method. A caller gets its id back as it wrote it and is told what was wrong, so the envelope
//! is read here. What is deliberately absent: any method, any tool, any time.

use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The longest request in bytes. Tool arguments are a few hundred; anything near this is a mistake or an attack.
pub const MAX_REQUEST_BYTES: usize = 256 * 1024;

/// The most calls in one message. More would only wait for each other.
pub const MAX_BATCH: usize = 64;

/// The error codes of JSON-RPC 2.0, section 5.1.
pub mod code {
    /// Not JSON.
    pub const PARSE_ERROR: i32 = -32700;
    /// JSON, but no request.
    pub const INVALID_REQUEST: i32 = -32600;
    /// A request whose parameters do not fit its method.
    pub const INVALID_PARAMS: i32 = -32602;
    /// A fault of the gateway.
    pub const INTERNAL: i32 = -32603;
    /// The first code that is the server's own: here for a request that is no tool call and was refused for a reason of
    /// the contract, which stands in `data`.
    pub const REFUSED: i32 = -32000;
}

/// A request's id, exactly as the caller wrote it: `1`, `1.0`, `"a"`, or a number that no integer holds.
#[derive(Clone, Debug)]
pub struct Id(Box<RawValue>);

impl Id {
    /// The id as JSON text.
    pub fn as_json(&self) -> &str {
        self.0.get()
    }

    fn from_raw(raw: &RawValue) -> Option<Id> {
        let first = raw.get().bytes().next()?;
        matches!(first, b'"' | b'-' | b'0'..=b'9').then(|| Id(raw.to_owned()))
    }
}

/// A request that gets exactly one answer.
#[derive(Clone, Debug)]
pub struct Request {
    /// The caller's id.
    pub id: Id,
    /// The method.
    pub method: String,
    /// The parameters; empty where none were given.
    pub params: Map<String, Value>,
}

impl Request {
    /// A member of `params._meta`.
    pub fn meta(&self, key: &str) -> Option<&Value> {
        self.params.get("_meta")?.get(key)
    }
}

/// One thing that a caller sent.
#[derive(Clone, Debug)]
pub enum Message {
    /// It wants an answer.
    Request(Request),
    /// It wants none: a notification, or an answer to something that the gateway never asked.
    Unanswered,
}

/// Why something is no request. It is answered with an error all the same.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The id, where it could be had.
    pub id: Option<Id>,
    /// One of [`code`].
    pub code: i32,
    /// What was wrong and what would have been right.
    pub message: String,
}

/// What one payload holds.
#[derive(Clone, Debug)]
pub struct Parcel {
    /// Each thing in it; one unless it is a batch.
    pub entries: Vec<Result<Message, Fault>>,
    /// Whether the answers belong into an array.
    pub is_batch: bool,
}

impl Parcel {
    fn one(entry: Result<Message, Fault>) -> Parcel {
        Parcel { entries: vec![entry], is_batch: false }
    }
}

/// Reads a payload. It never fails: what is wrong becomes a fault to answer with.
pub fn parse(payload: &[u8]) -> Parcel {
    if payload.len() > MAX_REQUEST_BYTES {
        let message = format!("the request takes {} bytes, and {MAX_REQUEST_BYTES} are the most", payload.len());
        return Parcel::one(Err(invalid(None, message)));
    }
    match serde_json::from_slice::<&RawValue>(payload) {
        Ok(raw) if raw.get().starts_with('[') => parse_batch(raw),
        Ok(raw) => Parcel::one(parse_entry(raw)),
        Err(err) => {
            let message = format!("the payload is not JSON: {err}; one JSON-RPC 2.0 request was expected");
            Parcel::one(Err(Fault { id: None, code: code::PARSE_ERROR, message }))
        }
    }
}

fn parse_batch(raw: &RawValue) -> Parcel {
    let entries: Vec<&RawValue> = match serde_json::from_str(raw.get()) {
        Ok(entries) => entries,
        Err(err) => return Parcel::one(Err(invalid(None, format!("the batch cannot be read: {err}")))),
    };
    if entries.is_empty() || entries.len() > MAX_BATCH {
        let message = format!("the batch holds {} requests; 1 to {MAX_BATCH} are allowed", entries.len());
        return Parcel::one(Err(invalid(None, message)));
    }
    Parcel { entries: entries.into_iter().map(parse_entry).collect(), is_batch: true }
}

/// The members of a message, each still as text, so that one wrong member does not hide the others.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// A member that is there, even as `null`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

fn parse_entry(raw: &RawValue) -> Result<Message, Fault> {
    // An array would do for a struct of serde's.
    if !raw.get().starts_with('{') {
        return Err(invalid(None, "a request is a JSON object"));
    }
    let envelope: Envelope<'_> =
        serde_json::from_str(raw.get()).map_err(|err| invalid(None, format!("the request cannot be read: {err}")))?;
    let id = envelope.id.and_then(Id::from_raw);
    let Some(method) = envelope.method else {
        if envelope.result.is_some() || envelope.error.is_some() {
            return Ok(Message::Unanswered);
        }
        return Err(invalid(id, "`method` is missing"));
    };
    if envelope.jsonrpc.map(RawValue::get) != Some("\"2.0\"") {
        return Err(invalid(id, "`jsonrpc` must be \"2.0\""));
    }
    let Ok(method) = serde_json::from_str::<String>(method.get()) else {
        return Err(invalid(id, "`method` must be a string"));
    };
    let Some(id) = id else {
        return match envelope.id {
            Some(_) => Err(invalid(None, "`id` must be a string or a number")),
            None => Ok(Message::Unanswered),
        };
    };
    match parse_params(envelope.params) {
        Ok(params) => Ok(Message::Request(Request { id, method, params })),
        Err(message) => Err(Fault { id: Some(id), code: code::INVALID_PARAMS, message }),
    }
}

fn parse_params(raw: Option<&RawValue>) -> Result<Map<String, Value>, String> {
    let Some(raw) = raw else { return Ok(Map::new()) };
    // The parser gives up at 128 levels, so that no nesting can overflow the stack.
    let Unambiguous(value) =
        serde_json::from_str(raw.get()).map_err(|err| format!("`params` cannot be read: {err}"))?;
    let params = match value {
        Value::Object(params) => params,
        Value::Null => Map::new(),
        _ => return Err("`params` must be an object".into()),
    };
    match params.get("_meta") {
        Some(meta) if !meta.is_object() => Err("`params._meta` must be an object".into()),
        _ => Ok(params),
    }
}

/// A JSON value in which no object has a member twice: of two, nobody knows which one the caller meant.
pub(crate) struct Unambiguous(pub(crate) Value);

impl<'de> Deserialize<'de> for Unambiguous {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Unambiguous, D::Error> {
        struct AnyValue;

        impl<'de> Visitor<'de> for AnyValue {
            type Value = Unambiguous;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }

            fn visit_unit<E>(self) -> Result<Unambiguous, E> {
                Ok(Unambiguous(Value::Null))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Unambiguous, E> {
                Ok(Unambiguous(value.into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Unambiguous, E> {
                Ok(Unambiguous(value.into()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Unambiguous, E> {
                Ok(Unambiguous(value.into()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Unambiguous, E> {
                Ok(Unambiguous(value.into()))
            }

            fn visit_str<E>(self, value: &str) -> Result<Unambiguous, E> {
                Ok(Unambiguous(value.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Unambiguous, A::Error> {
                let mut list = Vec::new();
                while let Some(Unambiguous(element)) = elements.next_element()? {
                    list.push(element);
                }
                Ok(Unambiguous(list.into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Unambiguous, A::Error> {
                let mut object = Map::new();
                while let Some((name, Unambiguous(value))) = members.next_entry::<String, _>()? {
                    if object.contains_key(&name) {
                        return Err(serde::de::Error::custom(format_args!("{name:?} stands there twice")));
                    }
                    object.insert(name, value);
                }
                Ok(Unambiguous(object.into()))
            }
        }

        deserializer.deserialize_any(AnyValue)
    }
}

fn invalid(id: Option<Id>, message: impl Into<String>) -> Fault {
    Fault { id, code: code::INVALID_REQUEST, message: message.into() }
}

/// An answer as JSON text.
pub fn write_result(id: &Id, result: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Serialize)]
    struct Answer<'a, R> {
        jsonrpc: &'static str,
        id: &'a RawValue,
        result: &'a R,
    }
    serde_json::to_vec(&Answer { jsonrpc: "2.0", id: &id.0, result })
}

/// An error as JSON text; without an id where the request's could not be had.
pub fn write_error(id: Option<&Id>, error: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Serialize)]
    struct Answer<'a, E> {
        jsonrpc: &'static str,
        id: Option<&'a RawValue>,
        error: &'a E,
    }
    serde_json::to_vec(&Answer { jsonrpc: "2.0", id: id.map(|id| &*id.0), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one payload comes to: `id method`, `-` for what wants no answer, `code id` for a fault.
    fn outline(payload: &[u8]) -> Vec<String> {
        let entry = |entry: &Result<Message, Fault>| match entry {
            Ok(Message::Request(request)) => format!("{} {}", request.id.as_json(), request.method),
            Ok(Message::Unanswered) => "-".to_owned(),
            Err(fault) => format!("{} {}", fault.code, fault.id.as_ref().map_or("null", Id::as_json)),
        };
        parse(payload).entries.iter().map(entry).collect()
    }

    fn check(payload: &str, expected: &str) {
        assert_eq!(outline(payload.as_bytes()), [expected], "{payload}");
    }

    #[test]
    fn an_id_is_kept_as_it_was_written() {
        for id in ["1", "1.0", "-7", "1e2", "18446744073709551615123", "0.1", "\"a\"", "\"\\u00e4\"", "\"\""] {
            check(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#), &format!("{id} ping"));
        }
    }

    #[test]
    fn what_is_no_request_is_answered_with_its_fault() {
        check("", "-32700 null");
        check("{", "-32700 null");
        check("{} {}", "-32700 null");
        check("nonsense", "-32700 null");
        check("7", "-32600 null");
        check("null", "-32600 null");
        check("{}", "-32600 null");
        check("[]", "-32600 null");
        check(r#"{"id":1,"method":"ping"}"#, "-32600 1");
        check(r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, "-32600 1");
        check(r#"{"jsonrpc":"2.0","id":1}"#, "-32600 1");
        check(r#"{"jsonrpc":"2.0","id":1,"method":7}"#, "-32600 1");
        check(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "-32600 null");
        check(r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, "-32600 null");
        check(r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, "-32600 null");
        check(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, "-32600 null");
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#, "-32602 1");
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":7}}"#, "-32602 1");
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"name":"a","name":"b"}}"#, "-32602 1");
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"arguments":{"id":"a","id":"b"}}}"#, "-32602 1");
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"list":[{"id":1,"id":1}]}}"#, "-32602 1");
        assert_eq!(outline(&[0xff, 0xfe, 0x00]), ["-32700 null"]);
        assert_eq!(outline(&[b' '; MAX_REQUEST_BYTES + 1]), ["-32600 null"]);
    }

    #[test]
    fn notifications_and_answers_want_no_answer() {
        check(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "-");
        check(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "-");
        check(r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}"#, "-");
    }

    #[test]
    fn a_batch_is_judged_entry_by_entry() {
        let batch = br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}, 7, {"jsonrpc":"2.0","method":"x"}]"#;
        assert_eq!(outline(batch), ["1 ping", "-32600 null", "-"]);
        let many = vec![r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#; MAX_BATCH + 1].join(",");
        check(&format!("[{many}]"), "-32600 null");
    }

    #[test]
    fn deep_nesting_is_a_fault_and_nothing_worse() {
        let deep = |open: &str, close: &str| format!("{}{}", open.repeat(60_000), close.repeat(60_000));
        check(&deep("[", "]"), "-32600 null");
        check(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"x":{}}}}}"#, deep("[", "]")), "-32602 1");
        check(&format!(r#"{{"jsonrpc":"2.0","id":{},"method":"m"}}"#, deep("[", "]")), "-32600 null");
        check(&"[".repeat(200_000), "-32700 null");
    }
}
