//! Storing reports: once each, revisions in order, counts in step.

use crate::outbox::Message;
use crate::queries::{report, versions};
use crate::reports::{self, ArrivalOutcome, Effects};
use crate::tests::database::{
    Database, acme, arrival, debug_id, grouping, image, publish, revised, start, tenant_id,
};
use crate::{partitions, requests, wakes};
use time::Duration;
use unslide_model::{ContentHash, Quality, ReportGrouping};

fn outcomes(stored: &[reports::StoredArrival]) -> Vec<ArrivalOutcome> {
    stored.iter().map(|s| s.outcome).collect()
}

#[tokio::test]
async fn the_same_arrivals_again_change_nothing() {
    let database = Database::new().await;
    publish(&database, 1, Quality::Dwarf).await;
    let second = revised(&arrival(1), 2, image(1, false, Some(1)));
    let all = [arrival(1), arrival(2), second, arrival(3)];
    let first = database.store(&all).await;
    assert_eq!(
        outcomes(&first),
        [ArrivalOutcome::Superseded, ArrivalOutcome::New, ArrivalOutcome::New, ArrivalOutcome::New]
    );
    let before = database.dump().await;
    let again = database.store(&all).await;
    assert_eq!(outcomes(&again), [ArrivalOutcome::Duplicate; 4]);
    for one in &all {
        assert_eq!(outcomes(&database.store(std::slice::from_ref(one)).await), [ArrivalOutcome::Duplicate]);
    }
    assert_eq!(database.dump().await, before);
}

#[tokio::test]
async fn a_rewritten_report_keeps_its_revision_and_its_requests_and_an_older_or_deleted_one_stays_away() {
    let database = Database::new().await;
    database.store(&[arrival(1), arrival(2), arrival(3)]).await;
    publish(&database, 1, Quality::Dwarf).await;
    let second = revised(&arrival(2), 2, image(1, false, Some(1)));
    database.store(&[second]).await;
    let rewritten = |n: u8| {
        let mut other = arrival(n);
        other.facts.reason = Some("scrubbed".to_owned());
        other.body = unslide_proto::body::compress_report(b"{\"scrubbed\":true}");
        other
    };
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    reports::delete_report(&mut tx, arrival(3).report_id, 0, None).await.unwrap();
    tx.commit().await.unwrap();
    let all: Vec<_> = (1..=4).map(rewritten).collect();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert_eq!(reports::rewrite_reports(&mut tx, &all).await.unwrap(), 1, "the second has a later revision");
    tx.commit().await.unwrap();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let (stored, body) = report::get(&mut tx, arrival(1).report_id, 0).await.unwrap().unwrap();
    assert_eq!(body.decompress_json().unwrap(), b"{\"scrubbed\":true}");
    assert_eq!((stored.listed.revision, stored.listed.reason.as_deref()), (1, Some("scrubbed")));
    assert_eq!(stored.listed.received_at, arrival(1).received_at);
    let (stored, body) = report::get(&mut tx, arrival(2).report_id, 0).await.unwrap().unwrap();
    assert_eq!(
        (stored.listed.revision, body.decompress_json().unwrap().as_slice()),
        (2, b"{\"revision\":2}".as_slice())
    );
    for n in [3, 4] {
        assert!(report::get(&mut tx, arrival(n).report_id, 0).await.unwrap().is_none(), "{n} is not made");
    }
    let version = &versions::list_versions(&mut tx, "com.acme.shop", None, 10).await.unwrap()[0];
    assert_eq!(version.reports, 2);
}

