//! Work that survives its worker. A job is a row that one worker leases, keeps alive and ends; a
//! worker that dies loses the lease, and the job is given to the next one.

mod work;

pub use work::{FeatureWork, JobKind, Work};

use crate::column::{JsonColumn, OwnerColumn};
use crate::number::{from_row32, to_row32};
use crate::purge;
use crate::{JobId, OwnerTx, Result, Store, StoreError, Uuid};
use sqlx::postgres::PgQueryResult;
use time::{Duration, OffsetDateTime};
use unslide_model::{Owner, TenantId};

/// How often a job that may be given up is tried (see [`JobKind::may_be_given_up`]).
pub const MAX_ATTEMPTS: u32 = 6;
/// The pause after the first failure; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::seconds(2);
const LONGEST_PAUSE: Duration = Duration::minutes(10);

/// A job that this worker has for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobLease {
    /// The job.
    pub id: JobId,
    /// The owner of the job.
    pub owner: Owner,
    /// The work to do.
    pub work: Work,
    /// Which attempt this is since the last progress (see [`record_progress`]), from 1.
    pub attempt: u32,
    /// True if every attempt was used up by workers that died: don't do it again, record the failure and call
    /// [`fail_job`]. Never true of a job that must not be given up.
    pub exhausted: bool,
    /// When the lease ends unless it is kept alive.
    pub until: OffsetDateTime,
    /// When the job was added.
    pub created_at: OffsetDateTime,
    token: Uuid,
}

impl JobLease {
    /// Returns the tenant of the job.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] for a job of the system.
    pub fn tenant(&self) -> Result<&TenantId> {
        self.owner.tenant().ok_or_else(|| StoreError::corrupt("jobs", "the system has no such job"))
    }
}

/// Returns true if the transaction's owner has a job of this kind that is not over.
pub async fn has_job(tx: &mut OwnerTx, kind: &str) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let found = sqlx::query_scalar!(
        "SELECT id FROM jobs WHERE tenant = $1 AND kind = $2 AND status IN ('queued', 'running') LIMIT 1",
        tenant,
        kind
    );
    Ok(found.fetch_optional(connection).await?.is_some())
}

/// Adds a job of the transaction's owner.
pub async fn add_job(tx: &mut OwnerTx, work: &Work) -> Result<JobId> {
    add_later(tx, work, Duration::ZERO).await
}

/// Does the same with a job that is due after a pause.
pub(crate) async fn add_later(tx: &mut OwnerTx, work: &Work, pause: Duration) -> Result<JobId> {
    let json = serde_json::to_value(work).map_err(|e| StoreError::corrupt("jobs", e))?;
    let (connection, tenant, now) = tx.parts();
    Ok(sqlx::query_scalar!(
        r#"INSERT INTO jobs (id, tenant, kind, payload, max_attempts, run_at, created_at, updated_at)
         VALUES (unslide_uuid($2), $1, $3, $4, $5, $6, $2, $2) RETURNING id AS "id: JobId""#,
        tenant,
        now,
        work.kind(),
        json,
        to_row32(MAX_ATTEMPTS),
        now + pause
    )
    .fetch_one(connection)
    .await?)
}

/// Adds jobs of one kind, due after a pause, in one statement.
pub async fn add_all(tx: &mut OwnerTx, works: &[Work], pause: Duration) -> Result<()> {
    let Some(first) = works.first() else { return Ok(()) };
    let json = works.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>();
    let json = json.map_err(|e| StoreError::corrupt("jobs", e))?;
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO jobs (id, tenant, kind, payload, max_attempts, run_at, created_at, updated_at)
         SELECT unslide_uuid($2), $1, $3, p, $5, $6, $2, $2 FROM unnest($4::jsonb[]) AS p",
        tenant,
        now,
        first.kind(),
        &json,
        to_row32(MAX_ATTEMPTS),
        now + pause
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns true if a backfill of the transaction's owner is not over; with `all`, one of all its objects.
pub async fn backfill_is_waiting(tx: &mut OwnerTx, all: bool) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT 1 FROM jobs WHERE tenant = $1 AND kind = $2 AND status IN ('queued', 'running')
                             AND (NOT $3 OR coalesce((payload ->> 'all')::boolean, false)))
               AS "waiting!""#,
        tenant,
        JobKind::Backfill.as_str(),
        all
    )
    .fetch_one(connection)
    .await?)
}

