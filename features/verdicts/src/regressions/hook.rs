//! Whether a group waits, when a new report contradicts that it is resolved.

use crate::store::{RegressionRule, hold, read_rule};
use std::collections::BTreeSet;
use time::Duration;
use unslide_store::groups::Contradiction;
use unslide_store::sessions::{AppPeriod, count_sessions};
use unslide_store::tables::{KeyColumn, OwnedTable};
use unslide_store::{GroupId, Result, StoreEvent, StoreHook, TenantTx};

/// The days in which an app has sent a session, if it sends some.
const SESSION_DAYS: Duration = Duration::days(28);

/// The tables of the feature, in the order in which it locks their rows, and its part in the store.
pub const REGRESSION_HOOK: StoreHook = StoreHook {
    on_event: Some(|event| {
        Box::pin(async move {
            match event {
                StoreEvent::GroupsContradicted(tx, found, kept) => keep_resolved(tx, found, kept).await,
                _ => Ok(()),
            }
        })
    }),
    ..StoreHook::with_tables(
        crate::NAME,
        &[
            OwnedTable::new("regression_rules"),
            OwnedTable {
                key: &[KeyColumn::Value("group_id")],
                app: Some("app"),
                ..OwnedTable::new("held_regressions")
            },
        ],
    )
};

/// Keeps groups resolved whose verdict decides.
async fn keep_resolved(
    tx: &mut TenantTx,
    found: &[Contradiction],
    kept: &mut BTreeSet<GroupId>,
) -> Result<()> {
    if read_rule(tx).await? == RegressionRule::AnyReport {
        return Ok(());
    }
    let apps: BTreeSet<&str> = found.iter().map(|one| &*one.app).collect();
    let today = tx.now().date();
    for app in apps {
        let period = AppPeriod { app, first: today - SESSION_DAYS, last: today };
        if count_sessions(tx, period).await?.is_none_or(|counted| counted.sessions == 0) {
            continue;
        }
        let waiting: Vec<&Contradiction> = found.iter().filter(|one| one.app == app).collect();
        hold(tx, &waiting).await?;
        kept.extend(waiting.iter().map(|one| one.group));
    }
    Ok(())
}
