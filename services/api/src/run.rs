//! Runs the service, from its configuration to the end of its last request.

use crate::app::build_app;
use crate::background::app_slots::AppSlots;
use crate::background::deleted_tenants;
use crate::background::key_cache::KeyCache;
use crate::background::key_uses::KeyUses;
use crate::background::topics_check::TopicsCheck;
use crate::config::Config;
use crate::entropy::Entropy;
use crate::feature::ApiFeature;
use crate::http::observe::RequestObserver;
use crate::http::server::{ConnectionSettings, serve};
use crate::http::spans::RequestTraces;
use crate::http::trace::Ids;
use crate::limits::capacity::Capacity;
use crate::limits::permits::Permits;
use crate::lists::{Lists, all_tables};
use crate::metrics::{ConnectionMetrics, Metrics};
use crate::panels::Panels;
use crate::reports::rules_cache::RulesCache;
use crate::reports::symbolication::Symbolication;
use crate::requests::broker::Broker;
use crate::requests::kept_scanner::KeptScanner;
use crate::requests::keys::Keys;
use crate::requests::refused::KeptValues;
use crate::state::{Api, ApiParts};
use crate::storage::Storage;
use crate::storage::claims::TenantClaims;
use futures::future::join_all;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use unslide_artifacts::{CacheSettings, ObjectStore, SymcacheCache};
use unslide_history::{History, HistoryError};
use unslide_model::format_causes;
use unslide_report::reader::ReportReaders;
use unslide_runtime::clients::TrustedProxies;
use unslide_runtime::{Host, resource_use, sampled, startup};
use unslide_store::resource_uses::add_uses;
use unslide_store::{Store, StoreError, StoreHook};
use unslide_stream::{Producer, TailReader};
use unslide_symbolicate::Analysis;

