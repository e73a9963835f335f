//! The part of the feature in transactions of the store.

use crate::newest_versions::find_bad_releases;
use crate::regressions::{keep_resolved, release_returned};
use unslide_store::tables::{KeyColumn, OwnedTable};
use unslide_store::{HookFuture, StoreEvent, StoreHook};

/// The tables of the feature, in the order in which it locks their rows, and what it does on events.
pub const VERDICTS_HOOK: StoreHook = StoreHook {
    on_event: Some(act_on_event),
    ..StoreHook::with_tables(
        crate::NAME,
        &[
            OwnedTable::new("regression_rules"),
            OwnedTable {
                key: &[KeyColumn::Value("group_id")],
                app: Some("app"),
                ..OwnedTable::new("held_regressions")
            },
        ],
    )
};

fn act_on_event<'e>(event: &'e mut StoreEvent<'_>) -> HookFuture<'e> {
    Box::pin(async move {
        match event {
            StoreEvent::GroupsChanged(tx, events) => release_returned(tx, events).await,
            StoreEvent::GroupsContradicted(tx, found, kept) => keep_resolved(tx, found, kept).await,
            StoreEvent::ReleasesAsked(tx, app, bad) => find_bad_releases(tx, app, bad).await,
            _ => Ok(()),
        }
    })
}
