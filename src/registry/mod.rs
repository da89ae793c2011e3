//! Who exists, and what is known of each: links, devices, sensors and their readings.
//!
//! A [`Registry`] is built once from a configuration and never changes while it is used; everyone holds it behind an
//! `Arc`. Indices into it are types of their own, so that a device's index never looks up a sensor.

pub mod heartbeat;
pub mod reading;
pub mod rules;
pub mod search;
pub mod sensor;

use std::collections::HashMap;

pub use sensor::{Device, Link, Sensor};

use crate::ids::{DeviceId, LinkId, SensorId};

macro_rules! index_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub(crate) u32);

        impl $name {
            /// The place in the registry's list of its kind.
            pub fn place(self) -> usize {
                self.0 as usize
            }
        }
    };
}

index_type!(
    /// Which link of the registry.
    LinkIndex
);
index_type!(
    /// Which device of the registry.
    DeviceIndex
);
index_type!(
    /// Which sensor of the registry.
    SensorIndex
);

/// All links, devices and sensors of one gateway, each in the order of the configuration.
///
/// Invariant: every index in it is in range, and names are unique within their kind.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    links: Vec<Link>,
    devices: Vec<Device>,
    sensors: Vec<Sensor>,
    sensors_by_id: HashMap<SensorId, SensorIndex>,
    devices_by_id: HashMap<DeviceId, DeviceIndex>,
    links_by_id: HashMap<LinkId, LinkIndex>,
}

/// The name stands in the registry already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name is taken")]
pub struct NameTaken;

impl Registry {
    /// Adds a link.
    pub fn add_link(&mut self, link: Link) -> Result<LinkIndex, NameTaken> {
        let index = LinkIndex(self.links.len() as u32);
        if self.links_by_id.contains_key(&link.id) {
            return Err(NameTaken);
        }
        self.links_by_id.insert(link.id.clone(), index);
        self.links.push(link);
        Ok(index)
    }

    /// Adds a device on a link of this registry.
    pub fn add_device(&mut self, device: Device) -> Result<DeviceIndex, NameTaken> {
        let index = DeviceIndex(self.devices.len() as u32);
        if self.devices_by_id.contains_key(&device.id) {
            return Err(NameTaken);
        }
        self.devices_by_id.insert(device.id.clone(), index);
        self.links[device.link.place()].devices.push(index);
        self.devices.push(device);
        Ok(index)
    }

    /// Adds a sensor of a device of this registry.
    pub fn add_sensor(&mut self, sensor: Sensor) -> Result<SensorIndex, NameTaken> {
        let index = SensorIndex(self.sensors.len() as u32);
        if self.sensors_by_id.contains_key(&sensor.id) {
            return Err(NameTaken);
        }
        self.sensors_by_id.insert(sensor.id.clone(), index);
        self.devices[sensor.device.place()].sensors.push(index);
        self.sensors.push(sensor);
        Ok(index)
    }

    /// All links.
    pub fn links(&self) -> impl ExactSizeIterator<Item = (LinkIndex, &Link)> {
        self.links.iter().enumerate().map(|(place, link)| (LinkIndex(place as u32), link))
    }

    /// All devices.
    pub fn devices(&self) -> impl ExactSizeIterator<Item = (DeviceIndex, &Device)> {
        self.devices.iter().enumerate().map(|(place, device)| (DeviceIndex(place as u32), device))
    }

    /// All sensors.
    pub fn sensors(&self) -> impl ExactSizeIterator<Item = (SensorIndex, &Sensor)> {
        self.sensors.iter().enumerate().map(|(place, sensor)| (SensorIndex(place as u32), sensor))
    }

    /// The link at an index.
    pub fn link(&self, index: LinkIndex) -> &Link {
        &self.links[index.place()]
    }

    /// The device at an index.
    pub fn device(&self, index: DeviceIndex) -> &Device {
        &self.devices[index.place()]
    }

    /// The sensor at an index.
    pub fn sensor(&self, index: SensorIndex) -> &Sensor {
        &self.sensors[index.place()]
    }

    /// The sensor of that name.
    pub fn find_sensor(&self, id: &str) -> Option<SensorIndex> {
        self.sensors_by_id.get(&id.parse::<SensorId>().ok()?).copied()
    }

    /// The device of that name.
    pub fn find_device(&self, id: &str) -> Option<DeviceIndex> {
        self.devices_by_id.get(&id.parse::<DeviceId>().ok()?).copied()
    }

    /// The link of that name.
    pub fn find_link(&self, id: &str) -> Option<LinkIndex> {
        self.links_by_id.get(&id.parse::<LinkId>().ok()?).copied()
    }
}

/// A number of things in words, such as `1 sensor`; the plural of the noun ends with an s.
pub fn count_of(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
