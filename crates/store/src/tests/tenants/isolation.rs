//! Tenants do not see each other, whatever the service asks.

use crate::keys::{self, NewApiKey};
use crate::tests::database::{Database, acme, admin, arrival, image, publish, revised, tenant_id, url_of};
use crate::{Settings, Store, StoreError, audit, jobs, segments, symbols, uploads};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Row};
use std::collections::BTreeSet;
use std::sync::Arc;
use unslide_model::{AppSignal, Quality, Scope, SystemClock};

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

/// Rows of the tables of features.
const TABLES_OF_FEATURES: &str = include_str!("rows_of_features.sql");

pub async fn fill(database: &Database) {
    database.store(&[arrival(1), arrival(2)]).await;
    publish(database, 1, Quality::Dwarf).await;
    crate::tests::reports::segments::move_all(database, "a").await;
    database.store(&[revised(&arrival(1), 2, image(1, false, Some(1)))]).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let key = NewApiKey { name: "ci".into(), scopes: vec![Scope::SymbolsWrite], app: None, expires_at: None };
    let (key, _) = keys::create_key(&mut tx, &key, &[7; 30]).await.unwrap();
    sqlx::query(
        "INSERT INTO console_sessions (token_hash, tenant, key_id, created_at, ends_at)
         VALUES (sha256('x'), 'acme', $1, now(), now() + interval '1 hour')",
    )
    .bind(key.id)
    .execute(tx.parts().0)
    .await
    .unwrap();
    audit::append_entry(&mut tx, "test", "key.create", "x", &serde_json::json!({})).await.unwrap();
    segments::condemn_objects(&mut tx, &["t/acme/segments/a".to_owned()]).await.unwrap();
    let upload = uploads::create_upload(&mut tx, None, None).await.unwrap();
    let object = crate::tests::symbols::symbols_and_uploads::object(9, Some(9));
    crate::objects::record_found(&mut tx, upload, &[("a", &object)]).await.unwrap();
    crate::tests::symbols::partial_uploads::half(&mut tx).await;
    crate::reprocess::create_reprocess(&mut tx, "test", &crate::reprocess::ReprocessFilter::default())
        .await
        .unwrap();
    let group =
        crate::queries::groups::list_groups(&mut tx, &Default::default(), Default::default(), None, 1)
            .await
            .unwrap();
    let actor = crate::groups::GroupActor { actor: "test", name: None };
    crate::groups::add_comment(&mut tx, actor, group[0].id, "x").await.unwrap();
    let settings = crate::app_settings::AppSettings { source_root: "/ci".into(), ..Default::default() };
    assert!(crate::app_settings::replace_settings(&mut tx, "shop", &settings).await.unwrap());
    crate::app_signals::count_refused(&mut tx, "shop", AppSignal::Sessions).await.unwrap();
    tx.commit().await.unwrap();
    // A report that leaves its group, and another one that stays.
    database.store(&[arrival(5)]).await;
    database.store(&[revised(&arrival(5), 2, image(1, false, Some(1)))]).await;
    // A report that came twice.
    let again = |offset| {
        let origin = crate::reports::ReportOrigin { topic: "in".into(), partition: 0, offset, index: 0 };
        crate::reports::Arrival { origin: Some(origin), ..arrival(3) }
    };
    database.store(&[again(1), again(2)]).await;
    // To set rules announces the tenant, which is not what is tested.
    crate::tests::database::execute(
        database,
        "INSERT INTO grouping_rules (tenant, version, text, changed_by, changed_at, status)
         VALUES ('acme', 1, 'ignore function f', 'test', now(), 'done')",
    )
    .await;
    // Tables of features, whose statements are not here.
    crate::tests::database::execute(database, TABLES_OF_FEATURES).await;
    // What only a deletion leaves behind.
    crate::tests::database::execute(
        database,
        "INSERT INTO tenant_erasures (tenant, requested_at) VALUES ('acme', now())",
    )
    .await;
    let mut batch = database.store.batch().await.unwrap();
    crate::dead_letters::note(&mut batch, &[crate::tests::kafka::dead_letters::letter(1, Some("acme"))])
        .await
        .unwrap();
    let deferred = crate::tests::kafka::deferred::range("acme", 0, 5, 8);
    crate::deferred::extend_ranges(&mut batch, &[deferred]).await.unwrap();
    batch.commit().await.unwrap();
}

