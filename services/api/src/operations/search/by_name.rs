//! Groups by their texts, and apps and versions by their names.

use super::matches::SearchMatch;
use crate::problem::Problem;
use unslide_store::TenantTx;
use unslide_store::queries::groups::{self, GroupFilter, GroupOrder};
use unslide_store::queries::names;

/// Maximum number of matches of each kind.
pub(super) const MATCHES_LIMIT: u32 = 10;
/// Characters of a text that is searched for in groups: shorter ones match nearly all.
const GROUP_TEXT_CHARS: std::ops::RangeInclusive<usize> = 3..=100;

/// Finds groups with a text in their title, their reason, a function or a file, those that were seen last first.
pub(super) async fn find_groups(
    tx: &mut TenantTx,
    app: Option<&str>,
    text: &str,
) -> Result<Vec<SearchMatch>, Problem> {
    if !GROUP_TEXT_CHARS.contains(&text.chars().count()) {
        return Ok(Vec::new());
    }
    let (app, text) = (app.map(str::to_owned), Some(text.to_owned()));
    let filter = GroupFilter { app, text, ..GroupFilter::default() };
    let found = groups::list_groups(tx, &filter, GroupOrder::LastSeen, None, MATCHES_LIMIT).await?;
    Ok(found.iter().map(|group| SearchMatch::from_group(group, "text")).collect())
}

/// Finds apps and versions with a text in their name.
pub(super) async fn find_names(
    tx: &mut TenantTx,
    app: Option<&str>,
    text: &str,
) -> Result<Vec<SearchMatch>, Problem> {
    let apps = names::find_apps(tx, app, text, MATCHES_LIMIT).await?;
    let versions = names::find_versions(tx, app, text, MATCHES_LIMIT).await?;
    let apps = apps.into_iter().map(SearchMatch::from_app);
    Ok(apps.chain(versions.into_iter().map(SearchMatch::from_version)).collect())
}
