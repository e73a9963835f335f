//! The versions of an app: how they do, and what is missing to know better.

use super::missing::{self, MissingImage};
use crate::{Result, TenantTx};
use std::collections::HashMap;
use time::Date;

/// A version of an app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The version; empty for reports that name none.
    pub version: String,
    /// How many reports.
    pub reports: i64,
    /// How many devices crashed, counted once each.
    pub devices: i64,
    /// Frames in all reports.
    pub frames_total: i64,
    /// Frames that symbols answered.
    pub frames_symbolicated: i64,
    /// Reports in which every frame has its answer.
    pub complete: i64,
    /// Reports in which some frames have theirs.
    pub partial: i64,
    /// Reports in which none has.
    pub none: i64,
    /// The day of the first report (UTC).
    pub first_day: Date,
    /// The day of the last report (UTC).
    pub last_day: Date,
    /// The app's own images that symbols are missing for, the most wanted first, at most 100.
    pub missing: Vec<MissingImage>,
}

impl Version {
    /// The share of frames that symbols answered, from 0 to 1; `None` without frames.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    pub fn share_symbolicated(&self) -> Option<f64> {
        (self.frames_total > 0).then(|| self.frames_symbolicated as f64 / self.frames_total as f64)
    }
}

/// The versions of an app, that of the newest report first; empty for an app without reports.
///
/// # Errors
/// Where the database fails.
pub async fn list(tx: &mut TenantTx, app: &str) -> Result<Vec<Version>> {
    let (connection, tenant, _) = tx.parts();
    let app = app.replace('\0', "");
    let rows = sqlx::query!(
        r#"SELECT version, sum(reports)::bigint AS "reports!", sum(devices)::bigint AS "devices!",
                  sum(frames_total)::bigint AS "frames_total!", sum(frames_symbolicated)::bigint AS "symbolicated!",
                  sum(complete)::bigint AS "complete!", sum(partial)::bigint AS "partial!", sum(none)::bigint AS "none!",
                  min(day) FILTER (WHERE reports > 0) AS "first_day!", max(day) FILTER (WHERE reports > 0) AS "last_day!"
           FROM app_days WHERE tenant = $1 AND app = $2 GROUP BY version HAVING sum(reports) > 0
           ORDER BY "last_day!" DESC, version DESC"#,
        tenant,
        app
    )
    .fetch_all(connection)
    .await?;
    let mut wanted: HashMap<String, Vec<MissingImage>> = HashMap::new();
    for (version, image) in missing::of_app(tx, &app).await? {
        wanted.entry(version).or_default().push(image);
    }
    Ok(rows
        .into_iter()
        .map(|row| Version {
            missing: wanted.remove(&row.version).unwrap_or_default(),
            version: row.version,
            reports: row.reports,
            devices: row.devices,
            frames_total: row.frames_total,
            frames_symbolicated: row.symbolicated,
            complete: row.complete,
            partial: row.partial,
            none: row.none,
            first_day: row.first_day,
            last_day: row.last_day,
        })
        .collect())
}
