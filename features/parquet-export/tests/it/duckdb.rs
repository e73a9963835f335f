//! DuckDB and ClickHouse read the files with the statements of the page, and count what the api counts.

use crate::parquet_export::lake::Lake;
use serde_json::json;
use std::path::Path;

/// Runs with DuckDB and ClickHouse in Python modules, which `scripts/check-parquet` installs. It is run by name.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "installs DuckDB and ClickHouse from PyPI"]
async fn duckdb_and_clickhouse_count_what_the_api_counts() {
    let lake = Lake::start(&[]).await;
    let reports = [
        lake.report(1, "com.acme.shop", 2),
        lake.report(2, "com.acme.shop", 2),
        lake.report(3, "com.acme.shop", 1),
        lake.sampled_hang(5, 1),
    ];
    lake.store_reports(&reports).await;
    lake.set_export(3).await;
    lake.wait_until_written().await;
    // Two generations are in the bucket, and the manifest names one.
    let mut revised = reports[0].clone();
    revised.revision = 2;
    lake.store_reports(&[revised]).await;
    lake.wait_until_written().await;
    assert_eq!((lake.list_files(2).len(), lake.list_named(2).len()), (2, 1));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/check-parquet");
    let output = tokio::process::Command::new(script).arg(lake.prefix_folder()).output().await.unwrap();
    let answer = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{answer}{}", String::from_utf8_lossy(&output.stderr));
    let app = lake.get("/v1/apps", &lake.key).await.expect_status(200)["items"][0].clone();
    let counts = format!("com.acme.shop\t1.0\t{}\t{}", app["reports"], app["crashes"]);
    assert_eq!(answer.trim(), format!("duckdb\t{counts}\nclickhouse\t{counts}"));
    assert_eq!((&app["reports"], &app["crashes"]), (&json!(7), &json!(3)));
    lake.stop().await;
}
