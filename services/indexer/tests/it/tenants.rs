//! Figures of tenants as metrics.

use crate::indexer_fixture::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_figures_of_tenants_are_metrics_of_an_indexer() {
    let world = World::new().await;
    world
        .execute(
            "UPDATE tenants SET limits = '{\"symbol_bytes\": 10}' WHERE slug = 'acme';
             INSERT INTO objects (tenant, content_hash, name, arch, kind, size, status, created_at, updated_at)
             VALUES ('acme', decode(repeat('ab', 32), 'hex'), 'Shop', 'arm64', 'dsym', 30, 'ready', now(), now());
             INSERT INTO app_hours (tenant, app, version, hour, reports, fatal)
             VALUES ('acme', 'shop', '1.0', date_trunc('hour', now()), 7, 0)",
        )
        .await;
    let running = world.start();
    running.wait_for_counter("unslide_tenant_symbol_limit_ratio", 3).await;
    running.wait_for_counter("unslide_tenant_symbol_bytes", 30).await;
    running.wait_for_counter("unslide_tenant_reports", 7).await;
    running.stop().await;
    world.end().await;
}
