//! What a tenant may use.

use super::world::*;
use std::time::Duration;
use unslide_proto::headers;
use unslide_proto::symbol::TenantLimits;
use unslide_stream::Record;

fn of<'r>(records: &'r [Record], tenant: &str) -> Vec<&'r Record> {
    records.iter().filter(|r| r.headers.text(headers::TENANT) == Some(tenant)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_over_its_rate_waits_in_overflow_and_a_quiet_one_behind_it_does_not() {
    let limits = TenantLimits { reports_per_second: 10, ..TenantLimits::default() };
    let bench = Bench::with(Wishes { limits, input_partitions: 1, ..Wishes::default() }).await;
    let app = App::new();
    bench.clock.stand();
    for n in 0..100 {
        bench.input(Some("acme"), app.report(n, 2)).await;
    }
    bench.input(Some("other"), app.report(200, 2)).await;
    let mut lanes = vec![bench.live()];
    let over = bench.wait(&bench.names.overflow, 80).await;
    let outputs = bench.wait(&bench.names.output, 21).await;
    // The burst of two seconds, and no time goes by.
    assert_eq!((of(&outputs, "acme").len(), of(&outputs, "other").len(), over.len()), (20, 1, 80));
    for record in &over {
        assert_eq!(record.headers.text(headers::REASON), Some("over_share"));
        let key = record.key.as_deref().unwrap();
        assert!([&b"acme/0"[..], b"acme/1"].contains(&key), "{key:?}");
        assert_eq!(record.headers.text(headers::ORIGIN_TOPIC), Some(&*bench.names.input));
    }
    let same = |a: &Record, b: &Record| a.value == b.value;
    assert!(!over.iter().enumerate().any(|(n, a)| over[n + 1..].iter().any(|b| same(a, b))), "each once");

    // There they go on at the tenant's rate: another burst, half for each half of the records.
    lanes.push(bench.retry());
    let outputs = bench.wait(&bench.names.output, 41).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(bench.read(&bench.names.output).await.len(), outputs.len());
    assert_eq!(of(&outputs, "acme").len(), 40);
    for _ in 0..4 {
        bench.clock.ahead(2);
        tokio::time::sleep(Duration::from_millis(2_500)).await;
    }
    assert_eq!(bench.wait(&bench.names.output, 101).await.len(), 101);
    assert!(bench.read(&bench.names.dead_letter).await.is_empty());
    bench.end(lanes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_larger_than_its_tenants_may_be_is_a_dead_letter_that_names_the_limit() {
    let app = App::new();
    let (small, large) = (app.report(1, 2), app.report(2, 400));
    let limits = TenantLimits { report_bytes: small.len() as u64, ..TenantLimits::default() };
    let bench = Bench::with(Wishes { limits, ..Wishes::default() }).await;
    let array = [b"[", &small[..], b",", &large[..], b"]"].concat();
    bench.input(Some("acme"), small.clone()).await;
    bench.input(Some("acme"), large.clone()).await;
    bench.input(Some("acme"), array).await;
    bench.input(Some("other"), large.clone()).await;
    let lane = bench.live();
    assert_eq!(bench.wait(&bench.names.output, 3).await.len(), 3);
    let dead = bench.wait(&bench.names.dead_letter, 2).await;
    assert_eq!(dead.len(), 2);
    for letter in &dead {
        assert_eq!(letter.headers.text(headers::REASON), Some("too_large"));
        assert!(letter.headers.text(headers::DETAIL).unwrap().contains(&small.len().to_string()));
        assert_eq!(letter.value.as_deref(), Some(&large[..]));
    }
    bench.end(vec![lane]).await;
}
