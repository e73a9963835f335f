//! The service from start to drain.

use crate::batch::Content;
use crate::config::Config;
use crate::holding::Topics;
use crate::metrics::Metrics;
use crate::reader::Reader;
use crate::segments::Compactor;
use crate::upkeep;
use unslide_artifacts::ObjectStore;
use unslide_proto::trace::Ids;
use unslide_runtime::Host;
use unslide_store::{Store, StoreError};
use unslide_stream::StreamError;

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
    let owner = match config.indexer.name.as_str() {
        "" => unique_name(),
        name => name.to_owned(),
    };
    let topics = config.kafka.topics();
    let reader = |topics: Topics, content| {
        Reader::new(
            topics,
            content,
            owner.clone(),
            config.indexer.clone(),
            config.kafka.clone(),
            store.clone(),
            objects.clone(),
            host.clone(),
            metrics.clone(),
        )
    };
    let outputs = Topics { shared: topics.output, tenants: config.kafka.tenant_topics };
    let reports = reader(outputs, Content::Reports);
    let ledger = reader(Topics { shared: topics.ledger, tenants: false }, Content::Ledger);
    let letters = reader(Topics { shared: topics.dead_letter, tenants: false }, Content::Letters);
    let asked = store.clone();
    host.health.register("postgres", move || {
        let store = asked.clone();
        async move { store.ping().await.map_err(|e| crate::batch::causes(&e)) }
    });
    let bucket = objects.clone();
    host.health.register("objects", move || {
        let bucket = bucket.clone();
        async move { bucket.check().await.map_err(|e| crate::batch::causes(&e)) }
    });
    for (name, state) in
        [("reports", reports.state()), ("ledger", ledger.state()), ("dead letters", letters.state())]
    {
        host.health.register(name, move || {
            let state = state.clone();
            async move { state.check() }
        });
    }
    let state = reports.state();
    let own = config.indexer.clone();
    let compactor = Compactor::new(store.clone(), objects, own.clone(), metrics.clone(), &host);
    let upkeep = upkeep::run(store.clone(), own, metrics, state, compactor, host.shutdown.clone());
    tokio::join!(reports.run(), ledger.run(), letters.run(), upkeep);
    store.close().await;
    Ok(())
}

/// A name that no other indexer has: hosts may share a name, processes of containers a number.
fn unique_name() -> String {
    let random = Ids::default().next();
    format!("indexer-{}-{random:016x}", std::process::id())
}
