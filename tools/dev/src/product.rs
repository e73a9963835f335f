//! The product as the binary composes it.

use std::path::Path;
use tokio::net::TcpListener;
use unslide_cli::{AddLine, BoxError};
use unslide_model::TenantId;
use unslide_runtime::{ConfigProblem, Host, Supervised, telemetry};
use unslide_store::Store;
use unslide_store::cells::CellSettings;

/// The services with their features and settings.
pub trait Product: Sized {
    /// Reads the settings without checks, because the addresses of the embedded servers come later.
    ///
    /// # Errors
    /// Returns the parts that cannot be read.
    fn load_settings(config: Option<&Path>) -> Result<Self, BoxError>;

    fn log_settings(&mut self) -> &mut telemetry::Settings;

    /// Creates the host of the process.
    ///
    /// # Errors
    /// Returns an error if a thread, a signal handler or a metric is refused.
    fn create_host(&self) -> Result<Host, BoxError>;

    /// Creates the host of a cell, beside that of the process: with metrics and probes of its own, and the same shutdown.
    ///
    /// # Errors
    /// Returns an error if a metric is refused.
    fn create_cell_host(&self, host: &Host) -> Result<Host, BoxError>;

    fn service_configs(&mut self) -> ServiceConfigs<'_>;

    /// Sets the name of this cell and the address of the directory of cells.
    fn set_cells(&mut self, cells: CellSettings);

    /// Returns the problems of all settings.
    fn validate_settings(&self) -> Vec<ConfigProblem>;

    /// Makes a key for the URL in apps of a tenant. Returns the path of the URL, or `None` if the product has no such keys.
    ///
    /// # Errors
    /// Returns an error if the key cannot be stored.
    fn make_public_path(
        &self,
        store: &Store,
        tenant: &TenantId,
        apps: &[String],
    ) -> impl Future<Output = Result<Option<String>, BoxError>>;

    /// Returns the functions of features that send data of the demo.
    fn list_added_lines() -> Vec<AddLine>;

    /// Prepares the runs of all services. The api serves on the listener.
    ///
    /// # Errors
    /// Returns an error if the metrics of a service cannot have a registry.
    fn prepare_services(&self, host: &Host, listener: TcpListener) -> Result<Vec<Supervised>, BoxError>;

    /// Prepares the run of a door to the cells of the directory, which serves on the listener.
    ///
    /// # Errors
    /// Returns an error if its metrics cannot have a registry.
    fn prepare_door(&self, host: &Host, listener: TcpListener) -> Result<Supervised, BoxError>;
}

/// The settings of the services.
pub struct ServiceConfigs<'p> {
    pub api: &'p mut unslide_api::Config,
    pub builder: &'p mut unslide_builder::Config,
    pub indexer: &'p mut unslide_indexer::Config,
    pub symbolizer: &'p mut unslide_symbolizer::Config,
}
