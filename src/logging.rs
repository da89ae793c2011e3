//! Where log lines go: to the terminal for people, or to the journal with fields when systemd starts us.
//!
//! The journal's fields are those of the events, in capitals: `journalctl -u fieldgate SENSOR_ID=A_LINE1_042`, and so
//! `DEVICE`, `LINK`, `TOOL`, `CLIENT`, `ERROR`. An event about a device names its sensors, too, in a field that only the
//! journal gets: whoever asks for a sensor also finds that its device went away.

use std::fmt::{self, Write as _};
use std::io::IsTerminal;

use systemd_journal_logger::{JournalLog, connected_to_journal};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::{EnvFilter, fmt as terminal};

/// What a service logs: what happens to links, devices, the broker and calls, and of its libraries what went wrong.
pub const OF_A_SERVICE: &str = "info,mqtt5=warn,rmcp=warn,rumqttc=warn";

/// What a command logs beside its output: nothing but what is wrong with the program itself.
pub const OF_A_COMMAND: &str = "error";

/// The field that holds the ids of several sensors, with spaces between them: in the journal, one `SENSOR_ID` each.
const SENSOR_IDS: &str = "sensor_ids";

/// Starts logging. `filter` is as in `RUST_LOG`, which goes before it: `info`, or `warn,fieldgate::field=debug`.
pub fn start(filter: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(filter));
    let journal = if connected_to_journal() { JournalLog::new().ok() } else { None };
    let subscriber = tracing_subscriber::registry().with(filter);
    // A second start, as in tests, keeps the first one.
    let _ = match journal {
        Some(journal) => tracing::subscriber::set_global_default(subscriber.with(JournalLayer { journal })),
        None => {
            let colours = std::io::stderr().is_terminal();
            let fields = terminal::format::debug_fn(|line, field, value| match field.name() {
                "message" => write!(line, "{value:?}"),
                SENSOR_IDS => Ok(()),
                name => write!(line, "{name}={value:?}"),
            });
            let layer = terminal::layer().fmt_fields(fields.delimited(" "));
            let layer = layer.with_writer(std::io::stderr).with_ansi(colours).with_target(false);
            tracing::subscriber::set_global_default(subscriber.with(layer))
        }
    };
}

/// Hands events to the journal's logger, whose interface is that of the `log` crate.
struct JournalLayer {
    journal: JournalLog,
}

impl<S: Subscriber> Layer<S> for JournalLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut parts = Parts::default();
        event.record(&mut parts);
        let fields: Vec<(&str, &str)> = parts.fields.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let metadata = event.metadata();
        let mut record = log::Record::builder();
        record
            .level(match *metadata.level() {
                Level::ERROR => log::Level::Error,
                Level::WARN => log::Level::Warn,
                Level::INFO => log::Level::Info,
                Level::DEBUG => log::Level::Debug,
                Level::TRACE => log::Level::Trace,
            })
            .target(metadata.target())
            .module_path(metadata.module_path())
            .file(metadata.file())
            .line(metadata.line())
            .key_values(&fields);
        // A line that the journal does not take is lost: there is no better place to say so.
        let _ = self.journal.journal_send(&record.args(format_args!("{}", parts.message)).build());
    }
}

/// An event's message and its fields. The fields are in the message, too: `journalctl` shows the message alone.
#[derive(Default)]
struct Parts {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl Visit for Parts {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            let rest = std::mem::take(&mut self.message);
            self.message = format!("{value:?}{rest}");
        } else if field.name() == SENSOR_IDS {
            let ids = format!("{value:?}");
            self.fields.extend(ids.split_whitespace().map(|id| ("sensor_id", id.to_owned())));
        } else {
            let _ = write!(self.message, " {}={value:?}", field.name());
            self.fields.push((field.name(), format!("{value:?}")));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}
