//! Requests new revisions of reports that a user wants symbolicated again.

use crate::builder::Builder;
use crate::failure::JobFailure;
use crate::requests::pace::JobTurn;
use unslide_store::Uuid;
use unslide_store::jobs::{self, JobLease};
use unslide_store::reprocess;

/// Number of reports per transaction.
const PAGE: u32 = 100;

/// Requests the reports page by page, no faster than the configured rate: workers need time for live reports
/// and other requests.
pub(crate) async fn reprocess(builder: &Builder, job: &JobLease, id: Uuid) -> Result<(), JobFailure> {
    let tenant = job.tenant()?;
    let turn = JobTurn::begin(builder.host.shutdown.token());
    loop {
        builder.reprocessing.wait(&turn).await;
        let mut tx = builder.store.tenant(tenant).await?;
        let page = reprocess::page(&mut tx, id, PAGE).await?;
        let Some(page) = page.filter(|page| page.more) else {
            if page.is_none() {
                tx.rollback().await?;
                tx = builder.store.tenant(tenant).await?;
            }
            jobs::complete(&mut tx, job).await?;
            tx.commit().await?;
            let asked = page.map_or(0, |page| page.asked);
            builder.reprocessing.asked(asked);
            return Ok(());
        };
        let is_over = turn.is_over();
        jobs::progressed(&mut tx, job, &job.work).await?;
        if is_over {
            jobs::postpone(&mut tx, job, time::Duration::ZERO).await?;
        }
        tx.commit().await?;
        builder.reprocessing.asked(page.asked);
        if is_over {
            return Ok(());
        }
    }
}
