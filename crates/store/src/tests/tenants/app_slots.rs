//! Slots of apps.

use crate::app_slots::{self, SLOT_UNITS_PER_SECOND, UnitsOfApps};
use crate::tables::purge_old_rows;
use crate::tests::database::{Database, acme, tenant_id};
use time::Duration;

/// What a slot carries in a window.
const CARRIED: u64 = SLOT_UNITS_PER_SECOND * 60;

async fn count(database: &Database, tenant: &str, app: &str, units: u64) {
    let counted: UnitsOfApps = [(tenant_id(tenant), [(app.to_owned(), units)].into())].into();
    app_slots::record_units(&database.store, &counted).await.unwrap();
}

async fn slots(database: &Database, app: &str) -> u16 {
    let all = app_slots::list_slots(&database.store).await.unwrap();
    all.get(&acme()).and_then(|apps| apps.get(app)).copied().unwrap_or(1)
}

#[tokio::test]
async fn an_app_gets_slots_for_what_all_processes_accept_in_a_minute_and_keeps_them() {
    let database = Database::new().await;
    // The next minute begins, so that no window ends between two processes.
    database.wait(Duration::seconds(60 - database.clock_now().unix_timestamp() % 60));
    count(&database, "acme", "shop", CARRIED).await;
    assert_eq!(slots(&database, "shop").await, 1);
    count(&database, "acme", "shop", 1).await;
    assert_eq!(slots(&database, "shop").await, 2, "two processes have more than one slot carries");
    database.wait(Duration::MINUTE);
    count(&database, "acme", "shop", CARRIED).await;
    assert_eq!(slots(&database, "shop").await, 2, "a quiet minute takes no slot away");
    count(&database, "acme", "shop", CARRIED * 2 + 1).await;
    assert_eq!(slots(&database, "shop").await, 4);
    count(&database, "acme", "shop", CARRIED * 10_000).await;
    assert_eq!(slots(&database, "shop").await, 256);
    count(&database, "umbrella", "shop", CARRIED).await;
    count(&database, "acme", "other", CARRIED).await;
    let all = app_slots::list_slots(&database.store).await.unwrap();
    assert_eq!(all, [(acme(), [("shop".to_owned(), 256)].into())].into(), "apps and tenants of their own");
    // A row with one slot ends soon: senders name apps.
    database.wait(Duration::hours(2));
    assert_eq!(purge_old_rows(&database.store).await.unwrap(), 2);
    assert_eq!(app_slots::list_slots(&database.store).await.unwrap(), all);
}
