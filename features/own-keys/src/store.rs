//! Counts of keys and their values, in the newest reports of an app, of one of its versions or of a group.
//!
//! Nothing is counted when a report is stored: a count is a sum over the rows of reports that are there, so it is right after
//! every replay, revision and deletion.

use sqlx::FromRow;
use unslide_store::report_rows::{ReportSample, SampleScope, read_samples};
use unslide_store::{GroupId, Result, TenantTx};

/// The newest reports that are looked at.
pub const SAMPLED_REPORTS_LIMIT: i64 = 10_000;
/// The keys that are counted by name, those in the most reports first. The others are counted together.
pub const COUNTED_KEYS_LIMIT: i64 = 50;
/// The values of a key that are counted by themselves, those in the most reports first. The others are counted together.
pub const COUNTED_VALUES_LIMIT: i64 = 200;

/// The reports that are looked at: the newest of these.
#[derive(Clone, Copy, Debug)]
pub struct KeyScope<'s> {
    /// The bundle identifier of the app.
    pub app: &'s str,
    /// The only version to count; all versions if absent.
    pub version: Option<&'s str>,
    /// Those of a group of the app and of the groups that are merged into it, of any version.
    pub group: Option<GroupId>,
}

/// Counts of keys, or of the values of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyCounts {
    /// The number of reports that were looked at.
    pub sample: i64,
    /// The keys or values in the most reports, these first.
    pub listed: Vec<KeyCount>,
    /// The number of other keys or values.
    pub others: i64,
    /// The reports with each of these, added up.
    pub other_reports: i64,
}

/// Reports with a key or a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyCount {
    /// The key or the value.
    pub name: String,
    /// The number of reports that have it.
    pub reports: i64,
    /// The number of values of the key; 1 of a value.
    pub values: i64,
}

/// A key or a value, or all others, with the number of reports that were looked at.
#[derive(FromRow)]
struct CountedRow {
    sample: i64,
    name: Option<String>,
    entries: i64,
    reports: i64,
    values: i64,
}

