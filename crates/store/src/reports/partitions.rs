//! Partitions: days of reports, made ahead, and months of their keys. They are dropped when they are old enough.

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
/// The reports' keys stay (see [`drop_keys`]), so that a replay does not bring the reports back.
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

/// Begins the month that keys of reports are stored under from now on. Returns false if it has begun before.
pub async fn begin_key_month(store: &Store) -> Result<bool> {
    Ok(sqlx::query_scalar!(r#"SELECT unslide_key_month_begin($1) AS "began!""#, store.now())
        .fetch_one(store.pool())
        .await?)
}

/// Drops the months of keys that ended before `before`, and deletes duplicates of reports that arrived before it. `before`
/// has to be before any record that a topic still has. Returns the number of months.
pub async fn drop_keys(store: &Store, before: OffsetDateTime) -> Result<i32> {
    purge::rows_before(store, "report_duplicates", before).await?;
    Ok(sqlx::query_scalar!(r#"SELECT unslide_key_months_drop($1) AS "dropped!""#, before)
        .fetch_one(store.pool())
        .await?)
}
