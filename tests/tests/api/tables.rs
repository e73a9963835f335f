//! The tables that the core and the features declare, against the catalogue of PostgreSQL.

use crate::world::{FeatureSettings, features};
use sqlx::Row;
use std::collections::{BTreeMap, BTreeSet};
use time::Duration;
use unslide_feature::collect_hooks;
use unslide_harness::database::{TestDatabase, acme, start};
use unslide_model::SenderKeyId;
use unslide_store::key_erasures::KeyRange;
use unslide_store::persons::{ErasedSessions, PersonDay, PersonKey, PersonKind};
use unslide_store::tables::{CORE_TABLES, KeyColumn, OwnedTable, RowAge, Selection, list_person_sessions};
use unslide_store::{erasure, feature_files, figures, usage};

/// Names of columns that name a session, a user, an installation or the public key that data came with.
const NAMES: &str = "^(session_id|run_id|user_hash|installation|sender_key)$";

/// A condition of tables with rows of tenants, whose columns are `a`.
const OF_TENANTS: &str = "c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
     AND EXISTS (SELECT FROM pg_attribute t WHERE t.attrelid = c.oid AND t.attname = 'tenant' AND NOT t.attisdropped)
     AND a.attnum > 0 AND NOT a.attisdropped";

/// Every declared table, in the order of locks.
fn declared() -> Vec<&'static OwnedTable> {
    let hooks = collect_hooks(&features(FeatureSettings::default()));
    CORE_TABLES.iter().chain(hooks.iter().flat_map(|hook| hook.tables)).collect()
}

/// The columns that tell to whom a row of a table belongs.
fn owner_columns(table: &OwnedTable) -> impl Iterator<Item = &'static str> {
    [table.session, table.user, table.installation, table.sender_key].into_iter().flatten()
}

/// Each table with its columns, of all tables with rows of tenants.
async fn list_columns(database: &TestDatabase) -> BTreeMap<String, BTreeSet<String>> {
    let query = format!(
        "SELECT c.relname::text, array_agg(a.attname::text)
         FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid WHERE {OF_TENANTS} GROUP BY c.relname"
    );
    let rows = database.rows(&query).await;
    rows.iter().map(|row| (row.get(0), row.get::<Vec<String>, _>(1).into_iter().collect())).collect()
}

/// Proves: deletion
#[tokio::test]
async fn every_table_with_rows_of_tenants_is_declared_once() {
    let database = TestDatabase::new(&[]).await;
    let found: BTreeSet<String> = list_columns(&database).await.into_keys().collect();
    let declared = declared();
    let names: BTreeSet<String> = declared.iter().map(|table| table.name.to_owned()).collect();
    assert_eq!(names.len(), declared.len(), "a table is declared twice");
    let missing: Vec<&String> = found.difference(&names).collect();
    assert!(missing.is_empty(), "declare {missing:?} in CORE_TABLES or in the StoreHook of their feature");
    let unknown: Vec<&String> = names.difference(&found).collect();
    assert!(unknown.is_empty(), "{unknown:?} are no tables with rows of tenants");
}

/// Proves: deletion
#[tokio::test]
async fn every_column_that_names_a_session_a_person_or_a_sender_is_declared() {
    let database = TestDatabase::new(&[]).await;
    let query = format!(
        "SELECT c.relname || '.' || a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
         WHERE {OF_TENANTS} AND a.attname ~ '{NAMES}'"
    );
    let found: BTreeSet<String> = database.rows(&query).await.iter().map(|row| row.get(0)).collect();
    assert!(found.len() >= 8, "{found:?}");
    let declared: BTreeSet<String> = declared()
        .into_iter()
        .flat_map(|table| owner_columns(table).map(|column| format!("{}.{column}", table.name)))
        .collect();
    let missing: Vec<&String> = found.difference(&declared).collect();
    assert!(missing.is_empty(), "declare the columns {missing:?}, so that they are erased");
}

