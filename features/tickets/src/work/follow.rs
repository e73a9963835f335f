//! Follows tickets in both directions: a ticket that is closed resolves its group, and a group that comes back opens its ticket.

use super::current::CurrentTicket;
use super::failure::WorkFailure;
use super::{Job, TicketWorker, WorkEnd};
use crate::fix_version::read_fix_version;
use crate::store::{self, StoredTicket};
use crate::text::regression_text;
use crate::ticket::{RemoteTicket, TicketState};
use crate::trackers::TrackerFailure;
use serde_json::Value;
use time::Duration;
use unslide_model::is_newer;
use unslide_store::groups::{GroupStatus, GroupUpdate, UpdateOutcome, update_group};
use unslide_store::queries::groups::ListedGroup;
use unslide_store::{GroupId, TenantTx};

impl TicketWorker {
    /// Reads a ticket, and changes its group if the ticket was closed or opened since it was read last.
    pub(super) async fn read_ticket(&self, job: &Job<'_>) -> Result<WorkEnd, WorkFailure> {
        let remote = self.fetch_ticket(job).await?;
        let mut tx = self.store().tenant(job.tenant).await?;
        let Some(current) = CurrentTicket::lock_current(&mut tx, job.request).await? else {
            return Ok(WorkEnd::Done("postponed"));
        };
        // The answer may be older than a regression, or than what another process has read since: it would undo that.
        if current.ticket.read_at != job.begun.ticket.read_at
            || current.group.regressed_at != job.begun.group.regressed_at
            || store::awaits_reopening(&mut tx, current.ticket.group).await?
        {
            store::postpone_request(&mut tx, job.request, Duration::ZERO, None).await?;
            tx.commit().await?;
            return Ok(WorkEnd::Done("postponed"));
        }
        let mut problem = None;
        if current.is_followed {
            let mut update = find_change(&current.ticket, &remote, &current.group);
            if current.is_own() && current.group.ticket_url.as_ref() != Some(&remote.url) {
                update.get_or_insert_default().ticket_url = Some(remote.url.clone());
            }
            if let Some(update) = update {
                change_group(&mut tx, job, current.group.id, &update).await?;
            }
        } else {
            problem = Some(current.describe_other());
        }
        store::record_ticket(&mut tx, &current.ticket, &remote, problem.as_deref()).await?;
        store::complete_request(&mut tx, job.request).await?;
        tx.commit().await?;
        Ok(WorkEnd::Done("read"))
    }

    async fn fetch_ticket(&self, job: &Job<'_>) -> Result<RemoteTicket, WorkFailure> {
        let id = job.begun.ticket.ticket_id.as_deref().unwrap_or_default();
        let answer = job.send(&job.protocol.build_read(&job.account, id)).await?;
        let missing = || TrackerFailure::Missing { status: 404, words: String::new() };
        if answer.pointer("/data/issue").is_some_and(Value::is_null) {
            return Err(missing().into());
        }
        Ok(job.protocol.read_ticket(&job.account, &answer).ok_or(TrackerFailure::Unreadable)?)
    }

