//! One metric payload, as apps and gateways send it.

use super::name::is_countable;
use super::{MetricName, metric_kit};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use time::format_description::well_known::Rfc3339;
use time::{Date, Duration, OffsetDateTime, UtcOffset};
use unslide_model::ContentHash;

/// Bytes of one payload's JSON.
pub const MAX_PAYLOAD_BYTES: usize = 256 << 10;
/// How many days before the arrival of its payload a period may have ended: the figures of earlier days stay.
pub const LATEST_DAYS: u32 = 30;
/// The weight of one observation that was not sampled.
pub const WEIGHT_UNIT: u64 = 1_000;
/// By how much the device's clock may be ahead.
const AHEAD: Duration = Duration::DAY;
/// Buckets of one histogram.
pub(super) const MOST_BUCKETS: usize = 1_000;
/// Measurements and requests of a payload.
const MOST_ITEMS: usize = 1_000;
/// Observations of a payload.
const MOST_OBSERVATIONS: u64 = 1_000_000;
/// Keys that a payload names which could not be read.
const MOST_UNREAD: usize = 20;
/// Characters of an id, and of every other text.
const ID_CHARS: usize = 100;
const TEXT_CHARS: usize = 200;
/// Characters of a host name (RFC 1035).
const HOST_CHARS: usize = 253;
/// Time that an app has to run where anything is said for each hour.
const LEAST_RUNNING_MILLIS: f64 = 60_000.0;
/// The least share that may be sampled.
const LEAST_SAMPLED: f64 = 0.001;

/// Values of one metric that are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// What was measured.
    pub metric: MetricName,
    /// The value, in the metric's unit.
    pub value: f64,
    /// How many there were.
    pub count: u32,
}

/// One network request.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestTiming {
    /// The host, in lower case.
    pub host: String,
    /// True where no answer came, or the app counts it as failed.
    pub failed: bool,
    /// Milliseconds of each of [`MetricName::REQUEST_PHASES`].
    pub phases: [Option<f64>; 5],
}

/// What one device measured in one period.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricPayload {
    /// What tells the payloads of an app apart.
    pub id: String,
    /// Bundle identifier.
    pub app: String,
    /// `CFBundleShortVersionString`; empty where unknown.
    pub version: String,
    /// `CFBundleVersion`.
    pub build: Option<String>,
    /// Operating system and version.
    pub os: Option<String>,
    /// The machine.
    pub device: Option<String>,
    /// The id of the session that it is of.
    pub session: Option<String>,
    /// The end of the period.
    pub measured_at: OffsetDateTime,
    /// What each observation stands for, in thousandths.
    pub weight: u64,
    /// What was measured.
    pub samples: Vec<Sample>,
    /// Network requests.
    pub requests: Vec<RequestTiming>,
    /// Keys of MetricKit whose value was not understood.
    pub unread: Vec<String>,
}

/// Why a metric payload is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetricPayloadError {
    /// It is too long.
    #[error("the payload has {0} bytes, the limit is {MAX_PAYLOAD_BYTES}")]
    TooLarge(usize),
    /// It is no JSON object with these fields.
    #[error("{0}")]
    Json(String),
    /// A field has a value that is not taken.
    #[error("`{field}` {problem}")]
    Field {
        /// The field.
        field: &'static str,
        /// What is wrong with its value, and what would be right.
        problem: String,
    },
}

fn wrong(field: &'static str, problem: impl Into<String>) -> MetricPayloadError {
    MetricPayloadError::Field { field, problem: problem.into() }
}

/// The JSON of our own. Fields that are not listed here are ignored.
#[derive(Deserialize)]
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
    requests: Vec<Request>,
    metric_kit: Option<Value>,
}

#[derive(Deserialize)]
struct Measured {
    name: String,
    unit: String,
    value: Option<f64>,
    histogram: Option<Vec<HistogramBucket>>,
}

#[derive(Deserialize)]
struct HistogramBucket {
    from: f64,
    to: f64,
    count: u32,
}

#[derive(Deserialize)]
struct Request {
    host: String,
    #[serde(default)]
    failed: bool,
    dns: Option<f64>,
    connect: Option<f64>,
    tls: Option<f64>,
    first_byte: Option<f64>,
    total: Option<f64>,
}

/// Collects what is read.
#[derive(Default)]
pub(super) struct PayloadBuilder {
    samples: Vec<Sample>,
    unread: Vec<String>,
    /// Whether hangs were measured, be it that there was none.
    hangs_measured: bool,
}

impl PayloadBuilder {
    /// Notes that a metric was measured, be it that there is no value.
    pub(super) fn measured_of(&mut self, metric: MetricName) {
        self.hangs_measured |= metric == MetricName::HangTime;
    }

