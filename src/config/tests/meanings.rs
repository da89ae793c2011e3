//! What is said of wrong names, bits, factors, doubts and heartbeats.

use super::check;

const READ: &str = "type = \"f32\" }\nunit";

#[test]
fn bits_are_a_range_of_an_unsigned_number() {
    check(READ, "type = \"u16\", bits = [4, 7] }\nunit", &[]);
    check(
        READ,
        "type = \"i16\", bits = [4, 7] }\nunit",
        &[
            r#"23:58: device[press-plc].sensor[A_LINE1_042].read.bits: i16 has no range of bits (found bits); write type = "u16", "u32" or "u64", or remove bits"#,
        ],
    );
    check(
        READ,
        "type = \"u16\", bits = [7, 4] }\nunit",
        &[
            "23:65: device[press-plc].sensor[A_LINE1_042].read.bits: the lowest bit of a range comes first (found [7, 4]); write [4, 7]",
        ],
    );
    check(
        READ,
        "type = \"u16\", bits = [4, 16] }\nunit",
        &[
            "23:69: device[press-plc].sensor[A_LINE1_042].read.bits[#2]: a bit of u16 is 0 to 15 (found 16); use 15 at the most",
        ],
    );
    check(
        READ,
        "type = \"u16\", bits = 4 }\nunit",
        &[
            "23:65: device[press-plc].sensor[A_LINE1_042].read.bits: a list belongs here, and this is a whole number (found 4); write [ … ]",
        ],
    );
    check(
        READ,
        "type = \"u32\", bits = [1, 2, 3] }\nunit",
        &[
            "23:65: device[press-plc].sensor[A_LINE1_042].read.bits: a range of bits is its lowest and its highest bit (found [1, 2, 3]); write [4, 7]",
        ],
    );
}

#[test]
fn names_belong_to_numbers_that_the_type_has() {
    check(READ, "type = \"i16\", enum = { -1 = \"fault\", 0 = \"off\" } }\nunit", &[]);
    check(
        READ,
        "type = \"u16\", enum = { -1 = \"fault\", 00 = \"off\", x = \"on\" } }\nunit",
        &[
            "23:67: device[press-plc].sensor[A_LINE1_042].read.enum.-1: u16 holds no -1 (found -1); use 0 to 65535",
            "23:81: device[press-plc].sensor[A_LINE1_042].read.enum.00: 00 is no whole number, or has leading zeros (found 00); use 0 to 65535",
            "23:93: device[press-plc].sensor[A_LINE1_042].read.enum.x: x is no whole number, or has leading zeros (found x); use 0 to 65535",
        ],
    );
    check(
        READ,
        "type = \"u16\", bits = [0, 1], enum = [\"a\", \"b\", \"c\", \"d\", \"e\"] }\nunit",
        &["23:73: device[press-plc].sensor[A_LINE1_042].read.enum[#5]: these bits hold no 4 (found enum); use 0 to 3"],
    );
    check(
        READ,
        "type = \"u16\", enum = [\"off\", 1] }\nunit",
        &[
            r#"23:73: device[press-plc].sensor[A_LINE1_042].read.enum[#2]: a text belongs here, and this is a whole number (found 1); write "1""#,
        ],
    );
    check(
        READ,
        "type = \"u16\", enum = \"off\" }\nunit",
        &[
            r#"23:65: device[press-plc].sensor[A_LINE1_042].read.enum: a table belongs here, and this is a text (found "off"); write { 0 = "off", 1 = "on" }"#,
        ],
    );
    check(
        READ,
        "type = \"u16\", enum = {} }\nunit",
        &[
            r#"23:65: device[press-plc].sensor[A_LINE1_042].read.enum: there is no name in it (found {}); write { 0 = "off", 1 = "on" }"#,
        ],
    );
    check(
        READ,
        "type = \"f32\", enum = [\"off\"] }\nunit",
        &[
            "23:58: device[press-plc].sensor[A_LINE1_042].read.enum: f32 is no whole number, and has no states (found enum); remove enum",
        ],
    );
    check(
        READ,
        "type = \"u16\", enum = [\"off\"], flags = [\"ready\"] }\nunit",
        &[
            "23:74: device[press-plc].sensor[A_LINE1_042].read.flags: enum names whole numbers, and flags names their bits (found flags); keep one of them",
        ],
    );
    check(
        READ,
        "type = \"u16\", enum = [\"off\"], scale = 0.1 }\nunit",
        &[
            "23:74: device[press-plc].sensor[A_LINE1_042].read.scale: a number with a name is not scaled (found scale); remove it",
        ],
    );
    check(
        READ,
        "type = \"u16\", enum = [\"off\"] }\nrange = [0, 1]\nunit",
        &["24:1: device[press-plc].sensor[A_LINE1_042].range: only numbers have a range (found range); remove it"],
    );
}

