//! Tenants do not see each other, whatever the service asks.

use super::database::{Database, acme, arrival, publish, tenant_id};
use crate::keys::{self, NewKey};
use crate::{Settings, Store, StoreError, audit, jobs, symbols, uploads};
use sqlx::{AssertSqlSafe, Row};
use std::sync::Arc;
use unslide_model::{Quality, Scope, SystemClock};

/// Every table with tenants' rows, with its column of tenants, as the database's catalogue has it.
async fn tenant_tables(database: &Database) -> Vec<(String, String)> {
    let rows = database
        .rows(
            "SELECT c.relname::text, a.attname::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
             WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
               AND (a.attname = 'tenant' OR c.relname = 'tenants' AND a.attname = 'slug') AND NOT a.attisdropped
             ORDER BY 1",
        )
        .await;
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

async fn fill(database: &Database) {
    database.store(&[arrival(1), arrival(2)]).await;
    publish(database, 1, Quality::Dwarf).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let key = NewKey { name: "ci".into(), scopes: vec![Scope::SymbolsWrite], app: None, expires_at: None };
    keys::create(&mut tx, &key, &[7; 30]).await.unwrap();
    audit::append(&mut tx, "test", "key.create", "x", &serde_json::json!({})).await.unwrap();
    let upload = uploads::create(&mut tx, None, None).await.unwrap();
    let object = super::symbols_and_uploads::object(9, Some(9));
    crate::objects::found(&mut tx, upload, "a", &object).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn every_table_of_tenants_is_under_row_level_security_and_so_are_partitions() {
    let database = Database::new().await;
    let unprotected = database
        .rows(
            "SELECT c.relname::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
             WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
               AND (a.attname = 'tenant' OR c.relname = 'tenants' AND a.attname = 'slug')
               AND NOT (c.relrowsecurity AND c.relforcerowsecurity)",
        )
        .await;
    assert!(
        unprotected.is_empty(),
        "{:?}",
        unprotected.iter().map(|r| r.get::<String, _>(0)).collect::<Vec<_>>()
    );
    let granted = database
        .number(
            "SELECT count(*) FROM pg_class c WHERE c.relispartition
               AND has_table_privilege('unslide_service', c.oid, 'SELECT, INSERT, UPDATE, DELETE')",
        )
        .await;
    assert_eq!(granted, 0, "partitions are reached through their parents only");
}

#[tokio::test]
async fn a_tenant_neither_reads_nor_writes_another_tenants_rows() {
    let database = Database::new().await;
    fill(&database).await;
    let tables = tenant_tables(&database).await;
    assert!(tables.len() >= 17, "{tables:?}");
    for (table, column) in &tables {
        let owned = database.number(&format!("SELECT count(*) FROM {table} WHERE {column} = 'acme'")).await;
        assert!(owned > 0, "{table} has nothing to hide");
        let other = tenant_id("umbrella");
        for statement in [
            format!("SELECT count(*) FROM {table} WHERE {column} = 'acme'"),
            format!(
                "WITH d AS (DELETE FROM {table} WHERE {column} = 'acme' RETURNING 1) SELECT count(*) FROM d"
            ),
            format!(
                "WITH u AS (UPDATE {table} SET {column} = {column} WHERE {column} = 'acme' RETURNING 1) SELECT count(*) FROM u"
            ),
        ] {
            let mut tx = database.store.tenant(&other).await.unwrap();
            let seen = sqlx::query(AssertSqlSafe(statement.clone())).fetch_one(tx.parts().0).await;
            // Where the service may not do such a thing at all, that is as good.
            if let Ok(row) = seen {
                assert_eq!(row.get::<i64, _>(0), 0, "{statement}");
            } else {
                assert_eq!(code(&seen.unwrap_err()), "42501", "{statement}");
            }
        }
        // Its own rows cannot be given to another, nor made in another's name.
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let given = AssertSqlSafe(format!("UPDATE {table} SET {column} = 'umbrella'"));
        let given = sqlx::query(given).execute(tx.parts().0).await;
        assert_eq!(code(&given.unwrap_err()), "42501", "{table}");
        // Without a tenant there is nothing at all.
        let mut none = database.store.pool().acquire().await.unwrap();
        let seen = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        assert_eq!(sqlx::query(seen).fetch_one(&mut *none).await.unwrap().get::<i64, _>(0), 0, "{table}");
    }
}

fn code(error: &sqlx::Error) -> String {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.unwrap_or_default().into_owned()
}

#[tokio::test]
async fn the_functions_answer_for_their_own_tenant_only() {
    let database = Database::new().await;
    fill(&database).await;
    let mut other = database.store.tenant(&tenant_id("umbrella")).await.unwrap();
    assert!(keys::list(&mut other).await.unwrap().is_empty());
    assert!(
        symbols::list(&mut other, &symbols::Filter::default(), None, 10).await.unwrap().objects.is_empty()
    );
    let report = arrival(1).report_id;
    assert!(crate::queries::report::get(&mut other, report, 0).await.unwrap().is_none());
    // A lease is for one worker, and its end needs the tenant that it is of.
    let leased =
        jobs::lease(&database.store, &jobs::Kind::ALL, "w", time::Duration::MINUTE, 10).await.unwrap();
    assert!(matches!(jobs::complete(&mut other, &leased[0]).await, Err(StoreError::LeaseLost(_))));
}

#[tokio::test]
async fn the_service_cannot_leave_its_cage() {
    let database = Database::new().await;
    fill(&database).await;
    let mut connection = database.store.pool().acquire().await.unwrap();
    // The setting that opens the owner's functions opens nothing to the service.
    sqlx::query("SELECT set_config('unslide.definer', 'on', false)").execute(&mut *connection).await.unwrap();
    let seen = sqlx::query("SELECT count(*) FROM reports").fetch_one(&mut *connection).await.unwrap();
    assert_eq!(seen.get::<i64, _>(0), 0);
    for statement in [
        "ALTER TABLE reports NO FORCE ROW LEVEL SECURITY",
        "ALTER TABLE reports DISABLE ROW LEVEL SECURITY",
        "DROP POLICY tenant_rows ON reports",
        "CREATE POLICY mine ON reports USING (true)",
        "ALTER ROLE unslide_service BYPASSRLS",
        "TRUNCATE audit_log",
        "SELECT unslide_protect('reports', 'tenant', 'SELECT')",
    ] {
        let done = sqlx::query(statement).execute(&mut *connection).await;
        assert_eq!(code(&done.unwrap_err()), "42501", "{statement}");
    }
    drop(connection);
    let powerful = Settings { role: "postgres".into(), ..Settings::with_url(database.url.clone()) };
    let refused = Store::connect(&powerful, Arc::new(SystemClock)).await;
    assert!(matches!(refused.err(), Some(StoreError::UnsafeRole(_))));
}
