//! Rules over time: whether their condition is fulfilled now.

use super::AlertRuleId;
use super::evaluate_figure::evaluate_figure;
use super::events::{AlertCause, NEW_GROUP, page_path, page_query, raise_found};
use super::firings::format_minute;
use super::frequent::find_frequent;
use super::missing::{self, UnnotedImages};
use super::releases::find_bad_versions;
use super::rules::{AlertCondition, DueRule};
use super::schedule::read_schedule;
use super::summary::summarize_apps;
use super::widespread::find_widespread;
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};
use unslide_model::figures::{format_decimals, format_fraction};
use unslide_store::watched_figures::find_figure_page;
use unslide_store::{GroupId, Result, TenantTx};

/// The time between two evaluations of a rule.
const EVALUATION_INTERVAL: Duration = Duration::minutes(5);
/// The time between two evaluations of a rule that reads the counts of 90 days.
const RELEASE_INTERVAL: Duration = Duration::hours(1);
/// How long symbols may come after reports before they count as missing. A build's pipeline uploads them
/// during this time.
const SYMBOLS_MAY_TAKE: Duration = Duration::minutes(30);
/// Crashes that an hour must have to be a spike.
const LEAST_OF_A_SPIKE: i64 = 20;
/// Independent sessions that a day of a version must have before a share is made of them: a sample counts as what came.
const LEAST_SESSIONS: i64 = 100;
/// The figure with the page that shows what the rule judges.
const CRASH_FREE_SESSIONS: &str = "crash_free_sessions";
/// The days before today that the usual hour is the mean of.
const USUAL_DAYS: i32 = 7;
/// Causes that one evaluation finds, of those that the rule has no event for: the others are found by the next one.
const MOST_CAUSES: u32 = 100;

/// Records the events that fulfil a rule now, and the moment of the next evaluation in the same transaction,
/// unless it is too early. Returns the number of new events.
pub async fn evaluate_rule(tx: &mut TenantTx, rule: AlertRuleId) -> Result<u64> {
    let Some((condition, found)) = take_due_rule(tx, rule).await? else { return Ok(0) };
    let causes = match condition {
        AlertCondition::NewGroup => still_provisional(tx, &found).await?,
        AlertCondition::Regression => Vec::new(),
        AlertCondition::Spike => find_spikes(tx, &found).await?,
        AlertCondition::MissingSymbols => without_symbols(tx, &found).await?,
        AlertCondition::CrashFree => find_crashing(tx, &found).await?,
        AlertCondition::FrequentGroup | AlertCondition::GrowingGroup => {
            find_frequent(tx, &found, condition).await?
        }
        AlertCondition::WidespreadGroup => find_widespread(tx, &found).await?,
        AlertCondition::BadRelease => find_bad_versions(tx, &found).await?,
        AlertCondition::Summary => summarize_apps(tx, &found).await?,
        AlertCondition::Figure => return evaluate_figure(tx, &found).await,
    };
    if causes.is_empty() { Ok(0) } else { raise_found(tx, rule, &causes).await }
}

/// Leaves out one evaluation, after one that failed and took the moment of the next one back with it.
pub async fn postpone_evaluation(tx: &mut TenantTx, rule: AlertRuleId) -> Result<()> {
    take_due_rule(tx, rule).await.map(drop)
}

/// Takes a rule that is due, and sets the moment of its next evaluation.
async fn take_due_rule(tx: &mut TenantTx, rule: AlertRuleId) -> Result<Option<(AlertCondition, DueRule)>> {
    let (connection, tenant, now) = tx.parts();
    let found = sqlx::query!(
        r#"UPDATE alert_rules SET next_evaluation_at = CASE WHEN condition = $6 THEN $5::timestamptz ELSE $4 END
           WHERE tenant = $1 AND id = (
               SELECT id FROM alert_rules WHERE tenant = $1 AND id = $2 AND enabled AND next_evaluation_at <= $3
               FOR NO KEY UPDATE SKIP LOCKED)
           RETURNING app, condition AS "condition: AlertCondition", threshold, created_at,
                     coalesce(least_reports, 0) AS "least_reports!", summary_hour, summary_zone, summary_weekly, labels,
                     CASE WHEN escalate_to IS NOT NULL THEN escalate_minutes END AS escalate_minutes"#,
        tenant,
        rule as AlertRuleId,
        now,
        now + EVALUATION_INTERVAL,
        now + RELEASE_INTERVAL,
        AlertCondition::BadRelease.as_str()
    )
    .fetch_optional(connection)
    .await?;
    let evaluated = found.map(|found| {
        let (app, threshold, created_at) = (found.app, found.threshold, found.created_at);
        let escalate_minutes = found.escalate_minutes;
        let (least_reports, summary) = (
            found.least_reports,
            read_schedule(found.summary_hour, found.summary_zone, found.summary_weekly),
        );
        let labels = found.labels;
        let due = DueRule {
            id: rule,
            app,
            threshold,
            least_reports,
            labels,
            created_at,
            escalate_minutes,
            summary,
        };
        (found.condition, due)
    });
    Ok(evaluated)
}

