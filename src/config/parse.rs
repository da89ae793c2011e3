//! From a text to a [`Config`], or to all that is wrong with it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::de::DeTable;

use super::devices::{DeviceDraft, devices};
use super::fault::{Fault, Faults, Severity, Source, sorted};
use super::keys;
use super::links::{LinkDraft, links};
use super::reader::{Notes, TableReader};
use super::{Config, sections, syntax};
use crate::registry::Registry;

/// A configuration that can be used, and what someone should know of it.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// What the daemon may rely on.
    pub config: Config,
    /// What is no error, in the order of the file.
    pub warnings: Vec<Fault>,
}

/// Why a file gives no configuration.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It is not there, may not be read, or is no text.
    #[error("{} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        err: io::Error,
    },
    /// It can be read, and is wrong.
    #[error(transparent)]
    Faulty(Faults),
}

impl Config {
    /// Reads a file, and the files that it names.
    pub fn load(path: &Path) -> Result<Parsed, LoadError> {
        let text = std::fs::read_to_string(path).map_err(|err| LoadError::Unreadable { path: path.into(), err })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let read_file = |named: &Path| std::fs::read_to_string(folder.join(named));
        let parsed = Config::parse_with(&text, &path.display().to_string(), &read_file).map_err(LoadError::Faulty)?;
        Ok(parsed.with_paths_below(folder))
    }

    /// Reads a text that names no further files: one that does (`password_file`, `ca_file`) is refused.
    pub fn parse(text: &str, file_name: &str) -> Result<Parsed, Faults> {
        let no_files = |_: &Path| Err(io::Error::new(io::ErrorKind::NotFound, "no files are read here"));
        Config::parse_with(text, file_name, &no_files)
    }

    /// Reads a text; `read_file` gives the files that it names.
    pub fn parse_with(text: &str, file_name: &str, read_file: sections::ReadFile<'_>) -> Result<Parsed, Faults> {
        let source = Source::new(file_name, text);
        let (syntax, readable) = syntax::look_at(&source);
        if syntax.lost_a_table {
            return Err(Faults::new(syntax.faults));
        }
        let (document, _) = DeTable::parse_recoverable(&readable);
        let notes = Notes::new(source, syntax.unreadable, syntax.faults);
        let config = config_of(&notes, document.get_ref(), read_file);
        let faults = notes.into_faults();
        match config {
            Some(config) if faults.iter().all(|fault| fault.severity == Severity::Warning) => {
                Ok(Parsed { config, warnings: sorted(faults) })
            }
            _ => Err(Faults::new(faults)),
        }
    }
}

impl Parsed {
    /// Files that a configuration names are found from its own folder, wherever the daemon is started.
    fn with_paths_below(mut self, folder: &Path) -> Parsed {
        self.config.broker.ca_file = self.config.broker.ca_file.map(|path| folder.join(path));
        self
    }
}

fn config_of<'i>(notes: &Notes<'i>, document: &DeTable<'i>, read_file: sections::ReadFile<'_>) -> Option<Config> {
    let empty = DeTable::new();
    let file = TableReader::new(notes, document, &keys::FILE, 0..0, String::new());
    let gateway = sections::gateway(&file.table("gateway", &keys::GATEWAY, &empty));
    let broker = sections::broker(&file.table("broker", &keys::BROKER, &empty), read_file);
    let publish = sections::publish(&file.table("publish", &keys::PUBLISH, &empty));
    let calls = sections::calls(&file.table("calls", &keys::CALLS, &empty));
    let metrics = sections::metrics(&file.table("metrics", &keys::METRICS, &empty));
    let id_format = sections::id_format(&file.table("sensors", &keys::SENSORS, &empty));
    let links = links(&file);
    let devices = devices(&file, &links, id_format.as_ref());
    note_what_is_not_used(&file, &links, &devices);
    let registry = Arc::new(registry_of(links, devices)?);
    Some(Config { gateway: gateway?, broker: broker?, publish, calls, metrics, registry })
}

fn note_what_is_not_used(file: &TableReader<'_, '_>, links: &[LinkDraft<'_, '_>], devices: &[DeviceDraft<'_, '_>]) {
    if devices.is_empty() && file.optional("device").is_none() {
        file.warn("there is no device, so that nothing is read", "add [[link]], [[device]] and [[device.sensor]]");
        return;
    }
    for (place, draft) in links.iter().enumerate() {
        let is_used = devices.iter().any(|device| device.link.is_none_or(|link| link.place() == place));
        if !is_used {
            draft.table.warn("no device is on this link", "add a [[device]] with it, or remove the link");
        }
    }
}

/// The registry, if every link, device and sensor was understood; the places of drafts are then its indices.
fn registry_of(links: Vec<LinkDraft<'_, '_>>, devices: Vec<DeviceDraft<'_, '_>>) -> Option<Registry> {
    let mut registry = Registry::default();
    for draft in links {
        registry.add_link(draft.link?).ok()?;
    }
    let mut sensors = Vec::new();
    for draft in devices {
        registry.add_device(draft.device?).ok()?;
        sensors.extend(draft.sensors);
    }
    for draft in sensors {
        registry.add_sensor(draft.sensor?).ok()?;
    }
    Some(registry)
}
