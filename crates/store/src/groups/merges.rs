//! Merges groups that are one bug, and splits them again.
//!
//! A merge moves no report. Each group goes on counting the reports of its own fingerprint; the target counts
//! them too. So a merge costs the same for one report and for a million, survives new revisions, and is
//! undone exactly.

use super::{Deed, GroupAction, GroupActor, follow_redirects, lock_for_merges, record_actions, retire_empty};
use crate::{Result, TenantTx, Uuid};
use std::collections::BTreeMap;

/// Groups that one group may have merged into it.
pub const MAX_MERGED: usize = 200;

/// The outcome of a merge or a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeOutcome {
    /// It is done.
    Done,
    /// There is no such group.
    NotFound(Uuid),
    /// The group is of another app.
    OtherApp(Uuid),
    /// The group is merged into another one.
    Merged {
        /// The group.
        group: Uuid,
        /// The group that it is merged into.
        into: Uuid,
    },
    /// The target would have more than [`MAX_MERGED`].
    TooMany,
    /// The group is not merged into the one that it is to be taken out of.
    NotMerged(Uuid),
}

/// A group as far as merges go.
struct MergeRow {
    id: Uuid,
    app: String,
    title: String,
    merged_into: Option<Uuid>,
}

/// Merges groups of one app, and the groups merged into them, into `target`. Groups that are merged into it
/// already stay so. With `app`, only groups of that app are found.
pub async fn merge_groups(
    tx: &mut TenantTx,
    target: Uuid,
    groups: &[Uuid],
    app: Option<&str>,
    actor: GroupActor<'_>,
) -> Result<MergeOutcome> {
    lock_for_merges(tx).await?;
    let asked = [&[target][..], groups].concat();
    let followed = follow_redirects(tx, &asked).await?;
    let target = followed.first().copied().unwrap_or(target);
    let mut ids: Vec<Uuid> = followed.iter().copied().filter(|id| *id != target).collect();
    ids.sort_unstable();
    ids.dedup();
    let found = lock_merge_rows(tx, &[&ids[..], &[target]].concat(), app).await?;
    let (into, merging) = match check_merge(&found, target, &ids) {
        Ok(checked) => checked,
        Err(MergeOutcome::NotFound(id)) => {
            // Under the id that was asked for: the caller may not know the other one.
            let place = followed.iter().position(|one| *one == id);
            return Ok(MergeOutcome::NotFound(place.and_then(|at| asked.get(at).copied()).unwrap_or(id)));
        }
        Err(refused) => return Ok(refused),
    };
    let ids: Vec<Uuid> = merging.iter().map(|row| row.id).collect();
    if !set_merge_target(tx, target, &ids).await? {
        return Ok(MergeOutcome::TooMany);
    }
    let changed = [&ids[..], &[target]].concat();
    refresh_totals(tx, &changed).await?;
    recount_devices(tx, &changed).await?;
    let both = merging.iter().flat_map(|row| {
        [
            Deed { group: target, action: GroupAction::Merged, text: Some(&row.title), other: Some(row.id) },
            Deed {
                group: row.id,
                action: GroupAction::MergedInto,
                text: Some(&into.title),
                other: Some(target),
            },
        ]
    });
    record_actions(tx, actor, &both.collect::<Vec<_>>()).await?;
    Ok(MergeOutcome::Done)
}

/// Returns the target, and the groups that are not merged into it yet; or the reason why nothing is merged.
fn check_merge<'f>(
    found: &'f BTreeMap<Uuid, MergeRow>,
    target: Uuid,
    ids: &[Uuid],
) -> Result<(&'f MergeRow, Vec<&'f MergeRow>), MergeOutcome> {
    let into = found.get(&target).ok_or(MergeOutcome::NotFound(target))?;
    if let Some(other) = into.merged_into {
        return Err(MergeOutcome::Merged { group: target, into: other });
    }
    let mut merging = Vec::new();
    for id in ids {
        let row = found.get(id).ok_or(MergeOutcome::NotFound(*id))?;
        match row.merged_into {
            _ if row.app != into.app => return Err(MergeOutcome::OtherApp(*id)),
            Some(into) if into != target => return Err(MergeOutcome::Merged { group: *id, into }),
            Some(_) => {}
            None => merging.push(row),
        }
    }
    Ok((into, merging))
}

/// Points groups, and the groups merged into them, to the target. Returns false if the target would have more
/// than [`MAX_MERGED`].
async fn set_merge_target(tx: &mut TenantTx, target: Uuid, ids: &[Uuid]) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let merged = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM groups WHERE tenant = $1 AND (merged_into = $2 OR merged_into = ANY ($3))"#,
        tenant,
        target,
        ids
    )
    .fetch_one(&mut *connection)
    .await?;
    if usize::try_from(merged).unwrap_or(usize::MAX).saturating_add(ids.len()) > MAX_MERGED {
        return Ok(false);
    }
    sqlx::query!(
        "UPDATE groups SET merged_into = $2 WHERE tenant = $1 AND (id = ANY ($3) OR merged_into = ANY ($3))",
        tenant,
        target,
        ids
    )
    .execute(connection)
    .await?;
    Ok(true)
}

/// Takes a group out of `target` again, with its own reports and the state that it had.
pub async fn split_group(
    tx: &mut TenantTx,
    target: Uuid,
    group: Uuid,
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
    sqlx::query!("UPDATE groups SET merged_into = NULL WHERE tenant = $1 AND id = $2", tenant, group)
        .execute(connection)
        .await?;
    refresh_totals(tx, &[target, group]).await?;
    recount_devices(tx, &[target, group]).await?;
    let deeds = [
        Deed { group: target, action: GroupAction::Split, text: Some(&row.title), other: Some(group) },
        Deed { group, action: GroupAction::SplitFrom, text: Some(&from.title), other: Some(target) },
    ];
    record_actions(tx, actor, &deeds).await?;
    retire_empty(tx, &[target, group]).await?;
    Ok(MergeOutcome::Done)
}

async fn lock_merge_rows(
    tx: &mut TenantTx,
    ids: &[Uuid],
    app: Option<&str>,
) -> Result<BTreeMap<Uuid, MergeRow>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query_as!(
        MergeRow,
        "SELECT id, app, title, merged_into FROM groups
         WHERE tenant = $1 AND id = ANY ($2) AND ($3::text IS NULL OR app = $3) ORDER BY id FOR UPDATE",
        tenant,
        ids,
        app
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row)).collect())
}

/// Computes the counts of groups from their own counts and those of the groups merged into them. The groups'
/// rows have to be locked, so that this statement sees the counts of other transactions.
pub(crate) async fn refresh_totals(tx: &mut TenantTx, ids: &[Uuid]) -> Result<()> {
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
        ids
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Counts the different devices of groups again after their merges have changed. Reads every device of a
/// target once.
async fn recount_devices(tx: &mut TenantTx, ids: &[Uuid]) -> Result<()> {
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
        ids
    )
    .execute(connection)
    .await?;
    Ok(())
}
