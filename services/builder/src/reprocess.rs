//! Asking for reports that somebody wants again.

use crate::failure::Failure;
use crate::worker::Builder;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use unslide_store::Uuid;
use unslide_store::jobs::{self, Lease};
use unslide_store::reprocess;

/// Reports of one transaction.
const PAGE: u32 = 100;

/// A job that takes longer is given back and goes on in its turn, with a lease and a limit of its own.
/// Another tenant's waits for one turn of each that a tenant may have open.
const TURN: Duration = Duration::from_secs(60);

/// Pages over the reports, no faster than is set: what is asked for shares the workers with nobody's
/// live reports, and still not all of them with one demand.
pub(crate) async fn reprocess(builder: &Builder, job: &Lease, id: Uuid) -> Result<(), Failure> {
    let tenant = job.tenant()?;
    let begun = Instant::now();
    let pause = Duration::from_secs(1) / builder.settings.reprocess_per_second.max(1);
    loop {
        let mut tx = builder.store.tenant(tenant).await?;
        let page = reprocess::page(&mut tx, id, PAGE).await?;
        let Some(page) = page.filter(|page| page.more) else {
            if page.is_none() {
                tx.rollback().await?;
                tx = builder.store.tenant(tenant).await?;
            }
            jobs::complete(&mut tx, job).await?;
            tx.commit().await?;
            builder.metrics.reprocessed.inc_by(page.map_or(0, |page| page.asked));
            return Ok(());
        };
        let in_turn = begun.elapsed() < TURN;
        if !in_turn {
            jobs::postpone(&mut tx, job, time::Duration::ZERO).await?;
        }
        tx.commit().await?;
        builder.metrics.reprocessed.inc_by(page.asked);
        if !in_turn {
            return Ok(());
        }
        sleep(pause * u32::try_from(page.asked).unwrap_or(PAGE)).await;
    }
}
