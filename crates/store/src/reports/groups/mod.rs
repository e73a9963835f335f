//! Groups of reports with the same fingerprint, kept in step with the reports.

mod breakdowns;
mod counts;
pub mod deltas;
mod devices;
mod hours;
mod moved;
mod regressions;
pub mod regroup;
mod sketches;
mod terms;
mod write;

use super::Change;
use super::rollups::Counted;
use super::rows::{GroupRow, GroupTexts, MadeOn, truncate_name, truncate_title};
use crate::groups::{GroupEvent, GroupMove, end_redirects, name_groups, record_moves};
use crate::{GroupId, Result, TenantTx};
pub(super) use deltas::lock_groups;
use regressions::NewReport;
pub use regressions::return_group;
pub(crate) use sketches::{device_hash, stored_sketch};
use std::collections::BTreeMap;
pub(crate) use terms::normalize_term;
pub(super) use terms::update_terms;
use time::OffsetDateTime;

/// A report that a group gains or loses, or that stays in it with another answer.
struct GroupChange<'c> {
    row: GroupRow<'c>,
    version: String,
    made_on: MadeOn,
    received_at: OffsetDateTime,
    /// The group that the report leaves for this one.
    from: Option<GroupId>,
    /// The group that a report goes to that leaves this one, if symbols or another report of the crash decide that.
    to: Option<GroupId>,
    /// 1, -1, or 0 if it stays.
    sign: i64,
    /// The weight of the report.
    weight: i64,
}

impl GroupChange<'_> {
    /// Returns the number to add to counts of reports.
    fn report_delta(&self) -> i64 {
        self.sign * self.weight
    }
}

/// Counts new reports, moves reports that belong to another group by their new revision, and reopens resolved
/// and ignored groups that come back. Returns the events of these groups.
pub(super) async fn record_groups(tx: &mut TenantTx, changes: &[Change<'_>]) -> Result<Vec<GroupEvent>> {
    let mut counted = Vec::new();
    let mut new_reports = Vec::new();
    let mut left = Vec::new();
    for change in changes.iter().filter(|change| change.is_counted()) {
        let (version, received_at) = (truncate_name(&change.arrival.facts.version), change.key.received_at);
        let weight = change.weight();
        let made_on = MadeOn::from_details(&change.arrival.facts);
        let new = GroupRow::from_details(&change.arrival.facts);
        let old = change.previous.as_ref().and_then(|previous| Some((previous, previous.group?)));
        let texts = GroupTexts::from_details(&change.arrival.facts);
        let was = old.map(|(previous, id)| (id, &previous.version, &previous.made_on, &previous.texts));
        let is_same = was == new.as_ref().map(|row| (row.id, &version, &made_on, &texts));
        if let Some((previous, id)) = old.filter(|_| !is_same) {
            let to = new.as_ref().map(|row| row.id).filter(|to| *to != id);
            let leaving =
                leaving_change(id, &previous.app, &previous.version, &previous.made_on, received_at, weight);
            counted.push(GroupChange { to, ..leaving });
            let stays = new.as_ref().is_some_and(|row| row.id == id) && previous.texts == texts;
            left.extend((!stays).then_some((id, &previous.texts)));
        }
        // A report that comes with its next revision has moved in, as if that had come later.
        let came = GroupRow::from_details(&change.came.facts).map(|row| row.id);
        let arrived = new.as_ref().filter(|row| change.previous.is_none() && came == Some(row.id));
        new_reports.extend(arrived.map(|row| NewReport {
            group: row.id,
            version: version.clone(),
            received_at,
        }));
        // A report that stays is not counted again, but its culprit may be known better.
        let (from, sign) = if is_same { (None, 0) } else { (old.map(|(_, id)| id), 1) };
        let change = |row| GroupChange { row, version, made_on, received_at, from, to: None, sign, weight };
        counted.extend(new.map(change));
    }
    let written = write_changes(tx, &counted, EmptyGroups::Retire).await?;
    let counting = changes.iter().rev().filter(|change| change.is_counted());
    let found_by = counting.map(|change| &change.arrival.facts);
    let arrived = found_by.filter_map(|facts| Some((GroupRow::from_details(facts)?, &facts.terms)));
    terms::update_terms(tx, arrived, left.into_iter()).await?;
    let regressed = regressions::reopen_settled(tx, new_reports, &written.targets).await?;
    Ok(written.created.into_iter().chain(regressed).collect())
}

/// Takes a report out of its group. `to` is the group of the report that is counted instead of it.
pub(super) async fn take_back(tx: &mut TenantTx, report: &Counted, to: Option<GroupId>) -> Result<()> {
    let Some(id) = report.group else { return Ok(()) };
    let to = to.filter(|to| *to != id);
    let leaving =
        leaving_change(id, &report.app, &report.version, &report.made_on, report.received_at, report.weight);
    write_changes(tx, &[GroupChange { to, ..leaving }], EmptyGroups::Retire).await?;
    terms::update_terms(tx, std::iter::empty(), std::iter::once((id, &report.texts))).await
}

fn leaving_change<'c>(
    id: GroupId,
    app: &str,
    version: &str,
    made_on: &MadeOn,
    received_at: OffsetDateTime,
    weight: i64,
) -> GroupChange<'c> {
    let row = GroupRow { id, app: app.to_owned(), grouping: None };
    GroupChange {
        row,
        version: version.to_owned(),
        made_on: made_on.clone(),
        received_at,
        from: None,
        to: None,
        sign: -1,
        weight,
    }
}

/// A number of reports, the first and the last of them.
#[derive(Clone)]
struct Span {
    reports: i64,
    /// Reports that are counted by the weight of others.
    extrapolated: i64,
    first: (OffsetDateTime, String),
    last: (OffsetDateTime, String),
}

