//! One report with its body.

use super::reports::Listed;
use crate::number::{from_row, from_row32, to_row32};
use crate::reports::Frames;
use crate::segments::{Body, BodyLocation};
use crate::{Result, TenantTx};
use unslide_model::ReportId;

/// A stored report without its body.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// What a list shows.
    pub listed: Listed,
    /// How many reports have this id; more than 1 where clients sent different bytes under it.
    pub variants: u32,
    /// The enriched JSON's size in bytes.
    pub size: u64,
    /// Where the enriched JSON lies in object storage; `None` where it is in the database.
    pub place: Option<BodyLocation>,
}

/// A stored report.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredReport {
    /// What a list shows.
    pub listed: Listed,
    /// How many reports have this id; more than 1 where clients sent different bytes under it.
    pub variants: u32,
    /// The enriched JSON's size in bytes.
    pub size: u64,
    /// The enriched JSON, or where it is.
    pub stored: Body,
}

impl StoredReport {
    /// The enriched JSON of a report whose body is in the database (see [`Body::json`]).
    ///
    /// # Errors
    /// As [`Body::json`].
    pub fn body(&self) -> Result<Vec<u8>> {
        self.stored.json()
    }
}

/// A report by its id with its body, or where that is. `None` as [`find`], and where the report moved or
/// was revised in this moment.
///
/// # Errors
/// Where the database fails.
pub async fn get(tx: &mut TenantTx, report_id: ReportId, variant: u32) -> Result<Option<StoredReport>> {
    let Some(found) = find(tx, report_id, variant).await? else { return Ok(None) };
    let stored = match found.place {
        Some(place) => Some(Body::Segment(place)),
        None => body(tx, &found.listed).await?,
    };
    let Found { listed, variants, size, .. } = found;
    Ok(stored.map(|stored| StoredReport { listed, variants, size, stored }))
}

/// The body of a report's revision, where it is in the database.
///
/// # Errors
/// Where the database fails.
pub async fn body(tx: &mut TenantTx, listed: &Listed) -> Result<Option<Body>> {
    let (connection, tenant, _) = tx.parts();
    let body = sqlx::query_scalar!(
        "SELECT body FROM report_bodies
         WHERE tenant = $1 AND received_at = $2 AND report_id = $3 AND variant = $4 AND revision = $5",
        tenant,
        listed.received_at,
        listed.report_id.uuid(),
        to_row32(listed.variant),
        to_row32(listed.revision)
    )
    .fetch_optional(connection)
    .await?;
    Ok(body.map(Body::Inline))
}

/// A report by its id: the first that came with it, or another variant. `None` where there is none,
/// or where it was deleted or is too old.
///
/// # Errors
/// Where the database fails.
pub async fn find(tx: &mut TenantTx, report_id: ReportId, variant: u32) -> Result<Option<Found>> {
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query!(
        r#"SELECT r.revision, r.received_at, r.app, r.version, r.build, r.type AS kind, r.status, r.device_time,
                  r.os_name, r.os_version, r.model, r.process, r.reason, r.summary, r.frames_total,
                  r.frames_symbolicated, r.frames_device, r.frames_device_app, r.frames_missing, r.symbols_missing, r.group_id,
                  coalesce(b.size, f.size) AS "size!", b.report_id IS NOT NULL AS "inline!", f.segment AS "segment?",
                  f.at_offset AS "at_offset?", f.length AS "length?", f.body_key AS "body_key?",
                  (SELECT count(*) FROM report_keys o
                   WHERE o.tenant = $1 AND o.report_id = $2 AND o.deleted_at IS NULL) AS "variants!"
           FROM report_keys k
           JOIN reports r ON r.tenant = k.tenant AND r.received_at = k.received_at AND r.report_id = k.report_id
                         AND r.variant = k.variant
           LEFT JOIN report_bodies b ON b.tenant = k.tenant AND b.received_at = k.received_at
                                    AND b.report_id = k.report_id AND b.variant = k.variant
           LEFT JOIN report_frames f ON f.tenant = k.tenant AND f.received_at = k.received_at
                                    AND f.report_id = k.report_id AND f.variant = k.variant
           WHERE k.tenant = $1 AND k.report_id = $2 AND k.variant = $3 AND k.deleted_at IS NULL
             AND (b.report_id IS NOT NULL OR f.report_id IS NOT NULL)"#,
        tenant,
        report_id.uuid(),
        to_row32(variant)
    )
    .fetch_optional(connection)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let place = if row.inline {
        None
    } else {
        match Body::read(None, row.received_at, (row.segment, row.at_offset, row.length, row.body_key))? {
            Body::Segment(place) => Some(place),
            Body::Inline(_) => None,
        }
    };
    Ok(Some(Found {
        listed: Listed {
            report_id,
            variant,
            revision: from_row32(row.revision),
            received_at: row.received_at,
            app: row.app,
            version: row.version,
            build: row.build,
            kind: row.kind,
            status: row.status,
            device_time: row.device_time,
            os_name: row.os_name,
            os_version: row.os_version,
            model: row.model,
            process: row.process,
            reason: row.reason,
            summary: row.summary,
            frames: Frames {
                total: from_row32(row.frames_total),
                symbolicated: from_row32(row.frames_symbolicated),
                device: from_row32(row.frames_device),
                device_app: from_row32(row.frames_device_app),
                missing: from_row32(row.frames_missing),
            },
            symbols_missing: row.symbols_missing,
            group: row.group_id,
        },
        variants: u32::try_from(row.variants).unwrap_or(u32::MAX),
        size: from_row(row.size),
        place,
    }))
}
