//! The Modbus side of the simulated plant: requests in, answers of the plant out, over TCP.
//!
//! The server is `tokio-modbus`, another implementation than our own client core, so that the two check each other. It
//! serves the requests of one connection one after the other: a slow device delays the others on its connection, as
//! behind a real gateway, but not those on other connections. A silent device delays nobody, because its requests are
//! dropped at once.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_modbus::server::{Service, rtu_over_tcp, tcp};
use tokio_modbus::{ExceptionCode, Request, Response, SlaveRequest};
use tokio_util::sync::CancellationToken;

use super::frames::Framing;
use super::plant::{Answer, Asked, Plant};
use super::relay::{self, LinkFaults};
use crate::modbus::Table;
use crate::registry::LinkIndex;

/// The most connections of one link. One more is closed at once: a gateway needs one, and a test a few.
const CONNECTIONS: u32 = 64;

/// More than a frame, as the buffers of a system are.
const PIPE_BYTES: usize = 4096;

/// After an error of the listener, such as no more file descriptors, it rests this long.
const LISTENER_REST: Duration = Duration::from_millis(100);

/// The plant, shared by all links, and when it started.
#[derive(Debug)]
pub(super) struct SharedPlant {
    plant: Mutex<Plant>,
    started: Instant,
}

impl SharedPlant {
    pub(super) fn new(plant: Plant) -> SharedPlant {
        SharedPlant { plant: Mutex::new(plant), started: Instant::now() }
    }

    /// The plant. The lock is held for one request or one command, and never across a wait.
    pub(super) fn lock(&self) -> MutexGuard<'_, Plant> {
        self.plant.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the plant has been running.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

/// Answers the requests of one link.
#[derive(Clone, Debug)]
pub(super) struct Slave {
    plant: Arc<SharedPlant>,
    link: LinkIndex,
    requests: Arc<AtomicU64>,
}

impl Slave {
    pub(super) fn new(plant: Arc<SharedPlant>, link: LinkIndex) -> Slave {
        Slave { plant, link, requests: Arc::default() }
    }

    /// How many requests were understood, to whatever unit and whether answered or not.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// The registers are taken after the delay, so that an answer is never older than its arrival, and a device that is
    /// stopped meanwhile stays silent.
    pub(super) async fn answer(self, unit: u8, asked: Option<Asked>) -> Answer {
        let delay = self.plant.lock().delay(self.link, unit);
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let at = self.plant.elapsed();
        let plant = self.plant.lock();
        match asked {
            Some(asked) => plant.read(self.link, unit, asked, at),
            None => plant.refuse(self.link, unit),
        }
    }
}

impl Service for Slave {
    type Request = SlaveRequest<'static>;
    type Response = Option<Response>;
    type Exception = ExceptionCode;
    type Future = Pin<Box<dyn Future<Output = Result<Option<Response>, ExceptionCode>> + Send>>;

