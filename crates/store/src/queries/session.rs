//! The timeline of a session: reports that carry its id, and events of features.

use crate::column::{U32, json_column};
use crate::number::to_row32;
use crate::report_rows::list_of_runs;
use crate::{Result, TenantTx, Uuid};
use serde::{Deserialize, Serialize};
use sqlx::FromRow;
use std::borrow::Cow;
use time::OffsetDateTime;
use unslide_model::ended::{Confidence, EndEvidence, EndRule, EndedRun, EvidenceKind};
use utoipa::ToSchema;

/// Events of one kind that a timeline is made of: the newest ones, if a client sends more under one id.
pub const MOST_OF_KIND: i64 = 1_000;

/// The kind of a report in a timeline. Features have kinds of their own.
pub const REPORT_KIND: &str = "report";

/// The rule that has decided how a session ended, how sure that is, and the evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionJudgement {
    /// The rule that has decided.
    #[schema(value_type = String, example = "exclusion")]
    pub rule: EndRule,
    /// How sure it is: `low`, `medium` or `high`.
    #[schema(value_type = String, example = "medium")]
    pub confidence: Confidence,
    /// What speaks for lack of memory; empty for an end of another kind.
    #[schema(max_items = 4)]
    pub evidence: Vec<SessionEvidence>,
    /// The footprint where it was far below the learned limit. It lowers nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<SessionEvidence>,
}

/// A fact about the memory of a session at its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionEvidence {
    /// `footprint`, `learned_limit`, `memory_pressure`, `jetsam` or `memory_exception`.
    #[schema(value_type = String, example = "learned_limit")]
    pub kind: EvidenceKind,
    /// For people.
    #[schema(example = "92 % of 2048 MiB")]
    pub value: String,
}

json_column!(SessionJudgement);

/// The values of one metric that were sent with a session, without any rounding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionFigure {
    /// The metric.
    #[schema(example = "launch_time")]
    pub metric: String,
    /// The unit of its values.
    #[schema(example = "ms")]
    pub unit: String,
    /// How many values there are, or requests.
    pub count: u64,
    /// Requests that failed; absent for all else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<u64>,
    /// The lowest value; absent for `requests`, which have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lowest: Option<f64>,
    /// The median; of an even number the lower one, so that it is one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median: Option<f64>,
    /// The highest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest: Option<f64>,
    /// Of the battery: whether it charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "unplugged")]
    pub state: Option<String>,
}

json_column!(Vec<SessionFigure>);

impl From<&EndedRun> for SessionJudgement {
    fn from(ended: &EndedRun) -> SessionJudgement {
        let evidence = |one: &EndEvidence| {
            // Postgres stores no NUL.
            SessionEvidence { kind: one.kind, value: one.value.replace('\0', "") }
        };
        SessionJudgement {
            rule: ended.rule,
            confidence: ended.confidence,
            evidence: ended.evidence.iter().map(evidence).collect(),
            against: ended.against.as_ref().map(evidence),
        }
    }
}

/// One event of a session.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
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
    /// Of metrics: the values of each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 64)]
    pub figures: Vec<SessionFigure>,
    /// Of an event of a feature: how the console shows it.
    #[serde(skip)]
    pub shown: Option<ShownSessionEvent>,
}

/// How the console shows an event of a feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownSessionEvent {
    /// A description of the event.
    pub text: String,
    /// A second line; empty if there is none.
    pub detail: String,
    /// The path of its page, if it has one.
    pub path: Option<String>,
}

/// A report, as the statement reads it.
#[derive(FromRow)]
struct ReportEvent {
    at: OffsetDateTime,
    id: String,
    #[sqlx(try_from = "U32")]
    variant: u32,
    version: String,
    kind: String,
    title: Option<String>,
}

impl From<ReportEvent> for TimelineEvent {
    fn from(row: ReportEvent) -> TimelineEvent {
        let ReportEvent { at, id, variant, version, kind, title } = row;
        let (detail, judgement, figures, shown) = (Some(kind), None, Vec::new(), None);
        let kind = REPORT_KIND.into();
        TimelineEvent { at, kind, id, variant, version, detail, title, judgement, figures, shown }
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
pub async fn list_timeline(tx: &mut TenantTx, page: TimelinePage<'_>) -> Result<Vec<TimelineEvent>> {
    let mut events = report_events(tx, page).await?;
    for hook in tx.hooks().iter().filter_map(|hook| hook.session_events) {
        events.extend(hook(tx, page).await?);
    }
    // Each list is in order, and no two have a kind in common.
    events.sort_by(|a, b| (a.at, &a.kind).cmp(&(b.at, &b.kind)));
    events.truncate(usize::try_from(page.limit).unwrap_or(usize::MAX));
    Ok(events)
}

/// Lists the reports of the run with the session's id.
async fn report_events(tx: &mut TenantTx, page: TimelinePage<'_>) -> Result<Vec<TimelineEvent>> {
    let TimelinePage { app, session, after, limit } = page;
    let Ok(run) = Uuid::parse_str(session) else { return Ok(Vec::new()) };
    let rows: Vec<ReportEvent> = list_of_runs(tx, &[run], MOST_OF_KIND, &|query| {
        query.push(
            "SELECT e.* FROM (SELECT coalesce(o.device_time, o.received_at) AS at, o.report_id::text AS id, o.variant, o.version,
                                     o.type AS kind, o.title
                              FROM (SELECT * FROM newest o WHERE o.app = ",
        );
        query.push_bind(app.to_owned()).push(format!(
            " ORDER BY o.received_at DESC, o.report_id DESC, o.variant DESC LIMIT {MOST_OF_KIND}) o) e"
        ));
        if let Some((at, kind, id, variant)) = after {
            query.push(format!(" WHERE (e.at, '{REPORT_KIND}', e.id, e.variant) > (")).push_bind(at);
            query.push(", ").push_bind(kind.to_owned()).push(", ").push_bind(id.to_owned());
            query.push(", ").push_bind(to_row32(variant)).push(")");
        }
        query.push(format!(" ORDER BY e.at, e.id, e.variant LIMIT {limit}"));
    })
    .await?;
    Ok(rows.into_iter().map(TimelineEvent::from).collect())
}
