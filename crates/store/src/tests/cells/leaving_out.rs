//! Functions that look across tenants leave out those that another cell may be serving, or have a reason not to.

use crate::keys::{self, NewApiKey};
use crate::resource_uses::{UsesFilter, add_uses, list_daily_uses};
use crate::tests::database::{Database, acme, execute, start, tenant_id};
use crate::tests::tenants::isolation;
use crate::{StoreError, place};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use std::collections::BTreeSet;
use time::Duration;
use unslide_model::{ResourceUse, Scope};

/// A function that finds work of all tenants, or says how late it is.
struct Search {
    name: &'static str,
    /// Makes work of `acme` due, in the rows of [`isolation::fill`].
    due: &'static str,
    /// A query for the tenants with work that the function finds.
    found: &'static str,
}

const SEARCHES: &[Search] = &[
    Search {
        name: "unslide_alert_confirmations_due",
        due: "UPDATE alert_recipients SET ask_at = '2000-01-01'",
        found: "SELECT tenant FROM unslide_alert_confirmations_due(now(), 100)",
    },
    Search {
        name: "unslide_alerts_due",
        due: "UPDATE alert_rules SET next_evaluation_at = '2000-01-01'",
        found: "SELECT tenant FROM unslide_alerts_due(now(), 100)",
    },
    Search {
        name: "unslide_alerts_to_route",
        due: "UPDATE alert_events SET route_at = '2000-01-01'",
        found: "SELECT tenant FROM unslide_alerts_to_route(now(), 100)",
    },
    Search {
        name: "unslide_asks_pending",
        due: "UPDATE report_keys SET ask_pending = true",
        found: "SELECT tenant FROM unslide_asks_pending(100)",
    },
    Search {
        name: "unslide_audit_receivers_due",
        due: "UPDATE audit_receivers SET next_send_at = '2000-01-01'",
        found: "SELECT tenant FROM unslide_audit_receivers_due(now(), '', 100)",
    },
    Search {
        name: "unslide_audit_receivers_oldest",
        due: "",
        found: "SELECT 'acme' WHERE unslide_audit_receivers_oldest() IS NOT NULL",
    },
    Search { name: "unslide_bodies_pending", due: "", found: "SELECT tenant FROM unslide_bodies_pending()" },
    Search {
        name: "unslide_body_caps_due",
        due: "UPDATE body_cap_turns SET next_at = '2000-01-01'",
        found: "SELECT tenant FROM unslide_body_caps_due(now(), '', 100)",
    },
    Search {
        name: "unslide_capture_waits_missed",
        due: "DELETE FROM jobs; INSERT INTO symbol_slots (tenant, debug_id, generation, quality, updated_at) \
             SELECT tenant, debug_id, 9, 1, now() FROM capture_waits",
        found: "SELECT owner FROM unslide_capture_waits_missed('', md5('')::uuid, 100)",
    },
    Search {
        name: "unslide_condemned_due",
        due: "",
        found: "SELECT tenant FROM unslide_condemned_due('infinity', 'infinity', 100)",
    },
    Search {
        name: "unslide_crash_tellings",
        due: "UPDATE reports SET fatal = true, second_telling = true, run_id = md5('run')::uuid, same_crash_as \
             = NULL",
        found: "SELECT tenant FROM unslide_crash_tellings('2000-01-01', md5('')::uuid, 0, '2000-01-01', 7, 7, 100)",
    },
    Search {
        name: "unslide_dead_letters_requested",
        due: "UPDATE dead_letters SET status = 'requested'",
        found: "SELECT tenant FROM unslide_dead_letters_requested(100)",
    },
    Search {
        name: "unslide_deltas_due",
        due: "",
        found: "SELECT tenant FROM unslide_deltas_due(1, 'infinity', 100)",
    },
    Search {
        name: "unslide_held_regressions_due",
        due: "UPDATE held_regressions SET next_look_at = '2000-01-01'",
        found: "SELECT tenant FROM unslide_held_regressions_due(now(), '', 100)",
    },
    Search {
        name: "unslide_history_due",
        due: "",
        found: "SELECT tenant FROM unslide_history_due('infinity', 'infinity', 100)",
    },
    Search {
        name: "unslide_ignored_groups_due",
        due: "UPDATE groups SET ignored_until = '2000-01-01'",
        found: "SELECT tenant FROM unslide_ignored_groups_due(now(), 100)",
    },
    Search {
        name: "unslide_jobs_take",
        due: "UPDATE jobs SET run_at = '2000-01-01', status = 'queued'",
        found: "SELECT tenant FROM unslide_jobs_take('{wake}', '{}', 'worker', now(), 'infinity', 100)",
    },
    Search {
        name: "unslide_otlp_due",
        due: "UPDATE otlp_settings SET next_send_at = '2000-01-01', export_url = 'x'",
        found: "SELECT tenant FROM unslide_otlp_due(now(), 100)",
    },
    Search {
        name: "unslide_owners_due",
        due: "UPDATE owner_apps SET epoch = 9",
        found: "SELECT tenant FROM unslide_owners_due(now(), '', 100)",
    },
    Search {
        name: "unslide_parquet_oldest_due",
        due: "",
        found: "SELECT 'acme' WHERE unslide_parquet_oldest_due(0, 0) IS NOT NULL",
    },
    Search {
        name: "unslide_requests_overdue",
        due: "UPDATE report_keys SET requested_at = '2000-01-01'",
        found: "SELECT tenant FROM unslide_requests_overdue(now(), now(), now(), 100)",
    },
    Search {
        name: "unslide_retries_due",
        due: "UPDATE report_keys SET retry_at = '2000-01-01'",
        found: "SELECT tenant FROM unslide_retries_due(now(), 100)",
    },
    Search {
        name: "unslide_segments_abandon",
        due: "DELETE FROM condemned_objects; UPDATE segments SET state = 'intent'",
        found: "SELECT 'acme' WHERE unslide_segments_abandon('infinity', now()) > 0",
    },
    Search {
        name: "unslide_slack_due",
        due: "UPDATE slack_apps SET next_look_at = '2000-01-01'",
        found: "SELECT tenant FROM unslide_slack_due(now(), '', 100)",
    },
    Search {
        name: "unslide_stored_events_due",
        due: "UPDATE stored_event_turns SET next_send_at = '2000-01-01'",
        found: "SELECT tenant FROM unslide_stored_events_due(now(), '', 100)",
    },
    Search {
        name: "unslide_stored_events_oldest",
        due: "",
        found: "SELECT 'acme' WHERE unslide_stored_events_oldest() IS NOT NULL",
    },
    Search {
        name: "unslide_system_waits_missed",
        due: "DELETE FROM jobs; DELETE FROM system_wakes; UPDATE symbol_slots SET generation = 9, quality = 1",
        found: "SELECT owner FROM unslide_system_waits_missed('', md5('')::uuid, 100)",
    },
    Search {
        name: "unslide_system_waits_tenants",
        due: "",
        found: "SELECT tenant FROM unslide_system_waits_tenants(ARRAY(SELECT debug_id FROM system_waits), \
             ARRAY(SELECT 9::bigint FROM system_waits), '', 100)",
    },
    Search {
        name: "unslide_testflight_due",
        due: "UPDATE testflight_keys SET next_poll_at = '2000-01-01'",
        found: "SELECT tenant FROM unslide_testflight_due(now(), 100)",
    },
    Search {
        name: "unslide_ticket_tenants",
        due: "UPDATE trackers SET rule_reports = 1, next_look_at = '2000-01-01'",
        found: "SELECT tenant FROM unslide_ticket_tenants(now(), '', 100)",
    },
    Search {
        name: "unslide_uploader_files_due",
        due: "UPDATE uploader_files SET due_at = '2000-01-01'",
        found: "SELECT tenant FROM unslide_uploader_files_due(now(), 100)",
    },
    Search {
        name: "unslide_uploads_kept",
        due: "UPDATE uploads SET status = 'done', updated_at = '2000-01-01'",
        found: "SELECT tenant FROM unslide_uploads_kept(now(), now(), now(), 100)",
    },
    Search {
        name: "unslide_uploads_stuck",
        due: "UPDATE uploads SET updated_at = '2000-01-01'",
        found: "SELECT tenant FROM unslide_uploads_stuck(now(), 100)",
    },
    Search {
        name: "unslide_waits_missed",
        due: "DELETE FROM jobs; UPDATE symbol_slots SET generation = 9; UPDATE report_keys SET requested_at = \
             NULL",
        found: "SELECT owner FROM unslide_waits_missed('-infinity', 'infinity', '', md5('')::uuid, 100)",
    },
];

