//! The sessions of an app, of which the page of a group shows the part that it hit.

use crate::store::figures;
use time::Duration;
use unslide_api::feature::figures::{AppPeriod, AppSessions};
use unslide_store::{HookFuture, TenantTx};

/// Counts the sessions and installations of an app in a period.
pub fn find_app_sessions<'t>(
    tx: &'t mut TenantTx,
    period: AppPeriod<'t>,
) -> HookFuture<'t, Option<AppSessions>> {
    Box::pin(async move {
        let days = (period.first, period.last.saturating_add(Duration::DAY));
        let total = figures::total_figures(tx, (Some(period.app), None), days).await?;
        let (_, sessions) = total.crashed_of_sessions();
        let (_, installations) = total.crashed_of_installations();
        let found = AppSessions { sessions, installations, estimated: total.estimated };
        Ok((sessions > 0).then_some(found))
    })
}
