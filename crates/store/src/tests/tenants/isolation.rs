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
const TABLES_OF_FEATURES: &str =
    "INSERT INTO alert_rules (id, tenant, name, condition, threshold, channel, address, secret, template, content_type,
                              digest_minutes, next_message_at, next_evaluation_at, created_at)
     VALUES (md5('rule')::uuid, 'acme', 'rule', 'new_group', 0, 'kafka', '', '', '', 'application/json', 0, now(), now(),
             now());
     INSERT INTO alert_messages (id, tenant, rule, status, events, due_at, created_at)
     VALUES (md5('message')::uuid, 'acme', md5('rule')::uuid, 'waiting', 1, now(), now());
     INSERT INTO alert_events (tenant, rule, cause, occurred_at, headline, detail, app, version, path, message)
     VALUES ('acme', md5('rule')::uuid, 'test', now(), '', '', '', '', '', md5('message')::uuid);
     INSERT INTO alert_recipients (tenant, address, status, asked_at)
     VALUES ('acme', 'a@example.com', 'waiting_for_confirmation', now());
     INSERT INTO alert_figures (rule, tenant, figure, comparison, days, least_observations)
     VALUES (md5('rule')::uuid, 'acme', 'hangs', 'above', 1, 1);
     INSERT INTO alert_firings (id, tenant, rule, headline, began_at, link_key)
     VALUES (md5('firing')::uuid, 'acme', md5('rule')::uuid, '', now(), sha256(''));
     INSERT INTO alert_mail_counts (tenant, day, mails) VALUES ('acme', now()::date, 1);
     INSERT INTO keys (id, tenant, kind, name, prefix, key_hash, key_text, apps, created_at)
     VALUES (md5('public')::uuid, 'acme', 'public', 'app', '0a1b2c3d', sha256('text'), 'text', '{shop}', now());
     INSERT INTO ingest_key_versions (tenant, key_id, day, app, version, reports, runs)
     VALUES ('acme', '0a1b2c3d', now()::date, 'shop', '1.0', 1, 0);
     INSERT INTO key_erasures (id, tenant, key_id, range_begin, range_end, requested_by, requested_at, state)
     VALUES (md5('range')::uuid, 'acme', '0a1b2c3d', '2000-01-01', '2000-01-02', 'test', now(), 'searching');
     INSERT INTO sign_in_providers (tenant, issuer, client_id, client_secret, group_claim, rules, session_hours, changed_at)
     VALUES ('acme', 'https://login.example.com', 'x', '', 'groups', '[]', 12, now());
     INSERT INTO people (tenant, issuer, subject, key_id, last_sign_in_at)
     SELECT 'acme', 'https://login.example.com', 's', id, now() FROM keys WHERE tenant = 'acme' AND kind = 'api' LIMIT 1;
     INSERT INTO sign_in_failures (id, tenant, at, outcome, reason)
     VALUES (md5('failure')::uuid, 'acme', now(), 'declined', '');
     INSERT INTO person_erasures (id, tenant, kind, person_id, person_hash, requested_by, requested_at, state)
     VALUES (md5('erasure')::uuid, 'acme', 'user', 'u', sha256(''), 'test', now(), 'searching');
     INSERT INTO person_secrets (tenant, secret) VALUES ('acme', sha256(''));
     INSERT INTO erased_persons (tenant, kind, person_hash, erased_at) VALUES ('acme', 'user', sha256(''), '2000-01-01');
     INSERT INTO report_users (tenant, received_at, report_id, variant, user_hash)
     SELECT 'acme', received_at, report_id, variant, substr(sha256(''), 1, 16) FROM reports LIMIT 1;
     INSERT INTO system_symbol_builds (tenant, build, arch, debug_id, imported_at, imported_by)
     VALUES ('acme', '23B87', 'arm64e', md5('image')::uuid, now(), 'key');
     INSERT INTO source_switches (tenant, enabled, changed_at) VALUES ('acme', true, now());
     INSERT INTO source_bundles (tenant, debug_id, app, object_id, content_hash, size, files, received_at)
     VALUES ('acme', md5('image')::uuid, '', md5('bundle')::uuid, sha256(''), 1, 1, now());
     INSERT INTO uploader_chunks (tenant, sha1, object_id, size, counted, expires_at)
     VALUES ('acme', substr(sha256(''), 1, 20), md5('chunk')::uuid, 1, true, now());
     INSERT INTO uploader_files (tenant, app, sha1, name, chunks, file_use, one_app, file_limit, state, attempts, due_at, updated_at)
     VALUES ('acme', 'shop', substr(sha256(''), 1, 20), '', '', 'debug_file', false, 1, 'waiting', 0, now(), now());
     INSERT INTO uploader_urls (tenant, token_hash, key_id, expires_at)
     VALUES ('acme', sha256('token'), md5('key')::uuid, now());
     INSERT INTO group_views (tenant, id, owner, name, filter, created_by, created_at)
     VALUES ('acme', md5('view')::uuid, '', 'view', '{}', 'key', now());
     INSERT INTO live_event_counters (tenant, last) VALUES ('acme', 1);
     INSERT INTO live_events (tenant, event, kind, data, occurred_at) VALUES ('acme', 1, 'reports_stored', '{}', now());
     INSERT INTO captures (id, tenant, app, version, kind, form, files, size, content_hash, state, received_at)
     VALUES (md5('capture')::uuid, 'acme', 'shop', '', 'profile', '{\"kind\": \"profile\"}', '[]', 1, sha256(''), 'ready', now());
     INSERT INTO capture_waits (tenant, debug_id, capture_id, system, seen_generation)
     VALUES ('acme', md5('image')::uuid, md5('capture')::uuid, false, 0);
     INSERT INTO sessions (tenant, day, app, session_id, version, counted, started_at, received_at)
     SELECT 'acme', received_at::date, 'shop', 's1', '', 1, received_at, received_at FROM reports LIMIT 1;
     INSERT INTO session_days (tenant, app, version, day, sessions, crashed, installations, crashed_installations, users,
                               crashed_users)
     VALUES ('acme', 'shop', '', now()::date, 1, 0, '', '', '', '');
     INSERT INTO metric_payloads (tenant, day, app, payload_id, version, measured_at, received_at)
     SELECT 'acme', received_at::date, 'shop', 'm1', '', received_at, received_at FROM reports LIMIT 1;
     INSERT INTO metric_versions (tenant, day, app, version) VALUES ('acme', now()::date, 'shop', '');
     INSERT INTO metric_days (tenant, app, version, dimension, day, value, metric, observations, failed, squares, sampled,
                              sketch)
     VALUES ('acme', 'shop', '', '', now()::date, '', 'launch_time', 1, 0, 1, false, '');
     INSERT INTO metric_hours (tenant, app, dimension, value, metric, hour, version, observations, failed, squares, sampled,
                               sketch)
     VALUES ('acme', 'shop', '', '', 'launch_time', now(), '', 1, 0, 1, false, '');
     INSERT INTO session_hour_counts (tenant, app, hour, version, sessions, crashed, out_of_memory, unexplained,
                                background_memory, squares, users, crashed_users)
     VALUES ('acme', 'shop', now(), '', 1, 0, 0, 0, 0, 1, '', '');
     INSERT INTO memory_exceptions (tenant, report_id, variant, app, version, at, names_session, outcome, received_at)
     VALUES ('acme', '11111111-1111-1111-1111-111111111111', 0, 'shop', '', now(), false, 'none', now());
     INSERT INTO app_ends (tenant, app, version, day, foreground, cause, ends)
     VALUES ('acme', 'shop', '', now()::date, true, 'normal', 1);
     INSERT INTO resource_uses (tenant, day, cpu_micros, kafka_bytes, object_requests, object_bytes, stored)
     VALUES ('acme', now()::date, 1, 1, 1, 1, 1);
     INSERT INTO group_labels (tenant, group_id, label) SELECT 'acme', id, 'owner:x' FROM groups LIMIT 1;
     INSERT INTO owner_apps (tenant, app, epoch, changed_at) VALUES ('acme', 'shop', 1, now());
     INSERT INTO owner_files (id, tenant, app, version, dialect, content, rules, problems, first_problems, uploaded_at)
     VALUES (md5('owners')::uuid, 'acme', 'shop', '', 'github', '', 0, 0, '[]', now());
     INSERT INTO group_owners (tenant, group_id, app, needed, next_look_at)
     SELECT 'acme', id, 'shop', 1, now() FROM groups LIMIT 1;
     INSERT INTO regression_rules (tenant, rule, changed_at) VALUES ('acme', 'any_report', now());
     INSERT INTO held_regressions (tenant, group_id, app, version, received_at, next_look_at)
     SELECT 'acme', id, 'shop', '', now(), now() FROM groups LIMIT 1;
     INSERT INTO app_slots (tenant, app, window_start, units) VALUES ('acme', 'shop', now(), 1);
     INSERT INTO otlp_settings (tenant, refuses_others, header_names, changed_at, next_send_at)
     VALUES ('acme', true, '{}', now(), now());
     INSERT INTO otlp_outbox (tenant, report_id, variant, revision, queued_at)
     VALUES ('acme', '11111111-1111-1111-1111-111111111111', 0, 1, now());
     INSERT INTO stored_events (tenant, queued_at, report_id, variant, revision)
     VALUES ('acme', now(), '11111111-1111-1111-1111-111111111111', 0, 1);
     INSERT INTO history_moves (tenant, day, token, begun_at, places) VALUES ('acme', now()::date, md5('token')::uuid, now(), '[]');
     INSERT INTO history_deletions (tenant, received_at, report_id, variant, version, queued_at)
     VALUES ('acme', now(), md5('moved')::uuid, 0, 1, now());
     INSERT INTO history_tenants (tenant, ended_moves, newest_at) VALUES ('acme', 1, now());
     INSERT INTO stored_event_turns (tenant, next_send_at) VALUES ('acme', now());
     INSERT INTO parquet_exports (tenant, shown_address, sealed_target, changed_at, first_day, next_day, next_write_at)
     VALUES ('acme', '', '', now(), now()::date, now()::date, now());
     INSERT INTO parquet_day_changes (tenant, day, changed_at, erases) VALUES ('acme', now()::date, now(), false);
     INSERT INTO parquet_days (tenant, day) VALUES ('acme', now()::date);
     INSERT INTO parquet_files (tenant, path, day, generation) VALUES ('acme', 'reports/a', now()::date, 1);
     INSERT INTO scrub_salts (tenant, salt) VALUES ('acme', sha256('salt'));
     INSERT INTO scrub_runs (tenant, id, status, started_by, started_at, updated_at)
         VALUES ('acme', gen_random_uuid(), 'running', 'a key', now(), now());
     INSERT INTO scrub_rules (tenant, app, revision, rules, changed_at)
     VALUES ('acme', '', md5('rules')::uuid, '{}', now());
     INSERT INTO body_caps (tenant, app, bodies, since, changed_at) VALUES ('acme', '', 200, now(), now());
     INSERT INTO body_cap_turns (tenant, next_at, swept_to, wait_day) VALUES ('acme', now(), now(), now()::date);
     INSERT INTO testflight_keys (tenant, key_id, sealed_key, changed_at, next_poll_at)
     VALUES ('acme', 'AB12', '', now(), now());
     INSERT INTO trackers (tenant, name, id, kind, url, project, labels, sealed_token, sealed_hook_secret, rule_since,
                           next_look_at, changed_at)
     VALUES ('acme', 'main', md5('tracker')::uuid, 'github', '', '', '{}', '', '', now(), now(), now());
     INSERT INTO audit_receivers (tenant, name, kind, shown_address, sealed_target, position, changed_at, next_send_at)
     VALUES ('acme', 'siem', 'syslog', 'siem.example.com:6514', '', 0, now(), now());
     INSERT INTO symbol_sources (tenant, name, kind, layout, shown_address, sealed_target, changed_at, next_ask_at)
     VALUES ('acme', 'builds', 's3', 'unified', '', '', now(), now());
     INSERT INTO symbol_source_requests (tenant, debug_id, source, state, created_at, due_at)
     VALUES ('acme', md5('image')::uuid, 'builds', 'waiting', now(), now());
     INSERT INTO build_commits (tenant, debug_id, commit_sha, recorded_at) VALUES ('acme', md5('image')::uuid, '0a1b2c3', now());
     INSERT INTO slack_apps (tenant, id, team, channel, sealed_token, sealed_signing_secret, reports, since, next_look_at, changed_at)
     VALUES ('acme', md5('slack')::uuid, 'T1', 'C1', '', '', 1, now(), now(), now());
     INSERT INTO slack_threads (tenant, group_id, channel, marker, created_at, asked_at)
     VALUES ('acme', md5('group')::uuid, 'C1', md5('marker')::uuid, now(), now());
     INSERT INTO slack_actions (tenant, id, slack_user, user_name, channel, action, group_id, received_at)
     VALUES ('acme', sha256('a'), 'U1', 'robin', 'C1', 'ignore', md5('group')::uuid, now());
     INSERT INTO slack_people (tenant, team, slack_user, key_id, name, ends_at)
     SELECT 'acme', 'T1', 'U1', id, 'robin', now() FROM keys WHERE tenant = 'acme' LIMIT 1;
     INSERT INTO slack_links (tenant, token_hash, team, slack_user, user_name, ends_at)
     VALUES ('acme', sha256('l'), 'T1', 'U1', 'robin', now());
     INSERT INTO mcp_grants (tenant, id, key_id, client_hash, client_name, redirect_host, redirect_hash, scopes, names_tenant,
                             created_at, code_hash, code_challenge, code_ends_at, ends_at)
     SELECT 'acme', md5('grant')::uuid, id, sha256('c'), 'c', 'localhost', sha256('r'), '{}', false, now(), sha256('o'),
            sha256('v'), now(), now()
     FROM keys WHERE tenant = 'acme' LIMIT 1;
     INSERT INTO scim_users (tenant, id, user_name, is_active, attributes, created_at, changed_at)
     VALUES ('acme', md5('user')::uuid, 'robin', true, '{}', now(), now());
     INSERT INTO scim_groups (tenant, id, display_name, created_at, changed_at)
     VALUES ('acme', md5('group')::uuid, 'crew', now(), now());
     INSERT INTO scim_members (tenant, group_id, user_id) VALUES ('acme', md5('group')::uuid, md5('user')::uuid);
     INSERT INTO sign_out_notices (tenant, notice_hash, received_at) VALUES ('acme', sha256('n'), now());
     INSERT INTO sign_out_hints (tenant, hint_hash, id_token, ends_at) VALUES ('acme', sha256('h'), 'token', now());
     INSERT INTO tickets (tenant, group_id, tracker, marker, state, asked_by, created_at)
     VALUES ('acme', md5('group')::uuid, 'main', md5('marker')::uuid, 'open', 'key', now());
     INSERT INTO ticket_requests (tenant, group_id, action, tracker, asked_at, due_at)
     VALUES ('acme', md5('group')::uuid, 'read', 'main', now(), now());
     INSERT INTO tracker_deliveries (tenant, tracker, delivery, received_at) VALUES ('acme', 'main', 'd', now());
     INSERT INTO ticket_fixes (tenant, group_id, revision, fixed_at) VALUES ('acme', md5('group')::uuid, 'a', now());
     INSERT INTO testflight_apps (tenant, app) VALUES ('acme', 'shop');
     INSERT INTO testflight_submissions (tenant, submission, app, state, seen_at, next_try_at)
     VALUES ('acme', 'a', 'shop', 'waiting', now(), now());
     INSERT INTO testflight_comments (tenant, report_id, submission, app, comment, received_at)
     VALUES ('acme', '11111111-1111-1111-1111-111111111111', 'a', 'shop', 'It crashed.', now())";

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
    ("unslide_tickets_due", "the same of the version before"),
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
    ("unslide_crash_tellings", "the indexer counts a crash once: ids only"),
    ("unslide_crashes_told_twice", "the same of the version before"),
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
