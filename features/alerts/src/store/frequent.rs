//! Groups with many reports in an hour: of the app's sessions, or against the same hour of the days before.

use super::AlertRuleId;
use super::events::{AlertCause, GROUP_PAGE};
use super::firings::format_minute;
use super::rules::{AlertCondition, DueRule};
use std::collections::{BTreeMap, HashMap};
use time::{Duration, OffsetDateTime};
use unslide_model::figures::{format_decimals, format_fraction};
use unslide_model::timestamp::begin_of_hour;
use unslide_store::sessions::{AppHours, list_hours};
use unslide_store::{GroupId, Result, TenantTx};

/// The beginning of the cause of a frequent group; the group's id, the hour and the level follow.
pub(super) const FREQUENT_GROUP: &str = "frequent:";
/// Groups that one evaluation looks at, those with the most reports.
pub(super) const GROUPS_LIMIT: i64 = 100;
/// How long a rule rests about a group, unless its level doubles.
const REST: Duration = Duration::days(7);
/// Days before that are compared: the same hour of each.
const USUAL_DAYS: i64 = 7;
/// Sessions of an hour below which no share is made of them.
pub(super) const SESSIONS_MIN: f64 = 100.0;
/// Standard deviations by which a count exceeds the usual one, if it is no chance.
const BEYOND_CHANCE: f64 = 4.0;

/// The reports of a group in an hour.
struct FrequentGroup {
    id: GroupId,
    app: String,
    title: String,
    culprit: String,
    version: String,
    hour: OffsetDateTime,
    reports: f64,
}

/// How bad a group is, in the unit of its rule: what is compared with the level of an earlier event.
pub(super) enum GroupLevel {
    /// Millionths of the sessions of an hour.
    Share(f64),
    /// Reports of the group in an hour.
    Reports(f64),
}

/// An event of a rule about a group.
pub(super) struct ToldGroup {
    group: GroupId,
    /// The hour or the version that it was about.
    pub(super) when: String,
    level: GroupLevel,
}

impl ToldGroup {
    /// Returns true if the event says as much as this level of the group.
    pub(super) fn covers(&self, group: GroupId, level: &GroupLevel) -> bool {
        self.group == group && level.is_covered_by(&self.level)
    }
}

impl GroupLevel {
    fn parse(text: &str) -> Option<GroupLevel> {
        let number = text.get(1..)?.parse().ok()?;
        match text.as_bytes()[0] {
            b's' => Some(GroupLevel::Share(number)),
            b'n' => Some(GroupLevel::Reports(number)),
            _ => None,
        }
    }

    pub(super) fn format(&self) -> String {
        match self {
            GroupLevel::Share(millionths) => format!("s{millionths:.0}"),
            GroupLevel::Reports(reports) => format!("n{reports:.0}"),
        }
    }

    /// Returns true if this is less than twice an earlier level of the same unit.
    fn is_covered_by(&self, earlier: &GroupLevel) -> bool {
        match (self, earlier) {
            (GroupLevel::Share(now), GroupLevel::Share(before))
            | (GroupLevel::Reports(now), GroupLevel::Reports(before)) => *now < 2.0 * before,
            _ => false,
        }
    }
}

/// Finds the groups that fulfil a rule in this hour of the clock or the one before, and that it has no recent event for.
pub(super) async fn find_frequent(
    tx: &mut TenantTx,
    rule: &DueRule,
    condition: AlertCondition,
) -> Result<Vec<AlertCause>> {
    let groups = list_groups(tx, rule).await?;
    if groups.is_empty() {
        return Ok(Vec::new());
    }
    let sessions = match condition {
        AlertCondition::FrequentGroup => read_sessions(tx, &groups).await?,
        _ => AppSessions::default(),
    };
    let usual = match condition {
        AlertCondition::GrowingGroup => read_usual(tx, &groups).await?,
        _ => HashMap::new(),
    };
    let told = read_told(tx, rule, FREQUENT_GROUP).await?;
    let mut causes: BTreeMap<GroupId, AlertCause> = BTreeMap::new();
    for group in &groups {
        let judged = match condition {
            AlertCondition::FrequentGroup => judge_share(group, &sessions, rule.threshold),
            _ => judge_growth(group, usual.get(&(group.id, group.hour)).copied(), rule.threshold),
        };
        let Some((level, detail)) = judged else { continue };
        let is_told = told.iter().any(|one| one.covers(group.id, &level));
        if !is_told {
            causes.entry(group.id).or_insert_with(|| group.cause(&level, &detail));
        }
    }
    Ok(causes.into_values().collect())
}

