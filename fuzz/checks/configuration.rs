//! Any text as a configuration. What is accepted is planned, because a plan is made of every configuration that is.

use fieldgate::config::Config;
use fieldgate::field::load::LinkLoad;

/// Panics if a promise is broken.
pub fn check(text: &str) {
    // The last line may be an empty one, at the end of which something is missing.
    let lengths: Vec<usize> = text.split('\n').map(|line| line.chars().count()).collect();
    let warnings = match Config::parse(text, "f") {
        Ok(parsed) => {
            let registry = parsed.config.registry;
            for (link, _) in registry.links() {
                let load = LinkLoad::of(&registry, link);
                assert!(load.busy.is_finite() && load.busy >= 0.0, "{}", load.busy);
                assert!(load.reads.iter().all(|(read, _)| load.worst_age(read) > read.every));
                let read: usize = load.reads.iter().map(|(read, _)| read.sensors.len()).sum();
                let devices = registry.link(link).devices.iter();
                let sensors: usize = devices.map(|device| registry.device(*device).sensors.len()).sum();
                assert_eq!(read, sensors, "every sensor is read once");
            }
            parsed.warnings
        }
        Err(faults) => {
            assert!(faults.errors() > 0, "what is refused has an error");
            faults.iter().cloned().collect()
        }
    };
    for fault in warnings {
        let length = fault.line.checked_sub(1).and_then(|line| lengths.get(line));
        assert!(length.is_some_and(|length| (1..=length + 1).contains(&fault.column)), "{fault}");
    }
}
