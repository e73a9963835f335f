//! Merges groups that are one bug, and splits them again.
//!
//! A merge moves no report. Each group goes on counting the reports of its own fingerprint; the target counts
//! them too. So a merge costs the same for one report and for a million, survives new revisions, and is
//! undone exactly.

use super::{Deed, GroupAction, GroupActor, follow_redirects, lock_for_merges, record_actions, retire_empty};
use crate::events::StoreEvent;
use crate::{GroupId, Result, TenantTx, hooks};
use std::collections::BTreeMap;

/// Groups that one group may have merged into it.
pub const MAX_MERGED: usize = 200;

/// The outcome of a merge or a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeOutcome {
    /// It is done.
    Done,
    /// There is no such group.
    NotFound(GroupId),
    /// The group is of another app.
    OtherApp(GroupId),
    /// The group is merged into another one.
    Merged {
        /// The group.
        group: GroupId,
        /// The group that it is merged into.
        into: GroupId,
    },
    /// The target would have more than [`MAX_MERGED`].
    TooMany,
    /// The group is not merged into the one that it is to be taken out of.
    NotMerged(GroupId),
}

/// A group as far as merges go.
struct MergeRow {
    id: GroupId,
    app: String,
    title: String,
    merged_into: Option<GroupId>,
}

/// Merges groups of one app, and the groups merged into them, into `target`. Groups that are merged into it
/// already stay so. With `app`, only groups of that app are found. If one group cannot be merged, none is.
pub async fn merge_groups(
    tx: &mut TenantTx,
    target: GroupId,
    groups: &[GroupId],
    app: Option<&str>,
    actor: GroupActor<'_>,
) -> Result<MergeOutcome> {
    let plan = plan_merge(tx, target, groups, app).await?;
    let refused = [plan.outcome].into_iter().chain(plan.outcomes.iter().copied());
    if let Some(refused) = { refused }.find(|outcome| *outcome != MergeOutcome::Done) {
        return Ok(refused);
    }
    carry_out(tx, &plan, actor).await
}

/// Merges groups as [`merge_groups`] does, but a group that cannot be merged does not keep the others from it.
/// Returns the outcome of each group in its place; if the target cannot take any, its outcome for all.
pub async fn merge_each(
    tx: &mut TenantTx,
    target: GroupId,
    groups: &[GroupId],
    app: Option<&str>,
    actor: GroupActor<'_>,
) -> Result<Vec<MergeOutcome>> {
    let plan = plan_merge(tx, target, groups, app).await?;
    if plan.outcome != MergeOutcome::Done {
        return Ok(vec![plan.outcome; groups.len()]);
    }
    match carry_out(tx, &plan, actor).await? {
        MergeOutcome::Done => Ok(plan.outcomes),
        refused => Ok(vec![refused; groups.len()]),
    }
}

/// A merge that was looked into.
struct MergePlan {
    target: GroupId,
    /// Whether the target can take groups.
    outcome: MergeOutcome,
    /// The target's title.
    title: String,
    /// Outcome for each group that was asked for, in its place.
    outcomes: Vec<MergeOutcome>,
    /// The groups that are to be merged, each once.
    merging: Vec<MergeRow>,
}