    /// Adds what follows from other metrics: how often the app hung, and the totals for each hour that it ran.
    fn derive(&mut self) {
        let total = |metric: MetricName| {
            let own = self.samples.iter().filter(|sample| sample.metric == metric);
            own.map(|sample| (sample.value * f64::from(sample.count), sample.count)).fold(
                None,
                |sum: Option<(f64, u32)>, (value, count)| {
                    let (before, counted) = sum.unwrap_or_default();
                    Some((before + value, counted.saturating_add(count)))
                },
            )
        };
        let hours = |metrics: &[MetricName]| {
            let millis: f64 = metrics.iter().filter_map(|metric| total(*metric)).map(|(sum, _)| sum).sum();
            (millis >= LEAST_RUNNING_MILLIS).then_some(millis / 3_600_000.0)
        };
        let on_screen = hours(&[MetricName::ForegroundTime]);
        let running = hours(&[MetricName::ForegroundTime, MetricName::BackgroundTime]);
        let hangs = self.hangs_measured.then(|| total(MetricName::HangTime).map_or(0, |(_, count)| count));
        let hang_rate =
            hangs.zip(on_screen).map(|(hangs, hours)| (MetricName::HangRate, f64::from(hangs) / hours));
        let rates = MetricName::PER_HOUR.into_iter().filter_map(|(metric, rate)| {
            let (sum, _) = total(metric)?;
            Some((rate, sum / running?))
        });
        let derived: Vec<(MetricName, f64)> = rates.chain(hang_rate).collect();
        for (metric, value) in derived.into_iter().filter(|(_, value)| is_countable(*value)) {
            self.sample(Sample { metric, value, count: 1 });
        }
    }

    /// Adds a sample that stands for something.
    pub(super) fn sample(&mut self, sample: Sample) {
        if sample.count > 0 {
            self.samples.push(sample);
        }
    }

    /// Notes a key whose value was not understood.
    pub(super) fn unread(&mut self, key: &str) {
        if self.unread.len() < MOST_UNREAD {
            self.unread.push(key.to_owned());
        }
    }

    fn measured(&mut self, measured: &Measured) -> Result<(), MetricPayloadError> {
        let metric = MetricName::parse(&measured.name)
            .filter(|metric| !metric.is_of_requests() && !metric.is_derived())
            .ok_or_else(|| wrong("measurements", format!("name {:?}, which is no metric", measured.name)))?;
        let factor = metric.unit().factor(&measured.unit).ok_or_else(|| {
            let unit = metric.unit().as_str();
            wrong("measurements", format!("have {} in {:?}: use {unit}", measured.name, measured.unit))
        })?;
        let value = |value: f64| check_value("measurements", value * factor);
        self.measured_of(metric);
        match (measured.value, &measured.histogram) {
            (Some(one), None) => self.sample(Sample { metric, value: value(one)?, count: 1 }),
            (None, Some(buckets)) if buckets.len() <= MOST_BUCKETS => {
                for bucket in buckets {
                    let value = value(f64::midpoint(bucket.from, bucket.to))?;
                    self.sample(Sample { metric, value, count: bucket.count });
                }
            }
            (None, Some(_)) => {
                let problem = format!("have a histogram of more than {MOST_BUCKETS} buckets");
                return Err(wrong("measurements", problem));
            }
            _ => return Err(wrong("measurements", "need either `value` or `histogram`")),
        }
        Ok(())
    }
}

fn check_value(field: &'static str, value: f64) -> Result<f64, MetricPayloadError> {
    if is_countable(value) {
        Ok(value)
    } else {
        Err(wrong(field, "have a value that is negative or too large"))
    }
}

impl Request {
    fn read(&self) -> Result<RequestTiming, MetricPayloadError> {
        let host = self.host.trim_end_matches('.').to_ascii_lowercase();
        let fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':' | '[' | ']');
        if !(1..=HOST_CHARS).contains(&host.len()) || !host.chars().all(fit) {
            return Err(wrong(
                "requests",
                "need a host name: no scheme, no path, punycode for other letters",
            ));
        }
        let phases = [self.dns, self.connect, self.tls, self.first_byte, self.total];
        phases.into_iter().flatten().try_for_each(|phase| check_value("requests", phase).map(drop))?;
        Ok(RequestTiming { host, failed: self.failed, phases })
    }
}

impl MetricPayload {
    /// Reads one payload: our own JSON, which may have one of MetricKit in it, or one of MetricKit alone. The latter is
    /// told from others by its bytes.
    ///
    /// # Errors
    /// [`MetricPayloadError`], which names the field.
    pub fn read(json: &[u8]) -> Result<MetricPayload, MetricPayloadError> {
        if json.len() > MAX_PAYLOAD_BYTES {
            return Err(MetricPayloadError::TooLarge(json.len()));
        }
        let no_json = |error: serde_json::Error| MetricPayloadError::Json(error.to_string());
        let value: Value = serde_json::from_slice(json).map_err(no_json)?;
        let envelope = if metric_kit::is_payload(&value) {
            Envelope::around(ContentHash(Sha256::digest(json).into()).to_string(), value)
        } else {
            Envelope::deserialize(value).map_err(no_json)?
        };
        envelope.read()
    }