/// Leaves the job of a wake for system symbols open for a tenant with frozen rows.
const FINDS_FROZEN: &str = "unslide_system_waits_tenants";

/// The functions that need no such condition, with the reason.
const OTHERS: &[(&str, &[&str])] = &[
    (
        "it looks a row up by a secret or an id, for a request that the api refuses if the tenant is elsewhere",
        &[
            "unslide_alert_recipient",
            "unslide_console_principal",
            "unslide_dead_letter",
            "unslide_key_may_make",
            "unslide_key_owners",
            "unslide_made_keys",
            "unslide_mcp_principal",
            "unslide_signs_people_in",
        ],
    ),
    (
        "it is a figure or a list for operators",
        &[
            "unslide_dead_letters",
            "unslide_dead_letters_count",
            "unslide_dead_letters_oldest",
            "unslide_history_tenants",
            "unslide_jobs_counts",
            "unslide_jobs_stalled",
            "unslide_objects_undeleted",
            "unslide_outbox_aside",
            "unslide_resource_use_sums",
            "unslide_resource_uses",
            "unslide_store_failures",
            "unslide_stored_bytes",
            "unslide_tenant_figures",
            "unslide_tenants",
        ],
    ),
    (
        "it knows where tenants and their records are",
        &[
            "unslide_claim_tenant",
            "unslide_defer",
            "unslide_deferred_ranges",
            "unslide_is_moving",
            "unslide_located_ranges",
            "unslide_shorten_deferred",
            "unslide_stored_positions",
            "unslide_unknown_tenants",
            "unslide_watch_moving",
        ],
    ),
    (
        "the old cell ends this work itself: its messages, its rows at ClickHouse, its erasure",
        &[
            "unslide_erasures_due",
            "unslide_history_deletions_due",
            "unslide_history_moves_abandon",
            "unslide_outbox_sent",
            "unslide_outbox_set_aside",
            "unslide_outbox_take_back",
            "unslide_outbox_unsent",
        ],
    ),
    (
        "it is for rows or tables that both cells drop alike, or that belong to no tenant",
        &[
            "unslide_dead_letter_without_tenant",
            "unslide_history_versions_skip",
            "unslide_key_month_begin",
            "unslide_key_months_drop",
            "unslide_partitions_drop",
            "unslide_partitions_drop_empty",
            "unslide_partitions_ensure",
            "unslide_purge",
            "unslide_retention_longest",
        ],
    ),
    (
        "it reads settings or an index, and changes nothing",
        &["unslide_app_slots", "unslide_groups_like", "unslide_scrub_revisions"],
    ),
    (
        "it ends or begins what an operator or the transaction's tenant asked for, in one row",
        &["unslide_dead_letter_replay_ended", "unslide_dead_letter_replayed", "unslide_number_audit_entry"],
    ),
    (
        "it has a test of its own below or beside this one",
        &["unslide_add_resource_uses", "unslide_revoke_made_keys"],
    ),
];

