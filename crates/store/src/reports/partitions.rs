//! Partitions: days of reports, made ahead, and months of their keys. They are dropped when they are old enough.
//!
//! A statement that no day bounds locks every partition of a table and every index of it. So a year of reports takes thousands of
//! locks, of which the server has a fixed number. A server without a free lock fails with "out of shared memory".

use crate::number::to_row32;
use crate::purge;
use crate::{Result, Store, TenantTx};
use time::{Date, OffsetDateTime};

/// Statements over all stored days that the server should be able to run at the same time: searches for persons, lists by conditions
/// that no index decides, and erasures. Others name their days.
const CONCURRENT_STATEMENTS: i64 = 8;
const SETTING_STEP: i64 = 256;

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

/// Drops tables of reports, bodies and frames of days before `before` that have no row of any tenant, at most `limit`. Returns their number.
/// [`crate::history`] makes them again for a report that comes back.
pub async fn drop_empty(store: &Store, before: Date, limit: u32) -> Result<i32> {
    Ok(sqlx::query_scalar!(
        r#"SELECT unslide_partitions_drop_empty($1, $2) AS "dropped!""#,
        before,
        to_row32(limit)
    )
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

/// The size of the server's table of locks, and what a statement over all stored days takes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockCapacity {
    /// Locks for each connection: `max_locks_per_transaction`.
    pub for_each_connection: i64,
    /// Connections and prepared transactions that the server allows.
    pub connections: i64,
    /// Partitions of the table with most of them, and their indexes.
    pub widest_statement: i64,
}

impl LockCapacity {
    /// Returns how many statements over all stored days can run at the same time.
    #[must_use]
    pub fn count_statements(&self) -> i64 {
        self.for_each_connection * self.connections / self.widest_statement.max(1)
    }

    /// Returns the `max_locks_per_transaction` that the stored days need. None if the server has enough.
    #[must_use]
    pub fn find_needed_setting(&self) -> Option<i64> {
        if self.count_statements() >= CONCURRENT_STATEMENTS {
            return None;
        }
        let needed = self.widest_statement * CONCURRENT_STATEMENTS / self.connections.max(1);
        // In steps, so that the setting holds for further days.
        Some((needed / SETTING_STEP + 1) * SETTING_STEP)
    }
}

/// Reads the capacity.
///
/// # Errors
/// The database fails.
pub async fn read_lock_capacity(store: &Store) -> Result<LockCapacity> {
    let capacity = sqlx::query_as!(
        LockCapacity,
        r#"SELECT current_setting('max_locks_per_transaction')::bigint AS "for_each_connection!",
                  current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint AS "connections!",
                  coalesce((SELECT max(t.relations) FROM (
                      SELECT count(DISTINCT i.inhrelid) + count(x.indexrelid) AS relations
                      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid AND c.relkind = 'r'
                      LEFT JOIN pg_index x ON x.indrelid = i.inhrelid
                      GROUP BY i.inhparent) t), 0) AS "widest_statement!""#
    );
    Ok(capacity.fetch_one(store.pool()).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity(for_each_connection: i64, widest_statement: i64) -> LockCapacity {
        LockCapacity { for_each_connection, connections: 100, widest_statement }
    }

    #[test]
    fn a_server_needs_locks_for_the_statements_of_all_connections() {
        assert_eq!(capacity(64, 0).find_needed_setting(), None);
        assert_eq!(capacity(64, 320).find_needed_setting(), None);
        assert_eq!(capacity(64, 1_410).find_needed_setting(), Some(256));
        assert_eq!(
            (capacity(64, 5_613).count_statements(), capacity(64, 5_613).find_needed_setting()),
            (1, Some(512))
        );
        assert_eq!(capacity(512, 5_613).find_needed_setting(), None);
    }
}
