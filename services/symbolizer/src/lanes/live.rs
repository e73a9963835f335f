//! The live lane: processes reports as they arrive.

use crate::admission::sender;
use crate::admission::tenant_rates::TenantRates;
use crate::lanes::batch::LaneResources;
use crate::lanes::intake::Intake;
use crate::output::ledger::Ledger;
use crate::output::spans::LaneSpans;
use crate::worker::Worker;
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio::time::Instant;
use unslide_stream::lane::{Done, Pause, Processor, Refusal, TopicShare};
use unslide_stream::{OutRecord, Record};

/// The lane's name, also in its group and transactional id.
pub const LIVE_LANE: &str = unslide_proto::lanes::LIVE;

pub struct Live {
    worker: Arc<Worker>,
    pub resources: LaneResources,
    shares: Arc<TenantRates>,
    intake: Arc<Intake>,
    ledger: Ledger,
    spans: LaneSpans,
}

impl Live {
    /// Creates the live lane of a worker.
    pub fn new(resources: LaneResources, shares: Arc<TenantRates>) -> Live {
        let worker = Arc::clone(&resources.worker);
        let intake = Arc::new(Intake::new(worker.clone(), LIVE_LANE, shares.clone()));
        let (ledger, spans) =
            (worker.outcomes.lane_ledger(LIVE_LANE), LaneSpans::new(&worker.traces, LIVE_LANE));
        Live { ledger, resources, shares, intake, spans, worker }
    }
}

impl Processor for Live {
    fn prepare_batch(self: Arc<Self>, batch: Vec<Record>) -> BoxFuture<'static, Result<Vec<Done>, Pause>> {
        Box::pin(async move {
            sender::refresh_tenants(&self.worker.senders, &batch).await;
            self.worker.look_up_cell_topics(&batch).await?;
            let began = self.worker.clock.monotonic_micros();
            let done = self.resources.process_records(&self.intake, batch).await;
            self.intake.charges.record_busy(began);
            done
        })
    }

    fn not_before(&self, record: &Record) -> Option<Instant> {
        let enricher = &self.worker.enricher;
        let output = enricher.tenant_topics.then(|| enricher.outputs.not_before(&record.at.topic)).flatten();
        output.max(self.worker.warm_start.not_before(record))
    }

    fn on_records_queued(&self, waits: bool) {
        self.resources.patience.set_queued(waits);
    }

    fn on_assigned(&self, shares: &[TopicShare]) {
        self.shares.set_assigned(shares);
        self.worker.warm_start.set_assigned(shares);
        self.intake.charges.forget_charged();
    }

    fn refuse_record(&self, record: &Record, why: &Refusal) -> Done {
        self.intake.refuse_record(record, why)
    }

    fn account_records(&self, done: &[&Done]) -> Vec<OutRecord> {
        self.spans.begin_commit();
        vec![self.ledger.build_batch(done, self.worker.clock.now_micros())]
    }

    fn on_committed(&self, records: &[&Record], done: &[&Done]) {
        self.intake.charges.forget_committed(records);
        self.worker.metrics.record_committed(LIVE_LANE, records, done, self.worker.clock.now_micros());
        self.spans.export_spans(records, done);
    }
}
