//! The bytes' way to the plant: a TCP connection or a serial port, and why there is none.

use std::io;
use std::time::{Duration, Instant};

use futures::FutureExt;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::TcpStream;
use tokio_serial::{SerialPort, SerialPortBuilderExt, SerialStream};

use super::fine_timer::FineTimer;
use crate::clock;
use crate::registry::reading::OfflineCause;
use crate::registry::sensor::{Endpoint, Parity, SerialSettings};

/// An open way to the plant.
#[derive(Debug)]
pub enum Transport {
    /// A connection to a Modbus/TCP server.
    Tcp(TcpStream),
    /// A serial port, ours alone, and the timer of its silences.
    Serial(Box<SerialStream>, FineTimer),
    /// One end of a pipe in memory, as tests with a stopped clock need it.
    Pipe(DuplexStream),
}

/// Makes pipes in place of connections; `None` is a refused one.
pub struct Pipes(Box<dyn FnMut() -> Option<DuplexStream> + Send>);

impl Pipes {
    /// Pipes as this function makes them, one at each connect.
    pub fn new(connect: impl FnMut() -> Option<DuplexStream> + Send + 'static) -> Pipes {
        Pipes(Box::new(connect))
    }

    pub(super) fn connect(&mut self) -> Result<Transport, ConnectError> {
        let refused = || ConnectError { cause: OfflineCause::Refused, text: "the pipe was refused".to_owned() };
        (self.0)().map(Transport::Pipe).ok_or_else(refused)
    }
}

impl std::fmt::Debug for Pipes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pipes")
    }
}

/// Why there is no way to the plant.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct ConnectError {
    /// The cause, as agents see it.
    pub cause: OfflineCause,
    /// What the system said, and for a serial port how to mend it.
    pub text: String,
}

impl Transport {
    /// Opens the way, or says within `patience` why there is none.
    pub async fn connect(endpoint: &Endpoint, patience: Duration) -> Result<Transport, ConnectError> {
        match endpoint {
            Endpoint::Tcp { host, port } | Endpoint::RtuOverTcp { host, port, .. } => {
                connect_tcp(host, *port, patience).await
            }
            Endpoint::Serial(settings) => open_port(settings),
        }
    }

    /// Reads what is there, waiting for the first byte. Nothing means that the other side is gone.
    pub async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Tcp(stream) => stream.read(buffer).await,
            Transport::Serial(stream, _) => stream.read(buffer).await,
            Transport::Pipe(stream) => stream.read(buffer).await,
        }
    }

    /// Waits until then: on a serial port to the fraction of a millisecond, elsewhere by the runtime's timer.
    pub async fn wait_until(&mut self, until: Instant) -> io::Result<()> {
        match self {
            Transport::Serial(_, timer) => match until.checked_duration_since(clock::instant()) {
                Some(wait) => timer.sleep(wait).await,
                None => Ok(()),
            },
            Transport::Tcp(_) | Transport::Pipe(_) => {
                tokio::time::sleep_until(until.into()).await;
                Ok(())
            }
        }
    }

    /// Throws away what came unasked, without waiting: what is read after the next request must be an answer to it. Whether
    /// there was something.
    pub fn discard_input(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 256];
        let mut has_come = false;
        // A line that never falls silent is found out by the request that follows.
        for _ in 0..16 {
            match self.read(&mut buffer).now_or_never() {
                None => break,
                Some(Ok(0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(Ok(_)) => has_come = true,
                Some(Err(err)) => return Err(err),
            }
        }
        Ok(has_come)
    }

    /// Writes all of it.
    pub async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Transport::Tcp(stream) => stream.write_all(bytes).await,
            Transport::Serial(stream, _) => stream.write_all(bytes).await,
            Transport::Pipe(stream) => stream.write_all(bytes).await,
        }
    }
}

