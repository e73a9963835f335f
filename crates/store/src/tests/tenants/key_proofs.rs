//! Keys that are looked up together.

use crate::groups::rules;
use crate::keys::{self, KeyProof, NewApiKey};
use crate::tenants::{self, QuotaLimits, TenantStanding};
use crate::tests::database::{Database, acme, tenant_id};
use crate::{TenantTx, Uuid};
use unslide_model::Scope;

/// Commits a transaction of a tenant after some work.
async fn commit<T>(database: &Database, slug: &str, work: impl AsyncFnOnce(&mut TenantTx) -> T) -> T {
    let mut tx = database.store.tenant(&tenant_id(slug)).await.unwrap();
    let done = work(&mut tx).await;
    tx.commit().await.unwrap();
    done
}

/// Keys of several tenants.
struct Keys<'d> {
    database: &'d Database,
    proofs: Vec<KeyProof>,
}

impl Keys<'_> {
    /// Makes a key. Returns its id.
    async fn make(&mut self, slug: &str, entropy: [u8; 30], by: Option<Uuid>) -> Uuid {
        let new =
            NewApiKey { name: "x".into(), scopes: vec![Scope::TenantAdmin], app: None, expires_at: None };
        let make = async |tx: &mut TenantTx| match by {
            None => keys::create_key(tx, &new, &entropy).await.unwrap(),
            Some(by) => keys::create_by(tx, &new, &entropy, by).await.unwrap().unwrap(),
        };
        let (key, secret) = commit(self.database, slug, make).await;
        self.proofs.push(KeyProof::parse(&keys::API_KEYS, secret.reveal()).unwrap());
        key.id
    }

    /// Returns tenant, version of the tenant and activity of the keys in force, in the order of the keys.
    async fn found(&self) -> Vec<(String, i64, bool)> {
        let looked_up = keys::authenticate_all(&self.database.store, &self.proofs).await.unwrap();
        let refreshed = keys::refresh_all(&self.database.store, &self.proofs).await.unwrap();
        assert_eq!(looked_up, refreshed);
        let in_order = self.proofs.iter().filter_map(|proof| looked_up.get(proof));
        in_order.map(|p| (p.tenant.to_string(), p.tenant_version, p.active)).collect()
    }
}

/// Proves: keys
#[tokio::test]
async fn keys_are_found_together_with_every_committed_change() {
    let database = Database::new().await;
    let mut keys = Keys { database: &database, proofs: Vec::new() };
    let root = keys.make("acme", [1; 30], None).await;
    let other = keys.make("umbrella", [2; 30], None).await;
    keys.make("umbrella", [3; 30], Some(root)).await;
    let unknown = format!("unslide_{}_{}", "a".repeat(8), "b".repeat(40));
    keys.proofs.push(KeyProof::parse(&keys::API_KEYS, &unknown).unwrap());
    assert_eq!(KeyProof::parse(&keys::API_KEYS, "unslide_a_b"), None);
    let (acme_key, umbrella_key) = (("acme".to_owned(), 1, true), ("umbrella".to_owned(), 1, true));
    assert_eq!(keys.found().await, [acme_key.clone(), umbrella_key.clone(), umbrella_key.clone()]);

    commit(&database, "umbrella", async |tx| assert!(keys::revoke_key(tx, other, None).await.unwrap())).await;
    assert_eq!(keys.found().await, [acme_key.clone(), umbrella_key]);
    let cascade = async |tx: &mut TenantTx| {
        let made = keys::revoke_with_made(tx, root, None, None, "test").await.unwrap();
        assert_eq!(made, Some(1), "also another tenant's key");
    };
    let version = async || keys.found().await.first().map(|(_, version, active)| (*version, *active));
    let limits = QuotaLimits { units_per_second: 7, ..QuotaLimits::default() };
    let suspend = async |tx: &mut TenantTx| {
        tenants::change_tenant(tx, "Acme", TenantStanding::Suspended, &limits).await.unwrap().unwrap();
    };
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    suspend(&mut tx).await;
    assert_eq!(version().await, Some((1, true)), "it is not committed");
    tx.rollback().await.unwrap();
    commit(&database, "acme", suspend).await;
    assert_eq!(version().await, Some((2, false)));
    let set = async |tx: &mut TenantTx| {
        drop(rules::set_rules(tx, "test", "ignore function Log.*").await.unwrap().unwrap());
    };
    commit(&database, "acme", set).await;
    assert_eq!(version().await, Some((3, false)), "a change of the rules");
    commit(&database, "acme", cascade).await;
    assert_eq!(keys.found().await, []);
}
