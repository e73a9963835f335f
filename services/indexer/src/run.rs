//! The service from start to drain.

use crate::config::Config;
use crate::maintenance;
use crate::maintenance::orphans::Orphans;
use crate::metrics::Metrics;
use crate::pipeline::quarantine::Quarantine;
use crate::pipeline::replays;
use crate::pipeline::{Pipeline, Resources};
use crate::reader::{OutputReader, State};
use crate::records::external_body::FailingBodies;
use crate::records::{self, Content};
use crate::segments::BodyMover;
use crate::topics::Topics;
use std::sync::Arc;
use unslide_artifacts::ObjectStore;
use unslide_proto::trace::Ids;
use unslide_runtime::{Host, causes};
use unslide_store::{Store, StoreError};
use unslide_stream::{Signatures, StreamError};

/// Why the indexer did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database is not as it has to be.
    #[error("the indexer cannot use its database")]
    Store(#[from] StoreError),
    /// Kafka is not as it has to be.
    #[error("the indexer cannot use Kafka")]
    Stream(#[from] StreamError),
    /// A metric could not be registered.
    #[error("the indexer's metrics cannot be registered")]
    Metrics(#[from] prometheus::Error),
}

/// Runs the indexer until the shutdown begins and what was begun is stored.
///
/// # Errors
/// Where it cannot start. Once it runs it tries again whatever fails, and says so in its readiness.
pub async fn run(config: Config, host: Host) -> Result<(), Error> {
    let metrics = Metrics::new(&host.metrics)?;
    unslide_stream::admin::verify(&config.kafka).await?;
    let store = Store::connect(&config.postgres, host.clock.clone()).await?;
    let objects = ObjectStore::s3(&config.objects).await;
    crate::metrics::watch(&host.metrics, &objects, &store)?;
    let owner = unique_name();
    let topics = config.kafka.topics();
    let signatures = Arc::new(Signatures::new(&config.symbolizer.signatures));
    let resources = |topics: Topics, content| Resources {
        content,
        signatures: Arc::clone(&signatures),
        settings: config.indexer.clone(),
        kafka: config.kafka.clone(),
        store: store.clone(),
        objects: objects.clone(),
        host: host.clone(),
        metrics: metrics.clone(),
        quarantine: Quarantine::new(store.clone(), metrics.clone(), &topics.shared),
        failing: FailingBodies::default(),
        read: records::parse,
        topics,
    };
    let outputs = Topics { shared: topics.output, tenants: config.kafka.tenant_topics };
    let all = [
        resources(outputs.clone(), Content::Reports),
        resources(Topics { shared: topics.ledger, tenants: false }, Content::Ledger),
        resources(Topics { shared: topics.dead_letter, tenants: false }, Content::DeadLetters),
        resources(Topics { shared: topics.sessions, tenants: false }, Content::Sessions),
        resources(Topics { shared: topics.metrics, tenants: false }, Content::Metrics),
    ];
    let pipelines = all.each_ref().map(Pipeline::new);
    let [reports, ledger, letters, sessions, app_metrics] =
        all.map(|resources| OutputReader::new(resources, owner.clone()));
    let states = [
        ("reports", reports.state()),
        ("ledger", ledger.state()),
        ("dead letters", letters.state()),
        ("sessions", sessions.state()),
        ("metrics", app_metrics.state()),
    ];
    register(&host, &store, &objects, states);
    let own = config.indexer.clone();
    let orphans = Orphans::new(store.clone(), objects.clone(), outputs, config.kafka.clone());
    let bodies = BodyMover::new(store.clone(), objects, own.clone(), metrics.clone(), &host);
    let (state, shutdown) = (reports.state(), host.shutdown.clone());
    let maintenance = maintenance::run(store.clone(), own, metrics, state, bodies, orphans, shutdown);
    let replays = replays::run(store.clone(), config.kafka.clone(), pipelines, host.shutdown.clone());
    tokio::join!(
        reports.run(),
        ledger.run(),
        letters.run(),
        sessions.run(),
        app_metrics.run(),
        maintenance,
        replays
    );
    store.close().await;
    Ok(())
}

/// Says of each part whether it works.
fn register(host: &Host, store: &Store, objects: &ObjectStore, readers: [(&'static str, State); 5]) {
    let asked = store.clone();
    host.health.register("postgres", move || {
        let store = asked.clone();
        async move { store.ping().await.map_err(|e| causes(&e)) }
    });
    let bucket = objects.clone();
    host.health.register("objects", move || {
        let bucket = bucket.clone();
        async move { bucket.check().await.map_err(|e| causes(&e)) }
    });
    for (name, state) in readers {
        host.health.register(name, move || {
            let state = state.clone();
            async move { state.check() }
        });
    }
}

/// A name that no other indexer has: hosts may share a name, processes of containers a number.
fn unique_name() -> String {
    let random = Ids::default().next();
    format!("indexer-{}-{random:016x}", std::process::id())
}
