//! The part of health in transactions of the store.

use super::figures::watched::WATCHED_FIGURES;
use super::hours::ROWS_RETENTION;
use super::memory_exceptions;
use super::session_hook::SESSION_HOOK;
use crate::figure_text::describe_figures;
use time::OffsetDateTime;
use unslide_model::ended::EndReason;
use unslide_store::queries::session::{
    MOST_OF_KIND, SessionFigure, SessionJudgement, ShownSessionEvent, TimelineEvent, TimelinePage,
};
use unslide_store::sql::{EndReasonColumn, JsonColumn, Nullable, to_row32, words};
use unslide_store::tables::{KeyColumn, OwnedTable, RowAge};
use unslide_store::{HookFuture, Measures, StoreEvent, StoreHook, TenantTx};

/// Lists the begin, the end and the metric payloads of a session, and answers questions about sessions.
pub const HEALTH_HOOK: StoreHook = StoreHook {
    tables: OWNED_TABLES,
    on_event: Some(on_event),
    session_events: Some(session_events),
    measures: Some(Measures { figures: WATCHED_FIGURES, sessions: SESSION_HOOK }),
    ..StoreHook::new(crate::NAME)
};

/// The tables of the feature. Counts name no person, and stay.
const OWNED_TABLES: &[OwnedTable] = &[
    OwnedTable {
        key: &[KeyColumn::Text("app"), KeyColumn::Text("session_id"), KeyColumn::Value("day")],
        app: Some("app"),
        version: Some("version"),
        day: Some("day"),
        received_at: Some("received_at"),
        session: Some("session_id"),
        user: Some("user_hash"),
        installation: Some("installation"),
        sender_key: Some("sender_key"),
        age: RowAge::Retention,
        ..OwnedTable::new("sessions")
    },
    OwnedTable::new("session_days"),
    OwnedTable::kept_for("session_hour_counts", ROWS_RETENTION),
    OwnedTable {
        key: &[KeyColumn::Text("app"), KeyColumn::Text("payload_id"), KeyColumn::Value("day")],
        app: Some("app"),
        day: Some("day"),
        received_at: Some("received_at"),
        session: Some("session_id"),
        age: RowAge::Retention,
        ..OwnedTable::new("metric_payloads")
    },
    OwnedTable {
        key: &[KeyColumn::Value("report_id"), KeyColumn::Value("variant")],
        app: Some("app"),
        version: Some("version"),
        received_at: Some("received_at"),
        session: Some("session_id"),
        sender_key: Some("sender_key"),
        age: RowAge::Retention,
        ..OwnedTable::new("memory_exceptions")
    },
    OwnedTable::new("metric_versions"),
    OwnedTable::new("metric_days"),
    OwnedTable::kept_for("metric_hours", ROWS_RETENTION),
    OwnedTable::new("app_ends"),
];

fn on_event<'e>(event: &'e mut StoreEvent<'_>) -> HookFuture<'e> {
    Box::pin(memory_exceptions::act_on_event(event))
}

words! {
    /// Kinds of events in a session.
    pub enum HealthEventKind {
        Started = "started",
        Ended = "ended",
        /// The end of a period of which metrics were sent.
        Metrics = "metrics",
    }
}

struct EventRow {
    at: OffsetDateTime,
    kind: HealthEventKind,
    id: String,
    version: String,
    reason: Option<EndReason>,
    judgement: Option<SessionJudgement>,
    figures: Option<Vec<SessionFigure>>,
}

fn session_events<'t>(tx: &'t mut TenantTx, page: TimelinePage<'t>) -> HookFuture<'t, Vec<TimelineEvent>> {
    Box::pin(async move {
        let after = page.after;
        let (connection, tenant, _) = tx.parts();
        let rows = sqlx::query_as!(
            EventRow,
            r#"WITH own AS (
                   SELECT session_id, version, started_at, ended_at,
                          CASE WHEN memory_exception IS NULL THEN end_reason ELSE 'out_of_memory' END AS end_reason,
                          CASE WHEN memory_exception IS NULL THEN judgement
                               ELSE jsonb_build_object('rule', 'memory_exception', 'confidence', 'high', 'evidence',
                                   jsonb_build_array(jsonb_build_object('kind', 'memory_exception', 'value',
                                       'report ' || memory_exception || coalesce('; inferred before: ' || replace(end_reason, '_', ' '), ''))))
                          END AS judgement
                   FROM sessions
                   WHERE tenant = $1 AND app = $2 AND session_id = $3 ORDER BY day DESC LIMIT $4),
               events AS (
                   SELECT started_at AS at, 'started' AS kind, session_id AS id, version, NULL AS reason,
                          NULL::jsonb AS judgement, NULL::jsonb AS figures
                   FROM own
                   UNION ALL
                   SELECT coalesce(ended_at, started_at), 'ended', session_id, version, end_reason, judgement, NULL
                   FROM own WHERE ended_at IS NOT NULL OR end_reason IS NOT NULL
                   UNION ALL
                   (SELECT measured_at, 'metrics', payload_id, version, NULL, NULL, figures FROM metric_payloads
                    WHERE tenant = $1 AND app = $2 AND session_id = $3
                    ORDER BY measured_at DESC, payload_id DESC LIMIT $4))
               SELECT at AS "at!", kind AS "kind!: HealthEventKind", id AS "id!", version AS "version!",
                      reason AS "reason!: Nullable<EndReasonColumn>",
                      judgement AS "judgement!: Nullable<JsonColumn<SessionJudgement>>",
                      figures AS "figures!: Nullable<JsonColumn<Vec<SessionFigure>>>"
               FROM events
               WHERE $5::timestamptz IS NULL OR (at, kind, id, 0) > ($5, $6::text, $7::text, $8::integer)
               ORDER BY at, kind, id LIMIT $9"#,
            tenant,
            page.app,
            page.session,
            MOST_OF_KIND,
            after.map(|(at, ..)| at),
            after.map(|(_, kind, ..)| kind),
            after.map(|(_, _, id, _)| id),
            after.map(|(.., variant)| to_row32(variant)),
            i64::from(page.limit)
        );
        Ok(rows.fetch_all(connection).await?.into_iter().map(session_event).collect())
    })
}

fn session_event(row: EventRow) -> TimelineEvent {
    let EventRow { at, kind, id, version, reason, judgement, figures } = row;
    let figures = figures.unwrap_or_default();
    let text = match (kind, reason) {
        (HealthEventKind::Started, _) => "The session began".to_owned(),
        (HealthEventKind::Ended, None) => "The session ended".to_owned(),
        (HealthEventKind::Ended, Some(reason)) => {
            format!("The session ended: {}", reason.as_str().replace('_', " "))
        }
        (HealthEventKind::Metrics, _) => format!("Metrics {id}"),
    };
    TimelineEvent {
        at,
        kind: kind.as_str().into(),
        id,
        variant: 0,
        version,
        detail: reason.map(|reason| reason.as_str().to_owned()),
        title: None,
        judgement,
        shown: Some(ShownSessionEvent { text, detail: describe_figures(&figures), path: None }),
        figures,
    }
}
