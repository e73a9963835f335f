//! Shares of a group's reports with a state of the app or the device, with a value of the app's own keys, or with a finding of
//! an analysis.

use super::with_merged;
use crate::{GroupId, Result, TenantTx};
use serde::Serialize;
use utoipa::ToSchema;

/// The newest reports of a group that are looked at.
pub const SAMPLED_REPORTS_LIMIT: i64 = 1_000;
/// The keys that are listed, those in the most reports first.
const LISTED_KEYS_LIMIT: i64 = 50;
/// The hints that are listed, those in the most reports first.
const LISTED_HINTS_LIMIT: i64 = 4;
/// The values of a key that are listed, those in the most reports first.
const LISTED_VALUES_LIMIT: i64 = 10;

/// The context of a group's newest reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct GroupContext {
    /// The number of reports that were looked at.
    pub sample: i64,
    /// True if all of these reports come from one known device.
    pub from_one_device: bool,
    /// The known facts, by their names: `hot`, `in_background`, `jailbroken`, `low_battery`, `low_memory`, `low_power` and
    /// `low_storage`.
    #[schema(max_items = 16)]
    pub facts: Vec<FactShare>,
    /// The keys that the app has set, at most 50, those in the most reports first.
    #[schema(max_items = 50)]
    pub keys: Vec<ContextKeyUse>,
    /// What analyses found, the most frequent first.
    #[schema(max_items = 50)]
    pub verdicts: Vec<VerdictShare>,
    /// Hints of analyses, at most 4, those in the most reports first.
    #[schema(max_items = 4)]
    pub hints: Vec<HintShare>,
}

/// Reports with the same hint of an analysis: a fact that proves nothing about one crash, and much about a device with many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct HintShare {
    /// The member of our key that has the hint, such as `fault`.
    pub analysis: String,
    /// The hint, such as `one_bit_from`.
    pub hint: String,
    /// The number of reports.
    pub reports: i64,
    /// The number of devices that they came from, as far as devices are known.
    pub devices: i64,
    /// The number of other groups of the app with this hint in the newest 1,000 reports of the device, if all reports with the
    /// hint come from one known device.
    pub other_groups_of_device: Option<i64>,
}

/// Reports of which an analysis found the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct VerdictShare {
    /// The member of our key that has the finding, such as `fault`.
    pub analysis: String,
    /// What was found, such as `null_pointer`.
    pub verdict: String,
    /// The expression that the analysis names as the cause, such as `cart->total`.
    pub subject: Option<String>,
    /// The number of reports.
    pub reports: i64,
    /// The number of devices that they came from, as far as devices are known.
    pub devices: i64,
}

/// Reports that state a fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FactShare {
    /// The name of the fact, such as `in_background`.
    pub name: String,
    /// The number of reports that say whether it was true.
    pub known: i64,
    /// The number of these in which it was.
    pub reports: i64,
}

/// Reports with a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ContextKeyUse {
    /// The name of the key.
    pub name: String,
    /// The number of reports that have it.
    pub reports: i64,
    /// The number of its values in these.
    pub values: i64,
}

/// Reports with a value of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct KeyValueUse {
    /// The name of the key.
    pub key: String,
    /// The value.
    pub value: String,
    /// The number of reports that have it.
    pub reports: i64,
}

