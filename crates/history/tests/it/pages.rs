//! Pages have every report once, in the order of PostgreSQL.

use crate::world::{World, row, tenant};
use serde_json::json;
use unslide_history::{HistoryFilter, HistoryOrder, HistoryPlace, HistoryRow, HistoryVersion};
use uuid::Uuid;

#[tokio::test]
async fn pages_have_each_report_once_in_the_order_of_times_ids_and_variants() {
    let world = World::start().await;
    let acme = tenant("acme");
    // Two have the same time each, and one id has three variants.
    let mut rows: Vec<HistoryRow> = (0..20).map(|number| row(number, 1, &json!({}))).collect();
    let sixth = rows[5].clone();
    rows.extend((1..3).map(|variant| HistoryRow { variant, ..sixth.clone() }));
    world.history.insert(&acme, Uuid::from_u128(1), &rows).await.unwrap();
    // Outdated versions, in a part of their own, take no place of a page.
    world.history.insert(&acme, Uuid::from_u128(2), &rows[..10]).await.unwrap();
    rows.sort_by_key(HistoryRow::place);
    for order in [HistoryOrder::OldestFirst, HistoryOrder::NewestFirst] {
        let (mut found, mut after) = (Vec::new(), None::<HistoryPlace>);
        loop {
            let any = HistoryFilter::default();
            let page = world.history.find(&acme, &any, after, order, 5).await.unwrap();
            after = page.last().map(HistoryRow::place);
            found.extend(page);
            if found.len() % 5 > 0 || after.is_none() {
                break;
            }
        }
        assert_eq!(found, rows, "{order:?}");
        let versions =
            world.history.find_versions(&acme, &HistoryFilter::default(), None, order, 100).await.unwrap();
        let expected = rows.iter().map(|row| HistoryVersion { place: row.place(), version: 1 });
        assert_eq!(versions, expected.collect::<Vec<_>>());
        rows.reverse();
    }
    world.stop().await;
}

#[tokio::test]
async fn more_rows_than_a_statement_takes_are_read() {
    let world = World::start().await;
    let acme = tenant("acme");
    let rows: Vec<HistoryRow> = (0..2_500).map(|number| row(number, 1, &json!({}))).collect();
    world.history.insert(&acme, Uuid::from_u128(1), &rows).await.unwrap();
    let found = world
        .history
        .find(&acme, &HistoryFilter::default(), None, HistoryOrder::OldestFirst, 5_000)
        .await
        .unwrap();
    assert!(found == rows, "{} rows", found.len());
    world.stop().await;
}
