//! What is said of a wrong sensor.

use super::check;

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
            r#"23:51: device[press-plc].sensor[A_LINE1_042].read.type: this is none of: bool, u16, i16, u32, i32, u64, i64, f32, f64, bcd16, bcd32, string (found "float"); did you mean "f32"?"#,
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
            "23:66: device[press-plc].sensor[A_LINE1_042].read.scale: a number belongs here that others can be compared with (found nan); write a number, or leave it out",
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
