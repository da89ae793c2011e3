//! What is said of the gateway's own tables, of keys that do not exist, and of what is no TOML.

use super::check;

#[test]
fn names_are_unique_and_levels_of_a_topic() {
    check(
        r#"id = "meter""#,
        r#"id = "press-plc""#,
        &[
            r#"27:6: device[press-plc].id: another device has this id (found "press-plc"); give each device an id of its own"#,
        ],
    );
    check(
        r#"id = "meter""#,
        r#"id = "meter 1""#,
        &[
            r#"27:6: device[meter 1].id: ' ' may not stand in a name; letters, digits, `_`, `.` and `-` may (found "meter 1"); "meter-1" would do"#,
        ],
    );
    check(
        r#"id = "gw-line1""#,
        r#"id = "gw/line1""#,
        &[
            r#"2:6: gateway.id: '/' may not stand in a name; letters, digits, `_`, `.` and `-` may (found "gw/line1"); "gw-line1" would do"#,
        ],
    );
    check(r#"id = "gw-line1""#, r#"id = """#, &[r#"2:6: gateway.id: a name is empty (found "")"#]);
    check("id = \"gw-line1\"\n", "", &[r#"1:1: gateway.id: id is missing; add id = "gw-line1""#]);
}

#[test]
fn a_broker_has_a_url() {
    check(
        "mqtt://10.0.0.2:1883",
        "10.0.0.2:1883",
        &[
            r#"5:7: broker.url: a broker's URL begins with mqtt://, mqtts:// or embedded:// (found "10.0.0.2:1883"); write "mqtt://10.0.0.2:1883""#,
        ],
    );
    check(
        "mqtt://10.0.0.2:1883",
        "tcp://10.0.0.2:1883",
        &[
            r#"5:7: broker.url: tcp is none of: mqtt, mqtts, embedded (found "tcp://10.0.0.2:1883"); write "mqtt://10.0.0.2:1883""#,
        ],
    );
    check(
        "mqtt://10.0.0.2:1883",
        "mqtt://u:hunter2@10.0.0.2:1883",
        &["5:7: broker.url: credentials do not belong into the URL; use broker.username and broker.password_file"],
    );
    check(
        "mqtt://10.0.0.2:1883",
        "mqtt://10.0.0.2:1883/plant",
        &[
            r#"5:7: broker.url: a broker's URL ends with its host and port (found "mqtt://10.0.0.2:1883/plant"); write "mqtt://10.0.0.2:1883""#,
        ],
    );
    check(
        "mqtt://10.0.0.2:1883",
        "embedded://0.0.0.0:1883",
        &[
            r#"5:7: broker.url: the embedded broker listens on this machine alone (found "embedded://0.0.0.0:1883"); write "embedded://127.0.0.1:1883", or run a broker of its own for other machines"#,
        ],
    );
    check(
        "mqtt://10.0.0.2:1883",
        "mqtt://10.0.0.2:mqtt",
        &[r#"5:7: broker.url: a port is 1 to 65535 (found "mqtt://10.0.0.2:mqtt"); write 10.0.0.2:1883"#],
    );
    check(
        "mqtt://10.0.0.2:1883",
        "mqtt://",
        &[
            r#"5:7: broker.url: this is no host name or address (found "mqtt://"); write it as 10.0.0.5:1883, or a name that the network knows"#,
        ],
    );
    check(
        "mqtt://10.0.0.2:1883",
        "embedded://plant.example:1883",
        &[
            r#"5:7: broker.url: the embedded broker listens on this machine alone (found "embedded://plant.example:1883"); write "embedded://127.0.0.1:1883", or run a broker of its own for other machines"#,
        ],
    );
    check(
        "mqtt://10.0.0.2:1883",
        "mqtt://10.0.0.2:0",
        &[r#"5:7: broker.url: a port is 1 to 65535 (found "mqtt://10.0.0.2:0"); write "mqtt://10.0.0.2:1883""#],
    );
}

#[test]
fn a_password_is_never_repeated() {
    check(
        "[broker]\n",
        "[broker]\npassword = \"hunter2\"\n",
        &[
            r#"5:1: broker.password: a password needs a username; add username = "…""#,
            "5:1: warning: broker.password: the password crosses the network in clear; write mqtts:// in broker.url",
            "5:12: warning: broker.password: the password stands in the file in clear; put it into a file that only the daemon may read, and name that as password_file",
        ],
    );
    check(
        "[broker]\n",
        "[broker]\nusername = \"u\"\npassword = \"hunter2\"\n",
        &[
            "6:1: warning: broker.password: the password crosses the network in clear; write mqtts:// in broker.url",
            "6:12: warning: broker.password: the password stands in the file in clear; put it into a file that only the daemon may read, and name that as password_file",
        ],
    );
    check(
        "[broker]\n",
        "[broker]\npasword = \"hunter2\"\n",
        &["5:1: broker.pasword: unknown key in broker; did you mean password?"],
    );
    check(
        "mqtt://10.0.0.2:1883\"",
        "mqtts:/10.0.0.2:8883\"",
        &[
            r#"5:7: broker.url: a broker's URL begins with mqtt://, mqtts:// or embedded:// (found "mqtts:/10.0.0.2:8883"); write "mqtts://10.0.0.2:8883""#,
        ],
    );
    check("[broker]\n", "[broker]\npassword = hunter2\n", &["5:12: broker.password: a text stands in quotes"]);
    check(
        "[broker]\n",
        "[broker]\nusername = \"u\"\npassword_file = \"mqtt.pw\"\n",
        &[
            "6:1: warning: broker.password_file: the password crosses the network in clear (found password_file); write mqtts:// in broker.url",
            r#"6:17: broker.password_file: this file cannot be read: no files are read here (found "mqtt.pw"); name a file that the daemon's user may read"#,
        ],
    );
    check(
        "[broker]\n",
        "[broker]\npassword = 12345\n",
        &[
            r#"5:1: broker.password: a password needs a username; add username = "…""#,
            "5:1: warning: broker.password: the password crosses the network in clear; write mqtts:// in broker.url",
            "5:12: broker.password: a text belongs here, and this is a whole number",
            "5:12: warning: broker.password: the password stands in the file in clear; put it into a file that only the daemon may read, and name that as password_file",
        ],
    );
    check(
        "[broker]\n",
        "[broker]\nusername = \"u\"\npassword = \"a\"\npassword_file = \"b\"\n",
        &[
            "6:1: warning: broker.password: the password crosses the network in clear; write mqtts:// in broker.url",
            "7:1: broker.password_file: the password is given twice (found password_file); keep password_file, and remove password",
        ],
    );
    check("[broker]\n", "[broker]\npass: hunter2\n", &["5:1: broker.pass: a key is followed by = and its value"]);
}

#[test]
fn numbers_and_texts_about_the_gateway_have_bounds() {
    check(
        "[[link]]\nid = \"press",
        "[publish]\nqos = 2\n[[link]]\nid = \"press",
        &["8:7: publish.qos: the quality of service of readings is 0 or 1 (found 2); use 1 at the most"],
    );
    check(
        "[[link]]\nid = \"press",
        "[calls]\nmax_deadline = \"5s\"\n[[link]]\nid = \"press",
        &[
            r#"8:16: calls.max_deadline: default_deadline (10s) is longer than max_deadline (5s) (found "5s"); raise max_deadline, or lower default_deadline"#,
        ],
    );
    check(
        "[[link]]\nid = \"press",
        "[calls]\nmax_in_flight = 0\n[[link]]\nid = \"press",
        &["8:17: calls.max_in_flight: a number of calls is 1 to 1024 (found 0); use 1 at the least"],
    );
    check(
        "[[link]]\nid = \"press",
        "[publish]\nstatus_every = \"2h\"\n[[link]]\nid = \"press",
        &[r#"8:16: publish.status_every: this time is 1s to 1h (found "2h"); use "1h" at the most"#],
    );
    check(
        "[broker]\n",
        "[broker]\nkeep_alive = \"1s\"\n",
        &[r#"5:14: broker.keep_alive: this time is 5s to 1h (found "1s"); use "5s" at the least"#],
    );
    check(
        "[broker]\n",
        "[broker]\nusername = \"a\\u0007b\"\n",
        &[r#"5:12: broker.username: a control character stands in this text (found "a\u0007b"); remove it"#],
    );
    check(
        "[broker]\n",
        "[broker]\nca_file = \"none.pem\"\n",
        &[
            r#"5:11: broker.ca_file: this file cannot be read: no files are read here (found "none.pem"); name a file that the daemon's user may read"#,
        ],
    );
    check(
        "unit = 1\n",
        "unit = 1\nread_across_gaps = \"false\"\n",
        &[
            r#"20:20: device[press-plc].read_across_gaps: true or false belongs here, and this is a text (found "false"); write false without quotes"#,
        ],
    );
}

#[test]
fn an_unknown_key_is_answered_with_the_nearest_or_with_its_place() {
    check("[broker]", "[brokr]", &["4:2: brokr: unknown table (found brokr); did you mean broker?"]);
    check(
        "[[device.sensor]]\nid = \"B",
        "[[sensor]]\nid = \"B",
        &[
            "26:1: warning: device[meter]: this device has no sensors, and is never read; add [[device.sensor]]",
            "31:3: sensor: unknown table (found sensor); a sensor stands below its device: [[device.sensor]]",
        ],
    );
    check(
        r#"unit = "°C""#,
        "unit = \"°C\"\nvalid_min = 3",
        &[
            "25:1: device[press-plc].sensor[A_LINE1_042].valid_min: unknown key in device.sensor (found valid_min); did you mean valid?",
        ],
    );
    check(
        r#"id = "meter""#,
        "id = \"meter\"\nslave_id = 5",
        &["28:1: device[meter].slave_id: unknown key in device (found slave_id); did you mean unit?"],
    );
    check(
        r#"id = "meter""#,
        "id = \"meter\"\nxyzzy = 5",
        &[
            "28:1: device[meter].xyzzy: unknown key in device (found xyzzy); remove it, or use one of: id, name, link, unit, poll_every, max_registers, max_bits, read_across_gaps, merge, forbidden, align, heartbeat, identify, sensor",
        ],
    );
    check(
        "[[link]]\nid = \"press",
        "[mqtt]\n[[link]]\nid = \"press",
        &["7:2: mqtt: unknown table (found mqtt); did you mean broker?"],
    );
}

#[test]
fn a_list_of_tables_is_written_as_one() {
    check(
        "[[device]]\nid = \"meter\"",
        "[device]\nid = \"meter\"",
        &[
            "26:2: this stands in the file twice (found device); write [[device]] each time if there are several, or remove one of them",
        ],
    );
    check(
        "[gateway]",
        "[[gateway]]",
        &[
            "1:1: gateway: one table belongs here, and this is a list (found [[gateway]]); write [gateway], with single brackets",
        ],
    );
    check(
        "[[link]]\nid = \"press",
        "[publish]\nqos = 0\n[publish]\nqos = 1\n[[link]]\nid = \"press",
        &[
            "9:2: this stands in the file twice (found publish); remove one of them",
            "10:1: publish.qos: this stands in the file twice (found qos); remove one of them",
        ],
    );
}

#[test]
fn what_is_no_toml_is_said_in_words_and_hides_nothing_else() {
    check("[broker]", "[broker", &["4:2: this is no TOML: unclosed table, expected `]` (found broker)"]);
    check(
        "unit = 5",
        "unit 5",
        &["29:1: device[meter].unit: a key is followed by = and its value (found unit 5); write unit = 5"],
    );
    check(
        "unit = 5",
        "unit: 5",
        &["29:1: device[meter].unit: a key is followed by = and its value (found unit: 5); write unit = 5"],
    );
    check(
        "unit = 5",
        "unit =",
        &["29:1: device[meter].unit: the key has no value (found unit =); write it behind the ="],
    );
    check(
        "unit = 5",
        "unit = 5\nunit = 6",
        &["30:1: device[meter].unit: this stands in the file twice (found unit); remove one of them"],
    );
    check(
        r#"parity = "even""#,
        "parity = even",
        &[r#"14:10: link[rs485-a].parity: a text stands in quotes (found even); write "even""#],
    );
    check(
        r#"tcp = "10.0.0.5:502""#,
        "tcp = 10.0.0.5:502",
        &[r#"9:7: link[press-tcp].tcp: a text stands in quotes (found 10.0.0.5:502); write "10.0.0.5:502""#],
    );
    check(
        r#"parity = "even""#,
        "local_echo = True",
        &["14:14: link[rs485-a].local_echo: this is neither true nor false (found True); write true"],
    );
    check(
        r#"parity = "even""#,
        "parity = \"even\nbaud = \"x\"",
        &[
            "14:11: link[rs485-a].parity: this text does not end (found even); close the quotes in the same line",
            r#"15:8: link[rs485-a].baud: a whole number belongs here, and this is a text (found "x")"#,
        ],
    );
    check(
        "address = 100",
        "address = 1 00",
        &["23:39: device[press-plc].sensor[A_LINE1_042].read.address: a number has no blanks (found 1 00); write 100"],
    );
    check(
        "unit = 1\n",
        "unit 1\nmax_registers = 200\n",
        &[
            "19:1: device[press-plc].unit: a key is followed by = and its value (found unit 1); write unit = 1",
            "20:17: device[press-plc].max_registers: the most registers that Modbus lets one read ask for is 1 to 125 (found 200); use 125 at the most",
        ],
    );
}
