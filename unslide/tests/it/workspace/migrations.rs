//! The schema's history: a file of `migrations/` that has landed stays as it is.

use super::layering::top;
use regex::Regex;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt::Write;

fn hash_file(name: &str) -> Option<String> {
    let bytes = std::fs::read(top().join("migrations").join(name)).ok()?;
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        write!(text, "{byte:02x}").unwrap();
    }
    Some(text)
}

#[test]
fn a_landed_migration_stays_as_it_is_and_a_new_one_comes_last() {
    let list = std::fs::read_to_string(top().join("migrations/checksums")).unwrap();
    let listed: Vec<(&str, &str)> = list.lines().map(|line| line.split_once("  ").unwrap()).collect();
    assert!(listed.len() >= 26, "{list}");
    for (hash, name) in &listed {
        assert_eq!(
            hash_file(name).as_deref(),
            Some(*hash),
            "migrations/{name} was changed or removed: restore it, and add a new file"
        );
    }
    assert!(listed.is_sorted_by_key(|(_, name)| *name), "a new migration applies after all others: {list}");
    let names: BTreeSet<String> = listed.iter().map(|(_, name)| (*name).to_owned()).collect();
    let folder = std::fs::read_dir(top().join("migrations")).unwrap();
    let files = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files: BTreeSet<String> = files.filter(|name| name.ends_with(".sql")).collect();
    assert_eq!(files, names, "append the output of `sha256sum NAME` in migrations/ to migrations/checksums");
}

/// Tables that services use for each report, upload or request. A lock on one stops its writers; a second one in the same
/// transaction waits for those that already have a lock of their own.
const BUSY_TABLES: [&str; 15] = [
    "group_deltas",
    "groups",
    "jobs",
    "keys",
    "metric_payloads",
    "outbox",
    "persons",
    "report_bodies",
    "report_frames",
    "report_keys",
    "reports",
    "sessions",
    "tenants",
    "uploads",
    "waits",
];

/// Returns the objections to a migration after the base.
fn list_locks(sql: &str) -> Vec<String> {
    let alters = Regex::new(r"(?i)\b(?:ALTER|DROP)\s+TABLE\s+(?:IF\s+EXISTS\s+)?(?:ONLY\s+)?(\w+)").unwrap();
    let indexes =
        Regex::new(r"(?i)\bCREATE\s+(?:UNIQUE\s+)?INDEX\s+(CONCURRENTLY\s+)?[^;]*?\bON\s+(ONLY\s+)?(\w+)")
            .unwrap();
    let is_busy = |table: &str| BUSY_TABLES.contains(&table);
    let altered: BTreeSet<&str> =
        alters.captures_iter(sql).map(|found| found.get(1).unwrap().as_str()).collect();
    let altered: Vec<&str> = altered.into_iter().filter(|table| is_busy(table)).collect();
    let mut objections = Vec::new();
    if altered.len() > 1 {
        objections.push(format!("locks {}: one file for each", altered.join(" and ")));
    }
    for found in indexes.captures_iter(sql) {
        let table = found.get(3).unwrap().as_str();
        if is_busy(table) && found.get(1).is_none() && found.get(2).is_none() {
            objections.push(format!(
                "builds an index of {table} under a lock: CONCURRENTLY, or ON ONLY if it is partitioned"
            ));
        }
    }
    objections
}

#[test]
fn a_migration_locks_one_busy_table_and_builds_its_indexes_beside_writers() {
    for (sql, objections) in [
        ("ALTER TABLE tenants ADD COLUMN a text; CREATE INDEX x ON reports (a);", 1),
        ("ALTER TABLE tenants ADD COLUMN a text; ALTER TABLE ONLY sessions ADD COLUMN b text;", 1),
        ("CREATE INDEX x ON ONLY reports (a); ALTER TABLE people ADD COLUMN a text;", 0),
        ("-- no-transaction\nCREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS x ON jobs (id)", 0),
        ("CREATE TABLE new (a text); CREATE INDEX x ON new (a);", 0),
    ] {
        assert_eq!(list_locks(sql).len(), objections, "{sql}: {:?}", list_locks(sql));
    }
    let list = std::fs::read_to_string(top().join("migrations/checksums")).unwrap();
    for (_, name) in
        list.lines().filter_map(|line| line.split_once("  ")).filter(|(_, name)| !name.contains("_base_"))
    {
        let sql = std::fs::read_to_string(top().join("migrations").join(name)).unwrap();
        assert_eq!(list_locks(&sql), Vec::<String>::new(), "migrations/{name}");
    }
}