/// Finds new groups with symbols that did not come in time.
async fn still_provisional(tx: &mut TenantTx, rule: &DueRule) -> Result<Vec<AlertCause>> {
    let (connection, tenant, now) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT id AS "id: GroupId", title, culprit, app, first_version FROM groups
         WHERE tenant = $1 AND ($2::text IS NULL OR app = $2) AND provisional AND merged_into IS NULL
           AND first_seen <= $3 AND first_seen >= $4
           AND NOT EXISTS (SELECT FROM alert_events e WHERE e.tenant = $1 AND e.rule = $6
                                                            AND e.cause = $7::text || groups.id)
         ORDER BY first_seen LIMIT $5"#,
        tenant,
        rule.app,
        now - SYMBOLS_MAY_TAKE,
        rule.created_at.max(now - SYMBOLS_MAY_TAKE - Duration::DAY),
        i64::from(MOST_CAUSES),
        rule.id as AlertRuleId,
        NEW_GROUP
    )
    .fetch_all(connection)
    .await?;
    let causes = rows
        .into_iter()
        .map(|row| AlertCause::new_group(row.id, &row.title, &row.culprit, &row.app, &row.first_version));
    Ok(causes.collect())
}

/// Apps with many more crashes in this hour or the one before it than in a usual one.
async fn find_spikes(tx: &mut TenantTx, rule: &DueRule) -> Result<Vec<AlertCause>> {
    let (connection, tenant, now) = tx.parts();
    let today = now.to_offset(time::UtcOffset::UTC).date();
    let rows = sqlx::query!(
        r#"SELECT l.app AS "app!", l.crashes AS "crashes!", coalesce(u.crashes, 0)::float8 / ($5 * 24) AS "usual!",
                  c.cause AS "cause!", l.hour AS "hour!"
           FROM (SELECT DISTINCT ON (h.app) h.app, h.hour, h.crashes
                 FROM (SELECT app, hour, sum(fatal)::bigint AS crashes FROM app_hours
                       WHERE tenant = $1 AND hour > $3 AND hour <= $4 AND ($2::text IS NULL OR app = $2)
                       GROUP BY app, hour) h
                 ORDER BY h.app, h.crashes DESC, h.hour DESC) l
           LEFT JOIN (SELECT app, sum(fatal)::bigint AS crashes FROM app_days
                      WHERE tenant = $1 AND day < $6 AND day >= $6 - $5::integer AND ($2::text IS NULL OR app = $2)
                      GROUP BY app) u ON u.app = l.app
           CROSS JOIN LATERAL (SELECT 'spike:' || l.app || ':' || (l.hour AT TIME ZONE 'UTC')::date) AS c (cause)
           WHERE l.crashes >= $7 AND l.crashes > $8::float8 * coalesce(u.crashes, 0) / ($5 * 24)
             AND NOT EXISTS (SELECT FROM alert_events e WHERE e.tenant = $1 AND e.rule = $10 AND e.cause = c.cause)
           ORDER BY l.crashes DESC, l.app LIMIT $9"#,
        tenant,
        rule.app,
        now - Duration::hours(2),
        now,
        USUAL_DAYS,
        today,
        LEAST_OF_A_SPIKE,
        rule.threshold,
        i64::from(MOST_CAUSES),
        rule.id as AlertRuleId
    )
    .fetch_all(connection)
    .await?;
    let causes = rows.into_iter().map(|row| AlertCause {
        cause: row.cause,
        headline: format!("{} crashes of {} in an hour", row.crashes, row.app),
        detail: format!(
            "In an hour of the last {USUAL_DAYS} days there were {}.",
            format_decimals(row.usual, 1)
        ),
        path: format!("{}&{}", page_path("/console/reports", &row.app), crashes_of_hour(row.hour)),
        app: row.app,
        version: String::new(),
    });
    Ok(causes.collect())
}

/// Returns the filter of the crashes that an hour counts.
fn crashes_of_hour(hour: OffsetDateTime) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, at) in [("from", hour), ("to", hour + Duration::HOUR)] {
        query.append_pair(name, &at.format(&Rfc3339).unwrap_or_default());
    }
    query.append_pair("fatal", "true").append_pair("counted", "true").finish()
}

