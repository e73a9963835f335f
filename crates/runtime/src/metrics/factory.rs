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
    pub fn register_counter(self, name: &str, help: &str) -> Result<IntCounter, Error> {
        self.register_metric(IntCounter::new(name, help)?)
    }

    /// Creates a counter for each value of its labels.
    pub fn register_counters(self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec, Error> {
        self.register_metric(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    /// Creates a gauge.
    pub fn register_gauge(self, name: &str, help: &str) -> Result<IntGauge, Error> {
        self.register_metric(IntGauge::new(name, help)?)
    }

    /// Creates a gauge for each value of its labels.
    pub fn register_gauges(self, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec, Error> {
        self.register_metric(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    /// Creates a gauge of a fraction for each value of its labels.
    pub fn float_gauges(self, name: &str, help: &str, labels: &[&str]) -> Result<GaugeVec, Error> {
        self.register_metric(GaugeVec::new(Opts::new(name, help), labels)?)
    }

    /// Creates a histogram with these buckets.
    pub fn register_histogram(self, name: &str, help: &str, buckets: &[f64]) -> Result<Histogram, Error> {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.register_metric(Histogram::with_opts(options)?)
    }

    /// Creates a histogram for each value of its labels.
    pub fn register_histograms(
        self,
        name: &str,
        help: &str,
        buckets: &[f64],
        labels: &[&str],
    ) -> Result<HistogramVec, Error> {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.register_metric(HistogramVec::new(options, labels)?)
    }

    fn register_metric<C: Collector + Clone + 'static>(self, metric: C) -> Result<C, Error> {
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }
}