/// Locks the groups of a merge, and decides about each. An outcome names a group by the id that was asked for:
/// the caller may not know another one.
async fn plan_merge(
    tx: &mut TenantTx,
    target: GroupId,
    groups: &[GroupId],
    app: Option<&str>,
) -> Result<MergePlan> {
    lock_for_merges(tx).await?;
    let asked = [&[target][..], groups].concat();
    let followed = follow_redirects(tx, &asked).await?;
    let mut found = lock_merge_rows(tx, &followed, app).await?;
    let into = followed.first().copied().unwrap_or(target);
    let mut plan = MergePlan {
        target: into,
        outcome: MergeOutcome::NotFound(target),
        title: String::new(),
        outcomes: Vec::new(),
        merging: Vec::new(),
    };
    let Some(row) = found.get(&into) else { return Ok(plan) };
    plan.title.clone_from(&row.title);
    plan.outcome = match row.merged_into {
        Some(other) => MergeOutcome::Merged { group: into, into: other },
        None => MergeOutcome::Done,
    };
    let target_app = row.app.clone();
    let decide = |place: usize| {
        let asked = asked.get(place).copied().unwrap_or(target);
        let id = followed.get(place).copied().unwrap_or(asked);
        match found.get(&id) {
            None => MergeOutcome::NotFound(asked),
            Some(row) if row.app != target_app => MergeOutcome::OtherApp(id),
            Some(MergeRow { merged_into: Some(other), .. }) if *other != into => {
                MergeOutcome::Merged { group: id, into: *other }
            }
            Some(_) => MergeOutcome::Done,
        }
    };
    plan.outcomes = (1..asked.len()).map(decide).collect();
    for (id, outcome) in followed.iter().skip(1).zip(&plan.outcomes) {
        let is_new = *outcome == MergeOutcome::Done && *id != into;
        // Taken out, so that a group that was asked for twice is merged once.
        let row = if is_new { found.remove(id) } else { None };
        plan.merging.extend(row.filter(|row| row.merged_into.is_none()));
    }
    Ok(plan)
}

/// Merges the groups of a plan, unless the target would have more than [`MAX_MERGED`].
async fn carry_out(tx: &mut TenantTx, plan: &MergePlan, actor: GroupActor<'_>) -> Result<MergeOutcome> {
    let ids: Vec<GroupId> = plan.merging.iter().map(|row| row.id).collect();
    if !set_merge_target(tx, plan.target, &ids).await? {
        return Ok(MergeOutcome::TooMany);
    }
    let changed = [&ids[..], &[plan.target]].concat();
    refresh_totals(tx, &changed).await?;
    recount_devices(tx, &changed).await?;
    let both = plan.merging.iter().flat_map(|row| {
        [
            Deed {
                group: plan.target,
                action: GroupAction::Merged,
                text: Some(&row.title),
                other: Some(row.id),
            },
            Deed {
                group: row.id,
                action: GroupAction::MergedInto,
                text: Some(&plan.title),
                other: Some(plan.target),
            },
        ]
    });
    record_actions(tx, actor, &both.collect::<Vec<_>>()).await?;
    hooks::send_event(StoreEvent::GroupsMerged(tx, &[plan.target])).await?;
    Ok(MergeOutcome::Done)
}

/// Points groups, and the groups merged into them, to the target. Returns false if the target would have more
/// than [`MAX_MERGED`].
async fn set_merge_target(tx: &mut TenantTx, target: GroupId, ids: &[GroupId]) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let merged = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM groups WHERE tenant = $1 AND (merged_into = $2 OR merged_into = ANY ($3))"#,
        tenant,
        target as GroupId,
        ids as &[GroupId]
    )
    .fetch_one(&mut *connection)
    .await?;
    if usize::try_from(merged).unwrap_or(usize::MAX).saturating_add(ids.len()) > MAX_MERGED {
        return Ok(false);
    }
    sqlx::query!(
        "UPDATE groups SET merged_into = $2 WHERE tenant = $1 AND (id = ANY ($3) OR merged_into = ANY ($3))",
        tenant,
        target as GroupId,
        ids as &[GroupId]
    )
    .execute(connection)
    .await?;
    Ok(true)
}

