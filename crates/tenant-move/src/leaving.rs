//! The rest of a move after the switch: the directory, the last records of the old cell, and its erasure.

use crate::error::During;
use crate::observer::seconds_since;
use crate::transactions::{Reads, TimeLimits, begin_owner, commit_tx, connect_directory};
use crate::triggers::remove_triggers;
use crate::{CellServers, Move, Step, TenantMoveError};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use unslide_model::TenantId;
use unslide_store::cells::set_tenant_cell;
use unslide_store::erasure::{self, resume_erasures};

const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Between two lines about the progress of a wait.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);
/// Deleted tenants that get the job of their erasure.
const ERASURE_ENTRIES: u32 = 1_000;

/// Ends the tenant's time in the old cell.
pub(crate) async fn leave_cell(job: &Move<'_>) -> Result<(), TenantMoveError> {
    name_cell(job).await?;
    job.reach(Step::Named).await;
    remove_triggers(job.to, &job.tenant).await?;
    forget_move(job.to, &job.tenant).await?;
    if !is_erasing(job).await? {
        drain_cell(job).await?;
        job.reach(Step::Drained).await;
        begin_erasure(job).await?;
    }
    remove_triggers(job.from, &job.tenant).await?;
    forget_move(job.from, &job.tenant).await?;
    job.reach(Step::Erasing).await;
    wait_erased(job).await?;
    forget_history(job).await?;
    job.reach(Step::Erased).await;
    job.say(&format!(
        "done: the cell {} has no row and no object of the tenant but its own row, by which late records are passed on, and the proof of \
         the erasure",
        job.from.name
    ));
    Ok(())
}

/// Writes the new cell into the directory.
async fn name_cell(job: &Move<'_>) -> Result<(), TenantMoveError> {
    let mut connection = connect_directory(job).await?;
    set_tenant_cell(&mut connection, &job.tenant, &job.to.name, job.directory.now()).await?;
    job.say(&format!("directory: {} is in {}", job.tenant, job.to.name));
    Ok(())
}

/// Deletes the notes of a move, and how far it was.
pub(crate) async fn forget_move(cell: &CellServers, tenant: &TenantId) -> Result<(), TenantMoveError> {
    let mut tx = begin_owner(cell, tenant, Reads::Latest, TimeLimits::NONE).await?;
    sqlx::query("DELETE FROM moving_rows WHERE slug = $1")
        .bind(tenant.as_str())
        .execute(tx.parts().0)
        .await
        .during(&cell.name, "deleting the notes of the move")?;
    commit_tx(tx).await
}

