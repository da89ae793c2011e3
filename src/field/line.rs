//! One request and its answer on one link: connecting, pacing, waiting, and keeping a late answer from the next request.
//!
//! Every wait in here has an end. Nothing is retried here, and nothing is decided about devices: see [`super::link`].

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::transport::{ConnectError, Pipes, Transport};
use crate::clock;
use crate::metrics::Outcome;
use crate::modbus::exception::ExceptionCode;
use crate::modbus::pdu::{ReadReply, Received, ReplyError, Request};
use crate::modbus::rtu::RtuExchange;
use crate::modbus::tcp::TcpExchange;
use crate::policy::retry::Transient;
use crate::registry::Link;
use crate::registry::reading::{Fault, OfflineCause, Stamp};
use crate::registry::sensor::{Endpoint, SerialSettings};

/// A connection younger than this is not given up for silence: some devices need seconds before they answer at all.
const SLOW_START: Duration = Duration::from_secs(5);

/// The shortest patience with a connection that is being made.
const CONNECT_PATIENCE: Duration = Duration::from_secs(1);

/// Bytes of the longest answer: 256 on a serial line, 260 over TCP.
const LONGEST_FRAME: usize = 260;

/// The task's own way to its devices.
#[derive(Debug)]
pub struct Line {
    endpoint: Endpoint,
    timeout: Duration,
    request_gap: Duration,
    connect_delay: Duration,
    framing: Framing,
    connection: Option<Connection>,
    /// Units of a serial line that did not answer, each until when its late answer may come: it is not asked again before.
    /// Full is impossible: one for each unit id.
    late: HashMap<u8, Instant>,
    /// Whether the first answer on a connection has ever come at once, so that a new connection without one is a dead one.
    starts_quickly: bool,
    /// Whether several units are asked over it.
    is_shared: bool,
    /// When the last byte went over the line in either direction; the gap to the next request counts from here.
    last_byte: Option<Instant>,
    /// Where connections come from instead of the endpoint.
    pipes: Option<Pipes>,
    effort: Effort,
}

/// What the last request took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effort {
    /// Bytes of the request; 0 where it was not sent.
    pub sent: u32,
    /// Bytes that came, useful or not, the late ones that were thrown away among them.
    pub received: u32,
    /// When it was sent.
    pub sent_at: Option<Instant>,
    /// Whether a connection was made for it: `Some(false)` where that failed.
    pub connected: Option<bool>,
}

#[derive(Debug)]
enum Framing {
    Tcp(TcpExchange),
    Rtu(RtuExchange),
}

#[derive(Debug)]
struct Connection {
    transport: Transport,
    opened: Instant,
    silent_in_a_row: u32,
    answered: bool,
}

/// Why a request got no data.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// There is no way to the plant.
    #[error("no connection")]
    Unreachable(#[from] ConnectError),
    /// No answer in time.
    #[error("no answer")]
    Silent,
    /// Bytes came in time, but no whole answer.
    #[error("only damaged answers")]
    Noise,
    /// The other side closed the connection; `reused` when it had answered before, as after a long pause.
    #[error("the connection was closed")]
    Closed {
        /// Whether the connection had answered before.
        reused: bool,
    },
    /// The device refused.
    #[error("the device answered {0}")]
    Exception(ExceptionCode),
}

impl AskError {
    /// What it means for the sensors that were asked for.
    pub fn fault(&self) -> Fault {
        match self {
            AskError::Unreachable(err) => Fault::Offline(err.cause),
            AskError::Silent | AskError::Closed { .. } => Fault::Offline(OfflineCause::ConnectedButSilent),
            AskError::Noise => Fault::Offline(OfflineCause::LineNoise),
            AskError::Exception(code) => match code.0 {
                1..=3 => Fault::Refused(*code),
                5 | 6 => Fault::Busy(*code),
                10 => Fault::Offline(OfflineCause::NoPathBehindGateway),
                11 => Fault::Offline(OfflineCause::UnitSilentBehindGateway),
                _ => Fault::DeviceFailed(*code),
            },
        }
    }

    /// How the request ended, for the counters; `None` where it was not sent.
    pub fn outcome(&self) -> Option<Outcome> {
        match self {
            AskError::Unreachable(_) => None,
            AskError::Silent => Some(Outcome::Silent),
            AskError::Noise => Some(Outcome::Damaged),
            AskError::Closed { .. } => Some(Outcome::Closed),
            AskError::Exception(code) => Some(match code.0 {
                1..=3 => Outcome::Refused,
                5 | 6 => Outcome::Busy,
                10 | 11 => Outcome::Gateway,
                _ => Outcome::Failed,
            }),
        }
    }

