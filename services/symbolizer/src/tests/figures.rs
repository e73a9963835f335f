//! Figures that an alert or a person looks at.

use super::worker_fixture::*;
use std::time::Duration;

/// A gauge; of one lane, where it has such a label.
fn figure(bench: &Bench, name: &str) -> i64 {
    let families = bench.registry.gather();
    let family = families.iter().find(|family| family.name() == name).unwrap();
    family.get_metric()[0].get_gauge().get_value() as i64
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_of_the_tenants_grows_old_and_a_lane_tells_what_waits_and_what_is_open() {
    let bench = Bench::new().await;
    let worker = &bench.worker;
    bench.tenants_read().await;
    let read = worker.senders.tenants.looked_at().unwrap();
    let age = |seconds| {
        let now = read + Duration::from_secs(seconds);
        worker.metrics.refresh_shared(&worker.enricher.symbols, &worker.senders.tenants, now);
        figure(&bench, "unslide_symbolizer_tenant_config_age_seconds")
    };
    assert_eq!(age(0), 0);
    // It may have been read again meanwhile.
    assert!((3_000..=3_600).contains(&age(3_600)));
    let lane = worker.metrics.lane_observer("live");
    for (waiting, open) in [(7, 3), (0, 0)] {
        lane.record_lag(waiting, open);
        assert_eq!(figure(&bench, "unslide_symbolizer_lag_records"), waiting);
        assert_eq!(figure(&bench, "unslide_symbolizer_open_offsets"), open);
    }
    bench.end(Vec::new()).await;
}
