//! Stores the events that gateways send for a tenant: session events and metric payloads.

use super::{BatchWriter, Tally};
use crate::records::Item;
use crate::records::enriched::Unreadable;
use crate::records::event::{ReadMetrics, ReadSession};
use time::Date;
use unslide_model::TenantId;
use unslide_store::gateway_events::EventOutcome;
use unslide_store::{BatchTx, StoreError, TenantTx, metrics, retention, sessions, tenants};

/// Decides which of a tenant's session events and metric payloads are kept.
enum EventsKept {
    /// Events from this day on are kept.
    From(Date),
    /// The tenant was deleted: no events are kept.
    Deleted,
    /// The events are unreadable: none are kept.
    Nothing,
}

impl BatchWriter {
    /// Stores the session events of one tenant. Events of a tenant that does not exist or is suspended are
    /// unreadable.
    pub(super) async fn store_sessions<'i>(
        &self,
        tx: &mut BatchTx,
        tenant: &TenantId,
        events: &[(&'i Item, &ReadSession)],
        unreadable: &mut Vec<(&'i Item, Unreadable)>,
        tally: &mut Tally,
    ) -> Result<(), StoreError> {
        let tx = tx.enter(tenant).await?;
        match self.events_kept(tx, tenant, events, unreadable).await? {
            EventsKept::From(day) => {
                let own: Vec<_> = events.iter().map(|(_, session)| &session.arrival).collect();
                tally.sessions.extend(sessions::store(tx, &own, day).await?);
            }
            EventsKept::Deleted => tally.sessions.extend(events.iter().map(|_| EventOutcome::Deleted)),
            EventsKept::Nothing => {}
        }
        Ok(())
    }

    /// Stores the metric payloads of one tenant, by the same rules.
    pub(super) async fn store_metrics<'i>(
        &self,
        tx: &mut BatchTx,
        tenant: &TenantId,
        payloads: &[(&'i Item, &ReadMetrics)],
        unreadable: &mut Vec<(&'i Item, Unreadable)>,
        tally: &mut Tally,
    ) -> Result<(), StoreError> {
        let tx = tx.enter(tenant).await?;
        match self.events_kept(tx, tenant, payloads, unreadable).await? {
            EventsKept::From(day) => {
                let own: Vec<_> = payloads.iter().map(|(_, payload)| &payload.arrival).collect();
                tally.payloads.extend(metrics::store(tx, &own, day).await?);
            }
            EventsKept::Deleted => tally.payloads.extend(payloads.iter().map(|_| EventOutcome::Deleted)),
            EventsKept::Nothing => {}
        }
        Ok(())
    }

    /// Returns which events from gateways are kept for the transaction's tenant.
    async fn events_kept<'i, E>(
        &self,
        tx: &mut TenantTx,
        tenant: &TenantId,
        events: &[(&'i Item, &E)],
        unreadable: &mut Vec<(&'i Item, Unreadable)>,
    ) -> Result<EventsKept, StoreError> {
        let reason = match tenants::standing(tx).await? {
            None => "unknown_tenant",
            Some(tenants::TenantStanding::Suspended) => "tenant_suspended",
            Some(tenants::TenantStanding::Deleted) => return Ok(EventsKept::Deleted),
            Some(tenants::TenantStanding::Active) => {
                let limit = tenants::get(tx).await?.map_or(0, |row| row.limits.retention_days);
                let days = retention::days(limit, self.keep_days, self.remember_days);
                return Ok(EventsKept::From(self.keep_from(days).date()));
            }
        };
        let refused = || Unreadable { reason, detail: tenant.to_string() };
        unreadable.extend(events.iter().map(|(item, _)| (*item, refused())));
        Ok(EventsKept::Nothing)
    }
}
