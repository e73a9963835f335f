//! Days that are over are written with their apps, and read back.

use crate::parquet_export::lake::{Lake, column_texts};
use serde_json::json;
use time::Duration;
use unslide_parquet_export::ExportSizes;
use unslide_store::persons::hash_person;
use unslide_store::reports::{Arrival, count_once};

#[tokio::test(flavor = "multi_thread")]
async fn a_day_is_written_with_a_file_for_each_app_behind_a_manifest() {
    let lake = Lake::start(&[]).await;
    let mut named = lake.report(1, "com.acme.shop", 2);
    named.facts.device = Some(hash_person("Robin's iPhone").to_vec());
    named.facts.users = vec![hash_person("robin")];
    named.facts.reason = Some("no mail for robin@example.com".to_owned());
    named.facts.model = Some("iPhone17,1".to_owned());
    named.facts.device_time = Some(named.received_at - Duration::MINUTE);
    named.facts.summary =
        json!({"exception": "EXC_BAD_ACCESS", "signal": "SIGSEGV", "thread_name": "robin-thread"});
    let reports = [
        named,
        lake.report(2, "com.acme.shop", 2),
        lake.report(3, "My Shop/ä", 2),
        lake.report(4, "com.acme.shop", 1),
    ];
    lake.store_reports(&reports).await;
    // Today is not over.
    lake.store_reports(&[lake.report(5, "com.acme.shop", 0)]).await;
    lake.set_export(3).await;
    lake.wait_until_written().await;
    let manifest = lake.read_manifest(2);
    let paths: Vec<String> = lake.list_named(2).into_iter().collect();
    let (day, generation) = (lake.day_ago(2), manifest.generation);
    assert_eq!(
        paths,
        [
            format!("reports/day={day}/app=My%20Shop%2F%C3%A4/part-{generation}-0.parquet"),
            format!("reports/day={day}/app=com.acme.shop/part-{generation}-0.parquet"),
        ]
    );
    assert_eq!((manifest.tenant.as_str(), manifest.day), ("acme", day.to_string()));
    let rows = lake.read_rows(2);
    let mut ids = column_texts(&rows, "report_id");
    ids.sort();
    let expected = [
        "01010101-0101-0101-0101-010101010101",
        "02020202-0202-0202-0202-020202020202",
        "03030303-0303-0303-0303-030303030303",
    ];
    assert_eq!(ids, expected);
    let mut apps = column_texts(&rows, "app");
    apps.sort();
    assert_eq!(apps, ["My Shop/ä", "com.acme.shop", "com.acme.shop"]);
    let first = rows.iter().find(|row| row.to_string().contains(expected[0])).unwrap();
    let text = first.to_string();
    for part in ["EXC_BAD_ACCESS", "SIGSEGV", "iPhone17,1", "partial", "mach"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for name in ["robin", "Robin"] {
        assert!(!rows.iter().any(|row| row.to_string().contains(name)), "{name}");
    }
    // A day without reports is complete, too.
    assert_eq!((lake.read_manifest(3).rows, lake.read_manifest(1).rows), (0, 1));
    assert!(!lake.prefix_folder().join(format!("reports/day={}", lake.day_ago(0))).exists());
    let export = lake.read_export().await;
    assert!(export["written_at"].is_string() && export["problem"].is_null(), "{export}");
    lake.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rows_count_what_the_api_counts() {
    let lake = Lake::start(&[]).await;
    let of_run = |number: u8, metric_kit: bool| {
        let mut report = lake.report(number, "com.acme.shop", 1);
        report.facts.run_id = Some(unslide_store::Uuid::from_bytes([9; 16]));
        report.facts.metric_kit = metric_kit;
        report
    };
    let reports = [
        lake.report(1, "com.acme.shop", 2),
        lake.report(2, "com.acme.shop", 1),
        of_run(3, false),
        of_run(4, true),
        lake.sampled_hang(5, 1),
    ];
    lake.store_reports(&reports).await;
    assert_eq!(count_once(&lake.store, 10).await.unwrap(), 1);
    lake.set_export(2).await;
    lake.wait_until_written().await;
    let rows = [lake.read_rows(2), lake.read_rows(1)].concat();
    let (weights, fatal, same) =
        (column_texts(&rows, "weight"), column_texts(&rows, "fatal"), column_texts(&rows, "same_crash_as"));
    let (mut reports, mut crashes) = (0, 0);
    for ((weight, fatal), _) in weights.iter().zip(&fatal).zip(&same).filter(|(_, same)| *same == "null") {
        let weight: u64 = weight.parse().unwrap();
        reports += weight;
        crashes += if fatal == "true" { weight } else { 0 };
    }
    let app = lake.get("/v1/apps", &lake.key).await.expect_status(200)["items"][0].clone();
    assert_eq!((&app["reports"], &app["crashes"]), (&json!(reports), &json!(crashes)));
    assert_eq!((reports, crashes, rows.len()), (7, 3, 5), "{app}");
    lake.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_day_has_each_row_once_over_pages_groups_and_files() {
    let sizes = ExportSizes { page_rows: 2, group_rows: 3, file_bytes: 1 };
    let lake = Lake::start_with_sizes(&[], sizes).await;
    // Five arrive in the same microsecond: a page ends among them.
    let at = lake.report(1, "com.acme.shop", 1).received_at;
    let reports: Vec<Arrival> = (1..=9)
        .map(|number| {
            let report = lake.report(number, "com.acme.shop", 1);
            Arrival { received_at: if number < 6 { at } else { report.received_at }, ..report }
        })
        .collect();
    lake.store_reports(&reports).await;
    lake.set_export(1).await;
    lake.wait_until_written().await;
    let mut ids = column_texts(&lake.read_rows(1), "report_id");
    ids.sort();
    let expected: Vec<String> = reports.iter().map(|report| report.report_id.to_string()).collect();
    assert_eq!(
        ids.iter().map(|id| id.replace('-', "")).collect::<Vec<_>>(),
        expected.iter().map(|id| id.replace('-', "")).collect::<Vec<_>>()
    );
    let files = lake.read_manifest(1).files;
    assert_eq!(files.iter().map(|file| file.rows).collect::<Vec<_>>(), [4, 4, 1]);
    lake.stop().await;
}
