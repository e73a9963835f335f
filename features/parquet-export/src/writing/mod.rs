//! The job of the builder that writes the days of a tenant. There is one for each tenant with an export, as long as it has it.
//!
//! Every step may be repeated: a day is complete once its manifest is in the bucket and the database says so, and until then the next turn
//! writes it again with files of other names.

mod day;

use crate::ParquetExport;
use crate::bucket::BucketFailure;
use crate::store::{self, DueDay, ExportRow};
use day::{DayEnd, DayFailure, write_day};
use std::borrow::Cow;
use time::{Date, Duration, OffsetDateTime};
use tokio::time::Instant;
use unslide_api::feature::buckets::BucketTarget;
use unslide_api::feature::tenant_turns::server_pause;
use unslide_builder::feature::{FeatureJob, GivenUpJob, JobFailure, JobFuture, JobHandler};
use unslide_model::TenantId;
use unslide_store::jobs::{self, FeatureWork, Work};
use unslide_store::tenants::{self, TenantStanding};
use unslide_store::{HookFuture, OwnerTx, Result as StoreResult, TenantTx};

/// The kind of the jobs.
pub const WRITING_JOB_KIND: &str = "write_parquet_days";

/// Jobs that a builder runs at once: each holds a file in memory.
pub const WRITING_JOBS: &[JobHandler] =
    &[JobHandler { kind: WRITING_JOB_KIND, places: 2, child_task: None, run, give_up }];

/// Time after which a turn begins no day.
const TURN_TIME: std::time::Duration = std::time::Duration::from_secs(30);
/// How often a turn counts changes together, each time a limited number.
const COLLECTIONS_LIMIT: usize = 50;
/// Replaced files that a turn deletes at most.
const DELETIONS_LIMIT: i64 = 1_000;
/// The pause of a turn that has left days, so that those of other tenants come first.
const REST_INTERVAL: Duration = Duration::milliseconds(200);
/// The pause of a job of a suspended tenant.
const SUSPENDED_INTERVAL: Duration = Duration::minutes(5);
/// The pause of a job that was given up, because builders died with it.
const GIVEN_UP_INTERVAL: Duration = Duration::hours(1);

fn run<'j>(job: &'j FeatureJob<'j>) -> JobFuture<'j> {
    Box::pin(take_turn(job))
}

/// Adds the next job: the export is still there.
fn give_up<'t>(tx: &'t mut OwnerTx, _: &'t GivenUpJob<'t>) -> HookFuture<'t> {
    Box::pin(async { jobs::add_all(tx, &[build_work()], GIVEN_UP_INTERVAL).await })
}

fn build_work() -> Work {
    Work::Feature(FeatureWork { kind: Cow::Borrowed(WRITING_JOB_KIND), arguments: serde_json::Map::new() })
}

/// Adds the job of the transaction's tenant unless it has one, under the lock of its export.
pub async fn begin_writing(tx: &mut TenantTx) -> StoreResult<()> {
    if !jobs::has_job(tx, WRITING_JOB_KIND).await? {
        jobs::add_job(tx, &build_work()).await?;
    }
    Ok(())
}

/// Writes what is due, for one turn.
async fn take_turn(job: &FeatureJob<'_>) -> Result<(), JobFailure> {
    let (state, tenant) = (job.find_state::<ParquetExport>()?, job.lease.tenant()?);
    let mut tx = job.store().tenant(tenant).await?;
    if tenants::read_standing(&mut tx).await? != Some(TenantStanding::Active) {
        return job.end_turn(tx, Some(SUSPENDED_INTERVAL)).await;
    }
    tx.rollback().await?;
    collect_all_changes(job, tenant).await?;
    let mut tx = job.store().tenant(tenant).await?;
    let Some(export) = store::get_export(&mut tx).await? else {
        tx.rollback().await?;
        return end_job_turn(job, tenant, state.look_interval).await;
    };
    let (now, limits) =
        (tx.now(), tenants::get(&mut tx).await?.map(|tenant| tenant.limits).unwrap_or_default());
    let kept_from = state.find_kept_from(limits.retention_days, now);
    store::skip_days(&mut tx, &export, kept_from).await?;
    let left_out = store::drop_changes(&mut tx, kept_from).await?;
    tx.commit().await?;
    if left_out > 0 {
        tracing::warn!(%tenant, days = left_out, "deleted reports are still in the Parquet files of days whose other reports have ended");
    }
    if export.next_write_at > now {
        return end_job_turn(job, tenant, state.look_interval).await;
    }
    let done = match state.open_target(tenant, &export) {
        Ok(target) => {
            let turn = Turn { job, state, tenant, target: &target, kept_from };
            turn.write_all().await
        }
        Err(problem) => Err(DayFailure::Bucket(BucketFailure::new(problem))),
    };
    match done {
        Ok(has_more) => {
            let mut tx = job.store().tenant(tenant).await?;
            store::record_success(&mut tx, &export).await?;
            tx.commit().await?;
            let pause = if has_more { REST_INTERVAL } else { state.look_interval };
            end_job_turn(job, tenant, pause).await
        }
        Err(DayFailure::Job(failure)) => Err(failure),
        Err(DayFailure::Bucket(failure)) => {
            tracing::warn!(%tenant, reason = failure.text, "Parquet files could not be written; they are tried again");
            let pause = server_pause(export.failures, failure.pause);
            let mut tx = job.store().tenant(tenant).await?;
            store::record_failure(&mut tx, &export, pause, &failure.text).await?;
            tx.commit().await?;
            end_job_turn(job, tenant, state.look_interval).await
        }
    }
}

