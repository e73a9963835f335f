//! Analyses that a tenant turns on or off.

use crate::tenants::analyses::{self, AnalysisSwitches};
use crate::tests::database::{Database, acme, tenant_id};
use unslide_model::TenantId;

async fn switch(database: &Database, tenant: &TenantId, name: &str, is_enabled: bool) -> bool {
    let mut tx = database.store.tenant(tenant).await.unwrap();
    let announced = analyses::switch_analysis(&mut tx, name, is_enabled).await.unwrap();
    tx.commit().await.unwrap();
    announced.is_some()
}

async fn read(database: &Database, tenant: &TenantId) -> AnalysisSwitches {
    let mut tx = database.store.tenant(tenant).await.unwrap();
    analyses::read_switches(&mut tx).await.unwrap()
}

/// Returns switches as they are stored: each with its position, whatever the defaults are.
fn switches<const N: usize>(pairs: [(&str, bool); N]) -> AnalysisSwitches {
    pairs.into_iter().map(|(name, is_enabled)| (name.to_owned(), is_enabled)).collect()
}

#[tokio::test]
async fn an_analysis_is_turned_on_or_off_for_its_tenant_only() {
    let database = Database::new().await;
    let version = || async {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        crate::tenants::get(&mut tx).await.unwrap().unwrap().version
    };
    let before = version().await;
    for (name, is_enabled) in [("first", false), ("second", true), ("first", false)] {
        assert!(switch(&database, &acme(), name, is_enabled).await);
    }
    assert_eq!(read(&database, &acme()).await, switches([("first", false), ("second", true)]));
    assert_eq!(version().await, before + 3, "workers take the change");
    assert!(switch(&database, &acme(), "second", false).await);
    assert_eq!(read(&database, &acme()).await, switches([("first", false), ("second", false)]));
    let other = tenant_id("umbrella");
    assert!(read(&database, &other).await.is_empty());
    assert!(!switch(&database, &tenant_id("nowhere"), "first", false).await);
}