/// Leases up to `limit` jobs that are due, of any owner, each for `lease` long: those of the owners
/// that have the fewest of these kinds under way, the oldest first.
pub async fn lease_jobs(
    store: &Store,
    kinds: &[impl AsRef<str>],
    worker: &str,
    lease: Duration,
    limit: u32,
) -> Result<Vec<JobLease>> {
    take_due_jobs(store, kind_names(kinds), Vec::new(), worker, lease, limit).await
}

/// Leases the oldest job that is due and of an owner with no job of the kinds in `sharing` under way.
pub async fn lease_of_idle_owner(
    store: &Store,
    kinds: &[impl AsRef<str>],
    sharing: &[impl AsRef<str>],
    worker: &str,
    lease: Duration,
) -> Result<Option<JobLease>> {
    Ok(take_due_jobs(store, kind_names(kinds), kind_names(sharing), worker, lease, 1).await?.pop())
}

/// Leases jobs of the kinds in `kinds`; if `idle_in` has kinds, only of owners without any such job under way.
async fn take_due_jobs(
    store: &Store,
    kinds: Vec<String>,
    idle_in: Vec<String>,
    worker: &str,
    lease: Duration,
    limit: u32,
) -> Result<Vec<JobLease>> {
    let now = store.now();
    let rows = sqlx::query_as!(
        LeasedRow,
        r#"SELECT id AS "id!: JobId", tenant AS "owner!: OwnerColumn", payload AS "work!: JsonColumn<Work>", attempts AS "attempts!",
                  max_attempts AS "max_attempts!", lease_token AS "lease_token!", lease_until AS "lease_until!",
                  created_at AS "created_at!"
           FROM unslide_jobs_take($1, $2, $3, $4, $5, $6)"#,
        &kinds,
        &idle_in,
        worker,
        now,
        now + lease,
        to_row32(limit)
    )
    .fetch_all(store.pool())
    .await?;
    Ok(rows.into_iter().map(JobLease::from).collect())
}

fn kind_names(kinds: &[impl AsRef<str>]) -> Vec<String> {
    kinds.iter().map(|kind| kind.as_ref().to_owned()).collect()
}

/// The row of a job that was leased.
struct LeasedRow {
    id: JobId,
    owner: OwnerColumn,
    work: JsonColumn<Work>,
    attempts: i32,
    max_attempts: i32,
    lease_token: Uuid,
    lease_until: OffsetDateTime,
    created_at: OffsetDateTime,
}

impl From<LeasedRow> for JobLease {
    fn from(row: LeasedRow) -> JobLease {
        let JsonColumn(work) = row.work;
        JobLease {
            id: row.id,
            owner: row.owner.into(),
            attempt: from_row32(row.attempts),
            exhausted: work.may_be_given_up() && row.attempts > row.max_attempts,
            work,
            until: row.lease_until,
            created_at: row.created_at,
            token: row.lease_token,
        }
    }
}

/// Changes a job under its lease; `$4` and later are the arguments.
macro_rules! update_job {
    ($tx:expr, $job:expr, $change:tt, $($argument:expr),+ $(,)?) => {{
        let (connection, tenant, _) = $tx.parts();
        let done = sqlx::query!(
            "UPDATE jobs SET "
                + $change
                + " WHERE tenant = $1 AND id = $2 AND lease_token = $3 AND status = 'running'",
            tenant,
            $job.id as JobId,
            $job.token,
            $($argument),+
        );
        still_held($job, &done.execute(connection).await?)
    }};
}

/// Returns an error if a statement about a leased job found no such row: another worker has it.
fn still_held(job: &JobLease, done: &PgQueryResult) -> Result<()> {
    if done.rows_affected() == 0 { Err(StoreError::LeaseLost(job.id)) } else { Ok(()) }
}

/// Keeps a job for another `lease` from now on.
///
/// # Errors
/// [`StoreError::LeaseLost`] if another worker has it, or its tenant was deleted; or the database fails.
pub async fn extend_lease(store: &Store, job: &JobLease, lease: Duration) -> Result<()> {
    let mut tx = store.owner(&job.owner).await?;
    let (connection, tenant, now) = tx.parts();
    let done = sqlx::query!(
        "UPDATE jobs SET lease_until = $4, updated_at = $5
         WHERE tenant = $1 AND id = $2 AND lease_token = $3 AND status = 'running'
           AND (kind = 'erase' OR NOT EXISTS (SELECT FROM tenants t WHERE t.slug = $1 AND t.state = 'deleted'))",
        tenant,
        job.id as JobId,
        job.token,
        now + lease,
        now
    )
    .execute(connection)
    .await?;
    still_held(job, &done)?;
    tx.commit().await
}

