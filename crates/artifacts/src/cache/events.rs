//! Events for changed symbols, from the topic `unslide.symbol-events`.

use super::SymcacheCache;
use unslide_model::Owner;
use unslide_proto::Message;
use unslide_proto::symbol::SymbolEvent;

impl SymcacheCache {
    /// Handles the value of the next event: drops older symbols, and remembers deleted ones as missing. `None`
    /// means that events may have been missed, as in [`SymcacheCache::missed_events`].
    ///
    /// # Errors
    /// Returns the problem of an unreadable event, which counts as missed.
    pub fn take_event(&self, value: Option<&[u8]>) -> Result<(), String> {
        let Some(value) = value else {
            self.missed_events();
            return Ok(());
        };
        self.apply_event(value).inspect_err(|_| self.missed_events())
    }

    fn apply_event(&self, value: &[u8]) -> Result<(), String> {
        let event = SymbolEvent::decode(value).map_err(|error| error.to_string())?;
        let id = event.parse_debug_id().map_err(|error| error.to_string())?;
        let owner =
            event.parse_owner().map_err(|error| error.to_string())?.map_or(Owner::System, Owner::Tenant);
        if event.deleted {
            self.delete_symbols(owner.own(id), event.generation);
        } else {
            self.forget_outdated(owner.own(id), event.generation);
        }
        Ok(())
    }
}
