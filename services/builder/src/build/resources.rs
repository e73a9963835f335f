//! Resources of jobs that read what tenants upload.

use super::memory::MemoryBudget;
use super::work_folder::WorkFolder;
use crate::config::Settings;
use crate::metrics::Metrics;
use crate::places::SharedPlaces;
use crate::storage::JobStorage;
use std::any::Any;
use std::sync::Arc;
use unslide_report::reader::ReportReaders;
use unslide_sandbox::child::ChildProgram;
use unslide_symbolicate::DerivedObject;

/// The state of a feature with its settings, which all its jobs share.
pub type JobState = Arc<dyn Any + Send + Sync>;

/// Storage, disk space, memory and child processes for builds and for jobs of features.
pub(crate) struct BuildResources {
    pub(crate) storage: JobStorage,
    pub(crate) settings: Settings,
    /// Limit for a tenant's stored symbols in bytes, if the tenant has no limit of its own.
    pub(crate) symbol_bytes: u64,
    /// The same for one upload.
    pub(crate) upload_bytes: u64,
    pub(crate) work: WorkFolder,
    pub(crate) memory: MemoryBudget,
    pub(crate) places: SharedPlaces,
    /// Reads what tenants upload: see [`crate::build::child`].
    pub(crate) child: ChildProgram,
    /// Objects that are built beside symcaches, for analyses of features.
    pub(crate) derived: Vec<DerivedObject>,
    /// Readers of reports in other formats.
    pub(crate) readers: ReportReaders,
    /// States of features with their settings.
    pub(crate) states: Vec<JobState>,
    pub(crate) metrics: Metrics,
}
