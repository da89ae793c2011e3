//! What can be done to the plant while it runs, as lines of text.
//!
//! Parsing knows no plant: whether a name exists is said when the command is carried out, with the nearest names.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::fault_command::{self, FaultCommand};
use crate::ids::{DeviceId, LinkId, SensorId};
use crate::registry::search;

/// One command to the plant.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// The device falls silent.
    Stop(DeviceId),
    /// The device answers again.
    Start(DeviceId),
    /// The device waits before each answer; zero ends it.
    Slow(DeviceId, Duration),
    /// The device answers every request with this exception; `None` ends it.
    Exception(DeviceId, Option<u8>),
    /// The link is gone: connections are refused, a serial port vanishes.
    Unplug(LinkId),
    /// The link is back.
    Plug(LinkId),
    /// The sensor keeps this value, in its engineering unit.
    Set(SensorId, String),
    /// The sensor's registers keep these words.
    Raw(SensorId, Vec<u16>),
    /// The sensor gives the device's code for "no value".
    NoValue(SensorId),
    /// The sensor moves again.
    Free(SensorId),
    /// The sensor's value now.
    Get(SensorId),
    /// Links and devices and their states; with a device, its sensors and their values.
    List(Option<DeviceId>),
    /// Faults by chance, and the limits of devices and links.
    Fault(FaultCommand),
    /// What can be done.
    Help,
    /// The plant ends.
    Quit,
}

/// Every command: its verb, what follows it, and what it does.
pub const COMMANDS: [(&str, &str, &str); 19] = [
    ("stop", "DEVICE", "the device falls silent"),
    ("start", "DEVICE", "it answers again"),
    ("slow", "DEVICE 500ms|off", "it waits before each answer"),
    ("exception", "DEVICE CODE|off", "it answers every request with this exception"),
    ("unplug", "LINK", "connections are refused and dropped; a serial port vanishes"),
    ("plug", "LINK", "the link is back"),
    ("set", "SENSOR VALUE", "the sensor keeps this value"),
    ("raw", "SENSOR WORD...", "its registers keep these words, such as 0x7FC0 0x0000"),
    ("novalue", "SENSOR", "it gives its code for \"no value\""),
    ("free", "SENSOR", "it moves again"),
    ("get", "SENSOR", "its value now"),
    (
        "fault",
        "DEVICE|LINK KIND PROBABILITY|off [TIME|CODE]",
        "this happens to so many answers; `fault DEVICE|LINK off`",
    ),
    ("faults", "", "the faults that are set, and how many happened"),
    ("limit", "DEVICE REGISTERS|off [silence]", "longer reads get exception 3, or silence"),
    ("lack", "DEVICE TABLE FIRST-LAST", "these registers do not exist; `lack DEVICE off`"),
    ("connections", "LINK NUMBER|off", "further connections are refused"),
    ("list", "[DEVICE]", "links and devices, or the sensors of one device"),
    ("help", "", "this list"),
    ("quit", "", "the plant ends"),
];

/// The longest wait before an answer; a longer one is a silent device.
const SLOWEST: Duration = Duration::from_secs(600);

