//! Modbus RTU through a TCP port: socat is the converter that hands bytes on, and pymodbus the slave on the line behind it.

use serde_json::json;

use crate::support::gateway::{Gateway, failed, good, mqtt, observer, plant, units};
use crate::support::peers::{self, Cable, Converter, Mosquitto, Slave};
use crate::support::wait_for;

// covers: E2, E7, C10
#[test]
fn a_line_behind_a_converter_is_read_and_the_converter_may_leave_and_return() {
    if !peers::available() {
        return;
    }
    let mosquitto = Mosquitto::start();
    let cable = Cable::lay();
    let mut slave = Slave::serial(&units(), &cable.slave_end);
    let mut converter = Converter::start(&cable);
    let link = format!("rtu_over_tcp = \"127.0.0.1:{}\"\nbaud = 19200\nparity = \"none\"", converter.port());
    let _gateway = Gateway::run(&plant(&mqtt(mosquitto.port()), &link));
    let observer = observer(mosquitto.port());
    let published = observer.reading_after(0, "A_LINE1_042", |reading| reading["quality"] == "good");
    assert_eq!(published["value"], 47.3);
    observer.reading_after(0, "A_LINE1_050", |reading| reading["value"] == -9.7);

    slave.fall_silent(1);
    let mark = observer.mark();
    observer.reading_after(mark, "A_LINE1_042", |reading| reading["quality"] == "bad");
    let read = observer.call("get_sensor_reading", json!({ "sensor_id": "A_LINE1_050" }));
    assert_eq!(good(&read)["value"], -9.7, "the other unit behind the converter is still read");
    slave.answer(1);
    observer.reading_after(mark, "A_LINE1_042", |reading| reading["quality"] == "good");

    let mark = observer.mark();
    converter.leave();
    observer.reading_after(mark, "A_LINE1_042", |reading| reading["quality"] == "bad");
    let cause = wait_for("the cause to be known", || {
        let result = observer.call("get_sensor_reading", json!({ "sensor_id": "A_LINE1_042" }));
        let cause = failed(&result, "SENSOR_OFFLINE")["cause"].clone();
        (cause == "refused").then_some(cause)
    });
    assert_eq!(cause, "refused");
    let mark = observer.mark();
    converter.come_back(&cable);
    observer.reading_after(mark, "A_LINE1_042", |reading| reading["quality"] == "good");
}
