//! Groups that are ignored until a time.

use super::{Deed, GroupAction, GroupActor, record_actions};
use crate::column::TenantColumn;
use crate::number::to_row32;
use crate::requests::FirstFailure;
use crate::{GroupId, Result, Store, TenantTx};
use std::collections::BTreeMap;
use unslide_model::TenantId;

/// The reason in the history of a group that was ignored until a time.
pub(crate) const IGNORE_TIME_OVER: &str = "its time was over";

/// The author of what the activity of a group says about the clock.
const CLOCK_ACTOR: GroupActor<'static> = GroupActor { actor: "builder", name: None };

/// Opens groups that were ignored until a time that has come, and records it. Returns the number that was
/// due; call again while that is `limit`.
///
/// # Errors
/// The first failure; one tenant's does not keep the others' groups.
pub async fn reopen_ignored(store: &Store, limit: u32) -> Result<u64> {
    let due = sqlx::query!(
        r#"SELECT tenant AS "tenant!: TenantColumn", id AS "id!: GroupId" FROM unslide_ignored_groups_due($1, $2)"#,
        store.now(),
        to_row32(limit)
    )
    .fetch_all(store.pool())
    .await?;
    let found = due.len() as u64;
    let mut groups: BTreeMap<TenantId, Vec<GroupId>> = BTreeMap::new();
    for row in due {
        groups.entry(row.tenant.into()).or_default().push(row.id);
    }
    let mut failures = FirstFailure::default();
    for (tenant, ids) in groups {
        if let Err(error) = reopen_for_tenant(store, &tenant, &ids).await {
            failures.record_failure(&tenant, error)?;
        }
    }
    failures.into_result(found)
}

/// Opens those of these groups of one tenant that are still due.
async fn reopen_for_tenant(store: &Store, tenant: &TenantId, ids: &[GroupId]) -> Result<()> {
    let mut tx = store.tenant(tenant).await?;
    reopen_due(&mut tx, ids).await?;
    tx.commit().await
}

async fn reopen_due(tx: &mut TenantTx, ids: &[GroupId]) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    let opened = sqlx::query_scalar!(
        r#"UPDATE groups g
         SET status = 'open', ignored_until = NULL, ignored_until_reports = NULL, ignored_until_devices = NULL,
             ignored_after = NULL, state_before = NULL
         FROM (SELECT id FROM groups WHERE tenant = $1 AND id = ANY ($2) ORDER BY id FOR UPDATE) l
         WHERE g.tenant = $1 AND g.id = l.id AND g.ignored_until <= $3
         RETURNING g.id AS "id: GroupId""#,
        tenant,
        ids as &[GroupId],
        now
    )
    .fetch_all(connection)
    .await?;
    let text = Some(IGNORE_TIME_OVER);
    let deeds =
        opened.into_iter().map(|group| Deed { group, action: GroupAction::IgnoreEnded, text, other: None });
    let deeds: Vec<Deed<'_>> = deeds.collect();
    if deeds.is_empty() {
        return Ok(());
    }
    record_actions(tx, CLOCK_ACTOR, &deeds).await?;
    Ok(())
}