impl Command {
    /// Reads one line. The error says what was wrong and what would have been right.
    pub fn parse(line: &str) -> Result<Command, String> {
        let line = line.trim();
        let (verb, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let mut words = Words { verb, rest: rest.trim_start() };
        let command = match verb.to_ascii_lowercase().as_str() {
            "stop" => Command::Stop(words.name("DEVICE")?),
            "start" => Command::Start(words.name("DEVICE")?),
            "slow" => Command::Slow(words.name("DEVICE")?, words.delay()?),
            "exception" => Command::Exception(words.name("DEVICE")?, words.exception()?),
            "unplug" => Command::Unplug(words.name("LINK")?),
            "plug" => Command::Plug(words.name("LINK")?),
            "set" => Command::Set(words.name("SENSOR")?, words.everything("VALUE")?.to_owned()),
            "raw" => Command::Raw(words.name("SENSOR")?, words.registers()?),
            "novalue" => Command::NoValue(words.name("SENSOR")?),
            "free" => Command::Free(words.name("SENSOR")?),
            "get" => Command::Get(words.name("SENSOR")?),
            "list" if words.rest.is_empty() => Command::List(None),
            "list" => Command::List(Some(words.name("DEVICE")?)),
            "fault" | "faults" | "limit" | "lack" | "connections" => Command::Fault(fault_command::parse(&mut words)?),
            "help" | "?" => Command::Help,
            "quit" | "exit" => Command::Quit,
            _ => return Err(unknown_verb(verb)),
        };
        match words.next() {
            None => Ok(command),
            Some(extra) => Err(format!("nothing may follow here, and {extra:?} does; write `{}`", usage(verb))),
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Command::Stop(device) => write!(f, "stop {device}"),
            Command::Start(device) => write!(f, "start {device}"),
            Command::Slow(device, delay) if delay.is_zero() => write!(f, "slow {device} off"),
            Command::Slow(device, delay) => write!(f, "slow {device} {}ms", delay.as_millis()),
            Command::Exception(device, None) => write!(f, "exception {device} off"),
            Command::Exception(device, Some(code)) => write!(f, "exception {device} {code}"),
            Command::Unplug(link) => write!(f, "unplug {link}"),
            Command::Plug(link) => write!(f, "plug {link}"),
            Command::Set(sensor, value) => write!(f, "set {sensor} {value}"),
            Command::Raw(sensor, words) => {
                write!(f, "raw {sensor}")?;
                words.iter().try_for_each(|word| write!(f, " {word:#06X}"))
            }
            Command::NoValue(sensor) => write!(f, "novalue {sensor}"),
            Command::Free(sensor) => write!(f, "free {sensor}"),
            Command::Get(sensor) => write!(f, "get {sensor}"),
            Command::List(None) => f.write_str("list"),
            Command::List(Some(device)) => write!(f, "list {device}"),
            Command::Fault(command) => command.fmt(f),
            Command::Help => f.write_str("help"),
            Command::Quit => f.write_str("quit"),
        }
    }
}

/// All commands on one line.
pub fn help() -> String {
    let one = |(verb, rest, does): &(&str, &str, &str)| format!("{} ({does})", format!("{verb} {rest}").trim_end());
    COMMANDS.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// The names that may have been meant, as the end of an error message.
pub fn did_you_mean<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match search::nearest(wanted, known, 3).as_slice() {
        [] => "; `list` and `list DEVICE` show what there is".to_owned(),
        near => format!("; did you mean {}?", near.join(" or ")),
    }
}

fn unknown_verb(verb: &str) -> String {
    let verbs = COMMANDS.map(|(verb, _, _)| verb);
    match search::nearest(verb, verbs, 1).first() {
        Some(near) => format!("{verb:?} is no command; did you mean `{}`?", usage(near)),
        None => format!("{verb:?} is no command; they are {}", verbs.join(", ")),
    }
}

fn usage(verb: &str) -> String {
    let found = COMMANDS.iter().find(|(known, _, _)| known.eq_ignore_ascii_case(verb));
    found.map_or_else(|| verb.to_owned(), |(verb, rest, _)| format!("{verb} {rest}").trim_end().to_owned())
}

/// Reads a time such as `500ms` or `2s`.
pub(super) fn parse_delay(word: &str) -> Result<Duration, String> {
    let split = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
    let unit = match &word[split..] {
        "ms" => 1,
        "s" => 1000,
        _ => return Err(format!("{word:?} is no delay; write it like 500ms, 2s or off")),
    };
    let number: u64 = word[..split].parse().map_err(|_| format!("{word:?} is no delay; write it like 500ms"))?;
    let delay = Duration::from_millis(number.saturating_mul(unit));
    if delay > SLOWEST {
        return Err(format!("{word} is longer than {} s; `stop` makes a device silent", SLOWEST.as_secs()));
    }
    Ok(delay)
}

/// What follows the verb, taken word by word.
pub(super) struct Words<'a> {
    pub(super) verb: &'a str,
    rest: &'a str,
}

