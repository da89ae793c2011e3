//! What is said of a wrong link or device.

use super::{Config, check, said};
use crate::registry::sensor::{Endpoint, Parity};

#[test]
fn a_unit_id_is_one_that_the_link_has() {
    check(
        "unit = 1",
        "unit = 300",
        &["19:8: device[press-plc].unit: a unit id is 0 to 255 (found 300); use 255 at the most"],
    );
    check(
        "unit = 5",
        "unit = 248",
        &[
            "29:8: device[meter].unit: a unit id on a serial line is 1 to 247 (found 248); use the address that is set at the device, 1 to 247",
        ],
    );
    check(
        "unit = 5",
        "unit = 0",
        &[
            "29:8: device[meter].unit: 0 calls every device of a line, and none answers (found 0); use the address that is set at the device, 1 to 247",
        ],
    );
    check(
        "unit = 5",
        r#"unit = "5""#,
        &[
            r#"29:8: device[meter].unit: a whole number belongs here, and this is a text (found "5"); write 5 without quotes"#,
        ],
    );
    check(
        "link = \"rs485-a\"\nunit = 5",
        "link = \"press-tcp\"\nunit = 1",
        &[
            "11:1: warning: link[rs485-a]: no device is on this link; add a [[device]] with it, or remove the link",
            "29:8: device[meter].unit: device[press-plc] has this unit id on the same link (found 1); give each device its unit id, or put both lists of sensors below one device",
        ],
    );
    check("unit = 1\n", "", &["16:1: device[press-plc].unit: unit is missing; add unit = 1"]);
}

#[test]
fn an_id_that_is_not_there_is_told_beside_what_cannot_be_read_unless_it_may_stand_there() {
    let both = said("link = \"press-tcp\"\nunit = 1", "link = \"pres-tcp\"\nunit = 0012");
    assert_eq!(both.len(), 2, "{both:?}");
    assert!(both[0].starts_with("18:8: device[press-plc].link: there is no link with this id"), "{both:?}");
    assert!(both[1].starts_with("19:8: device[press-plc].unit: a number with leading zeros"), "{both:?}");
    let declared = said("id = \"press-tcp\"", "id = press-tcp");
    assert!(!declared.iter().any(|fault| fault.contains("there is no link")), "{declared:?}");
}

