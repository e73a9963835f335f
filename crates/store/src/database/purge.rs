//! Deleting what is over, in short transactions: however far behind it is, each page is progress.

use crate::Result;
use crate::number::from_row;

/// Rows that one transaction deletes.
const PAGE: i32 = 5_000;
/// Pages of one purge: more rows than come between two of them.
const PAGES: u32 = 200;

/// Has `page` delete at most as many rows as it is given, in a transaction of its own, until it deletes fewer. Returns the
/// number of all. What is left after [`PAGES`] is for the next purge.
/// # Errors
/// Returns an error if the database fails.
pub async fn in_pages<P>(page: impl Fn(i32) -> P) -> Result<u64>
where
    P: Future<Output = sqlx::Result<i64>>,
{
    let mut gone = 0;
    for _ in 0..PAGES {
        let deleted = page(PAGE).await?;
        gone += from_row(deleted);
        if deleted < i64::from(PAGE) {
            break;
        }
    }
    Ok(gone)
}
