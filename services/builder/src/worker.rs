//! Takes jobs by lease, renews the leases, and records how the jobs ended.

use crate::build::{self, backfill};
use crate::builder::Builder;
use crate::deletion::{erase, purge};
use crate::failure::JobFailure;
use crate::feature::{FeatureJob, GivenUpJob};
use crate::isolation::{self, Beside, Pass};
use crate::lost_attempts::CountedAttempt;
use crate::places::{JobLane, Place};
use crate::requests::{regroup, reprocess, wake};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use unslide_store::jobs::{self, Failed, JobLease, Work};
use unslide_store::{StoreError, objects, uploads, usage};

/// Interval at which the queue is polled without a notification: the end of a job's pause sends none.
const QUEUE_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Pause after the database did not answer.
const DATABASE_BACKOFF: Duration = Duration::from_secs(1);

/// Longest pause between two tries while a server is unavailable.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Runs jobs of some kinds until the shutdown begins, `places` at a time and perhaps an extra one (see
/// [`crate::places`]). Then waits for the running jobs.
pub(crate) async fn run_jobs(builder: Arc<Builder>, kinds: Vec<&'static str>, places: usize) {
    let lane = Arc::new(builder.build.places.create_lane(&kinds, places));
    let mut notifications = builder.relay.notifications.subscribe_jobs();
    let mut running = JoinSet::new();
    let stopping = builder.shutdown.token().clone();
    loop {
        while running.try_join_next().is_some() {}
        let place = tokio::select! {
            () = stopping.cancelled() => break,
            place = lane.acquire_place() => place,
        };
        let Some(place) = place else { break };
        let beside = tokio::select! {
            () = stopping.cancelled() => break,
            beside = builder.gate.wait_beside() => beside,
        };
        notifications.mark_seen();
        match lease_job(&builder, &kinds, &place).await {
            Ok(Some(job)) => {
                let (builder, lane) = (builder.clone(), Arc::clone(&lane));
                running.spawn(async move { run_job(&builder, &lane, &job, place, beside).await });
            }
            Ok(None) => {
                drop(beside);
                // An extra job may need the place.
                let was_extra = place.is_extra();
                drop(place);
                tokio::select! {
                    () = stopping.cancelled() => break,
                    () = notifications.wait_for_change(QUEUE_POLL_INTERVAL) => {}
                    () = lane.has_free_place(), if was_extra => {}
                }
            }
            Err(error) => {
                drop(beside);
                tracing::warn!(error = %error, "the database gave no jobs");
                sleep(DATABASE_BACKOFF).await;
            }
        }
    }
    tokio::select! {
        () = async { while running.join_next().await.is_some() {} } => {}
        () = builder.shutdown.wait_until_expired() => {
            tracing::warn!(jobs = running.len(), "jobs were left unfinished; their leases expire");
            running.shutdown().await;
        }
    }
}

/// Leases a job for a place, after attempts that were no deaths were taken back. The extra place takes only a job of a tenant with no job under way.
async fn lease_job(builder: &Builder, kinds: &[&str], place: &Place) -> Result<Option<JobLease>, StoreError> {
    let (store, name, lease) = (&builder.storage.store, &builder.name, lease_time(builder));
    take_attempts_back(builder).await;
    match place {
        Place::Own(_) => Ok(jobs::lease_jobs(store, kinds, name, lease, 1).await?.pop()),
        Place::Extra(_) => {
            jobs::lease_of_idle_owner(store, kinds, builder.build.places.kinds(), name, lease).await
        }
    }
}

/// Takes back the attempts that were no deaths. Those that the database does not hear of wait for the next call.
async fn take_attempts_back(builder: &Builder) {
    if let Err(error) = builder.lost_attempts.take_back(&builder.storage.store).await {
        tracing::debug!(error = %error, "an attempt could not be taken back yet");
    }
}

/// Runs a job in its place.
async fn run_job(builder: &Builder, lane: &JobLane, job: &JobLease, place: Place, beside: Beside) {
    let _registered = builder.build.places.register_job(job, &place);
    // The future is large, because it holds all state of a job.
    let work = Box::pin(async {
        let mut attempt = builder.lost_attempts.begin_attempt(job);
        if let Some(pass) = acquire_pass(builder, job, beside, &mut attempt).await {
            if perform_job(builder, job).await != LOST {
                attempt.settle();
            }
            drop(pass);
        }
    });
    lane.run_in_place(&builder.build.places, job.id, place, work).await;
}