async fn connect_tcp(host: &str, port: u16, patience: Duration) -> Result<Transport, ConnectError> {
    let fail = |cause, text: String| ConnectError { cause, text: format!("{host}:{port}: {text}") };
    let stream = match tokio::time::timeout(patience, TcpStream::connect((host, port))).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(err)) if err.kind() == io::ErrorKind::ConnectionRefused => {
            return Err(fail(OfflineCause::Refused, err.to_string()));
        }
        Ok(Err(err)) => return Err(fail(OfflineCause::NoRoute, err.to_string())),
        Err(_) => {
            return Err(fail(OfflineCause::NoRoute, format!("no connection within {} ms", patience.as_millis())));
        }
    };
    let prepared = stream.set_nodelay(true).and_then(|()| {
        let keepalive = TcpKeepalive::new()
            .with_time(Duration::from_secs(15))
            .with_interval(Duration::from_secs(5))
            .with_retries(3);
        SockRef::from(&stream).set_tcp_keepalive(&keepalive)
    });
    match prepared {
        Ok(()) => Ok(Transport::Tcp(stream)),
        Err(err) => Err(fail(OfflineCause::NoRoute, err.to_string())),
    }
}

fn open_port(settings: &SerialSettings) -> Result<Transport, ConnectError> {
    let gone = |text: String| ConnectError { cause: OfflineCause::PortGone, text };
    let builder = tokio_serial::new(settings.path.as_str(), settings.baud)
        .parity(match settings.parity {
            Parity::None => tokio_serial::Parity::None,
            Parity::Even => tokio_serial::Parity::Even,
            Parity::Odd => tokio_serial::Parity::Odd,
        })
        .data_bits(if settings.data_bits == 7 { tokio_serial::DataBits::Seven } else { tokio_serial::DataBits::Eight })
        .stop_bits(if settings.stop_bits == 2 { tokio_serial::StopBits::Two } else { tokio_serial::StopBits::One });
    let stream = builder.open_native_async().map_err(|err| gone(explain_port(&settings.path, &err)))?;
    stream
        .clear(tokio_serial::ClearBuffer::Input)
        .map_err(|err| gone(format!("{}: cannot be cleared: {err}", settings.path)))?;
    let timer = FineTimer::new().map_err(|err| gone(format!("{}: no timer for it: {err}", settings.path)))?;
    Ok(Transport::Serial(Box::new(stream), timer))
}

/// What opening a port failed of, and how to mend it.
fn explain_port(path: &str, err: &tokio_serial::Error) -> String {
    let mend = match err.kind() {
        tokio_serial::ErrorKind::NoDevice => "; another program may hold it (see `fuser`), or the adapter is unplugged",
        tokio_serial::ErrorKind::Io(io::ErrorKind::NotFound) => "; the adapter is unplugged, or has another name",
        tokio_serial::ErrorKind::Io(io::ErrorKind::PermissionDenied) => {
            "; the user of the service must be in the group of the port, mostly `dialout`"
        }
        _ => "",
    };
    format!("{path}: {err}{mend}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn case_c28_every_new_connection_finds_out_by_itself_that_the_other_side_is_gone() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let endpoint = Endpoint::Tcp { host: "127.0.0.1".to_owned(), port };
        for _ in 0..2 {
            let Ok(Transport::Tcp(stream)) = Transport::connect(&endpoint, Duration::from_secs(5)).await else {
                panic!("no connection")
            };
            let socket = SockRef::from(&stream);
            assert!(socket.keepalive().expect("a socket"));
            let idle = socket.tcp_keepalive_time().expect("a socket");
            let probes =
                socket.tcp_keepalive_interval().expect("a socket") * socket.tcp_keepalive_retries().expect("a socket");
            assert!(idle + probes <= Duration::from_secs(60), "{idle:?} and {probes:?}");
        }
    }

    #[tokio::test]
    async fn case_c53_a_name_that_nobody_knows_is_no_route_and_has_an_end() {
        let endpoint = Endpoint::Tcp { host: "plc.invalid".to_owned(), port: 502 };
        let patience = Duration::from_secs(2);
        let started = Instant::now();
        let err = Transport::connect(&endpoint, patience).await.expect_err("such a name has no address");
        assert_eq!(err.cause, OfflineCause::NoRoute);
        assert!(err.text.contains("plc.invalid:502"), "{err}");
        assert!(started.elapsed() < patience * 2, "{:?}", started.elapsed());
    }
}
