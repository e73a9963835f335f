//! Rows of features that wait for symbols.

use crate::wakes::Arrived;
use crate::{HookFuture, Result, Store, TenantTx, Uuid};
use unslide_model::TenantId;

/// The functions that find and wake the rows of a table that wait for symbols.
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

/// Returns what is done for the rows of features that wait for symbols.
pub(crate) fn list_symbol_waits(store: &Store) -> impl Iterator<Item = SymbolWaits> {
    store.hooks().iter().flat_map(|hook| hook.tables).filter_map(|table| table.symbol_waits)
}

/// Asks features for new work on rows that have not seen these symbols, in a transaction for each page of
/// each feature. A repeated call asks for nothing more, so a wake that ends after it loses none.
pub async fn wake_features(store: &Store, tenant: &TenantId, symbols: ArrivedSymbols<'_>) -> Result<()> {
    for waits in list_symbol_waits(store) {
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
