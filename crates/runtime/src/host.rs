//! The host: resources that the process gives to each of its services.

use crate::health::Readiness;
use crate::traces::{ExportError, TraceSettings, Tracer};
use crate::{CpuPool, Health, Metrics, Shutdown, memory};
use futures::future::join_all;
use parking_lot::Mutex;
#[cfg(target_os = "linux")]
use prometheus::process_collector::ProcessCollector;
use prometheus::{IntGauge, IntGaugeVec, Opts};
use std::sync::Arc;
use unslide_model::{Clock, SystemClock};

/// The resources of a service. Cheap to clone. All clones refer to the same process.
#[derive(Clone)]
pub struct Host {
    /// The source of the time.
    pub clock: Arc<dyn Clock>,
    /// The time to stop, and the limit for draining.
    pub shutdown: Shutdown,
    /// The registry for this service's metrics. Each service of a process has a separate registry
    /// (see [`Host::for_service`]), so that two services may use one name.
    pub metrics: prometheus::Registry,
    /// The registry for this service's readiness probes.
    pub health: Health,
    /// Threads for work that would block the async runtime too long (over 500 µs).
    pub cpu: CpuPool,
    /// The exporter of this service's spans.
    pub tracer: Tracer,
    traces: Option<Arc<TraceSettings>>,
    tracers: Arc<Mutex<Vec<Tracer>>>,
    process: Metrics,
    ready: IntGauge,
    probes: IntGaugeVec,
}

impl Host {
    /// Creates a host for a whole process, with the given clock. Registers the metrics of `cpu` in the
    /// process's registry.
    ///
    /// # Errors
    /// Returns an error if a metric is registered twice, which cannot happen in a new registry.
    pub fn new(clock: Arc<dyn Clock>, shutdown: Shutdown, cpu: CpuPool) -> Result<Host, prometheus::Error> {
        let process = Metrics::default();
        let registry = process.add_registry(None)?;
        cpu.register_metrics(&registry)?;
        #[cfg(target_os = "linux")]
        registry.register(Box::new(ProcessCollector::for_self()))?;
        let build = Opts::new("unslide_build_info", "1, with the version of the program.");
        let build = IntGauge::with_opts(build.const_label("version", env!("CARGO_PKG_VERSION")))?;
        build.set(1);
        registry.register(Box::new(build))?;
        let limit = IntGauge::new(
            "unslide_memory_limit_bytes",
            "Memory that the process may have, by its control group; 0 without a limit.",
        )?;
        limit.set(memory::read_limit().and_then(|bytes| i64::try_from(bytes).ok()).unwrap_or(0));
        registry.register(Box::new(limit))?;
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

    /// Lets the services export their spans.
    #[must_use]
    pub fn with_traces(mut self, settings: Option<TraceSettings>) -> Host {
        self.traces = settings.map(Arc::new);
        self
    }

    /// Creates a host with the system's clock, one CPU thread per core, and no signal handlers. For tests and
    /// small tools.
    ///
    /// # Errors
    /// Returns the errors of [`Host::new`], or an error if a thread cannot be started.
    pub fn local() -> Result<Host, HostError> {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let shutdown = Shutdown::new(std::time::Duration::from_secs(10));
        Ok(Host::new(Arc::new(SystemClock), shutdown, CpuPool::new(threads)?)?)
    }

    /// Returns the host for the service `name`: its probes are named `name.…`, and its metrics have the
    /// label `service`. If traces are on, its spans have a separate exporter.
    ///
    /// # Errors
    /// Returns an error if the name cannot be a label's value, or if spans cannot be exported.
    pub fn for_service(&self, name: &str) -> Result<Host, HostError> {
        let mut host = self.clone();
        host.metrics = self.process.add_registry(Some(name))?;
        host.health = self.health.with_prefix(name);
        if let Some(settings) = &self.traces {
            host.tracer = Tracer::start(settings, name, &host.metrics)?;
            self.tracers.lock().push(host.tracer.clone());
            tracing::info!(service.name = name, collector = %settings, "spans are exported");
        }
        Ok(host)
    }

    /// Sends the last spans of all services, within [`FLUSH_TIMEOUT`](crate::traces::FLUSH_TIMEOUT). For the time after
    /// the services have ended.
    pub async fn stop_traces(&self) {
        let tracers = std::mem::take(&mut *self.tracers.lock());
        join_all(tracers.iter().map(Tracer::stop)).await;
    }

    /// Sets the metrics to the results of the probes.
    pub fn count_probes(&self, readiness: &Readiness) {
        self.ready.set(i64::from(readiness.ready));
        self.probes.reset();
        for (name, probe) in &readiness.probes {
            self.probes.with_label_values(&[name]).set(i64::from(probe.ok));
        }
    }

    /// Returns all registries of the process.
    #[must_use]
    pub fn process_metrics(&self) -> &Metrics {
        &self.process
    }
}

/// The reason why a host cannot be created.
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