    /// Why the same request may well be answered soon, if so.
    pub fn transient(&self) -> Option<Transient> {
        match self {
            AskError::Silent => Some(Transient::Silence),
            AskError::Noise => Some(Transient::Damage),
            AskError::Closed { .. } => Some(Transient::Closed),
            AskError::Exception(ExceptionCode::ACKNOWLEDGE | ExceptionCode::SERVER_DEVICE_BUSY) => {
                Some(Transient::Busy)
            }
            AskError::Exception(_) | AskError::Unreachable(_) => None,
        }
    }
}

impl Line {
    /// The line of a link, not connected yet.
    pub fn new(link: &Link) -> Line {
        let framing = match &link.endpoint {
            Endpoint::Tcp { .. } => Framing::Tcp(TcpExchange::default()),
            Endpoint::Serial(line) | Endpoint::RtuOverTcp { line, .. } => {
                Framing::Rtu(RtuExchange::new(line.local_echo))
            }
        };
        Line {
            endpoint: link.endpoint.clone(),
            timeout: link.timeout,
            request_gap: link.request_gap,
            connect_delay: link.connect_delay,
            framing,
            connection: None,
            late: HashMap::new(),
            starts_quickly: false,
            is_shared: link.devices.len() > 1,
            last_byte: None,
            pipes: None,
            effort: Effort::default(),
        }
    }

    /// The line of a link over pipes in memory, and not over its endpoint.
    pub fn over_pipes(link: &Link, pipes: Pipes) -> Line {
        Line { pipes: Some(pipes), ..Line::new(link) }
    }

    /// The longest that one request takes, from the connection to the last late byte.
    pub fn longest_ask(&self) -> Duration {
        let connect = self.timeout.max(CONNECT_PATIENCE) + self.connect_delay;
        let (pause, on_the_line) = match self.endpoint.line() {
            Some(line) => (line.frame_silence(), line.time_of(2 * LONGEST_FRAME)),
            None => (Duration::ZERO, Duration::ZERO),
        };
        connect + pause.max(self.request_gap) + self.timeout + on_the_line + self.timeout * 2
    }

    /// Asks a unit, and returns its answer with the moment it was complete.
    pub async fn ask(&mut self, unit: u8, request: impl Into<Request>) -> Result<(ReadReply, Stamp), AskError> {
        let request = request.into();
        self.effort = Effort::default();
        self.connect().await?;
        self.await_late_answer(unit).await;
        // It may have ended meanwhile.
        self.connect().await?;
        self.pace().await;
        let answer = self.exchange(unit, request).await;
        self.last_byte = Some(clock::instant());
        let Some(connection) = &mut self.connection else { return answer };
        match &answer {
            Ok(_) | Err(AskError::Exception(_)) => {
                let age = clock::instant().saturating_duration_since(connection.opened);
                self.starts_quickly |= !connection.answered && age <= self.connect_delay + self.timeout;
                connection.answered = true;
                connection.silent_in_a_row = 0;
            }
            Err(AskError::Silent | AskError::Noise) => {
                connection.silent_in_a_row += 1;
                self.keep_apart(unit).await;
            }
            Err(AskError::Closed { .. } | AskError::Unreachable(_)) => self.connection = None,
        }
        answer
    }

    /// What the last request took.
    pub fn effort(&self) -> Effort {
        self.effort
    }

    /// Before this moment a request to the unit could get the late answer to the one before. Over TCP that is never so.
    pub fn late_until(&self, unit: u8) -> Option<Instant> {
        self.late.get(&unit).copied()
    }

    /// After a request without an answer: sees to it that what comes late is not taken for the next one's, and gives up a
    /// connection on which nothing comes any more.
    ///
    /// RTU carries no transaction id, but it names the unit: a serial line has to fall silent before anything else is asked,
    /// and the unit itself is asked again only when its late answer has come or cannot come any more.
    async fn keep_apart(&mut self, unit: u8) {
        if let Some(line) = self.endpoint.line() {
            let silence = settled(line);
            let end = clock::instant() + self.timeout;
            if !self.drain(silence, end).await {
                self.late.insert(unit, end);
            }
        }
        let Some(connection) = &self.connection else { return };
        if self.is_half_open(connection) || self.framing.is_mid_frame() {
            self.connection = None;
        }
    }

    /// Whether nothing comes any more on a connection, so that a new one is worth trying. One silent unit of several is no
    /// sign of that, and neither is a device that needs some seconds before it answers on a new connection.
    fn is_half_open(&self, connection: &Connection) -> bool {
        if matches!(self.endpoint, Endpoint::Serial(_)) {
            return false;
        }
        if !connection.answered && self.starts_quickly {
            return connection.silent_in_a_row > 0;
        }
        let age = clock::instant().saturating_duration_since(connection.opened);
        age >= SLOW_START && connection.silent_in_a_row >= if self.is_shared { 3 } else { 2 }
    }

