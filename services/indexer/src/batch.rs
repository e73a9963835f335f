//! One transaction: what was read, and the positions after it.

use crate::answers::{self, Answered};
use crate::apart::Fetched;
use crate::config::Settings;
use crate::enriched::{self, Enriched, Unreadable};
use crate::letters;
use crate::metrics::Metrics;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use time::{Date, Duration, OffsetDateTime, UtcOffset};
use unslide_model::TenantId;
use unslide_report::ReadLimits;
use unslide_runtime::{CpuError, Host};
use unslide_store::dead_letters::{self, NewLetter};
use unslide_store::positions::{self, Position};
use unslide_store::reports::{self, Arrival, Effects, Outcome, Stored};
use unslide_store::requests::Answer;
use unslide_store::{Store, StoreError, TenantTx, partitions, requests, retention, segments, tenants};
use unslide_stream::{Place, RecordRef};

/// The positions of what a reader reads.
pub type Positions = BTreeMap<Place, Position>;

/// Records that one job of the CPU pool reads.
const RECORDS_A_JOB: usize = 16;

/// What a topic's records are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Enriched reports.
    Reports,
    /// The ledger.
    Ledger,
    /// Dead letters.
    Letters,
}

/// What a record says.
#[derive(Clone, Debug)]
pub enum Said {
    /// A report to store.
    Report(Box<Enriched>),
    /// An answer to a request.
    Answer(Answered),
    /// A dead letter, and the request that ends with it.
    Letter(Box<NewLetter>, Option<Answered>),
    /// Nothing that concerns the store.
    Nothing,
    /// Nothing that can be read.
    Unreadable(Unreadable),
}

/// A record that was read.
#[derive(Clone, Debug)]
pub struct Item {
    /// Where it lies.
    pub at: RecordRef,
    /// What it says.
    pub said: Said,
}

/// Reads records on the CPU pool, in their order. `requests` is the topic of requests.
///
/// # Errors
/// Where the pool is gone or reading panicked.
pub async fn read(
    host: &Host,
    content: Content,
    records: Vec<Fetched>,
    limits: ReadLimits,
    requests: &Arc<str>,
) -> Result<Vec<Item>, CpuError> {
    let now = host.clock.now();
    let mut records = records.into_iter();
    let mut jobs = Vec::new();
    loop {
        let some: Vec<Fetched> = records.by_ref().take(RECORDS_A_JOB).collect();
        if some.is_empty() {
            break;
        }
        let requests = Arc::clone(requests);
        jobs.push(host.cpu.submit(move || {
            some.iter().map(|record| item(content, record, &limits, now, &requests)).collect::<Vec<_>>()
        }));
    }
    let mut items = Vec::new();
    for job in jobs {
        items.extend(job.await?);
    }
    Ok(items)
}

fn item(
    content: Content,
    fetched: &Fetched,
    limits: &ReadLimits,
    now: OffsetDateTime,
    requests: &str,
) -> Item {
    let record = &fetched.record;
    let apart = || fetched.key.as_ref().map(ToString::to_string);
    let said = match content {
        _ if fetched.failed.is_some() => fetched.failed.clone().map_or(Said::Nothing, Said::Unreadable),
        Content::Reports => enriched::read(record, limits, now).map_or_else(Said::Unreadable, |read| {
            Said::Report(Box::new(Enriched { apart: apart(), ..read }))
        }),
        Content::Ledger => match answers::read(record) {
            Ok(Some(answer)) => Said::Answer(answer),
            Ok(None) => Said::Nothing,
            Err(error) => Said::Unreadable(error),
        },
        Content::Letters => {
            Said::Letter(Box::new(letters::read(record, now)), answers::of_letter(record, requests))
        }
    };
    Item { at: record.at.clone(), said }
}

/// Stores batches.
pub struct Batches {
    store: Store,
    metrics: Metrics,
    keep_days: u32,
    remember_days: u32,
    /// Days whose tables are there.
    days: BTreeSet<Date>,
}

/// What a stored batch has to tell the metrics once it is committed.
#[derive(Default)]
struct Tally {
    stored: Vec<Stored>,
    bytes: u64,
    unreadable: u64,
    answered: u64,
    lost: u64,
    letters: Vec<String>,
}

impl Batches {
    /// Stores into `store`; reports are kept for as long as `settings` and the tenants' limits say.
    pub fn new(store: Store, metrics: Metrics, settings: &Settings) -> Batches {
        let (keep_days, remember_days) = (settings.keep_days, settings.remember_days);
        Batches { store, metrics, keep_days, remember_days, days: BTreeSet::new() }
    }

    /// The first moment that is still kept where `days` are: the beginning of a day.
    fn keep_from(&self, days: u32) -> OffsetDateTime {
        let from = self.store.clock().now() - Duration::days(days.into());
        from.to_offset(UtcOffset::UTC).date().midnight().assume_utc()
    }