#[test]
fn an_id_that_is_not_there_is_answered_with_the_nearest() {
    check(
        "link = \"press-tcp\"\n",
        "link = \"pres-tcp\"\n",
        &[
            r#"18:8: device[press-plc].link: there is no link with this id (found "pres-tcp"); did you mean "press-tcp"?"#,
        ],
    );
    check(
        r#"link = "rs485-a""#,
        r#"link = "oven""#,
        &[r#"28:8: device[meter].link: there is no link with this id (found "oven"); use one of: press-tcp, rs485-a"#],
    );
    check(
        r#"link = "rs485-a""#,
        "link = 485",
        &[r#"28:8: device[meter].link: a text belongs here, and this is a whole number (found 485); write "485""#],
    );
}

#[test]
fn case_c34_more_registers_than_the_protocol_allows_are_refused() {
    check(
        "unit = 1\n",
        "unit = 1\nmax_registers = 126\n",
        &[
            "20:17: device[press-plc].max_registers: the most registers that Modbus lets one read ask for is 1 to 125 (found 126); use 125 at the most",
        ],
    );
    check(
        "unit = 1\n",
        "unit = 1\nmax_registers = 1\n",
        &[
            "24:1: device[press-plc].sensor[A_LINE1_042].read: this value has 2 registers, and the device gives 1 at once (found read); raise max_registers of the device to 2, if it can do that",
        ],
    );
    check(
        "unit = 1\n",
        "unit = 1\nmax_registers = 0\n",
        &[
            "20:17: device[press-plc].max_registers: the most registers that Modbus lets one read ask for is 1 to 125 (found 0); use 1 at the least",
        ],
    );
}

#[test]
fn case_c52_a_name_that_changes_at_the_next_plug_is_a_warning() {
    check(
        "/dev/serial/by-id/usb-a",
        "/dev/ttyUSB0",
        &[
            r#"13:10: warning: link[rs485-a].serial: this name may be another adapter after the next plug or start (found "/dev/ttyUSB0"); use the adapter's own name: ls -l /dev/serial/by-id"#,
        ],
    );
    check(
        "/dev/serial/by-id/usb-a",
        "/dev/ttyACM3",
        &[
            r#"13:10: warning: link[rs485-a].serial: this name may be another adapter after the next plug or start (found "/dev/ttyACM3"); use the adapter's own name: ls -l /dev/serial/by-id"#,
        ],
    );
    check(
        "/dev/serial/by-id/usb-a",
        "ttyUSB0",
        &[
            r#"13:10: link[rs485-a].serial: a serial port is given by its whole path (found "ttyUSB0"); write "/dev/ttyUSB0""#,
        ],
    );
    check(
        "/dev/serial/by-id/usb-a",
        "COM3",
        &[
            r#"13:10: link[rs485-a].serial: a serial port is given by its whole path (found "COM3"); write it as "/dev/serial/by-id/…" (ls /dev/serial/by-id lists what is there)"#,
        ],
    );
}

#[test]
fn a_line_has_a_rate_and_characters_that_rtu_knows() {
    check(
        r#"parity = "even""#,
        "data_bits = 7",
        &[
            "14:13: link[rs485-a].data_bits: 7 data bits are for Modbus ASCII; RTU needs all 8 (found 7); write 8, or leave it out",
        ],
    );
    check(
        r#"parity = "even""#,
        "baud = 19220",
        &[
            "14:8: warning: link[rs485-a].baud: this rate is unusual, and not every adapter has it (found 19220); did you mean 19200?",
        ],
    );
    check(
        r#"parity = "even""#,
        "baud = 192",
        &["14:8: link[rs485-a].baud: a line's rate in bit/s is 300 to 1000000 (found 192); use 300 at the least"],
    );
    check(
        r#"parity = "even""#,
        "bauds = 19200",
        &["14:1: link[rs485-a].bauds: unknown key in link (found bauds); did you mean baud?"],
    );
    check(
        r#"parity = "even""#,
        "parity = true",
        &[
            "14:10: link[rs485-a].parity: a text belongs here, and this is true or false (found true); write it in quotes",
        ],
    );
    check(
        r#"parity = "even""#,
        "stop_bits = 3",
        &["14:13: link[rs485-a].stop_bits: the number of stop bits is 1 or 2 (found 3); use 2 at the most"],
    );
    check(
        r#"parity = "even""#,
        r#"local_echo = "yes""#,
        &[
            r#"14:14: link[rs485-a].local_echo: true or false belongs here, and this is a text (found "yes"); write true or false, without quotes"#,
        ],
    );
}

#[test]
fn a_link_leads_to_one_place() {
    check(
        r#"parity = "even""#,
        r#"tcp = "10.0.0.6""#,
        &[
            "13:1: link[rs485-a].serial: a link is either tcp or serial (found serial); remove one of them, or make two links",
        ],
    );
    check(
        "serial = \"/dev/serial/by-id/usb-a\"\nparity = \"even\"",
        "",
        &[
            r#"11:1: link[rs485-a].tcp: a link leads to a TCP endpoint or a serial line; add tcp = "10.0.0.5:502", or serial = "/dev/serial/by-id/…""#,
        ],
    );
    check(
        r#"tcp = "10.0.0.5:502""#,
        "tcp = \"10.0.0.5:502\"\nbaud = 9600",
        &["10:1: link[press-tcp].baud: this belongs to a serial line, and the link is tcp (found baud); remove it"],
    );
    check(
        r#"tcp = "10.0.0.5:502""#,
        r#"tcp = "10.0.0.5:99999""#,
        &[r#"9:7: link[press-tcp].tcp: a port is 1 to 65535 (found "10.0.0.5:99999"); write 10.0.0.5:502"#],
    );
    check(
        r#"tcp = "10.0.0.5:502""#,
        r#"tcp = "tcp://10.0.0.5:502""#,
        &[
            r#"9:7: link[press-tcp].tcp: this is a host and a port, and no URL (found "tcp://10.0.0.5:502"); write "10.0.0.5:502""#,
        ],
    );
    check(
        r#"tcp = "10.0.0.5:502""#,
        r#"tcp = "fe80::1""#,
        &[r#"9:7: link[press-tcp].tcp: an IPv6 address stands in brackets (found "fe80::1"); write [fe80::1]:502"#],
    );
    check(
        r#"tcp = "10.0.0.5:502""#,
        r#"tcp = "10.0.0.5:0""#,
        &[r#"9:7: link[press-tcp].tcp: a port is 1 to 65535 (found "10.0.0.5:0"); write "10.0.0.5:502""#],
    );
    check(
        r#"tcp = "10.0.0.5:502""#,
        r#"tcp = "10.0.0.256""#,
        &[
            r#"9:7: link[press-tcp].tcp: this is no host name or address (found "10.0.0.256"); write it as 10.0.0.5:502, or a name that the network knows"#,
        ],
    );
    check(
        r#"tcp = "10.0.0.5:502""#,
        r#"tcp = """#,
        &[
            r#"9:7: link[press-tcp].tcp: this is no host name or address (found ""); write it as 10.0.0.5:502, or a name that the network knows"#,
        ],
    );
    check(
        r#"parity = "even""#,
        r#"connect_delay = "1s""#,
        &["14:1: link[rs485-a].connect_delay: connect_delay belongs to a tcp link (found connect_delay); remove it"],
    );
    check(
        "serial = \"/dev/serial/by-id/usb-a\"\nparity = \"even\"",
        r#"tcp = "10.0.0.5""#,
        &[
            r#"13:7: warning: link[rs485-a].tcp: link press-tcp leads there, too (found "10.0.0.5"); put all units of a host on one link; many hosts accept one connection only"#,
        ],
    );
    check(
        r#"tcp = "10.0.0.5:502""#,
        r#"serial = "/dev/serial/by-id/usb-a""#,
        &[
            r#"13:10: link[rs485-a].serial: link press-tcp leads there, too (found "/dev/serial/by-id/usb-a"); put all devices of a line on one link"#,
        ],
    );
    check(
        "id = \"rs485-a\"\n",
        "id = \"press-tcp\"\n",
        &[
            r#"12:6: link[press-tcp].id: another link has this id (found "press-tcp"); give each link an id of its own"#,
            r#"28:8: device[meter].link: there is no link with this id (found "rs485-a"); use one of: press-tcp"#,
        ],
    );
}

#[test]
fn a_time_has_a_unit_and_bounds() {
    check(
        r#"tcp = "10.0.0.5:502""#,
        "tcp = \"10.0.0.5:502\"\ntimeout = 1",
        &[
            r#"10:11: link[press-tcp].timeout: a time with its unit belongs here, and this is a whole number (found 1); write "1s" or "1ms""#,
        ],
    );
    check(
        r#"tcp = "10.0.0.5:502""#,
        "tcp = \"10.0.0.5:502\"\ntimeout = \"1 sec\"",
        &[
            r#"10:11: link[press-tcp].timeout: a time is a whole number and one of ms, s, m, h (found "1 sec"); write "1s""#,
        ],
    );
    check(
        r#"tcp = "10.0.0.5:502""#,
        "tcp = \"10.0.0.5:502\"\ntimeout = \"2m\"",
        &[r#"10:11: link[press-tcp].timeout: this time is 10ms to 1m (found "2m"); use "1m" at the most"#],
    );
    check(
        "unit = 1\n",
        "unit = 1\npoll_every = \"1ms\"\n",
        &[r#"20:14: device[press-plc].poll_every: this time is 10ms to 24h (found "1ms"); use "10ms" at the least"#],
    );
    check(
        r#"unit = "°C""#,
        "unit = \"°C\"\nmax_age = \"100ms\"",
        &[
            r#"25:11: warning: device[press-plc].sensor[A_LINE1_042].max_age: the device is read every 1s, so that its value is stale before the next read (found "100ms"); use "3s", or a shorter poll_every"#,
        ],
    );
    check(
        r#"unit = "°C""#,
        "unit = \"°C\"\nmax_age = true",
        &[
            r#"25:11: device[press-plc].sensor[A_LINE1_042].max_age: a time with its unit belongs here, and this is true or false (found true); write it as "1s" or "250ms""#,
        ],
    );
}

#[test]
fn a_converter_leads_to_a_serial_line() {
    let text = |link: &str, unit: &str| {
        format!(
            "[gateway]\nid = \"gw\"\n[broker]\nurl = \"mqtt://localhost\"\n[[link]]\nid = \"oven\"\n{link}\n\
             [[device]]\nid = \"meter\"\nlink = \"oven\"\nunit = {unit}\n[[device.sensor]]\nid = \"A_OVEN_001\"\n\
             read = {{ table = \"holding\", address = 0, type = \"u16\" }}\n"
        )
    };
    let parsed = Config::parse(&text("rtu_over_tcp = \"10.0.0.7:4001\"\nbaud = 9600\nparity = \"none\"", "1"), "f");
    let registry = parsed.expect("no faults").config.registry;
    let (_, link) = registry.links().next().expect("one link");
    let Endpoint::RtuOverTcp { host, port, line } = &link.endpoint else { panic!("{link:?}") };
    assert_eq!((host.as_str(), *port, line.baud, line.parity), ("10.0.0.7", 4001, 9_600, Parity::None));
    let faults = |link: &str, unit: &str| Config::parse(&text(link, unit), "f").expect_err("a fault").to_string();
    assert!(faults("rtu_over_tcp = \"10.0.0.7:4001\"", "248").contains("a unit id on a serial line is 1 to 247"));
    let both = faults("tcp = \"10.0.0.7\"\nrtu_over_tcp = \"10.0.0.7:4001\"", "1");
    assert!(both.contains("a link is either tcp or rtu_over_tcp"), "{both}");
}

#[test]
fn case_c32_a_device_names_the_registers_that_nobody_may_touch() {
    let forbidden = "unit = 1\nforbidden = [{ table = \"holding\", first = 110, last = 119 }]\n";
    check("unit = 1\n", forbidden, &[]);
    let sensor_in_it = forbidden.replace("110, last = 119", "100");
    check(
        "unit = 1\n",
        &sensor_in_it,
        &[
            "24:1: device[press-plc].sensor[A_LINE1_042].read: the device forbids the registers 100 to 100 of holding (found read); remove the sensor, or narrow the range in forbidden",
        ],
    );
    check(
        "unit = 1\n",
        &forbidden.replace("119", "109"),
        &[
            "20:55: device[press-plc].forbidden[#1].last: the last register comes before the first (found 109); write first = 109, last = 110",
        ],
    );
}
