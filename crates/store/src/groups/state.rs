//! The state of a group: whether the bug is open, and its assignee.

use super::redirects::find_target;
use super::{Deed, GroupAction, GroupActor, record_actions};
use crate::{Result, TenantTx, Uuid};
use utoipa::ToSchema;

crate::column::words! {
    /// Whether a group needs attention.
    #[derive(ToSchema)]
    #[schema(rename_all = "snake_case")]
    pub enum GroupStatus {
        /// The group needs attention, and was never resolved or was opened again.
        Open = "open",
        /// It was resolved, and a new report brought it back.
        Regressed = "regressed",
        /// It was resolved, and has not come back.
        Resolved = "resolved",
        /// It is of no interest; new reports do not change that.
        Ignored = "ignored",
    }
}

/// A change of a group's state. A field that is `None` does not change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupUpdate {
    /// Its status. Only reports set [`GroupStatus::Regressed`]; here it means open.
    pub status: Option<GroupStatus>,
    /// The version that resolves it; matters with [`GroupStatus::Resolved`] only.
    pub resolved_in: Option<String>,
    /// The name of the person who works on it; an empty text is none.
    pub assignee: Option<String>,
}

/// The outcome of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateOutcome {
    /// The group has the requested state: the requested group, or the one that replaced it.
    Done(Uuid),
    /// There is no such group.
    NotFound,
    /// It is merged into this group. That group's state counts.
    Merged(Uuid),
}

/// A group as far as its state goes.
struct StateRow {
    status: GroupStatus,
    resolved_in: Option<String>,
    assignee: Option<String>,
    merged_into: Option<Uuid>,
}

/// Changes a group, or the one that replaced it, and records who did it. A field that has the value already
/// is not recorded again. An empty update only locks the group and says whether it can be changed. With
/// `app`, only a group of that app.
pub async fn update_group(
    tx: &mut TenantTx,
    id: Uuid,
    app: Option<&str>,
    actor: GroupActor<'_>,
    update: &GroupUpdate,
) -> Result<UpdateOutcome> {
    let mut id = id;
    let row = loop {
        if let Some(row) = lock_group(tx, id, app).await? {
            break row;
        }
        // A group can be replaced while this transaction waits for its lock.
        match find_target(tx, id).await? {
            Some(target) => id = target,
            None => return Ok(UpdateOutcome::NotFound),
        }
    };
    if let Some(target) = row.merged_into {
        return Ok(UpdateOutcome::Merged(target));
    }
    let deeds = build_history_entries(id, &row, update);
    if deeds.is_empty() {
        return Ok(UpdateOutcome::Done(id));
    }
    let status = deeds.iter().find_map(|deed| status_after(deed.action));
    let resolved = status == Some(GroupStatus::Resolved);
    let assignee = update.assignee.as_deref().filter(|name| !name.is_empty());
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE groups
         SET status = coalesce($3, status),
             resolved_in = CASE WHEN $3::text IS NULL THEN resolved_in ELSE $4 END,
             resolved_at = CASE WHEN $3::text IS NULL THEN resolved_at ELSE $5 END,
             regressed_in = CASE WHEN $3::text IS NULL THEN regressed_in END,
             regressed_at = CASE WHEN $3::text IS NULL THEN regressed_at END,
             assignee = CASE WHEN $6 THEN $7 ELSE assignee END
         WHERE tenant = $1 AND id = $2",
        tenant,
        id,
        status.map(GroupStatus::as_str),
        update.resolved_in.as_deref().filter(|_| resolved),
        resolved.then_some(now),
        update.assignee.is_some(),
        assignee
    )
    .execute(connection)
    .await?;
    record_actions(tx, actor, &deeds).await?;
    Ok(UpdateOutcome::Done(id))
}

async fn lock_group(tx: &mut TenantTx, id: Uuid, app: Option<&str>) -> Result<Option<StateRow>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        StateRow,
        r#"SELECT status AS "status: GroupStatus", resolved_in, assignee, merged_into FROM groups
           WHERE tenant = $1 AND id = $2 AND ($3::text IS NULL OR app = $3) FOR UPDATE"#,
        tenant,
        id,
        app
    )
    .fetch_optional(connection)
    .await?)
}

/// Returns the entries of the group's history that an update adds.
fn build_history_entries<'u>(group: Uuid, row: &StateRow, update: &'u GroupUpdate) -> Vec<Deed<'u>> {
    let mut deeds = Vec::new();
    let resolved_in = update.resolved_in.as_deref();
    let action = match update.status {
        Some(GroupStatus::Resolved)
            if row.status != GroupStatus::Resolved || row.resolved_in.as_deref() != resolved_in =>
        {
            Some(GroupAction::Resolved)
        }
        Some(GroupStatus::Ignored) if row.status != GroupStatus::Ignored => Some(GroupAction::Ignored),
        Some(GroupStatus::Open | GroupStatus::Regressed) if row.status != GroupStatus::Open => {
            Some(GroupAction::Reopened)
        }
        _ => None,
    };
    let version = resolved_in.filter(|_| action == Some(GroupAction::Resolved));
    deeds.extend(action.map(|action| Deed { group, action, text: version, other: None }));
    let assignee =
        update.assignee.as_deref().filter(|name| *name != row.assignee.as_deref().unwrap_or_default());
    let text = assignee.filter(|name| !name.is_empty());
    deeds.extend(assignee.map(|_| Deed { group, action: GroupAction::Assigned, text, other: None }));
    deeds
}

fn status_after(action: GroupAction) -> Option<GroupStatus> {
    match action {
        GroupAction::Resolved => Some(GroupStatus::Resolved),
        GroupAction::Ignored => Some(GroupStatus::Ignored),
        GroupAction::Reopened => Some(GroupStatus::Open),
        _ => None,
    }
}
