//! Shares of a group's reports with a state of the app or the device, with a value of the app's own keys, or with a finding of
//! an analysis.

use crate::report_rows::{GroupRows, read_group_sample};
use crate::{GroupId, Result, TenantTx};
use serde::Serialize;
use sqlx::FromRow;
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
#[derive(Clone, Debug, PartialEq, Eq, FromRow, Serialize, ToSchema)]
pub struct KeyValueUse {
    /// The name of the key.
    pub key: String,
    /// The value.
    pub value: String,
    /// The number of reports that have it.
    pub reports: i64,
}

/// A row of the statement about the context of a group.
#[derive(FromRow)]
struct ContextCount {
    kind: String,
    value: String,
    name: String,
    subject: Option<String>,
    known: i64,
    matching: i64,
    other: Option<i64>,
    app: Option<String>,
    device: Option<Vec<u8>>,
}

/// Reads the facts, the keys and the findings of a group's newest reports.
pub async fn read_group_context(tx: &mut TenantTx, group: GroupId) -> Result<GroupContext> {
    let groups = GroupRows::find_for_group(tx, group).await?;
    let columns = "r.context, r.device, r.app";
    let rows: Vec<ContextCount> = read_group_sample(tx, &groups, columns, SAMPLED_REPORTS_LIMIT, &|query| {
        query.push(format!(
            "(SELECT 'sample' AS kind, '' AS value, '' AS name, NULL AS subject, count(*) AS known,
                     count(DISTINCT device) AS matching, count(device) AS other, NULL AS app, NULL::bytea AS device
              FROM newest)
             UNION ALL
             (SELECT 'fact', '', f.key, NULL, count(*), count(*) FILTER (WHERE f.value = 'true'), NULL, NULL, NULL
              FROM newest CROSS JOIN LATERAL jsonb_each_text(context -> 'facts') f GROUP BY f.key ORDER BY f.key)
             UNION ALL
             (SELECT 'key', '', k.key, NULL, count(*), count(DISTINCT k.value), NULL, NULL, NULL
              FROM newest CROSS JOIN LATERAL jsonb_each_text(context -> 'keys') k
              GROUP BY k.key ORDER BY count(*) DESC, k.key LIMIT {LISTED_KEYS_LIMIT})
             UNION ALL
             (SELECT 'verdict', v.value, v.key, context -> 'subjects' ->> v.key, count(*), count(DISTINCT device), NULL, NULL, NULL
              FROM newest CROSS JOIN LATERAL jsonb_each_text(context -> 'verdicts') v
              GROUP BY v.key, v.value, 4 ORDER BY count(*) DESC, v.key, v.value, 4 LIMIT {LISTED_KEYS_LIMIT})
             UNION ALL
             (SELECT 'hint', h.value, h.key, NULL, count(*), count(DISTINCT device), NULL, min(app),
                     CASE WHEN count(device) = count(*) AND count(DISTINCT device) = 1 THEN (array_agg(device))[1] END
              FROM newest CROSS JOIN LATERAL jsonb_each_text(context -> 'hints') h
              GROUP BY h.key, h.value ORDER BY count(*) DESC, h.key, h.value LIMIT {LISTED_HINTS_LIMIT})"
        ));
    })
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
            "hint" => {
                let hint = HintShare {
                    analysis: row.name,
                    hint: row.value,
                    reports: row.known,
                    devices: row.matching,
                    other_groups_of_device: None,
                };
                let others = match row.device.zip(row.app) {
                    Some((device, app)) => Some(count_other_groups(tx, &groups, &hint, &device, &app).await?),
                    None => None,
                };
                found.hints.push(HintShare { other_groups_of_device: others, ..hint });
            }
            _ => {
                found.sample = row.known;
                found.from_one_device = row.matching == 1 && row.other == Some(row.known);
            }
        }
    }
    Ok(found)
}

/// Counts the other groups of an app with a hint in the newest reports of a device.
async fn count_other_groups(
    tx: &mut TenantTx,
    groups: &GroupRows,
    hint: &HintShare,
    device: &[u8],
    app: &str,
) -> Result<i64> {
    let (connection, tenant, _) = tx.parts();
    let count = sqlx::query_scalar!(
        r#"SELECT count(DISTINCT coalesce(o.merged_into, o.id)) AS "groups!"
           FROM (SELECT r.group_id, r.app, r.context FROM reports r WHERE r.tenant = $1 AND r.device = $2
                 ORDER BY r.received_at DESC, r.report_id DESC, r.variant DESC LIMIT $3) d
           JOIN groups o ON o.tenant = $1 AND o.id = d.group_id
           WHERE d.app = $4 AND d.context -> 'hints' ->> $5 = $6 AND d.group_id <> ALL ($7)"#,
        tenant,
        device,
        SAMPLED_REPORTS_LIMIT,
        app,
        hint.analysis,
        hint.hint,
        &groups.ids as &[GroupId]
    );
    Ok(count.fetch_one(connection).await?)
}

/// Counts the values of some keys in a group's newest reports, for each key those in the most reports first.
pub async fn count_key_values(
    tx: &mut TenantTx,
    group: GroupId,
    keys: &[String],
) -> Result<Vec<KeyValueUse>> {
    let groups = GroupRows::find_for_group(tx, group).await?;
    read_group_sample(tx, &groups, "r.context", SAMPLED_REPORTS_LIMIT, &|query| {
        query.push(
            "SELECT key, value, reports FROM (
                 SELECT k.key, k.value, count(*) AS reports, array_position(",
        );
        query.push_bind(keys.to_vec()).push(
            ", k.key) AS place, row_number() OVER (PARTITION BY k.key ORDER BY count(*) DESC, k.value) AS rank
                 FROM newest CROSS JOIN LATERAL jsonb_each_text(context -> 'keys') k WHERE k.key = ANY (",
        );
        query.push_bind(keys.to_vec());
        query.push(format!(
            ") GROUP BY k.key, k.value) c WHERE rank <= {LISTED_VALUES_LIMIT} ORDER BY place, rank"
        ));
    })
    .await
}