async fn collect_all_changes(job: &FeatureJob<'_>, tenant: &TenantId) -> Result<(), JobFailure> {
    for _ in 0..COLLECTIONS_LIMIT {
        let mut tx = job.store().tenant(tenant).await?;
        let has_more = store::collect_changes(&mut tx).await?;
        tx.commit().await?;
        if !has_more {
            break;
        }
    }
    Ok(())
}

/// Ends a turn: the job goes on after the pause, and is over without an export.
async fn end_job_turn(job: &FeatureJob<'_>, tenant: &TenantId, pause: Duration) -> Result<(), JobFailure> {
    let mut tx = job.store().tenant(tenant).await?;
    let is_needed = store::lock_export(&mut tx).await?.is_some();
    job.end_turn(tx, is_needed.then_some(pause)).await
}

/// A turn of one tenant.
struct Turn<'t> {
    job: &'t FeatureJob<'t>,
    state: &'t ParquetExport,
    tenant: &'t TenantId,
    target: &'t BucketTarget,
    /// The first day that is written: reports of those before end by their age.
    kept_from: Date,
}

impl Turn<'_> {
    /// Deletes replaced files and writes the days that are due. Returns true if some are left because the turn has lasted long enough.
    async fn write_all(&self) -> Result<bool, DayFailure> {
        let begun = Instant::now();
        self.delete_ended().await?;
        loop {
            let mut tx = self.job.store().tenant(self.tenant).await?;
            let Some(export) = store::get_export(&mut tx).await? else { return Ok(false) };
            let due = self.find_due(&mut tx, &export).await?;
            tx.rollback().await?;
            let Some(due) = due else { return Ok(false) };
            match write_day(self, &export, due).await? {
                DayEnd::Written(day) => {
                    let (tenant, rows, files) = (self.tenant, day.rows, day.files);
                    tracing::info!(%tenant, day = %due.day, rows, files, "a day was written as Parquet files");
                    if due.erases {
                        self.delete_ended().await?;
                    }
                }
                // The next turn reads the new settings.
                DayEnd::SetAgain => return Ok(true),
            }
            if begun.elapsed() >= TURN_TIME {
                return Ok(true);
            }
        }
    }

    /// Returns the next day that is to be written: one with deleted reports, the next that is over, or another one that has changed.
    async fn find_due(&self, tx: &mut TenantTx, export: &ExportRow) -> StoreResult<Option<DueDay>> {
        let times = &self.state.times;
        let changed = store::find_due_change(tx, export, self.kept_from, times).await?;
        if changed.is_some_and(|due| due.erases) {
            return Ok(changed);
        }
        let is_over = is_due(export.next_day, times.after_day, tx.now());
        Ok(if is_over { Some(DueDay { day: export.next_day, erases: false }) } else { changed })
    }

    async fn delete_ended(&self) -> Result<(), DayFailure> {
        let mut tx = self.job.store().tenant(self.tenant).await?;
        let ended = store::list_ended(&mut tx, DELETIONS_LIMIT).await?;
        tx.rollback().await?;
        for file in &ended {
            let at = self.job.store().now();
            self.state.client.delete_object(self.target, &file.path, at).await?;
            let mut tx = self.job.store().tenant(self.tenant).await?;
            store::forget_file(&mut tx, file).await?;
            tx.commit().await?;
        }
        Ok(())
    }
}

/// Returns true if a day is over for this long.
fn is_due(day: Date, after_day: Duration, now: OffsetDateTime) -> bool {
    day.next_day().is_some_and(|next| next.midnight().assume_utc() + after_day <= now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::{date, datetime};

    #[test]
    fn a_day_is_due_some_hours_after_its_end_in_utc() {
        let day = date!(2026 - 11 - 29);
        let due = |at| is_due(day, Duration::hours(3), at);
        assert!(!due(datetime!(2026-11-30 02:59:59 UTC)));
        assert!(due(datetime!(2026-11-30 03:00 UTC)));
        assert!(!due(datetime!(2026-11-30 04:59 +2)));
    }
}
