//! One metric payload, as apps and gateways send it.

use super::name::is_countable;
use super::power::{BatteryPeriod, SentBattery};
use super::request::{RequestTiming, SentRequest};
use super::samples::{MOST_BUCKETS, PayloadBuilder, Sample};
use super::{MetricName, metric_kit};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use unslide_model::{ContentHash, json};
use unslide_proto::event::{
    EventError, GatewayEvent, ID_CHARS, TEXT_CHARS, check_sampled, check_size, check_texts, field_error,
};

/// Bytes of one payload's JSON.
pub const MAX_PAYLOAD_BYTES: usize = 256 << 10;
/// The weight of one observation that was not sampled.
pub const WEIGHT_UNIT: u64 = 1_000;
/// Measurements and requests of a payload.
const MOST_ITEMS: usize = 1_000;
const MOST_OBSERVATIONS: u64 = 1_000_000;

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
    /// Keys of MetricKit with values that were not understood.
    pub unread: Vec<String>,
}

/// The JSON of our own. Fields that are not listed here are ignored.
#[derive(Default, Deserialize)]
struct Envelope {
    id: String,
    app: Option<String>,
    version: Option<String>,
    build: Option<String>,
    os: Option<String>,
    device: Option<String>,
    session: Option<String>,
    measured_at: Option<String>,
    sampled: Option<f64>,
    #[serde(default)]
    measurements: Vec<Measured>,
    #[serde(default)]
    requests: Vec<SentRequest>,
    #[serde(default)]
    launches: Vec<Launch>,
    battery: Option<SentBattery>,
    metric_kit: Option<Value>,
}

#[derive(Deserialize)]
struct Measured {
    name: String,
    unit: String,
    value: Option<f64>,
    histogram: Option<Vec<HistogramBucket>>,
}

/// One launch, in milliseconds.
#[derive(Deserialize)]
struct Launch {
    #[serde(rename = "type")]
    kind: String,
    before_main: Option<f64>,
    first_frame: Option<f64>,
    interactive: Option<f64>,
}

#[derive(Deserialize)]
struct HistogramBucket {
    from: f64,
    to: f64,
    count: u32,
}

fn check_value(field: &'static str, value: f64) -> Result<f64, EventError> {
    if is_countable(value) {
        Ok(value)
    } else {
        Err(field_error(field, "have a value that is negative or too large"))
    }
}

impl Measured {
    fn read_into(&self, into: &mut PayloadBuilder) -> Result<(), EventError> {
        let metric = MetricName::parse(&self.name)
            .filter(|metric| !metric.is_of_requests() && !metric.is_derived())
            .ok_or_else(|| {
                field_error("measurements", format!("name {:?}, which is no metric", self.name))
            })?;
        let factor = metric.unit().conversion_factor(&self.unit).ok_or_else(|| {
            let unit = metric.unit().as_str();
            field_error("measurements", format!("have {} in {:?}: use {unit}", self.name, self.unit))
        })?;
        let value = |value: f64| check_value("measurements", value * factor);
        into.measured_of(metric);
        match (self.value, &self.histogram) {
            (Some(one), None) => into.add_sample(Sample { metric, value: value(one)?, count: 1 }),
            (None, Some(buckets)) if buckets.len() <= MOST_BUCKETS => {
                for bucket in buckets {
                    let value = value(f64::midpoint(bucket.from, bucket.to))?;
                    into.add_sample(Sample { metric, value, count: bucket.count });
                }
            }
            (None, Some(_)) => {
                let problem = format!("have a histogram of more than {MOST_BUCKETS} buckets");
                return Err(field_error("measurements", problem));
            }
            _ => return Err(field_error("measurements", "need either `value` or `histogram`")),
        }
        Ok(())
    }
}

