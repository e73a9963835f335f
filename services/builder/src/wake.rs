//! Asking for the reports that came before their symbols did.

use crate::failure::Failure;
use crate::worker::Builder;
use unslide_model::DebugId;
use unslide_store::jobs::{self, Lease};
use unslide_store::wakes;

/// Reports of one transaction.
const PAGE: u32 = 200;

/// Pages over the waits, a transaction each. Begun anew it asks nobody twice: a report has one
/// request at a time.
pub(crate) async fn wake(
    builder: &Builder,
    job: &Lease,
    debug_id: &DebugId,
    generation: u64,
) -> Result<(), Failure> {
    let mut from = None;
    loop {
        let mut tx = builder.store.tenant(&job.tenant).await?;
        let page = wakes::page(&mut tx, debug_id, generation, from, PAGE).await?;
        if page.next.is_none() {
            jobs::complete(&mut tx, job).await?;
        }
        tx.commit().await?;
        builder.metrics.woken.inc_by(page.requested);
        match page.next {
            Some(next) => from = Some(next),
            None => return Ok(()),
        }
    }
}
