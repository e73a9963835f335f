//! One metric payload, as apps and gateways send it.

use super::app_end::AppEnds;
use super::device_day::{self, DeviceDay};
use super::launch::read_launch;
use super::measurement::read_measurement;
use super::metric_kit;
use super::metric_report;
use super::name::MetricName;
use super::power::{BatteryPeriod, read_battery};
use super::request::{RequestTiming, read_request};
use super::samples::{PayloadBuilder, Sample, StateSample, UnreadKeys};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
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
    /// Ends of the app in the period, by cause.
    pub ends: Vec<AppEnds>,
    /// Values in single states of the app: parts of `samples`.
    pub state_samples: Vec<StateSample>,
    pub requests: Vec<RequestTiming>,
    /// The battery at both ends of the period.
    pub battery: Option<BatteryPeriod>,
    /// The day that MetricKit counted, if it is recognised and the payload has nothing else.
    pub device_day: Option<DeviceDay>,
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
    /// Reads our own JSON, which may contain one of MetricKit, or one of MetricKit alone. An old payload alone has an id made
    /// of its bytes, and a metric report one of what was read.
    fn from_json(text: &[u8]) -> Result<MetricPayload, EventError> {
        check_size(text, MAX_PAYLOAD_BYTES)?;
        let value: Value = json::from_slice(text)?;
        if metric_report::is_diagnostic(&value) {
            let problem = "is missing: this is a diagnostic of MetricKit, which is a report. Send it to POST /v1/reports";
            return Err(field_error("id", problem));
        }
        if metric_report::is_report(&value) {
            let payload = Envelope { metric_kit: Some(value), id: "-".to_owned(), ..Envelope::default() }
                .into_payload()?;
            return Ok(MetricPayload { id: payload.content_id(), ..payload });
        }
        let envelope = if metric_kit::is_payload(&value) {
            let id = ContentHash(Sha256::digest(text).into()).to_string();
            Envelope { id, metric_kit: Some(value), ..Envelope::default() }
        } else {
            if value.is_object() && value.get("id").is_none() {
                return Err(field_error("id", describe_other(&value)));
            }
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

impl MetricPayload {
    /// Returns what a report of MetricKit since iOS 27 has beside the figures of a payload of older systems: those of states and of
    /// layers. Returns None if it has nothing else.
    #[must_use]
    pub fn beside_older_figures(&self) -> Option<MetricPayload> {
        self.device_day.filter(|day| day.is_report)?;
        let mut rest = self.clone();
        rest.samples.retain(|sample| sample.metric == MetricName::FrameRate);
        rest.ends.clear();
        let is_empty = rest.samples.is_empty() && rest.state_samples.is_empty();
        Some(rest).filter(|_| !is_empty)
    }

    /// Returns an id of what was read, so that a report counts once in each of its encodings.
    fn content_id(&self) -> String {
        let mut samples = self.samples.clone();
        samples.sort_by(|a, b| a.metric.cmp(&b.metric).then(a.value.total_cmp(&b.value)));
        let read = (&self.app, &self.version, &self.build, &self.os, &self.device, self.measured_at, samples);
        ContentHash(Sha256::digest(format!("{read:?}")).into()).to_string()
    }
}

/// Says what an object without an id is, which is no payload.
fn describe_other(value: &Value) -> &'static str {
    let has = |names: &[&str]| names.iter().any(|name| value.get(name).is_some());
    if has(&["crash", "binary_images", "recrash_report", "usedImages"]) {
        "is missing: this is a crash report. `unslide symbolicate` reads it, and POST /v1/reports takes it"
    } else if has(&["end_reason", "installation", "run_id"]) {
        "is missing: this is about a session. POST /v1/sessions takes sessions, and the URL of an app with /runs summaries of runs"
    } else {
        "is missing: this is neither a payload of Unslide's own form, nor one of MetricKit, which has `metaData` and `timeStampEnd` or \
         `intervalEntries`"
    }
}

/// A payload of MetricKit.
#[derive(Clone, Copy)]
enum ApplePayload<'p> {
    /// `MXMetricPayload`.
    Payload(&'p Value),
    /// `MetricReport`, since iOS 27.
    Report(&'p Value),
}

impl<'p> ApplePayload<'p> {
    fn from_value(value: &'p Value) -> ApplePayload<'p> {
        match metric_report::is_report(value) {
            true => ApplePayload::Report(value),
            false => ApplePayload::Payload(value),
        }
    }

    fn find_text(self, key: &str) -> Option<Cow<'p, str>> {
        match self {
            ApplePayload::Payload(payload) => metric_kit::find_text(payload, key).map(Cow::Borrowed),
            ApplePayload::Report(report) => metric_report::find_text(report, key),
        }
    }

    fn read_end(self) -> Option<OffsetDateTime> {
        match self {
            ApplePayload::Payload(payload) => metric_kit::read_end(payload),
            ApplePayload::Report(report) => metric_report::read_end(report),
        }
    }

    fn read_metrics(self, into: &mut PayloadBuilder) {
        match self {
            ApplePayload::Payload(payload) => metric_kit::read_metrics(payload, into),
            ApplePayload::Report(report) => metric_report::read_metrics(report, into),
        }
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
        let has_more = [&self.measurements, &self.requests, &self.launches, &self.battery];
        let is_apples_alone = has_more.into_iter().all(Option::is_none);
        for measurement in list_items("measurements", self.measurements.as_ref(), &mut read.unread) {
            read_measurement(measurement, &mut read);
        }
        for launch in list_items("launches", self.launches.as_ref(), &mut read.unread) {
            read_launch(launch, &mut read);
        }
        let battery = self.battery.as_ref().and_then(|battery| read_battery(battery, &mut read.unread));
        read.drained_percent = battery.as_ref().and_then(BatteryPeriod::drained_percent);
        let apple = self.metric_kit.as_ref().map(ApplePayload::from_value);
        if let Some(payload) = apple {
            payload.read_metrics(&mut read);
        }
        read.derive_metrics();
        let requests = list_items("requests", self.requests.as_ref(), &mut read.unread);
        let requests = requests.iter().filter_map(|sent| read_request(sent, &mut read.unread)).collect();
        let known = |key: &str| apple?.find_text(key);
        let measured_at = match &self.measured_at {
            Some(text) => OffsetDateTime::parse(text, &Rfc3339).ok(),
            None => apple.and_then(ApplePayload::read_end),
        };
        let app = self.app.or_else(|| known("bundleIdentifier").map(Cow::into_owned));
        let app = app.ok_or_else(|| field_error("app", "is missing: the bundle identifier"))?;
        check_texts([("id", Some(&self.id), 1..=ID_CHARS), ("app", Some(&app), 1..=TEXT_CHARS)])?;
        let mut text = |field, sent: &Option<Value>, key, chars| {
            optional_text(field, sent.as_ref(), known(key).as_deref(), chars, &mut read.unread)
        };
        let version = text("version", &self.version, "appVersion", 0..=TEXT_CHARS).unwrap_or_default();
        let device = text("device", &self.device, "deviceType", 1..=TEXT_CHARS);
        let device_day = apple.filter(|_| is_apples_alone).and_then(|payload| {
            let is_report = matches!(payload, ApplePayload::Report(_));
            let key = device_day::find_key(&version, device.as_deref(), &read.samples)?;
            Some(DeviceDay { key, is_report })
        });
        Ok(MetricPayload {
            id: self.id,
            app,
            version,
            build: text("build", &self.build, "appBuildVersion", 1..=TEXT_CHARS),
            os: text("os", &self.os, "osVersion", 1..=TEXT_CHARS),
            device,
            session: text("session", &self.session, "", 1..=ID_CHARS),
            measured_at: measured_at
                .ok_or_else(|| field_error("measured_at", "must be the end of the period (RFC 3339)"))?,
            weight: sample_weight(check_sampled(self.sampled)?),
            samples: read.samples,
            ends: read.ends,
            state_samples: read.state_samples,
            requests,
            battery,
            device_day,
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
