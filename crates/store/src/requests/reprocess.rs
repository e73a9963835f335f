//! Symbolicates stored reports again on demand: a job goes through the matching reports and requests each,
//! and the outcomes of the requests are counted.

use crate::column::{DebugIdColumn, JsonColumn, Nullable, TimeColumn, U64, json_column, words};
use crate::cursor::ReportCursor;
use crate::jobs::{self, Work};
use crate::number::{from_row, to_row, to_row32};
use crate::queries::reports::{self, ReportFilter};
use crate::reports::RowKey;
use crate::reports::{KeyRow, lock_known, own_symbols};
use crate::requests::{self, Ask};
use crate::{ReprocessId, Result, StoreError, TenantTx, Uuid};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use time::OffsetDateTime;
use unslide_model::DebugId;
use utoipa::ToSchema;

/// Filter of reports. An absent field does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReprocessFilter {
    /// Bundle identifier.
    pub app: Option<String>,
    /// Version.
    pub version: Option<String>,
    /// Build.
    pub build: Option<String>,
    /// Arrived at this time or later.
    #[serde(with = "time::serde::rfc3339::option")]
    pub from: Option<OffsetDateTime>,
    /// Arrived before this time.
    #[serde(with = "time::serde::rfc3339::option")]
    pub to: Option<OffsetDateTime>,
    /// A frame refers to the image with this debug id.
    pub debug_id: Option<DebugId>,
}

impl ReprocessFilter {
    fn to_report_filter(&self) -> ReportFilter {
        ReportFilter {
            app: self.app.clone(),
            version: self.version.clone(),
            build: self.build.clone(),
            from: self.from,
            to: self.to,
            debug_id: self.debug_id,
            ..ReportFilter::default()
        }
    }
}

words! {
    /// How far it is.
    pub enum ReprocessStatus {
        /// Reports are gone through.
        Running = "running",
        /// All were gone through. Answers may still come.
        Done = "done",
        /// It ended before all were gone through.
        Failed = "failed",
    }
}

json_column!(ReprocessFilter);

/// A reprocess and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Reprocess)]
pub struct ReprocessRun {
    /// Id of the reprocess, to follow its progress.
    #[schema(value_type = Uuid)]
    pub id: ReprocessId,
    /// `running` while the service requests reports again, `done` when all were requested, or `failed`.
    /// Answers may still come after that: see `answered`.
    #[schema(value_type = String)]
    pub status: ReprocessStatus,
    /// True once every request has its answer.
    pub answered: bool,
    /// Bundle identifier of the request; absent for all apps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Version of the request; absent for all versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Build of the request; absent for all builds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// Begin of the requested arrival times.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub from: Option<OffsetDateTime>,
    /// End of the requested arrival times; later reports are not requested.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub to: Option<OffsetDateTime>,
    /// Debug id of the request; absent for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Uuid)]
    pub debug_id: Option<DebugId>,
    /// Reports that fitted when it began.
    #[serde(rename = "count")]
    pub matched: u64,
    /// Number of reports that were checked.
    pub looked: u64,
    /// Number of reports that were requested again.
    pub asked: u64,
    /// Number of reports that were requested already, for another reason.
    pub under_way: u64,
    /// Answers with a new revision.
    pub better: u64,
    /// Answers without a new revision, because no frame improved.
    pub unchanged: u64,
    /// Reports that were not there any more.
    pub gone: u64,
    /// When the reprocess began (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When one of its counts changed last (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
}

/// Reprocesses of one tenant that may be open at the same time.
pub const OPEN_REPROCESSES_LIMIT: u64 = 4;

/// Counts the tenant's reprocesses that are not over. Until the transaction ends no other that calls this
/// begins one.
pub async fn hold_open(tx: &mut TenantTx) -> Result<u64> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('reprocesses of ' || $1, 0))")
        .bind(tenant)
        .execute(&mut *connection)
        .await?;
    // A statement of its own: it sees rows that were committed during the wait for the lock.
    let open = sqlx::query_scalar!(
        r#"SELECT count(*) AS "open!" FROM reprocesses WHERE tenant = $1 AND status = 'running'"#,
        tenant
    )
    .fetch_one(connection)
    .await?;
    Ok(from_row(open))
}

