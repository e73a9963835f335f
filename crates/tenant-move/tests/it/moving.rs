//! Everything of a tenant is in the new cell after a move, and nothing in the old one.

use crate::world::{Rows, Watcher, World, in_pieces, rows_of};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::time::Duration;
use unslide_artifacts::{Put, keys};
use unslide_harness::database::{acme, arrival, umbrella};
use unslide_store::cells::find_changed_tenants;
use unslide_store::place::{TenantPlace, read_location};
use unslide_store::reports::{self, Effects};
use unslide_store::{StoreError, Uuid};
use unslide_tenant_move::{MoveLimits, Step};

/// Checks the end of a move: the rows were those of the old cell at the switch.
pub async fn assert_moved(world: &World, at_switch: &Rows) {
    let there = rows_of(&world.to, "acme").await;
    for (table, rows) in at_switch {
        assert_eq!(&there[table], rows, "{table}");
    }
    let left = rows_of(&world.from, "acme").await;
    let left: Vec<_> =
        left.iter().filter(|(table, rows)| !rows.is_empty() && *table != "audit_log").collect();
    assert!(left.is_empty(), "{left:?}");
    let proof = "SELECT count(*) FROM audit_log WHERE tenant = 'acme' AND action <> 'tenant.erased'";
    assert_eq!(world.from.number(proof).await, 0);
    let proof = "SELECT count(*) FROM tenant_erasures WHERE tenant = 'acme' AND finished_at IS NOT NULL";
    assert_eq!(world.from.number(proof).await, 1);
    let unsent = "SELECT (SELECT count(*) FROM outbox WHERE tenant = 'acme')
                         + (SELECT count(*) FROM deferred_ranges WHERE tenant = 'acme')
                         + (SELECT count(*) FROM partial_uploads WHERE tenant = 'acme')";
    assert_eq!(world.from.number(unsent).await, 0);
    world.assert_no_traces(&world.from).await;
    world.assert_no_traces(&world.to).await;
    assert!(world.objects(&world.west, &acme()).await.is_empty());
    let mut old = world.west.store.tenant(&acme()).await.unwrap();
    let old = read_location(&mut old).await.unwrap().unwrap();
    assert_eq!((old.place, old.moved_to.as_deref()), (TenantPlace::Moved, Some("east.")));
    let mut new = world.east.store.tenant(&acme()).await.unwrap();
    assert_eq!(read_location(&mut new).await.unwrap().unwrap().place, TenantPlace::Here);
    let is_whole = "SELECT count(*) FROM tenants WHERE slug = 'acme' AND state = 'active' AND person_search AND name = 'Acme Inc.'";
    assert_eq!(world.to.number(is_whole).await, 1);
    let announced = "SELECT count(*) FROM outbox WHERE tenant = 'acme' AND kind = 'tenant_config'";
    assert_eq!(world.to.number(announced).await, 1);
    assert_eq!(world.to.number("SELECT count(*) FROM audit_log WHERE action = 'tenant.move'").await, 1);
    let cells = find_changed_tenants(&world.from.store, 0, 10).await.unwrap();
    assert_eq!(cells.last().map(|cell| (&cell.tenant, cell.cell.as_str())), Some((&acme(), "east")));
}

/// The new cell takes reports of the tenant: its sequences go on after the numbers of the copied rows.
async fn assert_goes_on(world: &World) {
    let mut tx = world.east.store.tenant(&acme()).await.unwrap();
    let arrivals: Vec<_> = (60..80).map(arrival).collect();
    reports::store_arrivals(&mut tx, &arrivals, Effects::Now, None).await.unwrap();
    sqlx::query(
        "INSERT INTO stored_events (tenant, queued_at, variant, revision) VALUES ('acme', now(), 0, 1)",
    )
    .execute(tx.parts().0)
    .await
    .unwrap();
    tx.commit().await.unwrap();
}

async fn refused(world: &World, statement: &str) {
    let error = world.write(&[statement]).await.unwrap_err();
    assert!(matches!(error, StoreError::TenantMoving), "{statement}: {error:?}");
}

