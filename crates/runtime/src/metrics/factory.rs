//! Makes metrics and registers them.

use prometheus::core::Collector;
use prometheus::{
    Error, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
};

/// Makes metrics of one registry. A name that the registry has already, and one that Prometheus does not
/// allow, is an error of each method.
#[derive(Clone, Copy)]
pub struct MetricFactory<'a>(pub &'a Registry);

#[expect(clippy::missing_errors_doc, reason = "the type's documentation says it")]
impl MetricFactory<'_> {
    /// A counter.
    pub fn counter(self, name: &str, help: &str) -> Result<IntCounter, Error> {
        self.registered(IntCounter::new(name, help)?)
    }

    /// A counter for each value of its labels.
    pub fn counters(self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec, Error> {
        self.registered(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    /// A gauge.
    pub fn gauge(self, name: &str, help: &str) -> Result<IntGauge, Error> {
        self.registered(IntGauge::new(name, help)?)
    }

    /// A gauge for each value of its labels.
    pub fn gauges(self, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec, Error> {
        self.registered(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    /// A gauge of a fraction for each value of its labels.
    pub fn float_gauges(self, name: &str, help: &str, labels: &[&str]) -> Result<GaugeVec, Error> {
        self.registered(GaugeVec::new(Opts::new(name, help), labels)?)
    }

    /// A histogram with these buckets.
    pub fn histogram(self, name: &str, help: &str, buckets: &[f64]) -> Result<Histogram, Error> {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.registered(Histogram::with_opts(options)?)
    }

    /// A histogram for each value of its labels.
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