/// Counts the matching reports.
pub async fn count_matching(tx: &mut TenantTx, wanted: &ReprocessFilter) -> Result<u64> {
    reports::count_reports(tx, &wanted.to_report_filter()).await
}

/// Begins a reprocess of the matching reports that are stored now.
pub async fn create_reprocess(
    tx: &mut TenantTx,
    actor: &str,
    wanted: &ReprocessFilter,
) -> Result<ReprocessRun> {
    let to = wanted.to.map_or(tx.now(), |to| to.min(tx.now()));
    let wanted = ReprocessFilter { to: Some(to), ..wanted.clone() };
    let matched = count_matching(tx, &wanted).await?;
    let json = serde_json::to_value(&wanted).map_err(|e| StoreError::corrupt("reprocesses", e))?;
    let (connection, tenant, now) = tx.parts();
    let id = sqlx::query_scalar!(
        r#"INSERT INTO reprocesses (id, tenant, actor, wanted, matched, created_at, updated_at)
         VALUES (unslide_uuid($2), $1, $3, $4, $5, $2, $2) RETURNING id AS "id: ReprocessId""#,
        tenant,
        now,
        actor,
        json,
        to_row(matched)
    )
    .fetch_one(connection)
    .await?;
    jobs::add_job(tx, &Work::Reprocess { id }).await?;
    get(tx, id).await?.ok_or_else(|| StoreError::corrupt("reprocesses", "a row that vanished"))
}

/// Returns a reprocess; `None` if there is none of that id.
pub async fn get(tx: &mut TenantTx, id: ReprocessId) -> Result<Option<ReprocessRun>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        ReprocessRun,
        r#"SELECT id AS "id: ReprocessId", status AS "status: ReprocessStatus",
                  status <> 'running' AND better + unchanged + gone >= asked AS "answered!",
                  wanted ->> 'app' AS app, wanted ->> 'version' AS version, wanted ->> 'build' AS build,
                  wanted ->> 'from' AS "from!: Nullable<TimeColumn>", wanted ->> 'to' AS "to!: Nullable<TimeColumn>",
                  (wanted ->> 'debug_id')::uuid AS "debug_id!: Nullable<DebugIdColumn>",
                  matched AS "matched: U64", looked AS "looked: U64", asked AS "asked: U64",
                  under_way AS "under_way: U64", better AS "better: U64", unchanged AS "unchanged: U64",
                  gone AS "gone: U64", created_at, updated_at
           FROM reprocesses WHERE tenant = $1 AND id = $2"#,
        tenant,
        id as ReprocessId
    )
    .fetch_optional(connection)
    .await?)
}

/// The result of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReprocessPage {
    /// How many requests were made.
    pub asked: u64,
    /// False if no report is left to process.
    pub more: bool,
}

