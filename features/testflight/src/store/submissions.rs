//! The statements about submissions.

use crate::apple::CrashSubmission;
use serde::Serialize;
use time::OffsetDateTime;
use unslide_model::ReportId;
use unslide_store::sql::words;
use unslide_store::{Result, TenantTx};
use utoipa::ToSchema;

words! {
    /// State of a submission.
    #[derive(ToSchema)]
    pub enum SubmissionState {
        /// Apple has not given its crash log yet.
        Waiting = "waiting",
        /// Its crash log was sent as a report.
        Sent = "sent",
        /// Its crash log cannot be read, or is of another app. It is a dead letter.
        Refused = "refused",
        /// Apple gave no crash log for seven days.
        NoLog = "no_log",
    }
}

/// A submission whose crash log is to be asked for.
#[derive(Clone, Debug)]
pub struct WaitingSubmission {
    pub submission: String,
    /// The bundle identifier of its app.
    pub app: String,
    pub comment: Option<String>,
    pub submitted_at: Option<OffsetDateTime>,
    pub seen_at: OffsetDateTime,
    /// How often the log was asked for.
    pub tries: i32,
}

/// A submission, for the administrators of its tenant.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct InboxSubmission {
    /// Apple's id of what the tester sent.
    pub submission: String,
    /// The bundle identifier of the app.
    pub app: String,
    #[schema(value_type = String, example = "sent")]
    pub state: SubmissionState,
    /// When the tester sent it (RFC 3339).
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub submitted_at: Option<OffsetDateTime>,
    /// The id of its report. Absent until its crash log was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Uuid)]
    pub report: Option<ReportId>,
    /// Why there is no report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Numbers of submissions by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct InboxCounts {
    /// Those without a crash log yet.
    pub waiting: i64,
    /// Those that became a report.
    pub sent: i64,
    /// Those whose crash log cannot be read.
    pub refused: i64,
    /// Those without a crash log for seven days.
    pub no_log: i64,
}

/// Adds submissions of an app that were not seen before. Returns their number.
pub async fn add_submissions(tx: &mut TenantTx, app: &str, submissions: &[CrashSubmission]) -> Result<u64> {
    let mut sorted: Vec<&CrashSubmission> = submissions.iter().collect();
    sorted.sort_by(|a, b| a.id.cmp(&b.id));
    let ids: Vec<String> = sorted.iter().map(|one| one.id.clone()).collect();
    let times: Vec<Option<OffsetDateTime>> = sorted.iter().map(|one| one.submitted_at).collect();
    let comments: Vec<Option<String>> = sorted.iter().map(|one| one.comment.clone()).collect();
    let (connection, tenant, now) = tx.parts();
    let added = sqlx::query!(
        "INSERT INTO testflight_submissions (tenant, submission, app, state, submitted_at, seen_at, next_try_at, comment)
         SELECT $1, s.submission, $2, 'waiting', s.submitted_at, $3, $3, s.comment
         FROM unnest($4::text[], $5::timestamptz[], $6::text[]) AS s (submission, submitted_at, comment)
         ON CONFLICT (tenant, submission) DO NOTHING",
        tenant,
        app,
        now,
        &ids,
        &times as &[Option<OffsetDateTime>],
        &comments as &[Option<String>]
    );
    Ok(added.execute(connection).await?.rows_affected())
}

/// Returns submissions whose crash log is to be asked for now, the newest first.
pub async fn list_waiting(tx: &mut TenantTx, limit: u32) -> Result<Vec<WaitingSubmission>> {
    let (connection, tenant, now) = tx.parts();
    let waiting = sqlx::query_as!(
        WaitingSubmission,
        "SELECT s.submission, s.app, s.comment, s.submitted_at, s.seen_at, s.tries
         FROM testflight_submissions s JOIN testflight_apps a ON a.tenant = s.tenant AND a.app = s.app
         WHERE s.tenant = $1 AND s.state = 'waiting' AND s.next_try_at <= $2
         ORDER BY s.tries, s.submitted_at DESC NULLS LAST, s.submission LIMIT $3",
        tenant,
        now,
        i64::from(limit)
    );
    Ok(waiting.fetch_all(connection).await?)
}

/// Records that the crash log of a submission was sent as a report, and keeps the tester's words beside that. They are
/// dropped if the report was deleted before.
pub async fn record_sent(tx: &mut TenantTx, sent: &WaitingSubmission, report: ReportId) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE testflight_submissions SET state = 'sent', report_id = $3, comment = NULL, detail = NULL, tries = tries + 1
         WHERE tenant = $1 AND submission = $2 AND state = 'waiting'",
        tenant,
        sent.submission,
        report.uuid()
    )
    .execute(&mut *connection)
    .await?;
    let Some(comment) = &sent.comment else { return Ok(()) };
    sqlx::query!(
        "INSERT INTO testflight_comments (tenant, report_id, submission, app, comment, submitted_at, received_at)
         SELECT $1, $2, $3, $4, $5, $6, $7 WHERE NOT EXISTS (
             SELECT FROM report_keys k WHERE k.tenant = $1 AND k.report_id = $2 AND k.deleted_at IS NOT NULL)
         ON CONFLICT (tenant, report_id, submission) DO NOTHING",
        tenant,
        report.uuid(),
        sent.submission,
        sent.app,
        comment,
        sent.submitted_at,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Ends a submission that has no report.
pub async fn end_submission(
    tx: &mut TenantTx,
    submission: &str,
    state: SubmissionState,
    detail: &str,
) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE testflight_submissions SET state = $3, detail = $4, comment = NULL, tries = tries + 1
         WHERE tenant = $1 AND submission = $2 AND state = 'waiting'",
        tenant,
        submission,
        state.as_str(),
        detail
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Has the crash log of a submission asked for again later.
pub async fn postpone_submission(tx: &mut TenantTx, submission: &str, pause: time::Duration) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE testflight_submissions SET tries = tries + 1, next_try_at = $3
         WHERE tenant = $1 AND submission = $2 AND state = 'waiting'",
        tenant,
        submission,
        now + pause
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Counts the submissions of the transaction's tenant by state.
pub async fn count_states(tx: &mut TenantTx) -> Result<InboxCounts> {
    let (connection, tenant, _) = tx.parts();
    let counts = sqlx::query_as!(
        InboxCounts,
        r#"SELECT count(*) FILTER (WHERE state = 'waiting') AS "waiting!", count(*) FILTER (WHERE state = 'sent') AS "sent!",
                  count(*) FILTER (WHERE state = 'refused') AS "refused!", count(*) FILTER (WHERE state = 'no_log') AS "no_log!"
           FROM testflight_submissions WHERE tenant = $1"#,
        tenant
    );
    Ok(counts.fetch_one(connection).await?)
}

/// Returns the submissions that were seen last.
pub async fn list_recent(tx: &mut TenantTx, limit: u32) -> Result<Vec<InboxSubmission>> {
    let (connection, tenant, _) = tx.parts();
    let recent = sqlx::query!(
        r#"SELECT submission, app, state AS "state: SubmissionState", submitted_at, report_id, detail
           FROM testflight_submissions WHERE tenant = $1
           ORDER BY coalesce(submitted_at, seen_at) DESC, submission LIMIT $2"#,
        tenant,
        i64::from(limit)
    );
    let recent = recent.fetch_all(connection).await?.into_iter();
    let read = recent.map(|row| InboxSubmission {
        submission: row.submission,
        app: row.app,
        state: row.state,
        submitted_at: row.submitted_at,
        report: row.report_id.map(|id| ReportId(id.into_bytes())),
        detail: row.detail,
    });
    Ok(read.collect())
}
