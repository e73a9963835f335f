//! The service from start to drain.

use crate::config::Config;
use crate::live::{self, Live};
use crate::metrics::Metrics;
use crate::resymbolicate::{self, Again};
use crate::symbols::Symbols;
use crate::tenants::Tenants;
use crate::worker::Worker;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use unslide_artifacts::{CacheError, CacheSettings, ObjectStore, SymcacheCache};
use unslide_proto::trace::Ids;
use unslide_report::ReadLimits;
use unslide_runtime::Host;
use unslide_stream::lane::{Lane, LaneConfig, LaneError, LaneStatus, Refusal, Timings};
use unslide_stream::{StreamError, TailProgress};

/// How often figures that nobody reports are taken over.
const REFRESH: Duration = Duration::from_secs(5);

/// Why the symbolizer did not start, or ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Kafka is not as it has to be.
    #[error("the symbolizer cannot use Kafka")]
    Stream(#[from] StreamError),
    /// The folder of symcaches is not usable.
    #[error("the symbolizer cannot use its cache")]
    Cache(#[from] CacheError),
    /// A metric could not be registered.
    #[error("the symbolizer's metrics cannot be registered")]
    Metrics(#[from] prometheus::Error),
    /// A lane ended.
    #[error("the symbolizer cannot go on")]
    Lane(#[from] LaneError),
}

/// Runs the symbolizer until the shutdown begins and what was begun is committed.
///
/// # Errors
/// Where it cannot start, and where a lane ended by itself: another process has to take over.
pub async fn run(config: Config, host: Host) -> Result<(), Error> {
    let metrics = Metrics::new(&host.metrics)?;
    unslide_stream::admin::verify(&config.kafka).await?;
    let objects = ObjectStore::s3(&config.objects).await;
    let own = &config.symbolizer;
    let cache = CacheSettings::new(own.cache_dir.clone(), own.cache_bytes);
    let cache = SymcacheCache::open(cache, objects.clone(), host.clock.clone())?;
    let symbols = Symbols::new(cache.clone(), own.cycle());
    let events = crate::symbol_events::start(&config.kafka, host.clock.clone(), cache.clone())?;
    let forget = cache.clone();
    let tenants =
        Tenants::start(&config.kafka, host.clock.clone(), move |tenant| forget.forget_tenant(tenant))?;
    let tenants = Arc::new(tenants);
    probes(&host, &objects, [("symbol-events", events.progress()), ("tenant-config", tenants.progress())]);
    // Nothing is judged by a table that is read in part.
    tokio::select! {
        read = async { tokio::try_join!(events.caught_up(), tenants.caught_up()) } => { read?; }
        () = host.shutdown.begun() => return Ok(()),
    }
    let worker = Arc::new(Worker {
        clock: host.clock.clone(),
        cpu: host.cpu.clone(),
        tenants,
        symbols,
        topics: config.kafka.topics(),
        limits: ReadLimits { max_bytes: config.kafka.max_record_bytes, max_depth: own.report_depth },
        output_bytes: config.kafka.max_output_bytes(),
        ids: Ids::default(),
        metrics: metrics.clone(),
    });
    let slot = own.worker_name();
    let lane = |name: &str, topic: &str| LaneConfig {
        name: name.to_owned(),
        worker: slot.clone(),
        topics: vec![topic.to_owned()],
        pattern: None,
        batch: own.batch(),
        timings: Timings::default(),
    };
    let topics = config.kafka.topics();
    // Retry and overflow get a lane of their own beside these.
    let mut lanes = [
        Lane::start(
            &config.kafka,
            lane(live::NAME, &topics.input),
            Arc::new(Live::new(worker.clone(), &slot)),
            metrics.lane(live::NAME),
        )?,
        Lane::start(
            &config.kafka,
            lane(resymbolicate::NAME, &topics.resymbolicate),
            Arc::new(Again::new(worker, &slot)),
            metrics.lane(resymbolicate::NAME),
        )?,
    ];
    for (name, lane) in [live::NAME, resymbolicate::NAME].into_iter().zip(&lanes) {
        probe_lane(&host, name, lane.status());
    }
    let figures = async {
        loop {
            metrics.refresh(&cache);
            tokio::time::sleep(REFRESH).await;
        }
    };
    let [live, again] = &mut lanes;
    let ended = tokio::select! {
        ended = live.ended() => ended,
        ended = again.ended() => ended,
        () = host.shutdown.begun() => Ok(()),
        () = figures => Ok(()),
    };
    // A little less than the host allows, so that the group is left in order.
    let drain = host.shutdown.drain().mul_f32(0.8);
    for lane in &lanes {
        lane.stop(drain);
    }
    for lane in &mut lanes {
        let stopped = lane.ended().await;
        ended.as_ref().ok().map_or(Ok(()), |()| stopped)?;
    }
    Ok(ended?)
}

/// Why the lane ended a record's way: a stable word, and the story.
pub fn refusal(why: &Refusal) -> (&'static str, String) {
    match why {
        Refusal::KillsWorker { attempts } => (
            "kills_worker",
            format!("the process died {attempts} times with this record first in its partition"),
        ),
        Refusal::Unpublishable { detail } => ("unpublishable", detail.clone()),
        Refusal::Panicked { detail } => ("panicked", detail.clone()),
    }
}

fn probes(host: &Host, objects: &ObjectStore, tables: [(&'static str, watch::Receiver<TailProgress>); 2]) {
    let objects = objects.clone();
    host.health.register("objects", move || {
        let objects = objects.clone();
        async move { objects.check().await.map_err(|error| error.to_string()) }
    });
    for (name, progress) in tables {
        host.health.register(name, move || {
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

fn probe_lane(host: &Host, name: &str, status: watch::Receiver<LaneStatus>) {
    host.health.register(&format!("lane {name}"), move || {
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
