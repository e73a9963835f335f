//! The images that reports wait for.

use crate::list_lookups;
use crate::symbol_lookups::{SymbolLookup, group_by_id};
use crate::{Result, TenantTx};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use unslide_model::{DebugId, Owner};
use utoipa::ToSchema;

/// An image (app, framework or library) without symbols.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = MissingImage)]
pub struct WantedImage {
    /// Debug id (`LC_UUID`) of the image; upload the dSYM that has it.
    #[schema(value_type = String, format = Uuid)]
    pub debug_id: DebugId,
    /// File name of the image, without its folder.
    #[schema(example = "Shop")]
    pub name: String,
    /// Architecture of the image, such as `arm64`.
    #[schema(example = "arm64")]
    pub arch: String,
    /// Number of reports that lack its symbols.
    pub reports: i64,
}

/// A debug id that reports wait for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = MissingSymbol)]
pub struct MissingDebugId {
    /// The image that has no symbols.
    #[serde(flatten)]
    pub image: WantedImage,
    /// True for an image of the operating system.
    pub system: bool,
    /// The apps with reports that refer to it, at most 50.
    #[schema(max_items = 50)]
    pub apps: Vec<String>,
    /// The versions with reports that refer to it, at most 50.
    #[schema(max_items = 50)]
    pub versions: Vec<String>,
    /// When the first such report arrived.
    #[serde(with = "time::serde::rfc3339")]
    pub first_seen: OffsetDateTime,
    /// When the last such report arrived.
    #[serde(with = "time::serde::rfc3339")]
    pub last_seen: OffsetDateTime,
    /// Where else its symbols were looked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 5)]
    pub lookups: Vec<SymbolLookup>,
}

/// Which of them to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingFilter {
    /// Reports of this app refer to it.
    pub app: Option<String>,
    /// Reports of this version refer to it.
    pub version: Option<String>,
    /// System images too.
    pub system: bool,
}

/// Lists the debug ids that reports came without symbols for and that have none now, or those of a stripped
/// binary (a quality below 2, a symbol table) for an image of the app; the most wanted first, from the one
/// after `after` (its reports and its debug id) on, with their look-ups.
pub async fn list_missing(
    tx: &mut TenantTx,
    filter: &MissingFilter,
    after: Option<(i64, DebugId)>,
    limit: u32,
) -> Result<Vec<MissingDebugId>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT w.debug_id, min(w.name) AS "name!", min(w.arch) AS "arch!", bool_and(w.system) AS "system!",
                  sum(w.reports)::bigint AS "reports!", (array_agg(DISTINCT w.app))[1:50] AS "apps!",
                  (array_agg(DISTINCT w.version))[1:50] AS "versions!",
                  min(w.first_seen) AS "first_seen!", max(w.last_seen) AS "last_seen!"
           FROM wanted_images w
           LEFT JOIN symbol_slots s ON s.tenant = w.tenant AND s.debug_id = w.debug_id
           LEFT JOIN symbol_slots o ON w.system AND o.tenant = $6 AND o.debug_id = w.debug_id
           WHERE w.tenant = $1 AND coalesce(s.quality, 0) < CASE WHEN w.system THEN 1 ELSE 2 END
             AND coalesce(o.quality, 0) = 0
             AND ($2::text IS NULL OR w.app = $2) AND ($3::text IS NULL OR w.version = $3) AND ($4 OR NOT w.system)
           GROUP BY w.debug_id
           HAVING ($7::bigint IS NULL OR sum(w.reports) < $7 OR (sum(w.reports) = $7 AND w.debug_id > $8::uuid))
           ORDER BY sum(w.reports) DESC, w.debug_id LIMIT $5"#,
        tenant,
        filter.app,
        filter.version,
        filter.system,
        i64::from(limit),
        Owner::System.as_str(),
        after.map(|(reports, _)| reports),
        after.map(|(_, debug_id)| debug_id.uuid())
    )
    .fetch_all(connection)
    .await?;
    let debug_ids: Vec<DebugId> = rows.iter().map(|row| DebugId::from_uuid(row.debug_id)).collect();
    let mut lookups = group_by_id(list_lookups(tx, &debug_ids).await?);
    Ok(rows
        .into_iter()
        .map(|row| {
            let debug_id = DebugId::from_uuid(row.debug_id);
            MissingDebugId {
                image: WantedImage { debug_id, name: row.name, arch: row.arch, reports: row.reports },
                system: row.system,
                apps: row.apps,
                versions: row.versions,
                first_seen: row.first_seen,
                last_seen: row.last_seen,
                lookups: lookups.remove(&debug_id).unwrap_or_default(),
            }
        })
        .collect())
}

/// Returns the missing images of an app's own in some versions, by version, the most wanted first.
pub(super) async fn list_for_versions(
    tx: &mut TenantTx,
    app: &str,
    versions: &[String],
) -> Result<Vec<(String, WantedImage)>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT version AS "version!", debug_id AS "debug_id!", name AS "name!", arch AS "arch!", reports AS "reports!"
           FROM (SELECT w.version, w.debug_id, w.name, w.arch, w.reports,
                        row_number() OVER (PARTITION BY w.version ORDER BY w.reports DESC, w.debug_id) AS place
                 FROM wanted_images w
                 LEFT JOIN symbol_slots s ON s.tenant = w.tenant AND s.debug_id = w.debug_id
                 WHERE w.tenant = $1 AND w.app = $2 AND w.version = ANY ($3) AND NOT w.system
                   AND coalesce(s.quality, 0) < 2) ranked
           WHERE place <= 100 ORDER BY version, place"#,
        tenant,
        app,
        versions
    )
    .fetch_all(connection)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let image = WantedImage {
                debug_id: DebugId::from_uuid(row.debug_id),
                name: row.name,
                arch: row.arch,
                reports: row.reports,
            };
            (row.version, image)
        })
        .collect())
}