    /// Stores what was read together with the positions after it, and moves `positions`. Where the
    /// database refuses the content itself, the batch is halved until the one record is found that
    /// it cannot store, and that one is noted as unreadable.
    ///
    /// # Errors
    /// Where the database fails, or a position was moved by someone else.
    pub async fn store(
        &mut self,
        items: Vec<Item>,
        positions: &mut Positions,
        effects: Effects,
    ) -> Result<(), StoreError> {
        let mut parts = vec![items];
        while let Some(mut items) = parts.pop() {
            let error = match self.attempt(&items, positions, effects).await {
                Ok(tally) => {
                    self.count(&tally);
                    continue;
                }
                Err(error) if error.is_data() => error,
                Err(error) => return Err(error),
            };
            if let [only] = items.as_mut_slice() {
                let detail = causes(&error);
                tracing::error!(
                    kafka.topic = &*only.at.topic,
                    kafka.partition = only.at.partition,
                    kafka.offset = only.at.offset,
                    error = detail,
                    "the database refuses a record: it is passed over and noted"
                );
                only.said = Said::Unreadable(Unreadable { reason: "unstorable", detail });
                parts.push(items);
                continue;
            }
            let later = items.split_off(items.len() / 2);
            parts.push(later);
            parts.push(items);
        }
        Ok(())
    }

    /// Moves positions over what is no record, as the ends of transactions: other indexers see by them
    /// that nothing is left to read.
    ///
    /// # Errors
    /// Where the database fails, or a position was moved by someone else.
    pub async fn pass(
        &self,
        positions: &mut Positions,
        passed: impl Fn(&Place) -> Option<i64>,
    ) -> Result<(), StoreError> {
        let further = positions.iter().filter_map(|(place, position)| {
            let next = passed(place).filter(|next| *next > position.next_offset)?;
            Some((place.clone(), next))
        });
        let further: Vec<(Place, i64)> = further.collect();
        if further.is_empty() {
            return Ok(());
        }
        let mut tx = self.store.batch().await?;
        for (place, next) in &further {
            if let Some(position) = positions.get(place) {
                positions::advance(&mut tx, position, *next).await?;
            }
        }
        tx.commit().await?;
        for (place, next) in further {
            if let Some(position) = positions.get_mut(&place) {
                position.next_offset = next;
            }
        }
        Ok(())
    }

    fn count(&self, tally: &Tally) {
        for stored in &tally.stored {
            self.metrics.stored(stored.outcome);
            if stored.requested.is_some() {
                self.metrics.requests.inc();
            }
        }
        self.metrics.bytes.inc_by(tally.bytes);
        self.metrics.unreadable.inc_by(tally.unreadable);
        self.metrics.answered.inc_by(tally.answered);
        self.metrics.damaged_frames.inc_by(tally.lost);
        for reason in &tally.letters {
            self.metrics.letter(letters::label(reason));
        }
    }

