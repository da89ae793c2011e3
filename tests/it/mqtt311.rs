//! Callers that speak MQTT 3.1.1, which has neither response topics nor correlation data.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::gateway::{GATEWAY, Gateway, failed, good, mqtt, observer, plant, tcp, units};
use crate::support::peers::{self, Mosquitto, Slave, program};
use crate::support::process::Process;

// covers: E6, B3
#[test]
fn an_mqtt_3_client_is_answered_by_the_id_of_its_request() {
    if !peers::available() {
        return;
    }
    let mosquitto = Mosquitto::start();
    let slave = Slave::tcp(&units());
    let _gateway = Gateway::run(&plant(&mqtt(mosquitto.port()), &tcp(slave.port())));
    let observer = observer(mosquitto.port());
    observer.reading_after(0, "A_LINE1_042", |reading| reading["quality"] == "good");

    let port = mosquitto.port().to_string();
    let base = format!("fieldgate/v1/{GATEWAY}/rpc/old");
    // Without stdbuf it would keep its lines to itself until it ends.
    let mut subscribe = program("stdbuf");
    subscribe.args(["-oL", "mosquitto_sub", "-V", "mqttv311", "-h", "127.0.0.1", "-p", &port, "-q", "1", "-d"]);
    subscribe.args(["-t", &format!("{base}/response")]);
    let answers = Process::start("mosquitto_sub", &mut subscribe);
    answers.wait_for_line("Subscribed");
    for (id, sensor) in [("first", "A_LINE1_042"), ("second", "A_LINE1_099")] {
        let params = json!({ "name": "get_sensor_reading", "arguments": { "sensor_id": sensor } });
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string();
        let mut publish = program("mosquitto_pub");
        publish.args(["-V", "mqttv311", "-h", "127.0.0.1", "-p", &port, "-q", "1", "-t", &format!("{base}/request")]);
        let sent = publish.args(["-m", &request]).stdout(Stdio::null()).status().expect("mosquitto_pub can be started");
        assert!(sent.success());
    }
    let answer = |id: &str| -> Value {
        let has_id = format!("\"id\":\"{id}\"");
        answers.wait_for_line(&has_id);
        let log = answers.log();
        let line = log.lines().find(|line| line.starts_with('{') && line.contains(&has_id));
        serde_json::from_str(line.expect("the answer is a line of its own")).expect("the answer is JSON")
    };
    assert_eq!(good(&answer("first")["result"])["value"], 47.3);
    failed(&answer("second")["result"], "INVALID_ARGUMENT");
}
