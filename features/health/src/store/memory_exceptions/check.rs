//! Outcomes of memory exceptions, and how often the inferred ends for lack of memory were right, by what MetricKit says.

use super::decision::{JoinOutcome, MemoryExceptionId};
use serde::Serialize;
use time::{Date, Duration, UtcOffset};
use unslide_health_formats::AppEndCause;
use unslide_model::ended::EndReason;
use unslide_store::sql::to_row32;
use unslide_store::{Result, TenantTx};
use utoipa::ToSchema;

/// Days before an exception on which its session may have begun.
const JOINED_DAYS: i64 = 7;

/// Memory exceptions of MetricKit in a period, and what was inferred about the same ends before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct MemoryEndCheck {
    /// Memory exceptions that arrived of this period.
    pub exceptions: i64,
    /// Those that belong to exactly one session, whose end they replace.
    pub joined: i64,
    /// Those that fit no session: it has not arrived, ended otherwise, or names another device model or version.
    pub without_session: i64,
    /// Those that fit several sessions, or whose session fits several.
    pub ambiguous: i64,
    /// Joined sessions with an inferred end.
    pub inferred: i64,
    /// Those of `inferred` that were out of memory, with evidence or by exclusion.
    pub inferred_right: i64,
    /// Those of `inferred_right` that were inferred by exclusion alone.
    pub by_exclusion: i64,
    /// Ends on the screen that MetricKit's metrics count; absent if none came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreground_ends: Option<CountedEnds>,
    /// Ends in the background that MetricKit's metrics count; absent if none came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background_ends: Option<CountedEnds>,
}

/// Ends of an app that MetricKit's metrics count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct CountedEnds {
    /// All ends, also those that the app or a person decided.
    pub ends: i64,
    /// Those of `ends` for lack of memory.
    pub out_of_memory: i64,
}

impl CountedEnds {
    /// Returns the share of ends for lack of memory.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    pub fn share(self) -> f64 {
        self.out_of_memory as f64 / self.ends.max(1) as f64
    }

    fn from_sums(ends: Option<i64>, out_of_memory: Option<i64>) -> Option<CountedEnds> {
        let ends = ends.filter(|ends| *ends > 0)?;
        Some(CountedEnds { ends, out_of_memory: out_of_memory.unwrap_or(0) })
    }
}

/// A memory exception, and the session that it is joined with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExceptionJoin {
    /// Whether it is joined, or why not.
    pub outcome: JoinOutcome,
    /// The app and the id of the session that it is about.
    pub session: Option<(String, String)>,
    /// The end that was inferred before.
    pub inferred: Option<EndReason>,
}

/// Finds the memory exception that a report tells of.
pub async fn find_join(
    tx: &mut TenantTx,
    report: MemoryExceptionId,
    variant: u32,
) -> Result<Option<ExceptionJoin>> {
    let (connection, tenant, _) = tx.parts();
    let found = sqlx::query!(
        r#"SELECT e.app, e.outcome, s.session_id AS "session_id?", s.end_reason
           FROM memory_exceptions e
           LEFT JOIN sessions s ON e.outcome = 'joined' AND s.tenant = $1 AND s.app = e.app AND s.session_id = e.session_id
                               AND s.day = e.session_day
           WHERE e.tenant = $1 AND e.report_id = $2 AND e.variant = $3"#,
        tenant,
        report.uuid(),
        to_row32(variant)
    )
    .fetch_optional(connection)
    .await?;
    Ok(found.map(|found| ExceptionJoin {
        outcome: JoinOutcome::parse(&found.outcome).unwrap_or(JoinOutcome::None),
        session: found.session_id.map(|session| (found.app, session)),
        inferred: found.end_reason.as_deref().and_then(EndReason::parse),
    }))
}

/// Counts the memory exceptions of an app in a period of days, the last of which is not part of it.
pub async fn check_memory_ends(
    tx: &mut TenantTx,
    app: &str,
    period: (Date, Date),
) -> Result<Option<MemoryEndCheck>> {
    let (from, to) = period;
    let begin = |day: Date| day.midnight().assume_offset(UtcOffset::UTC);
    let (connection, tenant, _) = tx.parts();
    let found = sqlx::query!(
        r#"SELECT count(*) AS "exceptions!", count(*) FILTER (WHERE e.outcome = 'joined') AS "joined!",
                  count(*) FILTER (WHERE e.outcome = 'none') AS "without_session!",
                  count(*) FILTER (WHERE e.outcome = 'several') AS "ambiguous!",
                  count(s.end_reason) AS "inferred!",
                  count(*) FILTER (WHERE s.end_reason IN ('out_of_memory', 'unexplained')) AS "inferred_right!",
                  count(*) FILTER (WHERE s.end_reason = 'unexplained') AS "by_exclusion!"
           FROM memory_exceptions e
           LEFT JOIN sessions s ON e.outcome = 'joined' AND s.tenant = $1 AND s.app = e.app AND s.session_id = e.session_id
                               AND s.day = e.session_day AND s.day BETWEEN $5 AND $6 AND s.judgement IS NOT NULL
           WHERE e.tenant = $1 AND e.app = $2 AND e.at >= $3 AND e.at < $4"#,
        tenant,
        app,
        begin(from),
        begin(to),
        from - Duration::days(JOINED_DAYS),
        to + Duration::DAY
    )
    .fetch_one(&mut *connection)
    .await?;
    let memory: Vec<String> = AppEndCause::ALL
        .into_iter()
        .filter(|cause| cause.is_memory())
        .map(|cause| cause.to_string())
        .collect();
    let sums = sqlx::query!(
        r#"SELECT sum(ends) FILTER (WHERE foreground)::bigint AS foreground,
                  sum(ends) FILTER (WHERE foreground AND cause = ANY ($5))::bigint AS foreground_memory,
                  sum(ends) FILTER (WHERE NOT foreground)::bigint AS background,
                  sum(ends) FILTER (WHERE NOT foreground AND cause = ANY ($5))::bigint AS background_memory
           FROM app_ends WHERE tenant = $1 AND app = $2 AND day >= $3 AND day < $4"#,
        tenant,
        app,
        from,
        to,
        &memory
    )
    .fetch_one(connection)
    .await?;
    let found = MemoryEndCheck {
        exceptions: found.exceptions,
        joined: found.joined,
        without_session: found.without_session,
        ambiguous: found.ambiguous,
        inferred: found.inferred,
        inferred_right: found.inferred_right,
        by_exclusion: found.by_exclusion,
        foreground_ends: CountedEnds::from_sums(sums.foreground, sums.foreground_memory),
        background_ends: CountedEnds::from_sums(sums.background, sums.background_memory),
    };
    Ok(Some(found).filter(|found| *found != MemoryEndCheck::default()))
}