    fn call(&self, SlaveRequest { slave, request }: SlaveRequest<'static>) -> Self::Future {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let this = self.clone();
        Box::pin(async move {
            let asked = asked(&request);
            let table = asked.map(|asked| asked.table);
            match (this.answer(slave, asked).await, table) {
                (Answer::Registers(words), Some(Table::Input)) => Ok(Some(Response::ReadInputRegisters(words))),
                (Answer::Registers(words), _) => Ok(Some(Response::ReadHoldingRegisters(words))),
                (Answer::Bits(bits), Some(Table::DiscreteInput)) => Ok(Some(Response::ReadDiscreteInputs(bits))),
                (Answer::Bits(bits), _) => Ok(Some(Response::ReadCoils(bits))),
                (Answer::Exception(code), _) => Err(ExceptionCode::new(code)),
                (Answer::Silence, _) => Ok(None),
            }
        })
    }
}

fn asked(request: &Request<'_>) -> Option<Asked> {
    let (table, address, count) = match request {
        Request::ReadCoils(address, count) => (Table::Coil, *address, *count),
        Request::ReadDiscreteInputs(address, count) => (Table::DiscreteInput, *address, *count),
        Request::ReadHoldingRegisters(address, count) => (Table::Holding, *address, *count),
        Request::ReadInputRegisters(address, count) => (Table::Input, *address, *count),
        _ => return None,
    };
    Some(Asked { table, address, count })
}

/// A listener with its connections. Dropped, it closes them all.
#[derive(Debug)]
pub(super) struct TcpSlave {
    task: JoinHandle<()>,
    slots: Arc<Semaphore>,
    /// Ends the connections, which are tasks of their own.
    gone: CancellationToken,
}

impl TcpSlave {
    /// Serves the units of a link on a listener.
    pub(super) fn start(slave: Slave, faults: LinkFaults, listener: TcpListener) -> TcpSlave {
        let slots = Arc::new(Semaphore::new(CONNECTIONS as usize));
        let gone = CancellationToken::new();
        let task = tokio::spawn(serve(slave, faults, listener, slots.clone(), gone.clone()));
        TcpSlave { task, slots, gone }
    }

    /// Closes the listener and every connection, and returns when they are closed.
    pub(super) async fn close(mut self) {
        self.task.abort();
        self.gone.cancel();
        // It ends as cancelled, which is what was asked for.
        let _ = (&mut self.task).await;
        // Each connection holds a slot until it is gone. The semaphore is never closed, so this cannot fail.
        let _ = self.slots.acquire_many(CONNECTIONS).await;
    }
}

impl Drop for TcpSlave {
    fn drop(&mut self) {
        self.task.abort();
        self.gone.cancel();
    }
}

/// How the frames of a listener's connections are made.
enum Server {
    Tcp(tcp::Server),
    RtuOverTcp(rtu_over_tcp::Server),
}

async fn serve(
    slave: Slave,
    faults: LinkFaults,
    listener: TcpListener,
    slots: Arc<Semaphore>,
    gone: CancellationToken,
) {
    let server = match faults.framing() {
        Framing::Tcp => Server::Tcp(tcp::Server::new(listener)),
        Framing::Rtu => Server::RtuOverTcp(rtu_over_tcp::Server::new(listener)),
    };
    let on_connected = |stream: TcpStream, _peer: SocketAddr| {
        let open = CONNECTIONS - slots.available_permits() as u32;
        let slot = slots.clone().try_acquire_owned().ok().filter(|_| faults.admits(open));
        let (slave, faults, gone) = (slave.clone(), faults.clone(), gone.clone());
        async move {
            let Some(slot) = slot else {
                reset(stream);
                return Ok(None);
            };
            // Without this an answer may wait for the acknowledgement of the one before.
            stream.set_nodelay(true).ok();
            let (near, far) = tokio::io::duplex(PIPE_BYTES);
            tokio::spawn(async move {
                if let Err(err) = relay::carry(stream, near, faults, gone).await {
                    tracing::debug!(error = %err, "a connection broke");
                }
                // Held until here, so that a closed link knows when its connections are closed too.
                drop(slot);
            });
            Ok(Some((slave, far)))
        }
    };
    loop {
        let link = slave.link;
        let on_error = move |err: std::io::Error| tracing::debug!(?link, error = %err, "a connection broke");
        let ended = match &server {
            Server::Tcp(server) => server.serve(&on_connected, on_error).await,
            Server::RtuOverTcp(server) => server.serve(&on_connected, on_error).await,
        };
        if let Err(err) = ended {
            tracing::warn!(link = ?slave.link, error = %err, "the simulated device could not accept a connection");
        }
        tokio::time::sleep(LISTENER_REST).await;
    }
}

/// Closes a connection at once and with a reset, which is as near to a refusal as a program comes that listens.
fn reset(stream: TcpStream) {
    // Where this fails the connection ends in the usual way.
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).ok();
}