/// A function that is new here finds work, so that it belongs into [`SEARCHES`], or it has a reason.
#[tokio::test]
async fn each_function_that_looks_across_tenants_has_a_search_or_a_reason() {
    let database = Database::new().await;
    let found = database
        .rows("SELECT proname::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prosecdef")
        .await;
    let found: BTreeSet<String> = found.iter().map(|row| sqlx::Row::get(row, 0)).collect();
    let others = OTHERS.iter().flat_map(|(_, names)| names.iter().copied());
    let listed: Vec<&str> = SEARCHES.iter().map(|search| search.name).chain(others).collect();
    let known: BTreeSet<String> = listed.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(known.len(), listed.len(), "one is listed twice");
    assert_eq!(found, known);
}

/// The places of `acme`, and whether it is elsewhere then.
const PLACES: [(&str, bool); 5] = [
    ("place = 'here'", false),
    ("place = 'leaving', frozen_until = clock_timestamp() + interval '1 hour'", true),
    ("place = 'leaving', frozen_until = clock_timestamp() - interval '1 hour'", false),
    ("place = 'moved', frozen_until = NULL, moved_to = 'east.'", true),
    ("place = 'arriving', moved_to = NULL", true),
];

/// Returns true if the search finds `acme`. What it changes is rolled back.
async fn finds_acme(owner: &mut PgConnection, search: &Search) -> bool {
    let query = format!("SELECT count(*) > 0 FROM ({}) f (tenant) WHERE tenant = 'acme'", search.found);
    let mut tx = owner.begin().await.unwrap();
    let found = sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(&mut *tx).await;
    tx.rollback().await.unwrap();
    found.unwrap_or_else(|error| panic!("{}: {error}", search.name))
}

