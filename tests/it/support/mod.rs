//! What the tests of this binary share: the programs they start, and how they wait for what those programs do.
//!
//! Nothing here sleeps for a guess: every wait is for a condition, is bounded by [`PATIENCE`], and fails with what was seen
//! instead. Whatever a test starts ends with the test, by its process id.

pub mod gateway;
pub mod mqtt;
pub mod peers;
pub mod process;

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The longest that a test waits for one thing. Far more than is needed, because a loaded machine is no fault.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A folder of its own for a test's files; it stays, so that a failed test can be looked into.
pub fn folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("it-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("the build folder can be written");
    folder
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("a bound socket has an address").port()
}

/// Asks until there is an answer. `what` says in the failure what was waited for.
pub fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Milliseconds since 1970, as the plant's `moment` sensors count them.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is set");
    since.as_millis() as i64
}

/// The moment that a timestamp names, in milliseconds since 1970.
pub fn timestamp_ms(timestamp: &serde_json::Value) -> i64 {
    let text = timestamp.as_str().unwrap_or_else(|| panic!("{timestamp} is no timestamp"));
    let moment = time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339)
        .unwrap_or_else(|err| panic!("{text} is no timestamp: {err}"));
    (moment.unix_timestamp_nanos() / 1_000_000) as i64
}