/// Takes a group out of `target` again, with its own reports and the state that it had.
pub async fn split_group(
    tx: &mut TenantTx,
    target: GroupId,
    group: GroupId,
    app: Option<&str>,
    actor: GroupActor<'_>,
) -> Result<MergeOutcome> {
    lock_for_merges(tx).await?;
    let asked = (target, group);
    let followed = follow_redirects(tx, &[target, group]).await?;
    let [target, group] = *followed else { return Ok(MergeOutcome::NotFound(target)) };
    let found = lock_merge_rows(tx, &[target, group], app).await?;
    let Some(from) = found.get(&target) else { return Ok(MergeOutcome::NotFound(asked.0)) };
    let Some(row) = found.get(&group) else { return Ok(MergeOutcome::NotFound(asked.1)) };
    if row.merged_into != Some(target) {
        return Ok(MergeOutcome::NotMerged(group));
    }
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE groups SET merged_into = NULL WHERE tenant = $1 AND id = $2",
        tenant,
        group as GroupId
    )
    .execute(connection)
    .await?;
    refresh_totals(tx, &[target, group]).await?;
    recount_devices(tx, &[target, group]).await?;
    let deeds = [
        Deed { group: target, action: GroupAction::Split, text: Some(&row.title), other: Some(group) },
        Deed { group, action: GroupAction::SplitFrom, text: Some(&from.title), other: Some(target) },
    ];
    record_actions(tx, actor, &deeds).await?;
    hooks::send_event(StoreEvent::GroupsMerged(tx, &[target, group])).await?;
    retire_empty(tx, &[target, group]).await?;
    Ok(MergeOutcome::Done)
}

async fn lock_merge_rows(
    tx: &mut TenantTx,
    ids: &[GroupId],
    app: Option<&str>,
) -> Result<BTreeMap<GroupId, MergeRow>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query_as!(
        MergeRow,
        r#"SELECT id AS "id: GroupId", app, title, merged_into AS "merged_into: GroupId" FROM groups
         WHERE tenant = $1 AND id = ANY ($2) AND ($3::text IS NULL OR app = $3) ORDER BY id FOR UPDATE"#,
        tenant,
        ids as &[GroupId],
        app
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row)).collect())
}

/// Computes the counts of groups from their own counts and those of the groups merged into them. The groups'
/// rows have to be locked, so that this statement sees the counts of other transactions.
pub(crate) async fn refresh_totals(tx: &mut TenantTx, ids: &[GroupId]) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        r#"UPDATE groups t
           SET reports = s.reports,
               first_seen = coalesce(f.seen, t.first_seen), first_version = coalesce(f.version, t.first_version),
               last_seen = coalesce(l.seen, t.last_seen), last_version = coalesce(l.version, t.last_version)
           FROM (SELECT DISTINCT id FROM unnest($2::uuid[]) AS u (id)) n
           CROSS JOIN LATERAL (SELECT coalesce(sum(m.own_reports), 0)::bigint AS reports FROM groups m
                               WHERE m.tenant = $1 AND (m.id = n.id OR m.merged_into = n.id)) s
           LEFT JOIN LATERAL (SELECT m.own_first_seen AS seen, m.own_first_version AS version FROM groups m
                              WHERE m.tenant = $1 AND (m.id = n.id OR m.merged_into = n.id) AND m.own_first_seen IS NOT NULL
                              ORDER BY 1, m.own_first_version COLLATE "C" LIMIT 1) f ON true
           LEFT JOIN LATERAL (SELECT m.own_last_seen AS seen, m.own_last_version AS version FROM groups m
                              WHERE m.tenant = $1 AND (m.id = n.id OR m.merged_into = n.id) AND m.own_last_seen IS NOT NULL
                              ORDER BY 1 DESC, m.own_last_version COLLATE "C" DESC LIMIT 1) l ON true
           WHERE t.tenant = $1 AND t.id = n.id"#,
        tenant,
        ids as &[GroupId]
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Counts the different devices of groups again after their merges have changed. Reads every device of a
/// target once.
async fn recount_devices(tx: &mut TenantTx, ids: &[GroupId]) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        r#"UPDATE groups t SET devices = CASE
               WHEN EXISTS (SELECT FROM groups m WHERE m.tenant = $1 AND m.merged_into = t.id) THEN (
                   SELECT count(DISTINCT d.device) FROM groups m
                   JOIN group_devices d ON d.tenant = $1 AND d.group_id = m.id
                   WHERE m.tenant = $1 AND (m.id = t.id OR m.merged_into = t.id))
               ELSE t.own_devices END
           WHERE t.tenant = $1 AND t.id = ANY ($2)"#,
        tenant,
        ids as &[GroupId]
    )
    .execute(connection)
    .await?;
    Ok(())
}
