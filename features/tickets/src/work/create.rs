//! Makes the ticket of a group, once.

use super::current::CurrentTicket;
use super::failure::WorkFailure;
use super::{Job, TicketWorker, WorkEnd};
use crate::store;
use crate::text::{orphan_text, ticket_text, ticket_title};
use crate::ticket::RemoteTicket;
use crate::trackers::{TicketDraft, TicketSearch, TrackerFailure};
use time::Duration;
use unslide_api::feature::site::group_link;
use unslide_store::groups::{GroupUpdate, update_group};

/// Pages of tickets in which a marker is searched for.
const SEARCH_PAGES_LIMIT: u32 = 30;

impl TicketWorker {
    /// Searches for the ticket if a request of before may have made it, and makes it otherwise.
    pub(super) async fn create_ticket(&self, job: &Job<'_>) -> Result<WorkEnd, WorkFailure> {
        if job.begun.ticket.ticket_id.is_some() {
            return self.end_request(job).await.map(|()| WorkEnd::Done("found"));
        }
        let draft = TicketDraft {
            title: ticket_title(&job.begun.group),
            text: ticket_text(&self.symbolication, &self.tickets.public_url, job.tenant, &job.begun.group)
                .await
                .map_err(WorkFailure::Report)?,
            link: group_link(&self.tickets.public_url, job.begun.group.id),
            marker: job.begun.ticket.marker,
            created_at: job.begun.ticket.created_at,
        };
        if let Some(sent_at) = job.begun.ticket.sent_at {
            if let Some(found) = self.search_ticket(job, &draft).await? {
                return self.record_created(job, &found, "found").await;
            }
            let settle = self.tickets.settings.settle_millis.and_then(|millis| i64::try_from(millis).ok());
            let settle = settle.map_or_else(|| job.protocol.settle_time(), Duration::milliseconds);
            let left = sent_at + settle - self.store().now();
            if left.is_positive() {
                return Ok(WorkEnd::Wait(left));
            }
        }
        if let Some(end) = self.begin_sending(job).await? {
            return Ok(end);
        }
        let made = job.send(&job.protocol.build_create(&job.account, &draft)).await;
        let made = made.and_then(|answer| {
            let read = job.protocol.read_created(&job.account, &answer);
            read.ok_or(WorkFailure::Tracker(TrackerFailure::Unreadable))
        });
        let failure = match made {
            Ok(made) => return self.record_created(job, &made, "created").await,
            Err(failure) => failure,
        };
        if let WorkFailure::Tracker(refusal) = &failure
            && refusal.is_refusal()
        {
            // A request of before may have arrived late: then this one is refused, because there is one.
            if job.begun.ticket.sent_at.is_some()
                && matches!(refusal, TrackerFailure::Refused { .. })
                && let Some(found) = self.search_ticket(job, &draft).await?
            {
                return self.record_created(job, &found, "found").await;
            }
            let mut tx = self.store().tenant(job.tenant).await?;
            store::record_refused(&mut tx, job.request.group, job.request.marker).await?;
            tx.commit().await?;
        }
        Err(failure)
    }

    /// Records that the request to make the ticket is about to be sent. Returns an end if it must not be sent.
    async fn begin_sending(&self, job: &Job<'_>) -> Result<Option<WorkEnd>, WorkFailure> {
        let mut tx = self.store().tenant(job.tenant).await?;
        let Some(current) = CurrentTicket::lock_current(&mut tx, job.request).await? else {
            return Ok(Some(WorkEnd::Done("postponed")));
        };
        if !current.is_followed {
            let problem = current.describe_other();
            store::fail_ticket(&mut tx, current.ticket.group, current.ticket.marker, &problem).await?;
            store::drop_request(&mut tx, job.request).await?;
            tx.commit().await?;
            return Ok(Some(WorkEnd::Done("failed")));
        }
        if current.tracker_changed_at != job.row.changed_at {
            return Ok(Some(WorkEnd::Wait(Duration::ZERO)));
        }
        let is_ours = store::mark_sent(&mut tx, &current.ticket, job.request.leased_until).await?;
        tx.commit().await?;
        Ok((!is_ours).then_some(WorkEnd::Done("postponed")))
    }

    async fn search_ticket(
        &self,
        job: &Job<'_>,
        draft: &TicketDraft,
    ) -> Result<Option<RemoteTicket>, WorkFailure> {
        for page in 1..=SEARCH_PAGES_LIMIT {
            let answer = match job.send(&job.protocol.build_search(&job.account, draft, page)).await {
                Ok(answer) => answer,
                Err(WorkFailure::Tracker(TrackerFailure::Missing { .. }))
                    if job.protocol.searches_by_id() =>
                {
                    return Ok(None);
                }
                Err(failure) => return Err(failure),
            };
            match job.protocol.read_search(&job.account, draft, &answer) {
                TicketSearch::Found(found) => return Ok(Some(found)),
                TicketSearch::Absent => return Ok(None),
                TicketSearch::NextPage => {}
                TicketSearch::Unreadable => break,
            }
        }
        // It may be on a page that was not read: another one would be the second.
        Err(TrackerFailure::Unreadable.into())
    }

    /// Links the group to its new ticket, and has the ticket followed. The link of a person stays: then the ticket says so.
    async fn record_created(
        &self,
        job: &Job<'_>,
        made: &RemoteTicket,
        outcome: &'static str,
    ) -> Result<WorkEnd, WorkFailure> {
        let mut tx = self.store().tenant(job.tenant).await?;
        let Some(current) = CurrentTicket::lock_current(&mut tx, job.request).await? else {
            tx.rollback().await?;
            self.tell_orphan(job, made, None).await;
            return Ok(WorkEnd::Done("failed"));
        };
        let other = current.group.ticket_url.as_ref().filter(|url| current.is_own() && **url != made.url);
        if let Some(url) = other {
            let problem =
                format!("{} {} was made before: close it. {}", current.describe_other(), made.key, made.url);
            let (group, marker) = (current.ticket.group, current.ticket.marker);
            store::record_refused(&mut tx, group, marker).await?;
            store::fail_ticket(&mut tx, group, marker, &problem).await?;
            store::drop_request(&mut tx, job.request).await?;
            tx.commit().await?;
            self.tell_orphan(job, made, Some(url)).await;
            return Ok(WorkEnd::Done("failed"));
        }
        if current.is_own() {
            let update = GroupUpdate { ticket_url: Some(made.url.clone()), ..GroupUpdate::default() };
            update_group(&mut tx, current.group.id, None, job.actor(), &update).await?;
        }
        store::record_ticket(&mut tx, &current.ticket, made, None).await?;
        store::complete_request(&mut tx, job.request).await?;
        store::request_read(&mut tx, &job.row.name, std::slice::from_ref(&made.id)).await?;
        tx.commit().await?;
        Ok(WorkEnd::Done(outcome))
    }

    /// Says in a ticket that its group has another one.
    async fn tell_orphan(&self, job: &Job<'_>, made: &RemoteTicket, other: Option<&str>) {
        let call = job.protocol.build_comment(&job.account, &made.id, &orphan_text(&job.begun.group, other));
        let outcome =
            job.send(&call).await.map_or_else(|failure| failure.to_string(), |_| "said in it".to_owned());
        tracing::info!(tenant = %job.tenant, group = %job.begun.group.id, ticket = made.key, outcome, "a ticket has no group");
    }

    pub(super) async fn end_request(&self, job: &Job<'_>) -> Result<(), WorkFailure> {
        let mut tx = self.store().tenant(job.tenant).await?;
        store::complete_request(&mut tx, job.request).await?;
        Ok(tx.commit().await?)
    }
}
