//! Events and reports that carry the id of a session, in the order of time.

use crate::column::{JsonColumn, Nullable, U32, words};
use crate::number::to_row32;
use crate::sessions::SessionJudgement;
use crate::{Result, TenantTx, Uuid};
use serde::Serialize;
use std::borrow::Cow;
use time::OffsetDateTime;
use utoipa::ToSchema;

/// Events of one kind that a timeline is made of: the newest ones, if a client sends more under one id.
pub const MOST_OF_KIND: i64 = 1_000;

words! {
    /// Kinds of events in a session, without the kinds of features.
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
    /// Time of the event by the device's clock; of a report without a time, and of a file, its arrival.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// `started`, `ended`, `report`, `metrics`, or the word of a feature.
    pub kind: Cow<'static, str>,
    /// The id of the session, the report, the payload, or of what a feature has.
    pub id: String,
    /// Of a report: 0, or its place among reports of the same id and other bytes. 0 for all else.
    pub variant: u32,
    /// The version that ran; empty if it is not known.
    #[schema(example = "3.1.4")]
    pub version: String,
    /// The reason of an end, the type of a report, or a word of the feature; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "hang")]
    pub detail: Option<String>,
    /// The title of a report's group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Of an inferred end: its confidence and its evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judgement: Option<SessionJudgement>,
    /// Of an event of a feature: how the console shows it.
    #[serde(skip)]
    pub shown: Option<ShownSessionEvent>,
}

/// How the console shows an event of a feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownSessionEvent {
    /// A description of the event.
    pub text: String,
    /// The path of its page.
    pub path: String,
}

/// An event of the core, as the statement reads it.
struct EventRow {
    at: OffsetDateTime,
    kind: SessionEventKind,
    id: String,
    variant: u32,
    version: String,
    detail: Option<String>,
    title: Option<String>,
    judgement: Option<SessionJudgement>,
}

impl From<EventRow> for TimelineEvent {
    fn from(row: EventRow) -> TimelineEvent {
        let EventRow { at, kind, id, variant, version, detail, title, judgement } = row;
        let kind = kind.as_str().into();
        TimelineEvent { at, kind, id, variant, version, detail, title, judgement, shown: None }
    }
}

/// The position from which a timeline continues: time, kind, id and variant of its last event.
pub type TimelinePlace<'a> = (OffsetDateTime, &'a str, &'a str, u32);

/// A page of a session's timeline.
#[derive(Clone, Copy, Debug)]
pub struct TimelinePage<'a> {
    /// The app.
    pub app: &'a str,
    /// The session's id.
    pub session: &'a str,
    /// The last event before the page; `None` for the first page.
    pub after: Option<TimelinePlace<'a>>,
    /// Events of the page.
    pub limit: u32,
}

/// Lists the events of a session of an app, from the one after `after` on. Reports are those of the run with this
/// id. Features add theirs.
pub async fn timeline(tx: &mut TenantTx, page: TimelinePage<'_>) -> Result<Vec<TimelineEvent>> {
    let mut events = core_events(tx, page).await?;
    for hook in tx.hooks().iter().filter_map(|hook| hook.session_events) {
        events.extend(hook(tx, page).await?);
    }
    // Each list is in order, and no two have a kind in common.
    events.sort_by(|a, b| (a.at, &a.kind).cmp(&(b.at, &b.kind)));
    events.truncate(usize::try_from(page.limit).unwrap_or(usize::MAX));
    Ok(events)
}

async fn core_events(tx: &mut TenantTx, page: TimelinePage<'_>) -> Result<Vec<TimelineEvent>> {
    let TimelinePage { app, session, after, limit } = page;
    let run = Uuid::parse_str(session).ok();
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query_as!(
        EventRow,
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
                ORDER BY measured_at DESC, payload_id DESC LIMIT $8))
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
    .await?;
    Ok(rows.into_iter().map(TimelineEvent::from).collect())
}
