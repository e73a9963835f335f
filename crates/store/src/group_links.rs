//! Links about groups, which features have and texts about groups show.

use crate::GroupId;

/// A group that is described outside the console, such as in a ticket.
#[derive(Clone, Copy, Debug)]
pub struct DescribedGroup<'g> {
    /// Its id.
    pub id: GroupId,
    /// Its app.
    pub app: &'g str,
}

/// A link about a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLink {
    /// The text of the link.
    pub text: String,
    /// The address. The feature has made it, and has checked every part of it that a client gave.
    pub url: String,
}
