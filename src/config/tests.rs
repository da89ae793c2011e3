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

/// What is said of the right file with one text replaced, each as `line:column: path: message (found …); suggestion`.
fn said(from: &str, to: &str) -> Vec<String> {
    assert!(PLANT.contains(from), "{from:?} stands in the plant");
    let faults = match Config::parse(&PLANT.replacen(from, to, 1), "f") {
        Ok(parsed) => parsed.warnings,
        Err(faults) => {
            assert!(faults.errors() > 0);
            faults.iter().cloned().collect()
        }
    };
    faults.iter().map(|fault| fault.to_string().trim_start_matches("f:").to_owned()).collect()
}

fn check(from: &str, to: &str, expected: &[&str]) {
    assert_eq!(said(from, to), expected, "{from:?} replaced by {to:?}");
}

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
fn case_c55_numbers_with_leading_zeros_are_refused() {
    check(
        "address = 100",
        "address = 0012",
        &[
            "23:39: device[press-plc].sensor[A_LINE1_042].read.address: a number with leading zeros is refused, because some programs read it as octal (found 0012); remove the zeros: 12",
        ],
    );
    check(
        "unit = 5",
        "unit = 05",
        &[
            "29:8: device[meter].unit: a number with leading zeros is refused, because some programs read it as octal (found 05); remove the zeros: 5",
        ],
    );
    check(
        "address = 100",
        "address = 0x0G",
        &[
            "23:39: device[press-plc].sensor[A_LINE1_042].read.address: this is no TOML: invalid hexadecimal number (found 0x0G)",
        ],
    );
    check(
        "address = 100",
        "address = 0X12",
        &[
            "23:39: device[press-plc].sensor[A_LINE1_042].read.address: the prefix of a number is lower case (found 0X12); write 0x12",
        ],
    );
}

#[test]
fn case_c58_a_reference_is_never_guessed_and_never_given_beside_an_address() {
    check(
        "address = 100",
        "address = 400101",
        &[
            "23:39: device[press-plc].sensor[A_LINE1_042].read.address: an address is 0 to 65535, as the request carries it (found 400101); write reference = 400101 in place of table and address if a manual numbers it so (holding register at address 100)",
        ],
    );
    check(
        "address = 100",
        "address = 65535",
        &[
            "23:39: device[press-plc].sensor[A_LINE1_042].read.address: 2 registers from 65535 end beyond address 65535 (found 65535); 65534 is the highest address of this type",
        ],
    );
    check(
        "address = 100",
        "address = 70000000",
        &[
            "23:39: device[press-plc].sensor[A_LINE1_042].read.address: an address is 0 to 65535 (found 70000000); use 65535 at the most",
        ],
    );
    check(
        "address = 100",
        "address = 100, reference = 40101",
        &[
            "23:44: device[press-plc].sensor[A_LINE1_042].read.reference: address and reference both say where the register is (found reference); keep address for the zero-based PDU address, or reference for the number in a manual that counts 40001, 40002, …",
        ],
    );
    check(
        r#"table = "holding", address = 100"#,
        r#"table = "input", reference = 40101"#,
        &[
            r#"23:18: device[press-plc].sensor[A_LINE1_042].read.table: reference 40101 is in the table holding, and this says another (found "input"); remove table, or write table and address in place of reference"#,
        ],
    );
    check(
        r#"table = "holding", address = 100"#,
        r#"table = "holding", reference = 40101"#,
        &[
            r#"23:18: device[press-plc].sensor[A_LINE1_042].read.table: reference 40101 names the table holding already (found "holding"); remove table, or write table and address in place of reference"#,
        ],
    );
    check(
        r#"table = "holding", address = 100"#,
        "reference = 40000",
        &[
            "23:22: device[press-plc].sensor[A_LINE1_042].read.reference: references count from 1 (found 40000); the first holding register is 40001; use address for zero-based numbers",
        ],
    );
    check(
        r#"table = "holding", address = 100"#,
        "reference = 1",
        &[
            r#"23:32: device[press-plc].sensor[A_LINE1_042].read.type: the table coil holds single bits, and no f32 (found "f32"); write type = "bool", or read from holding or input"#,
        ],
    );
    check(
        "address = 100",
        r#"reference = "4x101""#,
        &[
            r#"23:41: device[press-plc].sensor[A_LINE1_042].read.reference: a reference is 1 to 9999 (coil), 10001 to 19999 (discrete), 30001 to 39999 (input), 40001 to 49999 (holding), or has six digits (found "4x101"); use table and address for the zero-based PDU address"#,
        ],
    );
    check(
        r#"table = "holding", address = 100"#,
        r#"reference = "00001""#,
        &[
            r#"23:38: device[press-plc].sensor[A_LINE1_042].read.type: the table coil holds single bits, and no f32 (found "f32"); write type = "bool", or read from holding or input"#,
        ],
    );
    check(
        r#"table = "holding", address = 100"#,
        "reference = true",
        &[
            "23:22: device[press-plc].sensor[A_LINE1_042].read.reference: a reference is a number, or a text of five or six digits (found true); write reference = 40101",
        ],
    );
    check(
        r#"table = "holding", address = 100"#,
        "reference = 470000",
        &[
            "23:22: device[press-plc].sensor[A_LINE1_042].read.reference: the register after 65536 does not exist (found 470000); use table and address for the zero-based PDU address",
        ],
    );
}