#[tokio::test]
async fn the_declared_columns_and_keys_are_those_of_the_tables() {
    let database = TestDatabase::new(&[]).await;
    let columns = list_columns(&database).await;
    let texts = format!(
        "SELECT c.relname || '.' || a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
         WHERE {OF_TENANTS} AND a.atttypid = 'text'::regtype"
    );
    let texts: BTreeSet<String> = database.rows(&texts).await.iter().map(|row| row.get(0)).collect();
    let keys = database
        .rows(
            "SELECT c.relname::text, array_agg(a.attname::text)
             FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
             WHERE i.indisprimary AND c.relnamespace = 'public'::regnamespace GROUP BY c.relname",
        )
        .await;
    let keys: BTreeMap<String, BTreeSet<String>> =
        keys.iter().map(|row| (row.get(0), row.get::<Vec<String>, _>(1).into_iter().collect())).collect();
    for table in declared() {
        let name = table.name;
        let more =
            [table.app, table.version, table.day, table.received_at, table.report].into_iter().flatten();
        for column in owner_columns(table).chain(more) {
            assert!(columns[name].contains(column), "{name} has no column {column}");
        }
        for column in table.key {
            let is_text = texts.contains(&format!("{name}.{}", column.name()));
            assert_eq!(matches!(column, KeyColumn::Text(_)), is_text, "{name}.{}", column.name());
        }
        let key: BTreeSet<String> = table.key.iter().map(|column| column.name().to_owned()).collect();
        let without_tenant = keys[name].iter().filter(|column| *column != "tenant").cloned().collect();
        assert!(key.is_empty() || key == without_tenant, "{name}: the key is {without_tenant:?}");
    }
}

#[tokio::test]
async fn every_declaration_has_what_its_rows_are_found_by() {
    for table in declared() {
        let name = table.name;
        let is_owned = owner_columns(table).next().is_some();
        if table.is_part_of_report || !(is_owned || table.age == RowAge::Retention) {
            continue;
        }
        assert!(!table.key.is_empty(), "{name} needs the key by which its rows are locked");
        assert!(table.received_at.is_some(), "{name}: data that arrived later stays");
        let is_found = table.session.is_some() && table.app.is_some();
        let is_person = table.user.is_some() || table.installation.is_some();
        assert!(!is_owned || is_found, "{name} is found by its sessions within an app");
        assert!(!is_person || table.day.is_some(), "{name} is searched day by day for a person");
        assert!(table.sender_key.is_none() || table.version.is_some(), "{name} is found by its version");
    }
}

#[tokio::test]
async fn the_ages_and_the_rows_that_outlive_their_tenant_are_those_of_the_database() {
    let database = TestDatabase::new(&[]).await;
    let purges = database.rows("SELECT target FROM purges").await;
    let purges: BTreeSet<String> = purges.iter().map(|row| row.get(0)).collect();
    let declared = declared();
    let purged = declared.iter().filter(|table| matches!(table.age, RowAge::Purged | RowAge::KeptFor(_)));
    assert_eq!(purged.map(|table| table.name.to_owned()).collect::<BTreeSet<_>>(), purges);

    // Sessions and payloads end by the retention of their tenant, and the partition of a day once no tenant keeps it.
    let parents = database.rows(
        "SELECT relname::text FROM pg_class WHERE relkind = 'p' AND relnamespace = 'public'::regnamespace",
    );
    let parents: BTreeSet<String> = parents.await.iter().map(|row| row.get(0)).collect();
    let by_age = |age: RowAge| {
        declared.iter().filter(move |table| table.age == age).map(|table| table.name.to_owned())
    };
    let dropped: BTreeSet<String> = by_age(RowAge::Dropped).collect();
    let kept: BTreeSet<String> = by_age(RowAge::Retention).collect();
    assert_eq!(parents.difference(&kept).cloned().collect::<BTreeSet<_>>(), dropped);

    // The deletion of a tenant finds the rows of partitions by their key.
    for table in declared.iter().filter(|table| parents.contains(table.name)) {
        assert!(!table.key.is_empty(), "{} needs the key of its rows", table.name);
    }
}

/// Proves: deletion
#[tokio::test]
async fn the_service_may_delete_with_its_tenant_what_does_not_outlive_it() {
    let database = TestDatabase::new(&[]).await;
    for table in declared() {
        let privilege =
            format!("SELECT has_table_privilege('unslide_service', '{}', 'DELETE')::integer", table.name);
        let may_delete = database.number(&format!("{privilege}::bigint")).await == 1;
        let all_stay = table.outlives.is_some_and(|rows| rows.condition.is_none());
        assert_eq!(may_delete, !all_stay, "{}", table.name);
        assert!(table.outlives.is_none_or(|rows| !rows.reason.is_empty()), "{}", table.name);
    }
}

