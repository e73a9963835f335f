//! Copies tables in pieces, in the order of their keys, while the old cell serves the tenant.
//!
//! The old cell's `moving_rows` keep how far each table is, in rows with a `target` that is no table. A new process continues there.

use crate::catalog::{MovedTable, Tables, count_rows, quote_name, quote_text};
use crate::error::During;
use crate::notes::{PROGRESS, apply_notes};
use crate::observer::seconds_since;
use crate::partitions::prepare_partitions;
use crate::piping::{Side, execute_statement, pipe_rows};
use crate::transactions::{Reads, TimeLimits, begin_owner, commit_tx};
use crate::{Move, Step, TenantMoveError};
use serde::{Deserialize, Serialize};
use sqlx::AssertSqlSafe;
use sqlx::postgres::PgConnection;
use std::collections::BTreeSet;
use tokio::time::Instant;

/// How often a piece is copied again because its rows refer to others that were written at the same time.
const PIECE_TRIES: u32 = 10;

/// How far a table is.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Progress {
    /// The cell to which it is copied.
    cell: String,
    /// The key of the last row, as texts.
    after: Option<Vec<String>>,
    is_done: bool,
}

/// Records to which cell the tenant moves.
///
/// # Errors
/// [`TenantMoveError::Refused`] if another move to another cell has not ended.
pub(crate) async fn begin_progress(job: &Move<'_>) -> Result<(), TenantMoveError> {
    let mut tx = begin_owner(job.from, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    let connection = tx.parts().0;
    match read_progress(job, connection, "").await? {
        Some(progress) if progress.cell != job.to.name => {
            return Err(TenantMoveError::Refused {
                tenant: job.tenant.clone(),
                cell: job.to.name.clone(),
                reason: format!(
                    "it moves to the cell {}: end that move, or abort it with --abort",
                    progress.cell
                ),
            });
        }
        Some(_) => {}
        None => {
            let progress = Progress { cell: job.to.name.clone(), ..Progress::default() };
            record_progress(job, connection, "", &progress).await?;
        }
    }
    commit_tx(tx).await
}

async fn read_progress(
    job: &Move<'_>,
    connection: &mut PgConnection,
    table: &str,
) -> Result<Option<Progress>, TenantMoveError> {
    let found: Option<serde_json::Value> = sqlx::query_scalar(
        "SELECT key FROM moving_rows WHERE slug = $1 AND target = $2 ORDER BY number DESC LIMIT 1",
    )
    .bind(job.tenant.as_str())
    .bind(format!("{PROGRESS}{table}"))
    .fetch_optional(connection)
    .await
    .during(&job.from.name, "reading how far the copy is")?;
    found
        .map(serde_json::from_value)
        .transpose()
        .map_err(|error| TenantMoveError::Other(format!("how far the copy of {table} is: {error}")))
}

async fn record_progress(
    job: &Move<'_>,
    connection: &mut PgConnection,
    table: &str,
    progress: &Progress,
) -> Result<(), TenantMoveError> {
    let value = serde_json::to_value(progress).map_err(|error| TenantMoveError::Other(error.to_string()))?;
    let target = format!("{PROGRESS}{table}");
    sqlx::query(
        "WITH older AS (DELETE FROM moving_rows WHERE slug = $1 AND target = $2)
         INSERT INTO moving_rows (slug, target, key) VALUES ($1, $2, $3)",
    )
    .bind(job.tenant.as_str())
    .bind(target)
    .bind(value)
    .execute(connection)
    .await
    .during(&job.from.name, "recording how far the copy is")?;
    Ok(())
}

/// Copies all tables but the late one. Tables that are copied already stay.
pub(crate) async fn copy_tables(job: &Move<'_>, tables: &Tables) -> Result<(), TenantMoveError> {
    let mut tx = begin_owner(job.from, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    let connection = tx.parts().0;
    let rows = count_rows(job.from, connection, job.tenant.as_str(), tables.early(), Some(1)).await?;
    // An earlier process may have copied some.
    let mut begun = list_begun(job, connection).await?;
    tx.rollback().await?;
    for table in tables.early() {
        let is_new = begun.insert(table.name.clone());
        let is_empty = rows.get(&table.name).is_none_or(|rows| *rows == 0);
        // Rows that came since are noted.
        if is_new && is_empty {
            finish_table(job, table).await?;
        } else {
            copy_table(job, tables, table, &begun).await?;
        }
    }
    Ok(())
}

/// Records that a table has no row to copy.
async fn finish_table(job: &Move<'_>, table: &MovedTable) -> Result<(), TenantMoveError> {
    let progress = Progress { cell: job.to.name.clone(), after: None, is_done: true };
    let mut tx = begin_owner(job.from, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    record_progress(job, tx.parts().0, &table.name, &progress).await?;
    commit_tx(tx).await
}

/// Lists the tables that are copied, or in part.
async fn list_begun(
    job: &Move<'_>,
    connection: &mut PgConnection,
) -> Result<BTreeSet<String>, TenantMoveError> {
    let begun: Vec<String> = sqlx::query_scalar(
        "SELECT substr(target, length($2) + 1) FROM moving_rows WHERE slug = $1 AND starts_with(target, $2) AND target <> $2",
    )
    .bind(job.tenant.as_str())
    .bind(PROGRESS)
    .fetch_all(connection)
    .await
    .during(&job.from.name, "reading how far the copy is")?;
    Ok(begun.into_iter().collect())
}

async fn copy_table(
    job: &Move<'_>,
    tables: &Tables,
    table: &MovedTable,
    begun: &BTreeSet<String>,
) -> Result<(), TenantMoveError> {
    let mut tx = begin_owner(job.from, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    let mut progress = read_progress(job, tx.parts().0, &table.name).await?.unwrap_or_default();
    tx.rollback().await?;
    let (begin, mut rows, mut tries) = (Instant::now(), 0, 0);
    while !progress.is_done {
        match copy_piece(job, table, progress.after.clone()).await {
            Ok(piece) => {
                rows += piece.rows;
                progress = piece.progress;
                tries = 0;
                job.reach(Step::Piece).await;
            }
            Err(error) if error.is_out_of_order() && tries < PIECE_TRIES => {
                tries += 1;
                prepare_partitions(job, tables).await?;
                apply_notes(job, tables, begun).await?;
            }
            Err(error) => return Err(error),
        }
    }
    if rows > 0 {
        job.say(&format!("{}: {rows} rows copied ({})", table.name, seconds_since(begin)));
    }
    Ok(())
}

/// Rows that were copied, and how far their table is.
struct Piece {
    rows: u64,
    progress: Progress,
}

/// Copies the next rows of a table, and records how far it is.
async fn copy_piece(
    job: &Move<'_>,
    table: &MovedTable,
    after: Option<Vec<String>>,
) -> Result<Piece, TenantMoveError> {
    let mut from = begin_owner(job.from, &job.tenant, Reads::Snapshot, TimeLimits::NONE).await?;
    let mut to = begin_owner(job.to, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    let who = quote_text(job.tenant.as_str());
    let mut condition = format!("t.tenant = {who}");
    if let Some(after) = &after {
        condition = format!("{condition} AND ({}) > ({})", table.key_list("t"), key_values(table, after));
    }
    let last = match table.refers_to_itself {
        true => None,
        false => find_last(job, from.parts().0, table, &condition).await?,
    };
    if let Some(last) = &last {
        condition = format!("{condition} AND ({}) <= ({})", table.key_list("t"), key_values(table, last));
    }
    let query = format!("SELECT {} FROM {} t WHERE {condition}", table.value_list(), table.quoted());
    let mut from_side = Side { cell: &job.from.name, connection: from.parts().0 };
    let mut to_side = Side { cell: &job.to.name, connection: to.parts().0 };
    let copied =
        pipe_rows(&mut from_side, &query, &mut to_side, "piece", &table.column_list(), &table.quoted())
            .await?;
    let action = format!("writing {}", table.name);
    execute_statement(&mut to_side, table.upsert_from("piece"), &action).await?;
    commit_tx(to).await?;
    from.rollback().await?;
    let is_done = last.is_none();
    let progress = Progress { cell: job.to.name.clone(), after: last, is_done };
    let mut tx = begin_owner(job.from, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    record_progress(job, tx.parts().0, &table.name, &progress).await?;
    commit_tx(tx).await?;
    Ok(Piece { rows: copied, progress })
}

/// Returns the values of a key with their types.
fn key_values(table: &MovedTable, key: &[String]) -> String {
    let values = table
        .key
        .iter()
        .zip(key)
        .map(|(column, value)| format!("{}::{}", quote_text(value), table.kind_of(column)));
    values.collect::<Vec<_>>().join(", ")
}

/// Returns the key of the last row of the next piece; `None` if all rows that are left make one piece.
async fn find_last(
    job: &Move<'_>,
    connection: &mut PgConnection,
    table: &MovedTable,
    condition: &str,
) -> Result<Option<Vec<String>>, TenantMoveError> {
    let texts: Vec<String> = table.key.iter().map(|name| format!("t.{}::text", quote_name(name))).collect();
    let statement = format!(
        "SELECT ARRAY[{}] FROM {} t WHERE {condition} ORDER BY {} OFFSET {} LIMIT 1",
        texts.join(", "),
        table.quoted(),
        table.key_list("t"),
        job.limits.piece_rows.saturating_sub(1)
    );
    let last = sqlx::query_scalar(AssertSqlSafe(statement)).fetch_optional(connection).await;
    last.during(&job.from.name, format!("reading {}", table.name))
}
