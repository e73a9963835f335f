//! The one boot path: runtime, logs, host.

use reqwest::Url;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use unslide_cli::{BoxError, CommandError};
use unslide_model::SystemClock;
use unslide_runtime::traces::TraceSettings;
use unslide_runtime::{ConfigProblem, CpuPool, Host, Shutdown, admin, telemetry};
use unslide_store::{Store, StoreError, StoreHook};

/// The sections that concern the process and not one service.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Process {
    /// Format and filter of the logs.
    pub log: telemetry::Settings,
    /// Address of the admin server, for health checks and metrics.
    pub admin: admin::Settings,
    /// Limits of a shutdown, and the folder for files.
    pub process: ProcessSettings,
    /// Receiver of spans, from the variables `OTEL_…`.
    #[serde(skip)]
    pub traces: TraceVariables,
}

/// The settings in the variables `OTEL_…`.
#[derive(Clone, Debug, Default)]
pub struct TraceVariables {
    /// The collector, if spans are exported.
    pub settings: Option<TraceSettings>,
    problems: Vec<ConfigProblem>,
}

impl TraceVariables {
    /// Reads the variables of the process.
    pub fn from_environment() -> TraceVariables {
        match TraceSettings::from_environment() {
            Ok(settings) => TraceVariables { settings, problems: Vec::new() },
            Err(problems) => TraceVariables { settings: None, problems },
        }
    }
}

/// The section `process` of the settings.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct ProcessSettings {
    /// The folder for everything on disk: `api` and `symbolizer` with their symcaches, at most `cache_size` and
    /// `symcaches.download_size` each, and `builder` with what it works on, at most `builder.work_size`. May be deleted
    /// while nothing runs.
    pub data_dir: PathBuf,
    /// How long a shutdown may take until what still runs is given up.
    #[serde(rename = "drain", with = "unslide_model::units::seconds")]
    #[schemars(with = "String")]
    pub drain_seconds: u64,
}

impl Default for ProcessSettings {
    fn default() -> ProcessSettings {
        ProcessSettings { data_dir: PathBuf::from("/var/lib/unslide"), drain_seconds: 30 }
    }
}

impl Process {
    /// Returns the problems of these sections.
    pub fn validate(&self) -> Vec<ConfigProblem> {
        let mut problems = self.log.validate();
        problems.extend(self.traces.problems.iter().cloned());
        if self.process.drain_seconds == 0 {
            problems.push(ConfigProblem::new("process.drain", "must be more than 0"));
        }
        if self.process.data_dir.as_os_str().is_empty() {
            problems.push(ConfigProblem::new("process.data_dir", "must name a folder"));
        }
        problems
    }

    /// Creates a host from these sections, which listens for signals. From now on the process keeps freed
    /// memory. Call this on the async runtime.
    ///
    /// # Errors
    /// Returns an error if a thread, a signal handler or a metric is refused.
    pub fn build_host(&self) -> Result<Host, BoxError> {
        #[cfg(target_env = "gnu")]
        unslide_runtime::memory::keep_freed()?;
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let shutdown = Shutdown::new(Duration::from_secs(self.process.drain_seconds));
        shutdown.listen_for_signals()?;
        let host = Host::new(Arc::new(SystemClock), shutdown, CpuPool::new(cores)?)?;
        Ok(host.with_traces(self.traces.settings.clone()))
    }
}

/// Connects to the database with the hooks of all features, as they are configured, for a command of an operator.
///
/// # Errors
/// Returns an error with the address that did not answer, or with the reason why the database cannot be used.
pub async fn connect_database(
    settings: &unslide_store::Settings,
    hooks: &[StoreHook],
) -> Result<Store, BoxError> {
    let store = Store::connect(settings, Arc::new(SystemClock)).await;
    Ok(store.map_err(|error| database_failed(settings, error))?.with_hooks(hooks))
}

/// Connects to the directory of cells.
///
/// # Errors
/// As [`connect_database`].
pub async fn connect_directory(settings: &unslide_store::Settings) -> Result<Store, CommandError> {
    let store = Store::connect(settings, Arc::new(SystemClock)).await;
    store.map_err(|error| directory_failed(settings, error))
}

/// Creates the error for a failure of the directory of cells, with its address.
pub fn directory_failed(settings: &unslide_store::Settings, error: StoreError) -> CommandError {
    let address = database_address(settings);
    CommandError::caused(
        format!("the directory of cells at {address} (cells.directory) cannot be used"),
        error,
    )
}

/// Creates the error for a failure of the database, with its address.
pub fn database_failed(settings: &unslide_store::Settings, error: StoreError) -> CommandError {
    let text = format!("the database at {} (postgres.url) cannot be used", database_address(settings));
    CommandError::caused(text, error)
}

/// Returns host, port and name of the database: without user, password and options.
pub fn database_address(settings: &unslide_store::Settings) -> String {
    let shown = Url::parse(settings.url.reveal()).ok().and_then(|url| {
        let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
        Some(format!("{}{port}{}", url.host_str()?, url.path()))
    });
    shown.unwrap_or_else(|| "its address".to_owned())
}

/// Returns the login at the database.
pub fn database_user(settings: &unslide_store::Settings) -> String {
    let user = Url::parse(settings.url.reveal()).ok().map(|url| url.username().to_owned());
    user.filter(|user| !user.is_empty()).unwrap_or_else(|| "the login".to_owned())
}

/// Creates the error for a failure of Kafka, with its address.
pub fn kafka_failed(settings: &unslide_stream::Settings, error: impl Into<BoxError>) -> CommandError {
    let text = format!(
        "Kafka at {} (kafka.bootstrap: --config FILE or UNSLIDE_KAFKA__BOOTSTRAP sets it) cannot be used",
        settings.bootstrap
    );
    CommandError::caused(text, error)
}