fn lease_time(builder: &Builder) -> time::Duration {
    time::Duration::try_from(builder.build.settings.lease_duration()).unwrap_or(time::Duration::MINUTE)
}

/// Time limit of one job, without the time for which it was stopped.
const JOB_TIMEOUT: Duration = Duration::from_secs(3_600);

/// Outcome of a job whose end is not recorded.
const LOST: &str = "lost";

/// Performs one job and records how it ended. Returns the outcome.
async fn perform_job(builder: &Builder, job: &JobLease) -> &'static str {
    let kind = job.work.kind();
    let may_be_given_up = job.work.may_be_given_up();
    let begun = Instant::now();
    let running = builder.build.metrics.running.with_label_values(&[kind]);
    running.inc();
    let done = tokio::select! {
        done = attempt_job(builder, job) => done,
        () = keep_lease(builder, job) => Err(JobFailure::LeaseLost),
        () = wait_overdue(builder, job) => Err(JobFailure::job("timeout", format!("not done within {} s", JOB_TIMEOUT.as_secs()))),
    };
    running.dec();
    builder.build.metrics.job_seconds.with_label_values(&[kind]).observe(begun.elapsed().as_secs_f64());
    // A job that may be given up reads files, and keeps the results even if it fails.
    let done = if may_be_given_up || matches!(done, Err(JobFailure::TenantDeleted)) {
        unless_deleted(builder, job, done).await
    } else {
        done
    };
    let outcome = match done {
        Ok(()) => "done",
        Err(JobFailure::LeaseLost) => {
            tracing::warn!(job.id = %job.id, job.kind = kind, "the job was given to someone else");
            LOST
        }
        Err(JobFailure::TenantDeleted) => {
            tracing::info!(job.id = %job.id, job.kind = kind, tenant = %job.owner, "a job ended with its tenant");
            "dropped"
        }
        Err(JobFailure::TenantMoving) => end_moving(builder, job).await,
        Err(JobFailure::Server(detail)) => put_off(builder, job, "unavailable", &detail).await,
        Err(JobFailure::Object(detail)) => put_off(builder, job, "not_deleted", &detail).await,
        // Reports wait, or deleted symbols answer, until this job is done.
        Err(JobFailure::Again(detail)) if !may_be_given_up => {
            put_off(builder, job, "unavailable", &detail).await
        }
        Err(JobFailure::Job { reason, detail }) if !may_be_given_up => {
            put_off(builder, job, &reason, &detail).await
        }
        Err(JobFailure::Again(detail)) => end_job(builder, job, "unavailable", &detail, false).await,
        Err(JobFailure::Job { reason, detail }) => end_job(builder, job, &reason, &detail, true).await,
    };
    builder.build.metrics.jobs.with_label_values(&[kind, outcome]).inc();
    outcome
}

/// Waits until a job has taken [`JOB_TIMEOUT`].
async fn wait_overdue(builder: &Builder, job: &JobLease) {
    let begun = Instant::now();
    loop {
        let taken = begun.elapsed().saturating_sub(builder.build.places.stopped_time(job.id));
        let left = JOB_TIMEOUT.saturating_sub(taken);
        if left.is_zero() {
            return;
        }
        sleep(left).await;
    }
}

/// Returns the result of a job, unless its tenant was deleted during the job.
async fn unless_deleted(
    builder: &Builder,
    job: &JobLease,
    done: Result<(), JobFailure>,
) -> Result<(), JobFailure> {
    match erase::erase_if_deleted(&builder.storage, job).await {
        Ok(true) => Err(JobFailure::TenantDeleted),
        Ok(false) => done,
        Err(failure) => {
            // Objects that it may have left are found by the second pass of the erasure.
            tracing::warn!(job.id = %job.id, ?failure, "the tenant of a job could not be checked");
            done
        }
    }
}