#[tokio::test]
async fn every_table_of_tenants_is_under_row_level_security_and_so_are_partitions() {
    let database = Database::new().await;
    let unprotected = database
        .rows(
            "SELECT c.relname::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
             WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
               AND (a.attname = 'tenant' OR c.relname = 'tenants' AND a.attname = 'slug')
               -- An index of words is looked up by a function that reads as the table's owner.
               AND NOT (c.relrowsecurity AND (c.relforcerowsecurity OR c.relname = 'group_terms'))",
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

/// Reading, changing, removing and adding another tenant's rows, each as one statement that counts.
fn attempts(table: &str, column: &str, columns: &str, row: &str) -> [String; 4] {
    let row = row.replace('\'', "''");
    [
        format!("SELECT count(*) FROM {table} WHERE {column} = 'acme'"),
        format!("WITH d AS (DELETE FROM {table} WHERE {column} = 'acme' RETURNING 1) SELECT count(*) FROM d"),
        format!(
            "WITH u AS (UPDATE {table} SET {column} = {column} WHERE {column} = 'acme' RETURNING 1) SELECT count(*) FROM u"
        ),
        format!(
            "WITH i AS (INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE
                        SELECT {columns} FROM jsonb_populate_record(NULL::{table}, '{row}') RETURNING 1) SELECT count(*) FROM i"
        ),
    ]
}

/// Proves: isolation
#[tokio::test]
async fn a_tenant_neither_reads_nor_writes_another_tenants_rows() {
    let database = Database::new().await;
    fill(&database).await;
    let tables = tenant_tables(&database).await;
    assert!(tables.len() >= 24, "{tables:?}");
    for (table, column) in &tables {
        let rows = format!("SELECT to_jsonb(t)::text FROM {table} t WHERE {column} = 'acme' LIMIT 1");
        let rows = database.rows(&rows).await;
        let row: String = rows.first().unwrap_or_else(|| panic!("{table} has nothing to hide")).get(0);
        let owned = format!("SELECT count(*) FROM {table} WHERE {column} = 'acme'");
        let owned_before = database.number(&owned).await;
        let columns = format!(
            "SELECT string_agg(quote_ident(column_name), ', ') FROM information_schema.columns
             WHERE table_schema = 'public' AND table_name = '{table}' AND is_generated = 'NEVER'"
        );
        let columns: String = database.rows(&columns).await[0].get(0);
        for statement in attempts(table, column, &columns, &row) {
            let statement = || AssertSqlSafe(statement.clone());
            let mut tx = database.store.tenant(&tenant_id("umbrella")).await.unwrap();
            let as_other = sqlx::query(statement()).fetch_one(tx.parts().0).await;
            let mut nobody = database.store.pool().begin().await.unwrap();
            let as_nobody = sqlx::query(statement()).fetch_one(&mut *nobody).await;
            for seen in [as_other, as_nobody] {
                // Where the service may not do such a thing at all, that is as good.
                match seen {
                    Ok(row) => assert_eq!(row.get::<i64, _>(0), 0, "{}", statement().0),
                    Err(error) => assert_eq!(code(&error), "42501", "{}: {error}", statement().0),
                }
            }
        }
        assert_eq!(database.number(&owned).await, owned_before, "{table}");
        // Its own rows cannot be given to another, nor made in another's name.
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let given = AssertSqlSafe(format!("UPDATE {table} SET {column} = 'umbrella'"));
        let given = sqlx::query(given).execute(tx.parts().0).await;
        assert_eq!(code(&given.unwrap_err()), "42501", "{table}");
    }
}

/// Proves: isolation
#[tokio::test]
async fn no_partition_is_a_way_in() {
    let database = Database::new().await;
    fill(&database).await;
    let partitions = database
        .rows("SELECT oid::regclass::text FROM pg_class WHERE relispartition AND relkind = 'r'")
        .await;
    assert!(partitions.len() > 16);
    for partition in partitions {
        let partition: String = partition.get(0);
        for statement in [
            format!("SELECT count(*) FROM {partition}"),
            format!("DELETE FROM {partition}"),
            format!("UPDATE {partition} SET tenant = tenant"),
            format!("INSERT INTO {partition} SELECT * FROM {partition}"),
        ] {
            let mut tx = database.store.tenant(&acme()).await.unwrap();
            let tried = sqlx::query(AssertSqlSafe(statement.clone())).execute(tx.parts().0).await;
            assert_eq!(code(&tried.unwrap_err()), "42501", "{statement}");
        }
    }
}

/// What answers across tenants, each with what it is for. A function that is added here is a hole in the
/// wall between tenants: it needs a question that no tenant's own transaction can answer, an answer
/// without their data, and a reason.
const ACROSS_TENANTS: &[(&str, &str)] = &[
    (
        "unslide_alert_confirmations_due",
        "the api asks recipients of mail of all tenants to confirm: slugs and addresses only",
    ),
    (
        "unslide_alert_recipient",
        "a link arrives before its tenant is known: one row by the hash of 256 random bits",
    ),
    ("unslide_resource_uses", "operators see what each tenant used by day: slugs and amounts"),
    ("unslide_resource_use_sums", "operators see what each tenant used: slugs and amounts"),
    ("unslide_add_resource_uses", "a process records what it used for all tenants: slugs and amounts"),
    ("unslide_alerts_due", "the api sends the alerts of all tenants: slugs and ids only"),
    ("unslide_audit_receivers_due", "the api sends the audit logs of all tenants: slugs only"),
    ("unslide_audit_receivers_oldest", "the api measures the age of unsent entries: one time"),
    ("unslide_held_regressions_due", "the api judges the resolved groups of all tenants: slugs only"),
    ("unslide_number_audit_entry", "the trigger numbers entries, which the service cannot change"),
    ("unslide_mcp_principal", "the api looks a token up by its hash: its owner only"),
    (
        "unslide_signs_people_in",
        "the api offers a sign-in to assistants if a tenant has a provider: yes or no only",
    ),
    ("unslide_slack_due", "the api posts the groups of all tenants to Slack: slugs only"),
    ("unslide_alerts_to_route", "the api waits for labels of groups of all tenants: slugs and ids only"),
    ("unslide_ticket_tenants", "the api works on the tickets of all tenants: slugs only"),
    ("unslide_stored_events_due", "the api sends the events of all tenants to Kafka: slugs only"),
    ("unslide_stored_events_oldest", "the api measures the age of unsent events: one time"),
    ("unslide_parquet_oldest_due", "the api measures what is late in all exports: one time"),
    ("unslide_otlp_due", "the api sends the crashes of all tenants to their collectors: slugs only"),
    (
        "unslide_scrub_revisions",
        "the indexer scrubs the reports of all tenants: slugs, apps and numbers of changes only",
    ),
    ("unslide_body_caps_due", "the api drops bodies of all tenants over their caps: slugs only"),
    ("unslide_owners_due", "the api looks for the owners of groups of all tenants: slugs only"),
    ("unslide_testflight_due", "the api asks Apple for the crash reports of all tenants: slugs only"),
    ("unslide_app_slots", "the api makes keys for records of large apps: their names and a number only"),
    ("unslide_asks_pending", "the indexer goes on where a replay ended: ids only"),
    ("unslide_bodies_pending", "the indexer finds what to move: counts and sizes by tenant and day"),
    (
        "unslide_capture_waits_missed",
        "the builder finds symbols that captures wait for and that nothing asks for: owners and ids",
    ),
    ("unslide_condemned_due", "the indexer deletes objects that nothing refers to: their keys only"),
    (
        "unslide_console_principal",
        "a cookie arrives before its tenant is known: one row by the hash of 256 random bits",
    ),
    ("unslide_claim_tenant", "a name is a tenant's of one cell: the cell's name"),
    ("unslide_crash_tellings", "the indexer counts a crash once: ids only"),
    ("unslide_dead_letter", "operators read one dead letter of any tenant"),
    ("unslide_dead_letter_without_tenant", "the indexer notes what is no tenant's"),
    ("unslide_dead_letter_replay_ended", "the indexer notes how a replay ended"),
    ("unslide_dead_letter_replayed", "operators replay dead letters of any tenant"),
    ("unslide_dead_letters", "operators list the dead letters of all tenants and of nobody"),
    ("unslide_dead_letters_count", "as unslide_dead_letters: how many"),
    ("unslide_dead_letters_oldest", "a figure: the age of the oldest dead letter of each stage"),
    ("unslide_dead_letters_requested", "the indexer finds the dead letters that it has to replay"),
    ("unslide_defer", "the indexer puts records of any tenant off: slugs and offsets only"),
    ("unslide_deferred_ranges", "the indexer finds the records that it put off: slugs and offsets only"),
    (
        "unslide_located_ranges",
        "as unslide_deferred_ranges, with the place of each tenant: the indexer passes records on to another cell",
    ),
    ("unslide_is_moving", "a move that has begun keeps rows in the database: yes or no of its own tenant"),
    ("unslide_deltas_due", "the indexer finds counts to fold: ids, numbers and times"),
    ("unslide_erasures_due", "the builder finds deleted tenants: slugs only"),
    (
        "unslide_groups_like",
        "a search by an index that row-level security closes: ids of the transaction's own tenant",
    ),
    (
        "unslide_history_deletions_due",
        "the indexer deletes rows of all tenants at ClickHouse: slugs and times only",
    ),
    ("unslide_history_due", "the indexer finds rows to move: slugs, days and times only"),
    ("unslide_history_moves_abandon", "gives up what dead writers left: gives a number"),
    ("unslide_history_tenants", "an operator moves rows of all tenants back: slugs only"),
    ("unslide_history_versions_skip", "the indexer numbers moves above a restored moment: whether it had to"),
    (
        "unslide_ignored_groups_due",
        "the builder opens groups that are ignored until a time: slugs and ids only",
    ),
    ("unslide_jobs_counts", "figures of waiting jobs"),
    ("unslide_jobs_stalled", "figures of jobs without progress"),
    ("unslide_jobs_take", "builders take work of any tenant"),
    ("unslide_key_month_begin", "keys of all tenants are stored under one month: says whether it is new"),
    ("unslide_key_months_drop", "keys that are over go for all tenants"),
    ("unslide_key_may_make", "an operator's key makes keys of other tenants: whether it is in force"),
    (
        "unslide_key_owners",
        "a key arrives before its tenant is known: a row for each exact kind and prefix, with the secret's hash",
    ),
    ("unslide_objects_undeleted", "a figure: objects that could not be deleted"),
    ("unslide_outbox_aside", "a figure: messages that cannot be sent"),
    ("unslide_outbox_sent", "the relay notes what it sent"),
    ("unslide_outbox_set_aside", "the relay leaves a message out that it cannot send"),
    ("unslide_outbox_take_back", "the relay tries again what was set aside: gives a number"),
    ("unslide_outbox_unsent", "the relay sends the messages of all tenants"),
    ("unslide_partitions_drop", "days that are over go for all tenants"),
    ("unslide_partitions_drop_empty", "tables of days without a row of any tenant go: gives a number"),
    ("unslide_partitions_ensure", "days are made for all tenants"),
    (
        "unslide_purge",
        "forgets what is over, in the tables that a list of the schema's owner names: gives a number",
    ),
    ("unslide_made_keys", "a leaked operator's key made keys of any tenant: ids only"),
    ("unslide_requests_overdue", "the builder asks again: ids only"),
    ("unslide_retention_longest", "when a day may go for all tenants: a number of days"),
    ("unslide_retries_due", "the builder asks again by the clock: ids only"),
    ("unslide_revoke_made_keys", "a leaked operator's key made keys of any tenant: gives a number"),
    ("unslide_segments_abandon", "gives up what dead writers left: gives a number"),
    (
        "unslide_shorten_deferred",
        "the indexer stores what it put off: whether the ranges were as it knew them",
    ),
    ("unslide_store_failures", "the indexer's limit of skipped records: a number and slugs"),
    ("unslide_stored_bytes", "figures of operators: sums of sizes by tenant"),
    ("unslide_stored_positions", "the indexer finds how far it is: offsets only"),
    (
        "unslide_system_waits_missed",
        "the builder finds days that lack symbols and that nothing asks for: owners and ids",
    ),
    ("unslide_system_waits_tenants", "the builder finds tenants that wait for system symbols: slugs only"),
    ("unslide_tenant_figures", "operators see which tenant is loud or full: names, limits and numbers"),
    ("unslide_tenants", "operators list tenants"),
    (
        "unslide_unknown_tenants",
        "the indexer waits with reports of tenants that are not there: the names that it asks for",
    ),
    (
        "unslide_uploader_files_due",
        "the api finds files that wait to be made of chunks: slugs, apps and hashes only",
    ),
    ("unslide_uploads_kept", "the builder removes files of uploads that are over: ids only"),
    ("unslide_uploads_stuck", "the builder ends uploads that nobody goes on with: ids only"),
    (
        "unslide_watch_moving",
        "notes the keys of the rows of a tenant that moves, of which the service sees none",
    ),
    (
        "unslide_waits_missed",
        "the builder finds symbols that reports wait for and that nothing asks for: owners and ids",
    ),
];

/// Proves: isolation
#[tokio::test]
async fn the_functions_that_look_across_tenants_are_these_and_no_more() {
    let database = Database::new().await;
    let found = database
        .rows(
            "SELECT proname::text, proconfig::text LIKE '%search_path=pg_catalog, public, pg_temp%',
                    has_function_privilege('public', oid, 'EXECUTE')
             FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef ORDER BY 1",
        )
        .await;
    let names: BTreeSet<String> = found.iter().map(|row| row.get(0)).collect();
    let wanted: BTreeSet<String> = ACROSS_TENANTS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names, wanted);
    for row in found {
        let name: String = row.get(0);
        assert!(row.get::<bool, _>(1), "{name} fixes its search path");
        assert!(!row.get::<bool, _>(2), "{name} is not for everyone");
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
    assert!(keys::list_keys(&mut other, None, None, 10).await.unwrap().is_empty());
    assert!(
        symbols::list_objects(&mut other, &symbols::ObjectFilter::default(), None, 10)
            .await
            .unwrap()
            .objects
            .is_empty()
    );
    let report = arrival(1).report_id;
    assert!(crate::queries::report::get(&mut other, report, 0).await.unwrap().is_none());
    // A lease is for one worker, and its end needs the tenant that it is of.
    let leased = jobs::lease_jobs(&database.store, &jobs::JobKind::ALL, "w", time::Duration::MINUTE, 10)
        .await
        .unwrap();
    assert!(matches!(jobs::complete_job(&mut other, &leased[0]).await, Err(StoreError::LeaseLost(_))));
}

/// Proves: isolation
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
    from_a_login(&database).await;
    let powerful = Settings { role: "postgres".into(), ..Settings::with_url(database.url.clone()) };
    let refused = Store::connect(&powerful, Arc::new(SystemClock)).await;
    assert!(matches!(refused.err(), Some(StoreError::UnsafeRole(_))));
    // A superuser that takes the service's role can leave it, and so can who may do without policies.
    let login = format!("b_{}", unslide_testkit::servers::unique("cage").replace('-', "_"));
    admin(&format!("CREATE ROLE {login} LOGIN BYPASSRLS PASSWORD '{login}' IN ROLE unslide_service")).await;
    let url = url_of(database.url.rsplit('/').next().unwrap(), &login);
    let beyond = Settings { any_login: false, ..Settings::with_url(url) };
    let refused = Store::connect(&beyond, Arc::new(SystemClock)).await.err();
    admin(&format!("DROP ROLE {login}")).await;
    assert!(matches!(refused, Some(StoreError::UnsafeLogin(name)) if name == login));
    let leaving = Settings { any_login: false, ..Settings::with_url(database.url.clone()) };
    let refused = Store::connect(&leaving, Arc::new(SystemClock)).await;
    assert!(matches!(refused.err(), Some(StoreError::UnsafeLogin(login)) if login == "postgres"));
}

