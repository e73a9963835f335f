//! Tenants that move to another cell, and the directory of cells.

use crate::cells::{self, Cell};
use crate::place::{self, TenantLocation, TenantPlace};
use crate::tests::database::{Database, acme, arrival, execute, tenant_id};
use crate::{StoreError, TenantTx, tenants, uploads};
use sqlx::{Connection, PgConnection};
use time::Duration;
use unslide_model::TenantId;

async fn begin(database: &Database) -> TenantTx {
    database.store.tenant(&acme()).await.unwrap()
}

async fn location(database: &Database) -> TenantPlace {
    let mut tx = begin(database).await;
    place::read_location(&mut tx).await.unwrap().unwrap().place
}

async fn freeze(database: &Database, lifetime: Duration) -> bool {
    let mut tx = begin(database).await;
    let frozen = place::freeze_tenant(&mut tx, lifetime).await.unwrap();
    tx.commit().await.unwrap();
    frozen
}

/// Adds the trigger of a move to a table whose key is `id`.
async fn watch(database: &Database, table: &str) {
    execute(
        database,
        &format!(
            "CREATE TRIGGER moving_acme AFTER INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW
             EXECUTE FUNCTION unslide_watch_moving('acme', 'id')"
        ),
    )
    .await;
}

#[tokio::test]
async fn no_row_of_a_frozen_tenant_changes_and_a_freeze_ends_by_itself() {
    let database = Database::new().await;
    let mut tx = begin(&database).await;
    for _ in 0..2 {
        uploads::create_upload(&mut tx, None, None).await.unwrap();
    }
    tx.commit().await.unwrap();
    watch(&database, "uploads").await;
    let change = "UPDATE uploads SET id = id WHERE id = (SELECT max(id::text)::uuid FROM uploads)";
    let mut begun = begin(&database).await;
    sqlx::query("UPDATE uploads SET id = id WHERE id = (SELECT min(id::text)::uuid FROM uploads)")
        .execute(begun.parts().0)
        .await
        .unwrap();
    assert_eq!(database.number("SELECT count(*) FROM moving_rows").await, 0, "not committed yet");
    assert!(freeze(&database, Duration::minutes(5)).await);
    assert!(!freeze(&database, Duration::minutes(5)).await, "it is frozen");
    assert_eq!(location(&database).await, TenantPlace::Leaving);
    // New ones are refused at once, with or without the trigger. The one before may end, and is waited for.
    let mut tx = begin(&database).await;
    assert!(matches!(uploads::create_upload(&mut tx, None, None).await, Err(StoreError::TenantMoving)));
    for statement in [change, "DELETE FROM uploads WHERE id = (SELECT max(id::text)::uuid FROM uploads)"] {
        let mut tx = begin(&database).await;
        let refused = sqlx::query(statement).execute(tx.parts().0).await.unwrap_err();
        assert!(matches!(StoreError::from(refused), StoreError::TenantMoving), "{statement}");
    }
    let store = database.store.clone();
    let waiting = tokio::spawn(async move {
        let mut tx = store.tenant(&acme()).await.unwrap();
        place::wait_for_writers(&mut tx).await.unwrap();
    });
    database.wait_for_lock().await;
    assert!(!waiting.is_finished(), "it did not wait");
    begun.commit().await.unwrap();
    waiting.await.unwrap();
    let noted = "SELECT count(*) FROM moving_rows m JOIN uploads u ON u.id = (m.key ->> 'id')::uuid
                 WHERE m.slug = 'acme' AND m.target = 'uploads'";
    assert_eq!(database.number(noted).await, 2, "the row before and after");
    // Another tenant is not concerned.
    let mut other = database.store.tenant(&tenant_id("umbrella")).await.unwrap();
    uploads::create_upload(&mut other, None, None).await.unwrap();
    let mut tx = begin(&database).await;
    place::thaw_tenant(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(location(&database).await, TenantPlace::Here);
    let mut tx = begin(&database).await;
    uploads::create_upload(&mut tx, None, None).await.unwrap();
    assert!(freeze(&database, Duration::ZERO).await);
    assert_eq!(location(&database).await, TenantPlace::Here, "the freeze is over");
    let mut tx = begin(&database).await;
    uploads::create_upload(&mut tx, None, None).await.unwrap();
    let mut tx = begin(&database).await;
    assert!(!place::set_moved(&mut tx, "east.").await.unwrap(), "too late");
}

#[tokio::test]
async fn a_tenant_that_moved_is_announced_with_the_topics_of_its_cell_and_takes_no_rows() {
    let database = Database::new().await;
    database.store(&[arrival(1)]).await;
    assert!(freeze(&database, Duration::minutes(5)).await);
    let mut tx = begin(&database).await;
    let version = tenants::get(&mut tx).await.unwrap().unwrap().version;
    let mut tx = begin(&database).await;
    place::wait_for_writers(&mut tx).await.unwrap();
    assert!(place::set_moved(&mut tx, "east.").await.unwrap());
    tx.commit().await.unwrap();
    let there = TenantLocation { place: TenantPlace::Moved, moved_to: Some("east.".to_owned()) };
    let mut tx = begin(&database).await;
    assert_eq!(place::read_location(&mut tx).await.unwrap(), Some(there));
    assert_eq!(tenants::get(&mut tx).await.unwrap().unwrap().version, version + 1);
    let announced = "SELECT count(*) FROM outbox WHERE tenant = 'acme' AND kind = 'tenant_config'";
    assert_eq!(database.number(announced).await, 2, "its creation and its move");
    let mut writing = begin(&database).await;
    assert!(matches!(uploads::create_upload(&mut writing, None, None).await, Err(StoreError::TenantMoving)));
    // What is left of it here can be erased.
    let mut tx = begin(&database).await;
    crate::erasure::begin_erasure(&mut tx).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    assert_eq!(location(&database).await, TenantPlace::Moved, "late records are passed on still");
}

#[tokio::test]
async fn an_arriving_tenant_takes_no_rows_until_its_copy_is_complete() {
    let (database, other) = (Database::new().await, Database::new().await);
    let mut here = begin(&database).await;
    let mut acme_there = tenants::get(&mut here).await.unwrap().unwrap();
    let mut tx = begin(&other).await;
    assert!(
        place::add_arriving(&mut tx, &acme_there).await.is_err(),
        "the other cell serves one of this name"
    );
    acme_there.id = TenantId::new("initech").unwrap();
    for _ in 0..2 {
        let mut tx = other.store.tenant(&acme_there.id).await.unwrap();
        place::add_arriving(&mut tx, &acme_there).await.unwrap();
        tx.commit().await.unwrap();
    }
    let mut tx = other.store.tenant(&acme_there.id).await.unwrap();
    assert!(matches!(uploads::create_upload(&mut tx, None, None).await, Err(StoreError::TenantMoving)));
    let mut tx = other.store.tenant(&acme_there.id).await.unwrap();
    assert!(place::set_arrived(&mut tx).await.unwrap());
    assert!(!place::set_arrived(&mut tx).await.unwrap(), "it is here");
    tx.commit().await.unwrap();
    let mut tx = other.store.tenant(&acme_there.id).await.unwrap();
    uploads::create_upload(&mut tx, None, None).await.unwrap();
}

#[tokio::test]
async fn a_name_is_claimed_once_and_readers_learn_what_changed() {
    let database = Database::new().await;
    let store = &database.store;
    let mut owner = PgConnection::connect(&database.url).await.unwrap();
    for name in ["east", "west"] {
        let cell = Cell {
            name: name.to_owned(),
            url: format!("http://{name}.internal"),
            topic_prefix: format!("{name}."),
            region: String::new(),
        };
        cells::set_cell(&mut owner, &cell, store.now()).await.unwrap();
    }
    let names: Vec<String> =
        cells::list_cells(store).await.unwrap().into_iter().map(|cell| cell.name).collect();
    assert_eq!(names, ["east", "west"]);
    assert_eq!(cells::claim_tenant(store, &acme(), "east").await.unwrap(), "east");
    assert_eq!(cells::claim_tenant(store, &acme(), "east").await.unwrap(), "east", "again after a kill");
    assert_eq!(cells::claim_tenant(store, &acme(), "west").await.unwrap(), "east", "it is taken");
    assert!(cells::claim_tenant(store, &tenant_id("umbrella"), "north").await.is_err(), "no such cell");
    let known = cells::find_changed_tenants(store, 0, 10).await.unwrap();
    assert_eq!((known.len(), known[0].cell.as_str()), (1, "east"));
    cells::set_tenant_cell(&mut owner, &acme(), "west", store.now()).await.unwrap();
    let changed = cells::find_changed_tenants(store, known[0].version, 10).await.unwrap();
    assert_eq!((changed.len(), changed[0].cell.as_str()), (1, "west"));
    cells::set_tenant_cell(&mut owner, &acme(), "west", store.now()).await.unwrap();
    assert!(
        cells::find_changed_tenants(store, changed[0].version, 10).await.unwrap().is_empty(),
        "unchanged"
    );
}
