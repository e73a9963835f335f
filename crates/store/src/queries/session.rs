//! What carries the id of a session, in the order of time.

use crate::column::words;
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
    }
}

/// One event of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = SessionTimelineEvent)]
pub struct TimelineEvent {
    /// When it happened, by the device's clock; of a report without a time, when it came.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// What happened.
    pub kind: SessionEventKind,
    /// The id of the session, the report or the payload.
    pub id: String,
    /// The version that ran; empty where it is not known.
    #[schema(example = "3.1.4")]
    pub version: String,
    /// The reason of an end, or the type of a report; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "hang")]
    pub detail: Option<String>,
    /// The title of a report's group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// Where a timeline goes on: time, kind and id of its last event.
pub type TimelinePlace<'a> = (OffsetDateTime, &'a str, &'a str);

/// The events of a session of an app, from the one after `after` on. Reports are those whose run has this id.
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
               SELECT session_id, version, started_at, ended_at, end_reason FROM sessions
               WHERE tenant = $1 AND app = $2 AND session_id = $3 ORDER BY day DESC LIMIT $8),
           events AS (
               SELECT started_at AS at, 'started' AS kind, session_id AS id, version, NULL AS detail, NULL AS title FROM own
               UNION ALL
               SELECT coalesce(ended_at, started_at), 'ended', session_id, version, end_reason, NULL FROM own
               WHERE ended_at IS NOT NULL OR end_reason IS NOT NULL
               UNION ALL
               (SELECT coalesce(device_time, received_at), 'report', report_id::text, version, type, title FROM reports
                WHERE tenant = $1 AND run_id = $4 AND app = $2
                ORDER BY received_at DESC, report_id DESC, variant DESC LIMIT $8)
               UNION ALL
               (SELECT measured_at, 'metrics', payload_id, version, NULL, NULL FROM metric_payloads
                WHERE tenant = $1 AND app = $2 AND session_id = $3 LIMIT $8))
           SELECT at AS "at!", kind AS "kind!: SessionEventKind", id AS "id!", version AS "version!", detail, title
           FROM events
           WHERE $5::timestamptz IS NULL OR (at, kind, id) > ($5, $6::text, $7::text)
           ORDER BY at, kind, id LIMIT $9"#,
        tenant,
        app,
        session,
        run,
        after.map(|(at, ..)| at),
        after.map(|(_, kind, _)| kind),
        after.map(|(.., id)| id),
        MOST_OF_KIND,
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?)
}