/// Proves: late-symbols
#[tokio::test]
async fn a_revision_takes_the_place_of_the_one_before_and_the_first_of_a_number_wins() {
    let database = Database::new().await;
    database.store(&[arrival(1)]).await;
    publish(&database, 1, Quality::Dwarf).await;
    let second = revised(&arrival(1), 2, image(1, false, Some(1)));
    let mut late = second.clone();
    late.body = unslide_proto::body::compress_report(b"{\"late\":true}");
    assert_eq!(
        outcomes(&database.store(&[second, late]).await),
        [ArrivalOutcome::Revised, ArrivalOutcome::Duplicate]
    );
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let (stored, body) = report::get(&mut tx, arrival(1).report_id, 0).await.unwrap().unwrap();
    assert_eq!(body.decompress_json().unwrap(), b"{\"revision\":2}");
    assert_eq!((stored.listed.revision, stored.listed.status.as_str()), (2, "complete"));
    // It stays where the first one put it, though the second came a day later.
    assert_eq!(stored.listed.received_at, arrival(1).received_at);
    let version = &versions::list_versions(&mut tx, "com.acme.shop", None, 10).await.unwrap()[0];
    assert_eq!((version.reports, version.devices, version.complete, version.partial), (1, 1, 1, 0));
    assert_eq!((version.frames, version.share_symbolicated), (10, Some(0.8)));
    assert!(version.missing.is_empty(), "its symbols have come: {:?}", version.missing);
}

/// Proves: replay
#[tokio::test]
async fn variants_are_numbered_in_the_order_of_the_log_however_it_is_cut_into_batches() {
    let mut others = [arrival(1), arrival(1), arrival(1)];
    // Neither the hashes nor the times of arrival are in the order of the log.
    for (other, (hash, minutes)) in others.iter_mut().zip([(80, 9), (20, 5), (50, 1)]) {
        other.content_hash = ContentHash([hash; 32]);
        other.received_at += Duration::minutes(minutes);
    }
    let whole = Database::new().await;
    let at_once = whole.store(&others).await;
    assert_eq!(at_once.iter().map(|s| s.variant).collect::<Vec<_>>(), [0, 1, 2]);
    let cut = Database::new().await;
    for (place, other) in others.iter().enumerate() {
        let stored = cut.store(std::slice::from_ref(other)).await;
        assert_eq!(stored[0].variant as usize, place);
    }
    assert_eq!(cut.dump().await, whole.dump().await);
}

#[tokio::test]
async fn other_bytes_under_the_same_id_are_kept_apart_and_flagged() {
    let database = Database::new().await;
    let mut other = arrival(1);
    other.content_hash = ContentHash([99; 32]);
    other.body = unslide_proto::body::compress_report(b"{\"other\":1}");
    // In one batch, and again in a second one with a third.
    let stored = database.store(&[arrival(1), other.clone()]).await;
    assert_eq!(
        stored.iter().map(|s| s.outcome).collect::<Vec<_>>(),
        [ArrivalOutcome::New, ArrivalOutcome::New]
    );
    assert_eq!(stored.iter().map(|s| s.variant).collect::<Vec<_>>(), [0, 1]);
    let mut third = arrival(1);
    third.content_hash = ContentHash([50; 32]);
    let stored = database.store(&[third, other.clone()]).await;
    assert_eq!((stored[0].variant, stored[0].outcome), (2, ArrivalOutcome::New));
    assert_eq!((stored[1].variant, stored[1].outcome), (1, ArrivalOutcome::Duplicate));
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let id = other.report_id;
    let (shown, body) = report::get(&mut tx, id, 0).await.unwrap().unwrap();
    assert_eq!(
        (body.decompress_json().unwrap().as_slice(), shown.variants),
        (&b"{\"n\":1,\"revision\":1}"[..], 3)
    );
    assert_eq!(
        report::get(&mut tx, id, 1).await.unwrap().unwrap().1.decompress_json().unwrap(),
        b"{\"other\":1}"
    );
    assert!(report::get(&mut tx, id, 3).await.unwrap().is_none());
    assert_eq!(database.number("SELECT count(*) FROM report_keys WHERE conflicted").await, 3);
    // A revision finds its own.
    let mut better = revised(&other, 2, image(1, false, Some(1)));
    better.body = unslide_proto::body::compress_report(b"{\"other\":2}");
    let stored = database.store(&[better]).await;
    assert_eq!((stored[0].variant, stored[0].outcome), (1, ArrivalOutcome::Revised));
}

