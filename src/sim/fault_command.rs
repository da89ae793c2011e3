//! The commands about faults by chance, and about the limits of devices and links.

use std::fmt;
use std::time::Duration;

use super::control::{Words, did_you_mean, parse_delay};
use super::faults::{FaultKind, Refusal, Rule, Span, Target};
use super::relay::LinkFaults;
use crate::ids::{DeviceId, LinkId};
use crate::modbus::Table;
use crate::registry::{LinkIndex, Registry};

/// One command about faults. Targets are names of devices or links; a device comes first where both have the name.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultCommand {
    /// A fault happens with a probability.
    Set {
        /// Whom it concerns.
        target: DeviceId,
        /// What happens.
        kind: FaultKind,
        /// How often, from 0 to 1.
        probability: f64,
        /// How long it takes.
        duration: Option<Duration>,
        /// The exception code.
        code: Option<u8>,
    },
    /// One kind of fault, or all of them, no longer happen.
    Clear {
        /// Whom it concerned.
        target: DeviceId,
        /// Which kind.
        kind: Option<FaultKind>,
    },
    /// What is set, and what has happened.
    List,
    /// One request may read so many registers or bits; 0 ends the limit.
    Limit(DeviceId, u16, Refusal),
    /// These registers do not exist.
    Lack(DeviceId, Table, u16, u16),
    /// All registers exist again.
    LackNothing(DeviceId),
    /// So many connections may be open.
    Connections(LinkId, Option<u32>),
}

const TABLES: [(&str, Table); 4] = [
    ("coil", Table::Coil),
    ("discrete_input", Table::DiscreteInput),
    ("holding", Table::Holding),
    ("input", Table::Input),
];

/// Reads what follows one of the verbs.
pub(super) fn parse(words: &mut Words<'_>) -> Result<FaultCommand, String> {
    match words.verb.to_ascii_lowercase().as_str() {
        "fault" => parse_fault(words),
        "faults" => Ok(FaultCommand::List),
        "limit" => {
            let device = words.name("DEVICE")?;
            let most = off_or_number(words, "REGISTERS")?.unwrap_or(0);
            let refusal = match words.next() {
                None => Refusal::Exception(3),
                Some("silence") => Refusal::Silence,
                Some(other) => return Err(format!("{other:?} is not `silence`, the only thing that may follow")),
            };
            // Without a limit there is nothing to refuse.
            let refusal = if most == 0 { Refusal::Exception(3) } else { refusal };
            Ok(FaultCommand::Limit(device, most, refusal))
        }
        "lack" => parse_lack(words),
        _ => Ok(FaultCommand::Connections(words.name("LINK")?, off_or_number(words, "NUMBER")?)),
    }
}

fn parse_fault(words: &mut Words<'_>) -> Result<FaultCommand, String> {
    let target = words.name("DEVICE|LINK")?;
    let word = words.expect("KIND")?;
    if word == "off" {
        return Ok(FaultCommand::Clear { target, kind: None });
    }
    let kind = FaultKind::named(word).ok_or_else(|| {
        let names = FaultKind::ALL.map(FaultKind::name);
        format!("{word:?} is no kind of fault; they are {}", names.join(", "))
    })?;
    let word = words.expect("PROBABILITY")?;
    if word == "off" {
        return Ok(FaultCommand::Clear { target, kind: Some(kind) });
    }
    let probability = parse_probability(word)?;
    let (mut duration, mut code) = (None, None);
    match words.next() {
        None => {}
        Some(word) if kind.takes_duration() => duration = Some(parse_delay(word)?),
        Some(word) if kind == FaultKind::Exception => {
            let parsed = word.parse().ok().filter(|code| *code != 0);
            code = Some(parsed.ok_or_else(|| format!("{word:?} is no exception code; write 1 to 255"))?);
        }
        Some(word) => return Err(format!("nothing may follow the probability of {kind}, and {word:?} does")),
    }
    Ok(FaultCommand::Set { target, kind, probability, duration, code })
}

fn parse_probability(word: &str) -> Result<f64, String> {
    let number = match word.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map(|percent| percent / 100.0),
        None => word.parse::<f64>(),
    };
    number
        .ok()
        .filter(|probability| (0.0..=1.0).contains(probability))
        .ok_or_else(|| format!("{word:?} is no probability; write it like 0.05 or 5%, or off"))
}

fn parse_lack(words: &mut Words<'_>) -> Result<FaultCommand, String> {
    let device = words.name("DEVICE")?;
    let word = words.expect("TABLE")?;
    if word == "off" {
        return Ok(FaultCommand::LackNothing(device));
    }
    let table = TABLES.iter().find(|(name, _)| *name == word).map(|(_, table)| *table);
    let table = table.ok_or_else(|| format!("{word:?} is no table; they are coil, discrete_input, holding, input"))?;
    let word = words.expect("FIRST")?;
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    match (first.parse::<u16>(), last.parse::<u16>()) {
        (Ok(first), Ok(last)) if first <= last => Ok(FaultCommand::Lack(device, table, first, last)),
        _ => Err(format!("{word:?} are no addresses; write them like 40 or 40-49")),
    }
}

fn off_or_number<N: std::str::FromStr>(words: &mut Words<'_>, what: &str) -> Result<Option<N>, String> {
    match words.expect(what)? {
        "off" => Ok(None),
        word => word.parse().map(Some).map_err(|_| format!("{word:?} is no number; write one, or off")),
    }
}

