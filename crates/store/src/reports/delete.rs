//! Deleting one report.

use super::Frames;
use super::groups;
use super::keys::lock_known;
use super::rollups::{self, Counted};
use crate::number::{from_row32, to_row32};
use crate::reprocess::{self, Ends};
use crate::segments::drop_frames;
use crate::{Result, TenantTx};
use std::collections::BTreeMap;
use unslide_model::ReportId;

/// Deletes a report: its row, its body wherever that is, what it waits for, and its part in the counts
/// of its version, of affected devices and of missing images. A request for it has ended. That it was there
/// is remembered, so that neither a replay nor an answer that is on its way brings it back. With `app`, only a report of that app. False where there is none.
///
/// # Errors
/// Where the database fails.
pub async fn delete(tx: &mut TenantTx, report_id: ReportId, variant: u32, app: Option<&str>) -> Result<bool> {
    let keys = lock_known(tx, &[(report_id.uuid(), to_row32(variant))]).await?;
    let Some(key) = keys.into_iter().find(|key| !key.deleted) else { return Ok(false) };
    let (connection, tenant, now) = tx.parts();
    let row = sqlx::query!(
        "DELETE FROM reports
         WHERE tenant = $1 AND received_at = $2 AND report_id = $3 AND variant = $4 AND ($5::text IS NULL OR app = $5)
         RETURNING app, version, device, status, frames_total, frames_symbolicated, frames_device, frames_device_app, frames_missing,
                   wanted, group_id",
        tenant,
        key.received_at,
        report_id.uuid(),
        to_row32(variant),
        app
    )
    .fetch_optional(&mut *connection)
    .await?;
    let Some(row) = row else { return Ok(false) };
    sqlx::query!(
        "UPDATE report_keys SET deleted_at = $4, requested_at = NULL, asked_at = NULL, requested_needs = NULL,
                                reprocess_id = NULL, ask_pending = false
         WHERE tenant = $1 AND report_id = $2 AND variant = $3",
        tenant,
        report_id.uuid(),
        to_row32(variant),
        now
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "DELETE FROM report_bodies WHERE tenant = $1 AND received_at = $2 AND report_id = $3 AND variant = $4",
        tenant,
        key.received_at,
        report_id.uuid(),
        to_row32(variant)
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "DELETE FROM waits WHERE tenant = $1 AND received_at = $2 AND report_id = $3 AND variant = $4",
        tenant,
        key.received_at,
        report_id.uuid(),
        to_row32(variant)
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "WITH gone AS (
             DELETE FROM external_bodies WHERE tenant = $1 AND report_id = $2 AND variant = $3 RETURNING key)
         INSERT INTO condemned_objects (tenant, key, condemned_at) SELECT $1, g.key, $4 FROM gone g
         ON CONFLICT DO NOTHING",
        tenant,
        report_id.uuid(),
        to_row32(variant),
        now
    )
    .execute(connection)
    .await?;
    drop_frames(tx, &[key.received_at], &[report_id.uuid()], &[to_row32(variant)]).await?;
    let frames = Frames {
        total: from_row32(row.frames_total),
        symbolicated: from_row32(row.frames_symbolicated),
        device: from_row32(row.frames_device),
        device_app: from_row32(row.frames_device_app),
        missing: from_row32(row.frames_missing),
    };
    let group = row.group_id.map(|id| (id, row.app.clone(), row.version.clone()));
    let counted = Counted {
        app: row.app,
        version: row.version,
        received_at: key.received_at,
        status: row.status,
        frames,
        device: row.device,
        wanted: row.wanted,
    };
    rollups::take_back(tx, &counted).await?;
    if let Some((id, app, version)) = group {
        groups::take_back(tx, id, &app, &version, key.received_at).await?;
    }
    if let Some(id) = key.reprocess {
        reprocess::count_ends(tx, &BTreeMap::from([(id, Ends { gone: 1, ..Ends::default() })])).await?;
    }
    Ok(true)
}
