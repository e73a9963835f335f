//! The part of the feature in transactions of the store: commits go with symbols, and texts about groups have a link to the comparison
//! of two commits.

use crate::commits::choose_link;
use crate::comparing::choose_versions;
use crate::store::{self, OWNED_TABLES};
use std::future::ready;
use unslide_store::group_links::{DescribedGroup, GroupLink};
use unslide_store::{HookFuture, Result, StoreEvent, StoreHook, TenantTx};

/// Deletes the commit of a build with its symbols, and links groups.
pub const CHANGES_HOOK: StoreHook =
    StoreHook { on_event: Some(act_on_event), ..StoreHook::with_tables(crate::NAME, OWNED_TABLES) };

fn act_on_event<'e>(event: &'e mut StoreEvent<'_>) -> HookFuture<'e> {
    match event {
        StoreEvent::SymbolsDeleted(tx, debug_id) => Box::pin(store::delete_commit(tx, debug_id)),
        StoreEvent::GroupLinksAsked(tx, group, links) => Box::pin(add_link(tx, *group, links)),
        _ => Box::pin(ready(Ok(()))),
    }
}

/// Adds the comparison of the commits of the first version with a group and of the version before it, if both are known.
async fn add_link(tx: &mut TenantTx, group: DescribedGroup<'_>, links: &mut Vec<GroupLink>) -> Result<()> {
    let versions = choose_versions(&store::list_versions(tx, group.app, group.id).await?);
    // The same statements run if there is no version before. Reports without a version are of no known build.
    let pair = [versions.before, versions.first].map(Option::unwrap_or_default);
    let commits = store::list_version_commits(tx, group.app, &pair).await?;
    if pair.iter().all(|version| !version.is_empty()) {
        links.extend(choose_link(&commits));
    }
    Ok(())
}
