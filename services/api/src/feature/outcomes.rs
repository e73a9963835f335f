//! Counts of what became of a feature's requests.

use crate::http::question::is_question;
use prometheus::IntCounterVec;
use std::error::Error;
use std::sync::OnceLock;
use tokio::task::JoinHandle;
use unslide_runtime::{Host, MetricFactory};

/// Counts of requests by outcome, from the start of the api on.
#[derive(Debug, Default)]
pub struct OutcomeCounts {
    counters: OnceLock<IntCounterVec>,
}

impl OutcomeCounts {
    /// Registers the counters and begins to count. The task that is returned only waits for the end of the host: it is the
    /// background work of a feature that has no other.
    ///
    /// # Errors
    /// The name is registered already.
    pub fn start(
        &self,
        host: &Host,
        name: &str,
        help: &str,
    ) -> Result<JoinHandle<()>, Box<dyn Error + Send + Sync>> {
        let counters = MetricFactory(&host.metrics).register_counters(name, help, &["outcome"])?;
        // A second start in one process keeps the first counter.
        let _ = self.counters.set(counters);
        let stop = host.shutdown.token().clone();
        Ok(tokio::spawn(async move { stop.cancelled().await }))
    }

    /// Adds to the count of an outcome, once counting has begun. A request that only asks for its tenant has none.
    pub fn add(&self, outcome: &str, number: usize) {
        if let Some(counters) = self.counters.get().filter(|_| !is_question()) {
            counters.with_label_values(&[outcome]).inc_by(number as u64);
        }
    }
}
