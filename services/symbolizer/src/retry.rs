//! The retry lane: records that wait in the retry tiers and in overflow, processed like those that
//! come in, each when it is due.

use crate::account::Ledger;
use crate::entry::Entry;
use crate::intake::Intake;
use crate::outcomes::SPREAD;
use crate::resymbolicate::Again;
use crate::shares::Shares;
use crate::stored_bodies::{self, Bodies, groups};
use crate::symbols::Fetched;
use crate::tiers::Tier;
use crate::worker::{Look, Means, Step, Worker};
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use unslide_stream::lane::{Done, Pause, Processor, Refusal};
use unslide_stream::{OutRecord, Record};

/// The lane's name, also in its group and transactional id.
pub const NAME: &str = unslide_proto::lanes::RETRY;

/// The topics that the lane reads.
pub fn topics(worker: &Worker) -> Vec<String> {
    let names = &worker.topics;
    [&names.retry_10s, &names.retry_1m, &names.retry_10m, &names.overflow].map(Clone::clone).into()
}

/// Tries again.
pub struct Retry {
    worker: Arc<Worker>,
    means: Means,
    shares: Arc<Shares>,
    ways: Arc<Ways>,
    ledger: Ledger,
}

/// The records of these topics came from the input or were requests of the store.
struct Ways {
    worker: Arc<Worker>,
    intake: Intake,
    again: Again,
}

impl Retry {
    /// The lane of this worker.
    pub fn new(worker: Arc<Worker>, means: Means, shares: Arc<Shares>) -> Retry {
        let again = Again::new(worker.clone(), NAME);
        let intake = Intake::new(worker.clone(), NAME, shares.clone());
        let ways = Arc::new(Ways { worker: worker.clone(), intake, again });
        Retry { ledger: worker.ledger(NAME), means, shares, ways, worker }
    }

    /// Microseconds until a record is due.
    fn wait(&self, record: &Record) -> Option<i64> {
        let now = self.worker.clock.now_micros();
        if let Some(tier) = Tier::of(&self.worker.topics, &record.at.topic) {
            let delay = i64::try_from(tier.delay().as_micros()).unwrap_or(i64::MAX);
            let due = record.time_millis?.saturating_mul(1_000).saturating_add(delay);
            return Some(due - now);
        }
        // Overflow: at the tenant's rate, half of it for each half of its records.
        let tenant = self.worker.tenant_named(&Entry::of(record, &self.worker.topics))?;
        let rate = self.worker.rate(self.worker.tenants.limits(&tenant))?;
        let half = record.key.as_ref().and_then(|key| key.last()).copied().unwrap_or_default();
        self.shares.pace(&tenant, (&record.at.topic, half, SPREAD), rate, now).err()
    }
}

impl Ways {
    fn is_request(&self, record: &Record) -> bool {
        Entry::of(record, &self.worker.topics).origin.topic == self.worker.topics.resymbolicate
    }
}

/// Records, and the bodies that were fetched for the requests among them.
struct Group {
    ways: Arc<Ways>,
    bodies: Bodies,
}

impl Look for Group {
    fn look(&self, record: &Record, fetched: Option<&Fetched>) -> Step {
        if self.ways.is_request(record) {
            self.ways.again.look(record, fetched, &self.bodies)
        } else {
            self.ways.intake.look(record, fetched)
        }
    }

    fn not_stored(&self, record: &Record, why: &str) -> Done {
        if self.ways.is_request(record) {
            self.ways.again.not_stored(record, why)
        } else {
            self.ways.intake.not_stored(record, why)
        }
    }
}

impl Processor for Retry {
    fn prepare(self: Arc<Self>, batch: Vec<Record>) -> BoxFuture<'static, Result<Vec<Done>, Pause>> {
        Box::pin(async move {
            self.worker.meet(&batch).await;
            let mut done = Vec::with_capacity(batch.len());
            for records in groups(batch, |record| self.ways.is_request(record)) {
                let requests = records.iter().filter(|record| self.ways.is_request(record));
                let bodies = stored_bodies::fetch(&self.worker.objects, requests).await?;
                let group = Arc::new(Group { ways: self.ways.clone(), bodies });
                done.extend(self.worker.run(&self.means, &group, records).await?);
            }
            Ok(done)
        })
    }

    fn not_before(&self, record: &Record) -> Option<Instant> {
        let wait = u64::try_from(self.wait(record)?).ok().filter(|wait| *wait > 0)?;
        Some(Instant::now() + Duration::from_micros(wait))
    }

    fn refused(&self, record: &Record, why: &Refusal) -> Done {
        self.ways.intake.refused(record, why)
    }

    fn account(&self, done: &[&Done]) -> Vec<OutRecord> {
        vec![self.ledger.batch(done, self.worker.clock.now_micros())]
    }

    fn committed(&self, records: &[&Record], done: &[&Done]) {
        self.worker.metrics.committed(NAME, records, done, self.worker.clock.now_micros());
    }
}