/// The same as a login of production has it: a member of the service's role, and not a superuser that
/// took the role.
async fn from_a_login(database: &Database) {
    let login = format!("l_{}", unslide_testkit::servers::unique("cage").replace('-', "_"));
    admin(&format!("CREATE ROLE {login} LOGIN PASSWORD '{login}' IN ROLE unslide_service")).await;
    let name = database.url.rsplit('/').next().unwrap().to_owned();
    let tried = tokio::spawn(try_to_leave(url_of(&name, &login))).await;
    admin(&format!("DROP ROLE {login}")).await;
    tried.unwrap();
}

async fn try_to_leave(url: String) {
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let count = async |connection: &mut PgConnection| {
        sqlx::query("SELECT count(*) FROM reports")
            .fetch_one(connection)
            .await
            .map(|row| row.get::<i64, _>(0))
    };
    for statement in [
        "SET ROLE postgres",
        "SET ROLE pg_read_all_data",
        "SET SESSION AUTHORIZATION postgres",
        "SET session_replication_role = replica",
        "SELECT pg_read_file('PG_VERSION')",
        "COPY reports TO PROGRAM 'cat'",
        "SELECT unslide_delete_before('reports', 'tenant', 'received_at', now(), 1)",
    ] {
        let done = sqlx::query(statement).execute(&mut connection).await;
        assert_eq!(code(&done.unwrap_err()), "42501", "{statement}");
    }
    // With the role and without it: a tenant that is not named is not seen.
    for statement in ["SET ROLE unslide_service", "RESET ROLE", "SET ROLE NONE", "RESET ALL"] {
        sqlx::query(statement).execute(&mut connection).await.unwrap();
        assert_eq!(count(&mut connection).await.unwrap(), 0, "{statement}");
    }
    // Without row security there is an error and no rows.
    sqlx::query("SET row_security = off").execute(&mut connection).await.unwrap();
    assert_eq!(code(&count(&mut connection).await.unwrap_err()), "42501");
    connection.close().await.unwrap();
}
