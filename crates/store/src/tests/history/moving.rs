//! Moves: what goes, what stays, and what a process that dies leaves.

use super::{Past, today};
use crate::history::{self, HistoryExpiry};
use crate::reports::delete_report;
use crate::tests::database::{acme, arrival, execute, image, publish, revised, start};
use crate::tests::reports::segments::move_all;
use crate::{Uuid, wakes};
use time::Duration;
use unslide_history::HistoryVersion;
use unslide_model::Quality;

#[tokio::test]
async fn rows_come_back_as_they_were() {
    let mut odd = arrival(3);
    odd.facts.summary =
        serde_json::json!({"text": "\u{1F980} \"quoted\" \\ 'single'", "number": 1.5, "none": null});
    odd.facts.context = serde_json::json!({"keys": {"tier": "gold"}, "facts": {}});
    odd.facts.reason = Some("a\nb\t\u{7f}é".into());
    odd.facts.device_time = Some(start() - Duration::microseconds(7));
    odd.facts.run_id = Some(Uuid::from_u128(7));
    odd.received_at += Duration::microseconds(1);
    let past = Past::with_old_reports(&[arrival(1), arrival(2), odd]).await;
    let before = past.stored_rows().await;
    assert_eq!(past.move_rows().await, 3);
    assert_eq!(past.places().await, (0, 3));
    assert_eq!(past.stored_rows().await, [""; 0]);
    assert_eq!(past.versions().await.len(), 3);
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    assert_eq!(history::bring_back_oldest(&mut tx, 2).await.unwrap(), 2);
    assert_eq!(history::bring_back_oldest(&mut tx, 2).await.unwrap(), 1);
    assert_eq!(history::bring_back_oldest(&mut tx, 2).await.unwrap(), 0);
    tx.commit().await.unwrap();
    assert_eq!(past.stored_rows().await, before);
    assert_eq!(past.places().await, (3, 0));
    // They go again, and what they left is deleted without them.
    assert_eq!(past.move_rows().await, 3);
    assert_eq!(past.delete_queued().await, 3);
    assert_eq!((past.places().await, past.versions().await.len()), ((0, 3), 3));
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    assert_eq!(history::bring_back_oldest(&mut tx, 10).await.unwrap(), 3);
    tx.commit().await.unwrap();
    assert_eq!(past.stored_rows().await, before);
    assert_eq!(past.delete_queued().await, 3);
    assert_eq!(past.versions().await, []);
}

#[tokio::test]
async fn a_process_may_die_after_each_step_of_a_move() {
    for step in ["intended", "inserted", "taken", "ended"] {
        let past = Past::with_old_reports(&[arrival(1), arrival(2), arrival(3)]).await;
        let begun = past.begin_move().await.unwrap();
        if step != "intended" {
            past.insert(&begun).await;
        }
        if step == "taken" {
            let mut tx = past.store.tenant(&acme()).await.unwrap();
            assert_eq!(history::finish_move(&mut tx, &begun).await.unwrap(), Some(3));
            drop(tx);
        }
        if step == "ended" {
            assert_eq!(past.finish_move(&begun).await, Some(3));
        }
        let moved = if step == "ended" { 3 } else { 0 };
        assert_eq!(past.places().await, (3 - moved, moved), "{step}");
        // While the intent is young, no other process moves rows of the day.
        assert!(past.begin_move().await.is_none(), "{step}");
        past.wait(Duration::minutes(20));
        let abandoned =
            history::abandon_moves(&past.store, past.clock_now() - Duration::minutes(10)).await.unwrap();
        assert_eq!(abandoned, i64::from(step != "ended"), "{step}");
        assert_eq!(past.finish_move(&begun).await, None, "the late process finds that it is fenced: {step}");
        // Deleted before and after the next move, in vain.
        past.delete_queued().await;
        past.move_rows().await;
        past.delete_queued().await;
        assert_eq!(past.places().await, (0, 3), "{step}");
        let versions = past.versions().await;
        assert_eq!(versions.len(), 3, "nothing twice: {step}");
        assert_eq!(past.number("SELECT count(*) FROM history_deletions").await, 0, "{step}");
        let mut tx = past.store.tenant(&acme()).await.unwrap();
        assert_eq!(history::bring_back_oldest(&mut tx, 10).await.unwrap(), 3, "{step}");
    }
}