impl FrequentGroup {
    fn cause(&self, level: &GroupLevel, detail: &str) -> AlertCause {
        let share = match level {
            GroupLevel::Share(millionths) => {
                format!(", {} of its sessions", format_fraction(millionths / 1e6))
            }
            GroupLevel::Reports(_) => String::new(),
        };
        let culprit = if self.culprit.is_empty() { String::new() } else { format!("{}. ", self.culprit) };
        AlertCause {
            cause: format!("{FREQUENT_GROUP}{}:{}:{}", self.id, self.hour.unix_timestamp(), level.format()),
            headline: format!(
                "{}: {} reports in an hour{share}",
                self.title,
                format_decimals(self.reports, 0)
            ),
            detail: format!("{culprit}Hour from {}. {detail}", format_minute(self.hour)),
            app: self.app.clone(),
            version: self.version.clone(),
            path: format!("{GROUP_PAGE}{}", self.id),
        }
    }
}

/// Judges the share of sessions that a group hits. An app without sessions has the count alone.
fn judge_share(
    group: &FrequentGroup,
    sessions: &AppSessions,
    threshold: f64,
) -> Option<(GroupLevel, String)> {
    let Some(sessions) = sessions.of_hour(&group.app, group.hour) else {
        let detail = "The app sends no sessions, so the count alone is judged.".to_owned();
        return Some((GroupLevel::Reports(group.reports), detail));
    };
    let share = (group.reports / sessions).min(1.0);
    (sessions >= SESSIONS_MIN && 100.0 * share >= threshold).then(|| {
        let detail = format!(
            "An hour has {} sessions; the rule asks for {threshold} %.",
            format_decimals(sessions, 0)
        );
        (GroupLevel::Share(1e6 * share), detail)
    })
}

/// Judges the reports of an hour against the mean of the same hour on the days before.
fn judge_growth(group: &FrequentGroup, usual: Option<f64>, threshold: f64) -> Option<(GroupLevel, String)> {
    let usual = usual.unwrap_or(0.0);
    let is_more = group.reports >= threshold * usual;
    (is_more && group.reports - usual > BEYOND_CHANCE * (usual + 1.0).sqrt()).then(|| {
        let detail =
            format!("The same hour of the {USUAL_DAYS} days before had {}.", format_decimals(usual, 1));
        (GroupLevel::Reports(group.reports), detail)
    })
}

