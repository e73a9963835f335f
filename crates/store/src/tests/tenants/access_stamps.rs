//! Stamps of keys and tenants.

use crate::access_stamps::{AccessEntry, access_stamps};
use crate::groups::rules;
use crate::keys::{self, NewApiKey};
use crate::tenants::{self, QuotaLimits, TenantStanding};
use crate::tests::database::{Database, acme, start, tenant_id};
use crate::{TenantTx, Uuid, erasure};
use std::collections::{BTreeMap, HashMap};
use unslide_model::Scope;

/// Commits a transaction of a tenant after some work.
async fn commit<T>(database: &Database, slug: &str, work: impl AsyncFnOnce(&mut TenantTx) -> T) -> T {
    let mut tx = database.store.tenant(&tenant_id(slug)).await.unwrap();
    let done = work(&mut tx).await;
    tx.commit().await.unwrap();
    done
}

/// The stamps that a process has read last.
struct Watcher<'d> {
    database: &'d Database,
    entries: Vec<AccessEntry>,
    stamps: HashMap<AccessEntry, i64>,
}

impl Watcher<'_> {
    /// Reads the stamps, and returns the entries whose stamp is another one than before.
    async fn changed(&mut self) -> Vec<AccessEntry> {
        let stamps = access_stamps(&self.database.store, &self.entries).await.unwrap();
        let changed = self.entries.iter().filter(|entry| stamps.get(entry) != self.stamps.get(entry));
        let changed = changed.cloned().collect();
        self.stamps = stamps;
        changed
    }
}

/// Proves: keys
#[tokio::test]
async fn a_stamp_changes_with_each_committed_change_and_not_with_a_use() {
    let database = Database::new().await;
    let new = NewApiKey { name: "x".into(), scopes: vec![Scope::TenantAdmin], app: None, expires_at: None };
    let make = async |slug, entropy: [u8; 30]| {
        commit(&database, slug, async |tx| keys::create(tx, &new, &entropy).await.unwrap().0.id).await
    };
    let (root, other) = (make("acme", [1; 30]).await, make("umbrella", [2; 30]).await);
    let made =
        async |tx: &mut TenantTx| keys::create_by(tx, &new, &[3; 30], root).await.unwrap().unwrap().0.id;
    let made = commit(&database, "umbrella", made).await;
    let [root_entry, other_entry, made_entry] = [root, other, made].map(AccessEntry::Key);
    let [acme_entry, umbrella_entry] = [acme(), tenant_id("umbrella")].map(AccessEntry::Tenant);
    let unknown = [AccessEntry::Key(Uuid::from_u128(1)), AccessEntry::Tenant(tenant_id("nobody"))];
    let known = [&root_entry, &other_entry, &made_entry, &acme_entry, &umbrella_entry].map(Clone::clone);
    let entries = known.iter().chain(&unknown).cloned().collect();
    let mut watcher = Watcher { database: &database, entries, stamps: HashMap::new() };
    assert_eq!(watcher.changed().await, known);
    let uses = BTreeMap::from([((acme(), root), start())]);
    assert_eq!(keys::used(&database.store, &uses).await.unwrap(), 1);
    assert!(watcher.changed().await.is_empty());

    commit(&database, "umbrella", async |tx| assert!(keys::revoke(tx, other, None).await.unwrap())).await;
    assert_eq!(watcher.changed().await, std::slice::from_ref(&other_entry));
    let cascade = async |tx: &mut TenantTx| {
        assert_eq!(keys::revoke_with_made(tx, root, None, None, "test").await.unwrap(), Some(1));
    };
    commit(&database, "acme", cascade).await;
    assert_eq!(watcher.changed().await, [root_entry.clone(), made_entry], "also another tenant's key");

    let limits = QuotaLimits { units_per_second: 7, ..QuotaLimits::default() };
    let suspend = async |tx: &mut TenantTx| {
        tenants::change(tx, "Acme", TenantStanding::Suspended, &limits).await.unwrap().unwrap();
    };
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    suspend(&mut tx).await;
    assert!(watcher.changed().await.is_empty(), "it is not committed");
    tx.rollback().await.unwrap();
    commit(&database, "acme", suspend).await;
    assert_eq!(watcher.changed().await, [root_entry.clone(), acme_entry.clone()]);
    let set = async |tx: &mut TenantTx| {
        drop(rules::set(tx, "test", "ignore function Log.*").await.unwrap().unwrap());
    };
    commit(&database, "acme", set).await;
    assert_eq!(watcher.changed().await, std::slice::from_ref(&acme_entry));
    commit(&database, "acme", async |tx| drop(erasure::begin(tx).await.unwrap().unwrap())).await;
    assert_eq!(watcher.changed().await, [root_entry, acme_entry]);
}
