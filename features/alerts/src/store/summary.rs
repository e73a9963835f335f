//! Summaries: what happened to an app in a day or a week.

use super::AlertRuleId;
use super::events::{AlertCause, page_path};
use super::rules::DueRule;
use super::schedule::SummarySchedule;
use time::{Date, Duration, OffsetDateTime};
use unslide_model::figures::format_fraction;
use unslide_store::watched_figures::{FigurePeriod, FigureQuery, MeasuredFigure, measure_figure};
use unslide_store::{Result, Store, TenantTx};

/// Apps that a rule without an app tells of, those with the most crashes.
const APPS_LIMIT: i64 = 10;
/// Days before in which such an app had reports.
const KNOWN_DAYS: i32 = 28;
/// Bugs of each kind that are named.
const NAMED_LIMIT: usize = 3;

/// Returns true if the database knows a time zone of this name.
pub async fn is_time_zone(store: &Store, name: &str) -> Result<bool> {
    let known = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM pg_timezone_names WHERE name = $1) AS "known!""#,
        name
    );
    Ok(known.fetch_one(store.pool()).await?)
}

/// Days that a summary tells of: from the first up to the second, which is not part of them.
#[derive(Clone, Copy)]
struct Days(Date, Date);

impl Days {
    fn before(self) -> Days {
        Days(self.0 - (self.1 - self.0), self.0)
    }

    fn bounds(self) -> (OffsetDateTime, OffsetDateTime) {
        (self.0.midnight().assume_utc(), self.1.midnight().assume_utc())
    }
}

/// Summarizes the apps of a rule if the hour of its schedule has come today.
pub(super) async fn summarize_apps(tx: &mut TenantTx, rule: &DueRule) -> Result<Vec<AlertCause>> {
    let Some(schedule) = &rule.summary else { return Ok(Vec::new()) };
    let Some(day) = find_due_day(tx, schedule, rule.created_at).await? else { return Ok(Vec::new()) };
    let today = tx.now().to_offset(time::UtcOffset::UTC).date();
    let days = Days(today - Duration::days(if schedule.weekly { 7 } else { 1 }), today);
    let mut causes = Vec::new();
    for app in list_apps(tx, rule, days, day).await? {
        causes.extend(summarize_app(tx, rule, &app, days, day).await?);
    }
    Ok(causes)
}

fn cause_of(app: &str, day: Date) -> String {
    format!("summary:{app}:{day}")
}

/// Returns the receiver's day, if its hour has come, and came after the rule was made.
async fn find_due_day(
    tx: &mut TenantTx,
    schedule: &SummarySchedule,
    created_at: OffsetDateTime,
) -> Result<Option<Date>> {
    let (connection, _, now) = tx.parts();
    Ok(sqlx::query_scalar!(
        r#"SELECT l.day AS "day!" FROM (SELECT ($1::timestamptz AT TIME ZONE $2)::date AS day) l
           WHERE (l.day + make_interval(hours => $3)) AT TIME ZONE $2 <= $1
             AND (l.day + make_interval(hours => $3)) AT TIME ZONE $2 >= $4
             AND (NOT $5 OR extract(isodow FROM l.day) = 1)"#,
        now,
        schedule.time_zone,
        i32::from(schedule.hour),
        created_at,
        schedule.weekly
    )
    .fetch_optional(connection)
    .await?)
}

/// Lists the rule's app, or those with reports in the last weeks, if the rule has not told of them today.
async fn list_apps(tx: &mut TenantTx, rule: &DueRule, days: Days, day: Date) -> Result<Vec<String>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_scalar!(
        r#"SELECT a.app AS "app!" FROM (
               SELECT app, sum(fatal) FILTER (WHERE day >= $3)::bigint AS crashes FROM app_days
               WHERE tenant = $1 AND $2::text IS NULL AND day >= $3 - $8::integer AND day < $4 GROUP BY app
               UNION ALL SELECT $2, 0 WHERE $2 IS NOT NULL) a
           WHERE NOT EXISTS (SELECT FROM alert_events e
                             WHERE e.tenant = $1 AND e.rule = $6 AND e.cause = 'summary:' || a.app || ':' || $7::date)
           ORDER BY a.crashes DESC NULLS LAST, a.app LIMIT $5"#,
        tenant,
        rule.app,
        days.0,
        days.1,
        APPS_LIMIT,
        rule.id as AlertRuleId,
        day,
        KNOWN_DAYS
    )
    .fetch_all(connection)
    .await?)
}

