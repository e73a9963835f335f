//! Bodies on their way into segments: whatever happens in between, a report has one body.

use crate::queries::report;
use crate::reports::{self, Arrival, ArrivalOutcome, Effects};
use crate::requests::{self, RequestOutcome};
use crate::segments::{self, MovedBody, PendingBody, ReportBody, SegmentIntent};
use crate::tests::database::{Database, acme, arrival, image, publish, revised, start};
use crate::{SegmentId, Uuid, retention, wakes};
use time::{Date, Duration};
use unslide_model::{BodyKey, Quality};

fn today() -> Date {
    start().date()
}

pub async fn begin(database: &Database, name: &str) -> Option<SegmentIntent> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let id = segments::new_id(&mut tx).await.unwrap();
    let begun =
        segments::begin_segment(&mut tx, id, today(), &format!("t/acme/segments/{name}")).await.unwrap();
    tx.commit().await.unwrap();
    begun
}

async fn waiting(database: &Database) -> Vec<PendingBody> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    segments::list_pending_bodies(&mut tx, today(), None, 1 << 20).await.unwrap()
}

/// A frame of 100 bytes for each.
fn frames(waiting: &[PendingBody]) -> Vec<MovedBody> {
    let frame = |(n, w): (u64, &PendingBody)| MovedBody {
        received_at: w.received_at,
        report_id: w.report_id,
        variant: w.variant,
        revision: w.revision,
        stored_at: w.stored_at,
        offset: n * 100,
        length: 100,
        key: BodyKey([7; 32]),
    };
    (0..).zip(waiting).map(frame).collect()
}

pub async fn finish(database: &Database, begun: &SegmentIntent, frames: &[MovedBody]) -> Option<u64> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let finished = segments::finish_segment(&mut tx, begun, frames).await.unwrap();
    tx.commit().await.unwrap();
    finished
}

/// Moves everything of acme's day into one segment.
pub async fn move_all(database: &Database, name: &str) -> SegmentIntent {
    let begun = begin(database, name).await.unwrap();
    let frames = frames(&waiting(database).await);
    finish(database, &begun, &frames).await.unwrap();
    begun
}

async fn body(database: &Database, n: u8) -> Option<ReportBody> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    report::get(&mut tx, arrival(n).report_id, 0).await.unwrap().map(|(_, body)| body)
}

async fn keys(database: &Database) -> Vec<String> {
    let at = start() + Duration::days(30);
    let due = segments::condemned_due(&database.store, at, 100).await.unwrap();
    due.into_iter().map(|c| c.key).collect()
}

#[tokio::test]
async fn bodies_are_paged_by_their_bytes_and_one_too_large_comes_alone() {
    let database = Database::new().await;
    let mut large = arrival(2);
    large.body = vec![7; 5_000];
    database.store(&[arrival(1), large, arrival(3), arrival(4)]).await;
    let pending = segments::list_pending(&database.store).await.unwrap();
    assert_eq!((pending.len(), pending[0].bodies, pending[0].largest), (1, 4, 5_000));
    assert_eq!((pending[0].day, pending[0].oldest), (today(), start()));
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let (mut after, mut pages) = (None, Vec::new());
    loop {
        let page = segments::list_pending_bodies(&mut tx, today(), after, 100).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some((last.received_at, last.report_id, last.variant));
        pages.push(page.iter().map(|w| w.report_id.0[0]).collect::<Vec<_>>());
    }
    assert_eq!(pages, [vec![1], vec![2], vec![3, 4]]);
}

