//! Requests new revisions of reports that a user wants symbolicated again.

use crate::failure::JobFailure;
use crate::requests::pace::JobTurn;
use crate::requests::resources::RequestResources;
use unslide_store::ReprocessId;
use unslide_store::jobs::{self, JobLease};
use unslide_store::reprocess;

/// Number of reports per transaction.
const REPROCESS_PAGE_ENTRIES: u32 = 100;

/// Requests the reports page by page, no faster than the configured rate: workers need time for live reports
/// and other requests.
pub(crate) async fn request_reports(
    resources: &RequestResources,
    job: &JobLease,
    id: ReprocessId,
) -> Result<(), JobFailure> {
    let tenant = job.tenant()?;
    let turn = JobTurn::begin(resources.shutdown.token());
    loop {
        resources.reprocessing.wait_for_rate(&turn).await;
        let mut tx = resources.storage.store.tenant(tenant).await?;
        let page = reprocess::request_page(&mut tx, id, REPROCESS_PAGE_ENTRIES).await?;
        let Some(page) = page.filter(|page| page.more) else {
            if page.is_none() {
                tx.rollback().await?;
                tx = resources.storage.store.tenant(tenant).await?;
            }
            jobs::complete_job(&mut tx, job).await?;
            tx.commit().await?;
            let asked = page.map_or(0, |page| page.asked);
            resources.reprocessing.record_requested(asked);
            return Ok(());
        };
        let is_over = turn.is_over();
        jobs::record_progress(&mut tx, job, &job.work).await?;
        if is_over {
            jobs::postpone_job(&mut tx, job, time::Duration::ZERO).await?;
        }
        tx.commit().await?;
        resources.reprocessing.record_requested(page.asked);
        if is_over {
            return Ok(());
        }
    }
}