async fn is_erasing(job: &Move<'_>) -> Result<bool, TenantMoveError> {
    let mut tx = begin_owner(job.from, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    let erasure = erasure::get(&mut tx).await?;
    tx.rollback().await?;
    Ok(erasure.is_some())
}

/// Deletes the tenant's jobs, which the new cell has, and waits until the old cell has sent its messages and passed its deferred
/// records on.
async fn drain_cell(job: &Move<'_>) -> Result<(), TenantMoveError> {
    let mut tx = begin_owner(job.from, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    sqlx::query("DELETE FROM jobs WHERE tenant = $1")
        .bind(job.tenant.as_str())
        .execute(tx.parts().0)
        .await
        .during(&job.from.name, "deleting jobs")?;
    commit_tx(tx).await?;
    let begin = Instant::now();
    let mut waits = Waits::begin(job);
    loop {
        let mut tx = begin_owner(job.from, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
        let (messages, records): (i64, i64) = sqlx::query_as(
            "SELECT (SELECT count(*) FROM outbox WHERE tenant = $1 AND sent_at IS NULL AND set_aside_at IS NULL),
                    (SELECT coalesce(sum(records), 0)::bigint FROM deferred_ranges WHERE tenant = $1)",
        )
        .bind(job.tenant.as_str())
        .fetch_one(tx.parts().0)
        .await
        .during(&job.from.name, "counting what is not sent")?;
        tx.rollback().await?;
        if messages == 0 && records == 0 {
            job.say(&format!(
                "drained: all messages and deferred records are sent ({})",
                seconds_since(begin)
            ));
            return Ok(());
        }
        let left = format!("has {messages} messages to send and {records} deferred records to pass on");
        waits.wait_on(job, &left).await?;
    }
}

/// Deletes the tenant in the old cell. The deletion is not announced: its records are passed on, and receivers of events know
/// the tenant from the new cell.
async fn begin_erasure(job: &Move<'_>) -> Result<(), TenantMoveError> {
    let mut tx = begin_owner(job.from, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    let (connection, slug, now) = tx.parts();
    sqlx::query(
        "WITH deleted AS (
             UPDATE tenants SET state = 'deleted', name = slug, version = version + 1, updated_at = $2
             WHERE slug = $1 AND place = 'moved' AND state <> 'deleted')
         INSERT INTO tenant_erasures (tenant, requested_at) SELECT slug, $2 FROM tenants WHERE slug = $1 AND place = 'moved'
         ON CONFLICT DO NOTHING",
    )
    .bind(slug)
    .bind(now)
    .execute(connection)
    .await
    .during(&job.from.name, "deleting the tenant")?;
    commit_tx(tx).await
}

/// Waits until the builder of the old cell has erased the tenant.
async fn wait_erased(job: &Move<'_>) -> Result<(), TenantMoveError> {
    let begin = Instant::now();
    // Only those without a job get one. The second search after an erasure has its time.
    resume_erasures(&job.from.store, time::OffsetDateTime::UNIX_EPOCH, ERASURE_ENTRIES).await?;
    let mut waits = Waits::begin(job);
    loop {
        let mut tx = begin_owner(job.from, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
        let erasure = erasure::get(&mut tx).await?;
        tx.rollback().await?;
        let Some(erasure) = erasure else {
            return Err(TenantMoveError::Other(format!(
                "the cell {} lost the record of the erasure",
                job.from.name
            )));
        };
        let rows: u64 = erasure.removed.values().sum();
        if erasure.finished_at.is_some() {
            job.say(&format!(
                "erased: {rows} rows and {} objects in the cell {} ({})",
                erasure.objects,
                job.from.name,
                seconds_since(begin)
            ));
            return Ok(());
        }
        let left = format!("erases: {rows} rows and {} objects so far", erasure.objects);
        waits.wait_on(job, &left).await?;
    }
}

/// Deletes the rows that outlive a tenant and are in the new cell: its audit log but for the proof, and messages that were sent.
async fn forget_history(job: &Move<'_>) -> Result<(), TenantMoveError> {
    let mut tx = begin_owner(job.from, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    for statement in [
        "DELETE FROM audit_log WHERE tenant = $1 AND action NOT IN ('tenant.erased', 'tenant.swept')",
        "DELETE FROM outbox WHERE tenant = $1 AND sent_at IS NOT NULL",
        "DELETE FROM jobs WHERE tenant = $1 AND status IN ('done', 'failed')",
    ] {
        sqlx::query(statement)
            .bind(job.tenant.as_str())
            .execute(tx.parts().0)
            .await
            .during(&job.from.name, "deleting what outlives the tenant")?;
    }
    commit_tx(tx).await
}

/// A wait for other processes, with a line now and then.
struct Waits {
    end: Instant,
    next_line: Instant,
}

impl Waits {
    fn begin(job: &Move<'_>) -> Waits {
        let now = Instant::now();
        Waits { end: now + job.limits.ending, next_line: now + PROGRESS_INTERVAL }
    }

    /// Waits a moment.
    ///
    /// # Errors
    /// [`TenantMoveError::Unfinished`] if the time is over.
    async fn wait_on(&mut self, job: &Move<'_>, left: &str) -> Result<(), TenantMoveError> {
        let now = Instant::now();
        if now >= self.end {
            return Err(TenantMoveError::Unfinished {
                cell: job.to.name.clone(),
                waits_for: left.to_owned(),
            });
        }
        if now >= self.next_line {
            job.say(&format!("the cell {} {left}", job.from.name));
            self.next_line = now + PROGRESS_INTERVAL;
        }
        sleep(DRAIN_POLL_INTERVAL).await;
        Ok(())
    }
}
