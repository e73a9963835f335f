//! Periodic work: repeats unanswered requests, opens groups that were ignored until a time, deletes old rows, and updates metrics.

use crate::deletion::{Deletion, parts};
use crate::failure::JobFailure;
use crate::relay::resources::RelayResources;
use crate::storage::JobStorage;
use std::collections::HashSet;
use std::fmt::Debug;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use unslide_artifacts::keys;
use unslide_store::jobs::JobKind;
use unslide_store::tables::purge_old_rows;
use unslide_store::{
    Store, erasure, groups, jobs, keys as api_keys, outbox, partial, requests, retries, uploads,
};

/// Interval between two checks for unanswered requests, and for groups that are ignored until a time.
const OVERDUE_CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// Interval between two checks for reports with symbols that could not be fetched.
const RETRY_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Interval between two deletions of old data.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(600);
/// Time that sent messages are kept, so that a process that waits for one sees it.
const SENT_MESSAGES_RETENTION: time::Duration = time::Duration::hours(1);
/// Time that ended jobs are kept.
const ENDED_JOBS_RETENTION: time::Duration = time::Duration::days(7);
/// Age at which the file of a finished upload counts as left behind.
const LEFT_FILE_MIN_AGE: time::Duration = time::Duration::hours(1);
/// Number of requests that are repeated at once. It is small compared to the requests of wake jobs, so that
/// workers that are behind do not fall further behind.
const RESENT_REQUESTS_LIMIT: u32 = 1_000;
/// Number of rows per transaction.
const MAINTENANCE_PAGE_ENTRIES: u32 = 200;
/// Interval between two counts of jobs.
const JOB_COUNT_INTERVAL: Duration = Duration::from_secs(15);

/// Times at which this process last did each part of the relay's side work.
#[derive(Default)]
pub(crate) struct Maintenance {
    overdue: Option<Instant>,
    cleared: Option<Instant>,
    retried: Option<Instant>,
}

impl Maintenance {
    /// Does the work that is due until it is dropped, concurrently with the sending of messages. Only the
    /// relay runs it, so it happens once for all builders.
    pub(crate) async fn run(&mut self, resources: &RelayResources) {
        loop {
            self.run_due(resources).await;
            sleep(RETRY_CHECK_INTERVAL).await;
        }
    }

    /// Does the work that is due. If one part fails, the others continue, and it is retried when it is due
    /// again.
    async fn run_due(&mut self, resources: &RelayResources) {
        let now = resources.storage.store.clock().now();
        if is_due(&mut self.overdue, OVERDUE_CHECK_INTERVAL) {
            let sent = requests::resend_overdue(&resources.storage.store, RESENT_REQUESTS_LIMIT).await;
            log_failure("requests without an answer could not be sent again", sent);
            let opened =
                in_pages(|| groups::reopen_ignored(&resources.storage.store, MAINTENANCE_PAGE_ENTRIES)).await;
            log_failure("groups that were ignored until now could not be opened", opened);
        }
        if is_due(&mut self.retried, RETRY_CHECK_INTERVAL) {
            let asked =
                in_pages(|| retries::ask_due(&resources.storage.store, MAINTENANCE_PAGE_ENTRIES)).await;
            log_failure("reports with a failed fetch of symbols could not be requested", asked);
        }
        if is_due(&mut self.cleared, CLEANUP_INTERVAL) {
            log_failure(
                "uploads without an end could not be ended",
                end_abandoned_uploads(resources, now).await,
            );
            log_failure(
                "files of uploads could not be removed",
                delete_upload_files(&resources.storage, now).await,
            );
            delete_expired(&resources.storage.store, now).await;
            log_failure(
                "the erasing of deleted tenants could not be resumed",
                resume_erasures(resources, now).await,
            );
        }
    }
}

fn log_failure<T, E: Debug>(what: &str, done: Result<T, E>) {
    if let Err(failure) = done {
        tracing::warn!(?failure, "{what}");
    }
}

/// Repeats a page until one is not full.
async fn in_pages<P>(page: impl Fn() -> P) -> Result<(), JobFailure>
where
    P: Future<Output = Result<u64, unslide_store::StoreError>>,
{
    while page().await? >= u64::from(MAINTENANCE_PAGE_ENTRIES) {}
    Ok(())
}

async fn delete_expired(store: &Store, now: time::OffsetDateTime) {
    log_failure(
        "sent messages could not be removed",
        outbox::purge_messages(store, now - SENT_MESSAGES_RETENTION).await,
    );
    log_failure("ended jobs could not be removed", jobs::purge_jobs(store, now - ENDED_JOBS_RETENTION).await);
    log_failure("keys that are over could not be removed", api_keys::purge_keys(store).await);
    log_failure("old rows could not be removed", purge_old_rows(store).await);
}