#[test]
fn where_a_sensor_is_read_is_complete_and_possible() {
    check(
        r#"table = "holding""#,
        r#"table = "holdng""#,
        &[
            r#"23:18: device[press-plc].sensor[A_LINE1_042].read.table: this is none of: coil, discrete, holding, input (found "holdng"); did you mean "holding"?"#,
        ],
    );
    check(
        r#"table = "holding""#,
        r#"table = "coil""#,
        &[
            r#"23:48: device[press-plc].sensor[A_LINE1_042].read.type: the table coil holds single bits, and no f32 (found "f32"); write type = "bool", or read from holding or input"#,
        ],
    );
    check(
        r#"table = "holding", "#,
        "",
        &[r#"23:8: device[press-plc].sensor[A_LINE1_042].read.table: table is missing; add table = "holding""#],
    );
    check(
        "address = 100, ",
        "",
        &[
            "23:8: device[press-plc].sensor[A_LINE1_042].read.address: address is missing; add address = 100 (zero-based), or reference = 40101 in place of table and address",
        ],
    );
    check(
        ", type = \"f32\" }\nunit",
        " }\nunit",
        &[r#"23:8: device[press-plc].sensor[A_LINE1_042].read.type: type is missing; add type = "u16""#],
    );
    check(
        "address = 100",
        "adress = 100",
        &[
            "23:29: device[press-plc].sensor[A_LINE1_042].read.adress: unknown key in device.sensor.read (found adress); did you mean address?",
        ],
    );
    check(
        "address = 100",
        "address = -1",
        &[
            "23:39: device[press-plc].sensor[A_LINE1_042].read.address: an address is 0 to 65535 (found -1); use 0 at the least",
        ],
    );
    check(
        "read = { table = \"holding\", address = 100, type = \"f32\" }\nunit",
        "read = 100\nunit",
        &[
            r#"23:8: device[press-plc].sensor[A_LINE1_042].read: a table belongs here, and this is a whole number (found 100); write { table = "holding", address = 100, type = "u16" }"#,
        ],
    );
    check(
        "read = { table = \"holding\", address = 100, type = \"f32\" }\nunit",
        "unit",
        &[
            r#"21:1: device[press-plc].sensor[A_LINE1_042].read: read is missing; add read = { table = "holding", address = 100, type = "u16" }"#,
        ],
    );
}

#[test]
fn a_type_and_its_table_agree() {
    check(
        "type = \"f32\" }\nunit",
        "type = \"float\" }\nunit",
        &[
            r#"23:51: device[press-plc].sensor[A_LINE1_042].read.type: this is none of: bool, u16, i16, u32, i32, u64, i64, f32, f64, string (found "float"); did you mean "f32"?"#,
        ],
    );
    check(
        "type = \"f32\" }\nunit",
        "type = \"bool\" }\nunit",
        &[
            "23:8: device[press-plc].sensor[A_LINE1_042].read.bit: a register has 16 bits, and bit says which; add bit = 0 for the least significant, up to 15; or read a coil",
        ],
    );
    check(
        "type = \"f32\" }\nunit",
        "type = \"bool\", bit = 16 }\nunit",
        &[
            "23:65: device[press-plc].sensor[A_LINE1_042].read.bit: a bit of a register is 0 to 15 (found 16); use 15 at the most",
        ],
    );
    check(
        "type = \"f32\" }\nunit",
        "type = \"u16\", bit = 1 }\nunit",
        &[
            r#"23:58: device[press-plc].sensor[A_LINE1_042].read.bit: u16 has no single bit (found bit); write type = "bool", or remove bit"#,
        ],
    );
    check(
        "type = \"f32\" }\nunit",
        "type = \"string\" }\nunit",
        &["23:8: device[press-plc].sensor[A_LINE1_042].read.registers: registers is missing; add registers = 8"],
    );
    check(
        "type = \"f32\" }\nunit",
        "type = \"u16\", registers = 2 }\nunit",
        &[
            "23:58: device[press-plc].sensor[A_LINE1_042].read.registers: u16 has its own number of registers (found registers); remove registers; only a string has it",
        ],
    );
    check(
        r#"table = "holding", address = 100, type = "f32""#,
        r#"table = "coil", address = 100, bit = 3"#,
        &[
            "23:41: device[press-plc].sensor[A_LINE1_042].read.bit: each address of the table coil is one bit (found bit); remove bit",
        ],
    );
    check(
        "type = \"f32\" }\nunit",
        "type = \"string\", registers = 0 }\nunit",
        &[
            "23:73: device[press-plc].sensor[A_LINE1_042].read.registers: the length of a string in registers is 1 to 125 (found 0); use 1 at the least",
        ],
    );
    check(
        "type = \"f32\" }\nunit",
        "type = \"string\", registers = 126 }\nunit",
        &[
            "23:73: device[press-plc].sensor[A_LINE1_042].read.registers: the length of a string in registers is 1 to 125 (found 126); use 125 at the most",
        ],
    );
}

#[test]
fn case_c57_what_does_not_fit_is_refused_and_never_ignored() {
    check(
        "type = \"f32\" }\nunit",
        "type = \"f32\", byteorder = \"CDAB\" }\nunit",
        &[
            "23:58: device[press-plc].sensor[A_LINE1_042].read.byteorder: unknown key in device.sensor.read (found byteorder); did you mean order?",
        ],
    );
    check(
        "type = \"f32\" }\nunit",
        "type = \"i16\", order = \"CDAB\" }\nunit",
        &[
            r#"23:66: device[press-plc].sensor[A_LINE1_042].read.order: i16 is one register, and has no words to swap (found "CDAB"); remove order"#,
        ],
    );
    check(
        "type = \"f32\" }\nunit",
        "type = \"f32\", scale = \"0,1\" }\nunit",
        &[
            r#"23:66: device[press-plc].sensor[A_LINE1_042].read.scale: a number belongs here, and this is a text (found "0,1"); write 0.1 without quotes"#,
        ],
    );
    check(
        r#"parity = "even""#,
        r#"parity = "even ""#,
        &[r#"14:10: link[rs485-a].parity: this is none of: none, even, odd (found "even "); did you mean "even"?"#],
    );
    check(
        r#"parity = "even""#,
        r#"data_bits = "8""#,
        &[
            r#"14:13: link[rs485-a].data_bits: a whole number belongs here, and this is a text (found "8"); write 8 without quotes"#,
        ],
    );
    check(
        r#"unit = "°C""#,
        "unit = \"°C\"\nrange = [120, -20]",
        &[
            "25:9: device[press-plc].sensor[A_LINE1_042].range: the low end of a range comes first, and below the high one (found [120, -20]); write [-20, 120]",
        ],
    );
}

#[test]
fn an_order_fits_its_type() {
    check(
        "type = \"f32\" }\nunit",
        "type = \"i16\", order = \"DCBA\" }\nunit",
        &[
            r#"23:66: device[press-plc].sensor[A_LINE1_042].read.order: i16 is one register, and has no words to swap (found "DCBA"); write "BADC" if the bytes of a register are swapped, or remove order"#,
        ],
    );
    check(
        "type = \"f32\" }\nunit",
        "type = \"f32\", order = \"ABCDEFGH\" }\nunit",
        &[
            r#"23:66: device[press-plc].sensor[A_LINE1_042].read.order: ABCDEFGH orders 8 bytes, and f32 is another type (found "ABCDEFGH"); write "ABCD""#,
        ],
    );
    check(
        "type = \"f32\" }\nunit",
        "type = \"f32\", order = \"abcd\" }\nunit",
        &[
            r#"23:66: device[press-plc].sensor[A_LINE1_042].read.order: this is none of: ABCD, CDAB, BADC, DCBA (found "abcd"); did you mean "ABCD"?"#,
        ],
    );
    check(
        "type = \"f32\" }\nunit",
        "type = \"f32\", order = \"little-endian\" }\nunit",
        &[
            r#"23:66: device[press-plc].sensor[A_LINE1_042].read.order: this is none of: ABCD, CDAB, BADC, DCBA (found "little-endian"); did you mean "DCBA"?"#,
        ],
    );
    check(
        "type = \"f32\" }\nunit",
        "type = \"f32\", order = \"AACD\" }\nunit",
        &[
            r#"23:66: device[press-plc].sensor[A_LINE1_042].read.order: this is none of: ABCD, CDAB, BADC, DCBA (found "AACD"); did you mean "ABCD"?"#,
        ],
    );
    check(
        "type = \"f32\" }\nunit",
        "type = \"string\", registers = 4, order = \"CDAB\" }\nunit",
        &[
            r#"23:84: device[press-plc].sensor[A_LINE1_042].read.order: a string has no word order (found "CDAB"); remove order"#,
        ],
    );
    check(
        r#"table = "holding", address = 100, type = "f32""#,
        r#"table = "coil", address = 100, order = "BADC""#,
        &[
            "23:41: device[press-plc].sensor[A_LINE1_042].read.order: a single bit has no order (found order); remove it",
        ],
    );
}

#[test]
fn a_scale_is_a_number_that_can_be_kept_exactly() {
    check(
        "type = \"f32\" }\nunit",
        "type = \"f32\", scale = 0,1 }\nunit",
        &[
            "23:66: device[press-plc].sensor[A_LINE1_042].read.scale: a number is written with a decimal point (found 0,1); write 0.1",
        ],
    );
    check(
        "type = \"f32\" }\nunit",
        "type = \"f32\", scale = 0 }\nunit",
        &[
            "23:66: device[press-plc].sensor[A_LINE1_042].read.scale: a scale of 0 makes every reading the same (found 0); write 1, or leave scale out",
        ],
    );
    check(
        "type = \"f32\" }\nunit",
        "type = \"f32\", scale = 0.123456789 }\nunit",
        &[
            "23:66: device[press-plc].sensor[A_LINE1_042].read.scale: 0.123456789 has more than 8 digits, and could not be kept exactly (found 0.123456789); use a number of at most 8 digits, such as 0.1",
        ],
    );
    check(
        "type = \"f32\" }\nunit",
        "type = \"f32\", scale = nan }\nunit",
        &[
            "23:66: device[press-plc].sensor[A_LINE1_042].read.scale: this number cannot be kept exactly (found nan); use a number with fewer digits",
        ],
    );
    check(
        r#"unit = "°C""#,
        "unit = \"°C\"\nscale = 0.1",
        &[
            "25:1: device[press-plc].sensor[A_LINE1_042].scale: unknown key in device.sensor (found scale); scale belongs into device.sensor.read",
        ],
    );
    check(
        "type = \"f32\" }\nunit",
        "type = \"bool\", bit = 3, scale = 0.1 }\nunit",
        &["23:68: device[press-plc].sensor[A_LINE1_042].read.scale: a bool is not scaled (found scale); remove it"],
    );
    check(
        "type = \"f32\" }\nunit",
        "type = \"string\", registers = 2, offset = 1 }\nunit",
        &["23:76: device[press-plc].sensor[A_LINE1_042].read.offset: a string is not scaled (found offset); remove it"],
    );
    check(
        "type = \"f32\" }\nunit",
        "type = \"u16\", offset = 123456789 }\nunit",
        &[
            "23:67: device[press-plc].sensor[A_LINE1_042].read.offset: 123456789 has more than 8 digits, and could not be kept exactly (found 123456789); use a number of at most 8 digits, such as 0.1",
        ],
    );
}

#[test]
fn a_range_has_a_low_and_a_high_end() {
    check(
        r#"unit = "°C""#,
        "unit = \"°C\"\nrange = [-20,5, 120]",
        &[
            "25:9: device[press-plc].sensor[A_LINE1_042].range: a range is its low and its high end (found [-20,5, 120]); write [-20, 120]",
        ],
    );
    check(
        r#"unit = "°C""#,
        "unit = \"°C\"\nrange = [5, 5]",
        &[
            "25:9: device[press-plc].sensor[A_LINE1_042].range: the low end of a range comes first, and below the high one (found [5, 5]); leave the range out if there is none",
        ],
    );
    check(
        r#"unit = "°C""#,
        "unit = \"°C\"\nrange = [\"0\", 1]",
        &[
            r#"25:10: device[press-plc].sensor[A_LINE1_042].range[#1]: a number belongs here, and this is a text (found "0"); write 0 without quotes"#,
        ],
    );
    check(
        "type = \"f32\" }\nunit = \"°C\"",
        "type = \"bool\", bit = 0 }\nrange = [0, 1]",
        &["24:1: device[press-plc].sensor[A_LINE1_042].range: only numbers have a range (found range); remove it"],
    );
}

#[test]
fn case_c04_a_code_for_no_value_is_as_wide_as_its_type() {
    check(
        r#"unit = "°C""#,
        "unit = \"°C\"\nno_value = [\"0xFFFF\", \"0x7FC00000\", 0x1]",
        &[
            r#"25:13: device[press-plc].sensor[A_LINE1_042].no_value[#1]: the code has 16 bits, and f32 has 32 (found "0xFFFF"); write all 8 digits: "0x0000FFFF" or "0xFFFFFFFF", as the manual has it"#,
            r#"25:37: device[press-plc].sensor[A_LINE1_042].no_value[#3]: the code has 4 bits, and f32 has 32 (found 0x1); write all 8 digits: "0x00000001" or "0xFFFFFFF1", as the manual has it"#,
        ],
    );
    check(
        r#"unit = "°C""#,
        "unit = \"°C\"\nno_value = \"0xFFFF\"",
        &[
            r#"25:12: device[press-plc].sensor[A_LINE1_042].no_value: a list belongs here, and this is a text (found "0xFFFF"); write [ … ]"#,
        ],
    );
    check(
        r#"unit = "°C""#,
        "unit = \"°C\"\nno_value = [\"FFFF\"]",
        &[
            r#"25:13: device[press-plc].sensor[A_LINE1_042].no_value[#1]: a code is hexadecimal with all its digits, as in "0x7FC00000", or a decimal number (found "FFFF"); write 8 hexadecimal digits, as in "0x80000000""#,
        ],
    );
    check(
        "type = \"f32\" }\nunit = \"°C\"",
        "type = \"i16\" }\nno_value = [-32769, \"0x08000\", true]",
        &[
            r#"24:13: device[press-plc].sensor[A_LINE1_042].no_value[#1]: the number does not fit the 16 bits of i16 (found -32769); write 4 hexadecimal digits, as in "0x8000""#,
            r#"24:21: device[press-plc].sensor[A_LINE1_042].no_value[#2]: the code has 20 bits, and i16 has 16 (found "0x08000"); write 4 hexadecimal digits, as in "0x8000""#,
            r#"24:32: device[press-plc].sensor[A_LINE1_042].no_value[#3]: a code is a text such as "0x7FC00000" (found true); write it in quotes"#,
        ],
    );
    check(
        "type = \"f32\" }\nunit = \"°C\"",
        "type = \"string\", registers = 2 }\nno_value = [\"0x8000\"]",
        &[
            r#"24:1: device[press-plc].sensor[A_LINE1_042].no_value: single bits and strings have no codes for "no value" (found no_value); remove it"#,
        ],
    );
    check(
        r#"unit = "°C""#,
        "unit = \"°C\"\nno_value = [0x7FC00000, 0x7FC00000, 0x7FC00000, 0x7FC00000, 0x7FC00000, 0x7FC00000, 0x7FC00000, 0x7FC00000, 0x7FC00000, 0x7FC00000, 0x7FC00000, 0x7FC00000, 0x7FC00000, 0x7FC00000, 0x7FC00000, 0x7FC00000, 0x7FC00000, ]",
        &[
            "25:12: device[press-plc].sensor[A_LINE1_042].no_value: 16 codes are the most (found [0x7FC00000, 0x7FC00000, 0x7FC00000, 0x7FC00000, 0x7FC00000,…); keep those that the device's manual names",
        ],
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
fn a_sensor_id_has_the_form_of_the_plant() {
    check(
        r#"id = "A_LINE1_042""#,
        r#"id = "A-LINE1-42""#,
        &[
            r#"22:6: device[press-plc].sensor[A-LINE1-42].id: sensor ids of this plant have the form PLANT_ZONE_NNN (found "A-LINE1-42"); "A_LINE1_042" would do"#,
        ],
    );
    check(
        r#"id = "A_LINE1_042""#,
        r#"id = "OELTEMP""#,
        &[
            r#"22:6: device[press-plc].sensor[OELTEMP].id: sensor ids of this plant have the form PLANT_ZONE_NNN (found "OELTEMP"); such an id is "PLANT_ZONE_001"; or change sensors.id_format"#,
        ],
    );
    check(
        r#"id = "B_POWER_001""#,
        r#"id = "A_LINE1_042""#,
        &[
            r#"32:6: device[meter].sensor[A_LINE1_042].id: device[press-plc].sensor[A_LINE1_042] has this id (found "A_LINE1_042"); give each sensor an id of its own, over all devices"#,
        ],
    );
    check(
        "[[link]]\nid = \"press",
        "[sensors]\nid_format = \"plant_NNN\"\n[[link]]\nid = \"press",
        &[
            r#"8:13: sensors.id_format: a pattern is capital letters for words, N for digits, and `_`, `-` or `.` between them (found "plant_NNN"); write "PLANT_NNN""#,
        ],
    );
    check(
        r#"id = "A_LINE1_042""#,
        "id = 42",
        &[
            r#"22:6: device[press-plc].sensor[#1].id: a text belongs here, and this is a whole number (found 42); write "42""#,
        ],
    );
    check(
        "[[link]]\nid = \"press",
        "[sensors]\nid_format = \"PLANT ZONE\"\n[[link]]\nid = \"press",
        &[
            r#"8:13: sensors.id_format: a pattern is capital letters for words, N for digits, and `_`, `-` or `.` between them (found "PLANT ZONE"); write it as "PLANT_ZONE_NNN"; "*" takes every name"#,
        ],
    );
    check(
        "[[link]]\nid = \"press",
        "[sensors]\nid_format = \"ZONE-NN\"\n[[link]]\nid = \"press",
        &[
            r#"24:6: device[press-plc].sensor[A_LINE1_042].id: sensor ids of this plant have the form ZONE-NN (found "A_LINE1_042"); such an id is "ZONE-01"; or change sensors.id_format"#,
            r#"34:6: device[meter].sensor[B_POWER_001].id: sensor ids of this plant have the form ZONE-NN (found "B_POWER_001"); such an id is "ZONE-01"; or change sensors.id_format"#,
        ],
    );
}

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
            "25:1: device[press-plc].sensor[A_LINE1_042].valid_min: unknown key in device.sensor (found valid_min); did you mean range?",
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
            "28:1: device[meter].xyzzy: unknown key in device (found xyzzy); remove it, or use one of: id, name, link, unit, poll_every, max_registers, read_across_gaps, sensor",
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
