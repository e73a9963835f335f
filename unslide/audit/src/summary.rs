//! The summary of the tally: a row for each partition and tenant, and all faults.

use super::tally::{ARRAY, AuditTally, NOWHERE, Part, RecordState, Role, Spot};
use serde::Serialize;
use std::collections::BTreeMap;
use unslide_proto::report::Outcome;

/// Examples and contradictions that are listed; the rest is counted.
const LISTED_EXAMPLES_LIMIT: usize = 100;
/// Copies of copies beyond which a history counts as damaged.
const COPY_DEPTH_LIMIT: usize = 100;

/// Reports of one tenant that came in on one partition, by outcome. An array counts as the reports in it once
/// it was taken, and as one before. Without faults `in = out + dead_letter + unchanged + fetching_failed +
/// forwarded + passed_on + source_gone + dropped + waiting + unread`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SummaryRow {
    /// The topic on which they came in.
    pub topic: String,
    pub partition: i32,
    /// The tenant; empty for records without one.
    pub tenant: String,
    /// Committed records.
    pub records: u64,
    /// Reports (or requests) in them.
    #[serde(rename = "in")]
    pub input: u64,
    /// Published.
    pub out: u64,
    /// In dead-letter.
    pub dead_letter: u64,
    /// Ended because newer symbols made nothing better.
    pub unchanged: u64,
    /// Ended because symbols could not be fetched, to be asked for again later.
    pub fetching_failed: u64,
    /// Sessions that waited in overflow and were sent on.
    pub forwarded: u64,
    /// Passed on to the cell that serves the tenant.
    pub passed_on: u64,
    /// Ended because the stored report was gone.
    pub source_gone: u64,
    /// Ended because the tenant or the report was deleted.
    pub dropped: u64,
    /// Taken, and waiting in retry or overflow.
    pub waiting: u64,
    /// Not taken yet.
    pub unread: u64,
    /// Deleted by retention before they were taken: lost as well.
    pub expired: u64,
    /// Outcomes beyond the first.
    pub duplicates: u64,
    /// Taken, and without an outcome.
    pub lost: u64,
}

impl SummaryRow {
    /// Outcomes that leave no other message.
    #[must_use]
    pub fn other_outcomes(&self) -> u64 {
        self.unchanged
            + self.fetching_failed
            + self.forwarded
            + self.passed_on
            + self.source_gone
            + self.dropped
    }

    /// Returns true if something is lost or doubled.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        self.lost + self.expired + self.duplicates > 0
    }

    fn count_outcome(&mut self, kind: u8, count: u64) {
        let field = match Outcome::try_from(i32::from(kind)) {
            Ok(Outcome::Symbolicated) => &mut self.out,
            Ok(Outcome::DeadLetter) => &mut self.dead_letter,
            Ok(Outcome::Unchanged) => &mut self.unchanged,
            Ok(Outcome::FetchingFailed) => &mut self.fetching_failed,
            Ok(Outcome::Forwarded) => &mut self.forwarded,
            Ok(Outcome::PassedOn) => &mut self.passed_on,
            Ok(Outcome::SourceGone) => &mut self.source_gone,
            Ok(Outcome::DroppedDeleted) => &mut self.dropped,
            // The copy is counted in its place.
            Ok(Outcome::Retry | Outcome::Overflow | Outcome::Unspecified) | Err(_) => return,
        };
        *field += count;
    }
}

/// One record that is lost or has too many outcomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// `lost` or `doubled`.
    pub what: &'static str,
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
    /// The tenant of the record.
    pub tenant: String,
    /// How many reports are missing or too many.
    pub reports: u64,
}

/// The sum of the audit.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// By topic, partition and tenant.
    pub rows: Vec<SummaryRow>,
    /// The first hundred records that are lost or doubled.
    pub findings: Vec<Finding>,
    /// Contradictions between records and ledger, or within either, each in a sentence.
    pub contradictions: Vec<String>,
    /// Notes for the operator that are no faults.
    pub notes: Vec<String>,
}

