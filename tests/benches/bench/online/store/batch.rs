//! How many statements a batch of reports takes.

use std::sync::Arc;
use time::OffsetDateTime;
use unslide_model::{ContentHash, ReportGrouping, ReportId, SystemClock, TenantId};
use unslide_store::reports::{self, Arrival, Effects, ReportDetails};
use unslide_store::{Store, partitions, tenants};
use unslide_testkit::statements;
use unslide_tests::installation::{Installation, TENANT};

/// Returns the statements that storing so many new reports of one app takes, without those of the transaction itself.
pub fn count_statements(reports: u32) -> usize {
    let counting = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let installation = Installation::prepare().await;
            let settings = unslide_store::Settings::with_url(installation.database_url());
            let store = Store::connect(&settings, Arc::new(SystemClock)).await.expect("a database");
            let today = store.clock().now();
            partitions::ensure_partitions(&store, today.date(), today.date()).await.expect("a day");
            let arrivals: Vec<Arrival> = (0..reports).map(|number| arrival(number, today)).collect();
            let mut tx = store.tenant(&TenantId::new(TENANT).expect("a slug")).await.expect("a transaction");
            let made = tenants::create_tenant(&mut tx, TENANT, &tenants::QuotaLimits::default()).await;
            made.expect("the database").expect("a new tenant");
            let storing = reports::store_arrivals(&mut tx, &arrivals, Effects::Now, None);
            let (stored, statements) = statements::counted(storing).await;
            assert_eq!(stored.expect("stored").len(), arrivals.len());
            drop(tx);
            store.close().await;
            installation.stop().await;
            statements
        })
    });
    counting.join().expect("it ends")
}

fn arrival(number: u32, received_at: OffsetDateTime) -> Arrival {
    let mut id = [7; 16];
    id[..4].copy_from_slice(&number.to_be_bytes());
    let mut hash = [7; 32];
    hash[..4].copy_from_slice(&number.to_be_bytes());
    Arrival {
        report_id: ReportId(id),
        content_hash: ContentHash(hash),
        revision: 1,
        received_at,
        body: unslide_proto::body::compress_report(b"{}"),
        size: 2,
        facts: ReportDetails {
            app: "com.acme.shop".into(),
            version: "1.0".into(),
            kind: "mach".into(),
            status: "complete".into(),
            device: Some(id[..4].to_vec()),
            grouping: Some(ReportGrouping {
                fingerprint: [1; 16],
                kind: "crash".into(),
                provisional: false,
                title: "a bug".into(),
                culprit: "leaf_crash".into(),
            }),
            ..ReportDetails::default()
        },
        images: Vec::new(),
        origin: None,
        traceparent: None,
    }
}
