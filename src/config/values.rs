//! The small texts of a configuration: times, numbers, addresses of hosts.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use rust_decimal::Decimal;

/// The time that a text names, or a suggestion of how to write it.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let suggestion = || suggested_duration(text);
    let number: u64 = number.parse().map_err(|_| suggestion())?;
    let factor = unit_in_ms(unit).ok_or_else(suggestion)?;
    number.checked_mul(factor).map(Duration::from_millis).ok_or_else(suggestion)
}

fn unit_in_ms(unit: &str) -> Option<u64> {
    match unit {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    }
}

fn suggested_duration(text: &str) -> String {
    let plain: String = text.to_lowercase().replace(',', ".").split_whitespace().collect();
    let (number, unit) = plain.split_at(plain.find(|c: char| c.is_alphabetic()).unwrap_or(plain.len()));
    let unit = match unit {
        "" | "s" | "sec" | "secs" | "second" | "seconds" => "s",
        "ms" | "msec" | "millis" | "milliseconds" => "ms",
        "m" | "min" | "mins" | "minute" | "minutes" => "m",
        "h" | "hr" | "hour" | "hours" => "h",
        _ => "",
    };
    let in_ms = number.parse::<Decimal>().ok().zip(unit_in_ms(unit)).and_then(|(number, factor)| {
        u64::try_from(number.checked_mul(factor.into())?).ok().filter(|ms| *ms > 0 || number.is_zero())
    });
    match in_ms {
        Some(ms) => format!("write \"{}\"", duration_text(Duration::from_millis(ms))),
        None => "write it as \"250ms\", \"1s\", \"2m\" or \"1h\"".into(),
    }
}

/// A time as a configuration has it, in its largest whole unit.
pub(crate) fn duration_text(duration: Duration) -> String {
    let ms = duration.as_millis();
    match ms {
        0 => "0s".into(),
        _ if ms.is_multiple_of(3_600_000) => format!("{}h", ms / 3_600_000),
        _ if ms.is_multiple_of(60_000) => format!("{}m", ms / 60_000),
        _ if ms.is_multiple_of(1_000) => format!("{}s", ms / 1_000),
        _ => format!("{ms}ms"),
    }
}

/// A number from its digits, exactly; `None` where that cannot be.
pub(super) fn decimal(digits: &str, radix: u32) -> Option<Decimal> {
    if radix != 10 {
        return i64::from_str_radix(digits, radix).ok().map(Decimal::from);
    }
    let (mantissa, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let number = Decimal::from_str_exact(mantissa.trim_start_matches('+')).ok()?.normalize();
    let exponent: i64 = exponent.parse().ok()?;
    let scale = i64::from(number.scale()) - exponent;
    if scale >= 0 {
        return Decimal::try_from_i128_with_scale(number.mantissa(), u32::try_from(scale).ok()?).ok();
    }
    let power = 10_i128.checked_pow(u32::try_from(-scale).ok()?)?;
    Decimal::try_from_i128_with_scale(number.mantissa().checked_mul(power)?, 0).ok()
}

/// The number that a text was meant to be, a decimal comma read as a point.
pub(super) fn number_in(text: &str) -> Option<Decimal> {
    decimal(&text.trim().replace(',', "."), 10)
}

/// The name nearest to a text that is none: other characters replaced, what is too long cut.
pub(super) fn name_like(text: &str) -> Option<String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let replaced: String = text.trim().chars().map(|c| if allowed(c) { c } else { '-' }).collect();
    let name: String = replaced.trim_matches('-').chars().take(crate::ids::NAME_CAPACITY).collect();
    (!name.is_empty()).then_some(name)
}

/// A host and a port; the port may be left out.
pub(super) fn host_and_port(text: &str, default_port: u16) -> Result<(String, u16), HostError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or(HostError::BadHost)?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| HostError::BadHost)?;
            match after {
                "" => (host, None),
                _ => (host, Some(after.strip_prefix(':').ok_or(HostError::BadPort)?)),
            }
        }
        None if text.parse::<std::net::Ipv6Addr>().is_ok() => return Err(HostError::NoBrackets),
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if host.is_empty() || host.len() > 253 || !host.chars().all(is_name) || looks_like_a_wrong_address(host) {
        return Err(HostError::BadHost);
    }
    let port = match port {
        None => default_port,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().map_err(|_| HostError::BadPort)?
        }
        Some(_) => return Err(HostError::BadPort),
    };
    Ok((host.to_owned(), port))
}

