//! The metrics of a process: one registry per service, written as one page.

mod factory;
pub mod sampled;

pub use factory::MetricFactory;

use http::StatusCode;
use parking_lot::Mutex;
use prometheus::proto::MetricFamily;
use prometheus::{Encoder, Registry, TextEncoder};
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::Arc;

/// Returns the class of a status for a label, such as `2xx`.
#[must_use]
pub fn status_class(status: StatusCode) -> &'static str {
    match status.as_u16() / 100 {
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        5 => "5xx",
        _ => "1xx",
    }
}

/// The registries of one process.
#[derive(Clone, Default)]
pub struct Metrics {
    registries: Arc<Mutex<Vec<Registry>>>,
}

impl Metrics {
    /// Adds a registry. If a service is named, the metrics have the label `service`.
    ///
    /// # Errors
    /// Returns an error if the label is refused.
    pub fn add_registry(&self, service: Option<&str>) -> Result<Registry, prometheus::Error> {
        let labels = service.map(|name| HashMap::from([("service".to_owned(), name.to_owned())]));
        let registry = Registry::new_custom(None, labels)?;
        self.registries.lock().push(registry.clone());
        Ok(registry)
    }

    /// Removes all registries and the clients that their metrics read. For the time after the services have
    /// ended.
    pub fn clear(&self) {
        self.registries.lock().clear();
    }

    /// Returns all metrics in Prometheus' text format. Merges families with the same name in several
    /// registries, as the format requires.
    ///
    /// # Errors
    /// Returns an error if a metric is malformed.
    pub fn render_page(&self) -> Result<String, prometheus::Error> {
        let mut families: BTreeMap<String, MetricFamily> = BTreeMap::new();
        for registry in self.registries.lock().iter() {
            for mut family in registry.gather() {
                match families.get_mut(family.name()) {
                    Some(known) => known.mut_metric().extend(family.take_metric()),
                    None => {
                        families.insert(family.name().to_owned(), family);
                    }
                }
            }
        }
        let families: Vec<MetricFamily> = families.into_values().collect();
        let mut page = Vec::new();
        TextEncoder::new().encode(&families, &mut page)?;
        String::from_utf8(page).map_err(|e| prometheus::Error::Msg(e.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_in_two_services_is_one_family() {
        let metrics = Metrics::default();
        for (service, amount) in [("api", 1), ("builder", 2)] {
            let counter = prometheus::IntCounter::new("seen_total", "Things seen.").unwrap();
            metrics.add_registry(Some(service)).unwrap().register(Box::new(counter.clone())).unwrap();
            counter.inc_by(amount);
        }
        let page = metrics.render_page().unwrap();
        assert_eq!(page.matches("# TYPE seen_total counter").count(), 1, "{page}");
        assert!(page.contains("seen_total{service=\"api\"} 1"), "{page}");
        assert!(page.contains("seen_total{service=\"builder\"} 2"), "{page}");
    }

    #[test]
    fn what_metrics_read_is_let_go_of_once_they_are_forgotten() {
        let metrics = Metrics::default();
        let registry = metrics.add_registry(Some("api")).unwrap();
        let client = Arc::new(());
        let figures = unslide_model::Stats::<Arc<()>> {
            name: "open",
            help: "Open.",
            label: "state",
            read: |client| vec![("on", Arc::strong_count(client) as u64)],
        };
        sampled::register_families(&registry, &client, &[figures]).unwrap();
        drop(registry);
        metrics.clear();
        assert_eq!((Arc::strong_count(&client), metrics.render_page().unwrap()), (1, String::new()));
    }
}
