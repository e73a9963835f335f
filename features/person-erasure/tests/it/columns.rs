//! Every column that could name a person is known here: a table or column that comes later is not forgotten.

use crate::person_erasure::erasure_fixture::database;
use sqlx::Row;
use std::collections::BTreeSet;
use unslide_captures::store::CAPTURE_HOOK;
use unslide_health::store::HEALTH_HOOK;
use unslide_store::tables::CORE_TABLES;

/// Returns the columns by which data of a person is found, or that go with such rows.
fn list_erased() -> BTreeSet<String> {
    let of_features = [HEALTH_HOOK, CAPTURE_HOOK].into_iter().flat_map(|hook| hook.tables);
    let tables = CORE_TABLES.iter().chain(of_features);
    let columns = tables.flat_map(|table| {
        let columns = [table.session, table.user, table.installation].into_iter().flatten();
        columns.map(move |column| format!("{}.{column}", table.name))
    });
    columns.collect()
}

/// Columns with such a name that stay, with the reason.
const KEPT: &[(&str, &str)] = &[
    ("alert_events.group_devices", "a count"),
    ("app_days.devices", "a count"),
    ("audit_log.actor", "who works with the service, not who uses an app"),
    ("erased_persons.person_hash", "a keyed hash, which keeps older data away"),
    ("group_activity.actor", "who works with the service"),
    ("group_breakdowns.devices", "a sketch: it names no device"),
    ("group_days.devices", "a sketch"),
    ("groups.devices", "a count"),
    ("groups.ignored_until_devices", "a limit"),
    ("groups.own_devices", "a count"),
    ("person_erasures.person_hash", "the keyed hash"),
    ("person_erasures.person_id", "the id, until the erasure is done"),
    ("reports.device_time", "when the device says that it crashed"),
    ("reprocesses.actor", "who works with the service"),
    ("session_days.crashed_installations", "a sketch"),
    ("session_days.crashed_users", "a sketch"),
    ("session_days.installations", "a sketch"),
    ("session_days.sessions", "a count"),
    ("session_days.users", "a sketch"),
    ("session_hour_counts.crashed_users", "a sketch"),
    ("session_hour_counts.sessions", "a count"),
    ("session_hour_counts.users", "a sketch"),
    ("memory_exceptions.device", "a model of devices"),
    ("memory_exceptions.names_session", "whether the report names its session"),
    ("memory_exceptions.session_day", "the day of the session that it is joined with"),
    ("metric_payloads.device", "a model of devices"),
    ("sessions.device", "a model of devices"),
    ("scim_members.user_id", "who works with the service"),
    ("scim_users.user_name", "who works with the service, until the identity provider deletes them"),
    ("console_sessions.provider_session", "who works with the service, while signed in"),
    ("slack_actions.slack_user", "who works with the service, for seven days"),
    ("slack_actions.user_name", "who works with the service, for seven days"),
    ("slack_people.slack_user", "who works with the service, for 30 days"),
    ("slack_links.slack_user", "who works with the service, for 15 minutes"),
    ("slack_links.user_name", "who works with the service, for 15 minutes"),
    ("sign_in_providers.session_hours", "a setting of the console's sessions"),
];

/// Parts of names of columns that may tell persons apart.
const NAMES: &str = "user|device|install|session|run_id|person|actor|email|address_of|phone|ip_";

/// Proves: deletion
#[tokio::test]
async fn every_column_that_may_name_a_person_is_erased_or_kept_for_a_reason() {
    let database = database().await;
    let rows = database
        .rows(&format!(
            "SELECT DISTINCT c.relname || '.' || a.attname FROM pg_class c
             JOIN pg_attribute a ON a.attrelid = c.oid
             JOIN pg_attribute t ON t.attrelid = c.oid AND t.attname = 'tenant'
             WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
               AND a.attnum > 0 AND NOT a.attisdropped AND a.attname ~ '({NAMES})' AND a.attname !~ '^frames_'"
        ))
        .await;
    let found: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
    let mut known = list_erased();
    known.extend(KEPT.iter().map(|(name, _)| (*name).to_owned()));
    let unknown: Vec<&String> = found.difference(&known).collect();
    assert!(
        unknown.is_empty(),
        "{unknown:?} may name a person: declare it in the `OwnedTable`, or name it in KEPT with the reason"
    );
    let gone: Vec<&String> = known.difference(&found).collect();
    assert!(gone.is_empty(), "{gone:?} do not exist any more");
}