/// Counts the keys in the newest reports, or the values of `key`.
pub async fn count_keys(tx: &mut TenantTx, scope: KeyScope<'_>, key: Option<&str>) -> Result<KeyCounts> {
    let limit = if key.is_some() { COUNTED_VALUES_LIMIT } else { COUNTED_KEYS_LIMIT };
    let (reports, condition) = match (scope.group, scope.version) {
        (Some(group), _) => (SampleScope::Group(group), ""),
        (None, Some(version)) => (SampleScope::Version { app: scope.app, version }, COUNTED),
        (None, None) => (SampleScope::App(scope.app), COUNTED),
    };
    let sample = ReportSample { condition, ..ReportSample::new(reports, KEYS, SAMPLED_REPORTS_LIMIT) };
    let rows: Vec<CountedRow> = read_samples(tx, [sample], &|query| {
        query.push(format!(
            "SELECT s.sample, CASE WHEN r.rank <= {limit} THEN min(r.name) END AS name, count(r.name) AS entries,
                    coalesce(sum(r.reports), 0)::bigint AS reports, coalesce(sum(r.values), 0)::bigint AS values
             FROM (SELECT count(*) AS sample FROM newest) s LEFT JOIN (
                 SELECT e.*, least(row_number() OVER (ORDER BY e.reports DESC, e.name COLLATE \"C\"), {limit} + 1) AS rank FROM (
                     SELECT {} AS name, sum(p.reports) AS reports, count(*) AS values FROM (
                         SELECT k.key, k.value, count(*) AS reports FROM newest CROSS JOIN LATERAL jsonb_each_text(keys) k",
            if key.is_some() { "p.value" } else { "p.key" }
        ));
        if let Some(key) = key {
            query.push(" WHERE k.key = ").push_bind(key.to_owned());
        }
        query.push(
            " GROUP BY k.key, k.value) p GROUP BY 1) e) r ON true
             GROUP BY s.sample, r.rank ORDER BY r.rank",
        );
    })
    .await?;
    let mut counts = KeyCounts::default();
    for row in rows {
        counts.sample = row.sample;
        match row.name {
            Some(name) => {
                counts.listed.push(KeyCount { name, reports: row.reports, values: row.values });
            }
            None => (counts.others, counts.other_reports) = (row.entries, row.reports),
        }
    }
    Ok(counts)
}

/// The app's own keys of a report.
const KEYS: &str = "r.context -> 'keys' AS keys";
/// The condition of a report that figures count.
const COUNTED: &str = "r.same_crash_as IS NULL";
/// The newest reports of a group, and of its app, that are compared.
const COMPARED_REPORTS_LIMIT: i64 = 1_000;
/// The values that stand out most.
const STANDING_OUT_LIMIT: i64 = 5;
/// The fewest reports of a group with a value that stands out.
const STANDING_OUT_REPORTS: i64 = 5;
/// How much larger than in the app its share of the group is, at least: ten of a hundred reports.
const STANDING_OUT_SHARE: f64 = 0.1;

/// A value that more of a group's newest reports have than of its app's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingOutValue {
    /// The name of the key.
    pub key: String,
    /// The value of the key that stands out.
    pub value: String,
    /// The reports of the group that have it, and all that were looked at.
    pub in_group: (i64, i64),
    /// The same of the app.
    pub in_app: (i64, i64),
}

/// A value that stands out, with the reports that were looked at.
#[derive(FromRow)]
struct StandingOutRow {
    key: String,
    value: String,
    reports: i64,
    app_reports: i64,
    of_group: i64,
    of_app: i64,
}

/// Compares the newest reports of a group with those of its app: returns the values whose share of the group is the most above
/// their share of the app.
pub async fn find_standing_out(
    tx: &mut TenantTx,
    app: &str,
    group: GroupId,
) -> Result<Vec<StandingOutValue>> {
    let of_group = ReportSample::new(SampleScope::Group(group), KEYS, COMPARED_REPORTS_LIMIT);
    let of_app = ReportSample::new(SampleScope::App(app), KEYS, COMPARED_REPORTS_LIMIT);
    let samples = [
        ReportSample { name: "of_group", ..of_group },
        ReportSample { name: "of_app", condition: COUNTED, ..of_app },
    ];
    let rows: Vec<StandingOutRow> = read_samples(tx, samples, &|query| {
        query.push(format!(
            "SELECT key, value, reports, app_reports, of_group, of_app FROM (
                 SELECT h.key, h.value, h.reports, coalesce(e.reports, 0) AS app_reports, s.of_group, s.of_app,
                        h.reports / s.of_group::float8 - coalesce(e.reports, 0) / greatest(s.of_app, 1)::float8 AS difference
                 FROM (SELECT (SELECT count(*) FROM of_group) AS of_group, (SELECT count(*) FROM of_app) AS of_app) s
                 CROSS JOIN (
                     SELECT k.key, k.value, count(*) AS reports FROM of_group CROSS JOIN LATERAL jsonb_each_text(keys) k
                     GROUP BY k.key, k.value HAVING count(*) >= {STANDING_OUT_REPORTS}) h
                 LEFT JOIN (
                     SELECT k.key, k.value, count(*) AS reports FROM of_app CROSS JOIN LATERAL jsonb_each_text(keys) k
                     GROUP BY k.key, k.value) e ON e.key = h.key AND e.value = h.value) c
             WHERE difference >= {STANDING_OUT_SHARE}
             ORDER BY difference DESC, key COLLATE \"C\", value COLLATE \"C\" LIMIT {STANDING_OUT_LIMIT}"
        ));
    })
    .await?;
    let values = rows.into_iter().map(|row| StandingOutValue {
        key: row.key,
        value: row.value,
        in_group: (row.reports, row.of_group),
        in_app: (row.app_reports, row.of_app),
    });
    Ok(values.collect())
}
