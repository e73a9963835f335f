//! Storing a batch of arrivals, step by step.

use super::keys::{self, KeyRow};
use super::{
    Arrival, ArrivalOutcome, Change, Effects, ReportOrigin, StoredArrival, duplicates, groups, person,
    rollups, rows, waits,
};
use crate::app_signals::{self, SignalDrops, SignalsByApp, UNSAMPLED_WEIGHT, WeightRounder};
use crate::events::{MemoryException, StoreEvent, StoredReport, StoredReports};
use crate::groups::{GroupEvent, lock_out_merges};
use crate::hooks;
use crate::key_erasures::{self, KeyedArrival};
use crate::outbox::NeededSymbols;
use crate::persons::{self, ArrivedPerson};
use crate::reprocess::{self, RequestEnds};
use crate::requests::{self, Ask};
use crate::{ReprocessId, Result, RunId, TenantTx, wakes};
use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use time::OffsetDateTime;
use unslide_model::{ContentHash, ReportId};

/// Stores a tenant's arrivals in the order of their offsets, and returns the outcome of each. Day partitions
/// have to exist (see [`crate::partitions`]); reports that arrived before `keep_from` are not stored.
/// Features learn of reports that are stored, and of groups that are new or came back.
pub async fn store_arrivals<A: Borrow<Arrival> + Sync>(
    tx: &mut TenantTx,
    arrivals: &[A],
    effects: Effects,
    keep_from: Option<OffsetDateTime>,
) -> Result<Vec<StoredArrival>> {
    Ok(store_batch(tx, arrivals, effects, keep_from).await?.stored)
}

/// The outcome of a batch of arrivals.
#[derive(Debug, Default)]
pub struct StoredBatch {
    /// The outcome of each arrival.
    pub stored: Vec<StoredArrival>,
    /// How many groups are new.
    pub new_groups: u64,
    /// How many apps and versions have their first report of a day.
    pub new_app_days: u64,
    /// The groups that are new or came back.
    pub events: Vec<GroupEvent>,
}

/// Stores arrivals as [`store_arrivals`] does. Also returns which groups are new or came back: each event once,
/// however often the arrivals are stored again.
///
/// Rows are locked in one order everywhere: keys by id, slots by debug id, roll-ups by their keys.
pub async fn store_batch<A: Borrow<Arrival> + Sync>(
    tx: &mut TenantTx,
    arrivals: &[A],
    effects: Effects,
    keep_from: Option<OffsetDateTime>,
) -> Result<StoredBatch> {
    let arrivals: Vec<&Arrival> = arrivals.iter().map(Borrow::borrow).collect();
    write_batch(tx, arrivals, BatchKind::Arrivals, effects, keep_from).await
}

/// Replaces stored reports by other forms of the same revisions: their texts were changed, and nothing that a worker said of
/// them. A report that was revised or deleted in between stays as it is. Returns the number of reports that were replaced.
///
/// # Errors
/// The database fails.
pub async fn rewrite_reports(tx: &mut TenantTx, rewritten: &[Arrival]) -> Result<u64> {
    let arrivals: Vec<&Arrival> = rewritten.iter().collect();
    let batch = write_batch(tx, arrivals, BatchKind::Rewritten, Effects::Now, None).await?;
    Ok(batch.stored.iter().filter(|one| one.outcome == ArrivalOutcome::Revised).count() as u64)
}

/// The kind of reports that a batch has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BatchKind {
    /// Reports that arrive, and their later revisions.
    Arrivals,
    /// Other forms of revisions that are stored.
    Rewritten,
}

