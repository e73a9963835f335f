//! Day partitions: made ahead, dropped when their reports are old enough.

use crate::purge;
use crate::{Result, Store, TenantTx};
use time::{Date, OffsetDateTime};

/// Makes the missing partitions from one day to another (UTC, both included). Returns how many tables that
/// took.
pub async fn ensure_partitions(store: &Store, first: Date, last: Date) -> Result<i32> {
    Ok(sqlx::query_scalar!(r#"SELECT unslide_partitions_ensure($1, $2) AS "made!""#, first, last)
        .fetch_one(store.pool())
        .await?)
}

/// Drops every day before `before`, with its reports, bodies and waits for symbols of apps. Returns the number
/// of dropped tables.
/// The reports' keys stay (see [`purge_keys`]), so that a replay does not bring the reports back.
pub async fn drop_before(store: &Store, before: Date) -> Result<i32> {
    Ok(sqlx::query_scalar!(r#"SELECT unslide_partitions_drop($1) AS "dropped!""#, before)
        .fetch_one(store.pool())
        .await?)
}

/// Lists the days that have tables, the oldest first.
pub async fn list_days(tx: &mut TenantTx) -> Result<Vec<Date>> {
    let (connection, _, _) = tx.parts();
    Ok(sqlx::query_scalar!(
        r#"SELECT DISTINCT to_date(right(c.relname, 8), 'YYYYMMDD') AS "day!"
           FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
           WHERE p.relname IN ('reports', 'sessions', 'metric_payloads') AND c.relname ~ '_[0-9]{8}$'
           ORDER BY 1"#
    )
    .fetch_all(connection)
    .await?)
}

/// Deletes the keys of reports that arrived before `before`, and their duplicates; `before` has to be before
/// any record that a topic still has. Returns the number of keys removed.
pub async fn purge_keys(store: &Store, before: OffsetDateTime) -> Result<u64> {
    purge::rows_before(store, "report_duplicates", before).await?;
    purge::rows_before(store, "report_keys", before).await
}
