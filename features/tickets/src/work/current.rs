//! The group and the ticket of a request, as they are when work begins and again when an answer is recorded: people, reports and
//! other processes change them while a tracker is asked.

use crate::store::{self, ClaimedRequest, StoredTicket};
use time::OffsetDateTime;
use unslide_store::groups::{GroupActor, GroupUpdate, UpdateOutcome, update_group};
use unslide_store::queries::groups::{ListedGroup, find_group};
use unslide_store::{Result, TenantTx};

/// A ticket and its group, locked until the transaction ends.
pub struct CurrentTicket {
    pub ticket: StoredTicket,
    /// The group that counts the reports: the ticket's own, or the one that it is merged into.
    pub group: ListedGroup,
    /// True if the group follows this ticket, and no other one that a person gave it or that it had before a merge.
    pub is_followed: bool,
    pub tracker_changed_at: OffsetDateTime,
}

impl CurrentTicket {
    /// Locks the group, the settings of the tracker and the ticket of a request. Returns None if a person has linked another ticket,
    /// or the group or the tracker is gone.
    pub async fn lock_current(tx: &mut TenantTx, request: &ClaimedRequest) -> Result<Option<CurrentTicket>> {
        let found = store::find_counting_groups(tx, &[request.group]).await?;
        let Some(mut id) = found.into_iter().flatten().next() else { return Ok(None) };
        let actor = GroupActor { actor: crate::NAME, name: Some(&request.tracker) };
        // It may be merged at this moment.
        while let UpdateOutcome::Merged(into) =
            update_group(tx, id, None, actor, &GroupUpdate::default()).await?
        {
            id = into;
        }
        let Some(group) = find_group(tx, id, None).await? else { return Ok(None) };
        let Some(tracker_changed_at) = store::keep_tracker(tx, &request.tracker).await? else {
            return Ok(None);
        };
        let Some(ticket) = store::lock_ticket(tx, request.group, request.marker).await? else {
            return Ok(None);
        };
        let counting = store::get_ticket(tx, group.id).await?;
        let is_followed = counting.is_some_and(|counting| counting.marker == ticket.marker)
            && group.ticket_url.as_ref().is_none_or(|url| ticket.url.as_ref() == Some(url));
        Ok(Some(CurrentTicket { ticket, group, is_followed, tracker_changed_at }))
    }

    /// Returns true if the ticket is that of the group itself, and not of one that is merged into it.
    pub fn is_own(&self) -> bool {
        self.ticket.group == self.group.id
    }

    /// Says which ticket the group has instead.
    pub fn describe_other(&self) -> String {
        match &self.group.ticket_url {
            Some(url) => format!("The group is linked to {url}."),
            None => "The group is merged with one that has a ticket.".to_owned(),
        }
    }
}