impl Span {
    fn add_change(span: &mut Option<Span>, one: &GroupChange<'_>) {
        let seen = (one.received_at, one.version.clone());
        let span = span.get_or_insert_with(|| Span {
            reports: 0,
            extrapolated: 0,
            first: seen.clone(),
            last: seen.clone(),
        });
        span.reports += one.report_delta();
        span.extrapolated += one.report_delta() - one.sign;
        span.first = span.first.clone().min(seen.clone());
        span.last = span.last.clone().max(seen);
    }
}

/// The changes of one group.
struct Delta<'c> {
    row: &'c GroupRow<'c>,
    title: Option<String>,
    culprit: Option<String>,
    /// The span of its own reports.
    own: Option<Span>,
    /// Of these and of the reports of groups that are merged into it.
    total: Option<Span>,
}

impl<'c> Delta<'c> {
    fn from_row(row: &'c GroupRow<'c>) -> Delta<'c> {
        Delta { row, title: None, culprit: None, own: None, total: None }
    }

    fn add_own(&mut self, one: &'c GroupChange<'c>) {
        if let Some(grouping) = one.row.grouping {
            self.row = &one.row;
            let (new_title, new_culprit) =
                (truncate_title(&grouping.title), truncate_title(&grouping.culprit));
            self.title = Some(match self.title.take() {
                Some(known) => known.min(new_title),
                None => new_title,
            });
            self.culprit = self.culprit.take().max(Some(new_culprit));
        }
        Span::add_change(&mut self.own, one);
        Span::add_change(&mut self.total, one);
    }
}

/// The result of a write.
#[derive(Default)]
struct Written {
    created: Vec<GroupEvent>,
    /// The groups that are merged, and into which.
    targets: BTreeMap<GroupId, GroupId>,
}

/// Decides about groups that lose their last report.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EmptyGroups {
    /// They are replaced by the groups that their reports moved to. Others stay if people wrote something, or
    /// are deleted.
    Retire,
    /// They stay, and no list has them: other rules may bring their reports back.
    Keep,
}

/// Moves reports between groups as rules change: groups that are left empty stay.
async fn write_keeping(tx: &mut TenantTx, counted: &[GroupChange<'_>]) -> Result<()> {
    write_changes(tx, counted, EmptyGroups::Keep).await.map(drop)
}

async fn write_changes(
    tx: &mut TenantTx,
    counted: &[GroupChange<'_>],
    empty: EmptyGroups,
) -> Result<Written> {
    if counted.is_empty() {
        return Ok(Written::default());
    }
    let ids: Vec<GroupId> = counted.iter().map(|one| one.row.id).collect();
    let targets = write::find_merge_targets(tx, &ids).await?;
    // A target without reports of its own here exists already, so only its counts are needed.
    let placeholders: BTreeMap<GroupId, GroupRow<'_>> =
        targets.values().map(|id| (*id, GroupRow { id: *id, app: String::new(), grouping: None })).collect();
    let mut groups: BTreeMap<GroupId, Delta<'_>> = BTreeMap::new();
    for one in counted {
        groups.entry(one.row.id).or_insert_with(|| Delta::from_row(&one.row)).add_own(one);
        if let Some((target, row)) = targets.get(&one.row.id).and_then(|id| placeholders.get_key_value(id)) {
            Span::add_change(&mut groups.entry(*target).or_insert_with(|| Delta::from_row(row)).total, one);
        }
    }
    let created = write::write_groups(tx, &groups).await?;
    if !created.is_empty() {
        end_redirects(tx, &created.iter().copied().collect::<Vec<_>>()).await?;
        let named = created.iter().filter_map(|id| Some((*id, groups.get(id)?.row.app.as_str())));
        name_groups(tx, &named.collect::<Vec<_>>()).await?;
    }
    let moves = sum_moves(counted);
    if !moves.is_empty() {
        record_moves(tx, &moves).await?;
    }
    let leaving: Vec<&GroupChange<'_>> = counted.iter().filter(|one| one.sign < 0).collect();
    if !leaving.is_empty() {
        write::look_again(tx, &leaving, &targets, empty).await?;
    }
    deltas::record_counts(tx, counted).await?;
    devices::count_devices(tx, counted).await?;
    // A group that is merged into another is not new to anyone.
    let created = groups.values().filter(|delta| {
        created.contains(&delta.row.id) && delta.own.is_some() && !targets.contains_key(&delta.row.id)
    });
    let created = created.filter_map(|delta| {
        let (received_at, version) = delta.own.as_ref()?.first.clone();
        let of_group = counted.iter().filter(|one| one.row.id == delta.row.id);
        Some(GroupEvent::Created {
            group: delta.row.id,
            app: delta.row.app.clone(),
            title: delta.title.clone().unwrap_or_default(),
            culprit: delta.culprit.clone().unwrap_or_default(),
            version,
            received_at,
            provisional: delta.row.grouping.is_some_and(|grouping| grouping.provisional),
            moved_from: of_group.filter_map(|one| one.from).collect(),
        })
    });
    Ok(Written { created: created.collect(), targets })
}

/// Adds up the reports that move from one group to another.
fn sum_moves(counted: &[GroupChange<'_>]) -> Vec<GroupMove> {
    let mut moves: BTreeMap<(GroupId, GroupId), GroupMove> = BTreeMap::new();
    for one in counted {
        if let Some(to) = one.to {
            let (from, first_seen) = (one.row.id, one.received_at);
            let of_pair = moves.entry((from, to)).or_insert(GroupMove { from, to, reports: 0, first_seen });
            of_pair.reports += one.weight;
            of_pair.first_seen = of_pair.first_seen.min(first_seen);
        }
    }
    moves.into_values().collect()
}