impl<'a> Words<'a> {
    pub(super) fn next(&mut self) -> Option<&'a str> {
        let (word, rest) = self.rest.split_once(char::is_whitespace).unwrap_or((self.rest, ""));
        self.rest = rest.trim_start();
        (!word.is_empty()).then_some(word)
    }

    pub(super) fn expect(&mut self, what: &str) -> Result<&'a str, String> {
        self.next().ok_or_else(|| format!("{what} is missing; write `{}`", usage(self.verb)))
    }

    fn everything(&mut self, what: &str) -> Result<&'a str, String> {
        let rest = std::mem::take(&mut self.rest);
        if rest.is_empty() {
            return Err(format!("{what} is missing; write `{}`", usage(self.verb)));
        }
        Ok(rest)
    }

    pub(super) fn name<N: FromStr<Err = crate::ids::NameError>>(&mut self, what: &str) -> Result<N, String> {
        let word = self.expect(what)?;
        word.parse().map_err(|err| format!("{word:?} cannot be a {}: {err}", what.to_lowercase()))
    }

    fn delay(&mut self) -> Result<Duration, String> {
        match self.expect("the delay")? {
            "off" => Ok(Duration::ZERO),
            word => parse_delay(word),
        }
    }

    fn exception(&mut self) -> Result<Option<u8>, String> {
        let word = self.expect("the exception code")?;
        match (word, word.parse()) {
            ("off", _) => Ok(None),
            (_, Ok(0)) | (_, Err(_)) => {
                Err(format!("{word:?} is no exception code; write 1 to 255 (2 is illegal data address), or off"))
            }
            (_, Ok(code)) => Ok(Some(code)),
        }
    }

    fn registers(&mut self) -> Result<Vec<u16>, String> {
        let mut words = Vec::new();
        while let Some(word) = self.next() {
            let number = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
                Some(digits) => u16::from_str_radix(digits, 16),
                None => word.parse(),
            };
            words.push(number.map_err(|_| format!("{word:?} is no register; write 0 to 65535 or 0x0000 to 0xFFFF"))?);
        }
        if words.is_empty() {
            return Err(format!("WORD is missing; write `{}`", usage(self.verb)));
        }
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(line: &str, expected: Command) {
        assert_eq!(Command::parse(line), Ok(expected), "{line:?}");
    }

    fn check_error(line: &str, contains: &str) {
        let error = Command::parse(line).expect_err(line);
        assert!(error.contains(contains), "{error:?} of {line:?} does not say {contains:?}");
    }

    fn device() -> DeviceId {
        "press-plc".parse().unwrap()
    }

    fn sensor() -> SensorId {
        "A_LINE1_042".parse().unwrap()
    }

    #[test]
    fn commands_are_a_verb_and_what_it_acts_on() {
        check("stop press-plc", Command::Stop(device()));
        check("  START   press-plc \r", Command::Start(device()));
        check("slow press-plc 500ms", Command::Slow(device(), Duration::from_millis(500)));
        check("slow press-plc 2s", Command::Slow(device(), Duration::from_secs(2)));
        check("slow press-plc off", Command::Slow(device(), Duration::ZERO));
        check("exception press-plc 2", Command::Exception(device(), Some(2)));
        check("exception press-plc off", Command::Exception(device(), None));
        check("set A_LINE1_042 hello  world", Command::Set(sensor(), "hello  world".into()));
        check("raw A_LINE1_042 0x7FC0 12", Command::Raw(sensor(), vec![0x7FC0, 12]));
        check("list", Command::List(None));
        check("list press-plc", Command::List(Some(device())));
        check("quit", Command::Quit);
    }

    #[test]
    fn an_error_says_what_would_be_right() {
        check_error("", "they are stop, start");
        check_error("explode press-plc", "\"explode\" is no command");
        check_error("stop", "DEVICE is missing; write `stop DEVICE`");
        check_error("stop a/b", "may not stand in a name");
        check_error("stop a b", "write `stop DEVICE`");
        check_error("slow a", "the delay is missing");
        check_error("slow a 500", "write it like 500ms");
        check_error("slow a ms", "write it like 500ms");
        check_error("slow a 99999999999999999999s", "write it like 500ms");
        check_error("slow a 1000s", "`stop` makes a device silent");
        check_error("exception a 0", "1 to 255");
        check_error("exception a 256", "1 to 255");
        check_error("set A_LINE1_042", "VALUE is missing");
        check_error("fault a", "KIND is missing");
        check_error("fault a smoke 1", "they are silence, late");
        check_error("fault a late 2", "is no probability");
        check_error("fault a late 5% soon", "is no delay");
        check_error("fault a silence 5% 2s", "nothing may follow the probability");
        check_error("fault a exception 5% 0", "1 to 255");
        check_error("limit a few", "is no number");
        check_error("limit a 30 shout", "is not `silence`");
        check_error("lack a memory 1", "is no table");
        check_error("lack a holding 9-1", "are no addresses");
        check_error("raw A_LINE1_042", "WORD is missing");
        check_error("raw A_LINE1_042 0x10000", "0x0000 to 0xFFFF");
    }

    #[test]
    fn every_command_that_help_lists_is_understood() {
        for (verb, rest, _) in COMMANDS {
            let rest = rest.replace("500ms|off", "500ms").replace("CODE|off", "2").replace("WORD...", "1");
            let rest = rest.replace("DEVICE|LINK KIND PROBABILITY|off [TIME|CODE]", "press-plc late 5% 2s");
            let rest = rest.replace("TABLE FIRST-LAST", "holding 40-49").replace("NUMBER|off", "1");
            let rest = rest.replace("REGISTERS|off", "60");
            let line = format!("{verb} {}", rest.replace(['[', ']'], ""));
            assert!(Command::parse(&line).is_ok(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_understood_or_refused(line in ".{0,80}") {
            if let Ok(command) = Command::parse(&line) {
                prop_assert_eq!(Command::parse(&command.to_string()), Ok(command));
            }
        }

        #[test]
        fn what_is_printed_is_understood_again(millis in 0..600_000_u64, code in 1..=255_u8, words: Vec<u16>) {
            prop_assume!(!words.is_empty());
            for command in [
                Command::Slow(device(), Duration::from_millis(millis)),
                Command::Exception(device(), Some(code)),
                Command::Raw(sensor(), words),
                Command::Fault(FaultCommand::Connections("press-tcp".parse().unwrap(), Some(code.into()))),
            ] {
                prop_assert_eq!(Command::parse(&command.to_string()), Ok(command));
            }
        }
    }
}