impl fmt::Display for FaultCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultCommand::Set { target, kind, probability, duration, code } => {
                write!(f, "fault {target} {kind} {probability}")?;
                if let Some(duration) = duration {
                    write!(f, " {}ms", duration.as_millis())?;
                }
                code.map_or(Ok(()), |code| write!(f, " {code}"))
            }
            FaultCommand::Clear { target, kind: None } => write!(f, "fault {target} off"),
            FaultCommand::Clear { target, kind: Some(kind) } => write!(f, "fault {target} {kind} off"),
            FaultCommand::List => f.write_str("faults"),
            FaultCommand::Limit(device, 0, _) => write!(f, "limit {device} off"),
            FaultCommand::Limit(device, most, Refusal::Silence) => write!(f, "limit {device} {most} silence"),
            FaultCommand::Limit(device, most, Refusal::Exception(_)) => write!(f, "limit {device} {most}"),
            FaultCommand::Lack(device, table, first, last) => {
                let name = TABLES.iter().find(|(_, known)| known == table).map_or("", |(name, _)| *name);
                write!(f, "lack {device} {name} {first}-{last}")
            }
            FaultCommand::LackNothing(device) => write!(f, "lack {device} off"),
            FaultCommand::Connections(link, None) => write!(f, "connections {link} off"),
            FaultCommand::Connections(link, Some(most)) => write!(f, "connections {link} {most}"),
        }
    }
}

/// Carries out a command on the links of a plant, which are in the order of its registry.
pub(super) fn apply(command: &FaultCommand, registry: &Registry, links: &[&LinkFaults]) -> Result<String, String> {
    match command {
        FaultCommand::Set { target, kind, probability, duration, code } => {
            let (link, found) = find(registry, target.as_str(), kind.span())?;
            let rule = Rule { target: found, kind: *kind, probability: *probability, duration: *duration, code: *code };
            links[link.place()].injector().set(rule)?;
            Ok(format!("{target}: {kind} happens to {} % of the answers", probability * 100.0))
        }
        FaultCommand::Clear { target, kind } => {
            let (link, found) = find(registry, target.as_str(), kind.map_or(Span::Answer, FaultKind::span))?;
            links[link.place()].injector().clear(found, *kind);
            Ok(format!("{target}: {} ended", kind.map_or("all faults", FaultKind::name)))
        }
        FaultCommand::List => Ok(list(registry, links)),
        FaultCommand::Limit(device, most, refusal) => {
            let (link, unit) = find_unit(registry, device.as_str())?;
            links[link.place()].injector().limit(unit, *most, *refusal);
            Ok(format!("{device} reads {} at once", if *most == 0 { "as many".to_owned() } else { most.to_string() }))
        }
        FaultCommand::Lack(device, table, first, last) => {
            let (link, unit) = find_unit(registry, device.as_str())?;
            links[link.place()].injector().lack(unit, *table, *first, *last);
            Ok(format!("{device} lacks {table} {first} to {last}"))
        }
        FaultCommand::LackNothing(device) => {
            let (link, unit) = find_unit(registry, device.as_str())?;
            links[link.place()].injector().lack_nothing(unit);
            Ok(format!("{device} has all of its registers"))
        }
        FaultCommand::Connections(link, most) => {
            let index = find_link(registry, link.as_str())?;
            links[index.place()].injector().limit_connections(*most);
            Ok(most.map_or_else(
                || format!("{link} takes every connection"),
                |most| format!("{link} takes {most} connections"),
            ))
        }
    }
}

fn list(registry: &Registry, links: &[&LinkFaults]) -> String {
    let one = |((_, link), faults): ((LinkIndex, &crate::registry::Link), &&LinkFaults)| {
        let injector = faults.injector();
        let counts = injector.counts();
        let rules: Vec<String> = injector
            .rules()
            .iter()
            .map(|rule| match rule.target {
                Target::Link => format!("{} {}", rule.kind, rule.probability),
                Target::Unit(unit) => format!("unit {unit} {} {}", rule.kind, rule.probability),
            })
            .collect();
        let rules = if rules.is_empty() { "no faults".to_owned() } else { rules.join(", ") };
        format!("{}: {rules} ({} faults in {} requests)", link.id, counts.faults_in_all(), counts.requests)
    };
    registry.links().zip(links).map(one).collect::<Vec<_>>().join("; ")
}

fn find(registry: &Registry, name: &str, span: Span) -> Result<(LinkIndex, Target), String> {
    match registry.find_device(name) {
        Some(_) if span == Span::Answer => find_unit(registry, name).map(|(link, unit)| (link, Target::Unit(unit))),
        Some(index) if registry.find_link(name).is_none() => {
            let link = &registry.link(registry.device(index).link).id;
            Err(format!("this happens to links, and {name} is a device; its link is {link}"))
        }
        _ => find_link(registry, name).map(|link| (link, Target::Link)),
    }
}

fn find_unit(registry: &Registry, name: &str) -> Result<(LinkIndex, u8), String> {
    let known = || registry.devices().map(|(_, device)| device.id.as_str());
    let index = registry.find_device(name);
    let device = index.map(|index| registry.device(index));
    device
        .map(|device| (device.link, device.unit))
        .ok_or_else(|| format!("there is no device {name}{}", did_you_mean(name, known())))
}

fn find_link(registry: &Registry, name: &str) -> Result<LinkIndex, String> {
    let known = || {
        let devices = registry.devices().map(|(_, device)| device.id.as_str());
        registry.links().map(|(_, link)| link.id.as_str()).chain(devices)
    };
    registry.find_link(name).ok_or_else(|| format!("there is no link or device {name}{}", did_you_mean(name, known())))
}
