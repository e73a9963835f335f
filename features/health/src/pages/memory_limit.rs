//! The memory limit that a report's page judges the end of a run by.

use crate::store::figures::memory_limits::{learned_limits, system_version};
use unslide_api::feature::figures::DeviceScope;
use unslide_store::{HookFuture, TenantTx};

/// Finds the limit that reports and sessions of other devices of the model teach.
pub fn find_memory_limit<'t>(tx: &'t mut TenantTx, device: DeviceScope<'t>) -> HookFuture<'t, Option<u64>> {
    Box::pin(async move {
        let Some(version) = system_version(device.os) else { return Ok(None) };
        Ok(learned_limits(tx, &[[device.app, device.model, version]]).await?.pop().flatten())
    })
}