/// Reads the facts, the keys and the findings of a group's newest reports.
pub async fn read_group_context(tx: &mut TenantTx, group: GroupId) -> Result<GroupContext> {
    let groups = with_merged(tx, group).await?;
    let (connection, tenant, _) = tx.parts();
    // The newest of each group, by the index, and the newest of these. The same for a device with a hint.
    let rows = sqlx::query!(
        r#"WITH newest AS MATERIALIZED (
               SELECT n.context, n.device, n.app
               FROM unnest($2::uuid[]) AS g (id) CROSS JOIN LATERAL (
                   SELECT r.context, r.device, r.app, r.received_at, r.report_id, r.variant
                   FROM reports r WHERE r.tenant = $1 AND r.group_id = g.id
                   ORDER BY r.received_at DESC, r.report_id DESC, r.variant DESC LIMIT $3) n
               ORDER BY n.received_at DESC, n.report_id DESC, n.variant DESC LIMIT $3),
           hints AS (
               SELECT h.key, h.value, count(*) AS reports, count(DISTINCT device) AS devices, min(app) AS app,
                      CASE WHEN count(device) = count(*) AND count(DISTINCT device) = 1
                           THEN (array_agg(device))[1] END AS device
               FROM newest CROSS JOIN LATERAL jsonb_each_text(context -> 'hints') h
               GROUP BY h.key, h.value ORDER BY count(*) DESC, h.key, h.value LIMIT $5)
           SELECT 'sample' AS "kind!", '' AS "value!", '' AS "name!", NULL AS subject, count(*) AS "known!",
                  count(DISTINCT device) AS "matching!", count(device) AS other
           FROM newest
           UNION ALL
           (SELECT 'fact', '', f.key, NULL, count(*), count(*) FILTER (WHERE f.value = 'true'), NULL
            FROM newest CROSS JOIN LATERAL jsonb_each_text(context -> 'facts') f GROUP BY f.key ORDER BY f.key)
           UNION ALL
           (SELECT 'key', '', k.key, NULL, count(*), count(DISTINCT k.value), NULL
            FROM newest CROSS JOIN LATERAL jsonb_each_text(context -> 'keys') k
            GROUP BY k.key ORDER BY count(*) DESC, k.key LIMIT $4)
           UNION ALL
           (SELECT 'verdict', v.value, v.key, context -> 'subjects' ->> v.key, count(*), count(DISTINCT device), NULL
            FROM newest CROSS JOIN LATERAL jsonb_each_text(context -> 'verdicts') v
            GROUP BY v.key, v.value, 4 ORDER BY count(*) DESC, v.key, v.value, 4 LIMIT $4)
           UNION ALL
           (SELECT 'hint', h.value, h.key, NULL, h.reports, h.devices,
                   CASE WHEN h.device IS NOT NULL THEN (
                       SELECT count(DISTINCT coalesce(o.merged_into, o.id))
                       FROM (SELECT r.group_id, r.app, r.context FROM reports r WHERE r.tenant = $1 AND r.device = h.device
                             ORDER BY r.received_at DESC, r.report_id DESC, r.variant DESC LIMIT $3) d
                       JOIN groups o ON o.tenant = $1 AND o.id = d.group_id
                       WHERE d.app = h.app AND d.context -> 'hints' ->> h.key = h.value AND d.group_id <> ALL ($2)) END
            FROM hints h ORDER BY h.reports DESC, h.key, h.value)"#,
        tenant,
        &groups as &[GroupId],
        SAMPLED_REPORTS_LIMIT,
        LISTED_KEYS_LIMIT,
        LISTED_HINTS_LIMIT
    )
    .fetch_all(connection)
    .await?;
    let mut found = GroupContext::default();
    for row in rows {
        match row.kind.as_str() {
            "fact" => {
                found.facts.push(FactShare { name: row.name, known: row.known, reports: row.matching });
            }
            "key" => {
                found.keys.push(ContextKeyUse { name: row.name, reports: row.known, values: row.matching });
            }
            "verdict" => found.verdicts.push(VerdictShare {
                analysis: row.name,
                verdict: row.value,
                subject: row.subject,
                reports: row.known,
                devices: row.matching,
            }),
            "hint" => found.hints.push(HintShare {
                analysis: row.name,
                hint: row.value,
                reports: row.known,
                devices: row.matching,
                other_groups_of_device: row.other,
            }),
            _ => {
                found.sample = row.known;
                found.from_one_device = row.matching == 1 && row.other == Some(row.known);
            }
        }
    }
    Ok(found)
}

/// Counts the values of some keys in a group's newest reports, for each key those in the most reports first.
pub async fn count_key_values(
    tx: &mut TenantTx,
    group: GroupId,
    keys: &[String],
) -> Result<Vec<KeyValueUse>> {
    let groups = with_merged(tx, group).await?;
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query_as!(
        KeyValueUse,
        r#"WITH newest AS (
               SELECT n.context
               FROM unnest($2::uuid[]) AS g (id) CROSS JOIN LATERAL (
                   SELECT r.context, r.received_at, r.report_id, r.variant
                   FROM reports r WHERE r.tenant = $1 AND r.group_id = g.id
                   ORDER BY r.received_at DESC, r.report_id DESC, r.variant DESC LIMIT $3) n
               ORDER BY n.received_at DESC, n.report_id DESC, n.variant DESC LIMIT $3),
           counted AS (
               SELECT k.key, k.value, count(*) AS reports,
                      row_number() OVER (PARTITION BY k.key ORDER BY count(*) DESC, k.value) AS rank
               FROM newest CROSS JOIN LATERAL jsonb_each_text(context -> 'keys') k
               WHERE k.key = ANY ($4::text[]) GROUP BY k.key, k.value)
           SELECT key AS "key!", value AS "value!", reports AS "reports!" FROM counted
           WHERE rank <= $5 ORDER BY array_position($4::text[], key), rank"#,
        tenant,
        &groups as &[GroupId],
        SAMPLED_REPORTS_LIMIT,
        keys,
        LISTED_VALUES_LIMIT
    )
    .fetch_all(connection)
    .await?;
    Ok(rows)
}
