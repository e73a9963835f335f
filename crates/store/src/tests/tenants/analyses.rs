//! Analyses that a tenant switches.

use crate::tenants::analyses;
use crate::tests::database::{Database, acme, tenant_id};
use unslide_model::TenantId;

async fn set(database: &Database, tenant: &TenantId, name: &str, is_default: bool) -> bool {
    let mut tx = database.store.tenant(tenant).await.unwrap();
    let announced = analyses::set_analysis(&mut tx, name, is_default).await.unwrap();
    tx.commit().await.unwrap();
    announced.is_some()
}

async fn switched(database: &Database, tenant: &TenantId) -> Vec<String> {
    let mut tx = database.store.tenant(tenant).await.unwrap();
    analyses::switched_analyses(&mut tx).await.unwrap()
}

#[tokio::test]
async fn an_analysis_is_switched_once_and_for_its_tenant_only() {
    let database = Database::new().await;
    let version = || async {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        crate::tenants::get(&mut tx).await.unwrap().unwrap().version
    };
    let before = version().await;
    for name in ["first", "second", "first"] {
        assert!(set(&database, &acme(), name, false).await);
    }
    assert_eq!(switched(&database, &acme()).await, ["second", "first"]);
    assert_eq!(version().await, before + 3, "workers take the change");
    assert!(set(&database, &acme(), "second", true).await);
    assert_eq!(switched(&database, &acme()).await, ["first"]);
    let other = tenant_id("umbrella");
    assert!(switched(&database, &other).await.is_empty());
    assert!(!set(&database, &tenant_id("nowhere"), "first", false).await);
}
