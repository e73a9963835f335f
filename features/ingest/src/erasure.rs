//! The jobs of the builder that erase what apps sent with a public key. Every step may be repeated.

use serde_json::{Value, json};
use time::Duration;
use unslide_builder::feature::{FeatureJob, GivenUpJob, JobFailure, JobFuture, JobHandler};
use unslide_model::TenantId;
use unslide_store::erasure_requests::{ErasureRequest, SearchEnd};
use unslide_store::jobs::{self, FeatureWork, Work};
use unslide_store::key_erasures::{self, KEY_ERASURES, KeyErasure, KeyRange};
use unslide_store::tables::{Erasing, RemovalCount, Selection};
use unslide_store::{HookFuture, Result, Store, TenantTx, audit};

/// The kind of the jobs.
const JOB_KIND: &str = "erase_key";

/// One at a time in each builder.
pub const JOBS: &[JobHandler] = &[JobHandler { kind: JOB_KIND, places: 1, child_task: None, run, give_up }];

fn run<'j>(job: &'j FeatureJob<'j>) -> JobFuture<'j> {
    Box::pin(erase_some(job))
}

fn give_up<'t>(tx: &'t mut unslide_store::OwnerTx, given_up: &'t GivenUpJob<'t>) -> HookFuture<'t> {
    Box::pin(async {
        let erasure = given_up.job.work.row("erasure")?;
        ErasureRequest { table: KEY_ERASURES, id: erasure }.fail(tx, given_up.detail).await
    })
}

/// Records an erasure with its job and its entry in the audit log. Returns None if too many are under way.
///
/// # Errors
/// The database fails.
pub async fn begin_erasure(tx: &mut TenantTx, range: &KeyRange, actor: &str) -> Result<Option<KeyErasure>> {
    let Some(erasure) = key_erasures::begin_erasure(tx, range, actor).await? else { return Ok(None) };
    jobs::add_job(tx, &Work::Feature(FeatureWork::on_row(JOB_KIND, "erasure", erasure.id))).await?;
    audit::append_entry(tx, actor, "public_key.erase", &erasure.key_id, &describe_erasure(&erasure)).await?;
    Ok(Some(erasure))
}

fn describe_erasure(erasure: &KeyErasure) -> Value {
    let time = |at: time::OffsetDateTime| at.format(&time::format_description::well_known::Rfc3339).ok();
    let (from, to) = (time(erasure.from), time(erasure.to));
    json!({"erasure": erasure.id, "from": from, "to": to, "version": erasure.version, "removed": erasure.removed})
}

/// Goes on with an erasure for one turn.
async fn erase_some(job: &FeatureJob<'_>) -> Result<(), JobFailure> {
    let tenant = job.lease.tenant()?;
    let id = job.lease.work.row("erasure")?;
    let mut tx = job.store().tenant(tenant).await?;
    let erasure = key_erasures::get_erasure(&mut tx, id).await?.filter(KeyErasure::is_open);
    tx.rollback().await?;
    let pause = match &erasure {
        None => None,
        Some(erasure) if search_for_erasure(job.store(), tenant, erasure).await? => {
            let mut tx = job.store().tenant(tenant).await?;
            jobs::lock_job(&mut tx, job.lease).await?;
            let pause = end_search(&mut tx, erasure).await?;
            return job.end_turn(tx, pause).await;
        }
        Some(_) => Some(Duration::ZERO),
    };
    job.end_turn(job.store().tenant(tenant).await?, pause).await
}

/// Deletes data of a range for one turn, or counts it. Returns true once nothing is left.
///
/// # Errors
/// The database fails.
pub async fn search_range(erasing: &mut Erasing<'_>, range: &KeyRange) -> Result<bool> {
    loop {
        let limit = erasing.page_entries();
        let found = key_erasures::list_reports(&mut *erasing.begin_search().await?, range, limit).await?;
        let mut is_any = erasing.erase_reports(found).await?;
        is_any |= erasing.erase_rows(Selection::Key(range), Some(limit)).await?;
        if !is_any {
            return Ok(true);
        }
        if erasing.is_turn_over() {
            return Ok(false);
        }
    }
}

/// Counts what the erasure of a range would remove, and removes nothing.
///
/// # Errors
/// The database fails.
pub async fn count_removal(tx: &mut TenantTx, range: &KeyRange) -> Result<RemovalCount> {
    let mut erasing = Erasing::counting(tx);
    search_range(&mut erasing, range).await?;
    Ok(erasing.into_count())
}

/// Goes on with an erasure for one turn. Returns true once nothing is left.
///
/// # Errors
/// The database fails.
pub async fn search_for_erasure(store: &Store, tenant: &TenantId, erasure: &KeyErasure) -> Result<bool> {
    let Some(range) = erasure.range() else { return Ok(true) };
    search_range(&mut Erasing::removing(store, tenant, erasure.request()), &range).await
}

/// Ends the first search, and returns the time until the second one begins. Ends the second one with an entry in the
/// audit log, and returns None: the erasure is done.
///
/// # Errors
/// The database fails.
pub async fn end_search(tx: &mut TenantTx, erasure: &KeyErasure) -> Result<Option<Duration>> {
    match erasure.request().end_search(tx).await? {
        Some(SearchEnd::SearchAgain(pause)) => return Ok(Some(pause)),
        Some(SearchEnd::Done) => {}
        None => return Ok(None),
    }
    if let Some(ended) = key_erasures::get_erasure(tx, erasure.id).await? {
        audit::append_entry(tx, "builder", "public_key.erased", &ended.key_id, &describe_erasure(&ended))
            .await?;
    }
    Ok(None)
}
