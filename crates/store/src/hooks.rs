//! Hooks: functions of features that run in transactions of the store.

use crate::directory::{DirectoryChange, DirectoryEntry};
use crate::events::{Announcement, BadRelease, StoreEvent};
use crate::group_links::{DescribedGroup, GroupLink};
use crate::group_tickets::{TicketAnswer, TicketRequest};
use crate::queries::session::{TimelineEvent, TimelinePage};
use crate::sessions::SessionHook;
use crate::symbol_lookups::SymbolLookup;
use crate::tables::OwnedTable;
use crate::watched_figures::FigureHook;
use crate::{KeyId, Result, TenantTx};
use std::pin::Pin;
use unslide_model::DebugId;

/// The work of a hook. If it fails, the transaction is rolled back.
pub type HookFuture<'t, T = ()> = Pin<Box<dyn Future<Output = Result<T>> + Send + 't>>;

/// The functions of one feature that run in transactions of the store. A list of hooks is the order in which
/// their rows are locked: each event is sent, and each function runs, for all features in this order before the next one.
/// A function is `None` if the feature has no part in it.
#[derive(Clone, Copy, Debug)]
pub struct StoreHook {
    /// The feature.
    pub feature: &'static str,
    /// Its tables, in the order in which it locks their rows.
    pub tables: &'static [OwnedTable],
    /// Acts on an event in its transaction.
    pub on_event: Option<EventHook>,
    /// Lists events of a session in their order, the first after the page's position.
    pub session_events: Option<SessionEventsHook>,
    /// Measures apps.
    pub measures: Option<Measures>,
}

impl StoreHook {
    /// Declares tables, without functions.
    #[must_use]
    pub const fn with_tables(feature: &'static str, tables: &'static [OwnedTable]) -> StoreHook {
        StoreHook { tables, ..StoreHook::new(feature) }
    }

    /// Makes a hook without functions and tables.
    #[must_use]
    pub const fn new(feature: &'static str) -> StoreHook {
        StoreHook { feature, tables: &[], on_event: None, session_events: None, measures: None }
    }
}

/// The functions of a feature that measures apps.
#[derive(Clone, Copy, Debug)]
pub struct Measures {
    /// Figures by their names, for rules that watch them.
    pub figures: FigureHook,
    /// Figures of sessions, with which the core computes.
    pub sessions: SessionHook,
}

/// See [`StoreHook::session_events`].
pub type SessionEventsHook =
    for<'t> fn(&'t mut TenantTx, TimelinePage<'t>) -> HookFuture<'t, Vec<TimelineEvent>>;
/// See [`StoreHook::on_event`].
pub type EventHook = for<'e, 't> fn(&'e mut StoreEvent<'t>) -> HookFuture<'e>;

/// Lets every feature act on an event, in the order of the list. So each has acted on it before the next one is sent.
pub(crate) async fn send_event(mut event: StoreEvent<'_>) -> Result<()> {
    let hooks = event.transaction().hooks();
    for on_event in hooks.iter().filter_map(|hook| hook.on_event) {
        on_event(&mut event).await?;
    }
    Ok(())
}

/// Lists the look-ups of these debug ids, ordered by place. Returns none if no feature makes look-ups.
///
/// # Errors
/// Returns an error if a feature fails.
pub async fn list_lookups(tx: &mut TenantTx, debug_ids: &[DebugId]) -> Result<Vec<SymbolLookup>> {
    let mut lookups = Vec::new();
    if !debug_ids.is_empty() {
        send_event(StoreEvent::LookupsAsked(tx, debug_ids, &mut lookups)).await?;
    }
    Ok(lookups)
}

/// Lists the links of all features about a group, in the order of the features.
///
/// # Errors
/// Returns an error if a feature fails.
pub async fn list_group_links(tx: &mut TenantTx, group: DescribedGroup<'_>) -> Result<Vec<GroupLink>> {
    let mut links = Vec::new();
    send_event(StoreEvent::GroupLinksAsked(tx, group, &mut links)).await?;
    Ok(links)
}

/// Tells features what another one announces, in the transaction in which it happens.
///
/// # Errors
/// Returns an error if a feature fails.
pub async fn announce_to_features(tx: &mut TenantTx, announcements: &[Announcement]) -> Result<()> {
    if announcements.is_empty() {
        return Ok(());
    }
    send_event(StoreEvent::Announced(tx, announcements)).await
}

/// Tells features that all sessions of the people of these keys are ended before their time.
///
/// # Errors
/// Returns an error if a feature fails.
pub async fn report_ended_sessions(tx: &mut TenantTx, keys: &[KeyId]) -> Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    send_event(StoreEvent::SessionsEnded(tx, keys)).await
}

/// Returns the entry of a person in the tenant's directory by the id that the identity provider has for them. Returns `None` if no
/// feature keeps a directory, or it does not know the person.
///
/// # Errors
/// Returns an error if a feature fails.
pub async fn find_directory_entry(tx: &mut TenantTx, id: &str) -> Result<Option<DirectoryEntry>> {
    let mut entry = None;
    send_event(StoreEvent::DirectoryAsked(tx, id, &mut entry)).await?;
    Ok(entry)
}

/// Tells features that the directory has changed people, in the transaction of the change.
///
/// # Errors
/// Returns an error if a feature fails.
pub async fn report_directory_change(tx: &mut TenantTx, change: DirectoryChange<'_>) -> Result<()> {
    if change.entries.is_empty() {
        return Ok(());
    }
    send_event(StoreEvent::DirectoryChanged(tx, change)).await
}

/// Asks the feature that makes tickets for one, in the transaction of the caller. Returns `None` if no feature makes tickets.
///
/// # Errors
/// Returns an error if a feature fails.
pub async fn request_ticket(tx: &mut TenantTx, request: TicketRequest<'_>) -> Result<Option<TicketAnswer>> {
    let mut answer = None;
    send_event(StoreEvent::TicketRequested(tx, &request, &mut answer)).await?;
    Ok(answer)
}

/// Asks the feature that checks releases which of the newest versions of an app are bad.
///
/// # Errors
/// Returns an error if a feature fails.
pub async fn list_bad_releases(tx: &mut TenantTx, app: &str) -> Result<Vec<BadRelease>> {
    let mut found = Vec::new();
    send_event(StoreEvent::ReleasesAsked(tx, app, &mut found)).await?;
    Ok(found)
}