/// Finds versions with too many crashed sessions on a day, in this hour or in the one before. Yesterday counts, too, because an
/// app reports a crashed session when it starts again. Days and hours before the rule do not count.
async fn find_crashing(tx: &mut TenantTx, rule: &DueRule) -> Result<Vec<AlertCause>> {
    let page = find_figure_page(tx, CRASH_FREE_SESSIONS).unwrap_or("/console");
    let (connection, tenant, now) = tx.parts();
    let day = |time: OffsetDateTime| time.to_offset(time::UtcOffset::UTC).date();
    let from = day(now).saturating_sub(Duration::DAY).max(day(rule.created_at));
    let rows = sqlx::query!(
        r#"SELECT DISTINCT ON (c.cause) s.app AS "app!", s.version AS "version!", s.day AS "day!", s.hour,
                  s.sessions AS "sessions!", 100 * (s.sessions - s.crashed)::float8 / s.sessions AS "share!",
                  c.cause AS "cause!"
           FROM (SELECT app, version, day, NULL::timestamptz AS hour, sessions, crashed, squares FROM session_days
                 WHERE tenant = $1 AND day >= $2 AND day <= $8 AND ($3::text IS NULL OR app = $3)
                 UNION ALL
                 SELECT app, version, (hour AT TIME ZONE 'UTC')::date, hour, sessions, crashed, squares
                 FROM session_hour_counts
                 WHERE tenant = $1 AND hour > $9 AND hour <= $10 AND ($3::text IS NULL OR app = $3)) s
           CROSS JOIN LATERAL (SELECT 'crash_free:' || s.app || ':' || s.version || ':' || s.day) AS c (cause)
           WHERE s.sessions >= $4 AND s.sessions::float8 * s.sessions >= $4 * greatest(s.squares, s.sessions)::float8
             AND 100 * (s.sessions - s.crashed)::float8 / s.sessions < $5
             AND NOT EXISTS (SELECT FROM alert_events e WHERE e.tenant = $1 AND e.rule = $7 AND e.cause = c.cause)
           ORDER BY c.cause, s.hour DESC NULLS FIRST LIMIT $6"#,
        tenant,
        from,
        rule.app,
        LEAST_SESSIONS,
        rule.threshold,
        i64::from(MOST_CAUSES),
        rule.id as AlertRuleId,
        day(now),
        (now - Duration::hours(2)).max(rule.created_at - Duration::HOUR),
        now
    )
    .fetch_all(connection)
    .await?;
    let causes = rows.into_iter().map(|row| {
        let (version, when) = (row.version.as_str(), row.hour.map_or(row.day.to_string(), format_minute));
        let fields = [
            ("app", Some(row.app.as_str())),
            ("figure", Some(CRASH_FREE_SESSIONS)),
            ("version", Some(version)),
            ("by", Some(if row.hour.is_some() { "hour" } else { "day" })),
        ];
        AlertCause {
            cause: row.cause,
            headline: format!(
                "Only {} of the sessions of {} {} are crash-free",
                format_fraction(row.share / 100.0),
                row.app,
                row.version
            ),
            detail: format!(
                "Of {} sessions of the {} {when}; the rule asks for {} %.",
                row.sessions,
                if row.hour.is_some() { "hour from" } else { "day (UTC)" },
                rule.threshold
            ),
            path: page_query(page, &fields),
            app: row.app,
            version: row.version,
        }
    });
    Ok(causes.collect())
}

/// Finds images of apps with symbols that did not come in time.
async fn without_symbols(tx: &mut TenantTx, rule: &DueRule) -> Result<Vec<AlertCause>> {
    let images = UnnotedImages {
        rule: rule.id,
        app: rule.app.as_deref(),
        least_reports: rule.threshold,
        first_seen_until: tx.now() - SYMBOLS_MAY_TAKE,
        last_seen_since: rule.created_at,
    };
    let late = missing::list_unnoted(tx, &images, MOST_CAUSES).await?;
    let causes = late.into_iter().map(|one| {
        let app = one.apps.first().cloned().unwrap_or_default();
        AlertCause {
            cause: format!("missing:{}", one.image.debug_id),
            headline: format!("Symbols of {} are missing", one.image.name),
            detail: format!(
                "{} reports of {} wait for the dSYM {} ({}).",
                one.image.reports,
                one.versions.join(", "),
                one.image.debug_id,
                one.image.arch
            ),
            path: page_path("/console/symbols", &app),
            app,
            version: one.versions.last().cloned().unwrap_or_default(),
        }
    });
    Ok(causes.collect())
}
