//! Groups that lose their last report: late symbols move reports to other groups, and the notes of people go
//! with them.
//!
//! A group with reports that moved is replaced by the group that took most of them. A group that lost its
//! reports in another way stays if people wrote something, and is deleted if not.

use super::redirects::redirect_groups;
use super::state_row::write_states;
use super::{Deed, GroupAction, GroupActor, GroupStatus, record_actions};
use crate::events::StoreEvent;
use crate::{GroupId, Result, TenantTx, hooks, json};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use time::OffsetDateTime;
use unslide_model::is_newer;

/// The author of what the activity of a group says about reports.
pub(crate) const REPORTS_ACTOR: GroupActor<'static> = GroupActor { actor: "indexer", name: None };

/// Reports that left a group for another one.
pub(crate) struct GroupMove {
    pub(crate) from: GroupId,
    pub(crate) to: GroupId,
    pub(crate) reports: i64,
    pub(crate) first_seen: OffsetDateTime,
}

/// Counts reports that moved. The groups that they left are locked.
pub(crate) async fn record_moves(tx: &mut TenantTx, moves: &[GroupMove]) -> Result<()> {
    let from: Vec<GroupId> = moves.iter().map(|one| one.from).collect();
    let to: Vec<GroupId> = moves.iter().map(|one| one.to).collect();
    let reports: Vec<i64> = moves.iter().map(|one| one.reports).collect();
    let first_seen: Vec<OffsetDateTime> = moves.iter().map(|one| one.first_seen).collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO group_moves AS m (tenant, from_group, to_group, reports, first_seen)
         SELECT $1, n.from_group, n.to_group, n.reports, n.first_seen
         FROM unnest($2::uuid[], $3::uuid[], $4::bigint[], $5::timestamptz[])
              AS n (from_group, to_group, reports, first_seen)
         ORDER BY n.from_group, n.to_group
         ON CONFLICT (tenant, from_group, to_group) DO UPDATE
         SET reports = m.reports + EXCLUDED.reports, first_seen = least(m.first_seen, EXCLUDED.first_seen)",
        tenant,
        &from as &[GroupId],
        &to as &[GroupId],
        &reports,
        &first_seen
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// The state of a group.
struct GroupState {
    id: GroupId,
    title: String,
    status: GroupStatus,
    resolved_in: Option<String>,
    resolved_after: Option<String>,
    resolved_at: Option<OffsetDateTime>,
    regressed_in: Option<String>,
    regressed_at: Option<OffsetDateTime>,
    ignored_until: Option<OffsetDateTime>,
    ignored_until_reports: Option<i64>,
    ignored_until_devices: Option<i64>,
    ignored_after: Option<String>,
    assignee: Option<String>,
    ticket_url: Option<String>,
    first_seen: OffsetDateTime,
    last_seen: OffsetDateTime,
    last_version: String,
    /// True if it has comments.
    has_comments: bool,
    /// True if its status was ever set.
    has_status: bool,
}

impl GroupState {
    /// Returns true if people wrote something that would be lost with the group.
    fn has_words(&self) -> bool {
        self.has_comments
            || self.assignee.is_some()
            || self.ticket_url.is_some()
            || self.status != GroupStatus::Open
    }

    /// Returns true if a report of the group contradicts another group's resolution.
    fn is_newer_than_resolution(&self, resolved: &GroupState) -> bool {
        resolved.status == GroupStatus::Resolved
            && match resolved.resolved_in.as_ref().or(resolved.resolved_after.as_ref()) {
                Some(version) => is_newer(&self.last_version, version),
                None => resolved.resolved_at.is_some_and(|at| self.last_seen > at),
            }
    }

    /// Takes over the state of a group if its reports moved here, the first of which arrived at
    /// `first_moved`. The own assignee and ticket stay. A status is taken over only if the bug was not known before
    /// these reports: it must not hide an open bug.
    fn take_over(&mut self, replaced: &GroupState, first_moved: OffsetDateTime) -> bool {
        let takes_assignee = self.assignee.is_none() && replaced.assignee.is_some();
        if takes_assignee {
            self.assignee.clone_from(&replaced.assignee);
        }
        let takes_ticket = self.ticket_url.is_none() && replaced.ticket_url.is_some();
        if takes_ticket {
            self.ticket_url.clone_from(&replaced.ticket_url);
        }
        let is_new = self.status == GroupStatus::Open && !self.has_status && self.first_seen >= first_moved;
        let takes_status =
            is_new && replaced.status != GroupStatus::Open && !self.is_newer_than_resolution(replaced);
        if takes_status {
            self.status = replaced.status;
            self.resolved_in.clone_from(&replaced.resolved_in);
            self.resolved_after.clone_from(&replaced.resolved_after);
            self.resolved_at = replaced.resolved_at;
            self.regressed_in.clone_from(&replaced.regressed_in);
            self.regressed_at = replaced.regressed_at;
            self.ignored_until = replaced.ignored_until;
            self.ignored_until_reports = replaced.ignored_until_reports;
            self.ignored_until_devices = replaced.ignored_until_devices;
            self.ignored_after.clone_from(&replaced.ignored_after);
            self.has_status = true;
        }
        takes_assignee || takes_ticket || takes_status
    }

    /// Returns the state for [`write_states`].
    fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "status": self.status.as_str(),
            "resolved_in": self.resolved_in,
            "resolved_after": self.resolved_after,
            "resolved_at": self.resolved_at.map(json::format_time),
            "regressed_in": self.regressed_in,
            "regressed_at": self.regressed_at.map(json::format_time),
            "ignored_until": self.ignored_until.map(json::format_time),
            "ignored_until_reports": self.ignored_until_reports,
            "ignored_until_devices": self.ignored_until_devices,
            "ignored_after": self.ignored_after,
            "assignee": self.assignee,
            "ticket_url": self.ticket_url,
        })
    }
}

