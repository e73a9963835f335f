//! The changes of days. Each transaction adds rows of its own, and the job counts them together.

use super::ChangedDays;
use time::Date;
use unslide_store::{Result, TenantTx};

/// Changes that one call counts together.
const CHANGES_LIMIT: i64 = 10_000;

/// Adds a change of these days, as far as the tenant has an export with them.
pub async fn queue_changes(tx: &mut TenantTx, days: &ChangedDays) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO parquet_day_changes (tenant, day, changed_at, erases)
         SELECT $1, n.day, $4, n.erases FROM unnest($2::date[], $3::boolean[]) AS n (day, erases)
         WHERE EXISTS (SELECT FROM parquet_exports e WHERE e.tenant = $1 AND e.first_day <= n.day)",
        tenant,
        &days.keys().copied().collect::<Vec<_>>(),
        &days.values().copied().collect::<Vec<_>>(),
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Counts the changes of the transaction's tenant together in its days. Those of transactions that commit later wait for the next call, so
/// that a day which is read after this call either has a change or still waits with it. Returns true if more may wait.
pub async fn collect_changes(tx: &mut TenantTx) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let counted = sqlx::query_scalar!(
        r#"WITH counted AS (
               DELETE FROM parquet_day_changes c
               WHERE c.tenant = $1 AND c.number = ANY (ARRAY(
                   SELECT o.number FROM parquet_day_changes o WHERE o.tenant = $1 ORDER BY o.number LIMIT $2))
               RETURNING c.day, c.changed_at, c.erases),
           days AS (
               INSERT INTO parquet_days AS d (tenant, day, changed_since, changed_at, erases)
               SELECT $1, c.day, min(c.changed_at), max(c.changed_at), bool_or(c.erases) FROM counted c GROUP BY c.day
               ON CONFLICT (tenant, day) DO UPDATE SET
                   changed_since = least(d.changed_since, excluded.changed_since),
                   changed_at = greatest(d.changed_at, excluded.changed_at),
                   erases = d.erases OR excluded.erases)
           SELECT count(*) AS "counted!" FROM counted"#,
        tenant,
        CHANGES_LIMIT
    );
    Ok(counted.fetch_one(connection).await? >= CHANGES_LIMIT)
}

/// Forgets the changes and files of days before this one, of which reports end by their age: what is in the bucket stays. Returns the number of
/// days with a deleted report that were not written again.
pub async fn drop_changes(tx: &mut TenantTx, before: Date) -> Result<i64> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "DELETE FROM parquet_files WHERE tenant = $1 AND day < $2 AND delete_at IS NULL",
        tenant,
        before
    )
    .execute(&mut *connection)
    .await?;
    let left = sqlx::query_scalar!(
        r#"WITH ended AS (
               DELETE FROM parquet_days WHERE tenant = $1 AND day < $2 RETURNING erases AND changed_since IS NOT NULL AS left_out)
           SELECT count(*) FILTER (WHERE left_out) AS "left_out!" FROM ended"#,
        tenant,
        before
    );
    Ok(left.fetch_one(connection).await?)
}
