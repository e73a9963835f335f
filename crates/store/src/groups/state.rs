//! The state of a group: whether the bug is open, its assignee and its ticket.

use super::state_row::{HistoryEntry, StateRow, lock_states, newest_versions, write_states};
use super::status::GroupUpdate;
use super::{Deed, GroupActor, follow_redirects, record_actions};
use crate::{GroupId, Result, TenantTx};
use std::collections::{BTreeMap, BTreeSet};

/// The outcome of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateOutcome {
    /// The group has the requested state: the requested group, or the one that replaced it.
    Done(GroupId),
    /// There is no such group.
    NotFound,
    /// It is merged into this group. That group's state counts.
    Merged(GroupId),
    /// It is to be resolved in the next version or ignored until it, and no version of its app is known.
    NoVersion,
}

/// Changes a group, or the one that replaced it, and records who did it. A field that has the value already
/// is not recorded again. An empty update only locks the group and says whether it can be changed. With
/// `app`, only a group of that app.
pub async fn update_group(
    tx: &mut TenantTx,
    id: GroupId,
    app: Option<&str>,
    actor: GroupActor<'_>,
    update: &GroupUpdate,
) -> Result<UpdateOutcome> {
    let outcomes = update_groups(tx, &[id], app, actor, update).await?;
    Ok(outcomes.first().copied().unwrap_or(UpdateOutcome::NotFound))
}

/// Changes several groups as [`update_group`] changes one, and returns the outcome of each id in its place. A
/// group that cannot be changed does not keep the others from it.
pub async fn update_groups(
    tx: &mut TenantTx,
    ids: &[GroupId],
    app: Option<&str>,
    actor: GroupActor<'_>,
    update: &GroupUpdate,
) -> Result<Vec<UpdateOutcome>> {
    let mut locked = lock_groups(tx, ids, app).await?;
    let newest = if update.needs_newest_version() {
        newest_versions(tx, locked.rows.values()).await?
    } else {
        BTreeMap::new()
    };
    let outcomes: Vec<UpdateOutcome> = locked
        .targets
        .iter()
        .map(|id| match locked.rows.get(id) {
            None => UpdateOutcome::NotFound,
            Some(StateRow { merged_into: Some(into), .. }) => UpdateOutcome::Merged(*into),
            Some(row) if update.needs_newest_version() && !newest.contains_key(&row.app) => {
                UpdateOutcome::NoVersion
            }
            Some(_) => UpdateOutcome::Done(*id),
        })
        .collect();
    let now = tx.now();
    let mut entries: Vec<(GroupId, HistoryEntry)> = Vec::new();
    for id in done_ids(&outcomes) {
        if let Some(row) = locked.rows.get_mut(&id) {
            let newest = newest.get(&row.app).map(String::as_str);
            entries.extend(row.apply_update(update, newest, now).into_iter().map(|entry| (id, entry)));
        }
    }
    if entries.is_empty() {
        return Ok(outcomes);
    }
    let changed: BTreeSet<GroupId> = entries.iter().map(|(id, _)| *id).collect();
    let rows = changed.iter().filter_map(|id| locked.rows.get(id)).map(StateRow::to_json);
    write_states(tx, rows.collect()).await?;
    let deeds = entries.iter().map(|(group, entry)| Deed {
        group: *group,
        action: entry.action,
        text: entry.text.as_deref(),
        other: None,
    });
    record_actions(tx, actor, &deeds.collect::<Vec<_>>()).await?;
    Ok(outcomes)
}

/// Returns the groups that are changed, each once.
fn done_ids(outcomes: &[UpdateOutcome]) -> BTreeSet<GroupId> {
    let done = |outcome: &UpdateOutcome| match outcome {
        UpdateOutcome::Done(id) => Some(*id),
        _ => None,
    };
    outcomes.iter().filter_map(done).collect()
}

/// Groups that are locked for a change.
struct LockedGroups {
    /// For each id that was asked for, the group that it leads to.
    targets: Vec<GroupId>,
    rows: BTreeMap<GroupId, StateRow>,
}

/// Locks groups, or those that replaced them. A group can be replaced while this transaction waits for its
/// lock, so ids that are not found are followed and looked up again.
async fn lock_groups(tx: &mut TenantTx, ids: &[GroupId], app: Option<&str>) -> Result<LockedGroups> {
    let mut locked = LockedGroups { targets: ids.to_vec(), rows: BTreeMap::new() };
    loop {
        let missing = locked.missing_ids();
        locked.rows.extend(lock_states(tx, &missing, app).await?.into_iter().map(|row| (row.id, row)));
        let missing = locked.missing_ids();
        if missing.is_empty() {
            return Ok(locked);
        }
        let followed = follow_redirects(tx, &missing).await?;
        if followed == missing {
            return Ok(locked);
        }
        let leads: BTreeMap<GroupId, GroupId> = missing.into_iter().zip(followed).collect();
        for target in &mut locked.targets {
            *target = leads.get(target).copied().unwrap_or(*target);
        }
    }
}

impl LockedGroups {
    /// Returns the groups that are not locked yet, each once, in their order.
    fn missing_ids(&self) -> Vec<GroupId> {
        let missing: BTreeSet<GroupId> =
            self.targets.iter().filter(|id| !self.rows.contains_key(id)).copied().collect();
        missing.into_iter().collect()
    }
}