async fn requests_sent(database: &Database) -> Vec<(u32, u32, u64)> {
    let mut relay = database.relay().await;
    let unsent = relay.next(1000).await.unwrap();
    let ids: Vec<i64> = unsent.iter().map(|u| u.id).collect();
    relay.record_sent(&ids, start()).await.unwrap();
    unsent
        .into_iter()
        .filter_map(|u| match u.message {
            Message::Resymbolicate { revision, supersedes, needs, .. } => {
                Some((revision, supersedes, needs.iter().map(|n| n.generation).max().unwrap_or(0)))
            }
            _ => None,
        })
        .collect()
}

/// Proves: late-symbols
#[tokio::test]
async fn one_request_at_a_time_numbered_one_more_and_sent_again_after_ten_minutes() {
    let database = Database::new().await;
    database.store(&[arrival(1)]).await;
    let generation = publish(&database, 1, Quality::Symtab).await;
    let wake = async || {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let page = wakes::request_page(&mut tx, &debug_id(1), generation, None, 10).await.unwrap();
        tx.commit().await.unwrap();
        page.requested
    };
    assert_eq!(wake().await, 1);
    assert_eq!(wake().await, 0, "one is on its way");
    assert_eq!(requests_sent(&database).await, [(2, 1, 1)]);
    database.wait(Duration::minutes(9));
    assert_eq!((wake().await, requests::resend_overdue(&database.store, 10).await.unwrap()), (0, 0));
    database.wait(Duration::minutes(2));
    assert_eq!(requests::resend_overdue(&database.store, 10).await.unwrap(), 1);
    assert_eq!(requests::resend_overdue(&database.store, 10).await.unwrap(), 0);
    assert_eq!(requests_sent(&database).await, [(2, 1, 1)], "under the same number");
    // Better symbols come while the answer is on its way: after it, the question is asked anew.
    assert_eq!(publish(&database, 1, Quality::Dwarf).await, 2);
    let stored = database.store(&[revised(&arrival(1), 2, image(1, false, Some(1)))]).await;
    assert_eq!(stored[0].requested, Some(3));
    assert_eq!(requests_sent(&database).await, [(3, 2, 2)]);
    let stored = database.store(&[revised(&arrival(1), 3, image(1, false, Some(2)))]).await;
    assert_eq!(stored[0].requested, None);
    database.wait(Duration::HOUR);
    assert_eq!(requests::resend_overdue(&database.store, 10).await.unwrap(), 0);
}

#[tokio::test]
async fn symbols_that_were_there_first_are_asked_for_when_the_report_is_stored() {
    let database = Database::new().await;
    publish(&database, 1, Quality::Dwarf).await;
    let stored = database.store(&[arrival(1)]).await;
    assert_eq!(stored[0].requested, Some(2));
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let sources = requests::find_sources(&mut tx, &[(arrival(1).report_id, 0)]).await.unwrap();
    let source = &sources[&(arrival(1).report_id, 0)];
    assert_eq!((source.revision, &source.body), (1, &crate::segments::ReportBody::Inline(arrival(1).body)));
    // Taken away again: nothing to ask for.
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let upload = crate::uploads::create_upload(&mut tx, None, None).await.unwrap();
    let object = crate::tests::symbols::symbols_and_uploads::object(1, Some(1));
    crate::objects::record_found(&mut tx, upload, &[("a", &object)]).await.unwrap();
    crate::symbols::delete_symbols(&mut tx, &debug_id(1)).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    assert_eq!(database.store(&[arrival(2)]).await[0].requested, None);
}

