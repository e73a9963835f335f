//! Hooks: functions of features that run in transactions of the store.

use crate::events::{Announcement, StoreEvent};
use crate::key_erasures::KeyRange;
use crate::persons::{ErasedRows, ErasedSessions, PersonDay, PersonSession};
use crate::queries::session::{TimelineEvent, TimelinePage};
use crate::sessions::SessionHook;
use crate::wakes::Arrived;
use crate::watched_figures::FigureHook;
use crate::{Result, Store, TenantTx, Uuid};
use std::pin::Pin;
use time::Date;
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
    /// Acts on an event in its transaction.
    pub on_event: Option<EventHook>,
    /// Its rows that wait for symbols.
    pub symbol_waits: Option<SymbolWaits>,
    /// Deletes at most the given number of rows that are older than the first kept day of their tenant, and
    /// condemns their files. Returns the number of rows.
    pub expire: Option<ExpireHook>,
    /// Lists the files in object storage that rows of the transaction's tenant name.
    pub files: Option<FilesHook>,
    /// Lists events of a session in their order, the first after the page's position.
    pub session_events: Option<SessionEventsHook>,
    /// Lists sessions of a user or an installation that began on a day.
    pub person_sessions: Option<PersonSessionsHook>,
    /// Answers questions of the core about sessions.
    pub sessions: Option<SessionHook>,
    /// Deletes what the feature has of sessions, and condemns its files. Returns the number of rows by table.
    pub erase_sessions: Option<EraseSessionsHook>,
    /// Deletes at most the given number of rows that apps sent with a public key. Returns the number of rows by table.
    pub erase_key_range: Option<EraseKeyRangeHook>,
    /// Measures figures of apps by their names, for rules that watch them.
    pub figures: Option<FigureHook>,
}

impl StoreHook {
    /// Makes a hook without functions.
    #[must_use]
    pub const fn new(feature: &'static str) -> StoreHook {
        StoreHook {
            feature,
            on_event: None,
            symbol_waits: None,
            expire: None,
            files: None,
            session_events: None,
            person_sessions: None,
            sessions: None,
            erase_sessions: None,
            erase_key_range: None,
            figures: None,
        }
    }
}

/// See [`StoreHook::expire`].
pub type ExpireHook = for<'t> fn(&'t mut TenantTx, Date, u32) -> HookFuture<'t, u64>;
/// See [`StoreHook::files`].
pub type FilesHook = for<'t> fn(&'t mut TenantTx) -> HookFuture<'t, Vec<FeatureFile>>;
/// See [`StoreHook::session_events`].
pub type SessionEventsHook =
    for<'t> fn(&'t mut TenantTx, TimelinePage<'t>) -> HookFuture<'t, Vec<TimelineEvent>>;
/// See [`StoreHook::person_sessions`].
pub type PersonSessionsHook = for<'t> fn(&'t mut TenantTx, PersonDay) -> HookFuture<'t, Vec<PersonSession>>;
/// See [`StoreHook::erase_sessions`].
pub type EraseSessionsHook =
    for<'t> fn(&'t mut TenantTx, ErasedSessions<'t>) -> HookFuture<'t, Vec<ErasedRows>>;
/// See [`StoreHook::erase_key_range`].
pub type EraseKeyRangeHook =
    for<'t> fn(&'t mut TenantTx, &'t KeyRange, u32) -> HookFuture<'t, Vec<ErasedRows>>;
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

/// A file in object storage that a row of a feature names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureFile {
    /// Its key.
    pub key: String,
    /// Its meaning for people. `None` for a file that may be absent.
    pub needed_as: Option<String>,
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

/// Deletes rows of features that are older than the first kept day of their tenant. Returns their number.
pub async fn expire_features(tx: &mut TenantTx, first_kept: Date, limit: u32) -> Result<u64> {
    let mut rows = 0;
    for hook in tx.hooks().iter().filter_map(|hook| hook.expire) {
        rows += hook(tx, first_kept, limit).await?;
    }
    Ok(rows)
}

/// Lists sessions of a person that began on a day, of all features.
pub async fn list_person_sessions(tx: &mut TenantTx, day: PersonDay) -> Result<Vec<PersonSession>> {
    let mut sessions = Vec::new();
    for hook in tx.hooks().iter().filter_map(|hook| hook.person_sessions) {
        sessions.extend(hook(tx, day).await?);
    }
    Ok(sessions)
}

/// Deletes what features have of sessions. Returns the number of rows by table.
pub async fn erase_sessions(tx: &mut TenantTx, sessions: ErasedSessions<'_>) -> Result<Vec<ErasedRows>> {
    let mut erased = Vec::new();
    for hook in tx.hooks().iter().filter_map(|hook| hook.erase_sessions) {
        erased.extend(hook(tx, sessions).await?);
    }
    Ok(erased)
}

/// Deletes at most `limit` rows of each table of features that apps sent with a public key. Returns the number of rows by
/// table.
pub async fn erase_key_range(tx: &mut TenantTx, range: &KeyRange, limit: u32) -> Result<Vec<ErasedRows>> {
    let mut erased = Vec::new();
    for hook in tx.hooks().iter().filter_map(|hook| hook.erase_key_range) {
        erased.extend(hook(tx, range, limit).await?);
    }
    Ok(erased)
}

/// Lists the files of features that rows of the transaction's tenant name.
pub async fn feature_files(tx: &mut TenantTx) -> Result<Vec<FeatureFile>> {
    let mut files = Vec::new();
    for hook in tx.hooks().iter().filter_map(|hook| hook.files) {
        files.extend(hook(tx).await?);
    }
    Ok(files)
}