    async fn attempt(
        &mut self,
        items: &[Item],
        positions: &mut Positions,
        effects: Effects,
    ) -> Result<Tally, StoreError> {
        self.ensure_days(items).await?;
        let mut tally = Tally::default();
        let mut tx = self.store.batch().await?;
        // The positions first: a reader that lost its partition finds out before it does any work.
        let mut moved: BTreeMap<Place, i64> = BTreeMap::new();
        for item in items {
            moved.insert((item.at.topic.clone(), item.at.partition), item.at.offset + 1);
        }
        for (place, next) in &moved {
            let position = positions.get(place).ok_or_else(|| StoreError::Fenced {
                topic: place.0.to_string(),
                partition: place.1,
                expected: *next,
            })?;
            positions::advance(&mut tx, position, *next).await?;
        }
        let mut arrivals: BTreeMap<&TenantId, Vec<(&RecordRef, &Enriched)>> = BTreeMap::new();
        let mut answers: BTreeSet<&Answered> = BTreeSet::new();
        let mut unreadable: Vec<(&RecordRef, Unreadable)> = Vec::new();
        let mut dead: Vec<NewLetter> = Vec::new();
        for item in items {
            match &item.said {
                Said::Report(enriched) => {
                    arrivals.entry(&enriched.tenant).or_default().push((&item.at, &**enriched));
                }
                Said::Answer(answer) => {
                    answers.insert(answer);
                }
                Said::Letter(letter, ended) => {
                    answers.extend(ended);
                    let mut letter = NewLetter::clone(letter);
                    let place = (item.at.topic.clone(), item.at.partition);
                    if let Some(position) = positions.get(&place) {
                        letter.id.topic_id.clone_from(&position.topic_id);
                    }
                    tally.letters.push(letter.reason.clone());
                    dead.push(letter);
                }
                Said::Nothing => {}
                Said::Unreadable(why) => unreadable.push((&item.at, why.clone())),
            }
        }
        for (tenant, arrivals) in arrivals {
            let tenant_tx = tx.enter(tenant).await?;
            match tenants::standing(tenant_tx).await? {
                None => unreadable.extend(arrivals.iter().map(|(at, _)| {
                    (*at, Unreadable { reason: "unknown_tenant", detail: tenant.to_string() })
                })),
                Some(tenants::State::Deleted) => {
                    let deleted = Stored { outcome: Outcome::Deleted, variant: 0, requested: None };
                    // What was kept apart goes with everything else of the tenant.
                    tally.stored.extend(arrivals.iter().map(|_| deleted));
                }
                Some(_) => {
                    let limit = tenants::get(tenant_tx).await?.map_or(0, |row| row.limits.retention_days);
                    let days = retention::days(limit, self.keep_days, self.remember_days);
                    let keep_from = Some(self.keep_from(days));
                    let own: Vec<&Arrival> = arrivals.iter().map(|(_, enriched)| &enriched.arrival).collect();
                    tally.bytes += own.iter().map(|arrival| arrival.size).sum::<u64>();
                    let stored = reports::store(tenant_tx, &own, effects, keep_from).await?;
                    note_apart(tenant_tx, &arrivals, &stored).await?;
                    tally.stored.extend(stored);
                }
            }
        }
        // Sorted by tenant and report: the order in which rows are locked.
        for answer in answers {
            let tenant_tx = tx.enter(&answer.tenant).await?;
            let closed = requests::answered(
                tenant_tx,
                (answer.report_id, answer.variant),
                answer.revision,
                answer.answer,
                answer.given(),
            )
            .await?;
            tally.answered += u64::from(closed.is_some());
            if let Some(how @ (Answer::Lost(_) | Answer::Dead)) = closed {
                tally.lost += u64::from(how != Answer::Dead);
                tracing::warn!(report.id = %answer.report_id, answer = ?how, "a stored report can't be symbolicated again");
            }
        }
        dead_letters::note(&mut tx, &dead).await?;
        for (at, why) in unreadable {
            let row = positions::Unreadable {
                topic: at.topic.to_string(),
                partition: at.partition,
                offset: at.offset,
                reason: why.reason.to_owned(),
                detail: why.detail,
            };
            if positions::unreadable(&mut tx, &row).await? {
                tracing::error!(
                    kafka.topic = row.topic,
                    kafka.partition = row.partition,
                    kafka.offset = row.offset,
                    reason = row.reason,
                    "a record cannot be read: it is passed over and noted"
                );
            }
            tally.unreadable += 1;
        }
        tx.commit().await?;
        for (place, next) in moved {
            if let Some(position) = positions.get_mut(&place) {
                position.next_offset = next;
            }
        }
        Ok(tally)
    }

    /// Makes sure that there are tables for the days of what was read.
    async fn ensure_days(&mut self, items: &[Item]) -> Result<(), StoreError> {
        let times = || {
            items.iter().filter_map(|item| match &item.said {
                Said::Report(enriched) => Some(enriched.arrival.received_at),
                _ => None,
            })
        };
        let mut keep_from = self.keep_from(self.keep_days);
        if times().any(|at| at < keep_from) {
            // Some tenant may keep them for longer.
            let longest = retention::longest(&self.store, self.keep_days, self.remember_days).await?;
            keep_from = self.keep_from(longest);
        }
        let days: BTreeSet<Date> = times()
            .filter(|at| *at >= keep_from)
            .map(|at| at.to_offset(UtcOffset::UTC).date())
            .filter(|day| !self.days.contains(day))
            .collect();
        for day in days {
            partitions::ensure(&self.store, day, day).await?;
            self.days.insert(day);
        }
        Ok(())
    }
}

/// Notes the objects of bodies that were kept apart, so that they go when their reports go; those of
/// reports that are not kept are condemned at once.
async fn note_apart(
    tx: &mut TenantTx,
    arrivals: &[(&RecordRef, &Enriched)],
    stored: &[Stored],
) -> Result<(), StoreError> {
    let (mut kept, mut condemned) = (Vec::new(), Vec::new());
    for ((_, enriched), stored) in arrivals.iter().zip(stored) {
        let Some(key) = &enriched.apart else { continue };
        let arrival = &enriched.arrival;
        match stored.outcome {
            Outcome::Deleted | Outcome::Expired => condemned.push(key.clone()),
            _ => kept.push((arrival.received_at, arrival.report_id, stored.variant, key.as_str())),
        }
    }
    segments::apart(tx, &kept).await?;
    segments::condemn(tx, &condemned).await
}

/// An error with its causes, on one line.
pub fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
