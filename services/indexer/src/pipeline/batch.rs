//! One transaction: the rows of the records that were read, and the positions after them.

mod answers;
mod events;
mod grouped_items;
mod spans;

use crate::config::Settings;
use crate::metrics::Metrics;
use crate::pipeline::resources::Resources;
use crate::records::answers::Answered;
use crate::records::dead_letter::{self, SkippedRecord};
use crate::records::enriched::{ReadReport, Unreadable};
use crate::records::{Item, Parsed};
use crate::topics::Positions;
use answers::close_requests;
use grouped_items::GroupedItems;
use spans::BatchSpans;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use time::{Date, OffsetDateTime, UtcOffset};
use unslide_model::{PROCESS_USE, ResourceUse, TenantId};
use unslide_runtime::fairness::FairShares;
use unslide_runtime::resource_use::charge_future;
use unslide_store::dead_letters::{self, DeadLetter, DeadLetterId, DeadLetterStage, ReplayResult};
use unslide_store::deferred::{self, DeferredRange, StoredPart};
use unslide_store::gateway_events::EventOutcome;
use unslide_store::positions::{self, PartitionPosition};
use unslide_store::reports::{self, Arrival, ArrivalOutcome, Effects, StoredArrival};
use unslide_store::{BatchTx, Store, StoreError, partitions, place, resource_uses, retention, tenants};
use unslide_stream::{RecordRef, TopicPartition};

/// Cost of a new group in addition to its report, in cost units: storing it takes about as long as another
/// report.
const NEW_GROUP_UNITS: u64 = 1;
/// The same cost for the first report of an app and a version on a day.
const NEW_APP_UNITS: u64 = 1;

/// How a batch of items is written.
pub struct Write<'a> {
    /// The positions of the partitions that the items come from.
    pub positions: &'a Positions,
    /// True if the positions move.
    pub advance: bool,
    /// Decides whether stored reports may request a new symbolication at once.
    pub effects: Effects,
    /// The dead letter that the item is a replay of.
    pub replay: Option<&'a DeadLetterId>,
}

/// Writes batches of items to the store.
pub struct BatchWriter {
    store: Store,
    metrics: Metrics,
    keep_days: u32,
    remember_days: u32,
    /// Days that have tables already.
    days: BTreeSet<Date>,
    shares: Arc<FairShares>,
    /// The deferred ranges that items come from; they are used instead of positions.
    ranges: Option<Vec<DeferredRange>>,
    /// Tenants that another cell may be serving: their items were deferred.
    elsewhere: BTreeSet<TenantId>,
    spans: BatchSpans,
}

/// Results of a stored batch, for the metrics after its commit.
#[derive(Default)]
struct Tally {
    stored: Vec<StoredArrival>,
    /// Arrival times of the new reports.
    new_since: Vec<OffsetDateTime>,
    /// Outcomes of events, each with the kind of its topic.
    events: Vec<(&'static str, EventOutcome)>,
    answered: u64,
    lost: u64,
    dead_letters: Vec<(DeadLetterStage, String)>,
    deferred: i64,
    /// Tenants that another cell may be serving.
    elsewhere: BTreeSet<TenantId>,
    /// Cost units of the tenants' new groups and apps.
    charges: Vec<(TenantId, u64)>,
    /// Reports and events that are new, by tenant.
    new: Vec<(TenantId, u64)>,
    /// The outcomes of the reports that have a span.
    traced: Vec<(RecordRef, ArrivalOutcome)>,
}

impl BatchWriter {
    /// Creates a writer for the store of `resources`. Reports are kept as long as the settings and the
    /// tenants' limits say.
    pub fn new(resources: &Resources) -> BatchWriter {
        let Resources { store, metrics, settings, shares, host, .. } = resources.clone();
        let Settings { keep_days, remember_days, .. } = settings;
        let (days, spans) = (BTreeSet::new(), BatchSpans::new(&host));
        BatchWriter {
            store,
            metrics,
            keep_days,
            remember_days,
            days,
            shares,
            ranges: None,
            elsewhere: BTreeSet::new(),
            spans,
        }
    }

