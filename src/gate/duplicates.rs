//! Answers that are kept for a while, so that a call that arrives twice is executed once (contract, section 3).
//!
//! A call is the same when its caller, its id, its method and its parameters are the same, `_meta` aside; it is
//! remembered until its deadline. The store is bounded: where it is full, the finished answer that would be forgotten
//! first anyway goes early, and a duplicate of *that* call would be executed again. Reads suffer nothing from it, and
//! writes have keys of their own on disk. Calls that still run are never dropped; their number is bounded by
//! `calls.max_in_flight`.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::time::Instant;

use tokio::sync::watch;

use super::jsonrpc::Request;
use crate::ids::ClientId;

/// How many finished answers are kept for one caller, so that a busy one does not push out the others'.
const ANSWERS_OF_A_CLIENT: usize = 32;
/// How many finished answers are kept in all.
const ANSWERS: usize = 512;
/// How many bytes the finished answers take together.
pub const BYTES: usize = 4 * 1024 * 1024;

/// Which call; two calls with the same key are one.
///
/// 128 bits of two keyed hashes stand for the texts, which may be long. Nobody outside knows their keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    client: ClientId,
    fingerprint: (u64, u64),
}

/// What is known of a call.
#[derive(Debug)]
pub enum Known<R> {
    /// Nothing: it is to be executed. The answer goes through the sender to those that wait.
    Unknown,
    /// It runs, and its answer will come.
    Running(watch::Receiver<Option<R>>),
    /// It has ended so.
    Ended(R),
}

/// The calls of the last while. `R` is an answer, cheap to clone.
#[derive(Debug)]
pub struct Duplicates<R> {
    hashers: (RandomState, RandomState),
    calls: HashMap<Key, Entry<R>>,
}

#[derive(Debug)]
struct Entry<R> {
    state: State<R>,
    until: Instant,
}

#[derive(Debug)]
enum State<R> {
    Running(watch::Receiver<Option<R>>),
    Ended { answer: R, size: usize },
}

impl<R> Entry<R> {
    fn size(&self) -> Option<usize> {
        match self.state {
            State::Running(_) => None,
            State::Ended { size, .. } => Some(size),
        }
    }
}

impl<R: Clone> Duplicates<R> {
    /// An empty store.
    pub fn new() -> Duplicates<R> {
        Duplicates { hashers: (RandomState::new(), RandomState::new()), calls: HashMap::new() }
    }

    /// The key of a call.
    pub fn key(&self, client: &ClientId, request: &Request) -> Key {
        let content = Content(request);
        let fingerprint = (self.hashers.0.hash_one(&content), self.hashers.1.hash_one(&content));
        Key { client: client.clone(), fingerprint }
    }

    /// What is known of a call.
    pub fn look_up(&self, key: &Key, now: Instant) -> Known<R> {
        match self.calls.get(key) {
            Some(entry) if entry.until > now => match &entry.state {
                State::Running(answer) => Known::Running(answer.clone()),
                State::Ended { answer, .. } => Known::Ended(answer.clone()),
            },
            _ => Known::Unknown,
        }
    }

    /// Notes that a call runs. Its answer goes into the sender for those that wait.
    pub fn begin(&mut self, key: Key, until: Instant) -> watch::Sender<Option<R>> {
        let (sender, receiver) = watch::channel(None);
        self.calls.insert(key, Entry { state: State::Running(receiver), until });
        sender
    }

    /// Keeps a call's answer, of that many bytes, until the call's deadline.
    pub fn end(&mut self, key: &Key, answer: R, size: usize, now: Instant) {
        self.calls.retain(|_, entry| entry.until > now);
        if let Some(entry) = self.calls.get_mut(key) {
            entry.state = State::Ended { answer, size };
            self.make_room(key);
        }
    }

    /// Forgets a caller's finished calls: it begins anew, and counts its ids from the start.
    pub fn forget(&mut self, client: &ClientId) {
        self.calls.retain(|key, entry| key.client != *client || entry.size().is_none());
    }