/// Otherwise ClickHouse would get the rows a second time, in a higher version than the one that the keys name.
#[tokio::test]
async fn a_move_that_begins_while_another_one_of_the_day_ends_does_not_read_its_rows() {
    let past = Past::with_old_reports(&[arrival(1), arrival(2)]).await;
    let begun = past.begin_move().await.unwrap();
    past.insert(&begun).await;
    let mut ending = past.store.tenant(&acme()).await.unwrap();
    assert_eq!(history::finish_move(&mut ending, &begun).await.unwrap(), Some(2));
    let end = async {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        while past.number(waiting).await == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        ending.commit().await.unwrap();
    };
    let (other, ()) = tokio::join!(past.begin_move(), end);
    assert_eq!(other, None);
    assert_eq!((past.places().await, past.begin_move().await), ((0, 2), None));
    assert_eq!(past.number("SELECT count(*) FROM history_moves").await, 0);
}

/// A pair of backups, PostgreSQL's first: rows that moved in between are in both, at ClickHouse in versions of a future that is lost.
#[tokio::test]
async fn after_a_restore_to_an_earlier_moment_moves_have_versions_above_all_of_clickhouse() {
    let past = Past::with_old_reports(&[arrival(1), arrival(2)]).await;
    let mut lost = past.begin_move().await.unwrap();
    lost.version += 100;
    past.insert(&lost).await;
    execute(&past, "DELETE FROM history_moves; ALTER TABLE history_moves ALTER COLUMN version RESTART").await;
    let newest = past.history.read_newest_version().await.unwrap();
    assert_eq!(newest, lost.version);
    assert!(history::skip_versions(&past.store, newest).await.unwrap());
    assert!(!history::skip_versions(&past.store, newest).await.unwrap());
    assert_eq!(past.move_rows().await, 2);
    assert!(past.versions().await.iter().all(|one| one.version > newest));
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    assert_eq!(history::bring_back_oldest(&mut tx, 10).await.unwrap(), 2);
}

#[tokio::test]
async fn what_changes_during_a_move_stays_and_is_deleted_at_clickhouse() {
    let past = Past::with_old_reports(&(1..=5).map(arrival).collect::<Vec<_>>()).await;
    let begun = past.begin_move().await.unwrap();
    past.insert(&begun).await;
    past.store(&[revised(&arrival(1), 2, image(1, false, Some(1)))]).await;
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    assert!(delete_report(&mut tx, arrival(2).report_id, 0, None).await.unwrap());
    tx.commit().await.unwrap();
    // It is requested, and has another group: neither changes its revision.
    execute(
        &past,
        &format!(
            "UPDATE report_keys SET requested_at = now() WHERE report_id = '{}'",
            arrival(3).report_id.uuid()
        ),
    )
    .await;
    execute(
        &past,
        &format!("UPDATE reports SET title = 'other' WHERE report_id = '{}'", arrival(4).report_id.uuid()),
    )
    .await;
    assert_eq!(past.finish_move(&begun).await, Some(1));
    assert_eq!(past.places().await, (3, 1));
    assert_eq!(past.delete_queued().await, 4);
    let left: Vec<u8> = past.versions().await.iter().map(|one| one.place.report_id.0[0]).collect();
    assert_eq!(left, [5]);
}