async fn summarize_app(
    tx: &mut TenantTx,
    rule: &DueRule,
    app: &str,
    days: Days,
    day: Date,
) -> Result<Option<AlertCause>> {
    let found = list_groups(tx, &rule.labels, app, days).await?;
    if found.is_empty() && !rule.labels.is_empty() {
        return Ok(None);
    }
    let crash_free = measure_crash_free(tx, app, days).await?;
    let crashes = count_crashes(tx, app, days).await?;
    let missing = count_missing(tx, app, days).await?;
    let named =
        |is_wanted: fn(&SummaryGroup) -> bool| name_groups(found.iter().filter(|group| is_wanted(group)));
    let (new, back, resolved) =
        found.first().map_or((0, 0, 0), |group| (group.new_groups, group.back_groups, group.resolved_groups));
    let most = named(|group| group.reports > 0);
    let parts = [
        crash_free.as_ref().map(describe_change),
        (!rule.labels.is_empty()).then(|| format!("Bugs with {}", rule.labels.join(" or "))),
        (new > 0).then(|| format!("New bugs: {new}, {}", named(|group| group.is_new))),
        (back > 0).then(|| format!("Bugs that came back: {back}, {}", named(|group| group.is_back))),
        (resolved > 0).then(|| format!("Resolved bugs: {resolved}")),
        (!most.is_empty()).then(|| format!("Most reports: {most}")),
        (missing > 0).then(|| format!("Missing dSYMs: {missing}")),
    ];
    let detail: Vec<String> = parts.into_iter().flatten().collect();
    if crashes == 0 && detail.is_empty() {
        return Ok(None);
    }
    let figure = match &crash_free {
        Some(measured) => format!("{} of sessions without a crash", format_fraction(measured.value)),
        None => format!("{crashes} crashes"),
    };
    let period = if days.1 - days.0 > Duration::DAY { "7 days" } else { "a day" };
    Ok(Some(AlertCause {
        cause: cause_of(app, day),
        headline: format!("{app} in {period}: {figure}"),
        detail: detail.iter().map(|part| format!("{part}.")).collect::<Vec<_>>().join(" "),
        app: app.to_owned(),
        version: String::new(),
        path: page_path("/console", app),
    }))
}

/// Describes how a share changed.
fn describe_change(measured: &MeasuredFigure) -> String {
    match measured.before {
        None => "There is nothing to compare it with".to_owned(),
        Some(before) if measured.is_worse => format!("Worse than before, {}", format_fraction(before)),
        Some(before) => format!("Before, {}: no worse by more than chance explains", format_fraction(before)),
    }
}

/// Names the first groups, with their reports.
fn name_groups<'g>(groups: impl Iterator<Item = &'g SummaryGroup>) -> String {
    let named = groups.take(NAMED_LIMIT).map(|group| format!("{} ({})", group.title, group.reports));
    named.collect::<Vec<_>>().join(", ")
}

async fn measure_crash_free(tx: &mut TenantTx, app: &str, days: Days) -> Result<Option<MeasuredFigure>> {
    let before = days.before();
    let query = FigureQuery {
        figure: "crash_free_sessions",
        app,
        version: None,
        host: None,
        endpoint: None,
        period: FigurePeriod::Days(days.0, days.1),
        before: Some(FigurePeriod::Days(before.0, before.1)),
    };
    measure_figure(tx, query).await
}

async fn count_crashes(tx: &mut TenantTx, app: &str, days: Days) -> Result<i64> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_scalar!(
        r#"SELECT coalesce(sum(fatal), 0)::bigint AS "crashes!" FROM app_days
           WHERE tenant = $1 AND app = $2 AND day >= $3 AND day < $4"#,
        tenant,
        app,
        days.0,
        days.1
    )
    .fetch_one(connection)
    .await?)
}