#[tokio::test]
async fn no_search_for_work_finds_a_tenant_that_is_elsewhere() {
    let database = Database::new().await;
    isolation::fill(&database).await;
    let mut owner = PgConnection::connect(&database.url).await.unwrap();
    for search in SEARCHES {
        let mut tx = owner.begin().await.unwrap();
        sqlx::raw_sql(search.due)
            .execute(&mut *tx)
            .await
            .unwrap_or_else(|error| panic!("{}: {error}", search.name));
        for (place, is_elsewhere) in PLACES {
            let change = format!("UPDATE tenants SET {place} WHERE slug = 'acme'");
            sqlx::raw_sql(AssertSqlSafe(change)).execute(&mut *tx).await.unwrap();
            let is_left_out = is_elsewhere && !(search.name == FINDS_FROZEN && place.contains("leaving"));
            assert_eq!(finds_acme(&mut tx, search).await, !is_left_out, "{} with {place}", search.name);
        }
        tx.rollback().await.unwrap();
    }
    owner.close().await.unwrap();
}

async fn set_place(database: &Database, place: &str) {
    execute(database, &format!("UPDATE tenants SET {place} WHERE slug = 'acme'")).await;
}

/// A change that the move no longer copies would leave a key in force.
/// Proves: keys
#[tokio::test]
async fn a_key_is_not_revoked_with_its_maker_while_its_tenants_rows_are_frozen() {
    let database = Database::new().await;
    let new = NewApiKey { name: "x".into(), scopes: vec![Scope::Operator], app: None, expires_at: None };
    let mut tx = database.store.tenant(&tenant_id("umbrella")).await.unwrap();
    let (root, _) = keys::create_key(&mut tx, &new, &[1; 30]).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let (_, text) = keys::create_by(&mut tx, &new, &[2; 30], root.id).await.unwrap().unwrap();
    assert!(place::freeze_tenant(&mut tx, Duration::HOUR).await.unwrap());
    tx.commit().await.unwrap();
    let mut tx = database.store.tenant(&tenant_id("umbrella")).await.unwrap();
    let refused = keys::revoke_with_made(&mut tx, root.id, None, None, "test").await;
    assert!(matches!(refused, Err(StoreError::TenantMoving)), "{refused:?}");
    drop(tx);
    set_place(&database, "place = 'here', frozen_until = NULL").await;
    let mut tx = database.store.tenant(&tenant_id("umbrella")).await.unwrap();
    assert_eq!(keys::revoke_with_made(&mut tx, root.id, None, None, "test").await.unwrap(), Some(1));
    // A move that wants to freeze the rows waits for the end of the revocation.
    let mut mover = database.store.tenant(&acme()).await.unwrap();
    let moved = async {
        place::wait_for_writers(&mut mover).await.unwrap();
    };
    let committed = async {
        database.wait_for_lock().await;
        tx.commit().await.unwrap();
    };
    tokio::join!(moved, committed);
    mover.rollback().await.unwrap();
    assert_eq!(keys::authenticate(&database.store, text.reveal()).await.unwrap(), None);
}

#[tokio::test]
async fn what_is_used_for_a_tenant_that_is_elsewhere_counts_as_shared() {
    let database = Database::new().await;
    set_place(&database, "place = 'moved', moved_to = 'east.'").await;
    let used = ResourceUse { stored: 5, ..ResourceUse::default() };
    add_uses(database.store.clone(), [(Some(acme()), used)].into_iter().collect()).await.unwrap();
    let day = start().date();
    let filter = UsesFilter { from: day, to: day, tenant: None };
    let listed = list_daily_uses(&database.store, &filter, None, 10).await.unwrap();
    assert_eq!(listed.iter().map(|row| (&row.tenant, row.stored)).collect::<Vec<_>>(), [(&None, 5)]);
}
