//! The samples of each metric in a payload, independent of its format, and the metrics that are computed from
//! them.

use super::MetricName;
use super::app_end::AppEnds;
use super::name::is_countable;

pub(super) const MOST_BUCKETS: usize = 1_000;
/// Keys of a payload that are recorded because they could not be read.
const MOST_UNREAD: usize = 20;
const MOST_OBSERVATIONS: u64 = 1_000_000;
/// The least running time of an app for rates per hour.
const LEAST_RUNNING_MILLIS: f64 = 60_000.0;

/// Values of one metric that are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub metric: MetricName,
    /// The value, in the metric's unit.
    pub value: f64,
    pub count: u32,
}

/// A sample of the time in which the app was in a state.
#[derive(Clone, Debug, PartialEq)]
pub struct StateSample {
    /// The domain and the label of the state, with a colon between them.
    pub state: String,
    pub sample: Sample,
}

/// The names of what could not be read, each once.
#[derive(Default)]
pub(super) struct UnreadKeys(Vec<String>);

impl UnreadKeys {
    pub(super) fn record(&mut self, key: &str) {
        if self.0.len() < MOST_UNREAD && !self.0.iter().any(|known| known == key) {
            self.0.push(key.to_owned());
        }
    }

    pub(super) fn into_keys(self) -> Vec<String> {
        self.0
    }
}

/// Collects the values that are read.
#[derive(Default)]
pub(super) struct PayloadBuilder {
    pub(super) samples: Vec<Sample>,
    pub(super) ends: Vec<AppEnds>,
    /// Values in single states of the app, which are a part of `samples`.
    pub(super) state_samples: Vec<StateSample>,
    pub(super) unread: UnreadKeys,
    observations: u64,
    /// Whether hangs were measured, be it that there was none.
    hangs_measured: bool,
    /// Percent of the battery that were used in the period, without a charger.
    pub(super) drained_percent: Option<f64>,
}

impl PayloadBuilder {
    /// Notes that a metric was measured, be it that there is no value.
    pub(super) fn measured_of(&mut self, metric: MetricName) {
        self.hangs_measured |= metric == MetricName::HangTime;
    }

    /// Adds the metrics that follow from others: how often the app hung, and the totals for each hour that it
    /// ran.
    pub(super) fn derive_metrics(&mut self) {
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
        let drain = self
            .drained_percent
            .zip(on_screen)
            .map(|(percent, hours)| (MetricName::BatteryDrain, percent / hours));
        let derived: Vec<(MetricName, f64)> = rates.chain(hang_rate).chain(drain).collect();
        for (metric, value) in derived.into_iter().filter(|(_, value)| is_countable(*value)) {
            self.add_sample(Sample { metric, value, count: 1 });
        }
    }

    /// Adds a sample, unless its count is 0. Returns false if the payload has too many observations to add it.
    pub(super) fn add_sample(&mut self, sample: Sample) -> bool {
        self.add_samples(&[sample])
    }

    /// Takes the samples that were added since there were `before` of them, as those of a state. Without a state they are dropped.
    pub(super) fn move_to_state(&mut self, before: usize, state: Option<&str>) {
        let samples = self.samples.split_off(before.min(self.samples.len()));
        let Some(state) = state else { return };
        self.state_samples
            .extend(samples.into_iter().map(|sample| StateSample { state: state.to_owned(), sample }));
    }

    /// Adds all samples with a count, or none. Returns false if the payload has too many observations to add them.
    pub(super) fn add_samples(&mut self, samples: &[Sample]) -> bool {
        let observations: u64 = samples.iter().map(|sample| u64::from(sample.count)).sum();
        if self.observations.saturating_add(observations) > MOST_OBSERVATIONS {
            return false;
        }
        self.observations += observations;
        self.samples.extend(samples.iter().filter(|sample| sample.count > 0));
        true
    }
}
