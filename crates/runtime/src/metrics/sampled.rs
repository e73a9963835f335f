//! Figures of another component, read at each scrape.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Error, IntCounterVec, IntGaugeVec, Opts, Registry};
use unslide_model::Stats;

/// Reads the figure for each label value.
type Read = dyn Fn() -> Vec<(&'static str, u64)> + Send + Sync;

struct Gauges {
    family: IntGaugeVec,
    read: Box<Read>,
}

struct Counters {
    family: IntCounterVec,
    read: Box<Read>,
}

impl Collector for Gauges {
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

impl Collector for Counters {
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

/// Registers families with figures of `of`, read at each scrape. Names that end in `_total` are counters,
/// all others gauges.
///
/// # Errors
/// Returns an error if the registry already has metrics with these names.
pub fn register_families<T: Clone + Send + Sync + 'static>(
    registry: &Registry,
    of: &T,
    families: &[Stats<T>],
) -> Result<(), Error> {
    for &Stats { name, help, label, read } in families {
        let (of, options) = (of.clone(), Opts::new(name, help));
        let read = Box::new(move || read(&of));
        if name.ends_with("_total") {
            let family = IntCounterVec::new(options, &[label])?;
            registry.register(Box::new(Counters { family, read }))?;
        } else {
            let family = IntGaugeVec::new(options, &[label])?;
            registry.register(Box::new(Gauges { family, read }))?;
        }
    }
    Ok(())
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
        let registry = metrics.add_registry(Some("builder")).unwrap();
        let kept = Arc::new(AtomicU64::new(3));
        let open: Stats<Arc<AtomicU64>> = Stats {
            name: "open",
            help: "Open now.",
            label: "state",
            read: |kept| vec![("on", kept.load(Ordering::Relaxed))],
        };
        let seen: Stats<Arc<AtomicU64>> = Stats {
            name: "seen_total",
            help: "Seen.",
            label: "of",
            read: |kept| vec![("all", kept.load(Ordering::Relaxed))],
        };
        register_families(&registry, &kept, &[open, seen]).unwrap();
        for figure in [3, 5] {
            kept.store(figure, Ordering::Relaxed);
            let page = metrics.render_page().unwrap();
            for kind in ["# TYPE open gauge", "# TYPE seen_total counter"] {
                assert!(page.contains(kind), "{page}");
            }
            assert!(page.contains(&format!("open{{state=\"on\",service=\"builder\"}} {figure}")), "{page}");
            assert!(
                page.contains(&format!("seen_total{{of=\"all\",service=\"builder\"}} {figure}")),
                "{page}"
            );
        }
    }
}
