//! What has to be done now and then: unanswered requests, old rows, figures.

use crate::failure::Failure;
use crate::worker::Builder;
use crate::{build, parts};
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use unslide_artifacts::keys;
use unslide_store::outbox::Relay;
use unslide_store::{erasure, jobs, partial, requests, retries, uploads};

/// Between two looks at unanswered requests.
const OVERDUE: Duration = Duration::from_secs(30);
/// Between two looks at reports whose symbols could not be fetched.
const RETRY: Duration = Duration::from_secs(5);
/// Between two clearings.
const CLEAR: Duration = Duration::from_secs(600);
/// How long sent messages are kept, so that whoever waits for one sees it.
const KEEP_SENT: time::Duration = time::Duration::hours(1);
/// How long ended jobs are kept.
const KEEP_JOBS: time::Duration = time::Duration::days(7);
/// After which nobody removes the file of a done upload any more, unless it was left behind.
const LEFT: time::Duration = time::Duration::hours(1);
/// Requests that are sent again in one go.
const PAGE: u32 = 200;
/// Between two countings of jobs.
const COUNT: Duration = Duration::from_secs(15);

/// When the relay's side work was done last.
#[derive(Default)]
pub(crate) struct Upkeep {
    overdue: Option<Instant>,
    cleared: Option<Instant>,
    retried: Option<Instant>,
}

impl Upkeep {
    /// Does what is due. Only the relay does, so it happens once however many builders there are.
    pub(crate) async fn due(&mut self, builder: &Builder, relay: &mut Relay) -> Result<(), Failure> {
        if is_due(&mut self.overdue, OVERDUE) {
            loop {
                let sent = requests::resend_overdue(&builder.store, PAGE).await?;
                builder.metrics.resent.inc_by(sent);
                if sent < u64::from(PAGE) {
                    break;
                }
            }
        }
        if is_due(&mut self.retried, RETRY) {
            loop {
                let looked = retries::ask_due(&builder.store, PAGE).await?;
                builder.metrics.retried.inc_by(looked);
                if looked < u64::from(PAGE) {
                    break;
                }
            }
        }
        if is_due(&mut self.cleared, CLEAR) {
            let now = builder.host.clock.now();
            abandon(builder, now).await?;
            discard(builder, now).await?;
            relay.purge(now - KEEP_SENT).await?;
            jobs::purge(&builder.store, now - KEEP_JOBS).await?;
            let again = Duration::from_secs(builder.settings.erase_again_seconds);
            erasure::resume(&builder.store, now - again, PAGE).await?;
        }
        Ok(())
    }
}

/// Ends uploads whose bytes never came to their end, and removes what came of them.
async fn abandon(builder: &Builder, now: time::OffsetDateTime) -> Result<(), Failure> {
    let patience = i64::try_from(builder.settings.receiving_seconds).unwrap_or(i64::MAX);
    let before =
        now.checked_sub(time::Duration::seconds(patience)).unwrap_or(time::OffsetDateTime::UNIX_EPOCH);
    for upload in uploads::stuck(&builder.store, before, PAGE).await? {
        let mut tx = builder.store.owner(&upload.owner).await?;
        let ended = uploads::abandoned(&mut tx, upload.id, before).await?;
        let over =
            uploads::get(&mut tx, upload.id).await?.is_some_and(|(upload, _)| upload.status.is_final());
        let partial = partial::get(&mut tx, upload.id).await?.filter(|_| over);
        tx.commit().await?;
        builder.metrics.abandoned.inc_by(u64::from(ended));
        let cleared = match partial {
            Some(partial) => parts::clear_or_leave(builder, &upload.owner, &partial).await,
            None if ended => builder.objects.delete(&keys::upload(&upload)).await.map_err(Failure::from),
            None => Ok(()),
        };
        if let Err(failure) = cleared {
            // Parts are looked for again, and others are not to wait for them.
            tracing::warn!(upload.id = %upload.id, ?failure, "what came of an upload could not be removed");
        }
    }
    Ok(())
}

/// Removes the files of uploads that have failed long enough ago, and those that builders which died have
/// left of others.
async fn discard(builder: &Builder, now: time::OffsetDateTime) -> Result<(), Failure> {
    let days = time::Duration::days(builder.settings.failed_upload_days.into());
    let failed = now.checked_sub(days).unwrap_or(time::OffsetDateTime::UNIX_EPOCH);
    for upload in uploads::files::kept(&builder.store, failed, now - LEFT, PAGE).await? {
        if let Err(failure) = build::discard(builder, &upload).await {
            // The others would have to wait as long for the same.
            tracing::warn!(upload.id = %upload.id, ?failure, "an upload's file could not be removed");
            break;
        }
    }
    Ok(())
}

fn is_due(last: &mut Option<Instant>, every: Duration) -> bool {
    let now = Instant::now();
    let due = last.is_none_or(|last| now - last >= every);
    if due {
        *last = Some(now);
    }
    due
}

/// Counts waiting jobs for the metrics until the service stops.
pub(crate) async fn count(builder: &Builder) {
    let mut shown: HashSet<(String, String)> = HashSet::new();
    loop {
        match jobs::counts(&builder.store).await {
            Ok(counts) => {
                for (kind, status) in shown.drain() {
                    builder.metrics.waiting.with_label_values(&[&kind, &status]).set(0);
                }
                for count in counts {
                    builder.metrics.waiting.with_label_values(&[&count.kind, &count.status]).set(count.jobs);
                    shown.insert((count.kind, count.status));
                }
            }
            Err(error) => tracing::debug!(error = %error, "jobs could not be counted"),
        }
        tokio::select! {
            () = builder.host.shutdown.begun() => return,
            () = sleep(COUNT) => {}
        }
    }
}