async fn write_batch(
    tx: &mut TenantTx,
    arrivals: Vec<&Arrival>,
    kind: BatchKind,
    effects: Effects,
    keep_from: Option<OffsetDateTime>,
) -> Result<StoredBatch> {
    if arrivals.is_empty() {
        return Ok(StoredBatch::default());
    }
    // Before any row, so that no transaction waits for it that others wait for.
    wakes::system::lock_out_publishers(tx).await?;
    lock_out_merges(tx).await?;
    let reports = by_report(&arrivals);
    let with_signals = arrivals.iter().filter(|arrival| arrival.facts.signal().is_some());
    let apps: BTreeSet<String> =
        with_signals.map(|arrival| rows::truncate_name(&arrival.facts.app)).collect();
    let signals = match apps.is_empty() {
        true => SignalsByApp::default(),
        false => app_signals::read_for_apps(tx, &apps.iter().map(String::as_str).collect()).await?,
    };
    let persons =
        arrivals.iter().enumerate().flat_map(|(place, arrival)| person::list_persons(place, arrival));
    let mut erased = persons::find_erased(tx, &persons.collect::<Vec<ArrivedPerson>>()).await?;
    erased.extend(key_erasures::find_erased(tx, &list_keyed(&arrivals)).await?);
    let mut batch = Batch::from_arrivals(arrivals, kind, signals, erased);
    let new: Vec<_> = reports.iter().map(|report| batch.build_key(report, keep_from)).collect();
    let keys = match kind {
        BatchKind::Arrivals => keys::insert_and_lock(tx, &new).await?.into_iter().map(Some).collect(),
        BatchKind::Rewritten => keys::lock_stored(tx, &new).await?,
    };
    for (key, (_, places)) in keys.into_iter().zip(reports) {
        // Without a key it stays a duplicate: nothing is done.
        if let Some(key) = key {
            batch.decide_outcomes(key, &places, keep_from);
        }
    }
    for change in rows::read_previous(tx, &mut batch.changes).await? {
        batch.stored[change.place].outcome = ArrivalOutcome::Expired;
        batch.remembered.push((change.key, change.arrival.revision));
    }
    rows::write_reports(tx, &batch.changes).await?;
    person::record_users(tx, &batch.changes).await?;
    let needs = waits::record_waits(tx, &batch.changes, effects).await?;
    keys::record_revisions(tx, &batch.collect_advances(&needs, effects)).await?;
    duplicates::record_duplicates(tx, &batch.arrivals, &batch.stored).await?;
    let new_app_days = rollups::record_rollups(tx, &batch.changes).await?;
    let groups = groups::record_groups(tx, &batch.changes).await?;
    if effects == Effects::Now {
        batch.request_again(tx, needs).await?;
    }
    reprocess::count_ends(tx, &batch.count_request_ends()).await?;
    app_signals::count_dropped(tx, &batch.count_drops()).await?;
    hooks::send_event(StoreEvent::GroupsChanged(tx, &groups)).await?;
    let stored = StoredReports { reports: batch.stored_reports(), groups };
    hooks::send_event(StoreEvent::ReportsStored(tx, &stored)).await?;
    let events = stored.groups;
    let new_groups = events.iter().filter(|event| matches!(event, GroupEvent::Created { .. })).count() as u64;
    Ok(StoredBatch { stored: batch.stored, new_groups, new_app_days, events })
}

/// Returns the arrivals that apps sent with public keys.
fn list_keyed(arrivals: &[&Arrival]) -> Vec<KeyedArrival> {
    let keyed = arrivals.iter().enumerate().filter_map(|(place, arrival)| {
        let version = rows::truncate_name(&arrival.facts.version);
        let key = arrival.facts.sender_key?;
        Some(KeyedArrival { place, key, version, received_at: arrival.received_at })
    });
    keyed.collect()
}

/// A report, by its id and content, and the indexes of its arrivals.
type ReportPlaces = ((ReportId, ContentHash), Vec<usize>);

/// Returns the indexes of the arrivals of each report, in the order in which the reports' keys are locked.
fn by_report(arrivals: &[&Arrival]) -> Vec<ReportPlaces> {
    let mut reports: BTreeMap<(ReportId, ContentHash), Vec<usize>> = BTreeMap::new();
    for (place, arrival) in arrivals.iter().enumerate() {
        reports.entry((arrival.report_id, arrival.content_hash)).or_default().push(place);
    }
    let mut reports: Vec<_> = reports.into_iter().collect();
    reports.sort_by_key(|((id, _), places)| (*id, places[0]));
    reports
}

/// A batch with locked keys.
struct Batch<'a> {
    arrivals: Vec<&'a Arrival>,
    kind: BatchKind,
    /// The outcome of each arrival.
    stored: Vec<StoredArrival>,
    changes: Vec<Change<'a>>,
    /// Reports that are older than reports are kept, with their revision.
    remembered: Vec<(KeyRow, u32)>,
    /// The first origin of each report, as far as this batch knows.
    firsts: BTreeMap<(ReportId, u32), &'a ReportOrigin>,
    /// The signals that the apps keep.
    signals: SignalsByApp,
    /// The places of arrivals of persons or public keys that were erased after the arrival.
    erased: BTreeSet<usize>,
    rounder: WeightRounder,
}

