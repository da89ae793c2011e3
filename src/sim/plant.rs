//! The devices of the simulated plant: their registers, and what they answer at a moment.
//!
//! Pure: time comes as an argument, and a request comes as numbers. Registers of one request are all of one moment.
//! Addresses that no sensor names do not exist (exception 2), but for gaps of at most [`GAP_REGISTERS`] between sensors:
//! they answer 0, because real devices have registers there and a gateway may read across them. `strict_gaps` ends that.
//! Where sensors share a register, bits are merged, and else the later sensor of the configuration wins.
//! Writes are absent for now: they are answered with exception 1.

use std::sync::Arc;
use std::time::Duration;

use super::PlantOptions;
use super::control::{Command, did_you_mean};
use super::identity;
use super::pin::{self, Words};
use super::signal::Signal;
use crate::clock;
use crate::modbus::Table;
use crate::quantity::Value;
use crate::registry::sensor::Endpoint;
use crate::registry::{DeviceIndex, LinkIndex, Registry, Sensor, SensorIndex};

/// The widest gap between two sensors of a device that answers 0: as wide as a gateway reads across over TCP.
pub const GAP_REGISTERS: u32 = 64;

/// The same for coils and discrete inputs: as many bits as those registers have.
pub const GAP_BITS: u32 = GAP_REGISTERS * 16;

/// All devices of a registry, as they would answer.
#[derive(Debug)]
pub struct Plant {
    registry: Arc<Registry>,
    strict_gaps: bool,
    self_identifying: bool,
    devices: Vec<DeviceState>,
    sensors: Vec<SensorState>,
}

#[derive(Clone, Debug)]
struct DeviceState {
    silent: bool,
    delay: Duration,
    exception: Option<u8>,
    /// The addresses that exist: table, first, one past the last. Sorted, and apart from one another.
    extents: Vec<(Table, u32, u32)>,
}

#[derive(Clone, Debug)]
struct SensorState {
    signal: Signal,
    pinned: Option<Words>,
}

/// A read as it came; nothing of it is checked yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The table.
    pub table: Table,
    /// The first address.
    pub address: u16,
    /// How many registers or bits.
    pub count: u16,
}

/// What a device answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing at all.
    Silence,
    /// An exception with this code.
    Exception(u8),
    /// Registers, as many as were asked for.
    Registers(Vec<u16>),
    /// Bits, as many as were asked for.
    Bits(Vec<bool>),
}

const ILLEGAL_FUNCTION: u8 = 1;
const ILLEGAL_ADDRESS: u8 = 2;
const ILLEGAL_VALUE: u8 = 3;
/// What a gateway from TCP to a serial line says of a unit that it does not reach.
const GATEWAY_TARGET_SILENT: u8 = 11;

impl Plant {
    /// A plant in which every device works. The same seed gives the same values at the same time after the start.
    pub fn new(registry: Arc<Registry>, seed: u64, strict_gaps: bool) -> Plant {
        let devices = registry.devices().map(|(index, _)| DeviceState {
            silent: false,
            delay: Duration::ZERO,
            exception: None,
            extents: extents(&registry, index, strict_gaps),
        });
        let sensors =
            registry.sensors().map(|(_, sensor)| SensorState { signal: Signal::of(sensor, seed), pinned: None });
        let (devices, sensors) = (devices.collect(), sensors.collect());
        Plant { devices, sensors, strict_gaps, self_identifying: false, registry }
    }

    /// A plant with the options about its values.
    pub fn with_options(registry: Arc<Registry>, options: &PlantOptions) -> Plant {
        let plant = Plant::new(registry, options.seed, options.strict_gaps);
        Plant { self_identifying: options.self_identifying, ..plant }
    }

    /// The links, devices and sensors of the plant.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Whether gaps between sensors do not exist.
    pub fn strict_gaps(&self) -> bool {
        self.strict_gaps
    }

    /// How long the unit waits before it answers.
    pub fn delay(&self, link: LinkIndex, unit: u8) -> Duration {
        self.device_of(link, unit).map_or(Duration::ZERO, |device| self.devices[device.place()].delay)
    }

    /// What the unit answers to a read at this moment.
    pub fn read(&self, link: LinkIndex, unit: u8, asked: Asked, at: Duration) -> Answer {
        match self.admit(link, unit) {
            Ok(device) => self.read_device(device, asked, at),
            Err(answer) => answer,
        }
    }

    /// What the unit answers to anything that is no read.
    pub fn refuse(&self, link: LinkIndex, unit: u8) -> Answer {
        self.admit(link, unit).map_or_else(|answer| answer, |_| Answer::Exception(ILLEGAL_FUNCTION))
    }

