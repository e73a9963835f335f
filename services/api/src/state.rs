//! Shared state of the operations.

use crate::background::key_cache::KeyCache;
use crate::background::key_uses::KeyUses;
use crate::background::topics_check::TopicsCheck;
use crate::config::RequestLimits;
use crate::entropy::Entropy;
use crate::feature::ApiFeature;
use crate::http::problem::{Kind, Problem};
use crate::http::trace::Ids;
use crate::limits::permits::Permits;
use crate::list_tables::{ListTable, all_tables};
use crate::metrics::Metrics;
use crate::reports::rules_cache::RulesCache;
use crate::requests::refused::KeptValues;
use bytes::Bytes;
use std::ops::Deref;
use std::sync::Arc;
use unslide_artifacts::{ObjectStore, SymcacheCache};
use unslide_model::{Clock, TenantId};
use unslide_proto::topics::TopicNames;
use unslide_report::reader::ReportReaders;
use unslide_runtime::fairness::TokenBuckets;
use unslide_runtime::traces::Tracer;
use unslide_runtime::{CpuPool, Shutdown, TenantDefaults};
use unslide_signatures::Signer;
use unslide_store::Store;
use unslide_store::retention::RetentionSettings;
use unslide_stream::Producer;
use unslide_symbolicate::Analysis;

/// The state of the api. Cheap to clone.
#[derive(Clone)]
pub struct Api(Arc<Inner>);

/// The contents of an [`Api`].
pub struct Inner {
    /// Database of tenants, keys, uploads, objects and reports.
    pub store: Store,
    pub objects: ObjectStore,
    /// Symcaches on this machine's disk.
    pub symcaches: SymcacheCache,
    pub producer: Producer,
    /// Signs the records for Kafka, if a key is configured.
    pub signer: Option<Signer>,
    pub topics: TopicNames,
    /// Result of the check that the topics are as the service needs them.
    pub topics_check: TopicsCheck,
    /// Threads for parsing and symbolication.
    pub cpu: CpuPool,
    pub clock: Arc<dyn Clock>,
    /// Limits of tenants that have no limit of their own.
    pub tenants: TenantDefaults,
    /// How long indexers keep what tenants send.
    pub retention: RetentionSettings,
    pub limits: RequestLimits,
    /// True if requests that succeed are logged, too.
    pub logs_requests: bool,
    pub metrics: Metrics,
    /// Ids of requests and spans.
    pub ids: Ids,
    pub tracer: Tracer,
    pub entropy: Entropy,
    /// Principals of the keys in use.
    pub key_cache: KeyCache,
    pub rules_cache: RulesCache,
    /// Counters of refused elements with a value that is kept.
    pub kept_values: KeptValues,
    /// Recorder of the times when keys were used.
    pub key_uses: KeyUses,
    /// Cost units of the reports that each tenant sends.
    pub report_units: Arc<TokenBuckets<TenantId>>,
    /// Cost units of each tenant's symbolications.
    pub symbolication_units: Arc<TokenBuckets<TenantId>>,
    /// Kafka settings, for the topics of tenants and single records.
    pub kafka: unslide_stream::Settings,
    /// Reader that empties the cache of deleted tenants.
    pub deleted_tenants: unslide_stream::TailReader,
    /// Reader that drops changed symcaches from the cache.
    pub symbol_events: unslide_stream::TailReader,
    /// The permits that requests hold while they run.
    pub permits: Permits,
    /// Readers of reports in other formats.
    pub readers: ReportReaders,
    pub features: Vec<ApiFeature>,
    pub analyses: Vec<Analysis>,
    /// Signals when the service stops.
    pub shutdown: Shutdown,
    pub openapi: Bytes,
}

impl Api {
    #[must_use]
    pub fn new(inner: Inner) -> Api {
        Api(Arc::new(inner))
    }

    /// Returns the lists of all operations, also those of features.
    pub fn list_tables(&self) -> impl Iterator<Item = &'static ListTable> {
        all_tables(&self.features)
    }

    /// Refuses to send while a topic has settings that would lose records.
    ///
    /// # Errors
    /// [`Kind::Unavailable`]; the log and the admin port say what is wrong.
    pub fn check_topics(&self) -> Result<(), Problem> {
        if self.topics_check.is_wrong() { Err(Problem::from_kind(Kind::Unavailable)) } else { Ok(()) }
    }
}

impl Deref for Api {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}
