//! Runs the service from start to drain.

use crate::config::Config;
use crate::deferral;
use crate::feature::IndexerFeatures;
use crate::history::HistoryMover;
use crate::maintenance::tenants::TenantWatch;
use crate::maintenance::{self, MaintenanceParts, input};
use crate::metrics::{Metrics, ReaderLabel, TenantGauges};
use crate::pipeline::Pipeline;
use crate::pipeline::replays;
use crate::pipeline::resources::Resources;
use crate::pipeline::skips::SkipLimit;
use crate::reader::{OutputReader, State};
use crate::records::{self, Content};
use crate::rewriting::ReportRewriters;
use crate::segments::BodyMover;
use crate::topics::Topics;
use futures::future::join_all;
use std::sync::Arc;
use unslide_artifacts::ObjectStore;
use unslide_history::{History, HistoryError};
use unslide_model::format_causes;
use unslide_proto::trace::Ids;
use unslide_runtime::{Host, resource_use, startup};
use unslide_store::resource_uses::add_uses;
use unslide_store::{Store, StoreError};
use unslide_stream::{Signatures, StreamError, admin};

/// Number of readers of reports in one process. While one waits for the commit of its batch, the other reads
/// and writes.
const REPORT_READERS: usize = 2;

/// Error that keeps the indexer from starting.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database could not be used.
    #[error("cannot use the database")]
    Store(#[from] StoreError),
    /// Kafka could not be used.
    #[error("cannot use Kafka")]
    Stream(#[from] StreamError),
    /// The settings of ClickHouse could not be used.
    #[error("cannot use ClickHouse")]
    History(#[from] HistoryError),
    /// A metric could not be registered.
    #[error("cannot register the metrics")]
    Metrics(#[from] prometheus::Error),
}

/// Runs the indexer until the shutdown begins and all work in progress is stored. The hooks of features run in
/// the transaction of each stored batch, in their order.
///
/// # Errors
/// Returns an error if the indexer cannot start. Once it runs, it retries after every failure and reports it
/// in its readiness.
pub async fn run(config: Config, features: IndexerFeatures, host: Host) -> Result<(), Error> {
    let metrics = Metrics::new(&host.metrics)?;
    let tenant_gauges = TenantGauges::new(&host.metrics)?;
    let verified = startup::reach_dependency(&host, "kafka", StreamError::is_transient, || {
        admin::verify_topics(&config.kafka)
    });
    verified.await?;
    let store = startup::reach_dependency(&host, "postgres", StoreError::is_connection, || {
        Store::connect(&config.postgres, host.clock.clone())
    });
    let history = config.history.is_on().then(|| History::new(&config.history)).transpose()?;
    let store = store.await?.with_hooks(&features.hooks).with_history(history);
    let objects = ObjectStore::s3(&config.objects).await;
    crate::metrics::register_sampled(&host.metrics, &objects, &store)?;
    let owner = unique_name();
    let topics = config.kafka.topic_names();
    let signatures = Arc::new(Signatures::new(&config.symbolizer.signatures));
    let rewriters = features.features.iter().filter_map(|feature| feature.rewriting);
    let rewriters = Arc::new(ReportRewriters::new(rewriters));
    let resources = |topics: &Topics, content, label: ReaderLabel| Resources {
        content,
        signatures: Arc::clone(&signatures),
        settings: config.indexer.clone(),
        kafka: config.kafka.clone(),
        store: store.clone(),
        host: host.clone(),
        metrics: metrics.clone(),
        shares: Arc::new(deferral::new_shares()),
        skips: SkipLimit::new(store.clone(), metrics.clone(), &label),
        read: records::parse_record,
        readers: features.readers.clone(),
        rewriters: Arc::clone(&rewriters),
        topics: topics.clone(),
        label,
    };
    let outputs = Topics { shared: topics.output.clone(), tenants: config.kafka.tenant_topics };
    let one = |shared: String, content| {
        let label = ReaderLabel::new(&shared, 1);
        resources(&Topics { shared, tenants: false }, content, label)
    };
    let reports = std::array::from_fn::<_, REPORT_READERS, _>(|number| {
        resources(&outputs, Content::Reports, ReaderLabel::new(&outputs.shared, number + 1))
    });
    let events = features.features.iter().flat_map(|feature| feature.topics);
    let events =
        events.map(|topic| (topic.kind, one((topic.name)(&topics).to_owned(), Content::Events(topic))));
    let mut others: Vec<(&str, Resources)> = events.collect();
    others.push(("ledger", one(topics.ledger, Content::Ledger)));
    others.push(("dead letters", one(topics.dead_letter, Content::DeadLetters)));
    let kinds = reports[..1].iter().chain(others.iter().map(|(_, resources)| resources));
    let pipelines: Vec<Pipeline> = kinds.map(Pipeline::new).collect();
    let reports = reports.map(|resources| ("reports", resources));
    let readers: Vec<(&str, OutputReader)> = reports
        .into_iter()
        .chain(others)
        .enumerate()
        .map(|(number, (name, resources))| (name, OutputReader::new(resources, format!("{owner}-{number}"))))
        .collect();
    register_probes(&host, &store, &objects, &readers);
    let own = config.indexer.clone();
    let bodies = BodyMover::new(store.clone(), objects, own.clone(), metrics.clone(), &host);
    let logs = readers.iter().filter(|(name, _)| *name == "reports").map(|(_, reader)| reader.state());
    let (logs, shutdown) = (logs.collect(), host.shutdown.clone());
    let tenants = TenantWatch::new(store.clone(), tenant_gauges, config.tenants.symbol_bytes);
    let input = input::run(config.kafka.clone(), metrics.clone(), host.shutdown.clone());
    let history = HistoryMover::new(store.clone(), config.history.after_seconds, metrics.clone(), &host);
    let parts = MaintenanceParts { bodies, tenants, history };
    let maintenance = maintenance::run(store.clone(), own, metrics, logs, parts, shutdown);
    let replays = replays::run(store.clone(), config.kafka.clone(), pipelines, host.shutdown.clone());
    for (_, reader) in &readers {
        reader.announce_reader().await;
    }
    let readers = join_all(readers.into_iter().map(|(_, reader)| reader.run()));
    let using = resource_use::keep_writing(&host.shutdown, |uses| add_uses(store.clone(), uses));
    tokio::join!(readers, maintenance, replays, input, using);
    store.close().await;
    Ok(())
}

/// Registers the readiness checks of each part.
fn register_probes(
    host: &Host,
    store: &Store,
    objects: &ObjectStore,
    readers: &[(&'static str, OutputReader)],
) {
    let asked = store.clone();
    host.health.register_probe("postgres", move || {
        let store = asked.clone();
        async move { store.check_storing().await.map_err(|e| format_causes(&e)) }
    });
    let bucket = objects.clone();
    host.health.register_probe("objects", move || {
        let bucket = bucket.clone();
        async move { bucket.check().await.map_err(|e| format_causes(&e)) }
    });
    for of_kind in readers.chunk_by(|(name, _), (next, _)| name == next) {
        let states: Vec<State> = of_kind.iter().map(|(_, reader)| reader.state()).collect();
        host.health.register_probe(of_kind[0].0, move || {
            let checked = states.iter().try_for_each(State::check_trouble);
            async move { checked }
        });
    }
}

/// Returns a name that no other indexer has. It is random, because hosts may share a name, and processes of
/// containers a number.
fn unique_name() -> String {
    let random = Ids::default().next();
    format!("indexer-{}-{random:016x}", std::process::id())
}
