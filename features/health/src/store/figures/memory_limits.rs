//! How much memory an app may have, by device model and system version, as its reports and its sessions say.

use serde::Serialize;
use time::OffsetDateTime;
use unslide_store::{Result, TenantTx};
use utoipa::ToSchema;

/// Reports and sessions of an app that are looked at, the newest first of those that say a limit.
pub const MOST_REPORTS: i64 = 1_000;
/// Devices that have to say a limit before others are judged by it: one may be wrong.
pub const LEAST_DEVICES: i64 = 3;
/// Devices with a system version that are answered, those of the most reports first.
const MOST_LIMITS: i64 = 200;

/// The memory that an app may have on one device model with one system version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct MemoryLimit {
    /// The device model; empty if none is named.
    #[schema(example = "iPhone16,1")]
    pub model: String,
    /// The system's version; empty if none is named.
    #[schema(example = "18.3.1")]
    pub os_version: String,
    /// How many reports say it. A run counts once, by the newest of its reports and its session.
    pub reports: i64,
    /// How many sessions say it.
    pub sessions: i64,
    /// How many different devices and installations these are of. Ends of sessions are judged by the median of at least three.
    pub devices: i64,
    /// The lowest limit, in bytes.
    pub lowest: i64,
    /// The median, in bytes; of an even number the lower one, so that it is one of them.
    pub median: i64,
    /// The highest limit, in bytes.
    pub highest: i64,
    /// When the newest of them came.
    #[serde(with = "time::serde::rfc3339")]
    pub last_seen: OffsetDateTime,
}

impl MemoryLimit {
    /// Returns how many runs say it.
    #[must_use]
    pub fn runs(&self) -> i64 {
        self.reports + self.sessions
    }
}

/// Returns the version in the name of a system: `26.1` of `iOS 26.1 (23B85)`. Reports and sessions of one
/// version name it so.
#[must_use]
pub fn system_version(os: &str) -> Option<&str> {
    let version = os.trim_start_matches(|c: char| !c.is_ascii_digit());
    let version = version.split(|c: char| !c.is_ascii_digit() && c != '.').next()?.trim_end_matches('.');
    (!version.is_empty()).then_some(version)
}

/// Returns the limits that the newest reports and sessions of an app state.
pub async fn app_limits(tx: &mut TenantTx, app: &str) -> Result<Vec<MemoryLimit>> {
    let app = app.replace('\0', "");
    let limits = read(tx, &[[&app, "", ""]], Asked::AllOfApps).await?;
    Ok(limits.into_iter().map(|(_, limit)| limit).collect())
}

/// Returns the limits that are learned for device models and versions of the system, each with the app
/// before: the medians of the limits in other reports and sessions, in the order asked.
pub async fn learned_limits(tx: &mut TenantTx, asked: &[[&str; 3]]) -> Result<Vec<Option<u64>>> {
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let limits = read(tx, asked, Asked::These).await?;
    let median = |[app, model, os_version]: &[&str; 3]| {
        let is_of = |(of, limit): &&(String, MemoryLimit)| {
            of == app && limit.model == *model && limit.os_version == *os_version
        };
        let (_, limit) = limits.iter().find(is_of).filter(|(_, limit)| limit.devices >= LEAST_DEVICES)?;
        u64::try_from(limit.median).ok()
    };
    Ok(asked.iter().map(median).collect())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// App, device model and version of the system.
    These,
    /// All models and versions of the apps.
    AllOfApps,
}

/// Reads the limits with their apps, in one statement for all apps.
async fn read(tx: &mut TenantTx, asked: &[[&str; 3]], which: Asked) -> Result<Vec<(String, MemoryLimit)>> {
    let (connection, tenant, _) = tx.parts();
    let [apps, models, os_versions] =
        [0, 1, 2].map(|of| asked.iter().map(|one| one[of].to_owned()).collect::<Vec<String>>());
    let most = match which {
        Asked::These => i64::try_from(asked.len()).unwrap_or(i64::MAX),
        Asked::AllOfApps => MOST_LIMITS,
    };
    let rows = sqlx::query!(
        r#"SELECT a.app AS "app!", n.model AS "model!", n.os_version AS "os_version!",
                  count(*) FILTER (WHERE n.is_report) AS "reports!", count(*) FILTER (WHERE NOT n.is_report) AS "sessions!",
                  count(DISTINCT n.device) AS "devices!", min(n.bytes::bigint) AS "lowest!",
                  percentile_disc(0.5) WITHIN GROUP (ORDER BY n.bytes::bigint) AS "median!",
                  max(n.bytes::bigint) AS "highest!", max(n.received_at) AS "last_seen!"
           FROM (SELECT DISTINCT app FROM unnest($2::text[]) AS apps (app)) a
           CROSS JOIN LATERAL
               (SELECT DISTINCT ON (t.run) coalesce(t.model, '') AS model, coalesce(t.os_version, '') AS os_version,
                       t.device, t.bytes, t.received_at, t.is_report
                FROM ((SELECT coalesce(r.run_id::text, r.report_id || ' ' || r.variant) AS run, r.model, r.os_version,
                              r.device, r.received_at, r.summary -> 'memory_limit' AS bytes, true AS is_report
                       FROM reports r WHERE r.tenant = $1 AND r.app = a.app AND r.summary ? 'memory_limit'
                       ORDER BY r.received_at DESC, r.report_id DESC, r.variant DESC LIMIT $6)
                      UNION ALL
                      (SELECT lower(s.session_id), s.device, substring(s.os FROM '[0-9]+(?:\.[0-9]+)*'),
                              s.installation, s.received_at, to_jsonb(s.memory_limit), false
                       FROM sessions s WHERE s.tenant = $1 AND s.app = a.app AND s.memory_limit IS NOT NULL
                       ORDER BY s.received_at DESC, s.session_id DESC LIMIT $6)) t
                WHERE jsonb_typeof(t.bytes) = 'number'
                ORDER BY t.run, t.received_at DESC) n
           WHERE $5 OR (a.app, n.model, n.os_version) IN (SELECT * FROM unnest($2::text[], $3::text[], $4::text[]))
           GROUP BY 1, 2, 3 ORDER BY count(*) DESC, 1, 2, 3 LIMIT $7"#,
        tenant,
        &apps,
        &models,
        &os_versions,
        which == Asked::AllOfApps,
        MOST_REPORTS,
        most
    )
    .fetch_all(connection)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let limit = MemoryLimit {
                model: row.model,
                os_version: row.os_version,
                reports: row.reports,
                sessions: row.sessions,
                devices: row.devices,
                lowest: row.lowest,
                median: row.median,
                highest: row.highest,
                last_seen: row.last_seen,
            };
            (row.app, limit)
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_is_known_by_its_version() {
        for (os, version) in [
            ("iOS 26.1", Some("26.1")),
            ("iOS 18.3.1 (22D72)", Some("18.3.1")),
            ("18.3.1", Some("18.3.1")),
            ("26.", Some("26")),
            ("é 7", Some("7")),
            ("iOS", None),
            ("", None),
        ] {
            assert_eq!(system_version(os), version, "{os}");
        }
    }
}
