//! The retry lane: processes records that wait in the retry tiers and in overflow, like incoming ones, when
//! each is due. A session of the overflow topic of ingest is sent on to the topic of sessions.

use crate::admission::drain_rates::DrainRates;
use crate::admission::lane_charges::{cost_units, is_paced, part_of};
use crate::admission::sender;
use crate::admission::tenant_rates::TenantRates;
use crate::admission::tenants::TenantStatus;
use crate::lanes::batch::{LaneResources, RecordProcessor, RecordStep};
use crate::lanes::intake::Intake;
use crate::lanes::resymbolicate::ResymbolicateRecord;
use crate::output::ledger::Ledger;
use crate::output::outcomes;
use crate::output::spans::LaneSpans;
use crate::output::stored_reports::Bodies;
use crate::retry_tiers::{ClockReading, Tier, TierWaits};
use crate::source_record::SourceRecord;
use crate::symbols::FetchedSymbols;
use crate::worker::Worker;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use unslide_stream::lane::{Done, Pause, Processor, Refusal, TopicShare};
use unslide_stream::{OutRecord, Record};

/// The lane's name, also in its group and transactional id.
pub const RETRY_LANE: &str = unslide_proto::lanes::RETRY;

/// Returns the topics that the lane reads.
pub fn lane_topics(worker: &Worker) -> Vec<String> {
    let names = &worker.topics;
    let tiers = [&names.retry_1s, &names.retry_10s, &names.retry_1m, &names.retry_10m];
    tiers.into_iter().chain([&names.overflow, &names.ingest_overflow]).cloned().collect()
}

/// Processes the records of the retry tiers and of overflow.
pub struct Retry {
    worker: Arc<Worker>,
    pub resources: LaneResources,
    shares: Arc<TenantRates>,
    drains: DrainRates,
    ways: Arc<RetryProcessors>,
    waits: TierWaits,
    ledger: Ledger,
    spans: LaneSpans,
}

/// Processors of the retry lane: its records came from the input or were requests of the store.
struct RetryProcessors {
    worker: Arc<Worker>,
    intake: Intake,
    again: ResymbolicateRecord,
}

impl Retry {
    /// Creates the retry lane of a worker.
    pub fn new(resources: LaneResources, shares: Arc<TenantRates>) -> Retry {
        let worker = Arc::clone(&resources.worker);
        let again = ResymbolicateRecord::new(worker.clone(), RETRY_LANE);
        let intake = Intake::new(worker.clone(), RETRY_LANE, shares.clone());
        let ways = Arc::new(RetryProcessors { worker: worker.clone(), intake, again });
        let (ledger, spans) =
            (worker.outcomes.lane_ledger(RETRY_LANE), LaneSpans::new(&worker.traces, RETRY_LANE));
        Retry {
            ledger,
            resources,
            shares,
            drains: DrainRates::default(),
            ways,
            waits: TierWaits::default(),
            spans,
            worker,
        }
    }

    /// Returns the microseconds until a record is due, which may be negative, or `None` if it need not wait.
    fn wait_micros(&self, record: &Record) -> Option<i64> {
        let clock = &self.worker.clock;
        let now = clock.monotonic_micros();
        let entry = SourceRecord::from_record(record, &self.worker.topics);
        let tenant = sender::tenant_named(&self.worker.senders, &entry);
        let has_moved =
            tenant.as_ref().is_some_and(|tenant| self.worker.senders.tenants.moved_to(tenant).is_some());
        if entry.internal && has_moved {
            // It waits in the other cell.
            return None;
        }
        if let Some(tier) = Tier::for_topic(&self.worker.topics, &record.at.topic) {
            let time = record.time_millis?.saturating_mul(1_000);
            let now = ClockReading { wall: clock.now_micros(), monotonic: now };
            return Some(self.waits.wait_micros(tier, &record.at, time, now));
        }
        if *record.at.topic == *self.worker.topics.ingest_overflow {
            return self.drains.take_drained(record, now).err();
        }
        // Records in overflow are let through at the tenant's rate, half of it for each half of its records.
        let tenant = tenant?;
        // Tenants without a limit, and tenants that are not active any more, are not paced.
        let paced = is_paced(&entry) && self.worker.senders.tenants.status(&tenant) == TenantStatus::Active;
        let rate =
            self.worker.senders.tenant_rate(self.worker.senders.tenants.limits(&tenant)).filter(|_| paced)?;
        self.shares.take_paced(&tenant, part_of(record), rate, now, cost_units(record)).err()
    }
}

impl RetryProcessors {
    fn is_request(&self, record: &Record) -> bool {
        SourceRecord::from_record(record, &self.worker.topics).request
    }
}

/// A group of records, with the bodies that were fetched for the requests among them.
struct Group {
    ways: Arc<RetryProcessors>,
    bodies: Bodies,
    tenants_read: bool,
}

impl RecordProcessor for Group {
    fn process(&self, record: &Record, fetched: Option<&FetchedSymbols>) -> RecordStep {
        if self.ways.is_request(record) {
            self.ways.again.process_request(record, fetched, &self.bodies)
        } else if let Some(topic) = outcomes::find_drain_topic(&self.ways.worker.outcomes, record) {
            let entry = SourceRecord::from_record(record, &self.ways.worker.topics);
            let tenant = sender::tenant_named(&self.ways.worker.senders, &entry);
            outcomes::forward_record(&self.ways.worker.outcomes, &entry, tenant.as_ref(), topic, RETRY_LANE)
                .into()
        } else {
            self.ways.intake.process_record(record, fetched, self.tenants_read)
        }
    }
}

impl Processor for Retry {
    fn prepare_batch(self: Arc<Self>, batch: Vec<Record>) -> BoxFuture<'static, Result<Vec<Done>, Pause>> {
        Box::pin(async move {
            let tenants_read = sender::refresh_tenants(&self.worker.senders, &batch).await;
            self.worker.look_up_cell_topics(&batch).await?;
            self.worker.enricher.seek_outputs(batch.iter()).await?;
            let is_request = |record: &Record| self.ways.is_request(record);
            let group = |bodies| Group { ways: self.ways.clone(), bodies, tenants_read };
            self.resources.process_with_bodies(batch, is_request, group).await
        })
    }

    fn not_before(&self, record: &Record) -> Option<Instant> {
        let wait = u64::try_from(self.wait_micros(record)?).ok().filter(|wait| *wait > 0)?;
        Some(Instant::now() + Duration::from_micros(wait))
    }

    fn on_assigned(&self, _: &[TopicShare]) {
        self.ways.intake.charges.forget_charged();
    }

    fn refuse_record(&self, record: &Record, why: &Refusal) -> Done {
        self.ways.intake.refuse_record(record, why)
    }

    fn account_records(&self, done: &[&Done]) -> Vec<OutRecord> {
        self.spans.begin_commit();
        vec![self.ledger.build_batch(done, self.worker.clock.now_micros())]
    }

    fn on_committed(&self, records: &[&Record], done: &[&Done]) {
        self.ways.intake.charges.forget_committed(records);
        self.worker.metrics.record_committed(RETRY_LANE, records, done, self.worker.clock.now_micros());
        self.spans.export_spans(records, done);
    }
}