    /// Checks the end of the period against the time of arrival: a device's clock may be wrong.
    ///
    /// # Errors
    /// [`MetricPayloadError::Field`] for a period that ends in the future.
    pub fn check_time(&self, arrived: OffsetDateTime) -> Result<(), MetricPayloadError> {
        if self.measured_at - arrived > AHEAD {
            return Err(wrong("measured_at", "lies more than a day ahead: the device's clock is wrong"));
        }
        Ok(())
    }

    /// The day that the payload is counted for.
    #[must_use]
    pub fn day(&self) -> Date {
        self.measured_at.checked_to_offset(UtcOffset::UTC).unwrap_or(self.measured_at).date()
    }

    fn check(&self) -> Result<(), MetricPayloadError> {
        let texts = [
            ("id", Some(&self.id), 1..=ID_CHARS),
            ("app", Some(&self.app), 1..=TEXT_CHARS),
            ("version", Some(&self.version), 0..=TEXT_CHARS),
            ("build", self.build.as_ref(), 1..=TEXT_CHARS),
            ("os", self.os.as_ref(), 1..=TEXT_CHARS),
            ("device", self.device.as_ref(), 1..=TEXT_CHARS),
            ("session", self.session.as_ref(), 1..=ID_CHARS),
        ];
        for (field, text, chars) in texts {
            let Some(text) = text else { continue };
            if !chars.contains(&text.chars().count()) {
                return Err(wrong(
                    field,
                    format!("must have {} to {} characters", chars.start(), chars.end()),
                ));
            }
            if text.contains('\0') {
                return Err(wrong(field, "must not contain the character U+0000"));
            }
        }
        let observations: u64 = self.samples.iter().map(|sample| u64::from(sample.count)).sum();
        if observations > MOST_OBSERVATIONS {
            return Err(wrong("measurements", format!("have more than {MOST_OBSERVATIONS} observations")));
        }
        Ok(())
    }
}

impl Envelope {
    /// What stands around a payload of MetricKit that came alone.
    fn around(id: String, payload: Value) -> Envelope {
        Envelope {
            id,
            app: None,
            version: None,
            build: None,
            os: None,
            device: None,
            session: None,
            measured_at: None,
            sampled: None,
            measurements: Vec::new(),
            requests: Vec::new(),
            metric_kit: Some(payload),
        }
    }

    fn read(self) -> Result<MetricPayload, MetricPayloadError> {
        for (field, items) in [("measurements", self.measurements.len()), ("requests", self.requests.len())] {
            if items > MOST_ITEMS {
                return Err(wrong(field, format!("are {items}, the limit is {MOST_ITEMS}")));
            }
        }
        let mut read = PayloadBuilder::default();
        self.measurements.iter().try_for_each(|measured| read.measured(measured))?;
        let apple = self.metric_kit.as_ref();
        if let Some(payload) = apple {
            metric_kit::read(payload, &mut read);
        }
        read.derive();
        let known = |key: &str| apple.and_then(|payload| metric_kit::text(payload, key)).map(str::to_owned);
        let measured_at = match &self.measured_at {
            Some(text) => OffsetDateTime::parse(text, &Rfc3339).ok(),
            None => apple.and_then(metric_kit::end),
        };
        let app = self.app.or_else(|| known("bundleIdentifier"));
        let payload = MetricPayload {
            id: self.id,
            app: app.ok_or_else(|| wrong("app", "is missing: the bundle identifier"))?,
            version: self.version.or_else(|| known("appVersion")).unwrap_or_default(),
            build: self.build.or_else(|| known("appBuildVersion")),
            os: self.os.or_else(|| known("osVersion")),
            device: self.device.or_else(|| known("deviceType")),
            session: self.session,
            measured_at: measured_at
                .ok_or_else(|| wrong("measured_at", "must be the end of the period (RFC 3339)"))?,
            weight: weight(self.sampled.unwrap_or(1.0))?,
            samples: read.samples,
            requests: self.requests.iter().map(Request::read).collect::<Result<_, _>>()?,
            unread: read.unread,
        };
        payload.check()?;
        Ok(payload)
    }
}

/// What each observation stands for where this share of them is sent.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "checked"
)]
fn weight(sampled: f64) -> Result<u64, MetricPayloadError> {
    if !(LEAST_SAMPLED..=1.0).contains(&sampled) {
        return Err(wrong("sampled", format!("must be between {LEAST_SAMPLED} and 1")));
    }
    Ok((WEIGHT_UNIT as f64 / sampled).round() as u64)
}
