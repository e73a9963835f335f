//! Figures that another part of the program keeps, read when the metrics are asked for.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Error, IntCounterVec, IntGaugeVec, Opts, Registry};

/// Label values and what is read for them.
type Read<const N: usize> = dyn Fn() -> [(&'static str, u64); N] + Send + Sync;

struct Gauges<const N: usize> {
    family: IntGaugeVec,
    read: Box<Read<N>>,
}

struct Counters<const N: usize> {
    family: IntCounterVec,
    read: Box<Read<N>>,
}

impl<const N: usize> Collector for Gauges<N> {
    fn desc(&self) -> Vec<&Desc> {
        self.family.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        for (value, figure) in (self.read)() {
            self.family.with_label_values(&[value]).set(i64::try_from(figure).unwrap_or(i64::MAX));
        }
        self.family.collect()
    }
}

impl<const N: usize> Collector for Counters<N> {
    fn desc(&self) -> Vec<&Desc> {
        self.family.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        for (value, figure) in (self.read)() {
            let counter = self.family.with_label_values(&[value]);
            counter.inc_by(figure.saturating_sub(counter.get()));
        }
        self.family.collect()
    }
}

/// Registers gauges with one label, whose values `read` gives at each look.
///
/// # Errors
/// Where the registry has metrics of this name already.
pub fn gauges<const N: usize>(
    registry: &Registry,
    (name, help): (&str, &str),
    label: &str,
    read: impl Fn() -> [(&'static str, u64); N] + Send + Sync + 'static,
) -> Result<(), Error> {
    let family = IntGaugeVec::new(Opts::new(name, help), &[label])?;
    registry.register(Box::new(Gauges { family, read: Box::new(read) }))
}

/// Registers counters with one label, whose values since the start `read` gives at each look.
///
/// # Errors
/// Where the registry has metrics of this name already.
pub fn counters<const N: usize>(
    registry: &Registry,
    (name, help): (&str, &str),
    label: &str,
    read: impl Fn() -> [(&'static str, u64); N] + Send + Sync + 'static,
) -> Result<(), Error> {
    let family = IntCounterVec::new(Opts::new(name, help), &[label])?;
    registry.register(Box::new(Counters { family, read: Box::new(read) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn figures_are_read_at_each_look() {
        let metrics = Metrics::default();
        let registry = metrics.registry(Some("builder")).unwrap();
        let kept = Arc::new(AtomicU64::new(3));
        let (gauge, counter) = (kept.clone(), kept.clone());
        gauges(&registry, ("open", "Open now."), "state", move || [("on", gauge.load(Ordering::Relaxed))])
            .unwrap();
        counters(&registry, ("seen_total", "Seen."), "of", move || {
            [("all", counter.load(Ordering::Relaxed))]
        })
        .unwrap();
        for figure in [3, 5] {
            kept.store(figure, Ordering::Relaxed);
            let page = metrics.page().unwrap();
            assert!(page.contains(&format!("open{{state=\"on\",service=\"builder\"}} {figure}")), "{page}");
            assert!(
                page.contains(&format!("seen_total{{of=\"all\",service=\"builder\"}} {figure}")),
                "{page}"
            );
        }
    }
}
