//! What a crash loop costs with a cap and without one, for a person to read.

use crate::body_cap::fixture::{complete_report, set_bodies, store_for, sweep};
use std::fmt::Write;
use unslide_body_cap::store::BODY_CAP_HOOK;
use unslide_harness::database::{TestDatabase, acme};
use unslide_store::reports::Arrival;

/// Reports of one group on one day.
const REPORTS: u16 = 20_000;
/// Bytes of the JSON of a report that compression does not make smaller.
const NOISE_BYTES: usize = 8 << 10;

/// A report with a body of the usual size.
fn large_report(n: u16) -> Arrival {
    let mut state = u32::from(n) + 1;
    let mut json = format!("{{\"n\":{n},\"noise\":\"");
    while json.len() < NOISE_BYTES {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        write!(json, "{state:08x}").unwrap();
    }
    json.push_str("\"}");
    let body = unslide_proto::body::compress_report(json.as_bytes());
    let mut new = Arrival { size: json.len() as u64, body, ..complete_report(n, 1) };
    new.received_at += time::Duration::seconds(i64::from(n % 7));
    new
}

async fn measure(cap: Option<u32>) -> (i64, i64, i64) {
    let database = TestDatabase::new(&[BODY_CAP_HOOK]).await;
    if let Some(cap) = cap {
        set_bodies(&database, "", Some(cap)).await;
    }
    for from in (0..REPORTS).step_by(500) {
        let reports: Vec<Arrival> = (from..from + 500).map(large_report).collect();
        store_for(&database, &acme(), &reports).await;
        sweep(&database).await;
    }
    let bodies = database.number("SELECT count(*) FROM report_bodies").await;
    let bytes =
        database.number("SELECT coalesce(sum(octet_length(body)), 0)::bigint FROM report_bodies").await;
    database.execute("VACUUM FULL report_bodies").await;
    database.execute("VACUUM FULL reports").await;
    let size = "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c
                WHERE c.relkind = 'r' AND c.relname ~ '^(reports|report_bodies)_'";
    (bodies, bytes, database.number(size).await)
}

#[tokio::test]
#[ignore = "measures for a minute"]
async fn bytes_of_20_000_reports_of_one_group() {
    for cap in [None, Some(200)] {
        let (bodies, bytes, size) = measure(cap).await;
        let mib = |bytes: i64| bytes >> 20;
        println!(
            "cap {cap:?}: {REPORTS} reports, {bodies} bodies of {} MiB; tables with indexes: {} MiB",
            mib(bytes),
            mib(size)
        );
    }
}
