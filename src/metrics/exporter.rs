//! The meters in the text format of Prometheus.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry as Exposed;

use super::{DeviceMeter, LinkMeter, Outcome};
use crate::board::Board;
use crate::clock;
use crate::facts::Facts;
use crate::registry::reading::{DeviceState, DeviceStatus};
use crate::registry::{Device, Link, Registry};

/// The percentiles of answer times that are shown.
pub const QUANTILES: [(&str, f64); 3] = [("0.5", 0.5), ("0.9", 0.9), ("0.99", 0.99)];

/// What an exporter looks at.
#[derive(Clone, Debug)]
pub struct Exporter {
    /// The links and devices.
    pub registry: Arc<Registry>,
    /// Their state now, and what was counted of them.
    pub board: Arc<Board>,
    /// What the gateway knows of itself.
    pub facts: Arc<Facts>,
}

impl Exporter {
    /// All metrics as text, version 0.0.4 of the format.
    pub fn text(&self) -> String {
        let mut exposed = Exposed::with_prefix("fieldgate");
        exposed.register_collector(Box::new(self.clone()));
        let mut text = String::new();
        // Writing into a String does not fail.
        let _ = prometheus_client::encoding::prometheus_text::encode(&mut text, &exposed);
        text
    }
}

impl Collector for Exporter {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families { encoder };
        let now = clock::instant();
        families.of_the_gateway(&self.facts, now)?;
        let meters = self.board.meters();
        let links = self.registry.links().map(|(index, link)| (link, meters.link(index)));
        families.of_links(&links.collect::<Vec<_>>(), now)?;
        let devices = self.registry.devices().map(|(index, device)| DeviceView {
            labels: [("link", self.registry.link(device.link).id.as_str()), ("device", device.id.as_str())],
            device,
            meter: meters.device(index),
            state: self.board.device(index),
        });
        families.of_devices(&devices.collect::<Vec<_>>(), now)
    }
}

struct DeviceView<'a> {
    labels: [(&'static str, &'a str); 2],
    device: &'a Device,
    meter: DeviceMeter,
    state: DeviceState,
}

struct Families<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl Families<'_> {
    fn of_the_gateway(&mut self, facts: &Facts, now: Instant) -> fmt::Result {
        let broker = u64::from(facts.broker().connected);
        let uptime = now.saturating_duration_since(facts.started.instant).as_secs_f64();
        self.gauges(
            "build",
            "The version, as a label; the value says nothing.",
            [([("version", facts.version())], 1_u64)],
        )?;
        self.gauges("uptime_seconds", "Seconds since the start.", [([] as [(&str, &str); 0], uptime)])?;
        self.gauges("broker_connected", "Whether the broker is there.", [([] as [(&str, &str); 0], broker)])?;
        self.counters(
            "dropped_requests",
            "Requests of agents that were dropped unread, because too many waited.",
            [([] as [(&str, &str); 0], facts.dropped_requests())],
        )
    }

    fn of_links(&mut self, links: &[(&Link, LinkMeter)], now: Instant) -> fmt::Result {
        let labels = |link: &Link| [("link", link.id.as_str().to_owned())];
        self.counters(
            "link_busy_seconds",
            "Time in which the link was busy, pauses included.",
            links.iter().map(|(link, meter)| (labels(link), meter.load.total().as_secs_f64())),
        )?;
        self.gauges(
            "link_utilisation_ratio",
            "The share of the last minute in which the link was busy, 0 to 1.",
            links.iter().map(|(link, meter)| (labels(link), meter.load.share(now))),
        )?;
        self.counters(
            "link_connections",
            "Connections or serial ports that were opened.",
            links.iter().map(|(link, meter)| (labels(link), meter.connections)),
        )?;
        self.counters(
            "link_connect_failures",
            "Tries at a connection or serial port that failed.",
            links.iter().map(|(link, meter)| (labels(link), meter.connect_failures)),
        )
    }

    fn of_devices(&mut self, devices: &[DeviceView<'_>], now: Instant) -> fmt::Result {
        let by_outcome = |view: &DeviceView<'_>| {
            let [link, device] = view.labels.map(|(name, value)| (name, value.to_owned()));
            let answers = view.meter.answers;
            Outcome::ALL.map(move |outcome| {
                let labels = [link.clone(), device.clone(), ("outcome", outcome.name().to_owned())];
                (labels, answers[outcome as usize])
            })
        };
        self.counters("requests", "Requests to devices, by how they ended.", devices.iter().flat_map(by_outcome))?;
        let each = |value: fn(&DeviceMeter) -> u64| devices.iter().map(move |view| (view.labels, value(&view.meter)));
        self.counters("retries", "Requests that repeated one without success.", each(|meter| meter.retries))?;
        self.counters("sent_bytes", "Bytes of requests.", each(|meter| meter.sent))?;
        self.counters("received_bytes", "Bytes of answers, and of what was none.", each(|meter| meter.received))?;
        self.counters(
            "answer_seconds",
            "How long devices took to answer, summed up.",
            devices.iter().map(|view| (view.labels, view.meter.latencies.sum().as_secs_f64())),
        )?;
        let by_quantile = |view: &DeviceView<'_>| {
            let [link, device] = view.labels.map(|(name, value)| (name, value.to_owned()));
            QUANTILES.into_iter().filter_map({
                let latencies = view.meter.latencies.clone();
                move |(name, share)| {
                    let took = latencies.percentile(share)?.as_secs_f64();
                    Some(([link.clone(), device.clone(), ("quantile", name.to_owned())], took))
                }
            })
        };
        self.gauges(
            "answer_recent_seconds",
            "How long the last few thousand answers took.",
            devices.iter().flat_map(by_quantile),
        )?;
        let is_up = |state: &DeviceState| matches!(state.status, DeviceStatus::Online | DeviceStatus::Degraded);
        self.gauges(
            "device_up",
            "Whether the device answers.",
            devices.iter().map(|view| (view.labels, u64::from(is_up(&view.state)))),
        )?;
        self.gauges(
            "breaker_open",
            "Whether the device is left alone until its next try.",
            devices.iter().map(|view| (view.labels, u64::from(view.state.is_resting(now)))),
        )?;
        self.gauges(
            "device_answer_age_seconds",
            "The time since the device last answered.",
            devices.iter().filter_map(|view| {
                let last = view.state.last_answer?;
                Some((view.labels, now.saturating_duration_since(last.instant).as_secs_f64()))
            }),
        )?;
        self.gauges(
            "device_sensors",
            "Sensors on the device.",
            devices.iter().map(|view| (view.labels, view.device.sensors.len() as u64)),
        )
    }

    fn gauges<L: EncodeLabelSet, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        values.into_iter().try_for_each(|(labels, value)| family.encode_family(&labels)?.encode_gauge(&value))
    }

    fn counters<L: EncodeLabelSet, V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        values.into_iter().try_for_each(|(labels, value)| {
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)
        })
    }
}
