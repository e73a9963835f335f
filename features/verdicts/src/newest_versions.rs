//! The newest versions of an app that are in use, for rules that watch releases.

use crate::release::{ReleaseCheckState, check_with_sessions, list_compared_sessions};
use time::Duration;
use unslide_model::compare_versions;
use unslide_store::{BadRelease, Result, TenantTx};

/// The days in which a version is in use that has a session.
const USED_DAYS: Duration = Duration::days(7);
/// The versions that are checked: builds of developers may be newer than the release.
const CHECKED_VERSIONS: usize = 3;

/// Adds those of the newest versions of an app that are bad.
pub async fn find_bad_releases(tx: &mut TenantTx, app: &str, bad: &mut Vec<BadRelease>) -> Result<()> {
    let today = tx.now().date();
    let sessions = list_compared_sessions(tx, app, today).await?;
    let first = today.saturating_sub(USED_DAYS);
    let used = sessions.iter().filter(|row| row.day >= first && row.sessions > 0 && !row.version.is_empty());
    for version in list_newest(used.map(|row| row.version.clone()).collect()) {
        let check = check_with_sessions(tx, app, &version, None, today, &sessions).await?;
        if let (ReleaseCheckState::Bad, Some(against)) = (check.verdict, check.against) {
            let reason = check.reasons.into_iter().nth(1).unwrap_or_default();
            bad.push(BadRelease { version, against, reason });
        }
    }
    Ok(())
}

/// Returns the newest of these versions, the newest first.
fn list_newest(mut versions: Vec<String>) -> Vec<String> {
    versions.sort_unstable_by(|a, b| compare_versions(b, a));
    versions.dedup();
    versions.truncate(CHECKED_VERSIONS);
    versions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_versions_are_checked_once() {
        let versions = ["2.9", "2.10", "2.0-beta", "2.10", "1.0", "2.9.1"].map(str::to_owned).to_vec();
        assert_eq!(list_newest(versions), ["2.10", "2.9.1", "2.9"]);
        assert_eq!(list_newest(vec!["1.0".to_owned()]), ["1.0"]);
    }
}
