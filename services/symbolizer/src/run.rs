//! Runs the service from start to drain.

use crate::admission::sender::SenderChecks;
use crate::admission::tenant_rates::TenantRates;
use crate::admission::tenants::Tenants;
use crate::config::{Config, Settings};
use crate::enricher::Enricher;
use crate::feature::SymbolizerFeatures;
use crate::lanes::batch::LaneResources;
use crate::lanes::live::{self, Live};
use crate::lanes::resymbolicate::{self, Requests};
use crate::lanes::retry::{self, Retry};
use crate::metrics::Metrics;
use crate::output::dead_letters::DeadLetterTopic;
use crate::output::outcomes::OutcomeWriter;
use crate::output::tenant_topics::Outputs;
use crate::output::traces::RecordTraces;
use crate::symbols::SymbolSource;
use crate::symbols::breaker::{Breaker, BreakerLimits};
use crate::symbols::patience::Patience;
use crate::symbols::warm_start::{WarmStart, WarmStartLimits};
use crate::worker::Worker;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use unslide_artifacts::{CacheError, CacheSettings, ObjectStore, SymcacheCache};
use unslide_model::format_causes;
use unslide_proto::trace::Ids;
use unslide_report::ReadLimits;
use unslide_runtime::{CpuPool, Host, resource_use, startup};
use unslide_stream::lane::{Lane, LaneConfig, LaneError, LaneStatus, Suspects, Timings};
use unslide_stream::{
    BatchLimits, Producer, Signatures, StreamError, TailProgress, TailReader, TopicLookUps, admin,
};

/// Interval at which the shared gauges are refreshed.
const GAUGE_INTERVAL: Duration = Duration::from_secs(5);

/// Limits of a transaction's batch. About four times its bytes may be in memory. A transaction takes twice as
/// long as the first record of a batch waits for others. Under load the next batch fills during the
/// transaction.
const BATCH_LIMITS: BatchLimits =
    BatchLimits { records: 200, bytes: 8 << 20, wait: Duration::from_millis(5) };
/// Time that a batch of the retry and resymbolicate lanes waits for symcaches. A report that still has to
/// wait after that has used up a try. The lane keeps polling, but a rebalance waits for the batch.
pub const SYMBOL_FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that a batch of the live lane waits for symcaches while no other records wait. The retry tier of one
/// second would take twice as long.
pub const IDLE_FETCH: Duration = Duration::from_millis(700);
/// Limits at which failed fetches count as a failure of object storage as a whole.
const BREAKER_LIMITS: BreakerLimits =
    BreakerLimits { debug_ids: 10, window: Duration::from_secs(30), open: Duration::from_secs(15) };
/// Maximum time that brokers hold a fetch response while no records arrive. A due record of the retry tiers
/// waits for such a response.
const KAFKA_FETCH_TIMEOUT: Duration = Duration::from_millis(500);
const HELD_FETCH: Duration = Duration::from_millis(200);
/// The word for statements of what was used, in place of a lane's name.
const USES_ENTRY: &str = "uses";
/// A tenant that was quiet may use its rate for this time at once.
const RATE_BURST: Duration = Duration::from_secs(2);

