//! A move that ends in the middle goes on where it was, or is aborted without a trace.

use crate::moving::assert_moved;
use crate::world::{Rows, Watcher, World, in_pieces, rows_of};
use std::sync::Mutex;
use std::time::Duration;
use unslide_harness::database::{acme, arrival};
use unslide_store::place::{TenantPlace, read_location};
use unslide_tenant_move::{MoveLimits, Step, TenantMoveError, abort_move, find_obstacles, move_tenant};

/// The steps before the new cell serves the tenant.
const BEFORE_SWITCH: [Step; 8] = [
    Step::Arriving,
    Step::Watched,
    Step::Piece,
    Step::TablesCopied,
    Step::ObjectsCopied,
    Step::ChangesCopied,
    Step::Frozen,
    Step::Compared,
];
const AFTER_SWITCH: [Step; 6] =
    [Step::HandedOver, Step::Arrived, Step::Named, Step::Drained, Step::Erasing, Step::Erased];

/// Makes a change for [`Step::ChangesCopied`], if rows may change.
async fn make_change(world: &World, n: u8) {
    world.from.store(&[arrival(100 + n)]).await;
    world.write(&["UPDATE keys SET last_used_at = now()"]).await.unwrap();
}

/// Puts rows of the tenant back into the old cell, as a restored database has them.
async fn restore_west(world: &World) {
    world
        .from
        .execute(
            "SET session_replication_role = replica;
             UPDATE tenants SET state = 'active', place = 'here', moved_to = NULL WHERE slug = 'acme';
             DELETE FROM tenant_erasures WHERE tenant = 'acme'; DELETE FROM audit_log WHERE tenant = 'acme';
             RESET session_replication_role",
        )
        .await;
    world.from.store(&[arrival(1), arrival(2)]).await;
}

async fn place_in_west(world: &World) -> TenantPlace {
    let mut tx = world.west.store.tenant(&acme()).await.unwrap();
    read_location(&mut tx).await.unwrap().unwrap().place
}

#[tokio::test]
async fn a_move_that_is_killed_at_each_step_goes_on() {
    let world = World::with_reports().await;
    let at_switch = Mutex::new(Rows::new());
    for (n, step) in (0..).zip(BEFORE_SWITCH) {
        // A frozen tenant is thawed by the next move.
        if place_in_west(&world).await == TenantPlace::Here {
            make_change(&world, n).await;
        }
        let (in_world, change) = (&world, n);
        let watcher = Watcher {
            stop_at: Some(step),
            act: Some(Box::new(move |reached| {
                Box::pin(async move {
                    if reached == Step::Watched {
                        make_change(in_world, 50 + change).await;
                    }
                })
            })),
            ..Watcher::default()
        };
        tokio::select! {
            done = Box::pin(world.move_tenant(&watcher, in_pieces())) => panic!("{step:?} is not reached: {done:?}"),
            () = watcher.stopped.notified() => {}
        }
    }
    for step in AFTER_SWITCH {
        if step == Step::HandedOver {
            let (in_world, rows) = (&world, &at_switch);
            let watcher = Watcher {
                stop_at: Some(step),
                act: Some(Box::new(move |reached| {
                    Box::pin(async move {
                        if reached == Step::Compared {
                            let now = rows_of(&in_world.from, "acme").await;
                            *rows.lock().unwrap() = now;
                        }
                    })
                })),
                ..Watcher::default()
            };
            tokio::select! {
                done = Box::pin(world.move_tenant(&watcher, in_pieces())) => panic!("{step:?} is not reached: {done:?}"),
                () = watcher.stopped.notified() => {}
            }
            assert_eq!(place_in_west(&world).await, TenantPlace::Moved);
            let watcher = Watcher::default();
            let refused = abort_move(&world.job(&watcher, in_pieces())).await.unwrap_err();
            assert!(refused.is_switched(), "{refused:?}");
        } else {
            world.move_until(step, in_pieces()).await;
        }
    }
    let watcher = Watcher::default();
    world.move_tenant(&watcher, in_pieces()).await.unwrap();
    let rows = std::mem::take(&mut *at_switch.lock().unwrap());
    assert_moved(&world, &rows).await;
}

#[tokio::test]
async fn an_aborted_move_leaves_no_trace_and_can_begin_again() {
    let world = World::with_reports().await;
    let others = rows_of(&world.to, "umbrella").await;
    for (n, step) in (0..).zip(BEFORE_SWITCH) {
        if matches!(step, Step::Arriving | Step::ChangesCopied) {
            continue;
        }
        world.move_until(step, in_pieces()).await;
        let watcher = Watcher::default();
        abort_move(&world.job(&watcher, in_pieces())).await.unwrap();
        world.assert_no_traces(&world.from).await;
        world.assert_no_traces(&world.to).await;
        let left: Vec<_> =
            rows_of(&world.to, "acme").await.into_iter().filter(|(_, rows)| !rows.is_empty()).collect();
        assert!(left.is_empty(), "{step:?}: {left:?}");
        assert_eq!(world.to.number("SELECT count(*) FROM tenants WHERE slug = 'acme'").await, 0);
        assert!(world.objects(&world.east, &acme()).await.is_empty(), "{step:?}");
        assert_eq!(place_in_west(&world).await, TenantPlace::Here);
        make_change(&world, n).await;
    }
    assert_eq!(rows_of(&world.to, "umbrella").await, others);
    let rows = rows_of(&world.from, "acme").await;
    let watcher = Watcher::default();
    world.move_tenant(&watcher, in_pieces()).await.unwrap();
    assert_moved(&world, &rows).await;
}