    fn make_room(&mut self, newest: &Key) {
        loop {
            let ended = || self.calls.iter().filter_map(|(key, entry)| Some((key, entry.until, entry.size()?)));
            let own = || ended().filter(|(key, ..)| key.client == newest.client);
            let is_over = ended().count() > ANSWERS || ended().map(|(.., size)| size).sum::<usize>() > BYTES;
            let first = |(_, until, _): &(&Key, Instant, usize)| *until;
            let victim = if own().count() > ANSWERS_OF_A_CLIENT {
                own().min_by_key(first)
            } else if is_over {
                ended().min_by_key(first)
            } else {
                return;
            };
            let Some(victim) = victim.map(|(key, ..)| key.clone()) else { return };
            self.calls.remove(&victim);
        }
    }
}

impl<R: Clone> Default for Duplicates<R> {
    fn default() -> Duplicates<R> {
        Duplicates::new()
    }
}

/// What makes a call that call: everything but `_meta`, where a repeat may carry another trace or deadline.
struct Content<'a>(&'a Request);

impl Hash for Content<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.id.as_json().hash(state);
        self.0.method.hash(state);
        let mut params: Vec<_> = self.0.params.iter().filter(|(name, _)| *name != "_meta").collect();
        params.sort_unstable_by_key(|(name, _)| *name);
        params.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::super::jsonrpc::{Message, parse};
    use super::*;
    use std::time::Duration;

    const SOON: Duration = Duration::from_secs(5);

    fn client(name: &str) -> ClientId {
        name.parse().expect("a name")
    }

    fn request(id: &str, params: &str) -> Request {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#);
        match parse(text.as_bytes()).entries.remove(0) {
            Ok(Message::Request(request)) => request,
            other => panic!("{text} is no request: {other:?}"),
        }
    }

    fn run(store: &mut Duplicates<&'static str>, key: &Key, size: usize, now: Instant) {
        let _answer = store.begin(key.clone(), now + SOON);
        store.end(key, "done", size, now);
    }

    #[test]
    fn a_call_is_known_by_caller_id_and_arguments() {
        let store = Duplicates::<()>::new();
        let key = |name: &str, id: &str, params: &str| store.key(&client(name), &request(id, params));
        let original = key("a", "1", r#"{"name":"t","arguments":{"x":1,"y":2}}"#);
        assert_eq!(original, key("a", "1", r#"{"arguments":{"y":2,"x":1},"name":"t","_meta":{"traceparent":"z"}}"#));
        assert_ne!(original, key("b", "1", r#"{"name":"t","arguments":{"x":1,"y":2}}"#));
        assert_ne!(original, key("a", "\"1\"", r#"{"name":"t","arguments":{"x":1,"y":2}}"#));
        assert_ne!(original, key("a", "1", r#"{"name":"t","arguments":{"x":1,"y":3}}"#));
    }

    #[test]
    fn an_answer_is_kept_until_the_deadline_and_no_longer() {
        let mut store = Duplicates::new();
        let now = Instant::now();
        let key = store.key(&client("a"), &request("1", "{}"));
        run(&mut store, &key, 10, now);
        assert!(matches!(store.look_up(&key, now + SOON / 2), Known::Ended("done")));
        assert!(matches!(store.look_up(&key, now + SOON), Known::Unknown));
    }

    #[test]
    fn a_busy_caller_loses_its_own_oldest_answer_and_nobody_elses() {
        let mut store = Duplicates::new();
        let now = Instant::now();
        let quiet = store.key(&client("quiet"), &request("1", "{}"));
        run(&mut store, &quiet, 10, now);
        let keys: Vec<Key> =
            (0..=ANSWERS_OF_A_CLIENT).map(|id| store.key(&client("busy"), &request(&id.to_string(), "{}"))).collect();
        for (place, key) in keys.iter().enumerate() {
            run(&mut store, key, 10, now + Duration::from_millis(place as u64));
        }
        assert!(matches!(store.look_up(&keys[0], now), Known::Unknown));
        assert!(matches!(store.look_up(&keys[1], now), Known::Ended(_)));
        assert!(matches!(store.look_up(&quiet, now), Known::Ended(_)));
    }

    #[test]
    fn the_store_is_bounded_in_bytes_and_keeps_what_runs() {
        let mut store = Duplicates::new();
        let now = Instant::now();
        let running = store.key(&client("r"), &request("1", "{}"));
        let _answer = store.begin(running.clone(), now + SOON);
        for id in 0..20 {
            let key = store.key(&client(&format!("c{id}")), &request("1", "{}"));
            run(&mut store, &key, BYTES / 4, now);
        }
        assert!(store.calls.len() <= 5);
        assert!(matches!(store.look_up(&running, now), Known::Running(_)));
    }
}
