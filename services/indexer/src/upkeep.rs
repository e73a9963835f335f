//! What has to be done from time to time: tables ahead, old days dropped, requests that nobody
//! answered, bodies into segments.

use crate::batch::causes;
use crate::config::Settings;
use crate::metrics::Metrics;
use crate::reader::State;
use crate::segments::{Compactor, Trouble};
use std::time::Duration;
use time::UtcOffset;
use tokio::time::Instant;
use unslide_runtime::Shutdown;
use unslide_store::{Store, dead_letters, jobs, partitions, requests};

/// Requests that one transaction looks at.
const PAGE: u32 = 500;
/// How long jobs that are done stay to be looked at.
const JOBS_KEPT: time::Duration = time::Duration::days(7);
/// Between two looks at what is over.
const EXPIRE: Duration = Duration::from_secs(600);

/// Does upkeep until the shutdown begins. Every indexer does: each part bears being done twice.
pub async fn run(
    store: Store,
    settings: Settings,
    metrics: Metrics,
    reports: State,
    compactor: Compactor,
    shutdown: Shutdown,
) {
    let mut pause = Duration::ZERO;
    let mut expired: Option<Instant> = None;
    let mut waits = true;
    loop {
        tokio::select! {
            () = shutdown.begun() => return,
            () = tokio::time::sleep(pause) => {}
        }
        let done = async {
            waits = !once(&store, &settings, &metrics, &reports).await?;
            let mut over = Ok(());
            if expired.is_none_or(|at| at.elapsed() >= EXPIRE) {
                over = compactor.expire().await;
                if over.is_ok() {
                    expired = Some(Instant::now());
                }
            }
            let more = compactor.round().await?;
            over.map(|()| more)
        };
        let done = tokio::select! {
            done = done => done,
            // Like dying in the middle, which each part bears.
            () = shutdown.begun() => return,
        };
        // Right after the logs' ends are reached, what was put off is due.
        pause = if waits { Duration::from_secs(1) } else { Duration::from_secs(settings.upkeep_seconds) };
        match done {
            Ok(more) => {
                metrics.upkeep_failing.set(0);
                if more {
                    pause = Duration::ZERO;
                }
            }
            Err(error) => {
                metrics.upkeep_failing.set(1);
                tracing::warn!(error = causes(&error), "upkeep failed and is tried again");
            }
        }
    }
}

/// True where every log was read up to the end that it had at the start.
async fn once(
    store: &Store,
    settings: &Settings,
    metrics: &Metrics,
    reports: &State,
) -> Result<bool, Trouble> {
    let now = store.clock().now();
    let today = now.to_offset(UtcOffset::UTC).date();
    let ahead = time::Duration::days(settings.days_ahead.into());
    let made = partitions::ensure(store, today, today.saturating_add(ahead)).await?;
    if made > 0 {
        tracing::info!(tables = made, "made tables for the days ahead");
    }
    partitions::purge_keys(store, now - time::Duration::days(settings.remember_days.into())).await?;
    jobs::purge(store, now - JOBS_KEPT).await?;
    dead_letters::purge(store, now - time::Duration::days(settings.dead_letter_days.into())).await?;
    let oldest = dead_letters::oldest(store).await?;
    metrics.oldest_letter.set(oldest.map_or(0, |at| (now - at).whole_seconds().max(0)));
    let caught_up = reports.caught_up(store).await?;
    if caught_up {
        while requests::ask_pending(store, PAGE).await? > 0 {}
    }
    loop {
        let sent = requests::resend_overdue(store, PAGE).await?;
        metrics.resent.inc_by(sent);
        if sent < u64::from(PAGE) {
            return Ok(caught_up);
        }
    }
}