impl Summary {
    /// Returns true if nothing is lost, doubled or contradictory.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.contradictions.is_empty() && !self.rows.iter().any(SummaryRow::is_wrong)
    }

    /// Keeps the rows of one tenant. The records that expired were never read, so their tenant is unknown:
    /// the rows for them stay, with nothing else in them.
    pub fn retain_tenant(&mut self, tenant: &str) {
        self.findings.retain(|finding| finding.tenant == tenant);
        self.rows.retain_mut(|row| {
            let nobodys = row.tenant.is_empty() && row.expired > 0;
            if nobodys {
                let topic = std::mem::take(&mut row.topic);
                *row = SummaryRow {
                    topic,
                    partition: row.partition,
                    expired: row.expired,
                    ..SummaryRow::default()
                };
            }
            nobodys || row.tenant == tenant
        });
    }

    /// Adds up all rows.
    #[must_use]
    pub fn total(&self) -> SummaryRow {
        let mut sum = SummaryRow { topic: "all".to_owned(), ..SummaryRow::default() };
        for row in &self.rows {
            sum.records += row.records;
            sum.input += row.input;
            sum.out += row.out;
            sum.dead_letter += row.dead_letter;
            sum.unchanged += row.unchanged;
            sum.fetching_failed += row.fetching_failed;
            sum.forwarded += row.forwarded;
            sum.passed_on += row.passed_on;
            sum.source_gone += row.source_gone;
            sum.dropped += row.dropped;
            sum.waiting += row.waiting;
            sum.unread += row.unread;
            sum.expired += row.expired;
            sum.duplicates += row.duplicates;
            sum.lost += row.lost;
        }
        sum
    }
}

/// How much the tally can say.
#[derive(Clone, Copy, Debug, Default)]
pub struct AuditScope {
    /// True if the audit covers all that the logs hold, so that expired records count.
    pub everything: bool,
    /// True if the ledger was never cut by retention.
    pub whole_ledger: bool,
}

type Rows = BTreeMap<(u32, u16), SummaryRow>;

impl AuditTally {
    /// Adds everything up.
    #[must_use]
    pub fn into_summary(mut self, scope: AuditScope) -> Summary {
        let mut rows = Rows::new();
        let mut summary = Summary::default();
        for (number, part) in self.parts.iter().enumerate() {
            for (slot, noted) in part.slots.iter().enumerate() {
                let spot = Spot { part: number as u32, slot: slot as u32 };
                if noted.is_present() {
                    self.add_to_summary(spot, part, *noted, &mut rows, &mut summary);
                } else if noted.kind() != 0 && part.offset_at(spot.slot) >= part.extent.start {
                    let what =
                        format!("{}: has outcomes, and there is no such record", self.format_spot(spot));
                    summary.contradictions.push(what);
                }
            }
            if scope.everything && part.extent.role != Role::Copies {
                let expired = expired_offsets(part);
                if expired > 0 {
                    self.find_or_add_row(&mut rows, number as u32, 0).expired += expired;
                }
            }
        }
        self.expired_copies(scope, &mut rows, &mut summary);
        summary.contradictions.append(&mut self.contradictions);
        self.check_ledger(&mut summary.contradictions);
        shorten_list(&mut summary.contradictions);
        if self.strays > 0 {
            let what = "outcomes name no record that is consumed, or one that is not held any more";
            summary.notes.push(format!("{} {what}", self.strays));
        }
        for (topic, records) in &self.passed_to {
            summary.notes.push(format!("{records} records were passed on to {topic} of another cell"));
        }
        summary.rows = rows.into_values().collect();
        summary
            .rows
            .sort_by(|a, b| (&a.topic, a.partition, &a.tenant).cmp(&(&b.topic, b.partition, &b.tenant)));
        summary
    }

