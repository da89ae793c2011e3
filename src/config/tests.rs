//! What is said of a wrong file.

use super::*;

/// A right file; each test spoils it.
const PLANT: &str = r#"[gateway]
id = "gw-line1"

[broker]
url = "mqtt://10.0.0.2:1883"

[[link]]
id = "press-tcp"
tcp = "10.0.0.5:502"

[[link]]
id = "rs485-a"
serial = "/dev/serial/by-id/usb-a"
parity = "even"

[[device]]
id = "press-plc"
link = "press-tcp"
unit = 1

[[device.sensor]]
id = "A_LINE1_042"
read = { table = "holding", address = 100, type = "f32" }
unit = "°C"

[[device]]
id = "meter"
link = "rs485-a"
unit = 5

[[device.sensor]]
id = "B_POWER_001"
read = { table = "input", address = 0, type = "f32" }
"#;

#[test]
fn try_out() {
    let cases = [
        ("unit = 1", "unit = 300"),
        ("unit = 5", "unit = 248"),
        ("unit = 5", "unit = 0"),
        ("unit = 5", "unit = \"5\""),
        ("link = \"press-tcp\"\n", "link = \"pres-tcp\"\n"),
        ("id = \"A_LINE1_042\"", "id = \"A-LINE1-42\""),
        ("id = \"A_LINE1_042\"", "id = \"OELTEMP\""),
        ("id = \"B_POWER_001\"", "id = \"A_LINE1_042\""),
        ("id = \"meter\"", "id = \"press-plc\""),
        ("id = \"meter\"", "id = \"meter 1\""),
        ("id = \"rs485-a\"\n", "id = \"press-tcp\"\n"),
        ("address = 100", "address = 0012"),
        ("address = 100", "address = 40101"),
        ("address = 100", "address = 400101"),
        ("address = 100", "address = 65535"),
        ("address = 100", "address = 70000000"),
        ("address = 100", "address = 100, reference = 40101"),
        ("table = \"holding\", address = 100", "table = \"input\", reference = 40101"),
        ("table = \"holding\", address = 100", "table = \"holding\", reference = 40101"),
        ("table = \"holding\", address = 100", "reference = 40000"),
        ("table = \"holding\", address = 100", "reference = 1"),
        ("table = \"holding\"", "table = \"holdng\""),
        ("table = \"holding\"", "table = \"coil\""),
        ("table = \"holding\", ", ""),
        ("address = 100, ", ""),
        (", type = \"f32\" }\nunit", " }\nunit"),
        ("type = \"f32\" }\nunit", "type = \"float\" }\nunit"),
        ("type = \"f32\" }\nunit", "type = \"bool\" }\nunit"),
        ("type = \"f32\" }\nunit", "type = \"bool\", bit = 16 }\nunit"),
        ("type = \"f32\" }\nunit", "type = \"u16\", bit = 1 }\nunit"),
        ("type = \"f32\" }\nunit", "type = \"string\" }\nunit"),
        ("type = \"f32\" }\nunit", "type = \"u16\", registers = 2 }\nunit"),
        ("type = \"f32\" }\nunit", "type = \"i16\", order = \"CDAB\" }\nunit"),
        ("type = \"f32\" }\nunit", "type = \"i16\", order = \"DCBA\" }\nunit"),
        ("type = \"f32\" }\nunit", "type = \"f32\", order = \"ABCDEFGH\" }\nunit"),
        ("type = \"f32\" }\nunit", "type = \"f32\", order = \"abcd\" }\nunit"),
        ("type = \"f32\" }\nunit", "type = \"f32\", byteorder = \"CDAB\" }\nunit"),
        ("type = \"f32\" }\nunit", "type = \"f32\", scale = \"0,1\" }\nunit"),
        ("type = \"f32\" }\nunit", "type = \"f32\", scale = 0,1 }\nunit"),
        ("type = \"f32\" }\nunit", "type = \"f32\", scale = 0 }\nunit"),
        ("type = \"f32\" }\nunit", "type = \"f32\", scale = 0.123456789 }\nunit"),
        ("type = \"f32\" }\nunit", "type = \"f32\", scale = nan }\nunit"),
        ("unit = \"°C\"", "unit = \"°C\"\nscale = 0.1"),
        ("unit = \"°C\"", "unit = \"°C\"\nrange = [120, -20]"),
        ("unit = \"°C\"", "unit = \"°C\"\nrange = [-20,5, 120]"),
        ("unit = \"°C\"", "unit = \"°C\"\nno_value = [\"0xFFFF\", \"0x7FC00000\", 0x1]"),
        ("unit = \"°C\"", "unit = \"°C\"\nno_value = \"0xFFFF\""),
        ("unit = \"°C\"", "unit = \"°C\"\nno_value = [\"FFFF\"]"),
        ("unit = \"°C\"", "unit = \"°C\"\nmax_age = \"100ms\""),
        ("unit = \"°C\"", "unit = \"°C\"\nvalid_min = 3"),
        ("parity = \"even\"", "parity = \"even \""),
        ("parity = \"even\"", "parity = even"),
        ("parity = \"even\"", "data_bits = \"8\""),
        ("parity = \"even\"", "data_bits = 7"),
        ("parity = \"even\"", "baud = 19220"),
        ("parity = \"even\"", "baud = 192"),
        ("parity = \"even\"", "bauds = 19200"),
        ("parity = \"even\"", "tcp = \"10.0.0.6\""),
        ("serial = \"/dev/serial/by-id/usb-a\"\nparity = \"even\"", ""),
        ("/dev/serial/by-id/usb-a", "/dev/ttyUSB0"),
        ("/dev/serial/by-id/usb-a", "ttyUSB0"),
        ("tcp = \"10.0.0.5:502\"", "tcp = \"10.0.0.5:502\"\nbaud = 9600"),
        ("tcp = \"10.0.0.5:502\"", "tcp = \"10.0.0.5:99999\""),
        ("tcp = \"10.0.0.5:502\"", "tcp = \"tcp://10.0.0.5:502\""),
        ("tcp = \"10.0.0.5:502\"", "tcp = \"fe80::1\""),
        ("tcp = \"10.0.0.5:502\"", "tcp = \"10.0.0.5:502\"\ntimeout = 1"),
        ("tcp = \"10.0.0.5:502\"", "tcp = \"10.0.0.5:502\"\ntimeout = \"1 sec\""),
        ("tcp = \"10.0.0.5:502\"", "tcp = \"10.0.0.5:502\"\ntimeout = \"2m\""),
        ("unit = 1\n", "unit = 1\nmax_registers = 126\n"),
        ("unit = 1\n", "unit = 1\nmax_registers = 1\n"),
        ("unit = 1\n", "unit = 1\npoll_every = \"1ms\"\n"),
        ("unit = 1\n", "unit = 1\nread_across_gaps = \"false\"\n"),
        ("mqtt://10.0.0.2:1883", "10.0.0.2:1883"),
        ("mqtt://10.0.0.2:1883", "tcp://10.0.0.2:1883"),
        ("mqtt://10.0.0.2:1883", "mqtt://u:hunter2@10.0.0.2:1883"),
        ("mqtt://10.0.0.2:1883", "mqtt://10.0.0.2:1883/plant"),
        ("mqtt://10.0.0.2:1883", "embedded://0.0.0.0:1883"),
        ("[[link]]\nid = \"press", "[publish]\nqos = 2\n[[link]]\nid = \"press"),
        ("[[link]]\nid = \"press", "[calls]\nmax_deadline = \"5s\"\n[[link]]\nid = \"press"),
        ("[[link]]\nid = \"press", "[sensors]\nid_format = \"plant_NNN\"\n[[link]]\nid = \"press"),
        ("[broker]", "[brokr]"),
        ("[broker]", "[broker"),
        ("[broker]\n", "[broker]\npassword = \"hunter2\"\n"),
        ("[broker]\n", "[broker]\nusername = \"u\"\npassword = \"hunter2\"\n"),
        ("[broker]\n", "[broker]\npasword = \"hunter2\"\n"),
        ("[broker]\n", "[broker]\npassword = hunter2\n"),
        ("[broker]\n", "[broker]\nusername = \"u\"\npassword_file = \"mqtt.pw\"\n"),
        ("[[device]]\nid = \"meter\"", "[device]\nid = \"meter\""),
        ("[[device.sensor]]\nid = \"B", "[[sensor]]\nid = \"B"),
        ("unit = 5", "unit 5"),
        ("unit = 5", "unit: 5"),
        ("unit = 5", "unit ="),
        ("unit = 5", "unit = 5\nunit = 6"),
        ("link = \"rs485-a\"\nunit = 5", "link = \"press-tcp\"\nunit = 1"),
    ];
    for (from, to) in cases {
        assert!(PLANT.contains(from), "{from}");
        let text = PLANT.replacen(from, to, 1);
        println!("### {from:?} -> {to:?}");
        match Config::parse(&text, "f") {
            Ok(parsed) => parsed.warnings.iter().for_each(|fault| println!("{fault}")),
            Err(faults) => faults.iter().for_each(|fault| println!("{fault}")),
        }
    }
}
