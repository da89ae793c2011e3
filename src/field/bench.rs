//! A link's task and the devices that it talks to, in memory and with the clock stopped.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::handle::FieldHandle;
use super::line::Line;
use super::link::LinkTask;
use super::testing::Plan;
use super::transport::Pipes;
use crate::board::Board;
use crate::clock;
use crate::modbus::rtu::crc;
use crate::progress::Progress;
use crate::quantity::Value;
use crate::registry::reading::{DeviceStatus, Fault, NoValueNow, OfflineCause};
use crate::registry::{DeviceIndex, LinkIndex, Registry, SensorIndex};

pub const MINUTE: Duration = Duration::from_secs(60);

/// What the device in memory does with a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mood {
    /// Every register holds its own address.
    Answers,
    Silent,
    /// Answers so late.
    Late(Duration),
    Exception(u8),
    /// Refuses reads that touch this register with exception 2.
    Lacks(u16),
    /// Says each answer twice, and every register holds the number of requests so far. On serial lines.
    SaysItTwice,
    /// Refuses reads of more registers with this exception; 0 is silence.
    AtMost(u16, u8),
    /// Refuses one read with exception 2, and is silent from then on.
    RefusesOnceThenSilent,
    /// Hears nothing so long after the connection was made, or after the last answer on a serial line.
    Deaf(Duration),
    /// Answers on a connection that is younger; on an older one nothing comes any more. Over TCP.
    Mute(Duration),
    /// Closes the connection instead of answering, and answers on the next one.
    ClosesOnce,
    /// Counts the bytes of one answer wrongly, and of all later ones rightly. Over TCP.
    MiscountsOnce(u16),
    /// Never answers again on the connections that are open now, whatever its mood: it has forgotten them. Over TCP.
    ForgetsConnections,
}

