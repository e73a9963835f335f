//! Partitions in the new cell for the days and months of the tenant's rows.

use crate::catalog::{MovedTable, Tables, quote_name, quote_text};
use crate::error::During;
use crate::transactions::{Reads, TimeLimits, begin_owner, commit_tx};
use crate::{CellServers, Move, TenantMoveError};
use sqlx::AssertSqlSafe;
use sqlx::postgres::PgConnection;
use std::time::Duration;

/// The table with partitions by month; all others have them by day.
const BY_MONTH: &str = "report_keys";

/// Time for which a new partition waits for the lock on its table.
const PARTITION_LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const PARTITION_TRIES: u32 = 30;

/// Makes the partitions that the tenant's rows need in the new cell, and deletes rows there of partitions that the old cell has
/// dropped since they were copied.
pub(crate) async fn prepare_partitions(job: &Move<'_>, tables: &Tables) -> Result<(), TenantMoveError> {
    let mut from = begin_owner(job.from, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    let mut needed = Vec::new();
    for table in tables.ordered.iter().filter(|table| table.partitioned_by.is_some()) {
        let days = list_partitions(job.from, from.parts().0, table).await?;
        let used = find_used(job, from.parts().0, table, &days).await?;
        needed.push((table, days, used));
    }
    from.rollback().await?;
    for (table, days, used) in needed {
        let mut tries = 0;
        loop {
            match prepare_table(job, table, &days, &used).await {
                Err(error) if error.is_locked() && tries < PARTITION_TRIES => tries += 1,
                done => break done?,
            }
        }
    }
    Ok(())
}

/// Lists the first days of a table's partitions, as texts.
async fn list_partitions(
    cell: &CellServers,
    connection: &mut PgConnection,
    table: &MovedTable,
) -> Result<Vec<String>, TenantMoveError> {
    let days = sqlx::query_scalar(
        "SELECT to_date(rpad(substring(c.relname FROM '[0-9]+$'), 8, '01'), 'YYYYMMDD')::text
         FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent = to_regclass($1) AND c.relname ~ '_([0-9]{6}|[0-9]{8})$' ORDER BY 1",
    );
    let days = days.bind(table.quoted()).fetch_all(connection).await;
    days.during(&cell.name, format!("listing the partitions of {}", table.name))
}

/// Returns the condition that a row `t` lies in the partition that begins on the day `d`.
fn lies_in(table: &MovedTable, day: &str) -> String {
    let column = quote_name(table.partitioned_by.as_deref().unwrap_or_default());
    if table.name == BY_MONTH {
        return format!("t.{column} = {day}");
    }
    format!("t.{column} >= {day} AND t.{column} < {day} + 1")
}

/// Returns those partitions that have rows of the tenant.
async fn find_used(
    job: &Move<'_>,
    connection: &mut PgConnection,
    table: &MovedTable,
    days: &[String],
) -> Result<Vec<String>, TenantMoveError> {
    let statement = format!(
        "SELECT d.day::text FROM unnest($1::text[]::date[]) AS d (day)
         WHERE EXISTS (SELECT FROM {} t WHERE t.tenant = {} AND {}) ORDER BY 1",
        table.quoted(),
        quote_text(job.tenant.as_str()),
        lies_in(table, "d.day")
    );
    let used = sqlx::query_scalar(AssertSqlSafe(statement)).bind(days).fetch_all(connection).await;
    used.during(&job.from.name, format!("looking for the partitions of {}", table.name))
}

async fn prepare_table(
    job: &Move<'_>,
    table: &MovedTable,
    days: &[String],
    used: &[String],
) -> Result<(), TenantMoveError> {
    let limits = TimeLimits { lock: PARTITION_LOCK_TIMEOUT, ..TimeLimits::NONE };
    let mut tx = begin_owner(job.to, &job.tenant, Reads::Latest, limits).await?;
    let connection = tx.parts().0;
    let there = list_partitions(job.to, connection, table).await?;
    let action = format!("making partitions of {}", table.name);
    for day in used.iter().filter(|day| !there.contains(day)) {
        let make = match table.name == BY_MONTH {
            true => make_month(day),
            false => format!("SELECT unslide_partitions_ensure({0}::date, {0}::date)", quote_text(day)),
        };
        sqlx::raw_sql(AssertSqlSafe(make)).execute(&mut *connection).await.during(&job.to.name, &action)?;
    }
    if let (Some(first), Some(column)) = (days.first(), &table.partitioned_by) {
        let gone = format!(
            "DELETE FROM {} t WHERE t.tenant = {} AND t.{} < {}::date",
            table.quoted(),
            quote_text(job.tenant.as_str()),
            quote_name(column),
            quote_text(first)
        );
        sqlx::query(AssertSqlSafe(gone)).execute(connection).await.during(&job.to.name, action)?;
    }
    commit_tx(tx).await
}

/// Returns the statements that make a partition of keys. A month after the newest one begins as in the indexer. An older one, from
/// before the cell was there, ends when the next one began.
fn make_month(day: &str) -> String {
    let day = quote_text(day);
    format!(
        "DO $make$
         DECLARE
             wanted date := {day};
             child text := 'report_keys_' || to_char(wanted, 'YYYYMM');
         BEGIN
             IF unslide_key_month_begin(wanted::timestamptz) THEN
                 RETURN;
             END IF;
             PERFORM pg_advisory_xact_lock(hashtext('unslide_partitions'));
             IF EXISTS (SELECT FROM report_key_months m WHERE m.month = wanted) THEN
                 RETURN;
             END IF;
             EXECUTE format('CREATE TABLE public.%I (LIKE public.report_keys INCLUDING ALL)', child);
             EXECUTE format('ALTER TABLE public.%I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', child);
             EXECUTE format('ALTER TABLE public.report_keys ATTACH PARTITION public.%I FOR VALUES IN (%L)', child, wanted);
             INSERT INTO report_key_months (month, ended_at)
             SELECT wanted, coalesce(min(m.month), wanted + 31)::timestamptz FROM report_key_months m WHERE m.month > wanted;
         END $make$"
    )
}