#[tokio::test]
async fn rows_with_open_work_and_crashes_that_may_be_told_again_stay() {
    let with_run = |n: u8| {
        let mut crash = arrival(n);
        crash.facts.run_id = Some(Uuid::from_u128(n.into()));
        crash
    };
    let past = Past::new().await;
    past.store(&[arrival(1), with_run(2)]).await;
    past.wait(Duration::days(8));
    assert!(past.begin_move().await.is_none(), "their bodies are not in a segment");
    move_all(&past, "a").await;
    assert_eq!(past.move_rows().await, 1);
    assert_eq!(past.places().await, (1, 1), "MetricKit may tell of the second");
    past.wait(Duration::days(24));
    let generation = publish(&past, 1, Quality::Dwarf).await;
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    let woken =
        wakes::request_page(&mut tx, &image(1, false, None).debug_id, generation, None, 10).await.unwrap();
    assert_eq!((woken.waiting, woken.requested), (2, 2));
    tx.commit().await.unwrap();
    assert_eq!(past.places().await, (2, 0), "a request brings a row back");
    assert_eq!(past.move_rows().await, 0, "until its answer comes");
    execute(&past, "UPDATE report_keys SET requested_at = NULL").await;
    execute(&past, "UPDATE report_keys SET retry_at = now()").await;
    assert_eq!(past.move_rows().await, 0, "nor while a retry is due");
    execute(&past, "UPDATE report_keys SET retry_at = NULL").await;
    assert_eq!(past.move_rows().await, 2);
    assert_eq!(past.places().await, (0, 2));
}

#[tokio::test]
async fn a_page_is_bounded_by_its_bytes_and_has_one_row_at_least() {
    let past = Past::with_old_reports(&[arrival(1), arrival(2), arrival(3)]).await;
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    let before = past.clock_now() - Duration::days(7);
    let begun = history::begin_move(&mut tx, today(), before, 100, 1).await.unwrap().unwrap();
    assert_eq!(begun.rows.len(), 1);
    drop(tx);
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    let begun = history::begin_move(&mut tx, today(), before, 2, 1 << 20).await.unwrap().unwrap();
    assert_eq!(begun.rows.len(), 2);
    drop(tx);
    let due = history::list_due(&past.store, before, 10).await.unwrap();
    assert_eq!(due.iter().map(|due| (due.tenant.as_str(), due.day)).collect::<Vec<_>>(), [("acme", today())]);
    assert_eq!(history::list_due(&past.store, start() - Duration::DAY, 10).await.unwrap(), []);
}

#[tokio::test]
async fn no_row_of_a_tenant_on_its_way_to_another_cell_moves_to_clickhouse() {
    let past = Past::with_old_reports(&[arrival(1), arrival(2)]).await;
    let before = past.clock_now() - Duration::days(7);
    execute(&past, "INSERT INTO moving_rows (slug, target, key) VALUES ('acme', '~', '{}')").await;
    assert_eq!(history::list_due(&past.store, before, 10).await.unwrap(), []);
    // Nor if an indexer had found it before.
    assert_eq!(past.begin_move().await, None);
    execute(&past, "UPDATE moving_rows SET slug = 'umbrella'").await;
    assert_eq!(history::list_due(&past.store, before, 10).await.unwrap().len(), 1);
    assert_eq!(past.move_rows().await, 2);
}

