//! Brings the tenant's rows back from ClickHouse: a move copies rows of PostgreSQL.
//!
//! From the first note of a move on, indexers move no row of the tenant to ClickHouse. What is deleted there of the rows that came back,
//! the old cell deletes with its erasure at the latest.

use crate::catalog::quote_text;
use crate::error::During;
use crate::observer::seconds_since;
use crate::transactions::{Reads, TimeLimits, begin_owner};
use crate::triggers::execute_locked;
use crate::{Move, TenantMoveError};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use unslide_store::history::{bring_back_oldest, count_moved};

/// Rows that one transaction brings back.
const BACK_ROWS_LIMIT: u32 = 500;
/// How often the moves of indexers are looked at that had begun before.
const MOVES_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The reason for which a move is refused.
pub(crate) const NO_HISTORY: &str = "it has rows in ClickHouse, which come back first, and the settings of its cell name no ClickHouse \
                                     (history.url)";

/// Returns true if ClickHouse may have rows of the tenant.
pub(crate) async fn has_history(job: &Move<'_>) -> Result<bool, TenantMoveError> {
    let mut tx = begin_owner(job.from, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    let any = sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM report_keys WHERE tenant = $1 AND history_version IS NOT NULL)
             OR EXISTS (SELECT FROM history_moves WHERE tenant = $1) OR EXISTS (SELECT FROM history_deletions WHERE tenant = $1)",
    );
    let any = any.bind(job.tenant.as_str()).fetch_one(tx.parts().0).await;
    let any = any.during(&job.from.name, "looking for rows in ClickHouse")?;
    tx.rollback().await?;
    Ok(any)
}

/// Counts the rows that would come back.
pub(crate) async fn count_rows_to_bring(job: &Move<'_>) -> Result<u64, TenantMoveError> {
    let mut tx = job.from.store.tenant(&job.tenant).await?;
    let rows = count_moved(&mut tx).await?;
    tx.rollback().await?;
    Ok(rows)
}

/// Brings all rows of the tenant back into PostgreSQL. The move has been noted before.
pub(crate) async fn bring_rows_back(job: &Move<'_>) -> Result<(), TenantMoveError> {
    if job.from.store.history().is_none() {
        if has_history(job).await? {
            let (tenant, cell) = (job.tenant.clone(), job.to.name.clone());
            return Err(TenantMoveError::Refused { tenant, cell, reason: NO_HISTORY.to_owned() });
        }
        return Ok(());
    }
    let begin = Instant::now();
    wait_for_indexers(job).await?;
    let mut brought = 0;
    loop {
        // None begins any more, so that what is under way now is all that can still move rows.
        let under_way = count_moves(job).await?;
        brought += bring_back(job).await?;
        if under_way == 0 {
            break;
        }
        if begin.elapsed() >= job.limits.ending {
            return Err(TenantMoveError::Other(format!(
                "indexers of the cell {} move rows of the tenant to ClickHouse since {}: look at them, and run the command again",
                job.from.name,
                seconds_since(begin)
            )));
        }
        sleep(MOVES_POLL_INTERVAL).await;
    }
    if brought > 0 {
        job.say(&format!("history: {brought} rows brought back from ClickHouse ({})", seconds_since(begin)));
    }
    Ok(())
}

/// Waits for transactions that may have begun to move rows before they could see the note of this move.
async fn wait_for_indexers(job: &Move<'_>) -> Result<(), TenantMoveError> {
    // As unslide_refuse_deleted locks it when an intent is stored.
    let lock = format!(
        "SELECT pg_advisory_xact_lock(hashtextextended('tenant ' || {}, 0))",
        quote_text(job.tenant.as_str())
    );
    execute_locked(job.from, &job.tenant, &lock, "waiting for indexers that move rows to ClickHouse").await
}

/// Counts the moves of indexers that have begun.
async fn count_moves(job: &Move<'_>) -> Result<i64, TenantMoveError> {
    let mut tx = begin_owner(job.from, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    let moves = sqlx::query_scalar("SELECT count(*) FROM history_moves WHERE tenant = $1");
    let moves = moves.bind(job.tenant.as_str()).fetch_one(tx.parts().0).await;
    let moves = moves.during(&job.from.name, "counting moves to ClickHouse")?;
    tx.rollback().await?;
    Ok(moves)
}

/// Brings back what is in ClickHouse now. Returns the number of rows.
async fn bring_back(job: &Move<'_>) -> Result<u64, TenantMoveError> {
    let mut brought = 0;
    loop {
        let mut tx = job.from.store.tenant(&job.tenant).await?;
        let rows = bring_back_oldest(&mut tx, BACK_ROWS_LIMIT).await?;
        tx.commit().await?;
        if rows == 0 {
            return Ok(brought);
        }
        brought += rows;
    }
}
