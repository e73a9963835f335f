//! Hooks: functions of features that run in transactions of the store.

use crate::groups::GroupEvent;
use crate::{Result, TenantTx, Uuid};
use std::pin::Pin;

/// The work of a hook. If it fails, the transaction is rolled back.
pub type HookFuture<'t> = Pin<Box<dyn Future<Output = Result<()>> + Send + 't>>;

/// The functions of one feature that run in transactions of the store. A list of hooks is the order in which their rows
/// are locked.
#[derive(Clone, Copy, Debug)]
pub struct StoreHook {
    /// The feature.
    pub feature: &'static str,
    /// Runs once reports and their groups are written, with the groups that are new or came back.
    pub groups_changed: for<'t> fn(&'t mut TenantTx, &'t [GroupEvent]) -> HookFuture<'t>,
    /// Runs once groups are deleted, with their ids.
    pub groups_deleted: for<'t> fn(&'t mut TenantTx, &'t [Uuid]) -> HookFuture<'t>,
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
