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
pub const NAME: &str = unslide_proto::lanes::LIVE;

/// Symbolicates incoming reports.
pub struct Live {
    worker: Arc<Worker>,
    /// Resources of the lane.
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
        let intake = Arc::new(Intake::new(worker.clone(), NAME, shares.clone()));
        let (ledger, spans) = (worker.ledger(NAME), LaneSpans::new(&worker, NAME));
        Live { ledger, resources, shares, intake, spans, worker }
    }
}

impl Processor for Live {
    fn prepare(self: Arc<Self>, batch: Vec<Record>) -> BoxFuture<'static, Result<Vec<Done>, Pause>> {
        Box::pin(async move {
            sender::refresh(&self.worker, &batch).await;
            let began = self.worker.clock.monotonic_micros();
            let done = self.resources.process_records(&self.intake, batch).await;
            self.intake.worked(began);
            done
        })
    }

    fn not_before(&self, record: &Record) -> Option<Instant> {
        if self.worker.tenant_topics { self.worker.outputs.not_before(&record.at.topic) } else { None }
    }

    fn queued(&self, waits: bool) {
        self.resources.patience.queued(waits);
    }

    fn assigned(&self, shares: &[TopicShare]) {
        self.shares.assigned(shares);
        self.intake.assigned();
    }

    fn refused(&self, record: &Record, why: &Refusal) -> Done {
        self.intake.refused(record, why)
    }

    fn account(&self, done: &[&Done]) -> Vec<OutRecord> {
        self.spans.begin_commit();
        vec![self.ledger.batch(done, self.worker.clock.now_micros())]
    }

    fn committed(&self, records: &[&Record], done: &[&Done]) {
        self.intake.committed(records);
        self.worker.metrics.committed(NAME, records, done, self.worker.clock.now_micros());
        self.spans.export(records, done);
    }
}