/// Error that keeps the symbolizer from starting or ends it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Kafka could not be used.
    #[error("cannot use Kafka")]
    Stream(#[from] StreamError),
    /// The folder of symcaches could not be used.
    #[error("cannot use the cache folder")]
    Cache(#[from] CacheError),
    /// A metric could not be registered.
    #[error("cannot register the metrics")]
    Metrics(#[from] prometheus::Error),
    /// A lane ended, and the process with it.
    #[error("cannot continue after the failure of a lane")]
    Lane(#[from] LaneError),
}

/// Runs the symbolizer until the shutdown begins and all work in progress is committed. It reads reports of the formats
/// that features add, too.
///
/// # Errors
/// Returns an error if the symbolizer cannot start, or if a lane ended before the shutdown: another process
/// has to take over.
pub async fn run(config: Config, features: SymbolizerFeatures, host: Host) -> Result<(), Error> {
    let metrics = Metrics::new(&host.metrics)?;
    let verified = startup::reach_dependency(&host, "kafka", StreamError::is_transient, || {
        admin::verify_topics(&config.kafka)
    });
    verified.await?;
    let objects = ObjectStore::s3(&config.objects).await;
    let own = &config.symbolizer;
    let cache =
        CacheSettings::new(own.cache_dir.clone(), own.cache_bytes).with_limits(config.symcaches.clone());
    let cache = SymcacheCache::open(cache, objects.clone(), host.clock.clone())?;
    crate::metrics::register_sampled(&host.metrics, &cache, &objects)?;
    let breaker = Arc::new(Breaker::new(BREAKER_LIMITS));
    let (downloads, probe) = (config.symcaches.downloads, SYMBOL_FETCH_TIMEOUT);
    let symbols =
        SymbolSource::new(cache.clone(), objects.clone(), breaker, host.clock.clone(), downloads, probe);
    let (for_events, topic) = (cache.clone(), config.kafka.topic_names().symbol_events);
    let events = TailReader::start(&config.kafka, &topic, host.clock.clone(), move |event| {
        event.read_value(|value| for_events.take_event(value.as_deref()));
    })?;
    let limits = WarmStartLimits { cache_bytes: own.cache_bytes, downloads };
    let warm_start = WarmStart::start(&config.kafka, cache.clone(), host.clock.clone(), limits)?;
    let lists = Producer::new(&config.kafka)?;
    let forget = cache.clone();
    let tenants =
        Tenants::start(&config.kafka, host.clock.clone(), move |tenant| forget.forget_tenant(tenant))?;
    let tenants = Arc::new(tenants);
    register_probes(
        &host,
        &objects,
        [("symbol-events", events.progress()), ("tenant-config", tenants.progress())],
    );
    for lane in [live::LIVE_LANE, retry::RETRY_LANE, resymbolicate::RESYMBOLICATE_LANE] {
        probe_lane(&host, lane, watch::channel(LaneStatus::default()).1);
    }
    // No record is processed while a table is only partly read.
    tokio::select! {
        read = async { tokio::try_join!(events.caught_up(), tenants.caught_up()) } => { read?; }
        () = host.shutdown.wait_until_begun() => return Ok(()),
    }
    warm_start.wait_for_lists().await;
    let parts = WorkerParts { tenants, symbols, warm_start, objects, features };
    let worker = Arc::new(build_worker(&config, &host, &metrics, parts));
    let live_rates =
        TenantRates::new(RATE_BURST).with_partitions(worker.warm_start.tenant_partitions.clone());
    let shares = [(live::LIVE_LANE, live_rates), (retry::RETRY_LANE, TenantRates::new(RATE_BURST))]
        .map(|(lane, rates)| (lane, Arc::new(rates)));
    probe_outputs(&host, &worker);
    let mut lanes = start_lanes(&config, &host, &worker, &shares)?;
    for (name, lane) in &lanes {
        probe_lane(&host, name, lane.status());
    }
    let figures = async {
        loop {
            metrics.lacking_outputs(worker.enricher.outputs.count_lacking());
            metrics.refresh_shared(
                &worker.enricher.symbols,
                &worker.senders.tenants,
                worker.clock.monotonic_time(),
            );
            tokio::time::sleep(GAUGE_INTERVAL).await;
        }
    };
    let ledger = worker.outcomes.lane_ledger(USES_ENTRY);
    let mut using = pin!(resource_use::keep_writing(&host.shutdown, |uses| {
        let statement = ledger.build_uses(&uses, worker.clock.now_micros());
        let lists = &lists;
        async move { lists.send_all(&[statement]).await.map(drop) }
    }));
    let mut has_written = false;
    let any = futures::future::select_all(lanes.iter_mut().map(|(_, lane)| Box::pin(lane.wait_for_end())));
    let ended = tokio::select! {
        (ended, _, _) = any => ended,
        () = host.shutdown.wait_until_begun() => Ok(()),
        () = figures => Ok(()),
        () = &mut using => {
            has_written = true;
            Ok(())
        }
        () = worker.enricher.outputs.watch_topics() => Ok(()),
        () = worker.warm_start.keep_writing(&lists) => Ok(()),
    };
    worker.warm_start.write_last_lists(&lists).await;
    // The last writing may have ended in the same moment in which the shutdown was seen.
    if host.shutdown.is_begun() && !has_written {
        using.await;
    }
    // A little less than the host allows, so that the worker leaves its group in order.
    let drain = host.shutdown.drain_timeout().mul_f32(0.8);
    for (_, lane) in &lanes {
        lane.stop(drain);
    }
    for (_, lane) in &mut lanes {
        let stopped = lane.wait_for_end().await;
        ended.as_ref().ok().map_or(Ok(()), |()| stopped)?;
    }
    Ok(ended?)
}

/// The parts of a worker that are started before it.
struct WorkerParts {
    tenants: Arc<Tenants>,
    symbols: SymbolSource,
    warm_start: Arc<WarmStart>,
    objects: ObjectStore,
    features: SymbolizerFeatures,
}

fn build_worker(config: &Config, host: &Host, metrics: &Metrics, parts: WorkerParts) -> Worker {
    let WorkerParts { tenants, symbols, warm_start, objects, features } = parts;
    let own = &config.symbolizer;
    let topics = config.kafka.topic_names();
    let traces = Arc::new(RecordTraces {
        ids: Ids::default(),
        tracer: host.tracer.clone(),
        clock: host.clock.clone(),
    });
    Worker {
        senders: Arc::new(SenderChecks {
            tenants: tenants.clone(),
            signatures: Signatures::new(&own.signatures),
            topics: topics.clone(),
            clock: host.clock.clone(),
            tenant_units_per_second: config.tenants.units_per_second,
        }),
        enricher: Enricher {
            symbols,
            tenants,
            readers: features.readers,
            limits: ReadLimits { max_bytes: config.kafka.max_record_bytes, ..ReadLimits::default() },
            analyses: features.analyses,
            topics: topics.clone(),
            tenant_topics: config.kafka.tenant_topics,
            outputs: Outputs::new(&config.kafka),
            output_bytes: config.kafka.max_output_bytes(),
        },
        warm_start,
        outcomes: OutcomeWriter {
            slot: own.worker_name(),
            letters: DeadLetterTopic {
                topic: topics.dead_letter.clone(),
                most_bytes: config.kafka.max_copy_bytes(),
            },
            topics: topics.clone(),
            traces: traces.clone(),
            cells: TopicLookUps::new(&config.kafka),
        },
        traces,
        clock: host.clock.clone(),
        topics,
        objects,
        most_outputs: config.kafka.budget.produced,
        metrics: metrics.clone(),
    }
}

/// CPU weights of the lanes while all have work: incoming reports go first, and late symbols and retries
/// continue under any load.
const LANE_CPU_WEIGHTS: [u32; 3] = [8, 2, 1];

fn start_lanes(
    config: &Config,
    host: &Host,
    worker: &Arc<Worker>,
    shares: &[(&'static str, Arc<TenantRates>); 2],
) -> Result<Vec<(&'static str, Lane)>, Error> {
    let own = &config.symbolizer;
    let topics = &worker.topics;
    let suspects = Suspects::default();
    let lane = |name: &str, topics: Vec<String>, pattern: Option<String>| LaneConfig {
        name: name.to_owned(),
        worker: worker.outcomes.slot.clone(),
        topics,
        pattern,
        batch: BATCH_LIMITS,
        timings: Timings {
            fetch: if name == retry::RETRY_LANE { HELD_FETCH } else { KAFKA_FETCH_TIMEOUT },
            ..Timings::default()
        },
        suspects: suspects.clone(),
    };
    let (live, retry, again) = build_processors(own, &host.cpu, worker, shares);
    let observer = |name| worker.metrics.lane_observer(name);
    let pattern = worker.enricher.tenant_topics.then(|| topics.tenant_input_pattern());
    Ok(vec![
        (
            live::LIVE_LANE,
            Lane::start(
                &config.kafka,
                lane(live::LIVE_LANE, vec![topics.input.clone()], pattern),
                Arc::new(live),
                observer(live::LIVE_LANE),
            )?,
        ),
        (
            retry::RETRY_LANE,
            Lane::start(
                &config.kafka,
                lane(retry::RETRY_LANE, retry::lane_topics(worker), None),
                Arc::new(retry),
                observer(retry::RETRY_LANE),
            )?,
        ),
        (
            resymbolicate::RESYMBOLICATE_LANE,
            Lane::start(
                &config.kafka,
                lane(resymbolicate::RESYMBOLICATE_LANE, vec![topics.resymbolicate.clone()], None),
                Arc::new(again),
                observer(resymbolicate::RESYMBOLICATE_LANE),
            )?,
        ),
    ])
}

/// Returns the processors of the lanes, each with its class of the CPU pool.
pub fn build_processors(
    own: &Settings,
    cpu: &CpuPool,
    worker: &Arc<Worker>,
    [(_, live), (_, retry)]: &[(&'static str, Arc<TenantRates>); 2],
) -> (Live, Retry, Requests) {
    let [live_cpu, retry_cpu, again_cpu] = LANE_CPU_WEIGHTS.map(|weight| cpu.add_class(weight));
    let resources = |cpu, patience| LaneResources { worker: Arc::clone(worker), cpu, patience };
    (
        Live::new(resources(live_cpu, Patience::while_idle(own.fetch_wait(), IDLE_FETCH)), live.clone()),
        Retry::new(resources(retry_cpu, Patience::fixed(SYMBOL_FETCH_TIMEOUT)), retry.clone()),
        Requests::new(resources(again_cpu, Patience::fixed(SYMBOL_FETCH_TIMEOUT))),
    )
}

/// Registers readiness checks for object storage and for tables that must be read to their ends.
pub fn register_probes(
    host: &Host,
    objects: &ObjectStore,
    tables: impl IntoIterator<Item = (&'static str, watch::Receiver<TailProgress>)>,
) {
    let objects = objects.clone();
    host.health.register_probe("objects", move || {
        let objects = objects.clone();
        async move { objects.check().await.map_err(|error| format_causes(&error)) }
    });
    for (name, progress) in tables {
        host.health.register_probe(name, move || {
            let TailProgress { caught_up, ended, .. } = *progress.borrow();
            async move {
                match (caught_up, ended) {
                    (_, true) => Err("its reader has ended".to_owned()),
                    (false, _) => Err("it is not read to its end yet".to_owned()),
                    (true, false) => Ok(()),
                }
            }
        });
    }
}

fn probe_outputs(host: &Host, worker: &Arc<Worker>) {
    let worker = Arc::downgrade(worker);
    // A missing topic of one tenant does not make the whole service unready.
    host.health.register_dependency("tenant-topics", move || {
        let checked = worker.upgrade().map_or(Ok(()), |worker| worker.enricher.outputs.check_outputs());
        async move { checked }
    });
}

/// Registers readiness of a lane; a later call for the same name replaces the check.
pub fn probe_lane(host: &Host, name: &str, status: watch::Receiver<LaneStatus>) {
    host.health.register_probe(&format!("lane {name}"), move || {
        let status = status.borrow().clone();
        async move {
            match status {
                LaneStatus { ended: true, .. } => Err("the lane has ended".to_owned()),
                LaneStatus { joined: false, .. } => Err("not in its consumer group yet".to_owned()),
                LaneStatus { paused: Some(reason), .. } => Err(reason),
                LaneStatus { stalled: true, .. } => Err("messages wait and no transaction ends".to_owned()),
                _ => Ok(()),
            }
        }
    });
}