/// Destination of the reports of an empty group: an existing group, or the group that is listed in its place.
#[derive(Clone, Copy)]
struct Destination {
    from: GroupId,
    to: GroupId,
    reports: i64,
    first_seen: OffsetDateTime,
}

/// Replaces, keeps or deletes those of these groups that have no reports and no part in a merge. The groups
/// must be locked.
pub(crate) async fn retire_empty(tx: &mut TenantTx, ids: &[GroupId]) -> Result<()> {
    let empty = find_empty(tx, ids).await?;
    if empty.is_empty() {
        return Ok(());
    }
    let ids: BTreeSet<GroupId> = empty.iter().map(|group| group.id).collect();
    let destinations = find_destinations(tx, &ids).await?;
    let successors = choose_successors(&ids, &destinations);
    let replaced = match successors.is_empty() {
        true => BTreeSet::new(),
        false => replace_groups(tx, &empty, &successors, &destinations).await?,
    };
    let is_gone = |group: &&GroupState| replaced.contains(&group.id) || !group.has_words();
    let gone: Vec<GroupId> = empty.iter().filter(is_gone).map(|group| group.id).collect();
    delete_groups(tx, &gone).await
}

/// Replaces groups by their successors, and returns their ids.
async fn replace_groups(
    tx: &mut TenantTx,
    empty: &[GroupState],
    successors: &BTreeMap<GroupId, Destination>,
    destinations: &[Destination],
) -> Result<BTreeSet<GroupId>> {
    // These locks are out of the order of batches if no report of this batch went to a successor. Two batches
    // that wait for each other would wait for the database's deadlock check: this one gives up before, and
    // its error is retriable.
    sqlx::query("SET LOCAL lock_timeout TO '250ms'").execute(tx.parts().0).await?;
    let mut targets = lock_targets(tx, successors.values().map(|to| to.to).collect()).await?;
    let mut replaced: Vec<(&GroupState, Destination)> = empty
        .iter()
        .filter_map(|group| Some((group, *successors.get(&group.id)?)))
        .filter(|pair| targets.contains_key(&pair.1.to))
        .collect();
    // Of groups with one successor, the state of the one that gave most reports counts first.
    replaced.sort_by_key(|pair| (Reverse(pair.1.reports), pair.0.id));
    hand_over_words(tx, &replaced, &mut targets, destinations).await?;
    sqlx::query("SET LOCAL lock_timeout TO DEFAULT").execute(tx.parts().0).await?;
    Ok(replaced.iter().map(|pair| pair.0.id).collect())
}

