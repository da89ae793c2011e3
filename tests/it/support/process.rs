//! A program that a test started: its output is kept, shown when the test fails, and the program ends with the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{PATIENCE, wait_for};

/// A running program.
pub struct Process {
    name: String,
    child: Child,
    orders: Option<ChildStdin>,
    answers: Receiver<String>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Process {
    /// Starts a program. Its standard output can be read line by line; what it says on standard error is kept.
    pub fn start(name: &str, command: &mut Command) -> Process {
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.unwrap_or_else(|err| panic!("{name} cannot be started: {err}"));
        let log = Arc::new(Mutex::new(Vec::new()));
        // Unbounded, as the log beside it: a test's program says little, and the test must not hold it up.
        let (lines, answers) = channel();
        let stdout = child.stdout.take().expect("standard output is piped");
        keep_lines(stdout, Arc::clone(&log), move |line| lines.send(line.to_owned()).unwrap_or_default());
        let stderr = child.stderr.take().expect("standard error is piped");
        keep_lines(stderr, Arc::clone(&log), |_| ());
        Process { name: name.to_owned(), orders: child.stdin.take(), child, answers, log }
    }

    /// How long the program has been at work on a processor so far.
    pub fn cpu_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("a running program");
        // Behind the name, which may hold anything but ends at the last bracket: user and system time are the 12th and 13th.
        let numbers = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: u64 = numbers.skip(11).take(2).map(|number| number.parse::<u64>().expect("a number")).sum();
        // The kernel shows a hundredth of a second as one, whatever its own tick is.
        Duration::from_millis(ticks * 10)
    }

    /// The next line on standard output, which holds JSON.
    pub fn answer(&self) -> Value {
        let line = self.answers.recv_timeout(PATIENCE);
        let line = line.unwrap_or_else(|_| panic!("{} says nothing; so far:\n{}", self.name, self.log()));
        serde_json::from_str(&line).unwrap_or_else(|err| panic!("{} says {line:?}: {err}", self.name))
    }

    /// Writes one line of JSON, and reads the line that answers it.
    pub fn ask(&mut self, order: &Value) -> Value {
        let orders = self.orders.as_mut().expect("the program still takes orders");
        writeln!(orders, "{order}").unwrap_or_else(|err| panic!("{} takes no orders: {err}", self.name));
        self.answer()
    }

    /// Everything said so far.
    pub fn log(&self) -> String {
        self.log.lock().expect("nobody panics while logging").join("\n")
    }

    /// Waits until the program has said something that contains this text.
    pub fn wait_for_line(&self, text: &str) {
        wait_for(&format!("{} to say {text:?}", self.name), || self.log().contains(text).then_some(()));
    }

    /// Ends the programs that it has started, without asking.
    pub fn kill_children(&self) {
        let id = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).expect("it runs");
        for child in children.split_whitespace() {
            let _ = Command::new("kill").args(["-s", "KILL", child]).status();
        }
    }

    /// The memory that is its own: what was allocated, and not the program's text.
    pub fn memory_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux says so");
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        kilobytes * 1_024
    }

    /// Sends a signal by name: `TERM`, `STOP`, `CONT`.
    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args(["-s", signal, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill can be started").success(), "{} could not be signalled", self.name);
    }

    /// Ends the program at once.
    pub fn kill(&mut self) {
        // It may have ended already; either way it has ended after the wait.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for the program to end by itself.
    pub fn end(&mut self) -> ExitStatus {
        self.orders = None;
        let deadline = Instant::now() + 2 * PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                return status;
            }
            assert!(Instant::now() < deadline, "{} does not end; so far:\n{}", self.name, self.log());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// Whether the program still runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- what {} said\n{}", self.name, self.log());
        }
    }
}

fn keep_lines(from: impl Read + Send + 'static, log: Arc<Mutex<Vec<String>>>, each: impl Fn(&str) + Send + 'static) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            each(&line);
            log.lock().expect("nobody panics while logging").push(line);
        }
    });
}
