//! The metrics, as Prometheus reads them and as agents do.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::gateway::{Gateway, fieldgate, good, mqtt, observer, plant, tcp, units, write_configuration};
use crate::support::peers::{self, Mosquitto, Slave};
use crate::support::{free_port, wait_for};

/// The samples on an endpoint, each by its name and what stands behind its label's values: `requests_total press data`.
fn scrape(port: u16) -> BTreeMap<String, f64> {
    let samples = peers::read_metrics(&format!("http://127.0.0.1:{port}/metrics"));
    let samples = samples.as_array().unwrap_or_else(|| panic!("no samples in {samples}")).iter().map(|sample| {
        let name = sample[0].as_str().unwrap_or_default().trim_start_matches("fieldgate_").to_owned();
        let labels = ["device", "outcome", "quantile"].map(|label| sample[1][label].as_str().unwrap_or_default());
        let words: Vec<&str> = [name.as_str()].into_iter().chain(labels).filter(|word| !word.is_empty()).collect();
        (words.join(" "), sample[2].as_f64().unwrap_or(f64::NAN))
    });
    samples.collect()
}

// covers: A11, B5, C10
#[test]
fn metrics_tell_a_sound_device_from_a_silent_one() {
    if !peers::available() {
        return;
    }
    let mosquitto = Mosquitto::start();
    let mut slave = Slave::tcp(&units());
    let port = free_port();
    let plant = plant(&mqtt(mosquitto.port()), &tcp(slave.port()));
    let _gateway = Gateway::run(&format!("{plant}\n[metrics]\nlisten = \"127.0.0.1:{port}\"\n"));
    let observer = observer(mosquitto.port());
    observer.reading_after(0, "A_LINE1_050", |reading| reading["quality"] == "good");
    slave.fall_silent(2);
    observer.reading_after(0, "A_LINE1_050", |reading| reading["quality"] == "bad");

    let seen = wait_for("both devices in the metrics", || {
        let seen = scrape(port);
        (seen.get("requests_total press data")? > &3.0 && seen.get("device_up mixer")? == &0.0).then_some(seen)
    });
    for (metric, expected) in [
        ("device_up press", 1.0),
        ("breaker_open press", 0.0),
        ("broker_connected", 1.0),
        ("link_connect_failures_total", 0.0),
        ("device_sensors press", 3.0),
    ] {
        assert_eq!(seen.get(metric), Some(&expected), "{metric} in {seen:#?}");
    }
    assert!(seen["device_answer_age_seconds mixer"] > seen["device_answer_age_seconds press"], "{seen:#?}");
    assert!(seen["link_utilisation_ratio"] > 0.0 && seen["link_utilisation_ratio"] <= 1.0, "{seen:#?}");
    assert!(seen["answer_recent_seconds press 0.5"] <= seen["answer_recent_seconds press 0.99"], "{seen:#?}");
    // A request for registers has 12 bytes over TCP, and no answer has fewer than 10.
    let answers = seen["requests_total press data"];
    let requests: f64 = seen.iter().filter(|(name, _)| name.starts_with("requests_total press ")).map(|of| of.1).sum();
    assert_eq!(seen["sent_bytes_total press"], requests * 12.0, "{seen:#?}");
    assert!(seen["received_bytes_total press"] >= answers * 10.0, "{seen:#?}");

    let listed = good(&observer.call("list_devices", json!({})));
    let mixer = listed["items"].as_array().and_then(|items| items.iter().find(|item| item["device"] == "mixer"));
    let mixer = mixer.unwrap_or_else(|| panic!("no mixer in {listed}"));
    assert!(mixer["answers"]["silent"].as_u64() >= Some(1) && mixer["answers"]["data"].as_u64() >= Some(1), "{mixer}");
    assert!(["open", "probing"].map(Value::from).contains(&mixer["breaker"]), "{mixer}");
    let status = good(&observer.call("get_gateway_status", json!({})));
    assert_eq!(status["busiest_links"][0]["link"], "line", "{status}");
    assert!(status["busiest_links"][0]["utilisation_percent"].as_f64() > Some(0.0), "{status}");
}

#[test]
fn metrics_are_not_offered_to_other_machines() {
    let file = write_configuration(&format!(
        "{}\n[metrics]\nlisten = \"0.0.0.0:9502\"\n",
        plant("mqtt://127.0.0.1:1883", "tcp = \"127.0.0.1:502\"")
    ));
    let refused = fieldgate(&["check", &file.display().to_string()]);
    let said = String::from_utf8_lossy(&refused.stdout).into_owned() + &String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("metrics.listen") && said.contains("127.0.0.1:9502"), "{said}");
}
