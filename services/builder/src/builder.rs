//! Shared state of all jobs of a builder, in parts. A job takes the part that it uses.

use crate::build::resources::BuildResources;
use crate::feature::JobHandler;
use crate::isolation::IsolationGate;
use crate::lost_attempts::LostAttempts;
use crate::relay::resources::RelayResources;
use crate::requests::resources::RequestResources;
use crate::storage::JobStorage;
use unslide_runtime::Shutdown;
use unslide_stream::Producer;

pub(crate) struct Builder {
    pub(crate) storage: JobStorage,
    pub(crate) build: BuildResources,
    pub(crate) requests: RequestResources,
    pub(crate) relay: RelayResources,
    /// The Kafka client of the readiness check.
    pub(crate) producer: Producer,
    /// Name of this process in the jobs that it has leased.
    pub(crate) name: String,
    /// Gate that jobs of all kinds pass before they run.
    pub(crate) gate: IsolationGate,
    /// Attempts that this process counted and did not end.
    pub(crate) lost_attempts: LostAttempts,
    pub(crate) shutdown: Shutdown,
}

impl Builder {
    /// Returns the handlers of features' jobs.
    pub(crate) fn list_feature_handlers(&self) -> impl Iterator<Item = &'static JobHandler> {
        self.relay.features.iter().flat_map(|feature| feature.jobs)
    }

    /// Returns the handler of a feature for jobs of this kind, or None for a kind of the core.
    pub(crate) fn find_feature_handler(&self, kind: &str) -> Option<&'static JobHandler> {
        self.list_feature_handlers().find(|handler| handler.kind == kind)
    }
}
