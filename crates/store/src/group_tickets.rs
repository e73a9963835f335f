//! Tickets of groups, which one feature makes and other features ask for.

use crate::GroupId;
use crate::groups::GroupActor;

/// A request for the ticket of a group.
#[derive(Clone, Copy, Debug)]
pub struct TicketRequest<'r> {
    /// The group.
    pub group: GroupId,
    /// The only app of which the actor may change groups; every app if absent.
    pub app: Option<&'r str>,
    /// Who asks.
    pub actor: GroupActor<'r>,
}

/// The answer to a request for a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TicketAnswer {
    /// The ticket will be made in the tracker of this name.
    Requested(String),
    /// The group has a ticket with this address.
    Exists(String),
    /// No ticket is made. A clause says why, such as `the tenant has no tracker`.
    Refused(String),
}