/// Tries a job, and waits while a server is unavailable. A job that runs alone does not wait, because all
/// others would wait too.
async fn attempt_job(builder: &Builder, job: &JobLease) -> Result<(), JobFailure> {
    if job.exhausted {
        // A builder that lives hears with its next heartbeat that it has lost the lease, and takes its attempt back.
        sleep(heartbeat_interval(builder) * 2).await;
        if !jobs::is_exhausted(&builder.storage.store, job).await? {
            return Err(JobFailure::Server(
                "builders lost its lease in an outage and did not die".to_owned(),
            ));
        }
        let detail = "every builder that began with it died; its bytes are kept";
        return Err(JobFailure::job("kills_builder", detail));
    }
    let alone = job.attempt >= isolation::ALONE_FROM;
    let patience = if alone { 0 } else { builder.build.settings.patience_seconds };
    let patience = Instant::now() + Duration::from_secs(patience);
    let stopping = builder.shutdown.token();
    let mut pause = DATABASE_BACKOFF;
    loop {
        let done = match &job.work {
            Work::Build { upload } => Box::pin(build::build_upload(&builder.build, job, *upload)).await,
            Work::Wake { debug_id, generation, from } => {
                wake::wake_reports(&builder.requests, job, debug_id, *generation, *from).await
            }
            Work::Reprocess { id } => Box::pin(reprocess::request_reports(&builder.requests, job, *id)).await,
            Work::Regroup { version } => {
                Box::pin(regroup::regroup_reports(&builder.requests, job, *version)).await
            }
            Work::WakeSystem { from } => {
                Box::pin(wake::wake_system(&builder.requests, job, from.as_ref())).await
            }
            Work::Purge { debug_id, objects, generation } => {
                purge::purge_symbols(&builder.build, job, debug_id, objects, *generation).await
            }
            Work::Backfill { version, all, after } => {
                Box::pin(backfill::backfill_objects(&builder.build, job, *version, *all, after.as_ref()))
                    .await
            }
            Work::Erase => erase::erase_tenant(&builder.storage, &builder.relay.kafka, job).await,
            Work::Feature(work) => match builder.find_feature_handler(&work.kind) {
                Some(handler) => (handler.run)(&FeatureJob::new(&builder.build, job)).await,
                None => Err(JobFailure::Again(format!("no feature handles jobs of the kind {}", work.kind))),
            },
        };
        match done {
            Err(failure @ (JobFailure::Server(_) | JobFailure::Again(_) | JobFailure::TenantMoving))
                if Instant::now() + pause < patience =>
            {
                tracing::warn!(job.id = %job.id, ?failure, pause_seconds = pause.as_secs(), "a job waits and continues later");
                if stopping.run_until_cancelled(sleep(pause)).await.is_none() {
                    return Err(failure);
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            other => return other,
        }
    }
}

/// Returns the pass that this job needs. Returns `None` if the job must not run, because its lease was lost
/// or the builder stops. The lease then expires.
async fn acquire_pass(
    builder: &Builder,
    job: &JobLease,
    beside: Beside,
    attempt: &mut CountedAttempt,
) -> Option<Pass> {
    if job.attempt < isolation::ALONE_FROM || job.exhausted {
        return Some(Pass::Beside(beside));
    }
    drop(beside);
    check_counted(jobs::count_attempt(&builder.storage.store, job, false).await, job)?;
    attempt.settle();
    let alone = tokio::select! {
        alone = builder.gate.wait_alone() => alone,
        () = keep_lease(builder, job) => return None,
        () = builder.shutdown.token().cancelled() => return None,
    };
    check_counted(jobs::count_attempt(&builder.storage.store, job, true).await, job)?;
    attempt.count_again(job);
    tracing::info!(job.id = %job.id, job.attempt = job.attempt, "a job runs alone: builders have died with it");
    Some(Pass::Alone(alone))
}

fn check_counted(result: Result<(), StoreError>, job: &JobLease) -> Option<()> {
    let noted =
        |error| tracing::warn!(job.id = %job.id, error = %error, "a job's attempt could not be counted");
    result.map_err(noted).ok()
}

/// Returns the interval between two renewals of a lease, which is also the time limit of one.
fn heartbeat_interval(builder: &Builder) -> Duration {
    builder.build.settings.lease_duration() / 3
}

/// Renews the lease of a job. Returns when the lease is lost; never once the job is done, as its work may still
/// have to tidy up.
async fn keep_lease(builder: &Builder, job: &JobLease) {
    let beat = heartbeat_interval(builder);
    loop {
        sleep(beat).await;
        let beaten =
            timeout(beat, jobs::extend_lease(&builder.storage.store, job, lease_time(builder))).await;
        match beaten {
            Ok(Err(StoreError::LeaseLost(_))) => match jobs::is_done(&builder.storage.store, job).await {
                Ok(true) => std::future::pending().await,
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!(job.id = %job.id, error = %error, "a job that lost its lease was not found");
                }
            },
            Ok(Err(error)) => tracing::warn!(job.id = %job.id, error = %error, "a heartbeat failed"),
            Err(_) => tracing::warn!(job.id = %job.id, "a heartbeat took too long"),
            Ok(Ok(())) => take_attempts_back(builder).await,
        }
    }
}

/// Returns a job to the queue that did not fail for its own reasons, or may not be given up. If it is an
/// upload's, the upload's record says what it waits for.
async fn put_off(builder: &Builder, job: &JobLease, reason: &str, detail: &str) -> &'static str {
    let again: Result<_, StoreError> = async {
        let mut tx = builder.storage.store.owner(&job.owner).await?;
        let again = jobs::put_off(&mut tx, job, &format!("{reason}: {detail}")).await?;
        if let Work::Build { upload } = &job.work {
            uploads::mark_waiting(&mut tx, *upload).await?;
        }
        tx.commit().await?;
        Ok(again)
    }
    .await;
    match again {
        Ok(at) => {
            tracing::warn!(job.id = %job.id, owner = %job.owner, reason, detail, again = %at, "a job is put off");
            "put_off"
        }
        Err(error) => log_unrecorded(job, &error),
    }
}