async fn find_empty(tx: &mut TenantTx, ids: &[GroupId]) -> Result<Vec<GroupState>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        GroupState,
        r#"SELECT g.id AS "id: GroupId", g.title, g.status AS "status: GroupStatus", g.resolved_in, g.resolved_after, g.resolved_at,
                  g.regressed_in, g.regressed_at, g.ignored_until, g.ignored_until_reports, g.ignored_until_devices,
                  g.ignored_after, g.assignee, g.ticket_url, g.first_seen, g.last_seen, g.last_version,
                  EXISTS (SELECT FROM group_activity a
                          WHERE a.tenant = $1 AND a.group_id = g.id AND a.action = 'commented') AS "has_comments!",
                  false AS "has_status!"
           FROM groups g
           WHERE g.tenant = $1 AND g.id = ANY ($2) AND g.reports <= 0 AND g.merged_into IS NULL
             AND NOT EXISTS (SELECT FROM groups m WHERE m.tenant = $1 AND m.merged_into = g.id)
           ORDER BY g.id"#,
        tenant,
        ids as &[GroupId]
    )
    .fetch_all(connection)
    .await?)
}

/// Reads the present groups of the reports of these groups: behind redirects, and in the groups that are
/// listed for them.
async fn find_destinations(tx: &mut TenantTx, ids: &BTreeSet<GroupId>) -> Result<Vec<Destination>> {
    let ids: Vec<GroupId> = ids.iter().copied().collect();
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        Destination,
        r#"SELECT m.from_group AS "from!: GroupId", coalesce(g.merged_into, g.id) AS "to!: GroupId", sum(m.reports)::bigint AS "reports!",
                  min(m.first_seen) AS "first_seen!"
           FROM group_moves m
           LEFT JOIN group_redirects r ON r.tenant = $1 AND r.id = m.to_group
           JOIN groups g ON g.tenant = $1 AND g.id = coalesce(r.target, m.to_group)
           WHERE m.tenant = $1 AND m.from_group = ANY ($2) AND coalesce(g.merged_into, g.id) <> m.from_group
           GROUP BY 1, 2 ORDER BY 1, 2"#,
        tenant,
        &ids as &[GroupId]
    )
    .fetch_all(connection)
    .await?)
}

/// Chooses the destination of each group that got most of its reports. A destination that is without reports
/// itself counts as its own successor.
fn choose_successors(
    empty: &BTreeSet<GroupId>,
    destinations: &[Destination],
) -> BTreeMap<GroupId, Destination> {
    let mut chosen: BTreeMap<GroupId, Destination> = BTreeMap::new();
    loop {
        let undecided = |id: &GroupId| empty.contains(id) && !chosen.contains_key(id);
        let open: BTreeSet<GroupId> = destinations.iter().map(|one| one.from).filter(&undecided).collect();
        let ready = |id: &&GroupId| !destinations.iter().any(|one| one.from == **id && undecided(&one.to));
        // If the reports of groups went to each other, none comes first: reports that went elsewhere decide.
        let next = open.iter().find(ready).or_else(|| {
            open.iter().find(|id| destinations.iter().any(|one| one.from == **id && !undecided(&one.to)))
        });
        let Some(next) = next.copied() else { return chosen };
        let mut sums: BTreeMap<GroupId, Destination> = BTreeMap::new();
        for one in destinations.iter().filter(|one| one.from == next && !undecided(&one.to)) {
            let to = chosen.get(&one.to).map_or(one.to, |successor| successor.to);
            let sum = sums.entry(to).or_insert(Destination { to, reports: 0, ..*one });
            sum.reports += one.reports;
            sum.first_seen = sum.first_seen.min(one.first_seen);
        }
        let Some(most) = sums.into_values().max_by_key(|one| (one.reports, Reverse(one.to))) else {
            return chosen;
        };
        chosen.insert(next, most);
    }
}

/// Locks the groups that replace others. A group that is gone by now is not among them.
async fn lock_targets(tx: &mut TenantTx, ids: BTreeSet<GroupId>) -> Result<BTreeMap<GroupId, GroupState>> {
    let ids: Vec<GroupId> = ids.into_iter().collect();
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query_as!(
        GroupState,
        r#"SELECT g.id AS "id: GroupId", g.title, g.status AS "status: GroupStatus", g.resolved_in, g.resolved_after, g.resolved_at,
                  g.regressed_in, g.regressed_at, g.ignored_until, g.ignored_until_reports, g.ignored_until_devices,
                  g.ignored_after, g.assignee, g.ticket_url, g.first_seen, g.last_seen, g.last_version, false AS "has_comments!",
                  EXISTS (SELECT FROM group_activity a WHERE a.tenant = $1 AND a.group_id = g.id
                            AND a.action IN ('resolved', 'ignored', 'ignore_ended', 'reopened',
                                                 'regressed', 'undone')) AS "has_status!"
           FROM groups g WHERE g.tenant = $1 AND g.id = ANY ($2) ORDER BY g.id FOR NO KEY UPDATE OF g"#,
        tenant,
        &ids as &[GroupId]
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row)).collect())
}