/// Digits and dots that are no IPv4 address, such as `10.0.0.256`: no resolver knows such a name.
fn looks_like_a_wrong_address(host: &str) -> bool {
    host.chars().all(|c| c.is_ascii_digit() || c == '.') && host.parse::<Ipv4Addr>().is_err()
}

/// Why a text is no host and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HostError {
    #[error("this is no host name or address")]
    BadHost,
    #[error("a port is 1 to 65535")]
    BadPort,
    #[error("an IPv6 address stands in brackets")]
    NoBrackets,
}

/// The loopback address of the embedded broker.
pub(super) fn loopback(host: &str, port: u16) -> Option<SocketAddr> {
    let address: IpAddr = if host == "localhost" { Ipv4Addr::LOCALHOST.into() } else { host.parse().ok()? };
    address.is_loopback().then(|| SocketAddr::new(address, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_whole_number_and_a_unit() {
        let check = |text: &str, expected: Result<u64, &str>| {
            let found = duration(text).map(|duration| duration.as_millis() as u64);
            assert_eq!(found, expected.map_err(str::to_owned), "{text:?}");
        };
        check("250ms", Ok(250));
        check("1s", Ok(1000));
        check("2m", Ok(120_000));
        check("1h", Ok(3_600_000));
        check("0s", Ok(0));
        check("1 s", Err("write \"1s\""));
        check("1,5 sec", Err("write \"1500ms\""));
        check("0.5h", Err("write \"30m\""));
        check("5", Err("write \"5s\""));
        check("90 Minutes", Err("write \"90m\""));
        check("-1s", Err("write it as \"250ms\", \"1s\", \"2m\" or \"1h\""));
        check("soon", Err("write it as \"250ms\", \"1s\", \"2m\" or \"1h\""));
        check("99999999999999999999h", Err("write it as \"250ms\", \"1s\", \"2m\" or \"1h\""));
    }

    #[test]
    fn a_number_keeps_its_digits() {
        let check = |digits: &str, expected: Option<&str>| {
            assert_eq!(decimal(digits, 10).map(|number| number.to_string()).as_deref(), expected, "{digits}");
        };
        check("0.1", Some("0.1"));
        check("-12.50", Some("-12.5"));
        check("+1.5e-3", Some("0.0015"));
        check("1e5", Some("100000"));
        check("25e-1", Some("2.5"));
        check("inf", None);
        check("nan", None);
        check("1e99", None);
        check("1e-99", None);
        check("0.12345678901234567890123456789", None);
        assert_eq!(decimal("1F", 16).map(|number| number.to_string()).as_deref(), Some("31"));
    }

    #[test]
    fn a_host_stands_with_or_without_its_port() {
        let check = |text: &str, expected: Result<(&str, u16), HostError>| {
            assert_eq!(host_and_port(text, 502), expected.map(|(host, port)| (host.to_owned(), port)), "{text:?}");
        };
        check("10.0.0.5", Ok(("10.0.0.5", 502)));
        check("plc-1.plant.example:1502", Ok(("plc-1.plant.example", 1502)));
        check("[fe80::1]:503", Ok(("fe80::1", 503)));
        check("[::1]", Ok(("::1", 502)));
        check("::1", Err(HostError::NoBrackets));
        check("10.0.0.256", Err(HostError::BadHost));
        check("10.0.0.5:70000", Err(HostError::BadPort));
        check("10.0.0.5:", Err(HostError::BadPort));
        check("10.0.0.5:+5", Err(HostError::BadPort));
        check("", Err(HostError::BadHost));
        check("a b", Err(HostError::BadHost));
        check("[::1", Err(HostError::BadHost));
    }
}
