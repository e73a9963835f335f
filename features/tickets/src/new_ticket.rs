//! Has the ticket of a group made: for the API and the page, and for other features.

use crate::store::{self, NewTicketRow, TrackerRow};
use crate::ticket::TicketState;
use unslide_store::group_tickets::{TicketAnswer, TicketRequest};
use unslide_store::groups::{GroupUpdate, UpdateOutcome, update_group};
use unslide_store::queries::groups::find_group;
use unslide_store::{GroupId, Result, TenantTx};

/// The outcome of a request for a ticket.
#[derive(Clone, Debug)]
pub enum TicketOutcome {
    /// The ticket will be made in the tracker of this name.
    Requested(String),
    /// The group has a ticket with this address.
    Exists(String),
    NoGroup,
    /// The group counts for this one.
    Merged(GroupId),
    NoTracker(TrackerChoiceError),
    /// The tracker was removed at this moment.
    TrackerRemoved,
}

/// Why no tracker was chosen, with the names of those that the tenant has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrackerChoiceError {
    #[error("tracker: the tenant has none; an administrator sets one with PUT /v1/trackers")]
    Absent,
    #[error("tracker: there is no {name:?}; the tenant has {names}")]
    Unknown { name: String, names: String },
    #[error("tracker: name one of {0}")]
    Several(String),
}

impl TicketOutcome {
    /// Returns the answer for another feature, which names no tracker.
    fn into_answer(self) -> TicketAnswer {
        let refused = |reason: &str| TicketAnswer::Refused(reason.to_owned());
        match self {
            TicketOutcome::Requested(tracker) => TicketAnswer::Requested(tracker),
            TicketOutcome::Exists(url) => TicketAnswer::Exists(url),
            TicketOutcome::NoGroup => refused("the bug is gone, or your account may not see it"),
            TicketOutcome::Merged(_) => refused("the bug is merged into another one"),
            TicketOutcome::NoTracker(TrackerChoiceError::Several(names)) => TicketAnswer::Refused(format!(
                "the tenant has several trackers ({names}), and not one for this app: choose one on the page of the bug"
            )),
            TicketOutcome::NoTracker(_) => {
                refused("the tenant has no tracker: an administrator sets one on the page Trackers")
            }
            TicketOutcome::TrackerRemoved => refused("the tracker was removed at this moment"),
        }
    }
}

/// Returns the tracker of a name. Without a name it is the only one, or the only one with a rule for the app.
///
/// # Errors
/// [`TrackerChoiceError`].
pub fn choose_tracker(
    trackers: Vec<TrackerRow>,
    name: Option<&str>,
    app: &str,
) -> std::result::Result<TrackerRow, TrackerChoiceError> {
    let names: Vec<&str> = trackers.iter().map(|row| row.name.as_str()).collect();
    let error = match name {
        _ if names.is_empty() => TrackerChoiceError::Absent,
        Some(name) => TrackerChoiceError::Unknown { name: name.to_owned(), names: names.join(", ") },
        None => TrackerChoiceError::Several(names.join(", ")),
    };
    let is_only = trackers.len() == 1;
    let fits = |row: &TrackerRow| match name {
        Some(name) => row.name == name,
        None => is_only || row.rule_app.as_deref() == Some(app),
    };
    let mut fitting = trackers.into_iter().filter(fits);
    let chosen = fitting.next().ok_or_else(|| error.clone())?;
    if fitting.next().is_some() { Err(error) } else { Ok(chosen) }
}