    /// Opens the ticket of a group that came back, and says which version has it. The comment is sent at most once, also if the
    /// tracker's answer to it is lost.
    pub(super) async fn reopen_ticket(&self, job: &Job<'_>) -> Result<WorkEnd, WorkFailure> {
        let mut remote = self.fetch_ticket(job).await?;
        let mut tx = self.store().tenant(job.tenant).await?;
        let Some(current) = CurrentTicket::lock_current(&mut tx, job.request).await? else {
            return Ok(WorkEnd::Done("postponed"));
        };
        if current.group.status != GroupStatus::Regressed || !current.is_followed {
            // A person was faster.
            store::complete_request(&mut tx, job.request).await?;
            tx.commit().await?;
            return Ok(WorkEnd::Done("read"));
        }
        tx.rollback().await?;
        if remote.state != TicketState::Open {
            let ways = match job.protocol.build_ways(&job.account, &remote.id) {
                Some(call) => job.send(&call).await?,
                None => Value::Null,
            };
            if let Some(call) = job.protocol.build_reopen(&job.account, &remote.id, &ways) {
                job.send(&call).await?;
                remote.state = TicketState::Open;
            }
        }
        // The state is recorded before a hook tells of it, so that it changes nothing here.
        let mut tx = self.store().tenant(job.tenant).await?;
        let Some(current) = CurrentTicket::lock_current(&mut tx, job.request).await? else {
            return Ok(WorkEnd::Done("postponed"));
        };
        let regressed_at = current.group.regressed_at.unwrap_or(job.request.asked_at);
        let is_first = store::mark_told(&mut tx, &current.ticket, regressed_at).await?;
        store::record_ticket(&mut tx, &current.ticket, &remote, None).await?;
        tx.commit().await?;
        if is_first {
            let version = job.request.version.as_deref().unwrap_or_default();
            let text = regression_text(&self.tickets.public_url, &current.group, version);
            let said = job.send(&job.protocol.build_comment(&job.account, &remote.id, &text)).await;
            if let Err(WorkFailure::Tracker(limit @ TrackerFailure::Limited { .. })) = said {
                // The tracker has not taken it: the next attempt sends it.
                let mut tx = self.store().tenant(job.tenant).await?;
                store::restore_told(&mut tx, &current.ticket, regressed_at).await?;
                tx.commit().await?;
                return Err(limit.into());
            }
            if let Err(failure) = said {
                tracing::info!(tenant = %job.tenant, group = %current.group.id, error = %failure, "a comment was not sent");
            }
        }
        self.end_request(job).await?;
        Ok(WorkEnd::Done("reopened"))
    }
}

/// Returns the change of a group that follows from its ticket. Only a change of the ticket changes the group, and only if it has
/// another status by now.
fn find_change(before: &StoredTicket, now: &RemoteTicket, group: &ListedGroup) -> Option<GroupUpdate> {
    let needs_attention = matches!(group.status, GroupStatus::Open | GroupStatus::Regressed);
    let was_closed = matches!(before.state, TicketState::Done | TicketState::Dropped);
    match now.state {
        TicketState::Done if before.state != TicketState::Done && needs_attention => {
            Some(resolve(now, group))
        }
        // A version that is named later.
        TicketState::Done
            if now.fix_version != before.fix_version && group.status == GroupStatus::Resolved =>
        {
            Some(resolve(now, group)).filter(|update| update.resolved_in.is_some())
        }
        TicketState::Open if was_closed && !needs_attention => {
            Some(GroupUpdate { status: Some(GroupStatus::Open), ..GroupUpdate::default() })
        }
        _ => None,
    }
}

/// Resolves a group in the version that its ticket names, or in the next one: also if the named version has the bug already.
fn resolve(ticket: &RemoteTicket, group: &ListedGroup) -> GroupUpdate {
    let named = ticket.fix_version.as_deref().and_then(read_fix_version);
    let resolved_in = named.filter(|version| is_newer(version, &group.last_version)).map(str::to_owned);
    GroupUpdate {
        status: Some(GroupStatus::Resolved),
        resolved_in_next: resolved_in.is_none(),
        resolved_in,
        ..GroupUpdate::default()
    }
}

/// Changes a group. One without any known version is resolved without one.
async fn change_group(
    tx: &mut TenantTx,
    job: &Job<'_>,
    group: GroupId,
    update: &GroupUpdate,
) -> Result<(), WorkFailure> {
    let outcome = update_group(tx, group, None, job.actor(), update).await?;
    if outcome == UpdateOutcome::NoVersion {
        let plain = GroupUpdate { resolved_in_next: false, ..update.clone() };
        update_group(tx, group, None, job.actor(), &plain).await?;
    }
    Ok(())
}
