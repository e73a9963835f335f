//! Hooks: functions of features that run in transactions of the store.

use crate::groups::GroupEvent;
use crate::slots::PublishedSymbols;
use crate::{OwnerTx, Result, TenantTx, Uuid};
use serde_json::Value;
use std::pin::Pin;
use unslide_model::ReportId;

/// The work of a hook. If it fails, the transaction is rolled back.
pub type HookFuture<'t> = Pin<Box<dyn Future<Output = Result<()>> + Send + 't>>;

/// The functions of one feature that run in transactions of the store. A list of hooks is the order in which their rows
/// are locked: each function runs for all features, in this order, before the next one.
#[derive(Clone, Copy, Debug)]
pub struct StoreHook {
    /// The feature.
    pub feature: &'static str,
    /// Runs once reports and their groups are written, with the groups that are new or came back.
    pub groups_changed: for<'t> fn(&'t mut TenantTx, &'t [GroupEvent]) -> HookFuture<'t>,
    /// Runs once groups are deleted, with their ids.
    pub groups_deleted: for<'t> fn(&'t mut TenantTx, &'t [Uuid]) -> HookFuture<'t>,
    /// Runs last in a transaction that stores reports, with these and their groups.
    pub reports_stored: for<'t> fn(&'t mut TenantTx, &'t StoredReports) -> HookFuture<'t>,
    /// Runs last when symbols of a tenant come to answer for a debug id. Their generation is that of the slot.
    pub symbols_published: for<'t> fn(&'t mut OwnerTx, &'t PublishedSymbols) -> HookFuture<'t>,
    /// Runs at once when a feature announces something.
    pub announced: for<'t> fn(&'t mut TenantTx, &'t [Announcement]) -> HookFuture<'t>,
}

impl StoreHook {
    /// Makes the hook of a feature with functions that do nothing.
    #[must_use]
    pub const fn new(feature: &'static str) -> StoreHook {
        StoreHook {
            feature,
            groups_changed: |_, _| nothing(),
            groups_deleted: |_, _| nothing(),
            reports_stored: |_, _| nothing(),
            symbols_published: |_, _| nothing(),
            announced: |_, _| nothing(),
        }
    }
}

fn nothing<'t>() -> HookFuture<'t> {
    Box::pin(std::future::ready(Ok(())))
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

/// Something that a feature tells the other features of a tenant.
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
pub async fn announce(tx: &mut TenantTx, announcements: &[Announcement]) -> Result<()> {
    if announcements.is_empty() {
        return Ok(());
    }
    for hook in tx.hooks().iter() {
        (hook.announced)(tx, announcements).await?;
    }
    Ok(())
}

/// Runs the hooks for groups that are new or came back.
pub(crate) async fn groups_changed(tx: &mut TenantTx, events: &[GroupEvent]) -> Result<()> {
    for hook in tx.hooks().iter() {
        (hook.groups_changed)(tx, events).await?;
    }
    Ok(())
}

/// Runs the hooks for groups that are deleted.
pub(crate) async fn groups_deleted(tx: &mut TenantTx, ids: &[Uuid]) -> Result<()> {
    for hook in tx.hooks().iter() {
        (hook.groups_deleted)(tx, ids).await?;
    }
    Ok(())
}

/// Runs the hooks for stored reports.
pub(crate) async fn reports_stored(tx: &mut TenantTx, stored: &StoredReports) -> Result<()> {
    for hook in tx.hooks().iter() {
        (hook.reports_stored)(tx, stored).await?;
    }
    Ok(())
}

/// Runs the hooks for symbols of a tenant that answer for a debug id.
pub(crate) async fn symbols_published(tx: &mut OwnerTx, symbols: &PublishedSymbols) -> Result<()> {
    for hook in tx.hooks().iter() {
        (hook.symbols_published)(tx, symbols).await?;
    }
    Ok(())
}
