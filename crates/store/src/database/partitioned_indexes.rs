//! Indexes of partitioned tables, built beside readers and writers.
//!
//! A migration makes such an index with `CREATE INDEX … ON ONLY …`, which takes no time, and is not valid until every
//! partition has its part. The parts are built here, one after the other, each without a lock that writers wait for.
//! Partitions that are made from then on have theirs from the beginning.

use super::lock_timeout::{LOCK_TIMEOUT, NO_TIMEOUT, set_lock_timeout};
use crate::{Result, StoreError};
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Row};
use std::time::Duration;

/// Pause before another try to attach an index to one whose table is locked.
const ATTACH_BACKOFF: Duration = Duration::from_secs(1);
/// Tries to attach an index.
const ATTACH_TRIES: u32 = 300;

/// An index of a partitioned table that some partitions lack.
struct Incomplete {
    index: String,
    table: String,
    is_unique: bool,
    /// What follows `USING` in its definition.
    definition: String,
}

/// Drops indexes that a run before did not finish, so that they are built from the beginning.
pub(super) async fn drop_unfinished(connection: &mut PgConnection) -> Result<()> {
    let unfinished = "SELECT format('%I', c.relname) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
         WHERE c.relkind = 'i' AND NOT c.relispartition AND NOT i.indisvalid AND c.relnamespace = 'public'::regnamespace
           AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index p WHERE p.index_relid = c.oid)";
    for index in read_names(connection, unfinished, &[]).await? {
        tracing::warn!(index, "an unfinished index is dropped and built again");
        execute(connection, format!("DROP INDEX CONCURRENTLY IF EXISTS public.{index}")).await?;
    }
    Ok(())
}

/// Builds the parts that indexes of partitioned tables lack.
pub(super) async fn complete_indexes(connection: &mut PgConnection) -> Result<()> {
    for incomplete in list_incomplete(connection).await? {
        let Incomplete { index, table, .. } = &incomplete;
        let lacking =
            "SELECT format('%I', t.relname) FROM pg_inherits h JOIN pg_class t ON t.oid = h.inhrelid
             WHERE h.inhparent = to_regclass('public.' || $1) AND NOT EXISTS (
                 SELECT FROM pg_inherits p JOIN pg_index i ON i.indexrelid = p.inhrelid
                 WHERE p.inhparent = to_regclass('public.' || $2) AND i.indrelid = h.inhrelid)
             ORDER BY t.relname DESC";
        for partition in read_names(connection, lacking, &[table, index]).await? {
            match build_part(connection, &incomplete, &partition).await {
                // Its day was over.
                Err(error) if is_missing_table(&error) => {}
                built => built?,
            }
        }
    }
    Ok(())
}

async fn list_incomplete(connection: &mut PgConnection) -> Result<Vec<Incomplete>> {
    let rows = sqlx::query(
        "SELECT format('%I', c.relname), format('%I', t.relname), i.indisunique, pg_get_indexdef(c.oid)
         FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
         WHERE c.relkind = 'I' AND NOT i.indisvalid AND c.relnamespace = 'public'::regnamespace ORDER BY c.relname",
    )
    .fetch_all(connection)
    .await?;
    let read = |row: &PgRow| {
        let text: String = row.get(3);
        let (_, definition) =
            text.split_once(" USING ").ok_or_else(|| StoreError::corrupt("pg_index", &text))?;
        let (index, table, is_unique) = (row.get(0), row.get(1), row.get(2));
        Ok(Incomplete { index, table, is_unique, definition: definition.to_owned() })
    };
    rows.iter().map(read).collect()
}

/// Builds the index of one partition without a lock for writers, and makes it a part of the table's index.
async fn build_part(connection: &mut PgConnection, of: &Incomplete, partition: &str) -> Result<()> {
    let Incomplete { index, table, is_unique, definition } = of;
    let part = format!("{index}{}", partition.strip_prefix(table.as_str()).unwrap_or(partition));
    tracing::info!(index = part, "an index of a partition is built");
    // Waiting for the transactions of others blocks no one.
    set_lock_timeout(connection, NO_TIMEOUT).await?;
    execute(connection, format!("DROP INDEX CONCURRENTLY IF EXISTS public.{part}")).await?;
    let unique = if *is_unique { "UNIQUE " } else { "" };
    let create = format!("CREATE {unique}INDEX CONCURRENTLY {part} ON public.{partition} USING {definition}");
    execute(connection, create).await?;
    set_lock_timeout(connection, LOCK_TIMEOUT).await?;
    let mut tries = 0;
    loop {
        tries += 1;
        let attach = format!("ALTER INDEX public.{index} ATTACH PARTITION public.{part}");
        match execute(connection, attach).await {
            Err(error) if error.is_retriable() && tries < ATTACH_TRIES => {
                tokio::time::sleep(ATTACH_BACKOFF).await;
            }
            attached => return attached,
        }
    }
}

fn is_missing_table(error: &StoreError) -> bool {
    let StoreError::Database(error) = error else { return false };
    error.as_database_error().and_then(DatabaseError::code).is_some_and(|code| code == "42P01")
}

async fn read_names(
    connection: &mut PgConnection,
    query: &'static str,
    values: &[&String],
) -> Result<Vec<String>> {
    let mut asked = sqlx::query(query);
    for value in values {
        asked = asked.bind(value.as_str());
    }
    Ok(asked.fetch_all(connection).await?.iter().map(|row| row.get(0)).collect())
}

async fn execute(connection: &mut PgConnection, statement: String) -> Result<()> {
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(connection).await?;
    Ok(())
}