    fn find_or_add_row<'r>(&self, rows: &'r mut Rows, part: u32, tenant: u16) -> &'r mut SummaryRow {
        rows.entry((part, tenant)).or_insert_with(|| {
            let extent = &self.parts[part as usize].extent;
            SummaryRow {
                topic: extent.topic.to_string(),
                partition: extent.partition,
                tenant: self.tenants[usize::from(tenant)].clone(),
                ..SummaryRow::default()
            }
        })
    }

    /// Returns the record that a record counts for: itself, or the first one that it is a copy of. `None` if
    /// that lies outside the audited time.
    fn find_root(&self, spot: Spot) -> Option<Spot> {
        let mut at = spot;
        for _ in 0..COPY_DEPTH_LIMIT {
            let part = &self.parts[at.part as usize];
            if part.slots[at.slot as usize].is_excused() {
                return None;
            }
            let parent = part.parents.get(at.slot as usize).copied().unwrap_or(NOWHERE);
            let is_held = |spot: Spot| self.parts[spot.part as usize].slots[spot.slot as usize].is_present();
            if parent == NOWHERE || !is_held(parent) {
                return part.extent.counted.contains(&part.offset_at(at.slot)).then_some(at);
            }
            at = parent;
        }
        Some(spot)
    }

    fn add_to_summary(
        &self,
        spot: Spot,
        part: &Part,
        noted: RecordState,
        rows: &mut Rows,
        summary: &mut Summary,
    ) {
        let Some(root) = self.find_root(spot) else { return };
        let is_root = root == spot;
        let tenant = self.parts[root.part as usize].slots[root.slot as usize].tenant;
        let row = self.find_or_add_row(rows, root.part, tenant);
        let taken = part.extent.committed.is_some_and(|committed| part.offset_at(spot.slot) < committed);
        let mut units = 1;
        let mut missing = 0;
        match noted.kind() {
            0 => missing = 1,
            ARRAY => {
                if let Some(array) = self.arrays.get(&spot) {
                    units = u64::from(array.count);
                    missing = u64::from(array.missing_count());
                    for (kind, count) in (0..).zip(array.kinds) {
                        row.count_outcome(kind, count.into());
                    }
                }
            }
            kind => row.count_outcome(kind, 1),
        }
        if is_root {
            row.records += 1;
            row.input += units;
        } else {
            // The root counted the copy as one report.
            row.input += units - 1;
        }
        let mut finding = |what: &'static str, reports: u64| {
            if summary.findings.len() < LISTED_EXAMPLES_LIMIT {
                summary.findings.push(Finding {
                    what,
                    topic: part.extent.topic.to_string(),
                    partition: part.extent.partition,
                    offset: part.offset_at(spot.slot),
                    tenant: self.tenants[usize::from(tenant)].clone(),
                    reports,
                });
            }
        };
        if missing > 0 {
            if noted.via() != 0 {
                row.count_outcome(noted.via(), missing);
            } else if taken {
                row.lost += missing;
                finding("lost", missing);
            } else if is_root && !matches!(part.extent.role, Role::Copies | Role::Overflow) {
                row.unread += missing;
            } else {
                row.waiting += missing;
            }
        }
        if let Some(more) = self.surplus.get(&spot) {
            row.duplicates += u64::from(*more);
            finding("doubled", (*more).into());
        }
    }

    /// Counts copies that were deleted before they were taken. Below the start of such a log are markers of
    /// transactions as well, so offsets are no measure. By the ledger, at most the written copies, less the
    /// taken ones, less those that still wait, have expired. `written` leaves out copies that were written
    /// after the audit began; the other two numbers do not.
    fn expired_copies(&self, scope: AuditScope, rows: &mut Rows, summary: &mut Summary) {
        let copies = |part: &&Part| part.extent.role == Role::Copies;
        let gaps: Vec<(usize, u64)> = (0..)
            .zip(&self.parts)
            .filter(|(_, part)| copies(part))
            .map(|(number, part)| (number, expired_offsets(part)))
            .filter(|(_, gap)| *gap > 0)
            .collect();
        let gap: u64 = gaps.iter().map(|(_, gap)| gap).sum();
        let Some((first, _)) = gaps.first() else { return };
        if !(scope.everything && scope.whole_ledger) {
            summary.notes.push(format!(
                "{gap} offsets of retry and overflow were deleted unread: markers of transactions, or copies \
                 that expired; those show as lost while the log holds the records that they are copies of"
            ));
            return;
        }
        let (mut written, mut taken) = (0, 0);
        for (number, all) in &self.taken {
            let extent = &self.parts[*number].extent;
            for one in all {
                if extent.committed.is_some_and(|committed| one.next <= committed) {
                    written +=
                        one.outcomes[Outcome::Retry as usize] + one.outcomes[Outcome::Overflow as usize];
                }
                if extent.role == Role::Copies {
                    taken += one.records;
                }
            }
        }
        let waiting = |part: &Part| -> u64 {
            let committed = part.extent.committed.unwrap_or(0);
            let slots = (0..).zip(&part.slots);
            slots.filter(|(n, slot)| slot.is_present() && part.offset_at(*n) >= committed).count() as u64
        };
        let there: u64 = self.parts.iter().filter(copies).map(waiting).sum();
        let expired = written.saturating_sub(taken).saturating_sub(there).min(gap);
        if expired > 0 {
            self.find_or_add_row(rows, *first as u32, 0).expired += expired;
        }
    }
}

/// Offsets below the log's start that the group has not come to.
fn expired_offsets(part: &Part) -> u64 {
    let committed = part.extent.committed.unwrap_or(part.extent.start);
    u64::try_from(part.extent.start - committed).unwrap_or(0)
}

/// Keeps the first of many sentences, and says how many there were.
fn shorten_list(sentences: &mut Vec<String>) {
    if sentences.len() > LISTED_EXAMPLES_LIMIT {
        let more = sentences.len() - LISTED_EXAMPLES_LIMIT;
        sentences.truncate(LISTED_EXAMPLES_LIMIT);
        sentences.push(format!("and {more} more contradictions"));
    }
}