    /// Sets the deferred ranges that items come from. From now on these are shortened, and no position moves.
    pub fn store_from(&mut self, ranges: Vec<DeferredRange>) {
        self.ranges = Some(ranges);
    }

    /// Returns true if items come from deferred ranges.
    pub fn is_storing_deferred(&self) -> bool {
        self.ranges.is_some()
    }

    /// Returns the tenants with items that were deferred since the last call because another cell may be serving them.
    pub fn take_elsewhere(&mut self) -> BTreeSet<TenantId> {
        std::mem::take(&mut self.elsewhere)
    }

    /// Returns the first moment that is still kept if reports are kept for `days`: the beginning of a day.
    fn keep_from(&self, days: u32) -> OffsetDateTime {
        retention::first_day(days, self.store.clock().now()).midnight().assume_utc()
    }

    /// Stores items together with the positions after them, and moves `positions`. Items that failed become
    /// dead letters.
    ///
    /// # Errors
    /// Returns an error if the database fails, or if another indexer moved a position.
    pub async fn store_items(
        &mut self,
        items: &[Item],
        positions: &mut Positions,
        effects: Effects,
    ) -> Result<(), StoreError> {
        let began = self.spans.begin_time();
        let write = Write { positions, advance: true, effects, replay: None };
        let (tx, tally) = self.write_items(items, &write).await?;
        tx.commit().await?;
        self.spans.export_batch(began, items, &tally.traced);
        for (place, next) in end_offsets(items) {
            self.ranges.iter_mut().flatten().filter(|range| lies_in(range, &place)).for_each(|range| {
                range.from = range.from.max(next);
            });
            if let Some(position) = positions.get_mut(&place) {
                position.next_offset = next;
            }
        }
        self.ranges.iter_mut().for_each(|ranges| ranges.retain(|range| range.from < range.to));
        self.count_tally(&tally);
        self.elsewhere.extend(tally.elsewhere);
        Ok(())
    }

    /// Stores one item without moving a position, as the replay of a dead letter.
    pub async fn replay_item(&mut self, item: &Item, letter: &DeadLetter) -> Result<(), StoreError> {
        let position = PartitionPosition {
            topic: letter.topic.clone(),
            partition: letter.id.partition,
            topic_id: letter.id.topic_id.clone(),
            next_offset: letter.id.offset,
        };
        let positions = Positions::from([((item.at.topic.clone(), item.at.partition), position)]);
        let write =
            Write { positions: &positions, advance: false, effects: Effects::Now, replay: Some(&letter.id) };
        let began = self.spans.begin_time();
        let (tx, tally) = self.write_items(std::slice::from_ref(item), &write).await?;
        tx.commit().await?;
        self.spans.export_batch(began, std::slice::from_ref(item), &tally.traced);
        self.count_tally(&tally);
        Ok(())
    }

    /// Performs all steps of storing, then rolls the transaction back.
    ///
    /// # Errors
    /// Returns the same errors as [`BatchWriter::store_items`].
    pub async fn rehearse_items(&mut self, items: &[Item], write: &Write<'_>) -> Result<(), StoreError> {
        self.write_items(items, write).await?.0.rollback().await
    }

