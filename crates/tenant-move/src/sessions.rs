//! Sessions of PostgreSQL whose statements end in time.

use crate::error::During;
use crate::transactions::{Reads, TimeLimits, begin_owner};
use crate::{CellServers, Move, TenantMoveError};
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};
use unslide_store::TenantTx;

/// How often statements are cancelled: one may begin just after that.
const CANCEL_INTERVAL: Duration = Duration::from_millis(100);

/// Returns the number of a transaction's session in its cell.
pub(crate) async fn read_session(cell: &CellServers, tx: &mut TenantTx) -> Result<i32, TenantMoveError> {
    let session = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(tx.parts().0).await;
    session.during(&cell.name, "looking at the session")
}

/// Waits for work whose statements run in these sessions. From `end` on it cancels the statements until the work ends.
///
/// The work is not dropped: a connection that was left within a `COPY` goes back to its pool, and takes the rest of the answer for
/// that of its next statement.
///
/// # Errors
/// [`TenantMoveError::Late`] if a statement was cancelled, the error of the work, or that of a cell that cannot be asked to cancel.
pub(crate) async fn cancel_at(
    end: Instant,
    job: &Move<'_>,
    sessions: &[(&CellServers, i32)],
    work: impl Future<Output = Result<(), TenantMoveError>>,
) -> Result<(), TenantMoveError> {
    let mut work = pin!(work);
    if let Ok(done) = timeout_at(end, &mut work).await {
        return done;
    }
    loop {
        for (cell, session) in sessions {
            cancel_statement(job, cell, *session).await?;
        }
        if let Ok(done) = timeout(CANCEL_INTERVAL, &mut work).await {
            let late = TenantMoveError::Late { detail: "the last rows".to_owned() };
            return done.map_err(|error| if error.is_locked() { late } else { error });
        }
    }
}

async fn cancel_statement(job: &Move<'_>, cell: &CellServers, session: i32) -> Result<(), TenantMoveError> {
    let mut tx = begin_owner(cell, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    sqlx::query("SELECT pg_cancel_backend($1)")
        .bind(session)
        .execute(tx.parts().0)
        .await
        .during(&cell.name, "cancelling a statement")?;
    Ok(tx.rollback().await?)
}
