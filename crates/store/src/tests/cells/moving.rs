//! What a cell does not do for a tenant that another cell may be serving.

use crate::dead_letters::{self, NotedLetters};
use crate::jobs::{self, JobKind, Work};
use crate::place::{self, EnteredTenant, TenantPlace};
use crate::tenants::TenantStanding;
use crate::tests::database::{Database, acme, execute, tenant_id};
use crate::tests::kafka::dead_letters::letter;
use crate::tests::kafka::deferred::range;
use crate::{StoreError, deferred};
use time::Duration;
use unslide_model::TenantId;

async fn handling(database: &Database, tenant: &TenantId) -> Option<EnteredTenant> {
    let mut tx = database.store.batch().await.unwrap();
    let (entered, handling) = place::enter_tenant(&mut tx, tenant).await.unwrap();
    assert_eq!(entered.tenant().unwrap(), *tenant);
    tx.rollback().await.unwrap();
    handling
}

async fn freeze(database: &Database, lifetime: Duration) {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(place::freeze_tenant(&mut tx, lifetime).await.unwrap());
    tx.commit().await.unwrap();
}

async fn note_letters(database: &Database) -> NotedLetters {
    let mut tx = database.store.batch().await.unwrap();
    let letters = [letter(1, Some("acme")), letter(2, Some("umbrella")), letter(3, None)];
    let noted = dead_letters::note(&mut tx, &letters).await.unwrap();
    tx.rollback().await.unwrap();
    noted
}

async fn lease(database: &Database) -> usize {
    let leased = jobs::lease_jobs(&database.store, &[JobKind::Build], "worker", Duration::MINUTE, 10);
    leased.await.unwrap().len()
}

#[tokio::test]
async fn a_frozen_tenant_is_elsewhere_until_the_freeze_ends_and_has_no_jobs_and_letters() {
    let database = Database::new().await;
    for tenant in [acme(), tenant_id("umbrella")] {
        let mut tx = database.store.tenant(&tenant).await.unwrap();
        jobs::add_job(&mut tx, &Work::Build { upload: crate::UploadId::default() }).await.unwrap();
        tx.commit().await.unwrap();
    }
    let here = EnteredTenant { standing: TenantStanding::Active, place: TenantPlace::Here };
    assert_eq!(handling(&database, &acme()).await, Some(here));
    assert_eq!(handling(&database, &tenant_id("nobody")).await, None);
    assert_eq!(note_letters(&database).await, NotedLetters { new: 3, ..NotedLetters::default() });
    freeze(&database, Duration::HOUR).await;
    let frozen = handling(&database, &acme()).await.unwrap();
    assert!(frozen.is_elsewhere() && frozen.place == TenantPlace::Leaving);
    assert_eq!(note_letters(&database).await, NotedLetters { new: 2, elsewhere: [acme()].into() });
    assert_eq!(lease(&database).await, 1, "the other tenant's");
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let added = jobs::add_job(&mut tx, &Work::Build { upload: crate::UploadId::default() }).await;
    assert!(matches!(added, Err(StoreError::TenantMoving)), "{added:?}");
    drop(tx);
    // A freeze that no one ended.
    execute(&database, "UPDATE tenants SET frozen_until = now() WHERE slug = 'acme'").await;
    assert_eq!(handling(&database, &acme()).await.unwrap().place, TenantPlace::Here);
    assert_eq!(lease(&database).await, 1, "its own");
}

#[tokio::test]
async fn no_record_waits_for_a_move_that_waits_for_the_writers_of_a_tenant() {
    let database = Database::new().await;
    let mut mover = database.store.tenant(&acme()).await.unwrap();
    place::wait_for_writers(&mut mover).await.unwrap();
    assert_eq!(handling(&database, &acme()).await.unwrap().place, TenantPlace::Leaving);
    assert_eq!(handling(&database, &tenant_id("umbrella")).await.unwrap().place, TenantPlace::Here);
    let mut tx = database.store.batch().await.unwrap();
    deferred::extend_ranges(&mut tx, &[range("acme", 0, 5, 8)]).await.unwrap();
    tx.commit().await.unwrap();
    mover.rollback().await.unwrap();
    assert_eq!(handling(&database, &acme()).await.unwrap().place, TenantPlace::Here);
}

#[tokio::test]
async fn records_of_a_tenant_that_moved_wait_to_be_passed_on_although_it_is_deleted_here() {
    let database = Database::new().await;
    freeze(&database, Duration::HOUR).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(place::set_moved(&mut tx, "east.").await.unwrap());
    tx.commit().await.unwrap();
    execute(&database, "UPDATE tenants SET state = 'deleted' WHERE slug = 'acme'").await;
    let moved = handling(&database, &acme()).await.unwrap();
    assert_eq!((moved.standing, moved.place), (TenantStanding::Deleted, TenantPlace::Moved));
    let mut tx = database.store.batch().await.unwrap();
    let ranges = [range("acme", 0, 5, 8), range("umbrella", 0, 6, 7)];
    deferred::extend_ranges(&mut tx, &ranges).await.unwrap();
    tx.commit().await.unwrap();
    // The erasure leaves them.
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let (connection, _, _) = tx.parts();
    let deleted = sqlx::query("DELETE FROM deferred_ranges").execute(connection).await.unwrap();
    assert_eq!(deleted.rows_affected(), 0);
    tx.commit().await.unwrap();
    let located = deferred::list_located_ranges(&database.store, &["out".to_owned()]).await.unwrap();
    let told: Vec<_> = located.iter().map(|l| (l.location.place, l.location.moved_to.as_deref())).collect();
    assert_eq!(told, [(TenantPlace::Moved, Some("east.")), (TenantPlace::Here, None)]);
    assert_eq!(located.into_iter().map(|located| located.range).collect::<Vec<_>>(), ranges);
}
