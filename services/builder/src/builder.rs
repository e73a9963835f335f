//! What every job of a builder has at hand.

use crate::build::memory::MemoryBudget;
use crate::build::work_folder::WorkFolder;
use crate::config::Settings;
use crate::feature::{BuilderFeature, JobHandler};
use crate::isolation::IsolationGate;
use crate::metrics::Metrics;
use crate::notifications::Notifications;
use crate::places::SharedPlaces;
use crate::requests::pace::RequestPace;
use unslide_artifacts::ObjectStore;
use unslide_proto::topics::TopicNames;
use unslide_runtime::Host;
use unslide_runtime::child::ChildProgram;
use unslide_store::Store;
use unslide_stream::Producer;

/// Everything that jobs need.
pub(crate) struct Builder {
    pub(crate) store: Store,
    pub(crate) objects: ObjectStore,
    pub(crate) producer: Producer,
    pub(crate) topics: TopicNames,
    pub(crate) kafka: unslide_stream::Settings,
    pub(crate) metrics: Metrics,
    pub(crate) notifications: Notifications,
    pub(crate) settings: Settings,
    /// Bytes of a tenant's stored symbols, where the tenant has no limit of its own.
    pub(crate) symbol_bytes: u64,
    pub(crate) work: WorkFolder,
    pub(crate) memory: MemoryBudget,
    /// How fast reports with late symbols are asked for.
    pub(crate) waking: RequestPace,
    /// How fast those are that somebody wants again.
    pub(crate) reprocessing: RequestPace,
    /// Names this process in the jobs that it has.
    pub(crate) name: String,
    pub(crate) places: SharedPlaces,
    /// Where jobs of all kinds pass.
    pub(crate) gate: IsolationGate,
    /// Reads what tenants upload: see [`crate::build::child`].
    pub(crate) child: ChildProgram,
    pub(crate) features: Vec<BuilderFeature>,
    pub(crate) host: Host,
}

impl Builder {
    /// Returns the handlers of features' jobs.
    pub(crate) fn handlers(&self) -> impl Iterator<Item = &'static JobHandler> {
        self.features.iter().flat_map(|feature| feature.jobs)
    }

    /// Returns the handler of a kind of jobs, if it is a feature's.
    pub(crate) fn handler(&self, kind: &str) -> Option<&'static JobHandler> {
        self.handlers().find(|handler| handler.kind == kind)
    }
}
