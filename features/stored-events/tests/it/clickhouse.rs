//! ClickHouse reads the events with the statements of the page, and counts what the api counts.

use crate::stored_events::publishing::{start_api, store_for_tenant, wait_for_events};
use crate::stored_events::reports::{report_of_run, revise_report};
use std::path::Path;
use unslide_harness::database::arrival;
use unslide_store::reports::{Arrival, count_once};

/// Runs with ClickHouse in a Python module, which `scripts/check-stored-events` installs. It is run by name.
#[tokio::test]
#[ignore = "installs ClickHouse from PyPI"]
async fn a_table_of_clickhouse_counts_what_the_api_counts() {
    let world = start_api(true, |_| {}).await;
    let admin = world.create_master_key("acme").await;
    let mut sampled = arrival(5);
    sampled.facts.sampled = Some(0.25);
    sampled.facts.kind = "hang".to_owned();
    if let Some(grouping) = &mut sampled.facts.grouping {
        grouping.kind = "hang".to_owned();
    }
    let new: Vec<Arrival> =
        [arrival(1), arrival(2), report_of_run(3, 9, false), report_of_run(4, 9, true), sampled]
            .map(|report| Arrival { received_at: world.store.now(), ..report })
            .into();
    store_for_tenant(&world, "acme", &new).await;
    store_for_tenant(&world, "acme", &[revise_report(&new[0])]).await;
    assert_eq!(count_once(&world.store, 10).await.unwrap(), 1);
    let path = format!("/v1/reports/{}", new[1].report_id);
    world.delete(&path, &admin).await.expect_status(204);
    let events = wait_for_events(&world, 8).await;
    let folder = world.folder().join("events");
    std::fs::create_dir(&folder).unwrap();
    // The last one comes twice.
    for (place, (_, record)) in events.iter().chain(events.last()).enumerate() {
        std::fs::write(folder.join(format!("{place:03}")), record.value.as_ref().unwrap()).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/check-stored-events");
    let output = tokio::process::Command::new(script).arg(&folder).output().await.unwrap();
    let answer = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{answer}{}", String::from_utf8_lossy(&output.stderr));
    let app = world.get("/v1/apps", &admin).await.expect_status(200)["items"][0].clone();
    assert_eq!(answer.trim(), format!("com.acme.shop\t1.0\t{}\t{}", app["reports"], app["crashes"]));
    assert_eq!((&app["reports"], &app["crashes"]), (&6.into(), &2.into()));
    std::fs::remove_dir_all(&folder).unwrap();
    world.stop().await;
}
