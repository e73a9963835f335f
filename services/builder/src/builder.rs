//! Shared state of all jobs of a builder.

use crate::build::memory::MemoryBudget;
use crate::build::work_folder::WorkFolder;
use crate::config::Settings;
use crate::feature::{BuilderFeature, JobHandler};
use crate::isolation::IsolationGate;
use crate::lost_attempts::LostAttempts;
use crate::metrics::Metrics;
use crate::notifications::Notifications;
use crate::places::SharedPlaces;
use crate::requests::pace::RequestPace;
use unslide_artifacts::ObjectStore;
use unslide_proto::topics::TopicNames;
use unslide_report::reader::ReportReaders;
use unslide_runtime::Host;
use unslide_sandbox::child::ChildProgram;
use unslide_store::Store;
use unslide_stream::Producer;
use unslide_symbolicate::DerivedObject;

pub(crate) struct Builder {
    pub(crate) store: Store,
    pub(crate) objects: ObjectStore,
    pub(crate) producer: Producer,
    pub(crate) topics: TopicNames,
    pub(crate) kafka: unslide_stream::Settings,
    pub(crate) metrics: Metrics,
    pub(crate) notifications: Notifications,
    pub(crate) settings: Settings,
    /// Limit for a tenant's stored symbols in bytes, if the tenant has no limit of its own.
    pub(crate) symbol_bytes: u64,
    pub(crate) work: WorkFolder,
    pub(crate) memory: MemoryBudget,
    /// Rate at which reports with late symbols are requested.
    pub(crate) waking: RequestPace,
    /// Rate at which reports are requested that a user wants symbolicated again.
    pub(crate) reprocessing: RequestPace,
    /// Name of this process in the jobs that it has leased.
    pub(crate) name: String,
    pub(crate) places: SharedPlaces,
    /// Gate that jobs of all kinds pass before they run.
    pub(crate) gate: IsolationGate,
    /// Attempts that this process counted and did not end.
    pub(crate) lost_attempts: LostAttempts,
    /// Reads what tenants upload: see [`crate::build::child`].
    pub(crate) child: ChildProgram,
    /// Readers of reports in other formats.
    pub(crate) readers: ReportReaders,
    pub(crate) features: Vec<BuilderFeature>,
    /// Objects that are built beside symcaches, for analyses of features.
    pub(crate) derived: Vec<DerivedObject>,
    pub(crate) host: Host,
}

impl Builder {
    /// Returns the handlers of features' jobs.
    pub(crate) fn list_feature_handlers(&self) -> impl Iterator<Item = &'static JobHandler> {
        self.features.iter().flat_map(|feature| feature.jobs)
    }

    /// Returns the handler of a feature for jobs of this kind, or None for a kind of the core.
    pub(crate) fn find_feature_handler(&self, kind: &str) -> Option<&'static JobHandler> {
        self.list_feature_handlers().find(|handler| handler.kind == kind)
    }
}
