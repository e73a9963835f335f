//! The retry lane: records that wait in the retry tiers and in overflow, processed like those that
//! come in, each when it is due.

use crate::account::Ledger;
use crate::entry::{Entry, Reason};
use crate::intake::{Intake, is_paced, part_of};
use crate::resymbolicate::Again;
use crate::rotation::{Rotation, Seen};
use crate::shares::Shares;
use crate::stored_bodies::{self, Bodies, groups};
use crate::symbols::Fetched;
use crate::tenants::Standing;
use crate::tiers::Tier;
use crate::worker::{Look, Means, Step, Worker};
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use unslide_proto::headers;
use unslide_stream::lane::{Done, Pause, Processor, Refusal, TopicShare};
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
    /// What it has of the machine.
    pub means: Means,
    shares: Arc<Shares>,
    ways: Arc<Ways>,
    ledger: Ledger,
}

/// The records of these topics came from the input or were requests of the store.
struct Ways {
    worker: Arc<Worker>,
    intake: Intake,
    again: Again,
    /// Of the partitions of overflow.
    rotation: Rotation,
}

impl Retry {
    /// The lane of this worker.
    pub fn new(worker: Arc<Worker>, means: Means, shares: Arc<Shares>) -> Retry {
        let again = Again::new(worker.clone(), NAME);
        let intake = Intake::new(worker.clone(), NAME, shares.clone());
        let rotation = Rotation::new(worker.overflow_copies_per_second);
        let ways = Arc::new(Ways { worker: worker.clone(), intake, again, rotation });
        Retry { ledger: worker.ledger(NAME), means, shares, ways, worker }
    }

    /// Microseconds until a record is due, or is looked at again.
    fn wait(&self, record: &Record, behind: i64) -> Option<i64> {
        let now = self.worker.clock.now_micros();
        if let Some(tier) = Tier::of(&self.worker.topics, &record.at.topic) {
            let delay = i64::try_from(tier.delay().as_micros()).unwrap_or(i64::MAX);
            let due = record.time_millis?.saturating_mul(1_000).saturating_add(delay);
            return Some(due - now);
        }
        // Overflow: at the tenant's rate, half of it for each half of its records.
        let entry = Entry::of(record, &self.worker.topics);
        let tenant = self.worker.tenant_named(&entry)?;
        // Who is over no rate, or not served any more, is not paced.
        let copies = entry.tries(Reason::OverShare);
        let paced = is_paced(&entry) && self.worker.tenants.standing(&tenant) == Standing::Active;
        let rate = self.worker.rate(self.worker.tenants.limits(&tenant)).filter(|_| paced);
        let wait = rate.and_then(|rate| self.shares.pace(&tenant, part_of(record), rate, now).err());
        let copied_from = copied_from(record);
        let seen = Seen { at: &record.at, copied_from, copies, tenant: &tenant, behind };
        match wait {
            Some(wait) => self.ways.rotation.undue(seen, wait, now),
            None => {
                self.ways.rotation.due(seen, now);
                None
            }
        }
    }
}

/// The offset from which a record was copied within its partition.
fn copied_from(record: &Record) -> Option<i64> {
    let (at, given) = (&record.at, &record.headers);
    let same = given.text(headers::SOURCE_TOPIC) == Some(&*at.topic)
        && given.number(headers::SOURCE_PARTITION) == Some(at.partition);
    given.number(headers::SOURCE_OFFSET).filter(|_| same)
}

impl Ways {
    /// A copy of the record behind the others of its partition, where it was told to step there.
    fn step_behind(&self, record: &Record) -> Option<Done> {
        if !self.rotation.is_stepping(&record.at) {
            return None;
        }
        let entry = Entry::of(record, &self.worker.topics);
        self.worker.overflow(&entry, &self.worker.tenant_named(&entry)?)
    }

    fn is_request(&self, record: &Record) -> bool {
        Entry::of(record, &self.worker.topics).request
    }
}

/// Records, and the bodies that were fetched for the requests among them.
struct Group {
    ways: Arc<Ways>,
    bodies: Bodies,
}

impl Look for Group {
    fn look(&self, record: &Record, fetched: Option<&Fetched>) -> Step {
        if let Some(done) = self.ways.step_behind(record) {
            done.into()
        } else if self.ways.is_request(record) {
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
            self.worker.seek_outputs(batch.iter()).await?;
            let mut done = Vec::with_capacity(batch.len());
            for records in groups(batch, |record| self.ways.is_request(record)) {
                let requests = records.iter().filter(|record| self.ways.is_request(record));
                let bodies = stored_bodies::fetch(&self.worker.objects, requests).await?;
                let group = Arc::new(Group { ways: self.ways.clone(), bodies });
                let asked = records.len();
                let some = self.worker.run(&self.means, &group, records).await?;
                let cut = some.len() < asked;
                done.extend(some);
                if cut || self.worker.has_enough(&done) {
                    break;
                }
            }
            Ok(done)
        })
    }

    fn not_before(&self, record: &Record, behind: i64) -> Option<Instant> {
        let wait = u64::try_from(self.wait(record, behind)?).ok().filter(|wait| *wait > 0)?;
        Some(Instant::now() + Duration::from_micros(wait))
    }

    fn assigned(&self, _: &[TopicShare]) {
        self.ways.rotation.assigned();
        self.ways.intake.assigned();
    }

    fn refused(&self, record: &Record, why: &Refusal) -> Done {
        self.ways.intake.refused(record, why)
    }

    fn account(&self, done: &[&Done]) -> Vec<OutRecord> {
        vec![self.ledger.batch(done, self.worker.clock.now_micros())]
    }

    fn committed(&self, records: &[&Record], done: &[&Done]) {
        self.ways.intake.committed(records);
        self.ways.rotation.committed(records.iter().map(|record| &record.at));
        self.worker.metrics.committed(NAME, records, done, self.worker.clock.now_micros());
    }
}
