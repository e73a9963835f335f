//! The statements about the access of assistants.

mod grants;
mod lookups;

pub use grants::{
    HeldGrant, IssuedTokens, McpGrantEntry, NewMcpGrant, TokenHashes, add_grant, end_grant, hold_grant,
    list_grants, set_tokens,
};
pub use lookups::{TokenOwner, find_token_owner, signs_people_in};

use time::Duration;
use unslide_store::tables::OwnedTable;
use unslide_store::{Result, StoreEvent, StoreHook};

/// The table of the feature, and its part in transactions that end the sessions of people.
pub const MCP_HOOK: StoreHook = StoreHook {
    tables: &[OwnedTable::kept_for("mcp_grants", Duration::ZERO)],
    on_event: Some(|event| Box::pin(write_for_event(event))),
    ..StoreHook::new(crate::NAME)
};

async fn write_for_event(event: &mut StoreEvent<'_>) -> Result<()> {
    match event {
        StoreEvent::SessionsEnded(tx, keys) => grants::end_grants_of_keys(tx, keys).await,
        _ => Ok(()),
    }
}
