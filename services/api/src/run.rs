//! The service: from a configuration to answered requests, and to their end.

use crate::app::{app, document};
use crate::config::Config;
use crate::deleted_tenants;
use crate::entropy::Entropy;
use crate::key_uses::KeyUses;
use crate::metrics::Metrics;
use crate::openapi::Document;
use crate::permits::Permits;
use crate::rates::Rates;
use crate::serve::{Connections, serve};
use crate::state::{Api, Inner};
use crate::topics_check::TopicsCheck;
use crate::trace::Ids;
use crate::upload_news::UploadNews;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use unslide_artifacts::{CacheSettings, ObjectStore, SymcacheCache};
use unslide_runtime::Host;
use unslide_store::Store;
use unslide_stream::Producer;

/// Why the api can't start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address can't be listened on.
    #[error("can't listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The database is not usable.
    #[error("can't use the database")]
    Store(#[from] unslide_store::StoreError),
    /// The Kafka client is not usable.
    #[error("can't make a Kafka client")]
    Stream(#[from] unslide_stream::StreamError),
    /// The folder of symcaches is not usable.
    #[error("can't use the cache folder")]
    Cache(#[from] unslide_artifacts::CacheError),
    /// A metric exists twice.
    #[error("can't register metrics")]
    Metrics(#[from] prometheus::Error),
    /// The OpenAPI document can't be written.
    #[error("can't write the OpenAPI document")]
    Document(#[from] serde_json::Error),
}

/// Listens where the configuration says, and serves until the host says to stop.
///
/// # Errors
/// [`Error`] where the service can't start.
pub async fn run(config: Config, host: Host) -> Result<(), Error> {
    let listener = listen(&config).await?;
    run_on(listener, config, host).await
}

/// Takes the configured address, so that the caller knows the port before the service runs.
///
/// # Errors
/// [`Error::Listen`].
pub async fn listen(config: &Config) -> Result<TcpListener, Error> {
    let address = config.api.listen;
    TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })
}

/// Serves on a listener until the host says to stop; returns when running requests have ended, or
/// the drain time is over.
///
/// # Errors
/// [`Error`] where the service can't start.
pub async fn run_on(listener: TcpListener, config: Config, host: Host) -> Result<(), Error> {
    let limits = &config.api.limits;
    let (open, stalled) = crate::metrics::connections(&host.metrics)?;
    let connections = Connections {
        limit: limits.connections,
        head: Duration::from_secs(limits.head_seconds),
        pace: limits.pace(),
        open,
        stalled,
    };
    // Until everything is set up, nobody should take silence for readiness.
    let serving = Arc::new(AtomicBool::new(false));
    let asked = serving.clone();
    host.health.register("serving", move || {
        let serving = asked.load(Ordering::Relaxed);
        async move { if serving { Ok(()) } else { Err("starting".to_owned()) } }
    });
    let (api, noting) = build(&config, &host).await?;
    serving.store(true, Ordering::Relaxed);
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, "the api listens");
    }
    // A little less than the host allows, so that the connections to the servers are closed in order.
    let drain = host.shutdown.drain().mul_f32(0.9);
    serve(listener, app(api.clone()), connections, host.shutdown.begun(), drain).await;
    api.producer.flush(host.shutdown.drain() / 20).await;
    let _ = tokio::time::timeout(host.shutdown.drain() / 20, noting).await;
    // Whoever still waits for a connection has been cut off by now.
    let _ = tokio::time::timeout(host.shutdown.drain() / 20, api.store.close()).await;
    Ok(())
}

/// Connects to everything that the operations need, and registers metrics and readiness probes. Also
/// gives the task that writes when keys were used, which ends after the host says to stop.
///
/// # Errors
/// [`Error`] where something is not usable.
pub async fn build(config: &Config, host: &Host) -> Result<(Api, JoinHandle<()>), Error> {
    let limits = config.api.limits.clone();
    let mut postgres = config.postgres.clone();
    // Nobody waits for an answer of the database longer than a request may take.
    postgres.statement_timeout_seconds = postgres.statement_timeout_seconds.min(limits.request_seconds);
    let store = Store::connect(&postgres, host.clock.clone()).await?;
    let objects = ObjectStore::s3(&config.objects).await;
    let producer = Producer::new(&config.kafka)?;
    let cache = CacheSettings::new(config.api.cache_dir.clone(), config.api.cache_bytes)
        .limited(config.symcaches.clone());
    let symcaches = SymcacheCache::open(cache, objects.clone(), host.clock.clone())?;
    let (key_uses, noting) = KeyUses::start(store.clone(), host.shutdown.token().clone());
    let metrics = Metrics::new(&host.metrics)?;
    let (downloads, connections) = (config.symcaches.downloads, config.postgres.max_connections);
    let permits = Permits::new(&limits, downloads, connections, metrics.refused.clone());
    let api = Api::new(Inner {
        deleted_tenants: deleted_tenants::forget(&config.kafka, host.clock.clone(), symcaches.clone())?,
        symcaches,
        key_uses,
        rates: Rates::default(),
        symbolications: Rates::default(),
        replicas: config.api.replicas,
        kafka: config.kafka.clone(),
        topics: config.kafka.topics(),
        letters: Semaphore::new(limits.letters),
        cpu: host.cpu.clone(),
        clock: host.clock.clone(),
        metrics,
        ids: Ids::default(),
        entropy: Entropy::default(),
        uploads: UploadNews::listen(store.clone(), host.shutdown.token().clone()),
        permits,
        document: Document::new(&document())?,
        store,
        objects,
        producer,
        // A key that can't be used was refused with the configuration.
        signer: config.api.signing.signer().unwrap_or_default(),
        limits,
    });
    crate::metrics::watch(&host.metrics, &api)?;
    probes(&api, host);
    Ok((api, noting))
}

/// Readiness asks the three servers themselves, and says what is wrong with the topics.
fn probes(api: &Api, host: &Host) {
    let asked = api.clone();
    host.health.register("postgres", move || {
        let api = asked.clone();
        async move { api.store.ping().await.map_err(|error| error.to_string()) }
    });
    let asked = api.clone();
    host.health.register("objects", move || {
        let api = asked.clone();
        async move { api.objects.check().await.map_err(|error| error.to_string()) }
    });
    let asked = api.clone();
    host.health.register("kafka", move || {
        let api = asked.clone();
        async move {
            let probe = api.producer.probe(&api.topics.input, Duration::from_millis(1_500)).await;
            probe.map(drop).map_err(|error| error.to_string())
        }
    });
    let topics = TopicsCheck::start(&api.kafka, host.shutdown.token().clone());
    host.health.register("topics", move || std::future::ready(topics.outcome()));
}