#[tokio::test]
async fn a_system_image_wakes_the_reports_of_its_days() {
    let database = Database::new().await;
    database.store(&[arrival(1), arrival(2), arrival(3)]).await;
    let generation = publish(&database, 200, Quality::Symtab).await;
    let (mut cursor, mut requested, mut pages) = (None, 0, 0);
    loop {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let page = wakes::request_page(&mut tx, &debug_id(200), generation, cursor, 2).await.unwrap();
        tx.commit().await.unwrap();
        requested += page.requested;
        pages += 1;
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!((requested, pages), (3, 3));
    assert_eq!(database.number("SELECT min(seen_generation) FROM system_waits").await, 1);
}

/// Proves: replay
#[tokio::test]
async fn a_replay_asks_only_for_what_is_still_open_at_its_end() {
    let database = Database::new().await;
    publish(&database, 1, Quality::Dwarf).await;
    database.store_as(&[arrival(1), arrival(2)], Effects::Deferred).await;
    database.store_as(&[revised(&arrival(1), 2, image(1, false, Some(1)))], Effects::Deferred).await;
    assert_eq!(requests_sent(&database).await, []);
    assert_eq!(requests::ask_pending(&database.store, 10).await.unwrap(), 1);
    assert_eq!(requests_sent(&database).await, [(2, 1, 1)], "of the second report only");
    assert_eq!(requests::ask_pending(&database.store, 10).await.unwrap(), 0);
}

#[tokio::test]
async fn what_is_too_old_is_remembered_and_not_stored() {
    let database = Database::new().await;
    let mut old = arrival(1);
    old.received_at = start() - Duration::days(100);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let keep = start() - Duration::days(90);
    let stored = reports::store_arrivals(&mut tx, &[old.clone()], Effects::Now, Some(keep)).await.unwrap();
    assert_eq!(stored[0].outcome, ArrivalOutcome::Expired);
    tx.commit().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM report_keys").await, 1);
    assert_eq!(database.number("SELECT count(*) FROM reports").await, 0);
    assert_eq!(database.number("SELECT count(*) FROM app_days").await, 0);
    // A day that was dropped takes its reports along, and no later revision brings them back.
    database.store(&[arrival(2)]).await;
    partitions::drop_before(&database.store, start().date().next_day().unwrap()).await.unwrap();
    let stored = database.store(&[revised(&arrival(2), 2, image(1, false, Some(1)))]).await;
    assert_eq!(stored[0].outcome, ArrivalOutcome::Expired);
    assert_eq!(database.number("SELECT count(*) FROM reports").await, 0);
}

#[tokio::test]
async fn hostile_texts_and_large_bodies_are_stored() {
    let database = Database::new().await;
    let mut hostile = arrival(1);
    hostile.facts.app = format!("a\0{}", "é".repeat(5_000));
    hostile.facts.reason = Some("\0\u{FFFF}".repeat(10_000));
    hostile.facts.summary = serde_json::json!({"a\0": ["\0", {"b": "\\u0000 \\\u{0}"}]});
    hostile.facts.device = Some(vec![1; 5_000]);
    hostile.facts.device_time = Some(time::macros::datetime!(9999-12-31 23:59:59 UTC));
    hostile.images[0].name = "\0".repeat(1_000);
    let large: Vec<u8> = (0..30_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    hostile.body = unslide_proto::body::compress_report(&large);
    hostile.traceparent = Some("x".repeat(100_000));
    // The settings of a hang's app are asked for.
    let mut hang = arrival(2);
    (hang.facts.app, hang.facts.kind) = (hostile.facts.app.clone(), "hang".into());
    hang.facts.grouping = Some(ReportGrouping { kind: "hang".into(), ..grouping(2, true) });
    assert_eq!(outcomes(&database.store(&[hostile, hang]).await), [ArrivalOutcome::New; 2]);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let (_, body) = report::get(&mut tx, arrival(1).report_id, 0).await.unwrap().unwrap();
    assert_eq!(body.decompress_json().unwrap(), large);
}

/// Reports that all have and reports of one's own, with the same images and versions, each in the one
/// order and in the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_at_the_same_time_neither_deadlock_nor_miscount() {
    let database = Database::new().await;
    let mut tasks = Vec::new();
    for worker in 0..4_u8 {
        let store = database.store.clone();
        tasks.push(tokio::spawn(async move {
            for round in 0..6_u8 {
                let first = if round % 2 == 0 { round * 5 } else { 40 + worker * 30 + round * 5 };
                let one = |n: u8| {
                    let mut report = arrival(first + n);
                    report.facts.version = format!("{n}.0");
                    report.images = vec![image(n, false, None), image(100 + n, true, None)];
                    report
                };
                let mut arrivals: Vec<_> = (0..10).map(one).collect();
                if worker % 2 == 1 {
                    arrivals.reverse();
                }
                let mut tx = store.batch().await.unwrap();
                for tenant in [acme(), tenant_id("umbrella")] {
                    let tx_of = tx.enter_tenant(&tenant).await.unwrap();
                    reports::store_arrivals(tx_of, &arrivals, Effects::Now, None).await.unwrap();
                }
                tx.commit().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    // 30 that all have, and of each worker 30 of its own.
    for tenant in ["acme", "umbrella"] {
        for (of, wanted) in [
            ("reports) FROM app_days", 150),
            ("reports) FROM wanted_images", 300),
            ("1) FROM reports", 150),
            ("1) FROM waits", 150),
        ] {
            let sum = format!("SELECT sum({of} WHERE tenant = '{tenant}'").replacen(')', ")::bigint", 1);
            assert_eq!(database.number(&sum).await, wanted, "{sum}");
        }
    }
}

#[tokio::test]
async fn how_the_log_is_cut_into_batches_does_not_show_in_the_counts() {
    let revision = revised(&arrival(1), 2, image(1, false, Some(1)));
    let log = [arrival(1), revision, arrival(2)];
    let mut counts = Vec::new();
    for batch in [1, 3] {
        let database = Database::new().await;
        for arrivals in log.chunks(batch) {
            database.store(arrivals).await;
        }
        let wanted = database.number("SELECT sum(reports)::bigint FROM wanted_images").await;
        let stored = database.number("SELECT sum(reports)::bigint FROM app_days").await;
        let symbolicated = database.number("SELECT sum(frames_symbolicated)::bigint FROM app_days").await;
        let of_devices = database.number("SELECT sum(reports)::bigint FROM app_devices").await;
        let came_without = database.number("SELECT sum(cardinality(wanted))::bigint FROM reports").await;
        assert_eq!((of_devices, came_without), (2, wanted), "what a deletion would take back");
        counts.push((wanted, stored, symbolicated));
    }
    assert_eq!(counts[0], counts[1], "one by one, and all at once");
    assert!(counts[0].0 >= 2 && counts[0].1 == 2, "{counts:?}");
}

/// Proves: fairness
#[tokio::test]
async fn a_batch_says_how_many_groups_and_days_of_apps_are_new() {
    let database = Database::new().await;
    let of_app = |n: u8, app: &str| {
        let mut arrival = arrival(n);
        arrival.facts.app = app.to_owned();
        arrival
    };
    // Bugs are told apart by the remainder of three.
    for (arrivals, new) in [
        (vec![of_app(1, "shop"), of_app(4, "shop")], (1, 1)),
        (vec![of_app(2, "shop"), of_app(5, "shop")], (1, 0)),
        (vec![of_app(3, "till"), of_app(6, "desk")], (2, 2)),
        (vec![of_app(3, "till"), of_app(7, "shop")], (0, 0)),
    ] {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let batch = reports::store_batch(&mut tx, &arrivals, Effects::Now, None).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!((batch.new_groups, batch.new_app_days), new);
    }
}
