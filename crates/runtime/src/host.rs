//! The host: what the process gives to each service that runs in it.

use crate::health::Readiness;
use crate::{CpuPool, Health, Metrics, Shutdown};
#[cfg(target_os = "linux")]
use prometheus::process_collector::ProcessCollector;
use prometheus::{IntGauge, IntGaugeVec, Opts};
use std::sync::Arc;
use unslide_model::{Clock, SystemClock};

/// The surroundings of a service. Cheap to clone; all clones speak of the same process.
#[derive(Clone)]
pub struct Host {
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// Says when to stop, and how long a drain may take.
    pub shutdown: Shutdown,
    /// Where this service registers its metrics. Within one process each service has a registry of
    /// its own (see [`Host::for_service`]), so that two services may use one name.
    pub metrics: prometheus::Registry,
    /// Where this service registers what it needs to be ready.
    pub health: Health,
    /// Threads for work that takes longer than the async runtime can bear (500 µs).
    pub cpu: CpuPool,
    process: Metrics,
    ready: IntGauge,
    probes: IntGaugeVec,
}

impl Host {
    /// A host for a whole process, with the given clock. `cpu` has its metrics in the process's
    /// registry.
    ///
    /// # Errors
    /// Where a metric is registered twice, which a fresh registry does not know.
    pub fn new(clock: Arc<dyn Clock>, shutdown: Shutdown, cpu: CpuPool) -> Result<Host, prometheus::Error> {
        let process = Metrics::default();
        let registry = process.registry(None)?;
        cpu.register(&registry)?;
        #[cfg(target_os = "linux")]
        registry.register(Box::new(ProcessCollector::for_self()))?;
        let build = Opts::new("unslide_build_info", "1, with the version of the program.");
        let build = IntGauge::with_opts(build.const_label("version", env!("CARGO_PKG_VERSION")))?;
        build.set(1);
        registry.register(Box::new(build))?;
        let ready = IntGauge::new("unslide_ready", "1 if the process serves, 0 if not.")?;
        registry.register(Box::new(ready.clone()))?;
        let opts =
            Opts::new("unslide_probe_ok", "1 for each dependency that answers, 0 for one that does not.");
        let probes = IntGaugeVec::new(opts, &["probe"])?;
        registry.register(Box::new(probes.clone()))?;
        let health = Health::new(shutdown.clone());
        Ok(Host { clock, shutdown, metrics: registry, health, cpu, process, ready, probes })
    }

    /// A host with the system's clock, one CPU thread a core, and no signal handlers: for tests and
    /// small tools.
    ///
    /// # Errors
    /// As [`Host::new`], or where no thread can be started.
    pub fn local() -> Result<Host, HostError> {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let shutdown = Shutdown::new(std::time::Duration::from_secs(10));
        Ok(Host::new(Arc::new(SystemClock), shutdown, CpuPool::new(threads)?)?)
    }

    /// The same host as the service `name` sees it: its probes are named `name.…`, and its metrics
    /// carry the label `service`.
    ///
    /// # Errors
    /// Where the name cannot be a label's value.
    pub fn for_service(&self, name: &str) -> Result<Host, prometheus::Error> {
        let mut host = self.clone();
        host.metrics = self.process.registry(Some(name))?;
        host.health = self.health.scoped(name);
        Ok(host)
    }

    /// Has the metrics say what the probes said.
    pub fn count_probes(&self, readiness: &Readiness) {
        self.ready.set(i64::from(readiness.ready));
        self.probes.reset();
        for (name, probe) in &readiness.probes {
            self.probes.with_label_values(&[name]).set(i64::from(probe.ok));
        }
    }

    /// All registries of the process.
    #[must_use]
    pub fn process_metrics(&self) -> &Metrics {
        &self.process
    }
}

/// Why there is no host.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A metric could not be registered.
    #[error("cannot register the process's metrics")]
    Metrics(#[from] prometheus::Error),
    /// A thread could not be started.
    #[error("cannot start the CPU threads")]
    Threads(#[from] std::io::Error),
}