impl Launch {
    fn read_into(&self, into: &mut PayloadBuilder) -> Result<(), EventError> {
        let metrics = match self.kind.as_str() {
            "cold" => [
                MetricName::ColdLaunchBeforeMain,
                MetricName::ColdLaunchFirstFrame,
                MetricName::ColdLaunchInteractive,
            ],
            "warm" => [
                MetricName::WarmLaunchBeforeMain,
                MetricName::WarmLaunchFirstFrame,
                MetricName::WarmLaunchInteractive,
            ],
            "prewarmed" => [
                MetricName::PrewarmedLaunchBeforeMain,
                MetricName::PrewarmedLaunchFirstFrame,
                MetricName::PrewarmedLaunchInteractive,
            ],
            kind => {
                return Err(field_error(
                    "launches",
                    format!("have the type {kind:?}: use cold, warm or prewarmed"),
                ));
            }
        };
        let phases = [self.before_main, self.first_frame, self.interactive];
        if phases.iter().all(Option::is_none) {
            return Err(field_error("launches", "need `before_main`, `first_frame` or `interactive`"));
        }
        for (metric, value) in metrics.into_iter().zip(phases) {
            if let Some(value) = value {
                into.add_sample(Sample { metric, value: check_value("launches", value)?, count: 1 });
            }
        }
        Ok(())
    }
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

impl MetricPayload {
    fn check_fields(&self) -> Result<(), EventError> {
        check_texts([
            ("id", Some(&self.id), 1..=ID_CHARS),
            ("app", Some(&self.app), 1..=TEXT_CHARS),
            ("version", Some(&self.version), 0..=TEXT_CHARS),
            ("build", self.build.as_ref(), 1..=TEXT_CHARS),
            ("os", self.os.as_ref(), 1..=TEXT_CHARS),
            ("device", self.device.as_ref(), 1..=TEXT_CHARS),
            ("session", self.session.as_ref(), 1..=ID_CHARS),
        ])?;
        let observations: u64 = self.samples.iter().map(|sample| u64::from(sample.count)).sum();
        if observations > MOST_OBSERVATIONS {
            return Err(field_error(
                "measurements",
                format!("have more than {MOST_OBSERVATIONS} observations"),
            ));
        }
        Ok(())
    }
}

impl Envelope {
    fn into_payload(self) -> Result<MetricPayload, EventError> {
        let lists = [
            ("measurements", self.measurements.len()),
            ("requests", self.requests.len()),
            ("launches", self.launches.len()),
        ];
        for (field, items) in lists {
            if items > MOST_ITEMS {
                return Err(field_error(field, format!("are {items}, the limit is {MOST_ITEMS}")));
            }
        }
        let mut read = PayloadBuilder::default();
        self.measurements.iter().try_for_each(|measured| measured.read_into(&mut read))?;
        self.launches.iter().try_for_each(|launch| launch.read_into(&mut read))?;
        let battery = self.battery.as_ref().map(SentBattery::parse_period).transpose()?;
        read.drained_percent = battery.as_ref().and_then(BatteryPeriod::drained_percent);
        let apple = self.metric_kit.as_ref();
        if let Some(payload) = apple {
            metric_kit::read_metrics(payload, &mut read);
        }
        read.derive_metrics();
        let known =
            |key: &str| apple.and_then(|payload| metric_kit::find_text(payload, key)).map(str::to_owned);
        let measured_at = match &self.measured_at {
            Some(text) => OffsetDateTime::parse(text, &Rfc3339).ok(),
            None => apple.and_then(metric_kit::read_end),
        };
        let app = self.app.or_else(|| known("bundleIdentifier"));
        let payload = MetricPayload {
            id: self.id,
            app: app.ok_or_else(|| field_error("app", "is missing: the bundle identifier"))?,
            version: self.version.or_else(|| known("appVersion")).unwrap_or_default(),
            build: self.build.or_else(|| known("appBuildVersion")),
            os: self.os.or_else(|| known("osVersion")),
            device: self.device.or_else(|| known("deviceType")),
            session: self.session,
            measured_at: measured_at
                .ok_or_else(|| field_error("measured_at", "must be the end of the period (RFC 3339)"))?,
            weight: sample_weight(check_sampled(self.sampled)?),
            samples: read.samples,
            requests: self.requests.iter().map(SentRequest::parse_timing).collect::<Result<_, _>>()?,
            battery,
            unread: read.unread,
        };
        payload.check_fields()?;
        Ok(payload)
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
