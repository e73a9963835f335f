//! What the operations share.

use crate::config::Limits;
use crate::entropy::Entropy;
use crate::key_uses::KeyUses;
use crate::metrics::Metrics;
use crate::openapi::Document;
use crate::permits::Permits;
use crate::problem::{Kind, Problem};
use crate::rates::Rates;
use crate::trace::Ids;
use crate::upload_news::UploadNews;
use std::ops::Deref;
use std::sync::Arc;
use tokio::sync::Semaphore;
use unslide_artifacts::{ObjectStore, SymcacheCache};
use unslide_model::Clock;
use unslide_proto::signed::Signer;
use unslide_proto::topics::TopicNames;
use unslide_runtime::CpuPool;
use unslide_store::Store;
use unslide_stream::Producer;

/// The state of the api. Cheap to clone.
#[derive(Clone)]
pub struct Api(Arc<Inner>);

/// What an [`Api`] holds.
pub struct Inner {
    /// Tenants, keys, uploads, objects, reports.
    pub store: Store,
    /// Uploaded files and symcaches.
    pub objects: ObjectStore,
    /// Symcaches on this machine's disk.
    pub symcaches: SymcacheCache,
    /// The way to Kafka.
    pub producer: Producer,
    /// Signs what goes there, where that is wanted.
    pub signer: Option<Signer>,
    /// A permit for each request that reads dead letters from Kafka.
    pub letters: Semaphore,
    /// The topics' names.
    pub topics: TopicNames,
    /// Threads for parsing and symbolication.
    pub cpu: CpuPool,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// Bounds on requests.
    pub limits: Limits,
    /// What is counted.
    pub metrics: Metrics,
    /// Ids of requests and spans.
    pub ids: Ids,
    /// Randomness for new keys.
    pub entropy: Entropy,
    /// News of uploads.
    pub uploads: UploadNews,
    /// When keys were used.
    pub key_uses: KeyUses,
    /// Reports a second of each tenant.
    pub rates: Rates,
    /// Symbolications a second of each tenant.
    pub symbolications: Rates,
    /// Processes that a tenant's reports are spread over.
    pub replicas: u32,
    /// How to reach Kafka, for the topics of tenants and single records.
    pub kafka: unslide_stream::Settings,
    /// Empties the cache of tenants that are deleted.
    pub deleted_tenants: unslide_stream::TailReader,
    /// What requests hold while they are in work.
    pub permits: Permits,
    /// The OpenAPI document, written once.
    pub document: Document,
}

impl Api {
    /// Wraps the state.
    #[must_use]
    pub fn new(inner: Inner) -> Api {
        Api(Arc::new(inner))
    }

    /// What a tenant is told that is over a rate, and has to wait for so many seconds. Counts it.
    pub fn over_rate(&self, name: &str, limit: u32, seconds: u32) -> Problem {
        self.metrics.refused.with_label_values(&[name]).inc();
        let detail = format!("{name}: the limit is {limit}; the same request fits in {seconds} s");
        Problem::new(Kind::RateLimited, detail).retry_after(seconds)
    }
}

impl Deref for Api {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}
