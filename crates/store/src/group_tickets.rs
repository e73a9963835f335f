//! Tickets of groups, which one feature makes and other features ask for.

use crate::groups::GroupActor;
use crate::{GroupId, HookFuture, Result, Store, TenantTx};

/// A request for the ticket of a group.
#[derive(Clone, Copy, Debug)]
pub struct TicketRequest<'t> {
    /// The group.
    pub group: GroupId,
    /// The only app whose groups the actor may change; every app if absent.
    pub app: Option<&'t str>,
    /// Who asks.
    pub actor: GroupActor<'t>,
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

/// See [`StoreHook::request_ticket`](crate::StoreHook::request_ticket).
pub type TicketHook = for<'t> fn(&'t mut TenantTx, TicketRequest<'t>) -> HookFuture<'t, TicketAnswer>;

/// Returns true if a feature makes tickets.
#[must_use]
pub fn makes_tickets(store: &Store) -> bool {
    store.hooks().iter().any(|hook| hook.request_ticket.is_some())
}

/// Asks the feature that makes tickets for one, in the transaction of the caller. Returns `None` if no feature makes tickets.
///
/// # Errors
/// Returns an error if the feature fails.
pub async fn request_ticket(tx: &mut TenantTx, request: TicketRequest<'_>) -> Result<Option<TicketAnswer>> {
    let hook = tx.hooks().iter().find_map(|hook| hook.request_ticket);
    match hook {
        Some(request_ticket) => Ok(Some(request_ticket(tx, request).await?)),
        None => Ok(None),
    }
}
