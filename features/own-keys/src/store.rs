//! Counts of keys and their values, in the newest reports of an app, of one of its versions or of a group.
//!
//! Nothing is counted when a report is stored: a count is a sum over the rows of reports that are there, so it is right after
//! every replay, revision and deletion.

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

/// Counts the keys in the newest reports, or the values of `key`.
pub async fn count_keys(tx: &mut TenantTx, scope: KeyScope<'_>, key: Option<&str>) -> Result<KeyCounts> {
    let limit = if key.is_some() { COUNTED_VALUES_LIMIT } else { COUNTED_KEYS_LIMIT };
    let (connection, tenant, _) = tx.parts();
    // One arm has rows. Each reads the newest reports by an index, in its order.
    let rows = sqlx::query!(
        r#"WITH newest AS MATERIALIZED (
               (SELECT r.context -> 'keys' AS keys FROM reports r
                WHERE r.tenant = $1 AND r.app = $2 AND r.same_crash_as IS NULL AND $3::text IS NULL AND $4::uuid IS NULL
                ORDER BY r.received_at DESC, r.report_id DESC, r.variant DESC LIMIT $6)
               UNION ALL
               (SELECT r.context -> 'keys' FROM reports r
                WHERE r.tenant = $1 AND r.app = $2 AND r.version = $3 AND r.same_crash_as IS NULL AND $4::uuid IS NULL
                ORDER BY r.received_at DESC, r.report_id DESC, r.variant DESC LIMIT $6)
               UNION ALL
               (SELECT n.keys
                FROM (SELECT $4 AS id UNION ALL SELECT m.id FROM groups m WHERE m.tenant = $1 AND m.merged_into = $4) g
                CROSS JOIN LATERAL (
                    SELECT r.context -> 'keys' AS keys, r.received_at, r.report_id, r.variant FROM reports r
                    WHERE r.tenant = $1 AND r.group_id = g.id
                    ORDER BY r.received_at DESC, r.report_id DESC, r.variant DESC LIMIT $6) n
                WHERE $4 IS NOT NULL
                ORDER BY n.received_at DESC, n.report_id DESC, n.variant DESC LIMIT $6)),
           pairs AS (
               SELECT k.key, k.value, count(*) AS reports FROM newest CROSS JOIN LATERAL jsonb_each_text(keys) k
               WHERE $5::text IS NULL OR k.key = $5 GROUP BY k.key, k.value),
           entries AS (
               SELECT CASE WHEN $5 IS NULL THEN key ELSE value END AS name, sum(reports) AS reports, count(*) AS values
               FROM pairs GROUP BY 1),
           ranked AS (
               SELECT *, least(row_number() OVER (ORDER BY reports DESC, name COLLATE "C"), $7::bigint + 1) AS rank FROM entries)
           SELECT s.sample AS "sample!", CASE WHEN r.rank <= $7 THEN min(r.name) END AS name, count(r.name) AS "entries!",
                  coalesce(sum(r.reports), 0)::bigint AS "reports!", coalesce(sum(r.values), 0)::bigint AS "values!"
           FROM (SELECT count(*) AS sample FROM newest) s LEFT JOIN ranked r ON true
           GROUP BY s.sample, r.rank ORDER BY r.rank"#,
        tenant,
        scope.app,
        scope.version,
        scope.group as Option<GroupId>,
        key,
        SAMPLED_REPORTS_LIMIT,
        limit
    )
    .fetch_all(connection)
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

/// Compares the newest reports of a group with those of its app: returns the values whose share of the group is the most above
/// their share of the app.
pub async fn find_standing_out(tx: &mut TenantTx, group: GroupId) -> Result<Vec<StandingOutValue>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"WITH of_group AS MATERIALIZED (
               SELECT n.keys
               FROM (SELECT $2::uuid AS id UNION ALL SELECT m.id FROM groups m WHERE m.tenant = $1 AND m.merged_into = $2) g
               CROSS JOIN LATERAL (
                   SELECT r.context -> 'keys' AS keys, r.received_at, r.report_id, r.variant FROM reports r
                   WHERE r.tenant = $1 AND r.group_id = g.id
                   ORDER BY r.received_at DESC, r.report_id DESC, r.variant DESC LIMIT $3) n
               ORDER BY n.received_at DESC, n.report_id DESC, n.variant DESC LIMIT $3),
           of_app AS MATERIALIZED (
               SELECT r.context -> 'keys' AS keys FROM reports r
               WHERE r.tenant = $1 AND r.app = (SELECT g.app FROM groups g WHERE g.tenant = $1 AND g.id = $2)
                 AND r.same_crash_as IS NULL
               ORDER BY r.received_at DESC, r.report_id DESC, r.variant DESC LIMIT $3),
           here AS (
               SELECT k.key, k.value, count(*) AS reports FROM of_group CROSS JOIN LATERAL jsonb_each_text(keys) k
               GROUP BY k.key, k.value HAVING count(*) >= $4),
           everywhere AS (
               SELECT k.key, k.value, count(*) AS reports FROM of_app CROSS JOIN LATERAL jsonb_each_text(keys) k
               GROUP BY k.key, k.value),
           sizes AS (SELECT (SELECT count(*) FROM of_group) AS of_group, (SELECT count(*) FROM of_app) AS of_app),
           compared AS (
               SELECT h.key, h.value, h.reports, coalesce(e.reports, 0) AS app_reports, s.of_group, s.of_app,
                      h.reports / s.of_group::float8 - coalesce(e.reports, 0) / greatest(s.of_app, 1)::float8 AS difference
               FROM sizes s CROSS JOIN here h LEFT JOIN everywhere e ON e.key = h.key AND e.value = h.value)
           SELECT key AS "key!", value AS "value!", reports AS "reports!", app_reports AS "app_reports!",
                  of_group AS "of_group!", of_app AS "of_app!"
           FROM compared WHERE difference >= $5
           ORDER BY difference DESC, key COLLATE "C", value COLLATE "C" LIMIT $6"#,
        tenant,
        group as GroupId,
        COMPARED_REPORTS_LIMIT,
        STANDING_OUT_REPORTS,
        STANDING_OUT_SHARE,
        STANDING_OUT_LIMIT
    )
    .fetch_all(connection)
    .await?;
    let values = rows.into_iter().map(|row| StandingOutValue {
        key: row.key,
        value: row.value,
        in_group: (row.reports, row.of_group),
        in_app: (row.app_reports, row.of_app),
    });
    Ok(values.collect())
}
