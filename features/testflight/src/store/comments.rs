//! The statements about the words of testers.

use sqlx::FromRow;
use time::{Duration, OffsetDateTime};
use unslide_model::ReportId;
use unslide_store::report_rows::{ReportSample, SampleScope, read_samples};
use unslide_store::{GroupId, ReportPlace, Result, TenantTx, Uuid};

/// Words of the tenant among which those of a group are searched, the newest first.
const SEARCHED_LIMIT: i64 = 500;
/// How long words wait for their report to be stored.
const REPORT_TIMEOUT: Duration = Duration::days(7);

/// What a tester wrote about a crash.
#[derive(Clone, Debug)]
pub struct TesterComment {
    pub report: ReportId,
    pub comment: String,
    pub submitted_at: Option<OffsetDateTime>,
}

/// A comment with the report that it is about.
#[derive(FromRow)]
struct CommentRow {
    report_id: Uuid,
    comment: String,
    submitted_at: Option<OffsetDateTime>,
}

/// A submission that a report came with.
#[derive(Clone, Debug)]
pub struct ReportSubmission {
    pub submission: String,
    pub submitted_at: Option<OffsetDateTime>,
    pub comment: Option<String>,
}

/// Returns the submissions that a report came with.
pub async fn list_for_report(
    tx: &mut TenantTx,
    report: ReportId,
    limit: u32,
) -> Result<Vec<ReportSubmission>> {
    let (connection, tenant, _) = tx.parts();
    let submissions = sqlx::query_as!(
        ReportSubmission,
        r#"SELECT s.submission, s.submitted_at, c.comment AS "comment?"
           FROM testflight_submissions s
           LEFT JOIN testflight_comments c
             ON c.tenant = s.tenant AND c.report_id = s.report_id AND c.submission = s.submission
           WHERE s.tenant = $1 AND s.report_id = $2 ORDER BY s.seen_at DESC, s.submission LIMIT $3"#,
        tenant,
        report.uuid(),
        i64::from(limit)
    );
    Ok(submissions.fetch_all(connection).await?)
}

/// Returns words about reports of a group, the newest first, among the newest 500 of the tenant.
pub async fn list_for_group(tx: &mut TenantTx, group: GroupId, limit: u32) -> Result<Vec<TesterComment>> {
    let (connection, tenant, _) = tx.parts();
    let commented = sqlx::query!(
        "SELECT k.received_at, k.report_id, k.variant
         FROM (SELECT DISTINCT n.report_id FROM (
                   SELECT report_id FROM testflight_comments WHERE tenant = $1 ORDER BY received_at DESC LIMIT $2) n) c
         JOIN report_keys k ON k.tenant = $1 AND k.report_id = c.report_id AND k.deleted_at IS NULL
         LIMIT $2",
        tenant,
        SEARCHED_LIMIT
    );
    let commented = commented.fetch_all(connection).await?.into_iter().map(|row| ReportPlace {
        id: ReportId::from_uuid(row.report_id),
        variant: u32::try_from(row.variant).unwrap_or_default(),
        received_at: row.received_at,
    });
    let places: Vec<ReportPlace> = commented.collect();
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let tenant = tx.parts().1.to_owned();
    let sample = ReportSample::new(SampleScope::Places(&places), "r.group_id", SEARCHED_LIMIT);
    let comments: Vec<CommentRow> = read_samples(tx, [sample], &|query| {
        query.push(
            "SELECT c.report_id, c.comment, c.submitted_at
             FROM (SELECT * FROM testflight_comments WHERE tenant = ",
        );
        query.push_bind(tenant.clone()).push(" ORDER BY received_at DESC LIMIT ").push_bind(SEARCHED_LIMIT);
        query.push(
            ") c WHERE EXISTS (SELECT FROM newest n WHERE n.report_id = c.report_id AND n.group_id IN (
                 SELECT g.id FROM groups g WHERE g.tenant = ",
        );
        query.push_bind(tenant.clone()).push(" AND (g.id = ").push_bind(group);
        query.push(" OR g.merged_into = ").push_bind(group);
        query.push("))) ORDER BY c.received_at DESC, c.submission LIMIT ").push_bind(i64::from(limit));
    })
    .await?;
    let read = comments.into_iter().map(|row| TesterComment {
        report: ReportId::from_uuid(row.report_id),
        comment: row.comment,
        submitted_at: row.submitted_at,
    });
    Ok(read.collect())
}

/// Deletes words whose report was not stored within seven days, such as one of a person who was erased.
pub async fn delete_orphans(tx: &mut TenantTx) -> Result<u64> {
    let (connection, tenant, now) = tx.parts();
    let deleted = sqlx::query!(
        "DELETE FROM testflight_comments c WHERE c.tenant = $1 AND c.received_at < $2 AND NOT EXISTS (
             SELECT FROM report_keys k WHERE k.tenant = $1 AND k.report_id = c.report_id AND k.deleted_at IS NULL)",
        tenant,
        now - REPORT_TIMEOUT
    );
    Ok(deleted.execute(connection).await?.rows_affected())
}
