//! Runs that apply the rules to stored reports. A tenant has one at a time, and keeps the last.

use serde::Serialize;
use time::OffsetDateTime;
use unslide_store::cursor::ReportCursor;
use unslide_store::jobs::{self, FeatureWork, Work};
use unslide_store::sql::{U64, to_row, words};
use unslide_store::{OwnerTx, Result, StoreError, TenantTx};
use utoipa::ToSchema;

unslide_store::ids! {
    /// Id of a run over stored reports.
    ScrubRunId;
}

/// The kind of the jobs.
pub const SCRUB_JOB_KIND: &str = "scrub_stored";
/// The argument of a job that names the run.
pub const JOB_ROW: &str = "run";

words! {
    /// The state of a run over stored reports.
    #[derive(ToSchema)]
    pub enum ScrubRunStatus {
        /// A builder still looks at reports.
        Running = "running",
        /// All reports were looked at.
        Done = "done",
        /// It was given up. Start it again.
        Failed = "failed",
    }
}

/// A run that applies the rules to stored reports.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ScrubRun {
    /// Whether the run goes on, is done or has failed.
    #[schema(value_type = String, example = "done")]
    pub status: ScrubRunStatus,
    /// Number of reports that were looked at.
    pub looked: u64,
    /// Number of reports that the rules have changed.
    pub changed: u64,
    /// Number of reports with bodies that could not be read. They stay as they are.
    pub unreadable: u64,
    /// Id of the key that started it.
    pub started_by: String,
    /// When it was started (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub started_at: OffsetDateTime,
    /// When one of its numbers changed last (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
}

/// A run that is not over.
#[derive(Clone, Debug)]
pub struct OpenRun {
    pub started_at: OffsetDateTime,
    /// The last report that was looked at.
    pub last: Option<ReportCursor>,
}

/// Numbers of reports of one page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCounts {
    pub looked: u64,
    pub changed: u64,
    pub unreadable: u64,
}

/// Starts a run with its job. A run that is under way ends: its reports are looked at again.
///
/// # Errors
/// The database fails.
pub async fn start_run(tx: &mut TenantTx, actor: &str) -> Result<ScrubRun> {
    let (connection, tenant, now) = tx.parts();
    let id = sqlx::query_scalar!(
        r#"INSERT INTO scrub_runs AS r (tenant, id, status, started_by, started_at, updated_at)
           VALUES ($1, unslide_uuid($2), 'running', $3, $2, $2)
           ON CONFLICT (tenant) DO UPDATE
           SET id = EXCLUDED.id, status = EXCLUDED.status, started_by = EXCLUDED.started_by, started_at = EXCLUDED.started_at,
               updated_at = EXCLUDED.updated_at, looked = 0, changed = 0, unreadable = 0, last = NULL
           RETURNING id AS "id: ScrubRunId""#,
        tenant,
        now,
        actor
    )
    .fetch_one(connection)
    .await?;
    jobs::add_job(tx, &Work::Feature(FeatureWork::on_row(SCRUB_JOB_KIND, JOB_ROW, id))).await?;
    find_last_run(tx).await?.ok_or_else(|| StoreError::corrupt("scrub_runs", "a row that vanished"))
}

/// Returns the last run of the transaction's tenant.
///
/// # Errors
/// The database fails.
pub async fn find_last_run(tx: &mut TenantTx) -> Result<Option<ScrubRun>> {
    let (connection, tenant, _) = tx.parts();
    let run = sqlx::query_as!(
        ScrubRun,
        r#"SELECT status AS "status: ScrubRunStatus", looked AS "looked: U64", changed AS "changed: U64",
                  unreadable AS "unreadable: U64", started_by, started_at, updated_at
           FROM scrub_runs WHERE tenant = $1"#,
        tenant
    );
    Ok(run.fetch_optional(connection).await?)
}

/// Returns a run that is under way. Returns None if it is over, or a later one has taken its place.
///
/// # Errors
/// The database fails.
pub async fn find_open_run(tx: &mut TenantTx, id: ScrubRunId) -> Result<Option<OpenRun>> {
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query!(
        "SELECT started_at, last FROM scrub_runs WHERE tenant = $1 AND id = $2 AND status = 'running'",
        tenant,
        id as ScrubRunId
    );
    let Some(row) = row.fetch_optional(connection).await? else { return Ok(None) };
    let last = row.last.as_deref().map(str::parse).transpose();
    let last = last.map_err(|error| StoreError::corrupt("scrub_runs", error))?;
    Ok(Some(OpenRun { started_at: row.started_at, last }))
}

/// Records a page in the transaction that changes its reports. `last` is the last report that was looked at; None ends the run.
/// Returns false if the run is over: the caller must roll back then.
///
/// # Errors
/// The database fails.
pub async fn record_page(
    tx: &mut TenantTx,
    id: ScrubRunId,
    last: Option<&ReportCursor>,
    counts: PageCounts,
) -> Result<bool> {
    let (connection, tenant, now) = tx.parts();
    let recorded = sqlx::query!(
        "UPDATE scrub_runs
         SET last = coalesce($3, last), status = CASE WHEN $3::text IS NULL THEN 'done' ELSE status END, updated_at = $4,
             looked = looked + $5, changed = changed + $6, unreadable = unreadable + $7
         WHERE tenant = $1 AND id = $2 AND status = 'running'",
        tenant,
        id as ScrubRunId,
        last.map(ToString::to_string),
        now,
        to_row(counts.looked),
        to_row(counts.changed),
        to_row(counts.unreadable)
    )
    .execute(connection)
    .await?;
    Ok(recorded.rows_affected() > 0)
}

/// Records that a run was given up.
///
/// # Errors
/// The database fails.
pub async fn fail_run(tx: &mut OwnerTx, id: ScrubRunId) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE scrub_runs SET status = 'failed', updated_at = $3 WHERE tenant = $1 AND id = $2 AND status = 'running'",
        tenant,
        id as ScrubRunId,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}