/// Returns a job of a tenant that is moving to another cell to the queue. If the tenant still moves or is there, the job may not be changed:
/// no builder takes it before its lease has ended and the tenant is here.
async fn end_moving(builder: &Builder, job: &JobLease) -> &'static str {
    let again: Result<_, StoreError> = async {
        let mut tx = builder.storage.store.owner(&job.owner).await?;
        let again = jobs::put_off(&mut tx, job, "its tenant is moving to another cell").await?;
        tx.commit().await?;
        Ok(again)
    }
    .await;
    match again {
        Ok(_) => "put_off",
        Err(StoreError::TenantMoving | StoreError::LeaseLost(_)) => {
            tracing::info!(job.id = %job.id, owner = %job.owner, "a job is left: its tenant is moving to another cell");
            LOST
        }
        Err(error) => log_unrecorded(job, &error),
    }
}

fn log_unrecorded(job: &JobLease, error: &StoreError) -> &'static str {
    tracing::warn!(job.id = %job.id, error = %error, "a job's end could not be noted; its lease will end");
    LOST
}

/// Returns a job to the queue, or ends it. If it was an upload's, the upload's record says why.
async fn end_job(
    builder: &Builder,
    job: &JobLease,
    reason: &str,
    detail: &str,
    permanently: bool,
) -> &'static str {
    let ended: Result<Failed, StoreError> = async {
        let mut tx = builder.storage.store.owner(&job.owner).await?;
        let failed = jobs::fail_job(&mut tx, job, &format!("{reason}: {detail}"), permanently).await?;
        if let (Failed::Permanently, Work::Build { upload }) = (failed, &job.work) {
            usage::lock_usage(&mut tx).await?;
            uploads::mark_failed(&mut tx, *upload, reason, detail, &[]).await?;
            objects::give_up(&mut tx, *upload).await?;
        }
        if let (Failed::Permanently, Some(handler)) = (failed, builder.find_feature_handler(job.work.kind()))
        {
            (handler.give_up)(&mut tx, &GivenUpJob { job, reason, detail }).await?;
        }
        tx.commit().await?;
        Ok(failed)
    }
    .await;
    match ended {
        Ok(Failed::Permanently) => {
            tracing::warn!(job.id = %job.id, owner = %job.owner, reason, detail, "a job has failed");
            if let (Work::Build { upload }, build::OVER_QUOTA) = (&job.work, reason) {
                // A file beyond the tenant's quota is not kept.
                build::discard_file(&builder.storage, &job.owner.own(*upload)).await;
            }
            "failed"
        }
        Ok(Failed::Again(at)) => {
            tracing::warn!(job.id = %job.id, owner = %job.owner, reason, detail, again = %at, "a job is tried again later");
            "again"
        }
        Err(error) => log_unrecorded(job, &error),
    }
}