/// Proves: isolation
#[tokio::test]
async fn deletions_and_moves_touch_no_other_tenant() {
    let past = Past::with_moved(2).await;
    let umbrella = crate::tests::database::tenant_id("umbrella");
    let row = |version: u32| unslide_history::HistoryRow {
        received_at: arrival(1).received_at,
        report_id: arrival(1).report_id,
        variant: 0,
        version,
        row: "{}".into(),
    };
    past.history.insert(&umbrella, Uuid::from_u128(1), &[row(1)]).await.unwrap();
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    assert!(delete_report(&mut tx, arrival(1).report_id, 0, None).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(past.delete_queued().await, 1);
    assert_eq!(past.versions().await.len(), 1);
    let every = unslide_history::HistoryFilter::default();
    let order = unslide_history::HistoryOrder::OldestFirst;
    let theirs: Vec<HistoryVersion> =
        past.history.find_versions(&umbrella, &every, None, order, 10).await.unwrap();
    assert_eq!(theirs.len(), 1);
}

#[tokio::test]
async fn retention_ends_moved_reports_before_clickhouse_deletes_them() {
    let past = Past::with_moved(3).await;
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    assert_eq!(history::expire_moved(&mut tx, today(), 10).await.unwrap(), 0, "the day is kept");
    let after = today() + Duration::DAY;
    assert_eq!(history::expire_moved(&mut tx, after, 2).await.unwrap(), 2);
    assert_eq!(history::expire_moved(&mut tx, after, 2).await.unwrap(), 1);
    assert_eq!(history::expire_moved(&mut tx, after, 2).await.unwrap(), 0);
    assert_eq!(history::read_expiry(&mut tx, after).await.unwrap(), HistoryExpiry::Due);
    tx.commit().await.unwrap();
    let left = "SELECT (SELECT count(*) FROM report_keys WHERE history_version IS NOT NULL) + (SELECT count(*) FROM report_frames)
                     + (SELECT count(*) FROM waits)";
    assert_eq!(past.number(left).await, 0);
    past.history.delete_before(&acme(), after.midnight().assume_utc()).await.unwrap();
    let mut tx = past.store.tenant(&acme()).await.unwrap();
    history::record_expiry(&mut tx, after).await.unwrap();
    assert_eq!(history::read_expiry(&mut tx, after).await.unwrap(), HistoryExpiry::Done);
    tx.commit().await.unwrap();
    assert_eq!(past.versions().await, []);
    // A replay or a revision does not bring them back.
    let stored = past.store(&[revised(&arrival(1), 2, image(1, false, Some(1)))]).await;
    assert_eq!(stored[0].outcome, crate::reports::ArrivalOutcome::Expired);
}

/// A report with one image of the app and no user, as most are. Moves take a day after the other, and VACUUM runs in between.
#[tokio::test]
async fn a_moved_report_takes_at_most_900_bytes_of_the_database() {
    const REPORTS: i64 = 20_000;
    const MOVES: i64 = 20;
    let past = Past::with_moved(1).await;
    let size = "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c
                WHERE c.relkind = 'r' AND c.relname ~ '^(reports|report_bodies|report_keys|report_frames|waits|report_users)(_[0-9]+)?$'";
    let empty = past.number(size).await;
    // Copies of the one with ids of their own.
    for statement in [
        format!(
            "INSERT INTO report_keys (tenant, report_id, variant, content_hash, received_at, latest_revision, origin_topic,
                                      origin_partition, origin_offset, origin_index)
             SELECT tenant, gen_random_uuid(), 0, sha256(n::text::bytea), received_at + n * interval '1 ms', latest_revision,
                    'crash.reports', 7, n, 0
             FROM report_keys, generate_series(1, {REPORTS}) n"
        ),
        "INSERT INTO report_frames SELECT f.tenant, k.received_at, k.report_id, k.variant, f.revision, f.size, f.segment, f.at_offset,
                                          f.length, f.body_key
         FROM report_frames f, report_keys k WHERE k.report_id <> f.report_id".to_owned(),
        "INSERT INTO waits SELECT w.tenant, w.debug_id, k.received_at, k.report_id, k.variant, w.seen_generation
         FROM waits w, report_keys k WHERE k.report_id <> w.report_id".to_owned(),
    ] {
        execute(&past, &statement).await;
    }
    for n in 1..=MOVES {
        let until = REPORTS / MOVES * n;
        let taken = format!(
            "UPDATE report_keys SET history_version = 1 WHERE history_version IS NULL AND origin_offset <= {until}"
        );
        execute(&past, &taken).await;
        execute(&past, "VACUUM report_keys").await;
    }
    let each = (past.number(size).await - empty) / REPORTS;
    let users = "INSERT INTO report_users SELECT tenant, received_at, report_id, variant, decode(md5('user'), 'hex') FROM report_keys";
    execute(&past, users).await;
    let with_user = (past.number(size).await - empty) / REPORTS;
    println!("{each} bytes of PostgreSQL for each moved report, {with_user} if it names a user");
    assert!(each <= 900, "{each} bytes");
}