    /// The value that the sensor's registers hold now; `None` while they hold none.
    pub fn value(&self, sensor: SensorIndex, at: Duration) -> Option<Value> {
        let described = self.registry.sensor(sensor);
        let read = described.read;
        let asked = Asked { table: read.table, address: read.address, count: read.count() };
        match self.read_device(described.device, asked, at) {
            Answer::Bits(bits) => bits.first().map(|bit| Value::Bool(*bit)),
            Answer::Registers(words) => {
                let sample = described.interpret(&words, clock::now()).ok()?;
                let value = sample.at(sample.read_at().instant).value().clone();
                Some(value)
            }
            Answer::Silence | Answer::Exception(_) => None,
        }
    }

    /// Carries out a command that is about devices and sensors. What was done, or why not and what would be right.
    pub fn apply(&mut self, command: &Command, at: Duration) -> Result<String, String> {
        match command {
            Command::Stop(device) => {
                self.device_mut(device.as_str())?.silent = true;
                Ok(format!("{device} is silent"))
            }
            Command::Start(device) => {
                self.device_mut(device.as_str())?.silent = false;
                Ok(format!("{device} answers"))
            }
            Command::Slow(device, delay) => {
                self.device_mut(device.as_str())?.delay = *delay;
                Ok(format!("{device} answers after {} ms", delay.as_millis()))
            }
            Command::Exception(device, code) => {
                self.device_mut(device.as_str())?.exception = *code;
                Ok(code.map_or_else(
                    || format!("{device} answers without an exception"),
                    |code| format!("{device} answers exception {code}"),
                ))
            }
            Command::Set(sensor, text) => self.pin(sensor.as_str(), at, |sensor| pin::words_of_text(sensor, text)),
            Command::Raw(sensor, words) => self.pin(sensor.as_str(), at, |sensor| pin::words_as_given(sensor, words)),
            Command::NoValue(sensor) => self.pin(sensor.as_str(), at, pin::words_of_no_value),
            Command::Free(sensor) => {
                let index = self.find_sensor(sensor.as_str())?;
                self.sensors[index.place()].pinned = None;
                Ok(self.describe_sensor(index, at))
            }
            Command::Get(sensor) => Ok(self.describe_sensor(self.find_sensor(sensor.as_str())?, at)),
            Command::List(Some(device)) => {
                let index = self.find_device(device.as_str())?;
                let sensors = &self.registry.device(index).sensors;
                let values: Vec<String> = sensors.iter().map(|sensor| self.describe_sensor(*sensor, at)).collect();
                Ok(format!("{}: {}", self.describe_device(index), values.join(", ")))
            }
            Command::List(None) => {
                let devices: Vec<String> =
                    self.registry.devices().map(|(index, _)| self.describe_device(index)).collect();
                Ok(devices.join(", "))
            }
            Command::Unplug(_) | Command::Plug(_) | Command::Fault(_) | Command::Help | Command::Quit => {
                Err(format!("`{command}` is not about a device"))
            }
        }
    }

    fn pin(
        &mut self,
        id: &str,
        at: Duration,
        words: impl FnOnce(&Sensor) -> Result<Words, String>,
    ) -> Result<String, String> {
        let index = self.find_sensor(id)?;
        self.sensors[index.place()].pinned = Some(words(self.registry.sensor(index))?);
        Ok(self.describe_sensor(index, at))
    }

    fn describe_sensor(&self, index: SensorIndex, at: Duration) -> String {
        let sensor = self.registry.sensor(index);
        let pinned = if self.sensors[index.place()].pinned.is_some() { " (kept)" } else { "" };
        match self.value(index, at) {
            Some(value) => format!("{} = {value} {}", sensor.id, sensor.unit).trim_end().to_owned() + pinned,
            None => format!("{} has no value{pinned}", sensor.id),
        }
    }

    fn describe_device(&self, index: DeviceIndex) -> String {
        let device = self.registry.device(index);
        let state = &self.devices[index.place()];
        let mut text = format!("{} (unit {} of {})", device.id, device.unit, self.registry.link(device.link).id);
        text += if state.silent { " is silent" } else { " answers" };
        if !state.delay.is_zero() {
            text += &format!(" after {} ms", state.delay.as_millis());
        }
        if let Some(code) = state.exception {
            text += &format!(" exception {code}");
        }
        text
    }

    fn find_sensor(&self, id: &str) -> Result<SensorIndex, String> {
        let known = || self.registry.sensors().map(|(_, sensor)| sensor.id.as_str());
        self.registry.find_sensor(id).ok_or_else(|| format!("there is no sensor {id}{}", did_you_mean(id, known())))
    }

    fn find_device(&self, id: &str) -> Result<DeviceIndex, String> {
        let known = || self.registry.devices().map(|(_, device)| device.id.as_str());
        self.registry.find_device(id).ok_or_else(|| format!("there is no device {id}{}", did_you_mean(id, known())))
    }

    fn device_mut(&mut self, id: &str) -> Result<&mut DeviceState, String> {
        let index = self.find_device(id)?;
        Ok(&mut self.devices[index.place()])
    }

