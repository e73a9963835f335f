//! Counts of groups that stored reports change later.

use crate::indexer_fixture::{World, report};

const UNFOLDED: &str = "SELECT count(*) FROM group_deltas";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_rows_are_folded_by_the_maintenance_of_an_indexer() {
    let world = World::new().await;
    let running = world.start();
    let grouping =
        r#""grouping":{"fingerprint":"22222222-2222-2222-2222-222222222222","kind":"crash","title":"bug"}"#;
    for n in 1..=3 {
        let grouped = report(n, 1, None).replace(r#""revision":1"#, &format!(r#""revision":1,{grouping}"#));
        world.send_raw("acme", &grouped).await;
    }
    let read = "SELECT coalesce(sum(reports), 0)::bigint FROM group_day_counts";
    world.wait_for_number(read, 3).await;
    assert!(world.number(UNFOLDED).await > 0);
    world.execute("UPDATE group_deltas SET added_at = added_at - interval '2 days'").await;
    world.wait_for_number(UNFOLDED, 0).await;
    running.wait_for_counter("unslide_indexer_unfolded_seconds", 0).await;
    for folded in ["group_days", "group_hours"] {
        assert_eq!(world.number(&format!("SELECT sum(reports)::bigint FROM {folded}")).await, 3);
    }
    assert_eq!(world.number(read).await, 3);
    running.stop().await;
    world.end().await;
}