/// Lists the open groups with the most reports in this hour and in the one before. What is merged counts for its target.
#[expect(clippy::cast_precision_loss, reason = "a count of reports")]
async fn list_groups(tx: &mut TenantTx, rule: &DueRule) -> Result<Vec<FrequentGroup>> {
    let (connection, tenant, now) = tx.parts();
    let this_hour = begin_of_hour(now);
    let first = this_hour - Duration::HOUR;
    let rows = sqlx::query!(
        r#"SELECT t.id AS "id: GroupId", t.app, t.title, t.culprit, t.last_version, n.hour AS "hour!", n.reports AS "reports!"
           FROM (SELECT coalesce(g.merged_into, g.id) AS id, c.hour, sum(c.reports)::bigint AS reports
                 FROM groups g
                 JOIN LATERAL (SELECT hour, reports FROM group_hour_counts
                               WHERE tenant = $1 AND group_id = g.id AND hour >= $3 AND hour <= $4) c ON true
                 WHERE g.tenant = $1 AND ($2::text IS NULL OR g.app = $2) AND g.last_seen >= $3
                 GROUP BY 1, 2 HAVING sum(c.reports)::bigint >= $5) n
           JOIN groups t ON t.tenant = $1 AND t.id = n.id AND t.status IN ('open', 'regressed')
           ORDER BY n.reports DESC, t.id LIMIT $6"#,
        tenant,
        rule.app,
        first.max(begin_of_hour(rule.created_at)),
        this_hour,
        i64::from(rule.least_reports),
        GROUPS_LIMIT
    )
    .fetch_all(connection)
    .await?;
    let groups = rows.into_iter().map(|row| FrequentGroup {
        id: row.id,
        app: row.app,
        title: row.title,
        culprit: row.culprit,
        version: row.last_version,
        hour: row.hour,
        reports: row.reports as f64,
    });
    Ok(groups.collect())
}

/// Sessions of apps by hour.
#[derive(Default)]
struct AppSessions(HashMap<String, BTreeMap<OffsetDateTime, f64>>);

impl AppSessions {
    /// Returns the sessions that an hour has: those that are known, or those of the same hour of the day before if that is more,
    /// or else of the mean hour before. Returns `None` if the app sends none.
    fn of_hour(&self, app: &str, hour: OffsetDateTime) -> Option<f64> {
        let hours = self.0.get(app)?;
        let before = hours.range(..hour);
        let mean = before.clone().map(|(_, sessions)| sessions).sum::<f64>() / before.count().max(1) as f64;
        let usual = hours.get(&(hour - Duration::DAY)).copied().unwrap_or(mean);
        Some(hours.get(&hour).copied().unwrap_or(0.0).max(usual))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count of sessions")]
async fn read_sessions(tx: &mut TenantTx, groups: &[FrequentGroup]) -> Result<AppSessions> {
    let apps: Vec<String> = groups.iter().map(|group| group.app.clone()).collect();
    let first = groups.iter().map(|group| group.hour).min().unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let hours = AppHours { apps: &apps, since: first - Duration::DAY };
    let mut sessions = AppSessions::default();
    for row in list_hours(tx, hours).await? {
        sessions.0.entry(row.app).or_default().insert(row.hour, row.sessions as f64);
    }
    Ok(sessions)
}

/// Returns the mean of the reports of groups in the same hour of the days before.
async fn read_usual(
    tx: &mut TenantTx,
    groups: &[FrequentGroup],
) -> Result<HashMap<(GroupId, OffsetDateTime), f64>> {
    let ids: Vec<GroupId> = groups.iter().map(|group| group.id).collect();
    let hours: Vec<OffsetDateTime> = groups.iter().map(|group| group.hour).collect();
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT n.id AS "id!: GroupId", n.hour AS "hour!", coalesce(sum(c.reports), 0)::float8 / $4::float8 AS "usual!"
           FROM (SELECT DISTINCT id, hour FROM unnest($2::uuid[], $3::timestamptz[]) AS n (id, hour)) n
           JOIN groups g ON g.tenant = $1 AND (g.id = n.id OR g.merged_into = n.id)
           LEFT JOIN LATERAL (
               SELECT reports FROM group_hour_counts
               WHERE tenant = $1 AND group_id = g.id
                 AND hour = ANY (ARRAY(SELECT n.hour - make_interval(hours => 24 * d) FROM generate_series(1, $5::integer) d))
           ) c ON true
           GROUP BY n.id, n.hour"#,
        tenant,
        &ids as &[GroupId],
        &hours,
        USUAL_DAYS as f64,
        i32::try_from(USUAL_DAYS).unwrap_or(i32::MAX)
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| ((row.id, row.hour), row.usual)).collect())
}