/// Rows that go with the row that they refer to are counted only if they go before it.
/// Proves: deletion
#[tokio::test]
async fn a_table_comes_after_those_that_it_refers_to() {
    let database = TestDatabase::new(&[]).await;
    let references = database
        .rows(
            "SELECT DISTINCT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint
             WHERE contype = 'f' AND confdeltype <> 'n' AND conrelid <> confrelid AND conparentid = 0",
        )
        .await;
    let declared = declared();
    let place = |name: &str| declared.iter().position(|table| table.name == name);
    let mut compared = 0;
    for row in references {
        let (table, other): (String, String) = (row.get(0), row.get(1));
        let (Some(own), Some(other_place)) = (place(&table), place(&other)) else { continue };
        assert!(own > other_place, "{table} refers to {other}");
        compared += 1;
    }
    assert!(compared > 10, "{compared}");
}

/// Proves: fairness
#[tokio::test]
async fn the_files_that_rows_name_count_against_the_limit_on_symbols() {
    let database = TestDatabase::new(&[]).await;
    let numbers = format!(
        "SELECT c.relname || '.' || a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
         WHERE {OF_TENANTS} AND a.atttypid = 'bigint'::regtype"
    );
    let numbers: BTreeSet<String> = database.rows(&numbers).await.iter().map(|row| row.get(0)).collect();
    for table in declared() {
        assert!(table.files.is_none() || table.counted_bytes.is_some(), "{}: its files count", table.name);
        let counted = table.counted_bytes.map(|column| format!("{}.{column}", table.name));
        assert!(counted.as_ref().is_none_or(|column| numbers.contains(column)), "{counted:?} is no bigint");
    }
}

/// Proves: deletion
#[tokio::test]
async fn every_statement_that_is_made_from_the_declarations_runs() {
    let hooks = collect_hooks(&features(FeatureSettings::default()));
    let database = TestDatabase::new(&hooks).await;
    let (begin, end) = (start(), start() + Duration::HOUR);
    let key = SenderKeyId::parse("0a1b2c3d").unwrap();
    let ids = ["0198c0de-0000-7000-8000-0000000000aa".to_owned()];
    let apps = ["com.acme.shop".to_owned()];
    let range = KeyRange { key, begin, end, version: None };
    let version = KeyRange { version: Some("1.0".to_owned()), ..range.clone() };
    let sessions = ErasedSessions { ids: &ids, apps: None, received_before: end };
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    for selection in [
        Selection::Expired { first_kept: end.date() },
        Selection::Sessions(sessions),
        Selection::Sessions(ErasedSessions { apps: Some(&apps), ..sessions }),
        Selection::Key(&range),
        Selection::Key(&version),
    ] {
        assert_eq!(selection.count_rows(&mut tx).await.unwrap(), [], "{selection:?}");
        assert_eq!(selection.delete_rows(&mut tx, Some(10)).await.unwrap(), [], "{selection:?}");
        assert_eq!(selection.delete_rows(&mut tx, None).await.unwrap(), [], "{selection:?}");
    }
    assert_eq!(feature_files(&mut tx).await.unwrap(), []);
    usage::read_symbol_bytes(&mut tx).await.unwrap();
    figures::list_figures(&database.store, figures::FigureOrder::Full, 1, None, 10).await.unwrap();
    for kind in [PersonKind::User, PersonKind::Installation] {
        let key = PersonKey::from_id(kind, "robin");
        let person = PersonDay { key, day: begin.date(), received_before: end, limit: 10 };
        assert_eq!(list_person_sessions(&mut tx, person).await.unwrap(), []);
    }
    let (_, announced) = erasure::begin_erasure(&mut tx).await.unwrap().unwrap();
    assert!(announced.is_some());
    while erasure::erase_rows(&mut tx, &mut 0, 10).await.unwrap().is_some() {}
    let left = erasure::rows_left(&mut tx).await.unwrap();
    assert!(left.values().all(|rows| *rows == 0), "{left:?}");
}