/// Asks for the next `limit` reports, the newest first, and records the progress in the same transaction:
/// after a restart it continues from there. `None` if the reprocess is over, or another worker has gone on
/// with it in between: the caller must roll back then.
pub async fn request_page(tx: &mut TenantTx, id: ReprocessId, limit: u32) -> Result<Option<ReprocessPage>> {
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query!(
        r#"SELECT wanted AS "wanted: JsonColumn<ReprocessFilter>", last FROM reprocesses
           WHERE tenant = $1 AND id = $2 AND status = 'running'"#,
        tenant,
        id as ReprocessId
    )
    .fetch_optional(connection)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let JsonColumn(wanted) = row.wanted;
    let after = row.last.as_deref().map(str::parse::<ReportCursor>).transpose();
    let after = after.map_err(|e| StoreError::corrupt("reprocesses", e))?;
    let found = reports::list_reports(tx, &wanted.to_report_filter(), after.as_ref(), limit).await?;
    let found = found.require_history()?;
    // There is nothing to symbolicate of a report without a body.
    let with_body = found.reports.iter().filter(|report| !report.body_dropped);
    let listed: Vec<_> =
        with_body.map(|report| (report.report_id.uuid(), to_row32(report.variant))).collect();
    let keys = lock_known(tx, &listed).await?;
    // An answer is not to come from older symbols than there are.
    let mut needs = own_symbols(tx, &listed, false).await?;
    let asks: Vec<Ask> = keys
        .iter()
        .filter(|key| !key.deleted)
        .map(|key| Ask::for_key(key, needs.remove(&key.row_key()).unwrap_or_default()))
        .collect();
    let placed = requests::make_requests(tx, &asks).await?;
    let of_ours = asks.iter().zip(&placed).filter(|(_, placed)| placed.is_some()).map(|(ask, _)| ask);
    let ours: Vec<RowKey> = of_ours.map(|ask| (ask.report_id.uuid(), to_row32(ask.variant))).collect();
    let asked = claim_reports(tx, id, &ours).await?;
    let (connection, tenant, now) = tx.parts();
    let done = sqlx::query!(
        "UPDATE reprocesses SET last = coalesce($4, last), looked = looked + $5, asked = asked + $6,
                under_way = under_way + $7, status = CASE WHEN $4::text IS NULL THEN 'done' ELSE status END, updated_at = $8
         WHERE tenant = $1 AND id = $2 AND last IS NOT DISTINCT FROM $3 AND status = 'running'",
        tenant,
        id as ReprocessId,
        row.last,
        found.next.map(|next| next.to_string()),
        to_row(found.reports.len() as u64),
        to_row(asked),
        to_row((asks.len() as u64).saturating_sub(asked)),
        now
    )
    .execute(connection)
    .await?;
    if done.rows_affected() == 0 {
        return Ok(None);
    }
    Ok(Some(ReprocessPage { asked: ours.len() as u64, more: found.next.is_some() }))
}

/// Records that a reprocess waits for the answers about these reports. Returns their number. An overdue
/// request that is sent again stays with the other reprocess, which waits for its answer.
async fn claim_reports(tx: &mut TenantTx, id: ReprocessId, reports: &[RowKey]) -> Result<u64> {
    let (ids, variants): (Vec<Uuid>, Vec<i32>) = reports.iter().copied().unzip();
    let (connection, tenant, _) = tx.parts();
    let claimed = sqlx::query!(
        "UPDATE report_keys k SET reprocess_id = $2
         FROM unnest($3::uuid[], $4::integer[]) AS a (report_id, variant)
         WHERE k.tenant = $1 AND k.report_id = a.report_id AND k.variant = a.variant AND k.reprocess_id IS NULL",
        tenant,
        id as ReprocessId,
        &ids,
        &variants
    )
    .execute(connection)
    .await?;
    Ok(claimed.rows_affected())
}

/// How requests of reprocesses have ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestEnds {
    pub(crate) better: i64,
    pub(crate) unchanged: i64,
    pub(crate) gone: i64,
}

/// Returns the requests of reprocesses for reports that are deleted.
pub(crate) fn count_deleted(keys: &[KeyRow]) -> BTreeMap<ReprocessId, RequestEnds> {
    let mut ends: BTreeMap<ReprocessId, RequestEnds> = BTreeMap::new();
    for id in keys.iter().filter_map(|key| key.reprocess) {
        ends.entry(id).or_default().gone += 1;
    }
    ends
}

/// Counts ends, the last thing that a transaction does: these rows are everybody's.
pub(crate) async fn count_ends(tx: &mut TenantTx, ends: &BTreeMap<ReprocessId, RequestEnds>) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    for (id, ends) in ends {
        sqlx::query!(
            "UPDATE reprocesses SET better = better + $3, unchanged = unchanged + $4, gone = gone + $5, updated_at = $6
             WHERE tenant = $1 AND id = $2",
            tenant,
            *id as ReprocessId,
            ends.better,
            ends.unchanged,
            ends.gone,
            now
        )
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}
