//! `fieldgate demo`: everything in one command, judged by itself.

use crate::support::gateway::fieldgate;

// covers: A7, E5, E6, E7
#[test]
fn the_demo_ends_by_itself_and_every_answer_was_right() {
    let demo = fieldgate(&["demo"]);
    let said = String::from_utf8_lossy(&demo.stdout);
    let complained = String::from_utf8_lossy(&demo.stderr);
    assert_eq!(demo.status.code(), Some(0), "{said}\n{complained}");
    for part in ["get_sensor_reading", "SENSOR_OFFLINE", "INVALID_ARGUMENT"] {
        assert!(said.contains(part), "the demo shows {part}:\n{said}");
    }
}