/// Says whether a job has ended well, whoever had it.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn is_done(store: &Store, job: &JobLease) -> Result<bool> {
    let mut tx = store.owner(&job.owner).await?;
    let (connection, tenant, _) = tx.parts();
    let done = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM jobs WHERE tenant = $1 AND id = $2 AND status = 'done') AS "done!""#,
        tenant,
        job.id as JobId
    )
    .fetch_one(connection)
    .await?;
    tx.commit().await?;
    Ok(done)
}

/// Counts this attempt of a job. If `counts` is false, takes the attempt back while the job waits to be
/// begun: an attempt that a job has not begun says nothing about it.
///
/// # Errors
/// [`StoreError::LeaseLost`] if another worker has it; or the database fails.
pub async fn count_attempt(store: &Store, job: &JobLease, counts: bool) -> Result<()> {
    let mut tx = store.owner(&job.owner).await?;
    let (now, change) = (tx.now(), if counts { 1 } else { -1 });
    update_job!(tx, job, "attempts = greatest(attempts + $4, 0), updated_at = $5", change, now)?;
    tx.commit().await
}

/// Takes an attempt of a job back that its worker did not end and did not die in, whoever has the job now.
///
/// # Errors
/// The database fails, or another transaction has the job.
pub async fn take_attempt_back(store: &Store, job: &JobLease) -> Result<()> {
    let mut tx = store.owner(&job.owner).await?;
    let (connection, tenant, _) = tx.parts();
    // A transaction of the lost attempt may still have the row. The next try comes soon.
    sqlx::query("SET LOCAL lock_timeout = '1s'").execute(&mut *connection).await?;
    sqlx::query!(
        "UPDATE jobs SET attempts = greatest(attempts - 1, 0)
         WHERE tenant = $1 AND id = $2 AND status IN ('queued', 'running')",
        tenant,
        job.id as JobId
    )
    .execute(connection)
    .await?;
    tx.commit().await
}

/// Returns true if the attempts of an exhausted job are still used up: none was taken back since.
///
/// # Errors
/// [`StoreError::LeaseLost`] if another worker has it; or the database fails.
pub async fn is_exhausted(store: &Store, job: &JobLease) -> Result<bool> {
    let mut tx = store.owner(&job.owner).await?;
    let (connection, tenant, _) = tx.parts();
    let used_up = sqlx::query_scalar!(
        r#"SELECT attempts > max_attempts AS "used_up!" FROM jobs WHERE tenant = $1 AND id = $2 AND lease_token = $3"#,
        tenant,
        job.id as JobId,
        job.token
    )
    .fetch_optional(connection)
    .await?;
    used_up.ok_or(StoreError::LeaseLost(job.id))
}

/// Records the progress of a job in a page's transaction: the next worker begins with `work`, and attempts
/// are counted from here on.
///
/// # Errors
/// [`StoreError::LeaseLost`] if another worker has it: roll back; or the database fails.
pub async fn record_progress(tx: &mut OwnerTx, job: &JobLease, work: &Work) -> Result<()> {
    let json = serde_json::to_value(work).map_err(|e| StoreError::corrupt("jobs", e))?;
    let now = tx.now();
    update_job!(tx, job, "attempts = 1, payload = $4, last_error = NULL, updated_at = $5", json, now)
}

/// Locks a job until the transaction ends.
///
/// # Errors
/// [`StoreError::LeaseLost`] if another worker has it: roll back; or the database fails.
pub async fn lock_job(tx: &mut OwnerTx, job: &JobLease) -> Result<()> {
    let now = tx.now();
    update_job!(tx, job, "updated_at = $4", now)
}

/// Ends a job in the transaction that holds its result, so that both happen or neither.
///
/// # Errors
/// [`StoreError::LeaseLost`] if another worker has it: roll back; or the database fails.
pub async fn complete_job(tx: &mut OwnerTx, job: &JobLease) -> Result<()> {
    let now = tx.now();
    update_job!(tx, job, "status = 'done', lease_token = NULL, lease_until = NULL, updated_at = $4", now)
}

/// Returns a job that could not begin yet to the queue. A worker looks at it again after `pause`. It counts
/// as no attempt.
///
/// # Errors
/// [`StoreError::LeaseLost`] if another worker has it; or the database fails.
pub async fn postpone_job(tx: &mut OwnerTx, job: &JobLease, pause: Duration) -> Result<()> {
    give_back(tx, job, pause, None).await
}