/// A link's task, its board, and the device that it talks to.
pub struct Bench {
    pub registry: Arc<Registry>,
    pub board: Arc<Board>,
    pub progress: Arc<Progress>,
    pub handle: FieldHandle,
    /// The mood of each unit, from unit 1.
    moods: Arc<Mutex<Vec<Mood>>>,
    /// (unit, address, count) of each request that came.
    requests: Arc<Mutex<Vec<(u8, u16, u16)>>>,
    pub pipes: mpsc::UnboundedSender<DuplexStream>,
    pub stop: CancellationToken,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Bench {
    pub fn new(plan: Plan) -> Bench {
        let registry = Arc::new(plan.registry());
        let board = Arc::new(Board::new(Arc::clone(&registry)));
        let (pipes, mut connects) = mpsc::unbounded_channel();
        let (sender, calls) = mpsc::channel(4);
        let link = LinkIndex(0);
        let line = Line::over_pipes(registry.link(link), Pipes::new(move || connects.try_recv().ok()));
        let mut task = LinkTask::new(Arc::clone(&registry), link, Arc::clone(&board), line, calls, MINUTE);
        let stop = CancellationToken::new();
        let progress = Arc::new(Progress::default());
        task.pledge = progress.enrol("link".into());
        tokio::spawn(task.run(stop.clone()));
        let handle = FieldHandle::new(Arc::clone(&registry), vec![sender]);
        let moods = Arc::new(Mutex::new(vec![Mood::Answers; registry.devices().len()]));
        Bench { registry, board, progress, handle, moods, requests: Arc::default(), pipes, stop }
    }

    /// Lets the task connect once more.
    pub fn plug_in(&self) {
        self.plug(true);
    }

    /// Lets the task connect once more, to somebody who never answers.
    pub fn plug_in_nobody(&self) {
        self.plug(false);
    }

    fn plug(&self, is_alive: bool) {
        let (ours, theirs) = tokio::io::duplex(1024);
        self.pipes.send(theirs).expect("the task runs");
        let serial = self.registry.link(LinkIndex(0)).endpoint.line().is_some();
        let (moods, requests) = (Arc::clone(&self.moods), Arc::clone(&self.requests));
        if !is_alive {
            tokio::spawn(async move {
                // Takes what is sent, and never answers: the other side of a half-open connection.
                let mut ours = ours;
                let mut nothing = [0; 64];
                while ours.read(&mut nothing).await.is_ok_and(|length| length > 0) {}
            });
            return;
        }
        match serial {
            true => drop(tokio::spawn(serve_rtu(ours, moods, requests))),
            false => drop(tokio::spawn(serve(ours, moods, requests))),
        }
    }

    pub fn set_mood(&self, unit: u8, mood: Mood) {
        self.moods.lock().expect("unpoisoned")[usize::from(unit) - 1] = mood;
    }

    pub fn value(&self, sensor: u32, max_age: Duration) -> Result<Value, Option<Fault>> {
        self.board.look(SensorIndex(sensor), |state| match state.fresh(clock::instant(), max_age) {
            Ok(aged) => Ok(aged.value().clone()),
            Err(NoValueNow::Failed { fault, .. }) => Err(Some(fault)),
            Err(_) => Err(None),
        })
    }

    pub fn status(&self, device: u32) -> DeviceStatus {
        self.board.device(DeviceIndex(device)).status
    }

    /// Waits until the sensor is so; the stopped clock runs on meanwhile, and a minute of it is the bound.
    pub async fn until(&self, sensor: u32, expected: Result<Value, Option<Fault>>) -> Duration {
        let started = clock::instant();
        let agreed = async {
            while self.value(sensor, MINUTE) != expected {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let outcome = tokio::time::timeout(MINUTE, agreed).await;
        assert!(outcome.is_ok(), "{:?} and not {expected:?}", self.value(sensor, MINUTE));
        clock::instant() - started
    }

    pub fn requests(&self) -> Vec<(u8, u16, u16)> {
        self.requests.lock().expect("unpoisoned").clone()
    }
}

pub fn offline(cause: OfflineCause) -> Result<Value, Option<Fault>> {
    Err(Some(Fault::Offline(cause)))
}

async fn serve(mut stream: DuplexStream, moods: Arc<Mutex<Vec<Mood>>>, requests: Arc<Mutex<Vec<(u8, u16, u16)>>>) {
    let mut frame = [0; 12];
    let opened = clock::instant();
    let mut is_forgotten = false;
    while stream.read_exact(&mut frame).await.is_ok() {
        let (unit, function) = (frame[6], frame[7]);
        let address = u16::from_be_bytes([frame[8], frame[9]]);
        let count = u16::from_be_bytes([frame[10], frame[11]]);
        requests.lock().expect("unpoisoned").push((unit, address, count));
        let mood = moods.lock().expect("unpoisoned")[usize::from(unit) - 1];
        is_forgotten |= mood == Mood::ForgetsConnections;
        if is_forgotten {
            continue;
        }
        let mut pdu = vec![unit, function, (count * 2) as u8];
        pdu.extend((address..address + count).flat_map(u16::to_be_bytes));
        let exception = |code| vec![unit, function | 0x80, code];
        match mood {
            Mood::Answers => {}
            Mood::Silent => continue,
            Mood::Late(delay) => tokio::time::sleep(delay).await,
            Mood::Exception(code) => pdu = exception(code),
            Mood::Lacks(register) if (address..address + count).contains(&register) => pdu = exception(2),
            Mood::Lacks(_) | Mood::SaysItTwice | Mood::ForgetsConnections => {}
            Mood::AtMost(most, 0) if count > most => continue,
            Mood::AtMost(most, code) if count > most => pdu = exception(code),
            Mood::AtMost(..) => {}
            Mood::RefusesOnceThenSilent => {
                moods.lock().expect("unpoisoned")[usize::from(unit) - 1] = Mood::Silent;
                pdu = exception(2);
            }
            Mood::Deaf(so_long) if clock::instant() - opened < so_long => continue,
            Mood::Mute(age) if clock::instant() - opened >= age => continue,
            Mood::Deaf(_) | Mood::Mute(_) => {}
            Mood::MiscountsOnce(_) => moods.lock().expect("unpoisoned")[usize::from(unit) - 1] = Mood::Answers,
            Mood::ClosesOnce => {
                moods.lock().expect("unpoisoned")[usize::from(unit) - 1] = Mood::Answers;
                return;
            }
        }
        let length = if let Mood::MiscountsOnce(length) = mood { length } else { pdu.len() as u16 };
        let mut answer = [&frame[..2], &[0, 0], &length.to_be_bytes()].concat();
        answer.extend(pdu);
        if stream.write_all(&answer).await.is_err() {
            return;
        }
    }
}

/// A serial line's devices: they hear everything, and one answers late without hearing what is said meanwhile.
async fn serve_rtu(mut stream: DuplexStream, moods: Arc<Mutex<Vec<Mood>>>, requests: Arc<Mutex<Vec<(u8, u16, u16)>>>) {
    let mut frame = [0; 8];
    let mut last_answer = None;
    while stream.read_exact(&mut frame).await.is_ok() {
        let (unit, function) = (frame[0], frame[1]);
        let address = u16::from_be_bytes([frame[2], frame[3]]);
        let count = u16::from_be_bytes([frame[4], frame[5]]);
        requests.lock().expect("unpoisoned").push((unit, address, count));
        let mood = moods.lock().expect("unpoisoned")[usize::from(unit) - 1];
        match mood {
            Mood::Silent => continue,
            Mood::Late(delay) => tokio::time::sleep(delay).await,
            Mood::Deaf(so_long) if last_answer.is_some_and(|last| clock::instant() - last < so_long) => continue,
            _ => {}
        }
        let asked = requests.lock().expect("unpoisoned").len() as u16;
        let mut answer = vec![unit, function, (count * 2) as u8];
        match mood {
            Mood::SaysItTwice => answer.extend((0..count).flat_map(|_| asked.to_be_bytes())),
            _ => answer.extend((address..address + count).flat_map(u16::to_be_bytes)),
        }
        answer.extend(crc(&answer).to_le_bytes());
        last_answer = Some(clock::instant());
        if stream.write_all(&answer).await.is_err() {
            return;
        }
        if mood == Mood::SaysItTwice {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let _ = stream.write_all(&answer).await;
        }
    }
}
