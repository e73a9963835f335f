//! Deletes old rows in short transactions: however far behind it is, each page is progress.

use crate::number::from_row;
use crate::{Result, Store};
use time::OffsetDateTime;

/// Rows that one transaction deletes.
const PURGE_PAGE_ENTRIES: i32 = 5_000;
/// Pages of one purge: more rows than come between two of them.
const PURGE_PAGES_LIMIT: u32 = 200;

/// Deletes the rows of a table that are over and older than `before`: the table `purges` defines them. Each page is deleted in a
/// transaction of its own. Stops after [`PURGE_PAGES_LIMIT`] pages; the next purge deletes the rest. Returns their number.
///
/// # Errors
/// Returns an error if the database fails, or the table is not in `purges`.
pub async fn rows_before(store: &Store, table: &str, before: OffsetDateTime) -> Result<u64> {
    let mut gone = 0;
    for _ in 0..PURGE_PAGES_LIMIT {
        let page = sqlx::query_scalar!(
            r#"SELECT unslide_purge($1, $2, $3) AS "gone!""#,
            table,
            before,
            PURGE_PAGE_ENTRIES
        );
        let deleted = page.fetch_one(store.pool()).await?;
        gone += from_row(deleted);
        if deleted < i64::from(PURGE_PAGE_ENTRIES) {
            break;
        }
    }
    Ok(gone)
}