#[tokio::test]
async fn a_report_that_was_revised_meanwhile_keeps_its_new_body() {
    let database = Database::new().await;
    database.store(&[arrival(1), arrival(2), arrival(3)]).await;
    let begun = begin(&database, "a").await.unwrap();
    let moved = frames(&waiting(&database).await);
    let revision = revised(&arrival(2), 2, image(1, false, Some(1)));
    database.store(std::slice::from_ref(&revision)).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(reports::delete_report(&mut tx, arrival(3).report_id, 0, None).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(finish(&database, &begun, &moved).await, Some(1));
    let Some(ReportBody::Segment(place)) = body(&database, 1).await else { panic!("it has not moved") };
    assert_eq!((place.segment, place.day, place.offset, place.length), (begun.id, today(), 0, 100));
    assert_eq!(body(&database, 2).await.unwrap().decompress_json().unwrap(), b"{\"revision\":2}");
    assert_eq!(body(&database, 3).await, None);
    assert_eq!(database.number("SELECT count(*) FROM report_bodies").await, 1);
    // What a request carries is where the body is.
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let asked = [2, 3, 1].map(|n| (arrival(n).report_id, 0));
    let sources = requests::find_sources(&mut tx, &asked).await.unwrap();
    assert_eq!(sources.keys().collect::<Vec<_>>(), [&asked[2], &asked[0]], "the third is gone");
    let said = |asked| (sources[asked].revision, sources[asked].body.clone());
    assert_eq!(said(&asked[2]), (1, ReportBody::Segment(place)));
    assert_eq!(said(&asked[0]), (2, ReportBody::Inline(revision.body)));
    drop(tx);
    // A revision of what has moved: the body is here again, the frame's key is gone, and so is the segment.
    database.store(&[revised(&arrival(1), 2, image(1, false, Some(1)))]).await;
    assert_eq!(body(&database, 1).await.unwrap().decompress_json().unwrap(), b"{\"revision\":2}");
    assert_eq!(database.number("SELECT count(*) FROM report_frames").await, 0);
    assert_eq!(keys(&database).await, ["t/acme/segments/a"]);
    assert_eq!(database.number("SELECT count(*) FROM segments").await, 0);
}

#[tokio::test]
async fn one_writer_a_day_and_one_that_was_given_up_changes_nothing() {
    let database = Database::new().await;
    database.store(&[arrival(1)]).await;
    let first = begin(&database, "first").await.unwrap();
    assert_eq!(begin(&database, "second").await, None, "somebody is at it");
    // The first is taken for dead, and another takes over.
    database.wait(Duration::HOUR);
    assert_eq!(segments::abandon_intents(&database.store, start() + Duration::MINUTE).await.unwrap(), 1);
    let second = move_all(&database, "second").await;
    let before = database.dump().await;
    // It was only slow.
    let late = frames(&[PendingBody {
        received_at: arrival(1).received_at,
        report_id: arrival(1).report_id,
        variant: 0,
        revision: 1,
        stored_at: start(),
        size: 1,
        body: Vec::new(),
    }]);
    assert_eq!(finish(&database, &first, &late).await, None);
    assert_eq!(database.dump().await, before);
    let Some(ReportBody::Segment(place)) = body(&database, 1).await else { panic!("it has not moved") };
    assert_eq!(place.segment, second.id);
    assert_eq!(keys(&database).await, ["t/acme/segments/first"], "whatever it wrote is condemned");
}

#[tokio::test]
async fn a_body_that_was_rewritten_while_a_segment_was_written_stays_in_the_database() {
    let database = Database::new().await;
    database.store(&[arrival(1), arrival(2)]).await;
    let begun = begin(&database, "a").await.unwrap();
    let written = frames(&waiting(&database).await);
    database.wait(Duration::SECOND);
    let other = Arrival { body: unslide_proto::body::compress_report(b"{}"), ..arrival(1) };
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert_eq!(crate::reports::rewrite_reports(&mut tx, &[other]).await.unwrap(), 1);
    tx.commit().await.unwrap();
    assert_eq!(finish(&database, &begun, &written).await, Some(1));
    let Some(ReportBody::Inline(stored)) = body(&database, 1).await else { panic!("it has moved") };
    assert_eq!(unslide_proto::body::decompress_report(&stored, 100).unwrap(), b"{}");
    assert!(matches!(body(&database, 2).await, Some(ReportBody::Segment(_))));
}

/// Proves: deletion
#[tokio::test]
async fn a_deleted_report_is_gone_everywhere_and_nothing_brings_it_back() {
    let database = Database::new().await;
    let generation = publish(&database, 1, Quality::Symtab).await;
    database.store(&[arrival(1), arrival(2)]).await;
    move_all(&database, "a").await;
    let newer = publish(&database, 1, Quality::Dwarf).await;
    assert!(newer > generation);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    wakes::request_page(&mut tx, &crate::tests::database::debug_id(1), newer, None, 10).await.unwrap();
    let id = arrival(1).report_id;
    assert!(!reports::delete_report(&mut tx, id, 0, Some("com.acme.bank")).await.unwrap(), "of another app");
    assert!(!reports::delete_report(&mut tx, id, 1, None).await.unwrap(), "another variant");
    assert!(reports::delete_report(&mut tx, id, 0, Some("com.acme.shop")).await.unwrap());
    assert!(!reports::delete_report(&mut tx, id, 0, None).await.unwrap(), "a second time");
    tx.commit().await.unwrap();
    assert_eq!(body(&database, 1).await, None);
    let left = |table: &str| {
        format!("SELECT count(*) FROM {table} WHERE report_id = '01010101-0101-0101-0101-010101010101'")
    };
    for table in ["reports", "report_bodies", "report_frames", "waits"] {
        assert_eq!(database.number(&left(table)).await, 0, "{table}");
    }
    assert_eq!(database.number("SELECT reports FROM app_days").await, 1);
    assert_eq!(database.number("SELECT frames_total FROM app_days").await, 10);
    // A copy of it, an answer that was on its way, an answer that found nothing, an overdue request.
    let stored = database.store(&[arrival(1), revised(&arrival(1), 2, image(1, false, Some(2)))]).await;
    assert_eq!(stored.iter().map(|s| s.outcome).collect::<Vec<_>>(), [ArrivalOutcome::Deleted; 2]);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(requests::find_sources(&mut tx, &[(id, 0)]).await.unwrap().is_empty());
    let at = start() + Duration::HOUR;
    assert!(requests::close_request(&mut tx, (id, 0), 2, RequestOutcome::Gone, at).await.unwrap().is_none());
    tx.commit().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM report_keys WHERE deleted_at IS NOT NULL").await, 1);
    // The other report keeps the segment.
    assert_eq!(database.number("SELECT count(*) FROM segments").await, 1);
}

/// Proves: late-symbols
#[tokio::test]
async fn a_request_whose_body_has_moved_is_sent_again_and_not_given_up() {
    let database = Database::new().await;
    publish(&database, 1, Quality::Dwarf).await;
    assert_eq!(database.store(&[arrival(1)]).await[0].requested, Some(2));
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let at = start() + Duration::SECOND;
    assert!(
        requests::close_request(&mut tx, (arrival(1).report_id, 0), 2, RequestOutcome::Gone, at)
            .await
            .unwrap()
            .is_none()
    );
    tx.commit().await.unwrap();
    move_all(&database, "a").await;
    database.wait(requests::ANSWER_TIMEOUT + Duration::SECOND);
    assert_eq!(requests::resend_overdue(&database.store, 10).await.unwrap(), 1);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let at = database.sent((arrival(1).report_id, 0)).await;
    assert!(
        requests::close_request(&mut tx, (arrival(1).report_id, 0), 2, RequestOutcome::Unsendable, at)
            .await
            .unwrap()
            .is_some()
    );
}

/// A drop locks tables that every reader needs, so it waits for nothing else meanwhile.
#[tokio::test]
async fn days_are_dropped_whoever_uses_what_is_kept_by_day() {
    let database = Database::new().await;
    database.store(&[arrival(1)]).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let (connection, tenant, _) = tx.parts();
    let held = sqlx::query("SELECT FROM system_waits WHERE tenant = $1 FOR UPDATE");
    assert_eq!(held.bind(tenant).execute(connection).await.unwrap().rows_affected(), 1);
    let tomorrow = today() + Duration::DAY;
    assert_eq!(crate::partitions::drop_before(&database.store, tomorrow).await.unwrap(), 24);
    // The tenant's own retention removes it.
    assert_eq!(retention::condemn_days(&mut tx, tomorrow, 10).await.unwrap(), 0);
    tx.commit().await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM system_waits").await, 0);
}

#[tokio::test]
async fn a_tenants_days_expire_in_pages_with_everything_and_stay_remembered() {
    let database = Database::new().await;
    let yesterday = |n: u8| {
        let mut arrival = arrival(n);
        arrival.received_at = start() - Duration::days(2);
        arrival
    };
    let old = [yesterday(1), yesterday(2), yesterday(3)];
    database.store(&old).await;
    database.store(&[arrival(9)]).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let day = today() - Duration::days(2);
    let segment = SegmentIntent { id: SegmentId::from_uuid(Uuid::from_u128(7)), day };
    segments::begin_segment(&mut tx, segment.id, day, "t/acme/segments/old").await.unwrap().unwrap();
    let waiting = segments::list_pending_bodies(&mut tx, day, None, 1 << 20).await.unwrap();
    segments::finish_segment(&mut tx, &segment, &frames(&waiting[..2])).await.unwrap().unwrap();
    let before = today() - Duration::DAY;
    for expired in [2, 1, 0] {
        assert_eq!(retention::expire_reports(&mut tx, before, 2).await.unwrap(), expired);
    }
    assert_eq!(
        retention::condemn_days(&mut tx, before, 10).await.unwrap(),
        0,
        "the segment went with its reports"
    );
    tx.commit().await.unwrap();
    for table in ["reports", "report_bodies", "waits", "system_waits"] {
        let rows = database.number(&format!("SELECT count(*) FROM {table}")).await;
        assert_eq!(rows, 1, "{table} keeps today's");
    }
    assert_eq!(database.number("SELECT count(*) FROM report_frames").await, 0);
    assert_eq!(keys(&database).await, ["t/acme/segments/old"]);
    assert_eq!(
        database.store(&old).await[0].outcome,
        ArrivalOutcome::Duplicate,
        "not brought back by a replay"
    );
    let again = database.store_as(&[revised(&old[0], 2, image(1, false, Some(1)))], Effects::Now).await;
    assert_eq!(again[0].outcome, ArrivalOutcome::Expired);
    assert_eq!(database.number("SELECT count(*) FROM reports").await, 1);
}

#[tokio::test]
async fn how_long_reports_are_kept_is_the_tenants_limit_within_what_is_remembered() {
    assert_eq!(retention::kept_days(0, 90, 400), 90);
    assert_eq!(retention::kept_days(7, 90, 400), 7);
    assert_eq!(retention::kept_days(1_000, 90, 400), 399);
    let database = Database::new().await;
    assert_eq!(retention::read_longest_days(&database.store, 90, 400).await.unwrap(), 90);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let limits =
        crate::tenants::QuotaLimits { retention_days: 200, ..crate::tenants::QuotaLimits::default() };
    crate::tenants::change_tenant(&mut tx, "Acme", crate::tenants::TenantStanding::Active, &limits)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(retention::read_longest_days(&database.store, 90, 400).await.unwrap(), 200);
    assert_eq!(retention::read_longest_days(&database.store, 90, 100).await.unwrap(), 99);
}
