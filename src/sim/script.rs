//! A course of commands in a file: one a line, each at once or at a moment after the start.
//!
//! ```text
//! # One answer in twenty is lost, and after ten seconds the line is cut for five.
//! fault press-plc silence 5%
//! at 10s unplug press-tcp
//! at 15s plug press-tcp
//! ```

use std::time::Duration;

use super::control::{Command, parse_delay};

/// A command and its moment, counted from the start of the plant.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// When.
    pub at: Duration,
    /// What.
    pub command: Command,
}

/// Reads a script. The steps are in the order of their moments; those of one moment in the order of their lines. The error
/// names the line.
pub fn parse(text: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        steps.push(parse_step(line).map_err(|message| format!("line {}: {message}", number + 1))?);
    }
    steps.sort_by_key(|step: &Step| step.at);
    Ok(steps)
}

fn parse_step(line: &str) -> Result<Step, String> {
    let Some(rest) = line.strip_prefix("at ") else {
        return Ok(Step { at: Duration::ZERO, command: Command::parse(line)? });
    };
    let (moment, command) = rest.trim_start().split_once(char::is_whitespace).unwrap_or((rest, ""));
    Ok(Step { at: parse_delay(moment)?, command: Command::parse(command)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_played_in_the_order_of_its_moments() {
        let text = "# a comment\n\nat 15s plug press-tcp\nfault press-plc late 5% 900ms\nat 10s unplug press-tcp\n";
        let steps = parse(text).unwrap();
        let lines: Vec<String> = steps.iter().map(|step| format!("{:?} {}", step.at, step.command)).collect();
        assert_eq!(lines, ["0ns fault press-plc late 0.05 900ms", "10s unplug press-tcp", "15s plug press-tcp"]);
    }

    #[test]
    fn a_wrong_line_is_named() {
        assert!(parse("stop a\nat noon stop a").unwrap_err().starts_with("line 2: \"noon\" is no delay"));
        assert!(parse("falt a late 1").unwrap_err().contains("did you mean"));
    }
}