/// Moves state, activity and id of groups to what replaces them.
async fn hand_over_words(
    tx: &mut TenantTx,
    replaced: &[(&GroupState, Destination)],
    targets: &mut BTreeMap<GroupId, GroupState>,
    destinations: &[Destination],
) -> Result<()> {
    if replaced.is_empty() {
        return Ok(());
    }
    let mut changed = BTreeSet::new();
    for (group, to) in replaced {
        if let Some(target) = targets.get_mut(&to.to)
            && target.take_over(group, to.first_seen)
        {
            changed.insert(target.id);
        }
    }
    let states = targets.values().filter(|target| changed.contains(&target.id)).map(GroupState::to_json);
    write_states(tx, states.collect()).await?;
    let pairs: Vec<(GroupId, GroupId)> = replaced.iter().map(|pair| (pair.0.id, pair.1.to)).collect();
    move_activity(tx, &pairs).await?;
    let discussed: Vec<_> = replaced.iter().filter(|pair| pair.0.has_words()).collect();
    let others = destinations.iter().filter_map(|one| {
        let pair = discussed.iter().find(|pair| pair.0.id == one.from && pair.1.to != one.to)?;
        Some((pair, one.to))
    });
    let others: Vec<_> = others.collect();
    let there = lock_others(tx, others.iter().map(|other| other.1).collect()).await?;
    let mut deeds = Vec::new();
    for (group, to) in replaced.iter().filter(|pair| pair.0.has_words()) {
        let (text, other) = (Some(group.title.as_str()), Some(group.id));
        deeds.push(Deed { group: to.to, action: GroupAction::Replaced, text, other });
    }
    for (pair, id) in others.iter().filter(|other| there.contains(&other.1)) {
        let title = targets.get(&pair.1.to).map(|target| target.title.as_str());
        let action = GroupAction::ReplacedInPart;
        deeds.push(Deed { group: *id, action, text: title, other: Some(pair.1.to) });
    }
    if !deeds.is_empty() {
        record_actions(tx, REPORTS_ACTOR, &deeds).await?;
    }
    redirect_groups(tx, &pairs).await
}

/// Moves activity with its authors and times. Each entry remembers the group that it was written to.
async fn move_activity(tx: &mut TenantTx, pairs: &[(GroupId, GroupId)]) -> Result<()> {
    let (ids, targets): (Vec<GroupId>, Vec<GroupId>) = pairs.iter().copied().unzip();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE group_activity a SET group_id = n.target, moved_from = coalesce(a.moved_from, a.group_id)
         FROM unnest($2::uuid[], $3::uuid[]) AS n (id, target) WHERE a.tenant = $1 AND a.group_id = n.id",
        tenant,
        &ids as &[GroupId],
        &targets as &[GroupId]
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Protects groups from being deleted until the transaction ends. Returns those that exist.
async fn lock_others(tx: &mut TenantTx, ids: Vec<GroupId>) -> Result<BTreeSet<GroupId>> {
    if ids.is_empty() {
        return Ok(BTreeSet::new());
    }
    let (connection, tenant, _) = tx.parts();
    let there = sqlx::query_scalar!(
        r#"SELECT id AS "id: GroupId" FROM groups WHERE tenant = $1 AND id = ANY ($2) ORDER BY id FOR KEY SHARE"#,
        tenant,
        &ids as &[GroupId]
    )
    .fetch_all(connection)
    .await?;
    Ok(there.into_iter().collect())
}

async fn delete_groups(tx: &mut TenantTx, ids: &[GroupId]) -> Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let (connection, tenant, _) = tx.parts();
    sqlx::query!("DELETE FROM groups WHERE tenant = $1 AND id = ANY ($2)", tenant, ids as &[GroupId])
        .execute(connection)
        .await?;
    hooks::send_event(StoreEvent::GroupsDeleted(tx, ids)).await
}
