//! Versions that their release check calls bad.

use super::events::{AlertCause, page_query};
use super::rules::DueRule;
use time::Duration;
use unslide_store::{Result, TenantTx, list_bad_releases};

/// The page of a version.
const VERSION_PAGE: &str = "/console/version";
/// The days in which an app has a session that is checked.
const USED_DAYS: Duration = Duration::days(7);
/// Apps that a rule for all apps checks, those with the most sessions.
const CHECKED_APPS_LIMIT: i64 = 20;

/// Finds the newest versions that are bad.
pub(super) async fn find_bad_versions(tx: &mut TenantTx, rule: &DueRule) -> Result<Vec<AlertCause>> {
    let apps = match &rule.app {
        Some(app) => vec![app.clone()],
        None => list_used_apps(tx).await?,
    };
    let mut causes = Vec::new();
    for app in apps {
        let bad = list_bad_releases(tx, &app).await?;
        causes.extend(bad.into_iter().map(|found| AlertCause {
            cause: format!("release:{app}:{}", found.version),
            headline: format!("{app} {} is worse than {}", found.version, found.against),
            detail: found.reason,
            path: page_query(VERSION_PAGE, &[("app", Some(&app)), ("version", Some(&found.version))]),
            app: app.clone(),
            version: found.version,
        }));
    }
    Ok(causes)
}

async fn list_used_apps(tx: &mut TenantTx) -> Result<Vec<String>> {
    let (connection, tenant, now) = tx.parts();
    Ok(sqlx::query_scalar!(
        "SELECT app FROM session_days WHERE tenant = $1 AND day >= $2
         GROUP BY app ORDER BY sum(sessions) DESC, app LIMIT $3",
        tenant,
        (now - USED_DAYS).date(),
        CHECKED_APPS_LIMIT
    )
    .fetch_all(connection)
    .await?)
}
