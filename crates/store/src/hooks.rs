//! Hooks: functions of features that run in transactions of the store.

use crate::groups::GroupEvent;
use crate::queries::person::FindSessionsHook;
use crate::queries::session::{TimelineEvent, TimelinePage};
use crate::slots::PublishedSymbols;
use crate::tables::OwnedTable;
use crate::wakes::Arrived;
use crate::watched_figures::FigureHook;
use crate::{OwnerTx, Result, Store, TenantTx, Uuid};
use serde_json::Value;
use std::pin::Pin;
use unslide_model::{DebugId, ReportId, TenantId};

/// The work of a hook. If it fails, the transaction is rolled back.
pub type HookFuture<'t, T = ()> = Pin<Box<dyn Future<Output = Result<T>> + Send + 't>>;

/// The functions of one feature that run in transactions of the store. A list of hooks is the order in which
/// their rows are locked: each function runs for all features, in this order, before the next one. A function
/// is `None` if the feature has no part in it.
#[derive(Clone, Copy, Debug)]
pub struct StoreHook {
    /// The feature.
    pub feature: &'static str,
    /// Its tables, in the order in which it locks their rows.
    pub tables: &'static [OwnedTable],
    /// Runs once reports and their groups are written, with the groups that are new or came back.
    pub groups_changed: Option<for<'t> fn(&'t mut TenantTx, &'t [GroupEvent]) -> HookFuture<'t>>,
    /// Runs once groups are deleted, with their ids.
    pub groups_deleted: Option<for<'t> fn(&'t mut TenantTx, &'t [Uuid]) -> HookFuture<'t>>,
    /// Runs last in a transaction that stores reports, with these and their groups.
    pub reports_stored: Option<for<'t> fn(&'t mut TenantTx, &'t StoredReports) -> HookFuture<'t>>,
    /// Runs last when symbols of a tenant come to answer for a debug id. Their generation is that of the slot.
    pub symbols_published: Option<for<'t> fn(&'t mut OwnerTx, &'t PublishedSymbols) -> HookFuture<'t>>,
    /// Runs at once when a feature announces something.
    pub announced: Option<for<'t> fn(&'t mut TenantTx, &'t [Announcement]) -> HookFuture<'t>>,
    /// Asks for new work on rows that have not seen these symbols. Returns the number of rows. It runs before the job
    /// ends that wakes for the symbols, again until it returns less than the limit.
    pub symbols_arrived: Option<for<'t> fn(&'t mut TenantTx, ArrivedSymbols<'t>) -> HookFuture<'t, u64>>,
    /// Finds symbols that rows of all tenants have not seen although no job wakes for them.
    pub missed_symbols: Option<MissedSymbolsHook>,
    /// Runs when a tenant's symbols of a debug id are deleted.
    pub symbols_deleted: Option<for<'t> fn(&'t mut OwnerTx, &'t DebugId) -> HookFuture<'t>>,
    /// Lists events of a session in their order, the first after the page's position.
    pub session_events: Option<SessionEventsHook>,
    /// Finds the sessions of an installation or a user for a search, those that ended badly first.
    pub find_sessions: Option<FindSessionsHook>,
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
            groups_changed: None,
            groups_deleted: None,
            reports_stored: None,
            symbols_published: None,
            announced: None,
            symbols_arrived: None,
            missed_symbols: None,
            symbols_deleted: None,
            session_events: None,
            find_sessions: None,
            figures: None,
        }
    }
}

/// A report that a transaction stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredReport {
    /// Its id.
    pub id: ReportId,
    /// Which report of this id it is.
    pub variant: u32,
    /// Its app, as its row has it.
    pub app: String,
    /// Its revision.
    pub revision: u32,
    /// True if no revision of it was stored before.
    pub is_new: bool,
}

/// Reports that a transaction stores for a tenant, and their groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredReports {
    /// Without duplicates and superseded revisions.
    pub reports: Vec<StoredReport>,
    /// The groups that are new or came back.
    pub groups: Vec<GroupEvent>,
}

/// An event that a feature announces to the other features of a tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct Announcement {
    /// A word for what happened, in lower case.
    pub kind: &'static str,
    /// The app, if it concerns one.
    pub app: Option<String>,
    /// More of it, for clients.
    pub data: Value,
}

/// Tells features what another one announces, in the transaction in which it happens.
///
/// # Errors
/// Returns an error if a hook fails.
pub async fn announce_to_features(tx: &mut TenantTx, announcements: &[Announcement]) -> Result<()> {
    if announcements.is_empty() {
        return Ok(());
    }
    for hook in tx.hooks().iter().filter_map(|hook| hook.announced) {
        hook(tx, announcements).await?;
    }
    Ok(())
}

/// See [`StoreHook::session_events`].
pub type SessionEventsHook =
    for<'t> fn(&'t mut TenantTx, TimelinePage<'t>) -> HookFuture<'t, Vec<TimelineEvent>>;
/// See [`StoreHook::missed_symbols`].
pub type MissedSymbolsHook = for<'s> fn(&'s Store, SymbolPosition<'s>) -> HookFuture<'s, Vec<MissedSymbols>>;

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

/// Runs the hooks for groups that are new or came back.
pub(crate) async fn groups_changed(tx: &mut TenantTx, events: &[GroupEvent]) -> Result<()> {
    for hook in tx.hooks().iter().filter_map(|hook| hook.groups_changed) {
        hook(tx, events).await?;
    }
    Ok(())
}

/// Runs the hooks for groups that are deleted.
pub(crate) async fn groups_deleted(tx: &mut TenantTx, ids: &[Uuid]) -> Result<()> {
    for hook in tx.hooks().iter().filter_map(|hook| hook.groups_deleted) {
        hook(tx, ids).await?;
    }
    Ok(())
}

/// Runs the hooks for stored reports.
pub(crate) async fn reports_stored(tx: &mut TenantTx, stored: &StoredReports) -> Result<()> {
    for hook in tx.hooks().iter().filter_map(|hook| hook.reports_stored) {
        hook(tx, stored).await?;
    }
    Ok(())
}

/// Runs the hooks for symbols of a tenant that answer for a debug id.
pub(crate) async fn symbols_published(tx: &mut OwnerTx, symbols: &PublishedSymbols) -> Result<()> {
    for hook in tx.hooks().iter().filter_map(|hook| hook.symbols_published) {
        hook(tx, symbols).await?;
    }
    Ok(())
}

/// Runs the hooks for symbols of a tenant that are deleted.
pub(crate) async fn symbols_deleted(tx: &mut OwnerTx, debug_id: &DebugId) -> Result<()> {
    if tx.is_system() {
        return Ok(());
    }
    for hook in tx.hooks().iter().filter_map(|hook| hook.symbols_deleted) {
        hook(tx, debug_id).await?;
    }
    Ok(())
}

/// Asks features for new work on rows that have not seen these symbols, in a transaction for each page of
/// each feature. A repeated call asks for nothing more, so a wake that ends after it loses none.
pub async fn wake_features(store: &Store, tenant: &TenantId, symbols: ArrivedSymbols<'_>) -> Result<()> {
    for hook in store.hooks().iter().filter_map(|hook| hook.symbols_arrived) {
        loop {
            let mut tx = store.tenant(tenant).await?;
            let woken = hook(&mut tx, symbols).await?;
            tx.commit().await?;
            if woken < u64::from(symbols.limit) {
                break;
            }
        }
    }
    Ok(())
}