/// Has the ticket of a group made, unless there is one or it is being made.
pub async fn ask_for_ticket(
    tx: &mut TenantTx,
    request: &TicketRequest<'_>,
    tracker: Option<&str>,
) -> Result<TicketOutcome> {
    // Locks the group: no person links it to another ticket before this one is recorded.
    let update = GroupUpdate::default();
    let id = match update_group(tx, request.group, request.app, request.actor, &update).await? {
        UpdateOutcome::Done(id) => id,
        UpdateOutcome::Merged(into) => return Ok(TicketOutcome::Merged(into)),
        UpdateOutcome::NotFound | UpdateOutcome::NoVersion => return Ok(TicketOutcome::NoGroup),
    };
    let Some(group) = find_group(tx, id, request.app).await? else { return Ok(TicketOutcome::NoGroup) };
    // Also one of a group that is merged into it.
    let known = store::get_ticket(tx, id).await?;
    if let Some(url) = group.ticket_url.or_else(|| known.as_ref()?.url.clone()) {
        return Ok(TicketOutcome::Exists(url));
    }
    let tracker = match choose_tracker(store::list_trackers(tx).await?, tracker, &group.app) {
        Ok(tracker) => tracker.name,
        Err(error) => return Ok(TicketOutcome::NoTracker(error)),
    };
    if store::keep_tracker(tx, &tracker).await?.is_none() {
        return Ok(TicketOutcome::TrackerRemoved);
    }
    let making = known.filter(|known| known.state == TicketState::Creating);
    // A request that is sent again does not hurry one that waits after a failure.
    if let Some(making) = making
        && (making.group != id || making.tracker == tracker)
    {
        return Ok(TicketOutcome::Requested(making.tracker));
    }
    let row = NewTicketRow { group: id, tracker: &tracker, asked_by: request.actor.actor };
    store::add_ticket(tx, row).await?;
    Ok(TicketOutcome::Requested(tracker))
}

/// Has a ticket made for another feature.
pub async fn answer_request(tx: &mut TenantTx, request: &TicketRequest<'_>) -> Result<TicketAnswer> {
    Ok(ask_for_ticket(tx, request, None).await?.into_answer())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticket::TrackerKind;
    use time::OffsetDateTime;

    fn tracker(name: &str, rule_app: Option<&str>) -> TrackerRow {
        TrackerRow {
            name: name.to_owned(),
            id: "0b5c1d2e-0000-4000-8000-000000000001".parse().unwrap(),
            kind: TrackerKind::Github,
            url: String::new(),
            project: String::new(),
            account: None,
            issue_type: None,
            labels: Vec::new(),
            fields: None,
            sealed_token: Vec::new(),
            sealed_hook_secret: Vec::new(),
            rule_reports: None,
            rule_app: rule_app.map(str::to_owned),
            changed_at: OffsetDateTime::UNIX_EPOCH,
            failures: 0,
            not_before: None,
            problem: None,
        }
    }

    #[test]
    fn without_a_name_the_only_tracker_or_the_only_one_of_the_app_is_chosen() {
        let choose = |trackers: &[TrackerRow], name| {
            choose_tracker(trackers.to_vec(), name, "com.example.shop").map(|row| row.name)
        };
        let (main, ops) = (tracker("main", None), tracker("ops", None));
        let shop = tracker("shop", Some("com.example.shop"));
        assert_eq!(choose(&[], None), Err(TrackerChoiceError::Absent));
        assert_eq!(choose(&[], Some("main")), Err(TrackerChoiceError::Absent));
        assert_eq!(choose(&[tracker("other", Some("com.example.other"))], None), Ok("other".to_owned()));
        let several = Err(TrackerChoiceError::Several("main, ops".to_owned()));
        assert_eq!(choose(&[main.clone(), ops], None), several);
        assert_eq!(choose(&[main.clone(), shop.clone()], None), Ok("shop".to_owned()));
        assert_eq!(choose(&[main.clone(), shop.clone()], Some("main")), Ok("main".to_owned()));
        let unknown = choose(&[main, shop.clone()], Some("x")).unwrap_err().to_string();
        assert_eq!(unknown, "tracker: there is no \"x\"; the tenant has main, shop");
        let twice = [shop.clone(), tracker("shop2", Some("com.example.shop"))];
        assert!(choose(&twice, None).is_err());
    }
}