#[test]
fn flags_are_bits_of_an_unsigned_number_with_a_name_each() {
    check(READ, "type = \"u32\", flags = { 0 = \"ready\", 31 = \"fault\" } }\nunit", &[]);
    check(
        READ,
        "type = \"u16\", flags = { 16 = \"fault\" } }\nunit",
        &["23:68: device[press-plc].sensor[A_LINE1_042].read.flags.16: u16 has no bit 16 (found 16); use 0 to 15"],
    );
    check(
        READ,
        "type = \"u16\", flags = [\"fault\", \"fault\"] }\nunit",
        &[
            r#"23:76: device[press-plc].sensor[A_LINE1_042].read.flags[#2]: another bit has this name (found "fault"); give each bit a name of its own"#,
        ],
    );
    check(
        READ,
        "type = \"u16\", flags = [\"a+b\"] }\nunit",
        &[
            r#"23:67: device[press-plc].sensor[A_LINE1_042].read.flags[#1]: this name would be read as several, or as none of them (found "a+b"); take another one"#,
        ],
    );
    check(
        READ,
        "type = \"i16\", flags = [\"fault\"] }\nunit",
        &[
            r#"23:58: device[press-plc].sensor[A_LINE1_042].read.flags: flags are the bits of a whole unsigned number (found flags); write type = "u16", "u32" or "u64" without bits, or remove flags"#,
        ],
    );
}

#[test]
fn case_c07_a_factor_stands_beside_its_value_in_the_same_table() {
    check(READ, "type = \"f32\", scale_register = { address = 102 } }\nunit", &[]);
    check(READ, "type = \"f32\", scale_register = { reference = 40099 } }\nunit", &[]);
    check(
        READ,
        "type = \"f32\", scale_register = 102 }\nunit",
        &[
            "23:75: device[press-plc].sensor[A_LINE1_042].read.scale_register: a table belongs here, and this is a whole number (found 102); write { address = 101 }",
        ],
    );
    check(
        READ,
        "type = \"f32\", scale_register = {} }\nunit",
        &[
            "23:75: device[press-plc].sensor[A_LINE1_042].read.scale_register.address: address is missing; add address = 101 (zero-based), or reference = 40102",
        ],
    );
    check(
        READ,
        "type = \"f32\", scale_register = { address = 101 } }\nunit",
        &[
            "23:75: device[press-plc].sensor[A_LINE1_042].read.scale_register: the value itself stands in this register (found { address = 101 }); write the address of its factor",
        ],
    );
    check(
        READ,
        "type = \"f32\", scale_register = { address = 225 } }\nunit",
        &[
            "23:75: device[press-plc].sensor[A_LINE1_042].read.scale_register: one request reads 125 registers at most, and the value and its factor are further apart (found { address = 225 }); check address here and in scale_register; a value and a factor of two requests do not belong together",
        ],
    );
    check(
        READ,
        "type = \"f32\", scale_register = { reference = 30103 } }\nunit",
        &[
            "23:89: device[press-plc].sensor[A_LINE1_042].read.scale_register.reference: this is a register of the table input, and the value is in holding (found 30103); a value and its factor are read in one request, and that has one table",
        ],
    );
    check(
        READ,
        "type = \"bool\", bit = 0, scale_register = { address = 102 } }\nunit",
        &[
            "23:68: device[press-plc].sensor[A_LINE1_042].read.scale_register: only a number has a factor (found scale_register); remove it",
        ],
    );
    check(
        READ,
        "type = \"f32\", scale_register = { addres = 102 } }\nunit",
        &[
            "23:77: device[press-plc].sensor[A_LINE1_042].read.scale_register.addres: unknown key in device.sensor.read.scale_register (found addres); did you mean address?",
        ],
    );
    check(
        READ,
        "type = \"f32\", scale_factor = -1 }\nunit",
        &[
            "23:58: device[press-plc].sensor[A_LINE1_042].read.scale_factor: unknown key in device.sensor.read (found scale_factor); did you mean scale_register?",
        ],
    );
}

#[test]
fn case_c07_a_factor_further_away_than_the_device_reads_at_once_is_refused() {
    check(
        "unit = 1\n\n[[device.sensor]]\nid = \"A_LINE1_042\"\nread = { table = \"holding\", address = 100, type = \"f32\" }",
        "unit = 1\nmax_registers = 8\n\n[[device.sensor]]\nid = \"A_LINE1_042\"\nread = { table = \"holding\", address = 100, type = \"f32\", scale_register = { address = 108 } }",
        &[
            "24:1: device[press-plc].sensor[A_LINE1_042].read: this value and its factor take 9 registers, and the device gives 8 at once (found read); raise max_registers of the device to 9, if it can do that",
        ],
    );
}

