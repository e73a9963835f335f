//! The host: what the process gives to each service that runs in it.

use crate::health::Readiness;
use crate::traces::{ExportError, TraceSettings, Tracer};
use crate::{CpuPool, Health, Metrics, Shutdown};
use futures::future::join_all;
use parking_lot::Mutex;
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
    /// Where this service hands its spans over.
    pub tracer: Tracer,
    traces: Option<Arc<TraceSettings>>,
    tracers: Arc<Mutex<Vec<Tracer>>>,
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
        Ok(Host {
            clock,
            shutdown,
            metrics: registry,
            health,
            cpu,
            tracer: Tracer::default(),
            traces: None,
            tracers: Arc::default(),
            process,
            ready,
            probes,
        })
    }

    /// Has the services export their spans.
    #[must_use]
    pub fn with_traces(mut self, settings: Option<TraceSettings>) -> Host {
        self.traces = settings.map(Arc::new);
        self
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
    /// carry the label `service`. If traces are on, its spans have an exporter of their own.
    ///
    /// # Errors
    /// Returns an error if the name cannot be a label's value, or if spans cannot be exported.
    pub fn for_service(&self, name: &str) -> Result<Host, HostError> {
        let mut host = self.clone();
        host.metrics = self.process.registry(Some(name))?;
        host.health = self.health.scoped(name);
        if let Some(settings) = &self.traces {
            host.tracer = Tracer::start(settings, name, &host.metrics)?;
            self.tracers.lock().push(host.tracer.clone());
            tracing::info!(service.name = name, collector = %settings, "spans are exported");
        }
        Ok(host)
    }

    /// Sends the last spans of all services, within [`FLUSH_TIMEOUT`](crate::traces::FLUSH_TIMEOUT): after the services
    /// have ended.
    pub async fn stop_traces(&self) {
        let tracers = std::mem::take(&mut *self.tracers.lock());
        join_all(tracers.iter().map(Tracer::stop)).await;
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
    /// Spans cannot be exported.
    #[error("cannot export spans")]
    Traces(#[from] ExportError),
}
