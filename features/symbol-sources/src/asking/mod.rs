//! The job of the builder that asks the sources of a tenant. There is one for each tenant with sources, as long as it has some.
//!
//! The places of the jobs are shared fairly by tenants, and a turn is short, so that a tenant with slow sources delays others little.
//! Every step may be repeated: bytes that were taken before are the same upload.

mod file;

use crate::SymbolSources;
use crate::fetching::{SourceAnswer, SourceFailure};
use crate::store::{self, DueRequest, SourceReply, SourceRow};
use file::take_file;
use std::borrow::Cow;
use std::collections::BTreeSet;
use time::Duration;
use tokio::time::Instant;
use unslide_api::feature::tenant_turns::server_pause;
use unslide_builder::feature::{FeatureJob, GivenUpJob, JobFailure, JobFuture, JobHandler};
use unslide_model::{DebugId, TenantId};
use unslide_store::jobs::{self, FeatureWork, Work};
use unslide_store::tenants::{self, TenantStanding};
use unslide_store::{HookFuture, OwnerTx, Result as StoreResult, TenantTx};

/// The kind of the jobs.
pub const ASKING_JOB_KIND: &str = "ask_symbol_sources";

/// Jobs that a builder runs at once: they wait for servers most of the time. Their children list debug ids alone.
pub const ASKING_JOBS: &[JobHandler] =
    &[JobHandler { kind: ASKING_JOB_KIND, places: 4, child_task: None, run, give_up }];

/// Time after which a turn begins no request.
const TURN_TIME: std::time::Duration = std::time::Duration::from_secs(30);
/// Requests of a turn at most.
const TURN_REQUESTS_LIMIT: u32 = 100;
/// The pause of a turn that has left requests, so that those of other tenants come first.
const REST_INTERVAL: Duration = Duration::milliseconds(200);
/// The pause of a job of a suspended tenant.
const SUSPENDED_INTERVAL: Duration = Duration::minutes(5);
/// The pause of a job that was given up, because builders died with it.
const GIVEN_UP_INTERVAL: Duration = Duration::hours(1);

fn run<'j>(job: &'j FeatureJob<'j>) -> JobFuture<'j> {
    Box::pin(take_turn(job))
}

/// Adds the next job: the sources are still there.
fn give_up<'t>(tx: &'t mut OwnerTx, _: &'t GivenUpJob<'t>) -> HookFuture<'t> {
    Box::pin(async { jobs::add_all(tx, &[build_work()], GIVEN_UP_INTERVAL).await })
}

fn build_work() -> Work {
    Work::Feature(FeatureWork { kind: Cow::Borrowed(ASKING_JOB_KIND), arguments: serde_json::Map::new() })
}

/// Adds the job of the transaction's tenant unless it has one, under the lock of its sources.
pub async fn begin_asking(tx: &mut TenantTx) -> StoreResult<()> {
    if !jobs::has_job(tx, ASKING_JOB_KIND).await? {
        jobs::add_job(tx, &build_work()).await?;
    }
    Ok(())
}

/// Asks for what is due, for one turn.
async fn take_turn(job: &FeatureJob<'_>) -> Result<(), JobFailure> {
    let (sources, tenant) = (job.find_state::<SymbolSources>()?, job.lease.tenant()?);
    let mut tx = job.store().tenant(tenant).await?;
    if tenants::read_standing(&mut tx).await? != Some(TenantStanding::Active) {
        return job.end_turn(tx, Some(SUSPENDED_INTERVAL)).await;
    }
    let rows = store::list_sources(&mut tx).await?;
    store::add_requests(&mut tx).await?;
    let due = store::list_due(&mut tx, TURN_REQUESTS_LIMIT).await?;
    tx.commit().await?;
    let turn = Turn { job, sources, tenant, rows: &rows };
    let has_more = turn.ask_for_all(&due).await? || due.len() >= TURN_REQUESTS_LIMIT as usize;
    let mut tx = job.store().tenant(tenant).await?;
    let is_needed = !store::lock_sources(&mut tx).await?.is_empty();
    let pause = if has_more { REST_INTERVAL } else { sources.look_interval };
    job.end_turn(tx, is_needed.then_some(pause)).await
}

/// The end of one request.
enum AskEnd {
    Answered(SourceReply),
    /// The source is not asked for more in this turn.
    Failed(SourceFailure),
}

/// A turn of one tenant.
struct Turn<'t> {
    job: &'t FeatureJob<'t>,
    sources: &'t SymbolSources,
    tenant: &'t TenantId,
    rows: &'t [SourceRow],
}

impl Turn<'_> {
    /// Asks for all of these in their order, without sources that fail and images that were found. Returns true if some are left because
    /// the turn has lasted long enough.
    async fn ask_for_all(&self, due: &[DueRequest]) -> Result<bool, JobFailure> {
        let (begun, mut failed, mut found) = (Instant::now(), BTreeSet::new(), BTreeSet::<DebugId>::new());
        for request in due {
            if begun.elapsed() >= TURN_TIME {
                return Ok(true);
            }
            let row = self.rows.iter().find(|row| row.name == request.source);
            let Some(row) = row.filter(|row| !failed.contains(&row.name)) else { continue };
            if found.contains(&request.debug_id) {
                continue;
            }
            match self.ask_once(row, request).await? {
                AskEnd::Answered(answer) => {
                    if matches!(answer, SourceReply::Found(_)) {
                        found.insert(request.debug_id);
                    }
                    self.record_answer(row, request, &answer).await?;
                }
                AskEnd::Failed(failure) => {
                    self.record_failure(row, &failure).await?;
                    failed.insert(&row.name);
                }
            }
        }
        Ok(false)
    }

    async fn ask_once(&self, row: &SourceRow, request: &DueRequest) -> Result<AskEnd, JobFailure> {
        let at = self.job.store().now();
        match self.sources.ask_source(self.tenant, row, &request.debug_id, at).await {
            Ok(SourceAnswer::NotFound) => Ok(AskEnd::Answered(SourceReply::NotFound)),
            Ok(SourceAnswer::Found(download)) => {
                // A builder that dies with this file does not begin with it again.
                let mut tx = self.job.store().tenant(self.tenant).await?;
                store::hold_request(&mut tx, request).await?;
                tx.commit().await?;
                take_file(self.job, row, request, download).await
            }
            Err(failure) => Ok(AskEnd::Failed(failure)),
        }
    }

    async fn record_answer(
        &self,
        row: &SourceRow,
        request: &DueRequest,
        answer: &SourceReply,
    ) -> Result<(), JobFailure> {
        let (tenant, debug_id, source) = (self.tenant, request.debug_id, &row.name);
        match answer {
            SourceReply::NotFound => {
                tracing::debug!(%tenant, %debug_id, source, "a symbol source has no such symbols");
            }
            SourceReply::Found(upload) => {
                tracing::info!(%tenant, %debug_id, source, upload.id = %upload, "a symbol source has brought symbols");
            }
            SourceReply::Refused(reason) => {
                tracing::warn!(%tenant, %debug_id, source, reason, "a file of a symbol source is not taken");
            }
        }
        let mut tx = self.job.store().tenant(tenant).await?;
        store::record_answer(&mut tx, row, request, answer).await?;
        Ok(tx.commit().await?)
    }

    async fn record_failure(&self, row: &SourceRow, failure: &SourceFailure) -> Result<(), JobFailure> {
        let pause = server_pause(row.failures, failure.pause);
        let mut tx = self.job.store().tenant(self.tenant).await?;
        store::record_failure(&mut tx, row, pause, &failure.text).await?;
        Ok(tx.commit().await?)
    }
}