    async fn connect(&mut self) -> Result<(), ConnectError> {
        if self.connection.is_some() {
            return Ok(());
        }
        self.effort.connected = Some(false);
        let transport = self.open().await?;
        self.effort.connected = Some(true);
        if let Framing::Tcp(exchange) = &mut self.framing {
            exchange.reconnected();
        }
        let opened = clock::instant();
        self.connection = Some(Connection { transport, opened, silent_in_a_row: 0, answered: false });
        if !self.connect_delay.is_zero() {
            tokio::time::sleep(self.connect_delay).await;
        }
        Ok(())
    }

    async fn open(&mut self) -> Result<Transport, ConnectError> {
        if let Some(pipes) = &mut self.pipes {
            return pipes.connect();
        }
        Transport::connect(&self.endpoint, self.timeout.max(CONNECT_PATIENCE)).await
    }

    /// Waits until the line has been silent for long enough (V1.02, section 2.5.1.1) and the device has had its pause.
    async fn pace(&mut self) {
        let silence = match self.endpoint.line() {
            Some(line) => line.frame_silence().max(self.request_gap),
            None => self.request_gap,
        };
        if let (Some(last_byte), Some(connection)) = (self.last_byte, &mut self.connection)
            && !silence.is_zero()
            && connection.transport.wait_until(last_byte + silence).await.is_err()
        {
            // The kernel's timer failed, which nobody has seen; too long a silence is better than too short a one.
            tokio::time::sleep(silence).await;
        }
    }

    async fn exchange(&mut self, unit: u8, request: Request) -> Result<(ReadReply, Stamp), AskError> {
        let Some(connection) = &mut self.connection else { return Err(AskError::Closed { reused: false }) };
        let closed = AskError::Closed { reused: connection.answered };
        let gone = |endpoint: &Endpoint, closed| match endpoint {
            Endpoint::Tcp { .. } | Endpoint::RtuOverTcp { .. } => closed,
            Endpoint::Serial(settings) => AskError::Unreachable(ConnectError {
                cause: OfflineCause::PortGone,
                text: format!("{}: the port is gone", settings.path),
            }),
        };
        let (frame, on_the_line) = match &mut self.framing {
            Framing::Tcp(exchange) => (exchange.begin(unit, request).to_vec(), Duration::ZERO),
            Framing::Rtu(exchange) => {
                let frame = exchange.begin(unit, request).to_vec();
                let on_the_line = characters_time(&self.endpoint, frame.len(), request);
                (frame, on_the_line)
            }
        };
        if matches!(self.framing, Framing::Rtu(_)) {
            match connection.transport.discard_input() {
                // Somebody is there, only late.
                Ok(true) => connection.silent_in_a_row = 0,
                Ok(false) => {}
                Err(_) => return Err(gone(&self.endpoint, closed)),
            }
        }
        self.effort.sent = frame.len() as u32;
        self.effort.sent_at = Some(clock::instant());
        let deadline = tokio::time::Instant::now() + self.timeout + on_the_line;
        match tokio::time::timeout_at(deadline, connection.transport.write_all(&frame)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(gone(&self.endpoint, closed)),
            // Nobody takes what is written: an adapter that hangs, a peer whose window is shut. Only a new connection helps.
            Err(_) => {
                self.connection = None;
                return Err(AskError::Silent);
            }
        }
        // Room for what stands behind an answer, which may make it doubtful.
        let mut buffer = [0; 2 * LONGEST_FRAME];
        loop {
            let read = tokio::time::timeout_at(deadline, connection.transport.read(&mut buffer)).await;
            let bytes = match read {
                Err(_) if self.framing.saw_noise() => return Err(AskError::Noise),
                Err(_) => return Err(AskError::Silent),
                Ok(Ok(0) | Err(_)) => return Err(gone(&self.endpoint, closed)),
                Ok(Ok(length)) => &buffer[..length],
            };
            self.effort.received += bytes.len() as u32;
            match self.framing.receive(bytes) {
                Received::NeedMore => {}
                Received::Reply(Ok(reply)) => return Ok((reply, clock::now())),
                Received::Reply(Err(ReplyError::Exception(code))) => return Err(AskError::Exception(code)),
                Received::Reply(Err(ReplyError::Malformed)) => return Err(AskError::Noise),
                Received::Broken => {
                    self.connection = None;
                    return Err(AskError::Noise);
                }
            }
        }
    }

    /// Before a unit is asked again that did not answer: waits until its late answer has come, or cannot come any more. A
    /// converter may hand it on over a connection that was made after the request.
    async fn await_late_answer(&mut self, unit: u8) {
        let Some(end) = self.late.remove(&unit) else { return };
        let now = clock::instant();
        if end > now {
            self.drain(end - now, end).await;
        }
    }

