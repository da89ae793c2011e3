//! What is said of wrong names, bits, factors, doubts and heartbeats.

use super::check;

const READ: &str = "type = \"f32\" }\nunit";

#[test]
fn bits_are_a_range_of_an_unsigned_number() {
    check(READ, "type = \"u16\", bits = [4, 7] }\nunit", &[]);
    check(READ, "type = \"i16\", bits = [4, 7] }\nunit", &["?"]);
    check(READ, "type = \"u16\", bits = [7, 4] }\nunit", &["?"]);
    check(READ, "type = \"u16\", bits = [4, 16] }\nunit", &["?"]);
    check(READ, "type = \"u16\", bits = 4 }\nunit", &["?"]);
    check(READ, "type = \"u32\", bits = [1, 2, 3] }\nunit", &["?"]);
}

#[test]
fn names_belong_to_numbers_that_the_type_has() {
    check(READ, "type = \"i16\", enum = { -1 = \"fault\", 0 = \"off\" } }\nunit", &[]);
    check(READ, "type = \"u16\", enum = { -1 = \"fault\", 00 = \"off\", x = \"on\" } }\nunit", &["?"]);
    check(READ, "type = \"u16\", bits = [0, 1], enum = [\"a\", \"b\", \"c\", \"d\", \"e\"] }\nunit", &["?"]);
    check(READ, "type = \"u16\", enum = [\"off\", 1] }\nunit", &["?"]);
    check(READ, "type = \"u16\", enum = \"off\" }\nunit", &["?"]);
    check(READ, "type = \"u16\", enum = {} }\nunit", &["?"]);
    check(READ, "type = \"f32\", enum = [\"off\"] }\nunit", &["?"]);
    check(READ, "type = \"u16\", enum = [\"off\"], flags = [\"ready\"] }\nunit", &["?"]);
    check(READ, "type = \"u16\", enum = [\"off\"], scale = 0.1 }\nunit", &["?"]);
    check(READ, "type = \"u16\", enum = [\"off\"] }\nrange = [0, 1]\nunit", &["?"]);
}

#[test]
fn flags_are_bits_of_an_unsigned_number_with_a_name_each() {
    check(READ, "type = \"u32\", flags = { 0 = \"ready\", 31 = \"fault\" } }\nunit", &[]);
    check(READ, "type = \"u16\", flags = { 16 = \"fault\" } }\nunit", &["?"]);
    check(READ, "type = \"u16\", flags = [\"fault\", \"fault\"] }\nunit", &["?"]);
    check(READ, "type = \"u16\", flags = [\"a+b\"] }\nunit", &["?"]);
    check(READ, "type = \"i16\", flags = [\"fault\"] }\nunit", &["?"]);
}

#[test]
fn case_c07_a_factor_stands_beside_its_value_in_the_same_table() {
    check(READ, "type = \"f32\", scale_register = { address = 102 } }\nunit", &[]);
    check(READ, "type = \"f32\", scale_register = { reference = 40099 } }\nunit", &[]);
    check(READ, "type = \"f32\", scale_register = 102 }\nunit", &["?"]);
    check(READ, "type = \"f32\", scale_register = {} }\nunit", &["?"]);
    check(READ, "type = \"f32\", scale_register = { address = 101 } }\nunit", &["?"]);
    check(READ, "type = \"f32\", scale_register = { address = 225 } }\nunit", &["?"]);
    check(READ, "type = \"f32\", scale_register = { reference = 30103 } }\nunit", &["?"]);
    check(READ, "type = \"bool\", bit = 0, scale_register = { address = 102 } }\nunit", &["?"]);
    check(READ, "type = \"f32\", scale_register = { addres = 102 } }\nunit", &["?"]);
    check(READ, "type = \"f32\", scale_factor = -1 }\nunit", &["?"]);
}

#[test]
fn case_c07_a_factor_further_away_than_the_device_reads_at_once_is_refused() {
    check(
        "unit = 1\n\n[[device.sensor]]\nid = \"A_LINE1_042\"\nread = { table = \"holding\", address = 100, type = \"f32\" }",
        "unit = 1\nmax_registers = 8\n\n[[device.sensor]]\nid = \"A_LINE1_042\"\nread = { table = \"holding\", address = 100, type = \"f32\", scale_register = { address = 108 } }",
        &["?"],
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
    check(from, &aligned("address = 3, type = \"f32\", order = \"CDAB\""), &["?"]);
    check("unit = 5", "unit = 5\nalign = 3", &["?"]);
}

#[test]
fn doubts_are_about_quantities_and_fit_each_other() {
    check("unit = \"°C\"", "unit = \"°C\"\nvalid = [-50, 150]\nmax_rate = 5\ndead_band = 0.2\nrange = [0, 100]", &[]);
    check("unit = \"°C\"", "unit = \"°C\"\nvalid = [0, 100]\nrange = [-20, 120]", &["?"]);
    check("unit = \"°C\"", "unit = \"°C\"\nvalid = [100, 0]\nmax_rate = 0\ndead_band = -1", &["?"]);
    check("unit = \"°C\"", "unit = \"°C\"\nmax_rate = \"5\"", &["?"]);
    check("type = \"f32\" }", "type = \"bool\", bit = 0 }\nvalid = [0, 1]\nmax_rate = 1\ndead_band = 1", &["?"]);
    check("unit = \"°C\"", "unit = \"°C\"\nmax_step = 5", &["?"]);
}

#[test]
fn case_c40_a_heartbeat_is_a_register_and_a_time_in_which_it_can_be_seen_to_change() {
    let beat = |text: &str| format!("unit = 5\nheartbeat = {{ {text} }}");
    check("unit = 5", &beat("table = \"holding\", address = 10, max_unchanged = \"30s\""), &[]);
    check("unit = 5", &beat("reference = 40011, max_unchanged = \"30s\""), &[]);
    check("unit = 5", &beat("table = \"holding\", address = 10"), &["?"]);
    check("unit = 5", &beat("table = \"holding\", address = 10, max_unchanged = \"1s\""), &["?"]);
    check("unit = 5", "unit = 5\nheartbeat = 10", &["?"]);
    check("unit = 5", "unit = 5\nwatchdog = 10", &["?"]);
}