/// Reads the groups that the rule has told of in the last week, in events with causes that begin with `prefix`.
pub(super) async fn read_told(tx: &mut TenantTx, rule: &DueRule, prefix: &str) -> Result<Vec<ToldGroup>> {
    let (connection, tenant, now) = tx.parts();
    let causes = sqlx::query_scalar!(
        "SELECT cause FROM alert_events
         WHERE tenant = $1 AND rule = $2 AND starts_with(cause, $3) AND occurred_at > $4",
        tenant,
        rule.id as AlertRuleId,
        prefix,
        now - REST
    )
    .fetch_all(connection)
    .await?;
    let parse = |cause: &String| {
        let (group, rest) = cause.strip_prefix(prefix)?.split_once(':')?;
        let (when, level) = rest.rsplit_once(':')?;
        Some(ToldGroup {
            group: group.parse().ok()?,
            when: when.to_owned(),
            level: GroupLevel::parse(level)?,
        })
    };
    Ok(causes.iter().filter_map(parse).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    const HOUR: OffsetDateTime = datetime!(2026-11-20 10:00 UTC);

    fn group(reports: f64) -> FrequentGroup {
        FrequentGroup {
            id: GroupId::default(),
            app: "shop".into(),
            title: "Cart::total".into(),
            culprit: "cart.rs".into(),
            version: "2.0".into(),
            hour: HOUR,
            reports,
        }
    }

    fn sessions(hours: &[(i64, f64)]) -> AppSessions {
        let hours = hours.iter().map(|(before, count)| (HOUR - Duration::hours(*before), *count)).collect();
        AppSessions(HashMap::from([("shop".into(), hours)]))
    }

    #[test]
    fn a_share_is_of_the_sessions_of_the_hour_or_of_a_usual_one_if_that_has_more() {
        let is_bad = |reports, sessions: &AppSessions| judge_share(&group(reports), sessions, 0.5).is_some();
        assert!(is_bad(100.0, &AppSessions::default()), "the count alone");
        assert!(is_bad(100.0, &sessions(&[(0, 20_000.0)])));
        assert!(!is_bad(99.0, &sessions(&[(0, 20_000.0)])));
        // Most sessions of this hour are still to come.
        assert!(!is_bad(99.0, &sessions(&[(0, 50.0), (1, 20_000.0)])), "a mean hour");
        assert!(!is_bad(99.0, &sessions(&[(0, 50.0), (1, 150.0), (24, 20_000.0)])), "the day before");
        assert!(
            is_bad(99.0, &sessions(&[(0, 50.0), (1, 20_000.0), (24, 10_000.0)])),
            "a quiet hour of the day"
        );
        assert!(!is_bad(100.0, &sessions(&[(0, 99.0)])), "too few sessions");
    }

    #[test]
    fn growth_is_beyond_chance_and_beyond_the_threshold() {
        let is_bad = |reports, usual| judge_growth(&group(reports), usual, 3.0).is_some();
        assert!(is_bad(20.0, None));
        assert!(!is_bad(5.0, Some(1.0)), "chance");
        assert!(is_bad(300.0, Some(100.0)));
        assert!(!is_bad(299.0, Some(100.0)));
    }

    #[test]
    fn a_rule_rests_until_the_level_doubles() {
        let told = |text: &str| GroupLevel::parse(text).unwrap();
        assert!(GroupLevel::Share(9_999.0).is_covered_by(&told("s5000")));
        assert!(!GroupLevel::Share(10_000.0).is_covered_by(&told("s5000")));
        assert!(!GroupLevel::Reports(1.0).is_covered_by(&told("s5000")));
        assert_eq!(GroupLevel::Reports(120.4).format(), "n120");
        assert!(
            GroupLevel::parse("").is_none()
                && GroupLevel::parse("x1").is_none()
                && GroupLevel::parse("s").is_none()
        );
        let cause = group(120.0).cause(&GroupLevel::Share(5_400.0), "");
        assert_eq!(cause.headline, "Cart::total: 120 reports in an hour, 0.54 % of its sessions");
    }
}