/// Changes rows of tables of each kind: partitioned, with a key of one id, referred to and referring.
async fn change_rows(world: &World, n: u8) {
    world.from.store(&[arrival(10 + n)]).await;
    world
        .write(&[
            &format!("UPDATE keys SET name = 'key {n}' WHERE kind = 'api'"),
            &format!("INSERT INTO app_settings (tenant, app, source_url, source_root) VALUES ('acme', 'app {n}', '', '')"),
            &format!("UPDATE sessions SET version = '{n}' WHERE session_id = 'old'"),
            &format!("UPDATE groups SET title = 'title {n}'"),
            &format!("UPDATE jobs SET last_error = 'error {n}' WHERE status = 'queued'"),
        ])
        .await
        .unwrap();
    match n {
        1 => world.write(&["DELETE FROM source_bundles", "DELETE FROM scim_groups"]).await.unwrap(),
        2 => world
            .write(&["DELETE FROM alert_rules WHERE name = 'rule'", "DELETE FROM slack_apps"])
            .await
            .unwrap(),
        3 => {
            world
                .write(&[
                    // Another row with the same values of a unique index.
                    "DELETE FROM owner_files",
                    "INSERT INTO owner_files (id, tenant, app, version, dialect, content, rules, problems, first_problems, uploaded_at)
                     VALUES (md5('other owners')::uuid, 'acme', 'shop', '', 'github', '', 0, 0, '[]', now())",
                    "DELETE FROM reports WHERE report_id = (SELECT report_id FROM reports ORDER BY report_id LIMIT 1)",
                ])
                .await
                .unwrap();
        }
        _ => {}
    }
    let key = keys::feature_file(&acme(), "files", Uuid::from_u128(1_000 + u128::from(n)), "new");
    world.west.objects.put(&key, Bytes::from(vec![n; 10]), &Put::default()).await.unwrap();
    let replaced = keys::feature_file(&acme(), "files", Uuid::from_u128(3), "a");
    world.west.objects.put(&replaced, Bytes::from(vec![n; 3]), &Put::default()).await.unwrap();
    let deleted = keys::feature_file(&acme(), "files", Uuid::from_u128(u128::from(n) + 5), "a");
    world.west.objects.delete(&deleted).await.unwrap();
}

/// Changes of rows and objects at the steps of a move, and what the old cell has at the switch.
#[derive(Default)]
struct Changes {
    made: AtomicU8,
    pieces: AtomicU32,
    at_switch: Mutex<(Rows, BTreeMap<String, u64>)>,
}

impl Changes {
    async fn act(&self, world: &World, step: Step) {
        match step {
            Step::Piece if self.pieces.fetch_add(1, Ordering::Relaxed).is_multiple_of(40) => {
                self.make(world).await;
            }
            Step::TablesCopied | Step::ObjectsCopied if self.made.load(Ordering::Relaxed) < 9 => {
                self.make(world).await;
            }
            Step::Frozen => {
                refused(world, "UPDATE keys SET name = 'late'").await;
                refused(world, "DELETE FROM app_settings").await;
                refused(
                    world,
                    "INSERT INTO app_settings (tenant, app, source_url, source_root) VALUES ('acme', 'late', '', '')",
                )
                .await;
            }
            Step::Compared => {
                let state = (rows_of(&world.from, "acme").await, world.objects(&world.west, &acme()).await);
                *self.at_switch.lock().unwrap() = state;
            }
            _ => {}
        }
    }

    async fn make(&self, world: &World) {
        let n = self.made.fetch_add(1, Ordering::Relaxed) + 1;
        Box::pin(change_rows(world, n)).await;
    }
}

async fn move_with_changes(limits: MoveLimits) {
    let world = World::filled().await;
    let others = [rows_of(&world.from, "umbrella").await, rows_of(&world.to, "umbrella").await];
    let changes = Changes::default();
    let (in_world, at_steps) = (&world, &changes);
    let watcher = Watcher {
        act: Some(Box::new(move |step| Box::pin(at_steps.act(in_world, step)))),
        ..Watcher::default()
    };
    let moved = world.move_tenant(&watcher, limits).await;
    moved.unwrap_or_else(|error| panic!("{error:?}\n{}", watcher.text()));
    let (rows, objects) = std::mem::take(&mut *changes.at_switch.lock().unwrap());
    assert_moved(&world, &rows).await;
    assert_eq!(world.objects(&world.east, &acme()).await, objects);
    let replaced = keys::feature_file(&acme(), "files", Uuid::from_u128(3), "a");
    let copy = world.east.objects.get(&replaced, 100).await.unwrap().unwrap();
    assert_eq!(copy.bytes, vec![changes.made.load(Ordering::Relaxed); 3]);
    let named = keys::feature_file(&acme(), "files", Uuid::from_u128(4), "a");
    assert_eq!(world.east.objects.head(&named).await.unwrap().unwrap().metadata["name"], "4");
    let lease =
        "SELECT count(*) FROM jobs WHERE tenant = 'acme' AND status = 'queued' AND lease_token IS NULL";
    assert_eq!(world.to.number(lease).await, 2);
    assert_goes_on(&world).await;
    assert_eq!(rows_of(&world.from, "umbrella").await, others[0]);
    assert_eq!(rows_of(&world.to, "umbrella").await, others[1]);
    for cell in [&world.west, &world.east] {
        assert_eq!(world.objects(cell, &umbrella()).await.len(), 1);
    }
}

/// Proves: isolation
#[tokio::test]
async fn rows_and_objects_are_equal_if_they_change_while_they_are_copied_in_pieces() {
    Box::pin(move_with_changes(in_pieces())).await;
}

#[tokio::test]
async fn rows_and_objects_are_equal_if_each_table_is_one_piece() {
    let limits = MoveLimits { clock_margin: Duration::from_secs(2), ..MoveLimits::default() };
    Box::pin(move_with_changes(limits)).await;
}
