//! The statements about sources, and about the debug ids that they are asked for.

mod lookups;
mod requests;
mod source_rows;

pub use lookups::add_lookups;
pub use requests::{
    DueRequest, SourceReply, add_requests, find_newest_missing, hold_request, list_due, record_answer,
};
pub use source_rows::{
    NewSourceRow, SourceRow, list_sources, lock_sources, record_failure, remove_source, set_source,
};

use std::future::ready;
use time::Duration;
use unslide_store::tables::OwnedTable;
use unslide_store::{HookFuture, StoreEvent, StoreHook};

/// How long a request is kept after it was due for the last time.
const REQUESTS_KEPT_FOR: Duration = Duration::days(365);

/// The tables of the feature.
pub const SYMBOL_SOURCES_HOOK: StoreHook =
    StoreHook { on_event: Some(act_on_event), ..StoreHook::with_tables(crate::NAME, OWNED_TABLES) };

/// In the order of locks.
const OWNED_TABLES: &[OwnedTable] =
    &[OwnedTable::new("symbol_sources"), OwnedTable::kept_for("symbol_source_requests", REQUESTS_KEPT_FOR)];

/// Adds the look-ups of images that are shown.
fn act_on_event<'e>(event: &'e mut StoreEvent<'_>) -> HookFuture<'e> {
    match event {
        StoreEvent::LookupsAsked(tx, debug_ids, lookups) => Box::pin(add_lookups(tx, debug_ids, lookups)),
        _ => Box::pin(ready(Ok(()))),
    }
}
