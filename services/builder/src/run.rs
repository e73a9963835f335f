//! Runs the service from start to drain.

use crate::build::memory::MemoryBudget;
use crate::build::resources::BuildResources;
use crate::build::work_folder::WorkFolder;
use crate::builder::Builder;
use crate::config::{CONCURRENT_BACKFILLS, Config};
use crate::feature::BuilderFeatures;
use crate::isolation::IsolationGate;
use crate::lost_attempts::LostAttempts;
use crate::metrics::Metrics;
use crate::notifications::Notifications;
use crate::places::SharedPlaces;
use crate::relay::resources::RelayResources;
use crate::relay::{self, maintenance};
use crate::requests::pace::RequestPace;
use crate::requests::resources::RequestResources;
use crate::storage::JobStorage;
use crate::worker;
use futures::future::join_all;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use unslide_artifacts::ObjectStore;
use unslide_history::{History, HistoryError};
use unslide_model::format_causes;
use unslide_runtime::{Host, resource_use, sampled, startup};
use unslide_sandbox::child::ChildProgram;
use unslide_store::jobs::JobKind;
use unslide_store::resource_uses::add_uses;
use unslide_store::{Store, StoreError};
use unslide_stream::Producer;

/// Number of concurrent wake jobs: they wait for their turn most of the time.
const CONCURRENT_WAKES: usize = 8;
/// Number of concurrent purge jobs: they wait for servers most of the time.
const CONCURRENT_PURGES: usize = 2;

