//! Reports of one group on one day, and turns of the sweep.

use sqlx::Row;
use time::Duration;
use unslide_body_cap::store::{BODY_CAP_HOOK, set_cap};
use unslide_body_cap::sweep::{WAITING_DAYS, take_turn};
use unslide_harness::database::{TestDatabase, acme, arrival, grouping, start};
use unslide_model::{ContentHash, ReportId, TenantId};
use unslide_store::Uuid;
use unslide_store::deltas::fold_groups;
use unslide_store::groups::id_of;
use unslide_store::queries::reports::{ReportFilter, ReportRow, list_reports};
use unslide_store::reports::{Arrival, Effects, store_arrivals};

/// The app of the reports.
pub const APP: &str = "com.acme.shop";

/// A database with a cap for all apps.
pub async fn capped_database(bodies: u32) -> TestDatabase {
    let database = TestDatabase::new(&[BODY_CAP_HOOK]).await;
    set_bodies(&database, "", Some(bodies)).await;
    database
}

/// Sets or removes a cap of `acme`.
pub async fn set_bodies(database: &TestDatabase, app: &str, bodies: Option<u32>) {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(set_cap(&mut tx, app, bodies).await.unwrap());
    tx.commit().await.unwrap();
}

/// The id of report `n`.
pub fn id(n: u16) -> ReportId {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&n.to_be_bytes());
    ReportId(bytes)
}

/// Report number `n`, which waits for symbols of the app. There are three versions and four models, and fifty devices.
pub fn waiting_report(n: u16) -> Arrival {
    let body = format!("{{\"n\":{n}}}");
    let mut hash = [7; 32];
    hash[..2].copy_from_slice(&n.to_be_bytes());
    let mut new = Arrival {
        report_id: id(n),
        content_hash: ContentHash(hash),
        received_at: start() + Duration::seconds(n.into()),
        body: unslide_proto::body::compress_report(body.as_bytes()),
        size: body.len() as u64,
        ..arrival(1)
    };
    new.facts.app = APP.to_owned();
    new.facts.grouping = Some(grouping(1, false));
    new.facts.version = format!("1.{}", n % 3);
    new.facts.model = Some(format!("iPhone{},1", n % 4));
    new.facts.device = Some(vec![u8::try_from(n % 50).unwrap(); 8]);
    new.facts.users = vec![unslide_store::persons::hash_person(&format!("user {}", n % 70))];
    new
}

/// The same with all symbols, as the first revision or a later one.
pub fn complete_report(n: u16, revision: u32) -> Arrival {
    let mut new = waiting_report(n);
    new.revision = revision;
    new.facts.status = "complete".to_owned();
    for image in &mut new.images {
        (image.found, image.seen_generation) = (true, 1);
    }
    new
}

/// Stores reports of a tenant.
pub async fn store_for(database: &TestDatabase, tenant: &TenantId, arrivals: &[Arrival]) {
    for some in arrivals.chunks(100) {
        let mut tx = database.store.tenant(tenant).await.unwrap();
        store_arrivals(&mut tx, some, Effects::Now, None).await.unwrap();
        tx.commit().await.unwrap();
    }
}

/// Lets bodies settle, and takes the turn of `acme`. Returns the number of bodies that were dropped.
pub async fn sweep(database: &TestDatabase) -> u64 {
    database.wait(Duration::minutes(10));
    take_turn(&database.store, &acme()).await.unwrap()
}

/// The numbers of the reports of `acme` that have a body, wherever it is.
pub async fn kept(database: &TestDatabase) -> Vec<u16> {
    let query = "SELECT report_id FROM report_bodies WHERE tenant = 'acme'
                 UNION SELECT report_id FROM report_frames WHERE tenant = 'acme' ORDER BY 1";
    let number = |id: Uuid| u16::from_be_bytes([id.as_bytes()[0], id.as_bytes()[1]]);
    database.rows(query).await.iter().map(|row| number(row.get(0))).collect()
}

/// All reports of `acme`, the newest first.
pub async fn listed(database: &TestDatabase) -> Vec<ReportRow> {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    list_reports(&mut tx, &ReportFilter::default(), None, 1_000).await.unwrap().reports
}

/// The row of report `n`.
pub async fn row(database: &TestDatabase, n: u16) -> ReportRow {
    listed(database).await.into_iter().find(|row| row.report_id == id(n)).unwrap()
}

/// Lets the time pass for which bodies wait for symbols, with the counts folded as the indexer does.
pub async fn wait_until_no_symbols_are_waited_for(database: &TestDatabase) {
    let group = id_of(APP, grouping(1, false).fingerprint);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    fold_groups(&mut tx, &[group], 1_000).await.unwrap();
    tx.commit().await.unwrap();
    database.wait(Duration::days(WAITING_DAYS + 2));
}
