//! Reports that come twice.

use crate::queries::duplicates;
use crate::reports::{Arrival, ArrivalOutcome, ReportOrigin};
use crate::tests::database::{Database, acme, arrival, image, revised, start};
use time::Duration;
use unslide_model::ContentHash;

/// Report 1 as the input record at `offset` brought it.
fn from(offset: i64, index: i32) -> Arrival {
    let origin = ReportOrigin { topic: "crash.reports".into(), partition: 0, offset, index };
    let received_at = start() + Duration::seconds(offset);
    Arrival { origin: Some(origin), received_at, ..arrival(1) }
}

async fn noted(database: &Database, variant: u32) -> (u64, Option<i64>) {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let found = duplicates::count_duplicates(&mut tx, arrival(1).report_id, variant).await.unwrap();
    (found.count, found.last.map(|last| (last - start()).whole_seconds()))
}

/// Proves: replay
#[tokio::test]
async fn a_second_arrival_is_noted_once_and_counted_never() {
    let database = Database::new().await;
    // Twice in one batch, in one record of several, and again later.
    let all = [from(1, 0), from(2, 0), from(2, 1), from(9, 0)];
    database.store(&all[..3]).await;
    assert_eq!(noted(&database, 0).await, (2, Some(2)));
    assert_eq!(database.store(&all[3..]).await[0].outcome, ArrivalOutcome::Duplicate);
    assert_eq!(noted(&database, 0).await, (3, Some(9)));
    assert_eq!(database.number("SELECT sum(reports)::bigint FROM app_days").await, 1);
    // Its revisions have its origin, without the place in the record: they are no duplicates.
    let revision = Arrival { origin: from(1, 0).origin, ..revised(&arrival(1), 2, image(1, false, Some(1))) };
    database.store(&[revision]).await;
    let before = database.dump().await;
    // The log again, whole and in pieces, notes nothing.
    database.store(&all).await;
    for one in &all {
        database.store(std::slice::from_ref(one)).await;
    }
    assert_eq!(database.dump().await, before);
    assert_eq!(noted(&database, 0).await, (3, Some(9)));
    // Other bytes under the same id are another report, not a second arrival.
    let mut other = from(20, 0);
    other.content_hash = ContentHash([99; 32]);
    assert_eq!(database.store(&[other]).await[0].variant, 1);
    assert_eq!((noted(&database, 0).await, noted(&database, 1).await), ((3, Some(9)), (0, None)));
    // Forgotten with the report's key.
    crate::partitions::drop_keys(&database.store, start() + Duration::DAY).await.unwrap();
    assert_eq!(database.number("SELECT count(*) FROM report_duplicates").await, 0);
}

/// An app gets more slots, or a gateway has its own keys: the same report then comes in two partitions.
///
/// Proves: replay
#[tokio::test]
async fn an_id_in_two_partitions_counts_once_in_either_order_and_when_it_is_replayed() {
    for order in [[0, 1], [1, 0]] {
        let database = Database::new().await;
        let in_partition = |partition, offset| {
            let origin = ReportOrigin { topic: "crash.reports".into(), partition, offset, index: 0 };
            Arrival { origin: Some(origin), ..arrival(1) }
        };
        let both = [in_partition(3, 70), in_partition(7, 5)];
        // Two readers, each with a transaction of its own.
        for place in order {
            database.store(&both[place..=place]).await;
        }
        assert_eq!(database.number("SELECT sum(reports)::bigint FROM app_days").await, 1);
        assert_eq!((noted(&database, 0).await.0, noted(&database, 1).await.0), (1, 0));
        let before = database.dump().await;
        for place in [0, 1, 0] {
            database.store(&both[place..=place]).await;
        }
        database.store(&both).await;
        assert_eq!(database.dump().await, before);
        let late = revised(&in_partition(7, 5), 2, image(1, false, Some(1)));
        let twice = [late.clone(), late];
        for one in &twice {
            database.store(std::slice::from_ref(one)).await;
        }
        assert_eq!(database.number("SELECT sum(reports)::bigint FROM app_days").await, 1);
        assert_eq!(database.number("SELECT count(*) FROM reports").await, 1);
    }
}

/// A device, or somebody who means harm, sends ever new reports under one id: what a further one costs
/// does not grow with how many there are.
#[tokio::test]
async fn a_further_report_of_an_id_leaves_the_others_of_it_alone() {
    let database = Database::new().await;
    let other = |n: u8| Arrival { content_hash: ContentHash([n; 32]), ..from(i64::from(n), 0) };
    let many: Vec<Arrival> = (1..=200).map(other).collect();
    database.store(&many).await;
    assert_eq!(database.number("SELECT count(*) FROM report_keys WHERE conflicted").await, 200);
    let now = database.number("SELECT pg_current_xact_id()::text::bigint").await;
    assert_eq!(database.store(&[other(201)]).await[0].variant, 200);
    // To lock a row marks it as to change it does.
    let touched = "FROM report_keys WHERE greatest(xmin::text::bigint, xmax::text::bigint)";
    let touched = database.number(&format!("SELECT count(*) {touched} > {now}")).await;
    assert_eq!(touched, 2, "the first one and the new one");
}