    /// Takes bytes off a serial line until nothing comes for so long; then, or at once if something came, until the line has
    /// been silent. Never much longer than until `end`. Whether something came.
    async fn drain(&mut self, quiet: Duration, end: Instant) -> bool {
        let Some(connection) = &mut self.connection else { return false };
        let settled = self.endpoint.line().map_or(LATE_ANSWER_GAP, settled);
        let end = end + self.timeout;
        let mut quiet = quiet;
        let mut has_come = false;
        let mut buffer = [0; LONGEST_FRAME];
        loop {
            let until = end.min(clock::instant() + quiet);
            match tokio::time::timeout_at(until.into(), connection.transport.read(&mut buffer)).await {
                Ok(Ok(length)) if length > 0 => {
                    self.effort.received += length as u32;
                    // Somebody is there, only late.
                    connection.silent_in_a_row = 0;
                    quiet = settled;
                    has_come = true;
                }
                Ok(_) => {
                    self.connection = None;
                    return has_come;
                }
                Err(_) => return has_come,
            }
        }
    }
}

/// The longest gap inside a late answer: USB adapters deliver in pieces 16 ms apart.
const LATE_ANSWER_GAP: Duration = Duration::from_millis(40);

/// The silence after which nothing more of an answer comes.
fn settled(line: &SerialSettings) -> Duration {
    line.frame_silence().max(LATE_ANSWER_GAP)
}

impl Framing {
    fn receive(&mut self, bytes: &[u8]) -> Received {
        match self {
            Framing::Tcp(exchange) => exchange.receive(bytes),
            Framing::Rtu(exchange) => exchange.receive(bytes),
        }
    }

    /// Whether a TCP stream stands inside a frame whose rest did not come: the next answer would be taken for it.
    fn is_mid_frame(&self) -> bool {
        matches!(self, Framing::Tcp(exchange) if exchange.is_mid_frame())
    }

    fn saw_noise(&self) -> bool {
        match self {
            Framing::Tcp(exchange) => exchange.is_mid_frame(),
            Framing::Rtu(exchange) => exchange.saw_noise(),
        }
    }
}

/// How long request and answer take on a serial line, so that a slow line does not eat the device's time to answer.
fn characters_time(endpoint: &Endpoint, request_length: usize, request: Request) -> Duration {
    // Around the PDU stand the unit and the CRC.
    let time_of = |settings: &SerialSettings| settings.time_of(request_length + request.longest_answer() + 3);
    endpoint.line().map_or(Duration::ZERO, time_of)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::field::testing::{Plan, word};
    use crate::modbus::Table;
    use crate::modbus::pdu::ReadRequest;
    use crate::modbus::rtu::crc;
    use crate::registry::LinkIndex;

    fn read(address: u16) -> ReadRequest {
        ReadRequest::new(Table::Holding, address, 1).expect("a request")
    }

    fn answer(register: u8) -> Vec<u8> {
        let body = [1, 3, 2, 0, register];
        [&body[..], &crc(&body).to_le_bytes()].concat()
    }

    #[tokio::test(start_paused = true)]
    async fn case_c24_a_late_answer_on_the_next_connection_of_a_converter_is_not_the_next_ones() {
        let registry = Plan::rtu_over_tcp(&[(0, word(1)), (100, word(1))]).registry();
        let (mut ours, mut theirs) = (Vec::new(), std::collections::VecDeque::new());
        for _ in 0..3 {
            let (one, other) = tokio::io::duplex(64);
            ours.push(one);
            theirs.push_back(other);
        }
        let mut line = Line::over_pipes(registry.link(LinkIndex(0)), Pipes::new(move || theirs.pop_front()));
        let mut request = [0; 8];
        let [first, second, third] = &mut ours[..] else { panic!("three connections") };
        // The device answers at once, and the converter closes the connection.
        first.write_all(&[]).await.expect("open");
        let (asked, _) = tokio::join!(line.ask(1, read(0)), async {
            first.read_exact(&mut request).await.expect("a request");
            first.write_all(&answer(7)).await.expect("open");
        });
        assert!(asked.is_ok());
        first.shutdown().await.expect("open");
        assert!(matches!(line.ask(1, read(0)).await, Err(AskError::Closed { .. })));
        // On the next one nothing comes, and it is given up.
        assert!(matches!(line.ask(1, read(0)).await, Err(AskError::Silent)));
        assert!(
            second.read_exact(&mut request).await.is_ok() && second.read(&mut request).await.is_ok_and(|end| end == 0)
        );
        // The answer to that request comes over the one after it.
        let (asked, _) = tokio::join!(line.ask(1, read(100)), async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            third.write_all(&answer(7)).await.expect("open");
            third.read_exact(&mut request).await.expect("a request");
            third.write_all(&answer(107)).await.expect("open");
        });
        let (reply, _) = asked.expect("an answer");
        assert_eq!(reply.registers(0, 1), Some(&[107][..]));
    }
}
