//! Finds the places of our members in objects of a document.

use super::Ours;
use crate::json::{MemberPlace, PassedObject, Value};

impl<'a> Value<'a> {
    /// Returns the place of our member in an object that holds a frame. `is_enriched` is true if the document's own member
    /// is ours.
    #[must_use]
    pub fn frame_place(self, is_enriched: bool) -> Option<MemberPlace> {
        let (place, _) = self.place()?;
        if is_enriched { Some(place) } else { Some(place.without_own()) }
    }

    /// Returns the place of our member in the object that holds the report.
    #[must_use]
    pub fn report_place(self) -> Option<MemberPlace> {
        let (place, own) = self.place()?;
        let is_ours = own.is_some_and(|own| Ours::from_value(own).is_some());
        Some(if is_ours { place } else { place.without_own() })
    }

    /// Returns the place of our member in an object, and the value of its last member if that is an object with our key.
    fn place(self) -> Option<(MemberPlace, Option<Value<'a>>)> {
        if !self.is_object() {
            return None;
        }
        let (mut own, mut value) = (None, None);
        let passed = self.scanner().read_members(|s, member| {
            let at = s.current_value();
            s.skip_value()?;
            let is_own = member.has_key("symbolication") && at.is_object();
            own = is_own.then(|| member.separator..s.pos());
            value = is_own.then_some(at);
            Ok(())
        });
        let Ok(PassedObject { close, count }) = passed else { return None };
        let has_members = count > usize::from(own.is_some());
        Some((MemberPlace { insert_at: close, has_members, own_member: own }, value))
    }
}
