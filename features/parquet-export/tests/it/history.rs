//! Days of which rows are in ClickHouse.

use crate::parquet_export::lake::{Lake, column_texts};
use time::Duration;
use unslide_history::{History, HistorySettings};
use unslide_parquet_export::ExportSizes;
use unslide_store::history;
use unslide_testkit::servers;
use unslide_world::tenant_id;

/// Moves all rows of a day to ClickHouse.
async fn move_rows(lake: &Lake, history: &History, days_ago: i64) {
    // Their bodies went to object storage before.
    lake.execute("DELETE FROM report_bodies").await;
    let (tenant, store) = (tenant_id("acme"), lake.store.clone().with_history(Some(history.clone())));
    let changed_before = store.now() + Duration::DAY;
    let mut tx = store.tenant(&tenant).await.unwrap();
    let begun = history::begin_move(&mut tx, lake.day_ago(days_ago), changed_before, 100, 1 << 20).await;
    tx.commit().await.unwrap();
    let begun = begun.unwrap().unwrap();
    history.insert(&tenant, begun.token, &begun.to_history_rows()).await.unwrap();
    let mut tx = store.tenant(&tenant).await.unwrap();
    assert_eq!(history::finish_move(&mut tx, &begun).await.unwrap(), Some(begun.rows.len() as u64));
    tx.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_is_whole_if_rows_of_it_are_in_clickhouse() {
    let sizes = ExportSizes { page_rows: 2, group_rows: 3, ..ExportSizes::default() };
    let mut lake = Lake::start_with_sizes(&[], sizes).await;
    lake.kill_builder().await;
    lake.history = HistorySettings {
        url: Some(servers::clickhouse()),
        user: "default".into(),
        database: servers::unique("lake").replace('-', "_"),
        ..HistorySettings::default()
    };
    let history = History::new(&lake.history).unwrap();
    history.create_schema().await.unwrap();
    let shop = |number| lake.report(number, "com.acme.shop", 2);
    lake.store_reports(&[shop(1), shop(3), shop(4), shop(6), lake.report(7, "com.acme.cafe", 2)]).await;
    move_rows(&lake, &history, 2).await;
    lake.store_reports(&[shop(2), shop(5)]).await;
    assert_eq!(lake.number("SELECT count(*) FROM reports").await, 2);
    lake.start_builder();
    lake.set_export(2).await;
    lake.wait_until_written().await;
    let mut ids = column_texts(&lake.read_rows(2), "report_id");
    ids.sort();
    let expected: Vec<String> = (1..=7).map(|n| unslide_model::ReportId([n; 16]).to_string()).collect();
    assert_eq!(ids, expected);
    lake.stop().await;
}