/// A group that something happened to, and how many of its kind there are.
struct SummaryGroup {
    title: String,
    /// Its reports in these days.
    reports: i64,
    is_new: bool,
    is_back: bool,
    new_groups: i64,
    back_groups: i64,
    resolved_groups: i64,
}

/// Lists the first groups of an app with reports, that are new and that came back in these days, those with the most reports
/// first. With labels those that have one of them.
async fn list_groups(
    tx: &mut TenantTx,
    labels: &[String],
    app: &str,
    days: Days,
) -> Result<Vec<SummaryGroup>> {
    let (from, to) = days.bounds();
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        SummaryGroup,
        r#"SELECT k.title AS "title!", k.reports AS "reports!", k.is_new AS "is_new!", k.is_back AS "is_back!",
                  k.new_groups AS "new_groups!", k.back_groups AS "back_groups!", k.resolved_groups AS "resolved_groups!"
           FROM (SELECT s.*, count(*) FILTER (WHERE s.is_new) OVER () AS new_groups,
                        count(*) FILTER (WHERE s.is_back) OVER () AS back_groups,
                        count(*) FILTER (WHERE s.is_resolved) OVER () AS resolved_groups,
                        row_number() OVER (ORDER BY s.reports DESC, s.id) AS place,
                        row_number() OVER (PARTITION BY s.is_new ORDER BY s.reports DESC, s.id) AS new_place,
                        row_number() OVER (PARTITION BY s.is_back ORDER BY s.reports DESC, s.id) AS back_place
                 FROM (SELECT t.id, t.title, coalesce(n.reports, 0) AS reports,
                              coalesce(n.reports, 0) > 0 AND t.first_seen >= $3 AND t.first_seen < $4 AS is_new,
                              coalesce(t.regressed_at >= $3 AND t.regressed_at < $4, false) AS is_back,
                              coalesce(t.status = 'resolved' AND t.resolved_at >= $3 AND t.resolved_at < $4, false) AS is_resolved
                       FROM groups t
                       LEFT JOIN (SELECT coalesce(g.merged_into, g.id) AS id, sum(c.reports)::bigint AS reports
                                  FROM groups g
                                  JOIN LATERAL (SELECT reports FROM group_day_counts
                                                WHERE tenant = $1 AND group_id = g.id AND day >= $5 AND day < $6) c ON true
                                  WHERE g.tenant = $1 AND g.app = $2 AND g.last_seen >= $3 GROUP BY 1) n ON n.id = t.id
                       WHERE t.tenant = $1 AND t.app = $2 AND t.merged_into IS NULL
                         AND (cardinality($8::text[]) = 0
                              OR EXISTS (SELECT FROM group_labels l WHERE l.tenant = $1 AND l.group_id = t.id AND l.label = ANY ($8))
                              OR EXISTS (SELECT FROM unnest($8) AS w (label) WHERE w.label = split_part(w.label, ':', 1) || ':none'
                                           AND NOT EXISTS (SELECT FROM group_labels l WHERE l.tenant = $1 AND l.group_id = t.id
                                                             AND starts_with(l.label, split_part(w.label, ':', 1) || ':'))))) s
                 WHERE s.reports > 0 OR s.is_back OR s.is_resolved) k
           WHERE k.place <= $7 OR k.is_new AND k.new_place <= $7 OR k.is_back AND k.back_place <= $7
           ORDER BY k.place"#,
        tenant,
        app,
        from,
        to,
        days.0,
        days.1,
        NAMED_LIMIT as i64,
        labels
    )
    .fetch_all(connection)
    .await?)
}

/// Counts the images of an app that reports of these days wait for.
async fn count_missing(tx: &mut TenantTx, app: &str, days: Days) -> Result<i64> {
    let (from, _) = days.bounds();
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_scalar!(
        r#"SELECT count(DISTINCT w.debug_id) AS "missing!" FROM wanted_images w
           LEFT JOIN symbol_slots s ON s.tenant = w.tenant AND s.debug_id = w.debug_id
           WHERE w.tenant = $1 AND w.app = $2 AND NOT w.system AND coalesce(s.quality, 0) < 2 AND w.last_seen >= $3"#,
        tenant,
        app,
        from
    )
    .fetch_one(connection)
    .await?)
}
