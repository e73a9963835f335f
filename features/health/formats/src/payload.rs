//! One metric payload, as apps and gateways send it.

use super::launch::read_launch;
use super::measurement::read_measurement;
use super::metric_kit;
use super::power::{BatteryPeriod, read_battery};
use super::request::{RequestTiming, read_request};
use super::samples::{PayloadBuilder, Sample, UnreadKeys};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::ops::RangeInclusive;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use unslide_model::{ContentHash, json};
use unslide_proto::event::{
    EventError, GatewayEvent, ID_CHARS, TEXT_CHARS, check_sampled, check_size, check_texts, field_error,
    is_text,
};

/// Bytes of one payload's JSON.
pub const MAX_PAYLOAD_BYTES: usize = 256 << 10;
/// The weight of one observation that was not sampled.
pub const WEIGHT_UNIT: u64 = 1_000;
/// Measurements, requests and launches of a payload that are read.
const MOST_ITEMS: usize = 1_000;

/// The metrics of one device in one period.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricPayload {
    /// The id that distinguishes the payloads of an app.
    pub id: String,
    pub app: String,
    pub version: String,
    pub build: Option<String>,
    pub os: Option<String>,
    pub device: Option<String>,
    /// The id of the session that it is of.
    pub session: Option<String>,
    /// The end of the period.
    pub measured_at: OffsetDateTime,
    /// The weight of each observation, in thousandths.
    pub weight: u64,
    pub samples: Vec<Sample>,
    pub requests: Vec<RequestTiming>,
    /// The battery at both ends of the period.
    pub battery: Option<BatteryPeriod>,
    /// Members of ours and keys of MetricKit with values that were not understood: they are not counted.
    pub unread: Vec<String>,
}

/// The JSON of our own. Fields that are not listed here are ignored. Only those without which a payload cannot be counted
/// have a type here: an odd value of another is left out.
#[derive(Default, Deserialize)]
struct Envelope {
    id: String,
    app: Option<String>,
    version: Option<Value>,
    build: Option<Value>,
    os: Option<Value>,
    device: Option<Value>,
    session: Option<Value>,
    measured_at: Option<String>,
    sampled: Option<f64>,
    measurements: Option<Value>,
    requests: Option<Value>,
    launches: Option<Value>,
    battery: Option<Value>,
    metric_kit: Option<Value>,
}

impl GatewayEvent for MetricPayload {
    /// Reads our own JSON, which may contain one of MetricKit, or one of MetricKit alone. The latter is
    /// recognised by its bytes.
    fn from_json(text: &[u8]) -> Result<MetricPayload, EventError> {
        check_size(text, MAX_PAYLOAD_BYTES)?;
        let value: Value = json::from_slice(text)?;
        let envelope = if metric_kit::is_payload(&value) {
            let id = ContentHash(Sha256::digest(text).into()).to_string();
            Envelope { id, metric_kit: Some(value), ..Envelope::default() }
        } else {
            json::from_value::<Envelope>(value)?
        };
        envelope.into_payload()
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn app(&self) -> &str {
        &self.app
    }

    fn event_time(&self) -> (&'static str, OffsetDateTime) {
        ("measured_at", self.measured_at)
    }

    fn unread_keys(&self) -> &[String] {
        &self.unread
    }
}

/// Returns the items of a list, at most [`MOST_ITEMS`].
fn list_items<'v>(field: &str, list: Option<&'v Value>, unread: &mut UnreadKeys) -> &'v [Value] {
    let items = match list {
        None => return &[],
        Some(list) => list.as_array().map(Vec::as_slice),
    };
    let first = items.and_then(|items| items.get(..items.len().min(MOST_ITEMS))).unwrap_or_default();
    if items.is_none_or(|items| items.len() > MOST_ITEMS) {
        unread.record(field);
    }
    first
}

/// Returns a text that a payload can do without, or else that of MetricKit.
fn optional_text(
    field: &str,
    sent: Option<&Value>,
    of_metric_kit: Option<&str>,
    chars: RangeInclusive<usize>,
    unread: &mut UnreadKeys,
) -> Option<String> {
    let sent = match sent {
        Some(sent) => sent.as_str(),
        None => Some(of_metric_kit?),
    };
    let fit = sent.filter(|text| is_text(text, &chars));
    if fit.is_none() {
        unread.record(field);
    }
    fit.map(str::to_owned)
}

impl Envelope {
    fn into_payload(self) -> Result<MetricPayload, EventError> {
        let mut read = PayloadBuilder::default();
        for measurement in list_items("measurements", self.measurements.as_ref(), &mut read.unread) {
            read_measurement(measurement, &mut read);
        }
        for launch in list_items("launches", self.launches.as_ref(), &mut read.unread) {
            read_launch(launch, &mut read);
        }
        let battery = self.battery.as_ref().and_then(|battery| read_battery(battery, &mut read.unread));
        read.drained_percent = battery.as_ref().and_then(BatteryPeriod::drained_percent);
        let apple = self.metric_kit.as_ref();
        if let Some(payload) = apple {
            metric_kit::read_metrics(payload, &mut read);
        }
        read.derive_metrics();
        let requests = list_items("requests", self.requests.as_ref(), &mut read.unread);
        let requests = requests.iter().filter_map(|sent| read_request(sent, &mut read.unread)).collect();
        let known = |key: &str| apple.and_then(|payload| metric_kit::find_text(payload, key));
        let measured_at = match &self.measured_at {
            Some(text) => OffsetDateTime::parse(text, &Rfc3339).ok(),
            None => apple.and_then(metric_kit::read_end),
        };
        let app = self.app.or_else(|| known("bundleIdentifier").map(str::to_owned));
        let app = app.ok_or_else(|| field_error("app", "is missing: the bundle identifier"))?;
        check_texts([("id", Some(&self.id), 1..=ID_CHARS), ("app", Some(&app), 1..=TEXT_CHARS)])?;
        let mut text = |field, sent: &Option<Value>, key, chars| {
            optional_text(field, sent.as_ref(), known(key), chars, &mut read.unread)
        };
        Ok(MetricPayload {
            id: self.id,
            app,
            version: text("version", &self.version, "appVersion", 0..=TEXT_CHARS).unwrap_or_default(),
            build: text("build", &self.build, "appBuildVersion", 1..=TEXT_CHARS),
            os: text("os", &self.os, "osVersion", 1..=TEXT_CHARS),
            device: text("device", &self.device, "deviceType", 1..=TEXT_CHARS),
            session: text("session", &self.session, "", 1..=ID_CHARS),
            measured_at: measured_at
                .ok_or_else(|| field_error("measured_at", "must be the end of the period (RFC 3339)"))?,
            weight: sample_weight(check_sampled(self.sampled)?),
            samples: read.samples,
            requests,
            battery,
            unread: read.unread.into_keys(),
        })
    }
}

/// Returns the weight of each observation if this share of them is sent, in thousandths.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "checked"
)]
fn sample_weight(sampled: f64) -> u64 {
    (WEIGHT_UNIT as f64 / sampled).round() as u64
}
