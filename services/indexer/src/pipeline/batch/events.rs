//! Stores the events that gateways send for a tenant, through the features of their topics.

use super::{BatchWriter, Tally};
use crate::feature::TopicEvent;
use crate::records::Item;
use crate::records::enriched::Unreadable;
use crate::records::event::ReadEvent;
use time::Date;
use unslide_model::TenantId;
use unslide_store::gateway_events::EventOutcome;
use unslide_store::tenants::{self, TenantStanding};
use unslide_store::{BatchTx, StoreError, TenantTx, place, retention};

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
    /// are unreadable. Returns false, and stores nothing, if another cell may be serving the tenant.
    pub(super) async fn store_events<'i>(
        &self,
        tx: &mut BatchTx,
        tenant: &TenantId,
        events: &[(&'i Item, &ReadEvent)],
        unreadable: &mut Vec<(&'i Item, Unreadable)>,
        tally: &mut Tally,
    ) -> Result<bool, StoreError> {
        let Some((_, ReadEvent { topic, .. })) = events.first() else { return Ok(true) };
        let (tx, handling) = place::enter_tenant(tx, tenant).await?;
        if handling.is_some_and(|handling| handling.is_elsewhere()) {
            return Ok(false);
        }
        let standing = handling.map(|handling| handling.standing);
        let outcomes = match self.events_kept(tx, standing, tenant, events, unreadable).await? {
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
        Ok(true)
    }

    /// Returns which events from gateways are kept for the transaction's tenant.
    async fn events_kept<'i>(
        &self,
        tx: &mut TenantTx,
        standing: Option<TenantStanding>,
        tenant: &TenantId,
        events: &[(&'i Item, &ReadEvent)],
        unreadable: &mut Vec<(&'i Item, Unreadable)>,
    ) -> Result<EventsKept, StoreError> {
        let reason = match standing {
            None => "unknown_tenant",
            Some(TenantStanding::Suspended) => "tenant_suspended",
            Some(TenantStanding::Deleted) => return Ok(EventsKept::Deleted),
            Some(TenantStanding::Active) => {
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
