//! The shape of the source: what stands between plant and agents knows no socket, no clock and no runtime.

use std::fs;
use std::path::{Path, PathBuf};

/// The modules that are pure (docs/architecture.md).
const PURE: [&str; 7] = [
    "src/ids.rs",
    "src/quantity.rs",
    "src/modbus",
    "src/registry",
    "src/policy",
    "src/field/plan.rs",
    "src/field/schedule.rs",
];

/// What none of them may name outside of tests.
const FORBIDDEN: [&str; 6] = ["tokio", "std::net", "Instant::now", "SystemTime::now", "std::fs", "crate::clock"];

fn sources(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
    entries.flat_map(|entry| sources(&entry.expect("an entry").path())).collect()
}

#[test]
fn pure_modules_know_no_socket_no_clock_and_no_runtime() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut looked_at = 0;
    for source in PURE.iter().flat_map(|part| sources(&root.join(part))) {
        let text = fs::read_to_string(&source).expect("a source file");
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        looked_at += 1;
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let found = FORBIDDEN.iter().find(|word| line.contains(*word));
            assert!(found.is_none(), "{}: {line}", source.display());
        }
    }
    assert!(looked_at >= 12, "only {looked_at} files were looked at");
}

/// A gateway without a battery for its clock starts in the past, and its clock is set while it runs. So no wait, no age and
/// no deadline may hang on the wall clock; it is read in one place, beside the monotonic one, for what people and agents read.
#[test]
fn case_c49_the_wall_clock_is_read_in_one_place_beside_the_monotonic_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // The commands look at what another process has stamped, and have nothing else to go by.
    let allowed = ["src/clock.rs", "src/cli"].map(|path| root.join(path));
    let mut looked_at = 0;
    for source in sources(&root.join("src")) {
        if allowed.iter().any(|allowed| source.starts_with(allowed)) {
            continue;
        }
        let text = fs::read_to_string(&source).expect("a source file");
        looked_at += 1;
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let reads_it = ["SystemTime::now", "OffsetDateTime::now", ".wall.elapsed"];
            let found = reads_it.iter().find(|word| line.contains(*word));
            assert!(found.is_none(), "{}: {line}", source.display());
        }
    }
    assert!(looked_at >= 50, "only {looked_at} files were looked at");
}

/// The front matter of a service is read by people; the unit file must at least hold what the documentation promises.
#[test]
fn the_unit_tells_systemd_what_the_daemon_tells_it() {
    // covers: E4
    let unit = include_str!("../../systemd/fieldgate.service");
    for promised in
        ["Type=notify", "WatchdogSec=", "RestartPreventExitStatus=2", "ProtectSystem=strict", "NoNewPrivileges=yes"]
    {
        assert!(unit.contains(promised), "{promised}");
    }
    // case C53: no outage of a peer, and not even exits in a row, can use up its starts.
    assert!(unit.contains("\nStartLimitIntervalSec=0\n") && unit.contains("\nRestart=always\n"));
    // The daemon asks the kernel about its clock, and was killed for it by an earlier unit.
    assert!(unit.contains("\nSystemCallFilter=adjtimex ") && !unit.contains("\nProtectClock=yes"));
}
