//! Places in a document for our members.

use std::ops::Range;

/// The place of our member in an object of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberPlace {
    /// The offset of the closing brace of the object.
    pub insert_at: usize,
    /// True if the object has members other than ours.
    pub has_members: bool,
    /// The bytes of our member, including its comma, in an enriched document.
    pub own_member: Option<Range<usize>>,
}

impl MemberPlace {
    /// Returns the place in a document that is not enriched: a member with our key is another program's.
    pub(crate) fn without_own(self) -> MemberPlace {
        let has_members = self.has_members || self.own_member.is_some();
        MemberPlace { has_members, own_member: None, ..self }
    }
}
