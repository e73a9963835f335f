//! Moves that cannot succeed are refused before they begin.

use crate::world::{Watcher, World, in_pieces};
use unslide_harness::database::umbrella;
use unslide_store::place::{self, TenantPlace};
use unslide_tenant_move::{
    CellServers, Move, Obstacles, TenantMoveError, examine_move, find_obstacles, move_tenant,
};

#[tokio::test]
async fn an_examination_counts_and_changes_nothing() {
    let world = World::filled().await;
    let watcher = Watcher::default();
    let examination = examine_move(&world.job(&watcher, in_pieces())).await.unwrap();
    let obstacles = find_obstacles(&world.job(&watcher, in_pieces())).await.unwrap();
    assert_eq!(obstacles, Obstacles::default());
    let reports = examination.tables.iter().find(|table| table.name == "reports").unwrap();
    assert!(reports.rows == 5 && reports.bytes > 100, "{reports:?}");
    assert_eq!(examination.objects, 22);
    assert_eq!(examination.object_bytes, (8 << 20) + 17 + 190 + 4);
    assert_eq!(examination.unfinished_uploads, 1);
    assert_eq!(world.to.number("SELECT count(*) FROM tenants WHERE slug = 'acme'").await, 0);
    world.assert_no_traces(&world.from).await;
}

#[tokio::test]
async fn each_reason_is_named() {
    let world = World::with_reports().await;
    let watcher = Watcher::default();
    // A tenant of that name in the new cell.
    let job = Move { tenant: umbrella(), ..world.job(&watcher, in_pieces()) };
    let refused = move_tenant(&job).await.unwrap_err();
    assert!(refused.to_string().contains("has another tenant of that name"), "{refused}");
    // Rows in ClickHouse, and other migrations.
    world.from.execute("UPDATE report_keys SET history_version = 1 WHERE tenant = 'acme'").await;
    world
        .to
        .execute("DELETE FROM _sqlx_migrations WHERE version = (SELECT max(version) FROM _sqlx_migrations)")
        .await;
    let reasons = find_obstacles(&world.job(&watcher, in_pieces())).await.unwrap().refusals;
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert!(
        reasons[0].contains("rows in ClickHouse") && reasons[1].contains("other migrations"),
        "{reasons:?}"
    );
    // A cell that the directory does not know.
    let south = CellServers {
        name: "south".to_owned(),
        store: world.east.store.clone(),
        objects: world.east.objects.clone(),
        topic_prefix: "west.".to_owned(),
    };
    let job = Move { to: &south, ..world.job(&watcher, in_pieces()) };
    let reasons = find_obstacles(&job).await.unwrap().refusals;
    assert!(reasons[2].contains("no cell south") && reasons[3].contains("the same topics"), "{reasons:?}");
    // One database for both.
    let same = CellServers { store: world.west.store.clone(), ..south };
    let job = Move { to: &same, ..world.job(&watcher, in_pieces()) };
    let refused = move_tenant(&job).await.unwrap_err();
    assert!(
        matches!(&refused, TenantMoveError::Other(reason) if reason.contains("the same database")),
        "{refused:?}"
    );
    let mut tx = world.west.store.tenant(&umbrella()).await.unwrap();
    assert_eq!(place::read_location(&mut tx).await.unwrap().unwrap().place, TenantPlace::Here);
}
