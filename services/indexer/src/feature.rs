//! Extension of the indexer by features.

use serde_json::{Map, Value};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use time::{Date, OffsetDateTime};
use unslide_model::{SenderKeyId, TenantId};
use unslide_proto::event::{EventArrival, EventError, GatewayEvent};
use unslide_proto::topics::TopicNames;
use unslide_report::reader::ReportReaders;
use unslide_store::gateway_events::EventOutcome;
use unslide_store::{HookFuture, Store, StoreHook, TenantTx};

/// Everything that one feature adds to the indexer.
#[derive(Clone, Copy, Debug, Default)]
pub struct IndexerFeature {
    /// The topics that the feature stores.
    pub topics: &'static [EventTopic],
    /// Changes reports before anything of them is stored, if the feature does so.
    pub rewriting: Option<ReportRewriting>,
}

/// Rewriting of reports before anything of them is stored. The identity of a report is that of its unchanged bytes.
#[derive(Clone, Copy, Debug)]
pub struct ReportRewriting {
    /// The feature, in the counts of changes.
    pub name: &'static str,
    /// Loads what the feature needs for the reports of all tenants. It gets what it loaded before.
    pub load: LoadRewriter,
}

/// See [`ReportRewriting::load`].
pub type LoadRewriter =
    for<'s> fn(&'s Store, Option<Arc<dyn RewriteReports>>) -> HookFuture<'s, Arc<dyn RewriteReports>>;

/// Rewrites reports. It runs on the CPU pool for each report, so it does no I/O.
pub trait RewriteReports: Any + Send + Sync {
    /// Returns the document of an app's report with its changes, or `None` if it stays unchanged. Addresses, images and ids
    /// must stay, and the same change must not be made again in a rewritten document.
    ///
    /// # Errors
    /// Returns why the document cannot be rewritten. It is not stored then. The text must not have parts of the document.
    fn rewrite_report(
        &self,
        tenant: &TenantId,
        app: &str,
        document: &[u8],
    ) -> Result<Option<RewrittenReport>, String>;
}

/// A report that a feature has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewrittenReport {
    pub document: Vec<u8>,
    /// Numbers of changes by words of the feature. They are stored with the report.
    pub changes: BTreeMap<String, u64>,
}

/// Everything that features add to an indexer.
#[derive(Clone, Debug, Default)]
pub struct IndexerFeatures {
    /// Their hooks, in the order in which they run.
    pub hooks: Vec<StoreHook>,
    /// Their readers of reports in other formats, in the order in which they are tried.
    pub readers: ReportReaders,
    /// Their additions to the indexer's own work.
    pub features: Vec<IndexerFeature>,
}

/// A topic of events that gateways write. The indexer checks the sender of a record and finds its tenant before
/// the feature reads the value.
#[derive(Clone, Copy, Debug)]
pub struct EventTopic {
    /// The kind of its records, in metrics and in readiness checks. No other topic may have the same.
    pub kind: &'static str,
    pub name: fn(&TopicNames) -> &str,
    /// Reads a value that arrived at this time, and with this public key: [`TopicEvent::read`] with the type of the event.
    pub read: ReadEventValue,
    /// Stable reason that is noted for a value which cannot be read.
    pub unreadable_reason: &'static str,
    /// The app's keys in its events, if they have some.
    pub keys: Option<EventKeys>,
    /// Stores a tenant's events in the order of their offsets, in the transaction of a batch, and returns the
    /// outcome of each. Events of a day before the given one have expired.
    pub store: StoreEvents,
}

/// The app's keys in events of a topic. Rewriters of reports change them before anything of the event is stored, as they change the
/// member `user` of a report.
#[derive(Clone, Copy, Debug)]
pub struct EventKeys {
    /// Returns the app of an event and its keys, or `None` if it has none.
    pub list: ListEventKeys,
    /// Returns the event with other keys, or without any.
    pub replace: fn(TopicEvent, Option<Map<String, Value>>) -> TopicEvent,
}

/// See [`EventKeys::list`].
pub type ListEventKeys = for<'e> fn(&'e TopicEvent) -> Option<AppKeys<'e>>;

/// An app's keys with their values.
#[derive(Clone, Copy, Debug)]
pub struct AppKeys<'e> {
    /// The bundle identifier.
    pub app: &'e str,
    pub keys: &'e Map<String, Value>,
}

/// See [`EventTopic::read`].
pub type ReadEventValue = fn(&[u8], OffsetDateTime, Option<SenderKeyId>) -> Result<TopicEvent, EventError>;
pub type StoreEvents =
    for<'t> fn(&'t mut TenantTx, &'t [&'t TopicEvent], Date) -> HookFuture<'t, Vec<EventOutcome>>;

/// An event of a topic, with the time of its arrival. Only its feature knows the type. Cheap to clone.
#[derive(Clone)]
pub struct TopicEvent {
    arrival: Arc<dyn Any + Send + Sync>,
    /// The day that the event counts for, for the tables of that day; `None` if it arrived too late to count.
    day: Option<Date>,
}

impl fmt::Debug for TopicEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TopicEvent").field("day", &self.day).finish_non_exhaustive()
    }
}

impl TopicEvent {
    /// Reads an event that arrived at this time, and with this public key if an app sent it.
    ///
    /// # Errors
    /// Returns an error if the bytes are no such event.
    pub fn read<E: GatewayEvent + Sync>(
        json: &[u8],
        received_at: OffsetDateTime,
        sender_key: Option<SenderKeyId>,
    ) -> Result<TopicEvent, EventError> {
        let arrival = EventArrival { event: E::read_at(json, received_at)?, received_at, sender_key };
        let day = (!arrival.is_late()).then(|| arrival.event.event_day());
        Ok(TopicEvent { arrival: Arc::new(arrival), day })
    }

    /// Returns the event and its arrival, or `None` if it is of another type.
    #[must_use]
    pub fn arrival<E: GatewayEvent + Sync>(&self) -> Option<&EventArrival<E>> {
        self.arrival.downcast_ref()
    }

    /// Returns the event with a change; an event of another type stays as it is.
    #[must_use]
    pub fn change_event<E: GatewayEvent + Sync + Clone>(self, change: impl FnOnce(&mut E)) -> TopicEvent {
        let arrival = match self.arrival.downcast::<EventArrival<E>>() {
            Ok(mut arrival) => {
                change(&mut Arc::make_mut(&mut arrival).event);
                arrival as Arc<dyn Any + Send + Sync>
            }
            Err(other) => other,
        };
        TopicEvent { arrival, day: self.day }
    }

    /// Returns the day that needs tables for the event.
    pub(crate) fn day(&self) -> Option<Date> {
        self.day
    }
}
