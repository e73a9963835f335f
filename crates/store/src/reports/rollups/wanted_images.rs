//! Images that reports came without symbols for.

use super::Counted;
use crate::number::to_row;
use crate::reports::Change;
use crate::reports::rows::truncate_name;
use crate::{Result, TenantTx, Uuid, json};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use time::OffsetDateTime;

struct Wanted {
    /// Whether it is the system's, its name and its architecture. Reports may disagree: the smallest counts,
    /// an app's before the system's, so that the order of arrival does not matter.
    said: (bool, String, String),
    reports: u64,
    first: OffsetDateTime,
    last: OffsetDateTime,
}

/// Counts the images that new reports came without symbols for.
pub(super) async fn count_wanted(tx: &mut TenantTx, changes: &[Change<'_>]) -> Result<()> {
    let mut wanted: BTreeMap<(String, String, Uuid), Wanted> = BTreeMap::new();
    for change in changes.iter().filter(|change| change.previous.is_none()) {
        let (facts, at) = (&change.came.facts, change.key.received_at);
        for image in change.wanted_images() {
            let said = (image.system, truncate_name(&image.name), truncate_name(&image.arch));
            let entry = wanted
                .entry((truncate_name(&facts.app), truncate_name(&facts.version), image.debug_id.uuid()))
                .or_insert_with(|| Wanted { said: said.clone(), reports: 0, first: at, last: at });
            entry.said = std::mem::take(&mut entry.said).min(said);
            entry.reports += 1;
            entry.first = entry.first.min(at);
            entry.last = entry.last.max(at);
        }
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let rows = wanted.iter().map(|((app, version, debug_id), wanted)| {
        let (system, name, arch) = &wanted.said;
        json!({
            "app": app,
            "version": version,
            "debug_id": debug_id,
            "name": name,
            "arch": arch,
            "system": system,
            "reports": to_row(wanted.reports),
            "first_seen": json::format_time(wanted.first),
            "last_seen": json::format_time(wanted.last),
        })
    });
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO wanted_images AS w (tenant, app, version, debug_id, name, arch, system, reports, first_seen, last_seen)
         SELECT $1, n.app, n.version, n.debug_id, n.name, n.arch, n.system, n.reports, n.first_seen, n.last_seen
         FROM jsonb_populate_recordset(NULL::wanted_images, $2) AS n
         ORDER BY n.app COLLATE \"C\", n.version COLLATE \"C\", n.debug_id
         ON CONFLICT (tenant, app, version, debug_id) DO UPDATE
         SET reports = w.reports + EXCLUDED.reports, first_seen = least(w.first_seen, EXCLUDED.first_seen),
             last_seen = greatest(w.last_seen, EXCLUDED.last_seen),
             (system, name, arch) = (SELECT s.system, s.name, s.arch
                 FROM (VALUES (w.system, w.name, w.arch), (EXCLUDED.system, EXCLUDED.name, EXCLUDED.arch))
                      AS s (system, name, arch)
                 ORDER BY s.system, s.name COLLATE \"C\", s.arch COLLATE \"C\" LIMIT 1)",
        tenant,
        rows.collect::<Value>()
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Takes a report out of the counts of its images; one that no other report wants is deleted.
pub(super) async fn take_back_wanted(tx: &mut TenantTx, report: &Counted) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE wanted_images w SET reports = w.reports - 1
         FROM (SELECT debug_id FROM wanted_images
               WHERE tenant = $1 AND app = $2 AND version = $3 AND debug_id = ANY ($4) ORDER BY debug_id FOR UPDATE) l
         WHERE w.tenant = $1 AND w.app = $2 AND w.version = $3 AND w.debug_id = l.debug_id",
        tenant,
        report.app,
        report.version,
        &report.wanted
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "DELETE FROM wanted_images
         WHERE tenant = $1 AND app = $2 AND version = $3 AND debug_id = ANY ($4) AND reports <= 0",
        tenant,
        report.app,
        report.version,
        &report.wanted
    )
    .execute(connection)
    .await?;
    Ok(())
}
