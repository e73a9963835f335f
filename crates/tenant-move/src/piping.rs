//! Rows from one database to another, as bytes of `COPY`.

use crate::TenantMoveError;
use crate::error::During;
use futures::TryStreamExt;
use sqlx::AssertSqlSafe;
use sqlx::postgres::PgConnection;

/// Bytes that are sent at once.
const SENT_BYTES: usize = 256 << 10;

/// A database in the middle of a copy.
pub(crate) struct Side<'s> {
    pub cell: &'s str,
    pub connection: &'s mut PgConnection,
}

/// Runs a statement of one database that makes or fills a table for the copy.
pub(crate) async fn execute_statement(
    side: &mut Side<'_>,
    statement: String,
    action: &str,
) -> Result<u64, TenantMoveError> {
    let done = sqlx::query(AssertSqlSafe(statement)).execute(&mut *side.connection).await;
    Ok(done.during(side.cell, action)?.rows_affected())
}

/// Makes a temporary table with columns of a table, and fills it with the rows of a query of the other database.
/// Returns the number of rows.
pub(crate) async fn pipe_rows(
    from: &mut Side<'_>,
    query: &str,
    to: &mut Side<'_>,
    temporary: &str,
    columns: &str,
    table: &str,
) -> Result<u64, TenantMoveError> {
    let make = format!(
        "CREATE TEMPORARY TABLE {temporary} ON COMMIT DROP AS SELECT {columns} FROM {table} WITH NO DATA"
    );
    execute_statement(to, make, &format!("copying {table}")).await?;
    let (read, write) = (format!("reading {table}"), format!("writing {table}"));
    let begin = format!("COPY ({query}) TO STDOUT (FORMAT binary)");
    let mut rows = from.connection.copy_out_raw(&begin).await.during(from.cell, &read)?;
    let begin = format!("COPY pg_temp.{temporary} FROM STDIN (FORMAT binary)");
    let mut sink = to.connection.copy_in_raw(&begin).await.during(to.cell, &write)?;
    let mut buffer = Vec::with_capacity(SENT_BYTES);
    loop {
        let next = match rows.try_next().await {
            Ok(next) => next,
            Err(error) => {
                sink.abort("the other cell's database failed").await.ok();
                return Err(error).during(from.cell, read);
            }
        };
        let is_last = next.is_none();
        if let Some(bytes) = next {
            buffer.extend_from_slice(&bytes);
        }
        if buffer.len() >= SENT_BYTES || is_last && !buffer.is_empty() {
            sink.send(buffer.as_slice()).await.during(to.cell, &write)?;
            buffer.clear();
        }
        if is_last {
            return sink.finish().await.during(to.cell, write);
        }
    }
}