#[tokio::test]
async fn a_freeze_that_lasts_too_long_ends_and_the_move_goes_on_later() {
    let world = World::with_reports().await;
    let watcher = Watcher {
        act: Some(Box::new(|step| {
            Box::pin(async move {
                if step == Step::Compared {
                    // Longer than the freeze: the move gives up before.
                    tokio::time::sleep(Duration::from_secs(30)).await;
                }
            })
        })),
        ..Watcher::default()
    };
    let limits = MoveLimits { freeze: Duration::from_secs(3), freezes: 1, ..in_pieces() };
    let late = world.move_tenant(&watcher, limits).await.unwrap_err();
    assert!(matches!(late, TenantMoveError::Late { .. }), "{late:?}");
    make_change(&world, 1).await;
    let rows = rows_of(&world.from, "acme").await;
    world.move_tenant(&Watcher::default(), in_pieces()).await.unwrap();
    assert_moved(&world, &rows).await;
}

#[tokio::test]
async fn a_copy_that_outlasts_a_freeze_is_cancelled_and_the_move_goes_on_later() {
    let world = World::with_reports().await;
    let job = |tenant: &str| {
        format!(
            "INSERT INTO jobs (id, tenant, kind, payload, status, max_attempts, run_at, created_at, updated_at)
             VALUES ('00000000-0000-4000-8000-000000000001', '{tenant}', 'wake', '{{}}', 'done', 1, now(), now(), now())"
        )
    };
    world.from.execute(&job("acme")).await;
    // From the freeze on, another transaction of the new cell holds the key of a row.
    let statement = format!("SET ROLE NONE; BEGIN; {}", job("~system"));
    let other = tokio::sync::Mutex::new(None);
    let (in_world, statement, holder) = (&world, statement.as_str(), &other);
    let watcher = Watcher {
        act: Some(Box::new(move |step| {
            Box::pin(async move {
                if step == Step::Frozen {
                    let mut connection = in_world.east.store.pool().acquire().await.unwrap().detach();
                    let statement = sqlx::AssertSqlSafe(statement.to_owned());
                    sqlx::raw_sql(statement).execute(&mut connection).await.unwrap();
                    *holder.lock().await = Some(connection);
                }
            })
        })),
        ..Watcher::default()
    };
    let limits = MoveLimits { freeze: Duration::from_secs(3), freezes: 1, ..in_pieces() };
    let late = world.move_tenant(&watcher, limits).await.unwrap_err();
    assert!(late.to_string().contains("the last rows"), "{late:?}");
    drop(other.lock().await.take());
    let rows = rows_of(&world.from, "acme").await;
    world.move_tenant(&Watcher::default(), in_pieces()).await.unwrap();
    assert_moved(&world, &rows).await;
}

#[tokio::test]
async fn a_writer_that_holds_its_transaction_open_is_waited_for_and_not_lost() {
    let world = World::with_reports().await;
    world.move_until(Step::TablesCopied, in_pieces()).await;
    let mut writer = world.west.store.tenant(&acme()).await.unwrap();
    sqlx::query(
        "INSERT INTO app_settings (tenant, app, source_url, source_root) VALUES ('acme', 'slow', '', '')",
    )
    .execute(writer.parts().0)
    .await
    .unwrap();
    let watcher = Watcher::default();
    let limits = MoveLimits { freezes: 1, ..in_pieces() };
    let late = world.move_tenant(&watcher, limits).await.unwrap_err();
    assert!(late.to_string().contains("a transaction that changes rows of the tenant"), "{late:?}");
    writer.commit().await.unwrap();
    let rows = rows_of(&world.from, "acme").await;
    assert!(rows["app_settings"].iter().any(|row| row.contains("slow")));
    world.move_tenant(&watcher, in_pieces()).await.unwrap();
    assert_moved(&world, &rows).await;
}

#[tokio::test]
async fn a_row_that_is_missing_in_the_new_cell_stops_the_move_with_its_table() {
    let world = World::with_reports().await;
    world.move_until(Step::TablesCopied, in_pieces()).await;
    world.to.execute("DELETE FROM signal_drops WHERE tenant = 'acme'").await;
    let limits = MoveLimits { freezes: 1, ..in_pieces() };
    let watcher = Watcher::default();
    let unequal = world.move_tenant(&watcher, limits).await.unwrap_err();
    assert!(
        matches!(&unequal, TenantMoveError::Unequal { table, from: 1, to: 0 } if table == "signal_drops"),
        "{unequal:?}"
    );
    assert_eq!(place_in_west(&world).await, TenantPlace::Here);
}

#[tokio::test]
async fn one_process_moves_a_tenant() {
    let world = World::with_reports().await;
    let mut other = world.from.store.pool().acquire().await.unwrap().detach();
    sqlx::query("SELECT pg_advisory_lock(hashtextextended('tenant move acme', 0))")
        .execute(&mut other)
        .await
        .unwrap();
    let watcher = Watcher::default();
    let busy = move_tenant(&world.job(&watcher, in_pieces())).await.unwrap_err();
    assert!(matches!(busy, TenantMoveError::Busy { .. }), "{busy:?}");
}

#[tokio::test]
async fn a_cell_that_was_restored_to_before_the_move_hands_over_again() {
    let world = World::with_reports().await;
    world.move_tenant(&Watcher::default(), in_pieces()).await.unwrap();
    let moved = world.rows(&world.to).await;
    restore_west(&world).await;
    let watcher = Watcher::default();
    let obstacles = find_obstacles(&world.job(&watcher, in_pieces())).await.unwrap();
    assert!(obstacles.is_restored && obstacles.refusals.is_empty(), "{obstacles:?}");
    world.move_until(Step::Named, in_pieces()).await;
    world.move_tenant(&Watcher::default(), in_pieces()).await.unwrap();
    assert_moved(&world, &moved).await;
}