/// Error that keeps the builder from starting.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database is not usable.
    #[error("cannot use the database")]
    Store(#[from] StoreError),
    /// The settings of ClickHouse are not usable.
    #[error("cannot use ClickHouse")]
    History(#[from] HistoryError),
    /// The Kafka client is not usable.
    #[error("cannot create the Kafka client")]
    Stream(#[from] unslide_stream::StreamError),
    /// The folder for unpacked uploads is not usable.
    #[error("cannot use the work folder")]
    Folder(#[from] std::io::Error),
    /// Two metrics have the same name.
    #[error("cannot register the metrics")]
    Metrics(#[from] prometheus::Error),
}

/// Stored reports that are requested per second if a user wants them symbolicated again.
const REPROCESS_PER_SECOND: u32 = 200;

/// Runs until the shutdown begins. Returns when the running jobs have ended, or the drain time is over. The
/// next builder takes over unfinished jobs. `child` starts this program so that it calls
/// [`crate::serve_child`].
///
/// # Errors
/// Returns [`Error`] if the service cannot start.
pub async fn run(
    config: Config,
    features: BuilderFeatures,
    host: Host,
    child: ChildProgram,
) -> Result<(), Error> {
    prepare_folder(&config.builder.work_dir)?;
    let store = startup::reach_dependency(&host, "postgres", StoreError::is_connection, || {
        Store::connect(&config.postgres, host.clock.clone())
    });
    let history = config.history.is_on().then(|| History::new(&config.history)).transpose()?;
    let storage = JobStorage {
        store: store.await?.with_hooks(&features.hooks).with_history(history),
        objects: ObjectStore::s3(&config.objects).await,
    };
    let handlers = || features.features.iter().flat_map(|feature| feature.jobs);
    // Jobs without a task of their own have memory of the others for their short children.
    let child_places =
        handlers().filter(|handler| handler.child_task.is_some()).map(|handler| handler.places);
    let metrics = Metrics::new(&host.metrics)?;
    let builder = Arc::new(Builder {
        build: BuildResources {
            storage: storage.clone(),
            work: WorkFolder::new(&config.builder),
            memory: MemoryBudget::new(&config.builder, child_places.sum()),
            settings: config.builder.clone(),
            symbol_bytes: config.tenants.symbol_bytes,
            upload_bytes: config.tenants.upload_bytes,
            places: SharedPlaces::new(handlers().map(|handler| handler.kind)),
            child,
            derived: features.derived.clone(),
            readers: features.readers.clone(),
            states: features.states.clone(),
            metrics: metrics.clone(),
        },
        requests: RequestResources {
            storage: storage.clone(),
            waking: RequestPace::new(config.builder.wake_per_second),
            reprocessing: RequestPace::new(REPROCESS_PER_SECOND),
            readers: features.readers.clone(),
            shutdown: host.shutdown.clone(),
        },
        producer: Producer::new(&config.kafka)?,
        relay: RelayResources {
            storage: storage.clone(),
            topics: config.kafka.topic_names(),
            kafka: config.kafka,
            notifications: Arc::new(Notifications::new()),
            settings: config.builder,
            features: features.features.clone(),
            metrics,
            shutdown: host.shutdown.clone(),
        },
        name: format!("builder-{}", std::process::id()),
        gate: IsolationGate::default(),
        lost_attempts: LostAttempts::default(),
        shutdown: host.shutdown.clone(),
        storage,
    });
    register_sampled(&host.metrics, &builder)?;
    let store = &builder.storage.store;
    register_probes(&builder, &host);
    tracing::info!("the builder is at work");
    let [builds, wakes, purges, again, reprocess, regroup, erasing] = [(); 7].map(|()| builder.clone());
    tokio::join!(
        builder.shutdown.token().run_until_cancelled(builder.relay.notifications.run_listener(store)),
        worker::run_jobs(builds, vec![JobKind::Build.as_str()], builder.build.settings.uploads),
        // None of these blocks another.
        worker::run_jobs(wakes, vec![JobKind::Wake.as_str(), JobKind::WakeSystem.as_str()], CONCURRENT_WAKES),
        worker::run_jobs(purges, vec![JobKind::Purge.as_str()], CONCURRENT_PURGES),
        worker::run_jobs(again, vec![JobKind::Backfill.as_str()], CONCURRENT_BACKFILLS),
        worker::run_jobs(reprocess, vec![JobKind::Reprocess.as_str()], 1),
        worker::run_jobs(regroup, vec![JobKind::Regroup.as_str()], 1),
        join_all(builder.list_feature_handlers().map(|handler| {
            let builder = builder.clone();
            async move { worker::run_jobs(builder, vec![handler.kind], handler.places).await }
        })),
        // One job at a time, separate from the others: its time depends on the tenant's size.
        worker::run_jobs(erasing, vec![JobKind::Erase.as_str()], 1),
        resource_use::keep_writing(&builder.shutdown, |uses| add_uses(store.clone(), uses)),
        relay::run_relay(&builder.relay),
        maintenance::run_job_metrics(&builder.relay),
    );
    let closing = async {
        if let Err(error) = builder.lost_attempts.take_back(store).await {
            tracing::warn!(error = format_causes(&error), "attempts of unfinished jobs count as deaths");
        }
        store.close().await;
    };
    let _ = tokio::time::timeout(builder.shutdown.drain_timeout() / 10, closing).await;
    Ok(())
}

/// Registers the metrics of the work folder and of the clients of the servers.
fn register_sampled(registry: &prometheus::Registry, builder: &Builder) -> Result<(), prometheus::Error> {
    let JobStorage { store, objects } = &builder.storage;
    sampled::register_families(registry, objects, &ObjectStore::OBJECT_STORE_STATS)?;
    sampled::register_families(registry, store, &Store::POOL_STATS)?;
    sampled::register_families(registry, &builder.build.work, &WorkFolder::WORK_FOLDER_STATS)
}

/// Creates the work folder, and deletes what dead builders have left in it.
fn prepare_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let process = path
            .file_name()
            .and_then(|name| name.to_str()?.strip_prefix("job-")?.split('-').next()?.parse::<u32>().ok());
        let dead = process.is_some_and(|process| {
            // In a container every run has the same process id.
            process == std::process::id() || !Path::new("/proc").join(process.to_string()).exists()
        });
        if dead {
            match std::fs::remove_dir_all(path) {
                // Another builder of this folder was first.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                cleared => cleared?,
            }
        }
    }
    Ok(())
}

/// Registers readiness checks for the three servers.
fn register_probes(builder: &Arc<Builder>, host: &Host) {
    register_probe(builder, host, "postgres", |builder| async move {
        builder.storage.store.check_writes().await.map_err(|error| format_causes(&error))
    });
    register_probe(builder, host, "objects", |builder| async move {
        builder.storage.objects.check().await.map_err(|error| format_causes(&error))
    });
    register_probe(builder, host, "kafka", |builder| async move {
        let topic = &builder.relay.topics.symbol_events;
        let probe = builder.producer.probe_topic(topic, Duration::from_millis(1_500)).await;
        probe.map(drop).map_err(|error| format_causes(&error))
    });
}

/// Adds a probe with a weak reference to the builder: the host, which outlives the builder, owns the probes.
fn register_probe<A>(
    builder: &Arc<Builder>,
    host: &Host,
    name: &str,
    ask: impl Fn(Arc<Builder>) -> A + Send + Sync + 'static,
) where
    A: Future<Output = Result<(), String>> + Send + 'static,
{
    let kept = Arc::downgrade(builder);
    host.health.register_probe(name, move || {
        let asked = kept.upgrade().map(&ask);
        async move {
            match asked {
                Some(answer) => answer.await,
                None => Err("the builder has ended".to_owned()),
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::prepare_folder;

    #[test]
    fn builders_of_one_folder_clear_it_at_the_same_time() {
        let folder = tempfile::tempdir().unwrap();
        // No process has such a number.
        let left = |n: u32| folder.path().join(format!("job-{}-{n}", u32::MAX));
        for n in 0..300 {
            std::fs::create_dir_all(left(n).join("inside")).unwrap();
        }
        std::thread::scope(|scope| {
            let builders: Vec<_> = (0..4).map(|_| scope.spawn(|| prepare_folder(folder.path()))).collect();
            for builder in builders {
                builder.join().unwrap().unwrap();
            }
        });
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