/// Maximum number of open connections.
const CONNECTIONS_LIMIT: usize = 4_096;
/// Maximum number of open connections of one client address (of one /64 of IPv6) that have not sent a valid
/// key yet.
const CONNECTIONS_PER_ADDRESS: usize = 128;
/// How long the head of a request may take to arrive.
const REQUEST_HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Why the api cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    /// The database is not usable.
    #[error("cannot use the database")]
    Store(#[from] StoreError),
    /// The settings of ClickHouse are not usable.
    #[error("cannot use ClickHouse")]
    History(#[from] HistoryError),
    /// The Kafka client is not usable.
    #[error("cannot create the Kafka client")]
    Stream(#[from] unslide_stream::StreamError),
    /// The folder of symcaches is not usable.
    #[error("cannot use the cache folder")]
    Cache(#[from] unslide_artifacts::CacheError),
    /// A feature cannot begin its work.
    #[error("cannot start the feature {name}")]
    Feature {
        name: &'static str,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Two metrics have the same name.
    #[error("cannot register the metrics")]
    Metrics(#[from] prometheus::Error),
}

/// Everything that features add to an api.
#[derive(Clone, Default)]
pub struct ApiFeatures {
    /// Their hooks, in the order in which they run.
    pub hooks: Vec<StoreHook>,
    /// Their readers of reports in other formats, in the order in which they are tried.
    pub readers: ReportReaders,
    /// Their additions to the interface.
    pub features: Vec<ApiFeature>,
    pub analyses: Vec<Analysis>,
}

/// Listens on the configured address, and serves until the host says to stop.
///
/// # Errors
/// [`Error`] if the service cannot start.
pub async fn run(config: Config, features: ApiFeatures, host: Host) -> Result<(), Error> {
    let listener = bind_listener(&config).await?;
    Box::pin(run_on(listener, config, features, host)).await
}

/// Binds the configured address, so that the caller knows the port before the service runs.
///
/// # Errors
/// [`Error::Listen`].
pub async fn bind_listener(config: &Config) -> Result<TcpListener, Error> {
    let address = config.api.listen;
    TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })
}

/// Serves on a listener until the host says to stop. Returns after running requests have ended, or after the
/// drain time.
///
/// # Errors
/// [`Error`] if the service cannot start.
pub async fn run_on(
    listener: TcpListener,
    config: Config,
    features: ApiFeatures,
    host: Host,
) -> Result<(), Error> {
    let limits = &config.api.limits;
    let settings = ConnectionSettings {
        limit: CONNECTIONS_LIMIT,
        per_network: CONNECTIONS_PER_ADDRESS,
        // A network that cannot be read was refused with the configuration.
        proxies: TrustedProxies::from_networks(&config.api.trusted_proxies).unwrap_or_default(),
        head: REQUEST_HEAD_TIMEOUT,
        pace: limits.answer_pace(),
        metrics: ConnectionMetrics::new(&host.metrics)?,
    };
    host.shutdown.set_notice(Duration::from_secs(config.api.stop_delay_seconds));
    let serving = host.health.register_serving();
    let of_features = features.features.clone();
    let (api, noting) = build_api(&config, features, &host).await?;
    serving.store(true, Ordering::Relaxed);
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, "the api listens");
    }
    // A little less than the host allows, so that the connections to the servers are closed in order.
    let drain = host.shutdown.drain_timeout().mul_f32(0.9);
    let app = build_app(api.clone(), &of_features);
    serve(listener, app, settings, host.shutdown.wait_until_begun(), drain).await;
    api.parts().broker.producer.flush(host.shutdown.drain_timeout() / 20).await;
    let _ = tokio::time::timeout(host.shutdown.drain_timeout() / 20, noting).await;
    // Tasks that still wait for a connection have been cut off by now.
    let closing = async {
        api.parts().claims.close().await;
        api.parts().storage.store.close().await;
    };
    let _ = tokio::time::timeout(host.shutdown.drain_timeout() / 20, closing).await;
    Ok(())
}

/// Connects to the servers that the operations need, and registers metrics and readiness probes. Also returns
/// the background task, which ends after the host says to stop.
///
/// # Errors
/// [`Error`] if something is not usable.
pub async fn build_api(
    config: &Config,
    features: ApiFeatures,
    host: &Host,
) -> Result<(Api, JoinHandle<()>), Error> {
    let ApiFeatures { hooks, readers, features, analyses } = features;
    let metrics = Metrics::new(&host.metrics)?;
    let storage = Arc::new(connect_storage(config, &hooks, metrics.clone(), host).await?);
    let capacity = storage.capacity.clone();
    let (stop, store) = (host.shutdown.token(), &storage.store);
    let (uses, noting) = KeyUses::start(store.clone(), stop.clone());
    let (app_slots, measuring) = AppSlots::start(store.clone(), stop.clone());
    let cache = KeyCache::new(Duration::from_secs(config.api.key_outage_seconds));
    let refreshing = cache.start_refresh(store.clone(), stop.clone());
    let (symcaches, cache_updates) = open_symcaches(config, storage.objects.clone(), host)?;
    let api = Api::new(ApiParts {
        keys: Arc::new(Keys {
            storage: storage.clone(),
            capacity: capacity.clone(),
            cache,
            uses,
            entropy: Entropy::default(),
        }),
        symbolication: Arc::new(Symbolication {
            storage: storage.clone(),
            capacity: capacity.clone(),
            symcaches,
            rules_cache: RulesCache::default(),
            readers,
            analyses,
            public_url: config.api.public_url.trim_end_matches('/').to_owned(),
            sources: features.iter().find_map(|feature| feature.sources),
            cache_updates,
        }),
        broker: Arc::new(build_broker(config, storage.clone(), app_slots, host)?),
        lists: Arc::new(Lists {
            capacity: capacity.clone(),
            tables: all_tables(features.iter().map(|feature| feature.tables)).collect(),
            forms: features.iter().filter_map(|feature| feature.forms).collect(),
        }),
        panels: Arc::new(Panels(features.iter().filter_map(|feature| feature.show_panel).collect())),
        app_intake: Arc::default(),
        claims: Arc::new(TenantClaims::new(&config.cells, &config.postgres, host.clock.clone())),
        observer: Arc::new(RequestObserver {
            traces: RequestTraces {
                ids: Ids::default(),
                tracer: host.tracer.clone(),
                clock: storage.clock.clone(),
            },
            metrics,
            logs_requests: config.api.log_requests,
        }),
        shutdown: host.shutdown.clone(),
        capacity,
        storage,
    });
    register_sampled(&host.metrics, &api)?;
    register_probes(&api, host);
    let (store, shutdown) = (api.parts().storage.store.clone(), host.shutdown.clone());
    let using = tokio::spawn(async move {
        resource_use::keep_writing(&shutdown, |uses| add_uses(store.clone(), uses)).await;
    });
    let mut tasks = vec![noting, refreshing, using, measuring];
    for feature in &features {
        if let Some(start) = &feature.start {
            let started = start(api.parts(), host);
            tasks.push(started.map_err(|source| Error::Feature { name: feature.name, source })?);
        }
    }
    let noting = tokio::spawn(async move {
        join_all(tasks).await;
    });
    Ok((api, noting))
}

/// Connects to the database and to object storage, with the capacity of this process for both.
async fn connect_storage(
    config: &Config,
    hooks: &[StoreHook],
    metrics: Metrics,
    host: &Host,
) -> Result<Storage, Error> {
    let mut limits = config.api.limits.clone();
    limits.report_bytes = limits.report_bytes.min(config.kafka.max_record_bytes);
    let mut postgres = config.postgres.clone();
    // No request waits for the database longer than its own time limit.
    postgres.statement_timeout_seconds = postgres.statement_timeout_seconds.min(limits.request_seconds);
    let store = startup::reach_dependency(host, "postgres", StoreError::is_connection, || {
        Store::connect(&postgres, host.clock.clone())
    });
    let history = config.history.is_on().then(|| History::new(&config.history)).transpose()?;
    let store = store.await?.with_hooks(hooks).with_history(history);
    let (downloads, connections) = (config.symcaches.downloads, postgres.max_connections);
    let clock = store.clock().clone();
    let capacity = Capacity {
        permits: Permits::new(&limits, downloads, connections, &metrics.refused),
        limits,
        cpu: host.cpu.clone(),
        tenants: config.tenants.clone(),
        report_units: Arc::default(),
        symbolication_units: Arc::default(),
        refused: metrics.refused.clone(),
        clock: clock.clone(),
    };
    Ok(Storage {
        store,
        objects: ObjectStore::s3(&config.objects).await,
        clock,
        retention: config.indexer,
        metrics,
        capacity: Arc::new(capacity),
    })
}

/// Opens the symcaches on this machine's disk, with the readers that keep them up to date.
fn open_symcaches(
    config: &Config,
    objects: ObjectStore,
    host: &Host,
) -> Result<(SymcacheCache, [TailReader; 2]), Error> {
    let cache = CacheSettings::new(config.api.cache_dir.clone(), config.api.cache_bytes)
        .with_limits(config.symcaches.clone());
    let symcaches = SymcacheCache::open(cache, objects, host.clock.clone())?;
    // Requests are served before the events are read. Until then, entries of the last run are compared before
    // they are used.
    symcaches.missed_events();
    let (for_events, topic) = (symcaches.clone(), config.kafka.topic_names().symbol_events);
    let symbol_events = TailReader::start(&config.kafka, &topic, host.clock.clone(), move |event| {
        event.read_value(|value| for_events.take_event(value.as_deref()));
    })?;
    let deleted_tenants =
        deleted_tenants::forget_deleted_tenants(&config.kafka, host.clock.clone(), symcaches.clone())?;
    Ok((symcaches, [symbol_events, deleted_tenants]))
}

fn build_broker(
    config: &Config,
    storage: Arc<Storage>,
    app_slots: AppSlots,
    host: &Host,
) -> Result<Broker, Error> {
    Ok(Broker {
        capacity: storage.capacity.clone(),
        metrics: storage.metrics.clone(),
        storage,
        producer: Producer::new(&config.kafka)?,
        // A key that cannot be used was refused with the configuration.
        signer: config.api.signing.build_signer().unwrap_or_default(),
        topics: config.kafka.topic_names(),
        topics_check: TopicsCheck::start(&config.kafka, host.shutdown.token().clone()),
        settings: config.kafka.clone(),
        dead_letter_scanner: KeptScanner::default(),
        app_slots,
        kept_values: KeptValues::default(),
    })
}

/// Makes the metrics read the state of the api, its cache, object storage, the database and Kafka's client.
fn register_sampled(registry: &prometheus::Registry, api: &Api) -> Result<(), prometheus::Error> {
    let ApiParts { capacity, storage, symbolication, broker, .. } = api.parts();
    sampled::register_families(registry, &capacity.permits, &Permits::PERMIT_STATS)?;
    sampled::register_families(registry, &symbolication.symcaches, &SymcacheCache::CACHE_STATS)?;
    sampled::register_families(registry, &storage.objects, &ObjectStore::OBJECT_STORE_STATS)?;
    sampled::register_families(registry, &storage.store, &Store::POOL_STATS)?;
    sampled::register_families(registry, &broker.producer, &Producer::PRODUCER_STATS)
}

/// Registers the three servers and the topics as dependencies. None of them decides whether the service is
/// ready: without one of them it still serves requests that need only the others.
fn register_probes(api: &Api, host: &Host) {
    let asked = api.parts().storage.clone();
    host.health.register_dependency("postgres", move || {
        let storage = asked.clone();
        async move { storage.store.check_writes().await.map_err(|error| format_causes(&error)) }
    });
    let asked = api.parts().storage.clone();
    host.health.register_dependency("objects", move || {
        let storage = asked.clone();
        async move { storage.objects.check().await.map_err(|error| format_causes(&error)) }
    });
    let asked = api.parts().broker.clone();
    host.health.register_dependency("kafka", move || {
        let broker = asked.clone();
        async move {
            let probe = broker.producer.probe_topic(&broker.topics.input, Duration::from_millis(1_500)).await;
            probe.map(drop).map_err(|error| format_causes(&error))
        }
    });
    let topics = api.parts().broker.topics_check.clone();
    host.health.register_dependency("topics", move || std::future::ready(topics.last_outcome()));
}
