//! The login of the tables' owner needs no superuser: row-level security holds for it, too.

use crate::world::{Watcher, in_pieces};
use sqlx::PgConnection;
use sqlx::{Connection, Row};
use std::sync::Arc;
use std::time::Duration;
use unslide_artifacts::ObjectStore;
use unslide_harness::database::{acme, start};
use unslide_model::{FixedClock, Secret};
use unslide_store::cells::{self, set_cell};
use unslide_store::tenants::{self, QuotaLimits};
use unslide_store::{Settings, Store};
use unslide_tenant_move::{CellServers, Move, Step, TenantMoveError, move_tenant};
use unslide_testkit::{databases, servers};

async fn make_cell(owner: &str, name: &str) -> (CellServers, String) {
    let database = servers::unique("unslide-owner").replace('-', "_");
    databases::execute(&servers::postgres(), &format!("CREATE DATABASE {database} OWNER {owner}")).await;
    let url = databases::url(&database);
    let (scheme, rest) = url.split_once("://").unwrap();
    let (_, host) = rest.split_once('@').unwrap();
    let own = format!("{scheme}://{owner}:secret@{host}");
    unslide_store::apply_migrations(&Secret::new(own.clone())).await.unwrap();
    let clock =
        Arc::new(FixedClock::at_micros(i64::try_from(start().unix_timestamp_nanos() / 1_000).unwrap()));
    let settings = Settings { max_connections: 8, ..Settings::with_url(own) };
    let store = Store::connect_timed(&settings, clock).await.unwrap();
    let (objects, _) = ObjectStore::memory();
    (CellServers { name: name.to_owned(), store, objects, topic_prefix: format!("{name}.") }, database)
}

#[tokio::test]
async fn an_owner_without_further_rights_moves_a_tenant() {
    let owner = servers::unique("unslide-owner").replace('-', "_");
    databases::execute(
        &servers::postgres(),
        &format!("CREATE ROLE {owner} LOGIN PASSWORD 'secret'; GRANT unslide_service TO {owner}"),
    )
    .await;
    let ((west, first), (east, second)) = (make_cell(&owner, "west").await, make_cell(&owner, "east").await);
    let mut tx = west.store.tenant(&acme()).await.unwrap();
    tenants::create_tenant(&mut tx, "Acme", &QuotaLimits::default()).await.unwrap();
    for app in ["a", "b", "c"] {
        sqlx::query(
            "INSERT INTO app_settings (tenant, app, source_url, source_root) VALUES ('acme', $1, '', '')",
        )
        .bind(app)
        .execute(tx.parts().0)
        .await
        .unwrap();
    }
    tx.commit().await.unwrap();
    let mut directory = west.store.pool().acquire().await.unwrap().detach();
    sqlx::raw_sql("SET ROLE NONE").execute(&mut directory).await.unwrap();
    for cell in [&west, &east] {
        let (name, topic_prefix) = (cell.name.clone(), cell.topic_prefix.clone());
        let row = cells::Cell { name, url: "http://x".to_owned(), topic_prefix, region: String::new() };
        set_cell(&mut directory, &row, start()).await.unwrap();
    }
    cells::claim_tenant(&west.store, &acme(), "west").await.unwrap();
    let store = &west.store;
    let watcher = Watcher {
        act: Some(Box::new(move |step| {
            Box::pin(async move {
                if step == Step::TablesCopied {
                    let mut tx = store.tenant(&acme()).await.unwrap();
                    for change in [
                        "UPDATE app_settings SET source_root = '/new' WHERE app = 'a'",
                        "DELETE FROM app_settings WHERE app = 'b'",
                    ] {
                        sqlx::query(change).execute(tx.parts().0).await.unwrap();
                    }
                    tx.commit().await.unwrap();
                }
            })
        })),
        ..Watcher::default()
    };
    let limits = unslide_tenant_move::MoveLimits { ending: Duration::ZERO, ..in_pieces() };
    let job =
        Move { tenant: acme(), from: &west, to: &east, directory: &west.store, limits, observer: &watcher };
    // No relay sends the announcement, so the old cell does not end.
    let unfinished = Box::pin(move_tenant(&job)).await.unwrap_err();
    assert!(matches!(unfinished, TenantMoveError::Unfinished { .. }), "{unfinished:?}");
    let mut new = east.store.tenant(&acme()).await.unwrap();
    let rows = sqlx::query("SELECT app, source_root FROM app_settings ORDER BY app")
        .fetch_all(new.parts().0)
        .await
        .unwrap();
    let rows: Vec<(String, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(rows, [("a".to_owned(), "/new".to_owned()), ("c".to_owned(), String::new())]);
    drop((new, directory));
    west.store.close().await;
    east.store.close().await;
    let mut server = PgConnection::connect(&servers::postgres()).await.unwrap();
    for statement in [
        format!("DROP DATABASE {first} WITH (FORCE)"),
        format!("DROP DATABASE {second} WITH (FORCE)"),
        format!("DROP ROLE {owner}"),
    ] {
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&mut server).await.unwrap();
    }
}