impl<'a> Batch<'a> {
    fn from_arrivals(
        arrivals: Vec<&'a Arrival>,
        kind: BatchKind,
        signals: SignalsByApp,
        erased: BTreeSet<usize>,
    ) -> Batch<'a> {
        let duplicate = StoredArrival { outcome: ArrivalOutcome::Duplicate, variant: 0, requested: None };
        let stored = vec![duplicate; arrivals.len()];
        let (changes, remembered, firsts) = (Vec::new(), Vec::new(), BTreeMap::new());
        let rounder = WeightRounder::default();
        Batch { arrivals, kind, stored, changes, remembered, firsts, signals, erased, rounder }
    }

    /// Builds the key that a report gets if it is new.
    fn build_key(
        &self,
        ((report_id, content_hash), places): &ReportPlaces,
        keep_from: Option<OffsetDateTime>,
    ) -> keys::NewReportKey<'a> {
        let received_at = self.arrivals[places[0]].received_at;
        let arrivals = || places.iter().map(|place| self.arrivals[*place]);
        let revision = arrivals().map(|arrival| arrival.revision).max().unwrap_or_default();
        let is_kept = keep_from.is_none_or(|from| received_at >= from)
            && places.iter().all(|place| self.find_refusal(*place).is_none());
        let newest = arrivals().find(|arrival| arrival.revision == revision).filter(|_| is_kept);
        keys::NewReportKey {
            report_id: *report_id,
            content_hash: *content_hash,
            received_at,
            revision,
            retry: newest.map(waits::list_unfetched).unwrap_or_default(),
            origin: self.find_origin(places),
        }
    }

    /// Returns the origin of a report, if the batch has its first revision.
    fn find_origin(&self, places: &[usize]) -> Option<&'a ReportOrigin> {
        let first = places.iter().map(|place| self.arrivals[*place]).find(|arrival| arrival.revision == 1);
        first.and_then(|arrival| arrival.origin.as_ref())
    }

    /// Decides on the arrivals of one report.
    fn decide_outcomes(&mut self, key: KeyRow, places: &[usize], keep_from: Option<OffsetDateTime>) {
        let expired = keep_from.is_some_and(|from| key.received_at < from);
        // A stored report gets its revisions, also after a change of the app's settings.
        let is_new = key.latest_revision == 0;
        let refused = places.iter().filter(|_| is_new).find_map(|place| self.find_refusal(*place));
        let mut latest = key.latest_revision;
        let (mut earliest, mut last): (Option<usize>, Option<usize>) = (None, None);
        if let Some(origin) = self.find_origin(places) {
            self.firsts.insert(key.report_and_variant(), origin);
        }
        for place in places.iter().copied() {
            let newer = match self.kind {
                BatchKind::Arrivals => self.arrivals[place].revision > latest,
                BatchKind::Rewritten => self.arrivals[place].revision == latest && last.is_none(),
            };
            self.stored[place].variant = key.variant;
            self.stored[place].outcome = match (newer, refused) {
                _ if key.deleted => ArrivalOutcome::Deleted,
                (true, _) if expired => ArrivalOutcome::Expired,
                (true, Some(refused)) => refused,
                (true, None) if is_new => ArrivalOutcome::New,
                (true, None) => ArrivalOutcome::Revised,
                (false, _) => ArrivalOutcome::Duplicate,
            };
            if newer && !key.deleted {
                latest = self.arrivals[place].revision;
                earliest.get_or_insert(place);
                if let Some(earlier) = last.replace(place) {
                    self.stored[earlier].outcome = ArrivalOutcome::Superseded;
                }
            }
        }
        match last {
            None => {}
            Some(_) if expired || refused.is_some() => self.remembered.push((key, latest)),
            Some(place) => {
                let came = self.arrivals[earliest.unwrap_or(place)];
                // Crashes are never sampled, and each counts once.
                let sent_weight = came.facts.signal().map_or(UNSAMPLED_WEIGHT, |_| came.facts.sent_weight());
                let weight = self.rounder.round_weight(sent_weight, &came.report_id.to_string());
                let arrival = self.arrivals[place];
                self.changes.push(Change { key, arrival, came, place, weight, previous: None });
            }
        }
    }

    /// Returns the outcome of a report that is not kept: a person or a key of it was erased, or its app does not keep its
    /// signal. Returns `None` if it is kept.
    fn find_refusal(&self, place: usize) -> Option<ArrivalOutcome> {
        if self.erased.contains(&place) {
            return Some(ArrivalOutcome::Deleted);
        }
        let arrival = self.arrivals[place];
        let signal = arrival.facts.signal()?;
        let settings = self.signals.for_app(&rows::truncate_name(&arrival.facts.app));
        (!settings.keeps_signal(signal)).then_some(ArrivalOutcome::SwitchedOff)
    }

    /// Counts the reports that were not kept, by app and signal.
    fn count_drops(&self) -> SignalDrops {
        let mut drops = SignalDrops::new();
        for (arrival, stored) in self.arrivals.iter().zip(&self.stored) {
            let is_dropped = stored.outcome == ArrivalOutcome::SwitchedOff;
            if let Some(signal) = arrival.facts.signal().filter(|_| is_dropped) {
                *drops.entry((rows::truncate_name(&arrival.facts.app), signal)).or_default() += 1;
            }
        }
        drops
    }

    /// Returns the changes of the keys that are there: one that this batch made has its values already, unless a
    /// question is put off. `needs` are the newer symbols that each change lacks.
    fn collect_advances(&self, needs: &[Vec<NeededSymbols>], effects: Effects) -> Vec<keys::Advance<'a>> {
        let deferred = effects == Effects::Deferred;
        let changed = self.changes.iter().zip(needs).map(|(change, needs)| {
            let retry = waits::list_unfetched(change.arrival);
            let ask_pending = deferred && !(needs.is_empty() && retry.is_empty());
            (&change.key, change.arrival.revision, ask_pending, retry)
        });
        let remembered = self.remembered.iter().map(|(key, revision)| (key, *revision, false, Vec::new()));
        let advances =
            changed.chain(remembered).filter(|(key, _, pending, _)| *pending || key.latest_revision > 0);
        advances
            .map(|(key, revision, ask_pending, retry)| keys::Advance {
                report_id: key.report_id,
                variant: key.variant,
                revision,
                ask_pending,
                retry,
                origin: self.firsts.get(&key.report_and_variant()).copied(),
            })
            .collect()
    }

    /// Requests the changed reports again that lack newer symbols.
    async fn request_again(&mut self, tx: &mut TenantTx, needs: Vec<Vec<NeededSymbols>>) -> Result<()> {
        let (places, asks): (Vec<usize>, Vec<Ask>) = self
            .changes
            .iter()
            .zip(needs)
            .filter(|(_, needs)| !needs.is_empty())
            .map(|(change, needs)| (change.place, build_ask(&change.key, change.arrival.revision, needs)))
            .unzip();
        for (place, revision) in places.into_iter().zip(requests::make_requests(tx, &asks).await?) {
            self.stored[place].requested = revision;
        }
        Ok(())
    }

    /// Returns the reports that are written, for features.
    fn stored_reports(&self) -> Vec<StoredReport> {
        let stored = self.changes.iter().map(|change| StoredReport {
            id: change.key.report_id,
            variant: change.key.variant,
            app: rows::truncate_name(&change.arrival.facts.app),
            group: rows::GroupRow::from_details(&change.arrival.facts).map(|group| group.id),
            revision: change.arrival.revision,
            received_at: change.key.received_at,
            is_new: change.previous.is_none(),
            memory_exception: find_memory_exception(change),
        });
        stored.collect()
    }

    /// Returns how requests of reprocesses ended with these revisions.
    fn count_request_ends(&self) -> BTreeMap<ReprocessId, RequestEnds> {
        let changed = self.changes.iter().map(|change| (change.key, change.arrival.revision));
        let mut ends: BTreeMap<ReprocessId, RequestEnds> = BTreeMap::new();
        for (key, revision) in changed.chain(self.remembered.iter().copied()) {
            if let Some(id) = key.reprocess.filter(|_| revision >= key.requested_revision) {
                ends.entry(id).or_default().better += 1;
            }
        }
        ends
    }
}

/// Returns what a memory exception says of its end. Without a time its run is not found.
fn find_memory_exception(change: &Change<'_>) -> Option<MemoryException> {
    let facts = &change.arrival.facts;
    let at = facts.device_time.filter(|_| facts.is_memory_exception)?;
    Some(MemoryException {
        at,
        version: rows::truncate_name(&facts.version),
        model: facts.model.as_ref().map(|model| rows::truncate_name(model)),
        process_id: facts.process_id,
        run_id: facts.run_id.map(RunId::from_uuid),
        received_at: change.key.received_at,
        sender_key: facts.sender_key,
    })
}

fn build_ask(key: &KeyRow, revision: u32, needs: Vec<NeededSymbols>) -> Ask {
    Ask {
        report_id: key.report_id,
        variant: key.variant,
        latest_revision: revision,
        requested_revision: key.requested_revision,
        // A request that this revision answers is over.
        requested_at: key.requested_at.filter(|_| key.requested_revision > revision),
        needs,
        // Its row was brought back before it was written.
        is_moved: false,
    }
}
