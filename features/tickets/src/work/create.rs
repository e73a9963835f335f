//! Makes the ticket of a group, once.

use super::failure::WorkFailure;
use super::{Job, TicketWorker, WorkEnd};
use crate::store;
use crate::text::{group_link, ticket_text, ticket_title};
use crate::ticket::RemoteTicket;
use crate::trackers::{TicketDraft, TicketSearch, TrackerFailure};
use time::Duration;
use unslide_store::groups::{GroupUpdate, update_group};

/// Pages of tickets in which a marker is searched for.
const SEARCH_PAGES_LIMIT: u32 = 5;

impl TicketWorker {
    /// Searches for the ticket if a request of before may have made it, and makes it otherwise.
    pub(super) async fn create_ticket(&self, job: &Job<'_>) -> Result<WorkEnd, WorkFailure> {
        if job.ticket.ticket_id.is_some() {
            return self.end_request(job).await.map(|()| WorkEnd::Done("found"));
        }
        let linked = job.group.ticket_url.as_ref();
        if let Some(url) = linked.filter(|_| job.ticket.sent_at.is_none()) {
            let mut tx = self.store().tenant(job.tenant).await?;
            store::fail_ticket(&mut tx, job.request.group, &format!("The group is linked to {url}.")).await?;
            store::drop_request(&mut tx, job.request).await?;
            tx.commit().await?;
            return Ok(WorkEnd::Done("failed"));
        }
        let draft = TicketDraft {
            title: ticket_title(&job.group),
            text: ticket_text(&self.symbolication, &self.tickets.public_url, job.tenant, &job.group)
                .await
                .map_err(WorkFailure::Report)?,
            link: group_link(&self.tickets.public_url, &job.group),
            marker: job.ticket.marker,
            created_at: job.ticket.created_at,
        };
        if let Some(sent_at) = job.ticket.sent_at {
            if let Some(found) = self.search_ticket(job, &draft).await? {
                self.record_created(job, &found).await?;
                return Ok(WorkEnd::Done("found"));
            }
            let settle = self.tickets.settings.settle_millis.and_then(|millis| i64::try_from(millis).ok());
            let settle = settle.map_or_else(|| job.protocol.settle_time(), Duration::milliseconds);
            let left = sent_at + settle - self.store().now();
            if left.is_positive() {
                return Ok(WorkEnd::Wait(left));
            }
        }
        let mut tx = self.store().tenant(job.tenant).await?;
        let is_ours = store::mark_sent(&mut tx, job.request.group, job.request.leased_until).await?;
        tx.commit().await?;
        if !is_ours {
            return Ok(WorkEnd::Done("postponed"));
        }
        let made = job.send(&job.protocol.build_create(&job.account, &draft)).await;
        let made = made.and_then(|answer| {
            let read = job.protocol.read_created(&job.account, &answer);
            read.ok_or(WorkFailure::Tracker(TrackerFailure::Unreadable))
        });
        match made {
            Ok(made) => self.record_created(job, &made).await.map(|()| WorkEnd::Done("created")),
            Err(failure) => {
                if let WorkFailure::Tracker(refusal) = &failure
                    && refusal.is_refusal()
                {
                    let mut tx = self.store().tenant(job.tenant).await?;
                    store::record_refused(&mut tx, job.request.group).await?;
                    tx.commit().await?;
                }
                Err(failure)
            }
        }
    }

    async fn search_ticket(
        &self,
        job: &Job<'_>,
        draft: &TicketDraft,
    ) -> Result<Option<RemoteTicket>, WorkFailure> {
        for page in 1..=SEARCH_PAGES_LIMIT {
            let answer = match job.send(&job.protocol.build_search(&job.account, draft, page)).await {
                Ok(answer) => answer,
                Err(WorkFailure::Tracker(TrackerFailure::Missing { .. })) => return Ok(None),
                Err(failure) => return Err(failure),
            };
            match job.protocol.read_search(&job.account, draft, &answer) {
                TicketSearch::Found(found) => return Ok(Some(found)),
                TicketSearch::Absent => return Ok(None),
                TicketSearch::NextPage => {}
            }
        }
        Ok(None)
    }

    /// Links the group to its new ticket, and has the ticket followed.
    async fn record_created(&self, job: &Job<'_>, made: &RemoteTicket) -> Result<(), WorkFailure> {
        let mut tx = self.store().tenant(job.tenant).await?;
        let update = GroupUpdate { ticket_url: Some(made.url.clone()), ..GroupUpdate::default() };
        update_group(&mut tx, job.group.id, None, job.actor(), &update).await?;
        store::hold_tracker(&mut tx, &job.row.name, None, None).await?;
        store::record_ticket(&mut tx, job.request.group, made).await?;
        store::complete_request(&mut tx, job.request).await?;
        store::request_read(&mut tx, &job.row.name, std::slice::from_ref(&made.id)).await?;
        Ok(tx.commit().await?)
    }

    pub(super) async fn end_request(&self, job: &Job<'_>) -> Result<(), WorkFailure> {
        let mut tx = self.store().tenant(job.tenant).await?;
        store::complete_request(&mut tx, job.request).await?;
        Ok(tx.commit().await?)
    }
}
