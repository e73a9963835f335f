//! Events of symbols that changed, as `unslide.symbol-events` has them.

use super::SymcacheCache;
use unslide_model::Owner;
use unslide_proto::Message;
use unslide_proto::symbol::SymbolEvent;

impl SymcacheCache {
    /// Takes the value of an event: what is known of its symbols is dropped, where it is older, and remembered as missing
    /// where they were deleted.
    ///
    /// # Errors
    /// What is wrong with an event that can't be read. What it would have said is not known: nothing that is remembered
    /// counts any more, as after [`SymcacheCache::missed_events`].
    pub fn take_event(&self, value: &[u8]) -> Result<(), String> {
        self.apply(value).inspect_err(|_| self.missed_events())
    }

    fn apply(&self, value: &[u8]) -> Result<(), String> {
        let event = SymbolEvent::decode(value).map_err(|error| error.to_string())?;
        let id = event.id().map_err(|error| error.to_string())?;
        let owner = event.owner().map_err(|error| error.to_string())?.map_or(Owner::System, Owner::Tenant);
        if event.deleted {
            self.delete(owner.own(id), event.generation);
        } else {
            self.forget(owner.own(id), event.generation);
        }
        Ok(())
    }
}
