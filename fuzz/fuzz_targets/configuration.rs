//! Any text as a configuration. What is accepted is planned, because a plan is made of every configuration that is.
#![no_main]

use fieldgate::config::Config;
use fieldgate::field::plan::plan_link;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let lines = text.lines().count().max(1);
    let warnings = match Config::parse(text, "f") {
        Ok(parsed) => {
            let registry = parsed.config.registry;
            for (link, _) in registry.links() {
                let read: usize = plan_link(&registry, link).iter().map(|read| read.sensors.len()).sum();
                let sensors: usize = registry.link(link).devices.iter().map(|d| registry.device(*d).sensors.len()).sum();
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
        assert!((1..=lines + 1).contains(&(fault.line as usize)) && fault.column >= 1, "{fault}");
    }
});
