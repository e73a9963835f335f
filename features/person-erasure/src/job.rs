//! The jobs of the builder that search for data of a person.

use crate::search::PersonSearch;
use crate::store::{self, OpenErasure, PERSON_ERASURES};
use serde_json::json;
use time::Duration;
use unslide_builder::feature::{FeatureJob, GivenUpJob, JobFailure, JobFuture, JobHandler};
use unslide_store::erasure_requests::{ErasureRequest, SearchEnd};
use unslide_store::{HookFuture, OwnerTx, Result, TenantTx, audit, jobs};

/// One at a time in each builder.
pub const JOBS: &[JobHandler] =
    &[JobHandler { kind: store::JOB_KIND, places: 1, child_task: None, run, give_up }];

fn run<'j>(job: &'j FeatureJob<'j>) -> JobFuture<'j> {
    Box::pin(erase_person(job))
}

fn give_up<'t>(tx: &'t mut OwnerTx, given_up: &'t GivenUpJob<'t>) -> HookFuture<'t> {
    Box::pin(async {
        let erasure = given_up.job.work.row("erasure")?;
        ErasureRequest { table: PERSON_ERASURES, id: erasure }.fail(tx, given_up.detail).await
    })
}

/// Goes on with an erasure for one turn.
async fn erase_person(job: &FeatureJob<'_>) -> Result<(), JobFailure> {
    let tenant = job.lease.tenant()?;
    let id = job.lease.work.row("erasure")?;
    let mut tx = job.store().tenant(tenant).await?;
    let erasure = store::find_open(&mut tx, id).await?;
    tx.rollback().await?;
    let Some(erasure) = erasure else {
        return job.end_turn(job.store().tenant(tenant).await?, None).await;
    };
    let next_day = PersonSearch::for_erasure(job.store(), tenant, &erasure).erase_some().await?;
    let mut tx = job.store().tenant(tenant).await?;
    jobs::lock_job(&mut tx, job.lease).await?;
    let pause = match next_day {
        Some(day) => {
            store::set_next_day(&mut tx, id, day).await?;
            Some(Duration::ZERO)
        }
        None => end_search(&mut tx, &erasure).await?,
    };
    job.end_turn(tx, pause).await
}

/// Ends the first search, and returns the time until the second one begins. Ends the second one with an entry in the
/// audit log, and returns None: the erasure is done.
///
/// # Errors
/// The database fails.
pub async fn end_search(tx: &mut TenantTx, erasure: &OpenErasure) -> Result<Option<Duration>> {
    match erasure.request().end_search(tx).await? {
        Some(SearchEnd::SearchAgain(pause)) => return Ok(Some(pause)),
        Some(SearchEnd::Done) => {}
        None => return Ok(None),
    }
    if let Some(ended) = store::get_erasure(tx, erasure.id).await? {
        let detail =
            json!({"kind": ended.kind, "removed": ended.removed, "requested_by": ended.requested_by});
        audit::append_entry(tx, "builder", "person.erased", &ended.person_hash, &detail).await?;
    }
    Ok(None)
}