    fn device_of(&self, link: LinkIndex, unit: u8) -> Option<DeviceIndex> {
        let devices = &self.registry.link(link).devices;
        devices.iter().copied().find(|index| self.registry.device(*index).unit == unit)
    }

    /// The device that will answer, or what is answered without it.
    fn admit(&self, link: LinkIndex, unit: u8) -> Result<DeviceIndex, Answer> {
        let Some(device) = self.device_of(link, unit) else {
            return Err(match self.registry.link(link).endpoint {
                // On a line each device hears every request, and answers only its own.
                Endpoint::Serial(_) | Endpoint::RtuOverTcp { .. } => Answer::Silence,
                Endpoint::Tcp { .. } => Answer::Exception(GATEWAY_TARGET_SILENT),
            });
        };
        let state = &self.devices[device.place()];
        match state.exception {
            _ if state.silent => Err(Answer::Silence),
            Some(code) => Err(Answer::Exception(code)),
            None => Ok(device),
        }
    }

    fn read_device(&self, device: DeviceIndex, asked: Asked, at: Duration) -> Answer {
        if asked.count == 0 || asked.count > asked.table.read_limit() {
            return Answer::Exception(ILLEGAL_VALUE);
        }
        let first = u32::from(asked.address);
        let end = first + u32::from(asked.count);
        let exists = |(table, from, to): &(Table, u32, u32)| *table == asked.table && *from <= first && end <= *to;
        if !self.devices[device.place()].extents.iter().any(exists) {
            return Answer::Exception(ILLEGAL_ADDRESS);
        }
        let mut words = vec![0_u16; usize::from(asked.count)];
        for index in &self.registry.device(device).sensors {
            let sensor = self.registry.sensor(*index);
            let touches = sensor.read.table == asked.table
                && u32::from(sensor.read.address) < end
                && first < u32::from(sensor.read.address) + u32::from(sensor.read.count());
            if touches {
                self.place_words(*index, asked.address, &mut words, at);
            }
        }
        self.place_heartbeat(device, asked, &mut words, at);
        if asked.table.is_bits() {
            return Answer::Bits(words.iter().map(|word| *word != 0).collect());
        }
        Answer::Registers(words)
    }

    /// Writes the device's heartbeat, which counts seconds, over what else is there.
    fn place_heartbeat(&self, device: DeviceIndex, asked: Asked, words: &mut [u16], at: Duration) {
        let Some(heartbeat) = self.registry.device(device).heartbeat else { return };
        let offset = heartbeat.address.checked_sub(asked.address).filter(|_| heartbeat.table == asked.table);
        let Some(slot) = offset.and_then(|offset| words.get_mut(usize::from(offset))) else { return };
        let beats = at.as_secs() as u16;
        *slot = if asked.table.is_bits() { beats & 1 } else { beats };
    }

    /// Writes a sensor's words over those that start at `first`, as far as they overlap.
    fn place_words(&self, index: SensorIndex, first: u16, words: &mut [u16], at: Duration) {
        let sensor = self.registry.sensor(index);
        let mask = pin::mask_of(sensor);
        for (place, (word, mask)) in self.words_of(index, at).iter().zip(&mask).enumerate() {
            let address = usize::from(sensor.read.address) + place;
            if let Some(slot) = address.checked_sub(first.into()).and_then(|offset| words.get_mut(offset)) {
                *slot = (*slot & !mask) | (word & mask);
            }
        }
    }

    fn words_of(&self, index: SensorIndex, at: Duration) -> Words {
        let state = &self.sensors[index.place()];
        let sensor = self.registry.sensor(index);
        let signal = || pin::words_of_signal(sensor, state.signal.at(at));
        match &state.pinned {
            Some(words) => words.clone(),
            None if self.self_identifying => identity::words(&self.registry, index, at).unwrap_or_else(signal),
            None => signal(),
        }
    }
}

/// The addresses of a device that exist.
fn extents(registry: &Registry, device: DeviceIndex, strict_gaps: bool) -> Vec<(Table, u32, u32)> {
    let mut named: Vec<(Table, u32, u32)> = registry
        .device(device)
        .sensors
        .iter()
        .map(|sensor| registry.sensor(*sensor).read)
        .map(|read| (read.table, read.address.into(), u32::from(read.address) + u32::from(read.count())))
        .chain(
            registry
                .device(device)
                .heartbeat
                .map(|beat| (beat.table, beat.address.into(), u32::from(beat.address) + 1)),
        )
        .collect();
    named.sort();
    let mut extents: Vec<(Table, u32, u32)> = Vec::new();
    for (table, from, to) in named {
        let gap = match (strict_gaps, table.is_bits()) {
            (true, _) => 0,
            (false, false) => GAP_REGISTERS,
            (false, true) => GAP_BITS,
        };
        match extents.last_mut() {
            Some((last_table, _, last_to)) if *last_table == table && from <= *last_to + gap => {
                *last_to = to.max(*last_to);
            }
            _ => extents.push((table, from, to)),
        }
    }
    extents
}
