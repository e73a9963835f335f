//! The one boot path: runtime, logs, host.

use crate::failure::BoxError;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use unslide_model::SystemClock;
use unslide_runtime::{CpuPool, Host, Problem, Shutdown, admin, telemetry};

/// The sections that concern the process and not one service.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Process {
    /// Logs.
    pub log: telemetry::Settings,
    /// The admin port.
    pub admin: admin::Settings,
    /// Threads and times.
    pub process: Resources,
}

/// The section `process`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Resources {
    /// Threads for symbolication and parsing; 0 takes one a core.
    pub cpu_threads: usize,
    /// Seconds that a shutdown may take until what still runs is given up.
    pub drain_seconds: u64,
}

impl Default for Resources {
    fn default() -> Resources {
        Resources { cpu_threads: 0, drain_seconds: 30 }
    }
}

impl Process {
    /// What is wrong with these sections.
    pub fn validate(&self) -> Vec<Problem> {
        let mut problems = self.log.validate();
        if self.process.cpu_threads > 4096 {
            problems.push(Problem::new("process.cpu_threads", "more than 4096"));
        }
        if self.process.drain_seconds == 0 {
            problems.push(Problem::new("process.drain_seconds", "must be more than 0"));
        }
        problems
    }

    /// A host as these sections say, which listens for signals. To be called on the async runtime.
    ///
    /// # Errors
    /// Where a thread, a signal handler or a metric is refused.
    pub fn host(&self) -> Result<Host, BoxError> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = if self.process.cpu_threads == 0 { cores } else { self.process.cpu_threads };
        let shutdown = Shutdown::new(Duration::from_secs(self.process.drain_seconds));
        shutdown.listen()?;
        Ok(Host::new(Arc::new(SystemClock), shutdown, CpuPool::new(threads)?)?)
    }
}

/// Runs a command's async part. Blocking work that it has left behind is not waited for.
///
/// # Errors
/// The command's own, or where the runtime cannot be started.
pub fn block_on<T>(future: impl Future<Output = Result<T, BoxError>>) -> Result<T, BoxError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(future);
    runtime.shutdown_timeout(Duration::from_millis(500));
    result
}
