//! Events that wait for Kafka. A row is written in the transaction that changes the report, while the report is locked, so that its
//! events are numbered in their order.

use time::OffsetDateTime;
use unslide_store::sql::to_row32;
use unslide_store::{DeletedReport, GroupId, ReportPlace, Result, TenantTx};

unslide_store::ids! {
    /// The id of a report in the row of an event.
    EventReportId;
}

/// An event that waits, with the columns of its row. Of a deleted report it has the app and the times, of a deleted tenant the time
/// alone.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingEvent {
    pub number: i64,
    pub queued_at: OffsetDateTime,
    /// None if the tenant is deleted.
    pub report_id: Option<EventReportId>,
    pub variant: i32,
    pub revision: i32,
    pub deleted: bool,
    pub app: Option<String>,
    pub received_at: Option<OffsetDateTime>,
    pub app_version: Option<String>,
    pub app_build: Option<String>,
    pub kind: Option<String>,
    pub fatal: Option<bool>,
    pub status: Option<String>,
    pub exception: Option<String>,
    pub signal: Option<String>,
    pub fault: Option<String>,
    pub group_id: Option<GroupId>,
    pub occurred_at: Option<OffsetDateTime>,
    pub os_name: Option<String>,
    pub os_version: Option<String>,
    pub os_build: Option<String>,
    pub model: Option<String>,
    pub cpu_arch: Option<String>,
    pub teller: Option<String>,
    pub weight: Option<i32>,
    pub same_crash_as: Option<EventReportId>,
    pub frames_total: Option<i32>,
    pub frames_symbolicated: Option<i32>,
    pub frames_missing: Option<i32>,
    pub frames_own: Option<i32>,
    pub frames_own_symbolicated: Option<i32>,
    pub symbols_missing: Option<bool>,
}

/// Writes an event for each of these reports, with the values that their rows have in this transaction.
pub async fn queue_reports(tx: &mut TenantTx, reports: &[ReportPlace]) -> Result<()> {
    if reports.is_empty() {
        return Ok(());
    }
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO stored_events (tenant, queued_at, report_id, variant, revision, app, received_at, app_version, app_build, kind,
             fatal, status, exception, signal, fault, group_id, occurred_at, os_name, os_version, os_build, model, cpu_arch, teller,
             weight, same_crash_as, frames_total, frames_symbolicated, frames_missing, frames_own, frames_own_symbolicated,
             symbols_missing)
         SELECT $1, $5, r.report_id, r.variant, r.revision, r.app, r.received_at, r.version, r.build, r.type, r.fatal, r.status,
             r.summary ->> 'exception', r.summary ->> 'signal', r.context -> 'verdicts' ->> 'fault', r.group_id, r.device_time,
             r.os_name, r.os_version, r.os_build, r.model, r.summary ->> 'cpu_arch',
             coalesce(r.teller, CASE WHEN r.metric_kit THEN 'metric_kit' ELSE 'handler' END), r.weight, r.same_crash_as,
             r.frames_total, r.frames_symbolicated, r.frames_missing, r.frames_own, r.frames_own_symbolicated, r.symbols_missing
         FROM unnest($2::timestamptz[], $3::uuid[], $4::integer[]) AS k (received_at, report_id, variant)
         CROSS JOIN LATERAL (
             SELECT * FROM reports o
             WHERE o.tenant = $1 AND o.received_at = ANY ($2) AND o.received_at = k.received_at AND o.report_id = k.report_id
               AND o.variant = k.variant
             LIMIT 1) r
         ORDER BY r.report_id, r.variant",
        tenant,
        &reports.iter().map(|report| report.received_at).collect::<Vec<_>>(),
        &reports.iter().map(|report| report.id.uuid()).collect::<Vec<_>>(),
        &reports.iter().map(|report| to_row32(report.variant)).collect::<Vec<_>>(),
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Writes the event of a report that is deleted.
pub async fn queue_deletion(tx: &mut TenantTx, report: &DeletedReport) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO stored_events (tenant, queued_at, report_id, variant, revision, deleted, app, received_at)
         VALUES ($1, $2, $3, $4, $5, true, $6, $7)",
        tenant,
        now,
        report.place.id.uuid(),
        to_row32(report.place.variant),
        to_row32(report.revision),
        report.app,
        report.place.received_at
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Writes the event of the transaction's tenant, which is deleted. Its other events are not sent any more.
pub async fn queue_tenant_deletion(tx: &mut TenantTx) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!("INSERT INTO stored_events (tenant, queued_at, deleted) VALUES ($1, $2, true)", tenant, now)
        .execute(connection)
        .await?;
    Ok(())
}

/// Returns the events that wait longest, in their order. Of a deleted tenant it is the event of its deletion alone.
pub async fn list_waiting(tx: &mut TenantTx, is_deleted: bool, limit: u16) -> Result<Vec<WaitingEvent>> {
    let (connection, tenant, _) = tx.parts();
    let events = sqlx::query_as!(
        WaitingEvent,
        r#"SELECT number, queued_at, report_id AS "report_id: EventReportId", variant, revision, deleted, app, received_at, app_version, app_build, kind, fatal, status,
                  exception, signal, fault, group_id AS "group_id: GroupId", occurred_at, os_name, os_version, os_build, model, cpu_arch,
                  teller, weight, same_crash_as AS "same_crash_as: EventReportId", frames_total, frames_symbolicated, frames_missing, frames_own,
                  frames_own_symbolicated, symbols_missing
           FROM stored_events WHERE tenant = $1 AND (NOT $2::boolean OR report_id IS NULL) ORDER BY number LIMIT $3"#,
        tenant,
        is_deleted,
        i64::from(limit)
    );
    Ok(events.fetch_all(connection).await?)
}

/// Deletes events that Kafka has.
pub async fn delete_sent(tx: &mut TenantTx, sent: &[WaitingEvent]) -> Result<()> {
    let numbers: Vec<i64> = sent.iter().map(|event| event.number).collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!("DELETE FROM stored_events WHERE tenant = $1 AND number = ANY ($2)", tenant, &numbers)
        .execute(connection)
        .await?;
    Ok(())
}
