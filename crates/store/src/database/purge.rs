//! Deletes old rows in short transactions: however far behind it is, each page is progress.

use crate::number::from_row;
use crate::{Result, Store};
use time::OffsetDateTime;

/// Rows that one transaction deletes.
const PURGE_PAGE_ENTRIES: i32 = 5_000;
/// Pages of one purge: more rows than come between two of them.
const PURGE_PAGES_LIMIT: u32 = 200;

/// Deletes the rows of a table that are over and older than `before`: the table `purges` defines them.
/// Returns their number.
///
/// # Errors
/// Returns an error if the database fails, or the table is not in `purges`.
pub async fn rows_before(store: &Store, table: &str, before: OffsetDateTime) -> Result<u64> {
    in_pages(|rows| {
        sqlx::query_scalar!(r#"SELECT unslide_purge($1, $2, $3) AS "gone!""#, table, before, rows)
            .fetch_one(store.pool())
    })
    .await
}

/// Calls `page`, in a transaction of its own each time, until it deletes fewer rows than the limit that it
/// gets. Returns the number of all deleted rows. Stops after [`PURGE_PAGES_LIMIT`] pages; the next purge deletes the
/// rest.
/// # Errors
/// Returns an error if the database fails.
pub async fn in_pages<P>(page: impl Fn(i32) -> P) -> Result<u64>
where
    P: Future<Output = sqlx::Result<i64>>,
{
    let mut gone = 0;
    for _ in 0..PURGE_PAGES_LIMIT {
        let deleted = page(PURGE_PAGE_ENTRIES).await?;
        gone += from_row(deleted);
        if deleted < i64::from(PURGE_PAGE_ENTRIES) {
            break;
        }
    }
    Ok(gone)
}
