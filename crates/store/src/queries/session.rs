//! What carries the id of a session, in the order of time.

use crate::column::{JsonColumn, Nullable, U32, words};
use crate::number::to_row32;
use crate::queries::reports::ReportRow;
use crate::sessions::SessionJudgement;
use crate::{Result, TenantTx, Uuid};
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

/// Events of one kind that a timeline is made of: the newest ones, where somebody sends more under one id.
const MOST_OF_KIND: i64 = 1_000;

words! {
    /// What happened in a session.
    #[derive(ToSchema)]
    #[schema(rename_all = "snake_case")]
    pub enum SessionEventKind {
        /// It began.
        Started = "started",
        /// It ended.
        Ended = "ended",
        /// A report was made: a crash, a hang, an error of JavaScript, a memory warning.
        Report = "report",
        /// The end of a period of which metrics were sent.
        Metrics = "metrics",
        /// A capture came that was recorded in it.
        Capture = "capture",
    }
}

/// One event of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = SessionTimelineEvent)]
pub struct TimelineEvent {
    /// When it happened, by the device's clock; of a capture, and of a report without a time, when it came.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// What happened.
    pub kind: SessionEventKind,
    /// The id of the session, the report, the payload or the capture.
    pub id: String,
    /// Of a report: 0, or its place among reports of the same id and other bytes. 0 for all else.
    pub variant: u32,
    /// The version that ran; empty where it is not known.
    #[schema(example = "3.1.4")]
    pub version: String,
    /// The reason of an end, the type of a report, or the kind of a capture; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "hang")]
    pub detail: Option<String>,
    /// The title of a report's group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Of an end that the service has judged: how sure that is, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judgement: Option<SessionJudgement>,
}

/// A capture that was recorded in a run of the app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunCapture {
    /// Its id.
    pub id: Uuid,
    /// Its kind, such as `memory_graph`.
    pub kind: String,
    /// When it came.
    pub received_at: OffsetDateTime,
}

/// The captures of the run that a report is of, the newest first. A device writes the id of its run in either case.
pub async fn captures_of_run(tx: &mut TenantTx, report: &ReportRow, limit: u32) -> Result<Vec<RunCapture>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        RunCapture,
        "SELECT c.id, c.kind, c.received_at
         FROM reports r JOIN captures c ON c.tenant = r.tenant AND c.app = r.app
           AND c.session_id = ANY (ARRAY[r.run_id::text, upper(r.run_id::text)])
         WHERE r.tenant = $1 AND r.received_at = $2 AND r.report_id = $3 AND r.variant = $4
         ORDER BY c.received_at DESC, c.id DESC LIMIT $5",
        tenant,
        report.received_at,
        report.report_id.uuid(),
        to_row32(report.variant),
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?)
}

/// Where a timeline goes on: time, kind, id and variant of its last event.
pub type TimelinePlace<'a> = (OffsetDateTime, &'a str, &'a str, u32);

/// The events of a session of an app, from the one after `after` on. Reports are those of the run with this
/// id.
pub async fn timeline(
    tx: &mut TenantTx,
    (app, session): (&str, &str),
    after: Option<TimelinePlace<'_>>,
    limit: u32,
) -> Result<Vec<TimelineEvent>> {
    let run = Uuid::parse_str(session).ok();
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        TimelineEvent,
        r#"WITH own AS (
               SELECT session_id, version, started_at, ended_at, end_reason, judgement FROM sessions
               WHERE tenant = $1 AND app = $2 AND session_id = $3 ORDER BY day DESC LIMIT $8),
           events AS (
               SELECT started_at AS at, 'started' AS kind, session_id AS id, 0 AS variant, version, NULL AS detail, NULL AS title,
                      NULL::jsonb AS judgement
               FROM own
               UNION ALL
               SELECT coalesce(ended_at, started_at), 'ended', session_id, 0, version, end_reason, NULL, judgement FROM own
               WHERE ended_at IS NOT NULL OR end_reason IS NOT NULL
               UNION ALL
               (SELECT coalesce(device_time, received_at), 'report', report_id::text, variant, version, type, title, NULL
                FROM reports
                WHERE tenant = $1 AND run_id = $4 AND app = $2
                ORDER BY received_at DESC, report_id DESC, variant DESC LIMIT $8)
               UNION ALL
               (SELECT measured_at, 'metrics', payload_id, 0, version, NULL, NULL, NULL FROM metric_payloads
                WHERE tenant = $1 AND app = $2 AND session_id = $3
                ORDER BY measured_at DESC, payload_id DESC LIMIT $8)
               UNION ALL
               (SELECT received_at, 'capture', id::text, 0, version, kind, NULL, NULL FROM captures
                WHERE tenant = $1 AND app = $2 AND session_id = $3
                ORDER BY received_at DESC, id DESC LIMIT $8))
           SELECT at AS "at!", kind AS "kind!: SessionEventKind", id AS "id!", variant AS "variant!: U32",
                  version AS "version!", detail, title,
                  judgement AS "judgement!: Nullable<JsonColumn<SessionJudgement>>"
           FROM events
           WHERE $5::timestamptz IS NULL OR (at, kind, id, variant) > ($5, $6::text, $7::text, $10::integer)
           ORDER BY at, kind, id, variant LIMIT $9"#,
        tenant,
        app,
        session,
        run,
        after.map(|(at, ..)| at),
        after.map(|(_, kind, ..)| kind),
        after.map(|(_, _, id, _)| id),
        MOST_OF_KIND,
        i64::from(limit),
        after.map(|(.., variant)| to_row32(variant))
    )
    .fetch_all(connection)
    .await?)
}