/// Returns a job to the queue that failed because a server is unavailable, and says when a worker retries it:
/// after a pause that grows with the job's age, up to [`LONGEST_PAUSE`]. It counts as no attempt, however
/// often that happens. `error` is kept for the operator.
///
/// # Errors
/// [`StoreError::LeaseLost`] if another worker has it; or the database fails.
pub async fn put_off(tx: &mut OwnerTx, job: &JobLease, error: &str) -> Result<OffsetDateTime> {
    let now = tx.now();
    // As long as it has been waiting: so pauses double here too.
    let pause = (now - job.created_at).clamp(FIRST_PAUSE, LONGEST_PAUSE);
    give_back(tx, job, pause, Some(error)).await?;
    Ok(now + pause)
}

async fn give_back(tx: &mut OwnerTx, job: &JobLease, pause: Duration, error: Option<&str>) -> Result<()> {
    let now = tx.now();
    update_job!(
        tx,
        job,
        "status = 'queued', run_at = $4, attempts = greatest(attempts - 1, 0), lease_token = NULL,
         lease_until = NULL, last_error = coalesce($6, last_error), updated_at = $5",
        now + pause,
        now,
        error.map(truncate_error)
    )
}

/// Cuts an error's text to the part that is kept.
fn truncate_error(error: &str) -> String {
    error.chars().filter(|c| *c != '\0').take(2000).collect()
}

/// The outcome of a failed job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// It is tried again at this time.
    Again(OffsetDateTime),
    /// It is over.
    Permanently,
}

/// Returns a job to the queue. A worker retries it after a pause that doubles each time. A job that may be
/// given up is not retried once `permanently` is set or its attempts are used up. `error` is kept for the
/// operator.
///
/// # Errors
/// [`StoreError::LeaseLost`] if another worker has it; or the database fails.
pub async fn fail_job(tx: &mut OwnerTx, job: &JobLease, error: &str, permanently: bool) -> Result<Failed> {
    let over = job.work.may_be_given_up() && (permanently || job.exhausted || job.attempt >= MAX_ATTEMPTS);
    let pause = FIRST_PAUSE * 2_i32.saturating_pow(job.attempt.saturating_sub(1).min(16));
    let now = tx.now();
    let again = now + pause.min(LONGEST_PAUSE);
    update_job!(
        tx,
        job,
        "status = CASE WHEN $4 THEN 'failed' ELSE 'queued' END, run_at = $5, last_error = $6, lease_token = NULL,
         lease_until = NULL, updated_at = $7",
        over,
        again,
        truncate_error(error),
        now
    )?;
    Ok(if over { Failed::Permanently } else { Failed::Again(again) })
}

/// How many jobs of a kind wait or run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobCount {
    /// The kind's name.
    pub kind: String,
    /// `queued` or `running`.
    pub status: String,
    /// How many.
    pub jobs: i64,
    /// When the oldest was due.
    pub oldest: OffsetDateTime,
}

/// Counts the jobs that are not over, of all tenants: for metrics.
pub async fn count_jobs(store: &Store) -> Result<Vec<JobCount>> {
    Ok(sqlx::query_as!(
        JobCount,
        r#"SELECT kind AS "kind!", status AS "status!", jobs AS "jobs!", oldest AS "oldest!"
           FROM unslide_jobs_counts()"#
    )
    .fetch_all(store.pool())
    .await?)
}

/// Jobs of a kind that do not come to their end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stalled {
    /// The kind's name.
    pub kind: String,
    /// How many.
    pub jobs: i64,
}

/// Returns the jobs that must not be given up and make no progress, of all tenants: [`MAX_ATTEMPTS`] workers
/// or more died with them, or they have failed for an hour.
pub async fn count_stalled_jobs(store: &Store) -> Result<Vec<Stalled>> {
    let kept: Vec<JobKind> = JobKind::ALL.into_iter().filter(|kind| !kind.may_be_given_up()).collect();
    Ok(sqlx::query_as!(
        Stalled,
        r#"SELECT kind AS "kind!", jobs AS "jobs!" FROM unslide_jobs_stalled($1, $2, $3)"#,
        &kind_names(&kept),
        to_row32(MAX_ATTEMPTS),
        store.now() - Duration::HOUR
    )
    .fetch_all(store.pool())
    .await?)
}

/// Deletes jobs that ended before `before`. Returns their number.
pub async fn purge_jobs(store: &Store, before: OffsetDateTime) -> Result<u64> {
    purge::rows_before(store, "jobs", before).await
}