/// Adds erase jobs for deleted tenants that have none.
async fn resume_erasures(resources: &RelayResources, now: time::OffsetDateTime) -> Result<(), JobFailure> {
    let again = Duration::from_secs(resources.settings.erase_again_seconds);
    erasure::resume_erasures(&resources.storage.store, now - again, MAINTENANCE_PAGE_ENTRIES).await?;
    Ok(())
}

/// Ends uploads that never became complete, and deletes their parts.
async fn end_abandoned_uploads(
    resources: &RelayResources,
    now: time::OffsetDateTime,
) -> Result<(), JobFailure> {
    let patience = i64::try_from(resources.settings.receiving_seconds).unwrap_or(i64::MAX);
    let before =
        now.checked_sub(time::Duration::seconds(patience)).unwrap_or(time::OffsetDateTime::UNIX_EPOCH);
    for upload in uploads::list_stuck(&resources.storage.store, before, MAINTENANCE_PAGE_ENTRIES).await? {
        let mut tx = resources.storage.store.owner(&upload.owner).await?;
        let ended = uploads::mark_abandoned(&mut tx, upload.id, before).await?;
        let over =
            uploads::find_upload(&mut tx, upload.id).await?.is_some_and(|upload| upload.status.is_final());
        let partial = partial::get(&mut tx, upload.id).await?.filter(|_| over);
        tx.commit().await?;
        let cleared = match partial {
            Some(partial) => parts::clear_or_leave(&resources.storage, &upload.owner, &partial).await,
            None if ended => {
                resources.storage.objects.delete(&keys::for_upload(&upload)).await.map_err(JobFailure::from)
            }
            None => Ok(()),
        };
        if let Err(failure) = cleared {
            // The parts are looked up again later, and do not delay other uploads.
            tracing::warn!(upload.id = %upload.id, ?failure, "the files of an upload could not be removed");
        }
    }
    Ok(())
}

/// Time that the file of a failed upload is kept, so that an operator can look into it.
const FAILED_UPLOAD: time::Duration = time::Duration::days(30);

/// Deletes the files of uploads that failed long enough ago, and the files that dead builders left of other
/// uploads.
async fn delete_upload_files(storage: &JobStorage, now: time::OffsetDateTime) -> Result<(), JobFailure> {
    let failed = now.checked_sub(FAILED_UPLOAD).unwrap_or(time::OffsetDateTime::UNIX_EPOCH);
    let mut deletion = Deletion::new(storage);
    for upload in uploads::files::list_kept_files(
        &storage.store,
        failed,
        now - LEFT_FILE_MIN_AGE,
        MAINTENANCE_PAGE_ENTRIES,
    )
    .await?
    {
        let is_gone = deletion.delete_object(&keys::for_upload(&upload)).await?;
        let mut tx = storage.store.owner(&upload.owner).await?;
        if is_gone {
            uploads::files::record_removed(&mut tx, upload.id).await?;
        } else {
            // Other uploads come first before it is tried again.
            uploads::files::postpone_removal(&mut tx, upload.id).await?;
        }
        tx.commit().await?;
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
pub(crate) async fn run_job_metrics(resources: &RelayResources) {
    let mut shown: HashSet<(String, String)> = HashSet::new();
    loop {
        match jobs::count_jobs(&resources.storage.store).await {
            Ok(counts) => {
                for (kind, status) in shown.drain() {
                    resources.metrics.waiting.with_label_values(&[&kind, &status]).set(0);
                    resources.metrics.oldest.with_label_values(&[&kind]).set(0);
                }
                let now = resources.storage.store.now();
                for count in counts {
                    if count.status == "queued" {
                        // One that is put off is due later.
                        let waited = (now - count.oldest).whole_seconds().max(0);
                        resources.metrics.oldest.with_label_values(&[&count.kind]).set(waited);
                    }
                    resources
                        .metrics
                        .waiting
                        .with_label_values(&[&count.kind, &count.status])
                        .set(count.jobs);
                    shown.insert((count.kind, count.status));
                }
            }
            Err(error) => tracing::debug!(error = %error, "jobs could not be counted"),
        }
        if let Err(error) = count_stuck(resources).await {
            tracing::debug!(error = %error, "what makes no progress could not be counted");
        }
        tokio::select! {
            () = resources.shutdown.wait_until_begun() => return,
            () = sleep(JOB_COUNT_INTERVAL) => {}
        }
    }
}

/// Counts conditions that need an operator: jobs without progress, and messages that are set aside.
async fn count_stuck(resources: &RelayResources) -> Result<(), unslide_store::StoreError> {
    let stalled = jobs::count_stalled_jobs(&resources.storage.store).await?;
    for kind in JobKind::ALL.into_iter().filter(|kind| !kind.may_be_given_up()) {
        let jobs = stalled.iter().find(|of| of.kind == kind.as_str()).map_or(0, |of| of.jobs);
        resources.metrics.stalled.with_label_values(&[kind.as_str()]).set(jobs);
    }
    resources.metrics.set_aside.set(outbox::set_aside(&resources.storage.store).await?);
    Ok(())
}
