//! The images that reports wait for, and that a rule has no event for.

use super::AlertRuleId;
use time::OffsetDateTime;
use unslide_model::DebugId;
use unslide_store::queries::missing::WantedImage;
use unslide_store::{Result, TenantTx};

/// Images that fulfil a rule which has no event for them.
pub struct UnnotedImages<'r> {
    pub rule: AlertRuleId,
    /// Only images of this app's reports.
    pub app: Option<&'r str>,
    /// The smallest number of reports that refer to one.
    pub least_reports: f64,
    /// The first of these reports came until then.
    pub first_seen_until: OffsetDateTime,
    /// The last of them came then or later.
    pub last_seen_since: OffsetDateTime,
}

/// An image without symbols, with the apps and versions that use it.
pub struct UnnotedImage {
    pub image: WantedImage,
    /// The apps with reports that refer to it, at most 50.
    pub apps: Vec<String>,
    /// The versions with reports that refer to it, at most 50.
    pub versions: Vec<String>,
}

/// Returns the most wanted images of apps that a rule is still to tell of.
pub async fn list_unnoted(
    tx: &mut TenantTx,
    images: &UnnotedImages<'_>,
    limit: u32,
) -> Result<Vec<UnnotedImage>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT w.debug_id, min(w.name) AS "name!", min(w.arch) AS "arch!", sum(w.reports)::bigint AS "reports!",
                  (array_agg(DISTINCT w.app))[1:50] AS "apps!", (array_agg(DISTINCT w.version))[1:50] AS "versions!"
           FROM wanted_images w
           LEFT JOIN symbol_slots s ON s.tenant = w.tenant AND s.debug_id = w.debug_id
           WHERE w.tenant = $1 AND NOT w.system AND coalesce(s.quality, 0) < 2 AND ($2::text IS NULL OR w.app = $2)
             AND NOT EXISTS (
                 SELECT FROM alert_events e WHERE e.tenant = $1 AND e.rule = $3 AND e.cause = 'missing:' || w.debug_id)
           GROUP BY w.debug_id
           HAVING sum(w.reports) >= $4::float8 AND min(w.first_seen) <= $5 AND max(w.last_seen) >= $6
           ORDER BY sum(w.reports) DESC, w.debug_id LIMIT $7"#,
        tenant,
        images.app,
        images.rule as AlertRuleId,
        images.least_reports,
        images.first_seen_until,
        images.last_seen_since,
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?;
    let images = rows.into_iter().map(|row| UnnotedImage {
        image: WantedImage {
            debug_id: DebugId::from_uuid(row.debug_id),
            name: row.name,
            arch: row.arch,
            reports: row.reports,
        },
        apps: row.apps,
        versions: row.versions,
    });
    Ok(images.collect())
}