    /// Moves positions past offsets that hold no records, such as the ends of transactions. Other indexers
    /// can then see that nothing is left to read.
    ///
    /// # Errors
    /// Returns an error if the database fails, or if another indexer moved a position.
    pub async fn pass_offsets(
        &self,
        positions: &mut Positions,
        passed: impl Fn(&TopicPartition) -> Option<i64>,
    ) -> Result<(), StoreError> {
        let further = positions.iter().filter_map(|(place, position)| {
            let next = passed(place).filter(|next| *next > position.next_offset)?;
            Some((place.clone(), next))
        });
        let further: Vec<(TopicPartition, i64)> = further.collect();
        if further.is_empty() {
            return Ok(());
        }
        let mut tx = self.store.batch().await?;
        for (place, next) in &further {
            if let Some(position) = positions.get(place) {
                positions::advance_position(&mut tx, position, *next).await?;
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

    fn count_tally(&self, tally: &Tally) {
        for stored in &tally.stored {
            self.metrics.count_report(stored.outcome);
        }
        let now = self.store.clock().now();
        for arrived_at in &tally.new_since {
            self.metrics.latency_seconds.observe((now - *arrived_at).as_seconds_f64().max(0.0));
        }
        for (kind, outcome) in &tally.events {
            self.metrics.event(kind, *outcome);
        }
        self.metrics.answered.inc_by(tally.answered);
        self.metrics.damaged_frames.inc_by(tally.lost);
        for (stage, reason) in &tally.dead_letters {
            self.metrics.dead_letter(*stage, dead_letter::reason_label(reason));
        }
        let now = self.store.clock().monotonic_micros();
        for (tenant, units) in &tally.charges {
            self.shares.charge_units(tenant, now, *units);
        }
        for (tenant, stored) in &tally.new {
            PROCESS_USE.add(Some(tenant), ResourceUse { stored: *stored, ..ResourceUse::default() });
        }
        self.metrics.deferred_records.inc_by(u64::try_from(tally.deferred).unwrap_or(0));
    }

    /// Writes items into a transaction and returns it uncommitted.
    async fn write_items(
        &mut self,
        items: &[Item],
        write: &Write<'_>,
    ) -> Result<(BatchTx, Tally), StoreError> {
        self.ensure_days(items).await?;
        let written = self.write_into(items, write).await;
        if written.is_err() {
            // The table of a day may have been dropped.
            self.days.clear();
        }
        written
    }

    /// Rows are locked in the same order everywhere: positions, then reports and answers by tenant, and
    /// deferred ranges last.
    async fn write_into(&self, items: &[Item], write: &Write<'_>) -> Result<(BatchTx, Tally), StoreError> {
        let mut tally = Tally::default();
        let mut tx = self.store.batch().await?;
        if write.advance && self.ranges.is_none() {
            // Positions first: a reader that lost its partition finds out before it does any work.
            advance_positions(&mut tx, &end_offsets(items), write.positions).await?;
        }
        let mut grouped = GroupedItems::from_items(items, write.positions);
        for (tenant, arrivals) in std::mem::take(&mut grouped.arrivals) {
            let storing = self.store_reports(
                &mut tx,
                tenant,
                &arrivals,
                write.effects,
                &mut grouped.unreadable,
                &mut tally,
            );
            if !charge_future(tenant, storing).await? {
                tally.elsewhere.insert(tenant.clone());
            }
        }
        for ((_, tenant), events) in std::mem::take(&mut grouped.events) {
            let storing = self.store_events(&mut tx, tenant, &events, &mut grouped.unreadable, &mut tally);
            if !charge_future(tenant, storing).await? {
                tally.elsewhere.insert(tenant.clone());
            }
        }
        let answers: Vec<&Answered> = std::mem::take(&mut grouped.answers).into_iter().collect();
        for of_tenant in answers.chunk_by(|one, next| one.tenant == next.tenant) {
            close_requests(&mut tx, of_tenant, &mut tally).await?;
        }
        resource_uses::add_statements(&mut tx, &grouped.uses).await?;
        if let Some(id) = write.replay {
            let refused =
                grouped.unreadable.first().map(|(_, why)| format!("{}: {}", why.reason, why.detail));
            let result = refused.map_or(ReplayResult::Stored, ReplayResult::Failed);
            dead_letters::record_replay_result(&mut tx, id, &result).await?;
        } else {
            let letters = self.dead_letters(&mut grouped, write.positions, &tally.elsewhere);
            tally.elsewhere.extend(dead_letters::note(&mut tx, &letters).await?.elsewhere);
            let noted = letters.iter().filter(|letter| !is_of(letter.tenant.as_ref(), &tally.elsewhere));
            tally.dead_letters.extend(noted.map(|letter| (letter.stage, letter.reason.clone())));
        }
        if !tally.elsewhere.is_empty() {
            if write.replay.is_some() || self.is_storing_deferred() {
                return Err(StoreError::TenantMoving);
            }
            grouped.defer_tenants(&tally.elsewhere, items, write.positions);
        }
        let deferred: Vec<DeferredRange> = grouped.deferred.into_values().collect();
        tally.deferred = deferred.iter().map(|range| range.records).sum();
        deferred::extend_ranges(&mut tx, &deferred).await?;
        if let Some(ranges) = self.ranges.as_ref().filter(|_| write.advance) {
            deferred::shorten_ranges(&mut tx, &stored_parts(ranges, items)).await?;
        }
        Ok((tx, tally))
    }

    /// Returns the dead letters of a batch: those that were read, and those of items that are skipped.
    /// Items of tenants `elsewhere` leave none here.
    fn dead_letters(
        &self,
        grouped: &mut GroupedItems<'_>,
        positions: &Positions,
        elsewhere: &BTreeSet<TenantId>,
    ) -> Vec<DeadLetter> {
        grouped.unreadable.retain(|(item, _)| !is_of(item.tenant.as_ref(), elsewhere));
        grouped.failed.retain(|(item, _)| !is_of(item.tenant.as_ref(), elsewhere));
        let mut letters = std::mem::take(&mut grouped.dead_letters);
        let at = self.store.clock().now();
        let mut skip = |item: &Item, stage, reason, detail: String| {
            let position = positions.get(&(item.at.topic.clone(), item.at.partition));
            let topic_id = position.map(|position| position.topic_id.clone()).unwrap_or_default();
            let why = SkippedRecord { reason, detail, tenant: item.tenant.clone(), at };
            letters.push(dead_letter::skipped(&item.at, topic_id, stage, why));
        };
        for (item, why) in std::mem::take(&mut grouped.unreadable) {
            log_unreadable(item, &why);
            skip(item, DeadLetterStage::Read, why.reason, why.detail);
        }
        for (item, failure) in std::mem::take(&mut grouped.failed) {
            skip(item, DeadLetterStage::Store, failure.reason, failure.detail.clone());
        }
        letters
    }

    /// Stores the reports of one tenant. Reports of a tenant that does not exist are unreadable. Returns false, and stores
    /// nothing, if another cell may be serving the tenant.
    async fn store_reports<'i>(
        &self,
        tx: &mut BatchTx,
        tenant: &TenantId,
        arrivals: &[(&'i Item, &ReadReport)],
        effects: Effects,
        unreadable: &mut Vec<(&'i Item, Unreadable)>,
        tally: &mut Tally,
    ) -> Result<bool, StoreError> {
        let (tx, handling) = place::enter_tenant(tx, tenant).await?;
        if handling.is_some_and(|handling| handling.is_elsewhere()) {
            return Ok(false);
        }
        match handling.map(|handling| handling.standing) {
            None => unreadable.extend(arrivals.iter().map(|(item, _)| {
                (*item, Unreadable { reason: "unknown_tenant", detail: tenant.to_string() })
            })),
            Some(tenants::TenantStanding::Deleted) => {
                let deleted = StoredArrival { outcome: ArrivalOutcome::Deleted, variant: 0, requested: None };
                tally.stored.extend(arrivals.iter().map(|_| deleted));
                note_traced(tally, arrivals, std::iter::repeat(&deleted));
            }
            Some(_) => {
                let limit = tenants::get(tx).await?.map_or(0, |row| row.limits.retention_days);
                let days = retention::kept_days(limit, self.keep_days, self.remember_days);
                let keep_from = Some(self.keep_from(days));
                let own: Vec<&Arrival> = arrivals.iter().map(|(_, enriched)| &enriched.arrival).collect();
                let batch = reports::store_batch(tx, &own, effects, keep_from).await?;
                let units = batch.new_groups * NEW_GROUP_UNITS + batch.new_app_days * NEW_APP_UNITS;
                tally.charges.push((tenant.clone(), units));
                let stored = own.iter().zip(&batch.stored);
                let new = stored.filter(|(_, stored)| stored.outcome == ArrivalOutcome::New);
                let new_since: Vec<OffsetDateTime> = new.map(|(arrival, _)| arrival.received_at).collect();
                tally.new.push((tenant.clone(), new_since.len() as u64));
                tally.new_since.extend(new_since);
                note_traced(tally, arrivals, &batch.stored);
                tally.stored.extend(batch.stored);
            }
        }
        Ok(true)
    }

    /// Creates the missing tables for the days of these items.
    async fn ensure_days(&mut self, items: &[Item]) -> Result<(), StoreError> {
        let times = || {
            items.iter().filter_map(|item| match &item.parsed {
                Parsed::Report(enriched) => Some(enriched.arrival.received_at),
                Parsed::Event(read) => read.event.day().map(|day| day.midnight().assume_utc()),
                _ => None,
            })
        };
        let mut keep_from = self.keep_from(self.keep_days);
        if times().any(|at| at < keep_from) {
            // Some tenant may keep its reports for longer.
            let longest =
                retention::read_longest_days(&self.store, self.keep_days, self.remember_days).await?;
            keep_from = self.keep_from(longest);
        }
        let days: BTreeSet<Date> = times()
            .filter(|at| *at >= keep_from)
            .map(|at| at.to_offset(UtcOffset::UTC).date())
            .filter(|day| !self.days.contains(day))
            .collect();
        for day in days {
            partitions::ensure_partitions(&self.store, day, day).await?;
            self.days.insert(day);
        }
        Ok(())
    }
}

async fn advance_positions(
    tx: &mut BatchTx,
    ends: &BTreeMap<TopicPartition, i64>,
    positions: &Positions,
) -> Result<(), StoreError> {
    for (place, next) in ends {
        let position = positions.get(place).ok_or_else(|| StoreError::Fenced {
            topic: place.0.to_string(),
            partition: place.1,
            expected: *next,
        })?;
        positions::advance_position(tx, position, *next).await?;
    }
    Ok(())
}

/// Records the outcomes of the reports that have a span.
fn note_traced<'s>(
    tally: &mut Tally,
    arrivals: &[(&Item, &ReadReport)],
    stored: impl IntoIterator<Item = &'s StoredArrival>,
) {
    let outcomes = arrivals.iter().zip(stored).filter(|((item, _), _)| item.traceparent.is_some());
    tally.traced.extend(outcomes.map(|((item, _), stored)| (item.at.clone(), stored.outcome)));
}

/// Returns which part of each range these items are, for ranges that begin before the last of them.
fn stored_parts(ranges: &[DeferredRange], items: &[Item]) -> Vec<StoredPart> {
    let mut parts = Vec::new();
    for (place, next) in end_offsets(items) {
        let here = |item: &&Item| (&item.at.topic, item.at.partition) == (&place.0, place.1);
        let youngest = items.iter().filter(here).map(|item| item.arrived_at).max();
        for range in ranges.iter().filter(|range| lies_in(range, &place) && range.from < next) {
            let own = items.iter().filter(here).filter(|item| item.tenant.as_ref() == Some(&range.tenant));
            parts.push(StoredPart {
                range: range.clone(),
                next,
                records: i64::try_from(own.count()).unwrap_or(i64::MAX),
                oldest_at: youngest.unwrap_or(range.oldest_at),
            });
        }
    }
    parts
}

fn is_of(tenant: Option<&TenantId>, tenants: &BTreeSet<TenantId>) -> bool {
    tenant.is_some_and(|tenant| tenants.contains(tenant))
}

fn lies_in(range: &DeferredRange, place: &TopicPartition) -> bool {
    range.topic == *place.0 && range.partition == place.1
}

/// Returns the offset after the last of the items in each partition.
fn end_offsets(items: &[Item]) -> BTreeMap<TopicPartition, i64> {
    items.iter().map(|item| ((item.at.topic.clone(), item.at.partition), item.at.offset + 1)).collect()
}

/// Logs a record that cannot be read. One that came with a public key is no fault that an operator could mend: strangers
/// could fill the log with errors.
fn log_unreadable(item: &Item, why: &Unreadable) {
    let record = &item.at;
    let text = "a record cannot be read: it is skipped and becomes a dead letter";
    if item.is_from_public_key {
        tracing::debug!(kafka.record = ?record, reason = why.reason, "{text}");
    } else {
        tracing::error!(
            kafka.topic = &*record.topic,
            kafka.partition = record.partition,
            kafka.offset = record.offset,
            reason = why.reason,
            "{text}"
        );
    }
}
