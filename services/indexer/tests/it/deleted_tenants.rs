//! Tenants that were deleted while their reports were on the way.
//! Proves: deletion

use crate::indexer_fixture::{World, acme, report};
use unslide_harness::database::erase_tenant;
use unslide_model::TenantId;
use unslide_proto::report::Outcome;
use unslide_store::tenants;

/// What a deleted tenant's reports have left in the topic is not stored, neither when it is read late nor
/// in a replay from the start; those of others are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_tenants_reports_are_not_stored_whenever_they_are_read() {
    let world = World::new().await;
    let other = TenantId::new("umbrella").unwrap();
    let mut tx = world.store.tenant(&other).await.unwrap();
    tenants::create_tenant(&mut tx, "Umbrella", &tenants::QuotaLimits::default()).await.unwrap();
    tx.commit().await.unwrap();
    world.send(1, 1, None).await;
    world.send_raw("umbrella", &report(1, 1, None)).await;
    let running = world.start();
    world.wait_for_number("SELECT count(*) FROM reports", 2).await;
    running.stop().await;
    erase_tenant(&world.store, &acme()).await;
    world.send(2, 1, None).await;
    world.answer(1, 2, Outcome::Unchanged).await;
    // A replay: everything that the topics hold is read again.
    world.execute("DELETE FROM positions").await;
    let running = world.start();
    world.wait_until_caught_up().await;
    running.wait_until_ready().await;
    for table in
        ["reports", "report_bodies", "report_keys", "waits", "app_days", "wanted_images", "symbol_slots"]
    {
        let held = format!("SELECT count(*) FROM {table} WHERE tenant = 'acme'");
        assert_eq!(world.number(&held).await, 0, "{table}");
    }
    assert_eq!(world.number("SELECT count(*) FROM reports WHERE tenant = 'umbrella'").await, 1);
    assert_eq!(world.number("SELECT count(*) FROM dead_letters WHERE stage = 'read'").await, 0);
    running.stop().await;
    world.end().await;
}
