//! The outbox: reports with a revision that the collector does not have. A row is written in the transaction that stores the report.

use unslide_model::ReportId;
use unslide_store::{Result, StoredReport, TenantTx};

/// A report in the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxEntry {
    pub report: ReportId,
    pub variant: u32,
    /// The newest revision that was stored.
    pub revision: u32,
}

fn to_column(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Puts reports into the outbox, if the tenant sends its crashes to a collector.
pub async fn queue_reports(tx: &mut TenantTx, reports: &[StoredReport]) -> Result<()> {
    if reports.is_empty() {
        return Ok(());
    }
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO otlp_outbox (tenant, report_id, variant, revision, queued_at)
         SELECT $1, n.report_id, n.variant, max(n.revision), $5
         FROM unnest($2::uuid[], $3::int[], $4::int[]) AS n (report_id, variant, revision)
         WHERE EXISTS (SELECT FROM otlp_settings s WHERE s.tenant = $1 AND s.export_url IS NOT NULL)
         GROUP BY n.report_id, n.variant
         ORDER BY n.report_id, n.variant
         ON CONFLICT (tenant, report_id, variant) DO UPDATE SET revision = greatest(otlp_outbox.revision, excluded.revision)",
        tenant,
        &reports.iter().map(|report| report.id.uuid()).collect::<Vec<_>>(),
        &reports.iter().map(|report| to_column(report.variant)).collect::<Vec<_>>(),
        &reports.iter().map(|report| to_column(report.revision)).collect::<Vec<_>>(),
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns the reports that wait longest, and the newest one: a run of reports that a collector refuses does not hold the rest.
pub async fn list_batch(tx: &mut TenantTx, limit: u16) -> Result<Vec<OutboxEntry>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT report_id AS "report_id!", variant AS "variant!", revision AS "revision!" FROM (
             (SELECT report_id, variant, revision, queued_at FROM otlp_outbox WHERE tenant = $1
              ORDER BY queued_at, report_id, variant LIMIT $2)
             UNION
             (SELECT report_id, variant, revision, queued_at FROM otlp_outbox WHERE tenant = $1
              ORDER BY queued_at DESC, report_id DESC, variant DESC LIMIT 1)) AS batch
           ORDER BY queued_at, report_id, variant"#,
        tenant,
        i64::from(limit)
    );
    let rows = rows.fetch_all(connection).await?.into_iter();
    let number = |column: i32| u32::try_from(column).unwrap_or_default();
    Ok(rows
        .map(|row| OutboxEntry {
            report: ReportId::from_uuid(row.report_id),
            variant: number(row.variant),
            revision: number(row.revision),
        })
        .collect())
}

/// Takes reports out of the outbox, unless a later revision of them was stored since. The turn is guarded in this transaction.
pub async fn delete_entries(tx: &mut TenantTx, sent: &[OutboxEntry]) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "WITH locked AS (
             SELECT o.report_id, o.variant FROM otlp_outbox o
             JOIN unnest($2::uuid[], $3::int[], $4::int[]) AS n (report_id, variant, revision)
                  ON o.report_id = n.report_id AND o.variant = n.variant AND o.revision <= n.revision
             WHERE o.tenant = $1 ORDER BY o.report_id, o.variant FOR UPDATE OF o)
         DELETE FROM otlp_outbox o USING locked
         WHERE o.tenant = $1 AND o.report_id = locked.report_id AND o.variant = locked.variant",
        tenant,
        &sent.iter().map(|entry| entry.report.uuid()).collect::<Vec<_>>(),
        &sent.iter().map(|entry| to_column(entry.variant)).collect::<Vec<_>>(),
        &sent.iter().map(|entry| to_column(entry.revision)).collect::<Vec<_>>()
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns the number of reports that wait.
pub async fn count_entries(tx: &mut TenantTx) -> Result<i64> {
    let (connection, tenant, _) = tx.parts();
    let count =
        sqlx::query_scalar!(r#"SELECT count(*) AS "count!" FROM otlp_outbox WHERE tenant = $1"#, tenant);
    Ok(count.fetch_one(connection).await?)
}
