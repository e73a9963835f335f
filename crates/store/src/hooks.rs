//! Hooks: functions of features that run in transactions of the store.

use crate::events::{Announcement, StoreEvent};
use crate::queries::session::{TimelineEvent, TimelinePage};
use crate::sessions::SessionHook;
use crate::tables::OwnedTable;
use crate::wakes::Arrived;
use crate::watched_figures::FigureHook;
use crate::{Result, Store, TenantTx, Uuid};
use std::pin::Pin;
use unslide_model::TenantId;

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
    /// Its rows that wait for symbols.
    pub symbol_waits: Option<SymbolWaits>,
    /// Lists events of a session in their order, the first after the page's position.
    pub session_events: Option<SessionEventsHook>,
    /// Answers questions of the core about sessions.
    pub sessions: Option<SessionHook>,
    /// Measures figures of apps by their names, for rules that watch them.
    pub figures: Option<FigureHook>,
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
        StoreHook {
            feature,
            tables: &[],
            on_event: None,
            symbol_waits: None,
            session_events: None,
            sessions: None,
            figures: None,
        }
    }
}

/// See [`StoreHook::session_events`].
pub type SessionEventsHook =
    for<'t> fn(&'t mut TenantTx, TimelinePage<'t>) -> HookFuture<'t, Vec<TimelineEvent>>;
/// See [`StoreHook::on_event`].
pub type EventHook = for<'e, 't> fn(&'e mut StoreEvent<'t>) -> HookFuture<'e>;

/// Rows of a feature that wait for symbols.
#[derive(Clone, Copy, Debug)]
pub struct SymbolWaits {
    /// Asks for new work on rows that have not seen these symbols. Returns the number of rows. It runs before the job
    /// ends that wakes for the symbols, again until it returns less than the limit.
    pub wake: for<'t> fn(&'t mut TenantTx, ArrivedSymbols<'t>) -> HookFuture<'t, u64>,
    /// Lists symbols that rows of all tenants have not seen although no job wakes for them.
    pub list_missed: for<'s> fn(&'s Store, SymbolPosition<'s>) -> HookFuture<'s, Vec<MissedSymbols>>,
}

/// Symbols that a wake is about.
#[derive(Clone, Copy, Debug)]
pub struct ArrivedSymbols<'t> {
    /// The symbols.
    pub arrived: &'t [Arrived],
    /// True for the system's, false for the tenant's own.
    pub is_system: bool,
    /// Rows that one call may ask for.
    pub limit: u32,
}

/// A position in a list of symbols by owner and debug id.
#[derive(Clone, Copy, Debug)]
pub struct SymbolPosition<'s> {
    /// The owner of the last symbols; empty at the beginning.
    pub owner: &'s str,
    /// Their debug id.
    pub debug_id: Uuid,
    /// Entries of a page.
    pub limit: u32,
}

/// Symbols that rows have not seen.
#[derive(Clone, Debug)]
pub struct MissedSymbols {
    /// Their owner, as the database has it.
    pub owner: String,
    /// The debug id.
    pub debug_id: Uuid,
    /// The generation that answers.
    pub generation: i64,
    /// Rows that have not seen it.
    pub waits: i64,
}

/// Lets every feature act on an event, in the order of the list. So each has acted on it before the next one is sent.
pub(crate) async fn send_event(mut event: StoreEvent<'_>) -> Result<()> {
    let hooks = event.transaction().hooks();
    for on_event in hooks.iter().filter_map(|hook| hook.on_event) {
        on_event(&mut event).await?;
    }
    Ok(())
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

/// Asks features for new work on rows that have not seen these symbols, in a transaction for each page of
/// each feature. A repeated call asks for nothing more, so a wake that ends after it loses none.
pub async fn wake_features(store: &Store, tenant: &TenantId, symbols: ArrivedSymbols<'_>) -> Result<()> {
    for waits in store.hooks().iter().filter_map(|hook| hook.symbol_waits) {
        loop {
            let mut tx = store.tenant(tenant).await?;
            let woken = (waits.wake)(&mut tx, symbols).await?;
            tx.commit().await?;
            if woken < u64::from(symbols.limit) {
                break;
            }
        }
    }
    Ok(())
}
