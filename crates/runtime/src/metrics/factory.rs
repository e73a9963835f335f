//! Creates and registers metrics.

use prometheus::core::Collector;
use prometheus::{
    Error, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
};

/// Creates metrics in one registry. Each method returns an error if the registry already has the name, or if
/// Prometheus does not allow it.
#[derive(Clone, Copy)]
pub struct MetricFactory<'a>(pub &'a Registry);

#[expect(clippy::missing_errors_doc, reason = "the type's documentation says it")]
impl MetricFactory<'_> {
    /// Creates a counter.
    pub fn counter(self, name: &str, help: &str) -> Result<IntCounter, Error> {
        self.registered(IntCounter::new(name, help)?)
    }

    /// Creates a counter for each value of its labels.
    pub fn counters(self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec, Error> {
        self.registered(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    /// Creates a gauge.
    pub fn gauge(self, name: &str, help: &str) -> Result<IntGauge, Error> {
        self.registered(IntGauge::new(name, help)?)
    }

    /// Creates a gauge for each value of its labels.
    pub fn gauges(self, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec, Error> {
        self.registered(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    /// Creates a gauge of a fraction for each value of its labels.
    pub fn float_gauges(self, name: &str, help: &str, labels: &[&str]) -> Result<GaugeVec, Error> {
        self.registered(GaugeVec::new(Opts::new(name, help), labels)?)
    }

    /// Creates a histogram with these buckets.
    pub fn histogram(self, name: &str, help: &str, buckets: &[f64]) -> Result<Histogram, Error> {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.registered(Histogram::with_opts(options)?)
    }

    /// Creates a histogram for each value of its labels.
    pub fn histograms(
        self,
        name: &str,
        help: &str,
        buckets: &[f64],
        labels: &[&str],
    ) -> Result<HistogramVec, Error> {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.registered(HistogramVec::new(options, labels)?)
    }

    fn registered<C: Collector + Clone + 'static>(self, metric: C) -> Result<C, Error> {
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }
}
