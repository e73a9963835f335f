//! Resolved groups that wait for a verdict since a new report contradicted that they are resolved.

use time::Duration;
use unslide_model::TenantId;
use unslide_store::groups::Contradiction;
use unslide_store::sql::TenantColumn;
use unslide_store::{GroupId, Result, Store, TenantTx};

/// The pause between two looks at a group. Long enough for a look to end before the next one.
const LOOK_INTERVAL: Duration = Duration::minutes(10);
/// Groups that one turn of a tenant judges.
const CLAIMED_LIMIT: i64 = 20;

/// Lets groups wait for a verdict. Those that wait already keep the report with which they began to.
pub async fn hold(tx: &mut TenantTx, contradictions: &[&Contradiction]) -> Result<()> {
    let groups: Vec<GroupId> = contradictions.iter().map(|found| found.group).collect();
    let (apps, versions): (Vec<String>, Vec<String>) =
        contradictions.iter().map(|found| (found.app.clone(), found.version.clone())).unzip();
    let times: Vec<_> = contradictions.iter().map(|found| found.received_at).collect();
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO held_regressions (tenant, group_id, app, version, received_at, next_look_at)
         SELECT $1, n.id, n.app, n.version, n.received_at, $6
         FROM unnest($2::uuid[], $3::text[], $4::text[], $5::timestamptz[]) AS n (id, app, version, received_at)
         ORDER BY n.id
         ON CONFLICT DO NOTHING",
        tenant,
        &groups as &[GroupId],
        &apps,
        &versions,
        &times,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns tenants with groups that are to be judged, from the one after `last` on.
pub async fn list_due(store: &Store, last: &str, limit: u16) -> Result<Vec<TenantId>> {
    let rows = sqlx::query_scalar!(
        r#"SELECT tenant AS "tenant!: TenantColumn" FROM unslide_held_regressions_due($1, $2, $3)"#,
        store.now(),
        last,
        i32::from(limit)
    );
    Ok(rows.fetch_all(store.pool()).await?.into_iter().map(TenantId::from).collect())
}

/// Claims the groups of the transaction's tenant that are due, the oldest looks first. Others look at them again after the pause.
pub async fn claim_held(tx: &mut TenantTx) -> Result<Vec<Contradiction>> {
    let (connection, tenant, now) = tx.parts();
    Ok(sqlx::query_as!(
        Contradiction,
        r#"UPDATE held_regressions h SET next_look_at = $3
           FROM (SELECT group_id FROM held_regressions WHERE tenant = $1 AND next_look_at <= $2
                 ORDER BY next_look_at, group_id LIMIT $4 FOR UPDATE SKIP LOCKED) d
           WHERE h.tenant = $1 AND h.group_id = d.group_id
           RETURNING h.group_id AS "group: GroupId", h.app, h.version, h.received_at"#,
        tenant,
        now,
        now + LOOK_INTERVAL,
        CLAIMED_LIMIT
    )
    .fetch_all(connection)
    .await?)
}

/// Ends the waits of groups.
pub async fn release(tx: &mut TenantTx, groups: &[GroupId]) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "DELETE FROM held_regressions WHERE tenant = $1 AND group_id = ANY ($2)",
        tenant,
        groups as &[GroupId]
    )
    .execute(connection)
    .await?;
    Ok(())
}
