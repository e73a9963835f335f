//! Stores the events that gateways send for a tenant, through the features of their topics.

use super::{BatchWriter, Tally};
use crate::feature::TopicEvent;
use crate::records::Item;
use crate::records::enriched::Unreadable;
use crate::records::event::ReadEvent;
use time::Date;
use unslide_model::TenantId;
use unslide_store::gateway_events::EventOutcome;
use unslide_store::{BatchTx, StoreError, TenantTx, retention, tenants};

/// Decides which of a tenant's events are kept.
enum EventsKept {
    /// Events from this day on are kept.
    From(Date),
    /// The tenant was deleted: no events are kept.
    Deleted,
    /// The events are unreadable: none are kept.
    Nothing,
}

impl BatchWriter {
    /// Stores the events of one tenant from one topic. Events of a tenant that does not exist or is suspended
    /// are unreadable.
    pub(super) async fn store_events<'i>(
        &self,
        tx: &mut BatchTx,
        tenant: &TenantId,
        events: &[(&'i Item, &ReadEvent)],
        unreadable: &mut Vec<(&'i Item, Unreadable)>,
        tally: &mut Tally,
    ) -> Result<(), StoreError> {
        let Some((_, ReadEvent { topic, .. })) = events.first() else { return Ok(()) };
        let tx = tx.enter_tenant(tenant).await?;
        let outcomes = match self.events_kept(tx, tenant, events, unreadable).await? {
            EventsKept::From(day) => {
                let own: Vec<&TopicEvent> = events.iter().map(|(_, read)| &read.event).collect();
                (topic.store)(tx, &own, day).await?
            }
            EventsKept::Deleted => vec![EventOutcome::Deleted; events.len()],
            EventsKept::Nothing => Vec::new(),
        };
        let new = outcomes.iter().filter(|outcome| **outcome == EventOutcome::New).count();
        tally.new.push((tenant.clone(), new as u64));
        tally.events.extend(outcomes.into_iter().map(|outcome| (topic.kind, outcome)));
        Ok(())
    }

    /// Returns which events from gateways are kept for the transaction's tenant.
    async fn events_kept<'i>(
        &self,
        tx: &mut TenantTx,
        tenant: &TenantId,
        events: &[(&'i Item, &ReadEvent)],
        unreadable: &mut Vec<(&'i Item, Unreadable)>,
    ) -> Result<EventsKept, StoreError> {
        let reason = match tenants::read_standing(tx).await? {
            None => "unknown_tenant",
            Some(tenants::TenantStanding::Suspended) => "tenant_suspended",
            Some(tenants::TenantStanding::Deleted) => return Ok(EventsKept::Deleted),
            Some(tenants::TenantStanding::Active) => {
                let limit = tenants::get(tx).await?.map_or(0, |row| row.limits.retention_days);
                let days = retention::kept_days(limit, self.keep_days, self.remember_days);
                return Ok(EventsKept::From(self.keep_from(days).date()));
            }
        };
        let refused = || Unreadable { reason, detail: tenant.to_string() };
        unreadable.extend(events.iter().map(|(item, _)| (*item, refused())));
        Ok(EventsKept::Nothing)
    }
}
