//! Free texts in the rows of reports without a body, for rules that take something out of stored reports.

use super::groups::{lock_groups, update_terms};
use super::keys::{KeyRow, find_arrival_times, lock_known};
use super::rows::{GroupRow, GroupTexts, truncate_title};
use crate::groups::lock_out_merges;
use crate::history;
use crate::number::{from_row32, to_row32};
use crate::reports::RowKey;
use crate::{GroupId, Result, TenantTx, Uuid, json};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use time::OffsetDateTime;
use unslide_model::ReportId;

/// Free texts in the row of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct RowTexts {
    /// The report.
    pub report_id: ReportId,
    /// Which of those with this id.
    pub variant: u32,
    /// Its app.
    pub app: String,
    /// Its reason.
    pub reason: Option<String>,
    /// Its title for its group.
    pub title: Option<String>,
    /// Facts for lists: an object.
    pub summary: Value,
    /// The app's own keys, what analyses found, and counts of what rules took: an object.
    pub context: Value,
}

/// Returns the texts of those of these reports that have no body because it was dropped.
///
/// # Errors
/// The database fails.
pub async fn read_row_texts(tx: &mut TenantTx, reports: &[(ReportId, u32)]) -> Result<Vec<RowTexts>> {
    let (ids, variants): (Vec<Uuid>, Vec<i32>) =
        reports.iter().map(|(id, variant)| (id.uuid(), to_row32(*variant))).unzip();
    let wanted: Vec<_> = ids.iter().copied().zip(variants.iter().copied()).collect();
    let moved = history::read_moved(tx, &wanted).await?;
    let times = find_arrival_times(tx, &ids).await?;
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"WITH moved AS MATERIALIZED (SELECT * FROM unslide_moved_reports($4::text::jsonb))
           SELECT r.report_id AS "report_id!", r.variant AS "variant!", r.app AS "app!", r.reason, r.title, r.summary AS "summary!",
                  r.context AS "context!"
           FROM unnest($2::uuid[], $3::integer[]) AS n (report_id, variant)
           JOIN report_keys k ON k.tenant = $1 AND k.report_id = n.report_id AND k.variant = n.variant
           CROSS JOIN LATERAL (
               SELECT * FROM (
                   (SELECT * FROM reports o WHERE o.tenant = $1 AND o.received_at = ANY ($5) AND o.received_at = k.received_at
                                              AND o.report_id = k.report_id AND o.variant = k.variant LIMIT 1)
                   UNION ALL
                   SELECT * FROM moved m WHERE m.tenant = $1 AND m.received_at = k.received_at AND m.report_id = k.report_id
                                           AND m.variant = k.variant AND k.history_version IS NOT NULL) o
               WHERE o.body_kept IS FALSE
               LIMIT 1) r"#,
        tenant,
        &ids,
        &variants,
        moved,
        &times
    )
    .fetch_all(connection)
    .await?;
    let texts = rows.into_iter().map(|row| RowTexts {
        report_id: ReportId::from_uuid(row.report_id),
        variant: from_row32(row.variant),
        app: row.app,
        reason: row.reason,
        title: row.title,
        summary: row.summary,
        context: row.context,
    });
    Ok(texts.collect())
}

/// Writes texts in place of others, in the rows of reports that still have no body, and in the title and the search terms of their
/// groups. Returns the number of reports.
///
/// # Errors
/// The database fails.
pub async fn replace_row_texts(tx: &mut TenantTx, replaced: &[RowTexts]) -> Result<u64> {
    if replaced.is_empty() {
        return Ok(0);
    }
    lock_out_merges(tx).await?;
    let mut by_report: BTreeMap<RowKey, &RowTexts> = BTreeMap::new();
    for texts in replaced {
        by_report.insert((texts.report_id.uuid(), to_row32(texts.variant)), texts);
    }
    let wanted: Vec<RowKey> = by_report.keys().copied().collect();
    let keys = lock_known(tx, &wanted).await?;
    history::bring_back(tx, &keys).await?;
    let rows = keys.iter().filter_map(|key| Some(build_row(key, by_report.get(&key.row_key())?)));
    let times: Vec<OffsetDateTime> = keys.iter().map(|key| key.received_at).collect();
    let written = write_rows(tx, rows.collect(), &times).await?;
    let groups: BTreeSet<GroupId> = written.iter().filter_map(|one| one.group).collect();
    lock_groups(tx, &groups.into_iter().collect::<Vec<_>>()).await?;
    let new_terms: Vec<(GroupId, Vec<String>)> = written
        .iter()
        .filter_map(|one| {
            Some((one.group?, [&one.after.title, &one.after.reason].into_iter().flatten().cloned().collect()))
        })
        .collect();
    let row = |id: GroupId| GroupRow { id, app: String::new(), grouping: None };
    let arrived = new_terms.iter().map(|(id, terms)| (row(*id), terms));
    let left = written.iter().filter_map(|one| Some((one.group?, &one.before)));
    update_terms(tx, arrived, left).await?;
    Ok(written.len() as u64)
}

fn build_row(key: &KeyRow, texts: &RowTexts) -> Value {
    let (report_id, variant) = key.row_key();
    json!({
        "received_at": json::format_time(key.received_at),
        "report_id": report_id,
        "variant": variant,
        "reason": texts.reason.as_deref().map(truncate_title),
        "title": texts.title.as_deref().map(truncate_title),
        "summary": texts.summary,
        "context": texts.context,
    })
}

/// A report with other texts than before, and its group.
struct ReplacedTexts {
    group: Option<GroupId>,
    before: GroupTexts,
    after: GroupTexts,
}

async fn write_rows(
    tx: &mut TenantTx,
    rows: Vec<Value>,
    times: &[OffsetDateTime],
) -> Result<Vec<ReplacedTexts>> {
    let (connection, tenant, _) = tx.parts();
    let written = sqlx::query!(
        r#"WITH texts AS MATERIALIZED (SELECT * FROM jsonb_populate_recordset(NULL::reports, $2)),
           before AS MATERIALIZED (
               SELECT r.received_at, r.report_id, r.variant, r.reason, r.title FROM texts n
               JOIN reports r ON r.tenant = $1 AND r.received_at = ANY ($3) AND r.received_at = n.received_at
                             AND r.report_id = n.report_id AND r.variant = n.variant)
           UPDATE reports r SET reason = n.reason, title = n.title, summary = n.summary, context = n.context
           FROM texts n JOIN before b USING (received_at, report_id, variant)
           WHERE r.tenant = $1 AND r.received_at = ANY ($3) AND r.received_at = n.received_at AND r.report_id = n.report_id
             AND r.variant = n.variant AND r.body_kept IS FALSE
           RETURNING r.group_id AS "group_id: GroupId", b.reason AS "reason_before?", b.title AS "title_before?",
                     r.reason, r.title"#,
        tenant,
        Value::Array(rows),
        times
    )
    .fetch_all(connection)
    .await?;
    let replaced = written.into_iter().map(|row| ReplacedTexts {
        group: row.group_id,
        before: GroupTexts { reason: row.reason_before, title: row.title_before },
        after: GroupTexts { reason: row.reason, title: row.title },
    });
    Ok(replaced.collect())
}
