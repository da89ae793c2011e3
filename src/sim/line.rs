//! A serial line of the simulated plant: a pseudo-terminal that the gateway opens like any port.
//!
//! `tokio-modbus` gives up a serial line for good after some 20 bytes that are no request, and closes it. A real line
//! outlives noise, so the server has a pseudo-terminal of its own, made anew whenever it ends, and bytes are carried
//! between the two. It also waits for the rest of a frame for ever, so it is made anew when bytes that were no request are
//! followed by silence. The same place repeats what it hears where the configuration says `local_echo`.
//! The line has no bit rate: characters arrive at once.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_modbus::server::rtu;
use tokio_serial::{SerialPort, SerialStream};

use super::outbox::Outgoing;
use super::relay::LinkFaults;
use super::slave::Slave;
use super::wire::Wire;

/// How often the port is made free for the next program that wants it for itself.
const RELEASE_EVERY: Duration = Duration::from_millis(250);

/// Longer than the 3.5 characters that end a frame at any usual bit rate, and long enough for the server to have
/// understood a request.
const FRAME_SILENCE: Duration = Duration::from_millis(50);

/// A server that ended rests this long, so that endless noise does not keep the processor busy.
const SERVER_REST: Duration = Duration::from_millis(20);

/// A serial line that is plugged in. Dropped, the port is gone and its name is removed.
#[derive(Debug)]
pub(super) struct SerialSlave {
    name: PortName,
    task: JoinHandle<()>,
}

impl SerialSlave {
    /// Makes the port and serves the units of the link on it. `replace` allows to take over a name that leads elsewhere.
    pub(super) fn start(
        slave: Slave,
        faults: LinkFaults,
        path: &Path,
        local_echo: bool,
        replace: bool,
    ) -> io::Result<SerialSlave> {
        let (line, port) = SerialStream::pair()?;
        let terminal = port.name().ok_or_else(|| io::Error::other("the pseudo-terminal has no name"))?;
        let name = PortName::link(path, terminal, replace)?;
        let task = tokio::spawn(serve(slave, faults, line, port, local_echo));
        Ok(SerialSlave { name, task })
    }

    /// Closes the port, and returns when it is closed.
    pub(super) async fn close(mut self) {
        self.name.remove();
        self.task.abort();
        // It ends as cancelled, which is what was asked for.
        let _ = (&mut self.task).await;
    }
}

impl Drop for SerialSlave {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The name under which the gateway finds the port: a symbolic link to the pseudo-terminal.
#[derive(Debug)]
struct PortName {
    path: PathBuf,
    terminal: String,
}

impl PortName {
    fn link(path: &Path, terminal: String, replace: bool) -> io::Result<PortName> {
        if let Ok(target) = std::fs::read_link(path) {
            // A link to nothing was left behind by a plant that was killed.
            if !replace && path.exists() {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    format!("it exists already and leads to {}", target.display()),
                ));
            }
            std::fs::remove_file(path)?;
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::os::unix::fs::symlink(&terminal, path)?;
        Ok(PortName { path: path.to_owned(), terminal })
    }

    /// Removes the name, unless it leads to another port by now.
    fn remove(&self) {
        if std::fs::read_link(&self.path).is_ok_and(|target| target == Path::new(&self.terminal)) {
            // Gone is gone, whoever removed it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Drop for PortName {
    fn drop(&mut self) {
        self.remove();
    }
}

/// `port` stays open here, so that the line does not hang up when the gateway closes it.
async fn serve(slave: Slave, faults: LinkFaults, mut line: SerialStream, port: SerialStream, local_echo: bool) {
    let mut wire = Wire::new(faults.framing());
    let mut unread = Vec::new();
    loop {
        match serve_once(&slave, &faults, &mut wire, &mut line, &port, local_echo, &unread).await {
            Ok(begins_anew) => unread = begins_anew,
            Err(err) => {
                tracing::debug!(error = %err, "the serial server ended, and is started anew");
                unread.clear();
                tokio::time::sleep(SERVER_REST).await;
            }
        }
    }
}

/// Carries bytes between the line and a new server, first those that are `unread`. Returns the bytes that came after a
/// silence which ended a broken frame; the next server has to begin with them.
async fn serve_once(
    slave: &Slave,
    faults: &LinkFaults,
    wire: &mut Wire,
    line: &mut SerialStream,
    port: &SerialStream,
    local_echo: bool,
    unread: &[u8],
) -> io::Result<Vec<u8>> {
    let (mut near, far) = SerialStream::pair()?;
    let mut server = AbortOnDrop(tokio::spawn(rtu::Server::new(far).serve_forever(slave.clone())));
    let mut release = tokio::time::interval(RELEASE_EVERY);
    let (mut from_line, mut from_server) = ([0_u8; 512], [0_u8; 512]);
    let mut passed_on = PassedOn { at: Instant::now(), requests: slave.requests() };
    near.write_all(unread).await?;
    loop {
        tokio::select! {
            ended = &mut server.0 => {
                ended.map_err(io::Error::other)??;
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            read = line.read(&mut from_line) => {
                let bytes = &from_line[..read?];
                if local_echo {
                    line.write_all(bytes).await?;
                }
                if passed_on.is_broken_frame(slave.requests()) {
                    return Ok(bytes.to_vec());
                }
                passed_on = PassedOn { at: Instant::now(), requests: slave.requests() };
                faults.asked(wire, bytes);
                near.write_all(bytes).await?;
            }
            read = near.read(&mut from_server) => {
                // Whether the line goes away by it: then the port is closed from outside.
                faults.answered(wire, &from_server[..read?]);
            }
            () = faults.due(wire) => {}
            _ = release.tick() => release_exclusive(port.as_raw_fd()),
        }
        while let Some(outgoing) = wire.take(faults.now()) {
            // A serial line has no connection that could be closed.
            if let Outgoing::Bytes(bytes) = outgoing {
                line.write_all(&bytes).await?;
            }
        }
    }
}

/// When bytes were last passed on to the server, and how many requests it had understood before.
struct PassedOn {
    at: Instant,
    requests: u64,
}

impl PassedOn {
    /// Whether those bytes were no request, and the silence after them has ended their frame.
    fn is_broken_frame(&self, requests: u64) -> bool {
        requests == self.requests && self.at.elapsed() > FRAME_SILENCE
    }
}

struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Lets the terminal be opened again after a gateway was killed while it had the port for itself.
///
/// A real port forgets `TIOCEXCL` with its last close. This one never has a last close, because we hold it open, and the
/// next gateway would be told for ever that the port is busy. Two gateways at once are still kept apart by their locks
/// on the file.
#[allow(unsafe_code)]
fn release_exclusive(port: RawFd) {
    // SAFETY: `TIOCNXCL` takes no argument and touches no memory of ours, and the descriptor is open: the caller holds
    // the port. A failure would leave the terminal as it is.
    unsafe {
        libc::ioctl(port, libc::TIOCNXCL);
    }
}