#[test]
fn case_c03_an_aligned_device_has_no_value_at_an_odd_address() {
    let aligned = |read: &str| {
        format!(
            "unit = 1\nalign = 2\n\n[[device.sensor]]\nid = \"A_LINE1_042\"\nread = {{ table = \"input\", {read} }}"
        )
    };
    let from = "unit = 1\n\n[[device.sensor]]\nid = \"A_LINE1_042\"\nread = { table = \"holding\", address = 100, type = \"f32\" }";
    check(from, &aligned("address = 2, type = \"f32\""), &[]);
    check(from, &aligned("address = 3, type = \"u16\""), &[]);
    check(
        from,
        &aligned("address = 3, type = \"f32\", order = \"CDAB\""),
        &[
            "24:37: device[press-plc].sensor[A_LINE1_042].read.address: values of this device start at multiples of 2 (found 3); use address 2 or 4; or change align of the device",
        ],
    );
    check(
        "unit = 5",
        "unit = 5\nalign = 3",
        &[
            "30:9: device[meter].align: an alignment is one of: 1, 2, 4 (found 3); write 2 if values of two registers start at even addresses",
        ],
    );
}

#[test]
fn doubts_are_about_quantities_and_fit_each_other() {
    check("unit = \"°C\"", "unit = \"°C\"\nvalid = [-50, 150]\nmax_rate = 5\ndead_band = 0.2\nrange = [0, 100]", &[]);
    check(
        "unit = \"°C\"",
        "unit = \"°C\"\nvalid = [0, 100]\nrange = [-20, 120]",
        &[
            "25:9: warning: device[press-plc].sensor[A_LINE1_042].valid: the range [-20, 120] goes beyond what is valid, so that a value out there is none at all (found [0, 100]); make valid wider than range, or leave range out",
        ],
    );
    check(
        "unit = \"°C\"",
        "unit = \"°C\"\nvalid = [100, 0]\nmax_rate = 0\ndead_band = -1",
        &[
            "25:9: device[press-plc].sensor[A_LINE1_042].valid: the low end of a range comes first, and below the high one (found [100, 0]); write [0, 100]",
            "26:12: device[press-plc].sensor[A_LINE1_042].max_rate: a rate is more than 0 (found 0); leave it out if there is none",
            "27:13: device[press-plc].sensor[A_LINE1_042].dead_band: a dead band is more than 0 (found -1); leave it out if there is none",
        ],
    );
    check(
        "unit = \"°C\"",
        "unit = \"°C\"\nmax_rate = \"5\"",
        &[
            r#"25:12: device[press-plc].sensor[A_LINE1_042].max_rate: a number belongs here, and this is a text (found "5"); write 5 without quotes"#,
        ],
    );
    check(
        "type = \"f32\" }",
        "type = \"bool\", bit = 0 }\nvalid = [0, 1]\nmax_rate = 1\ndead_band = 1",
        &[
            "24:1: device[press-plc].sensor[A_LINE1_042].valid: only numbers have a range (found valid); remove it",
            "25:1: device[press-plc].sensor[A_LINE1_042].max_rate: only numbers have a rate (found max_rate); remove it",
            "26:1: device[press-plc].sensor[A_LINE1_042].dead_band: only numbers have a dead band (found dead_band); remove it",
        ],
    );
    check(
        "unit = \"°C\"",
        "unit = \"°C\"\nmax_step = 5",
        &[
            "25:1: device[press-plc].sensor[A_LINE1_042].max_step: unknown key in device.sensor (found max_step); did you mean max_rate?",
        ],
    );
}

#[test]
fn case_c40_a_heartbeat_is_a_register_and_a_time_in_which_it_can_be_seen_to_change() {
    let beat = |text: &str| format!("unit = 5\nheartbeat = {{ {text} }}");
    check("unit = 5", &beat("table = \"holding\", address = 10, max_unchanged = \"30s\""), &[]);
    check("unit = 5", &beat("reference = 40011, max_unchanged = \"30s\""), &[]);
    check(
        "unit = 5",
        &beat("table = \"holding\", address = 10"),
        &[r#"30:13: device[meter].heartbeat.max_unchanged: max_unchanged is missing; add max_unchanged = "30s""#],
    );
    check(
        "unit = 5",
        &beat("table = \"holding\", address = 10, max_unchanged = \"1s\""),
        &[
            r#"30:64: device[meter].heartbeat.max_unchanged: the device is read every 1s, which shows no change in so short a time (found "1s"); use "2s" at the least"#,
        ],
    );
    check(
        "unit = 5",
        "unit = 5\nheartbeat = 10",
        &[
            r#"30:13: device[meter].heartbeat: a table belongs here, and this is a whole number (found 10); write { table = "holding", address = 10, max_unchanged = "30s" }"#,
        ],
    );
    check(
        "unit = 5",
        "unit = 5\nwatchdog = 10",
        &["30:1: device[meter].watchdog: unknown key in device (found watchdog); did you mean heartbeat?"],
    );
}
