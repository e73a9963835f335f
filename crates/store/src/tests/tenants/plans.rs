//! What a list costs does not tell what other tenants' rows say.

use crate::TenantTx;
use crate::queries::groups::{self, CountScope, GroupFilter, GroupOrder};
use crate::queries::reports::{self as listed, ReportFilter};
use crate::tests::database::{Database, acme, execute};
use sqlx::Row;
use std::collections::BTreeMap;

/// What all of the other tenant's rows say, and what no row says.
const THEIRS: &str = "zeppelin";
const NOBODYS: &str = "quagmire";

/// The partitions of days without reports.
const EMPTY: [&str; 4] = ["reports_20261117", "reports_20261118", "reports_20261119", "reports_20261121"];

/// Gives a tenant so many groups, each with a report, that say this word wherever a list can ask for one.
async fn fill(database: &Database, tenant: &str, count: u32, word: &str) {
    let id = "md5($t$tenant$t$ || n)::uuid".replace("$t$tenant$t$", &format!("'{tenant}'"));
    let at = "'2026-11-20 08:00:00+00'::timestamptz - n * interval '100 milliseconds'";
    let statements = format!(
        "INSERT INTO groups (tenant, id, app, fingerprint, kind, title, culprit, provisional, reports, first_seen,
             first_version, last_seen, last_version, own_reports, assignee)
         SELECT '{tenant}', {id}, '{word}', {id}, '{word}', '{word}', '{word}', false, 1, {at}, '{word}', {at}, '{word}', 1,
             '{word}' FROM generate_series(1, {count}) n;
         INSERT INTO group_terms (tenant, group_id, terms)
         SELECT '{tenant}', {id}, '{word}' || n FROM generate_series(1, {count}) n;
         INSERT INTO group_breakdowns (tenant, group_id, dimension, value, day, reports)
         SELECT '{tenant}', {id}, 'version', '{word}', '2026-11-20', 1 FROM generate_series(1, {count}) n;
         INSERT INTO reports (tenant, received_at, report_id, variant, revision, app, version, build, type, status,
             os_name, os_version, model, summary, frames_total, frames_symbolicated, frames_device, frames_device_app,
             frames_missing, symbols_missing, system_images, wanted, group_id, title, stored_at)
         SELECT '{tenant}', {at}, {id}, 0, 1, '{word}', '{word}', '{word}', '{word}', '{word}', '{word}', '{word}', '{word}',
             '{{}}', 1, 1, 0, 0, 0, false, '{{}}', '{{}}', {id}, '{word}', {at} FROM generate_series(1, {count}) n"
    );
    execute(database, &statements).await;
}

/// The scans of each table and the rows that they read, all of them and those by an index.
type Read = BTreeMap<String, [i64; 4]>;

/// What the connection has read so far, as far as it has not told the server yet.
async fn read_so_far(tx: &mut TenantTx) -> Read {
    let rows = sqlx::query(
        "SELECT relname::text, coalesce(seq_scan, 0), coalesce(seq_tup_read, 0), coalesce(idx_scan, 0),
             coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables",
    );
    let rows = rows.fetch_all(tx.parts().0).await.unwrap();
    rows.iter().map(|row| (row.get(0), [1, 2, 3, 4].map(|n| row.get(n)))).collect()
}

fn between(before: &Read, after: &Read) -> Read {
    let tables = after.iter().map(|(table, after)| {
        let before = before[table];
        (table.clone(), [0, 1, 2, 3].map(|n| after[n] - before[n]))
    });
    // Of a partition without rows it does not matter how nothing is read.
    tables.filter(|(table, read)| *read != [0; 4] && !EMPTY.contains(&table.as_str())).collect()
}

/// What a list of groups reads.
async fn groups_read(database: &Database, filter: &GroupFilter, order: GroupOrder) -> Read {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let before = read_so_far(&mut tx).await;
    assert_eq!(groups::list_groups(&mut tx, filter, order, None, 50).await.unwrap(), [], "{filter:?}");
    between(&before, &read_so_far(&mut tx).await)
}

/// What a list of reports and their number read.
async fn reports_read(database: &Database, filter: &ReportFilter) -> Read {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let before = read_so_far(&mut tx).await;
    assert_eq!(listed::list_reports(&mut tx, filter, None, 50).await.unwrap().reports, [], "{filter:?}");
    assert_eq!(listed::count_reports(&mut tx, filter).await.unwrap(), 0, "{filter:?}");
    between(&before, &read_so_far(&mut tx).await)
}

/// How many pages a search reads.
async fn pages_read(tx: &mut TenantTx, word: &str) -> u64 {
    let explain =
        "EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, SUMMARY off) SELECT unslide_groups_like($1, 100)";
    let plan = sqlx::query_scalar::<_, String>(explain).bind(format!("%{word}%"));
    let plan = plan.fetch_all(tx.parts().0).await.unwrap();
    // The first line with pages has those of the whole query, whether they were cached or not.
    let pages = plan.iter().find_map(|line| line.trim().strip_prefix("Buffers: shared ")).unwrap();
    pages
        .split(' ')
        .filter_map(|part| part.split_once('='))
        .map(|(_, count)| count.parse::<u64>().unwrap())
        .sum()
}

/// What a list is filtered by, and the filter for a word.
type FilterOf<F> = (&'static str, fn(&str) -> F);

/// Proves: isolation
#[tokio::test]
async fn a_word_of_another_tenant_costs_what_a_word_of_nobody_costs() {
    let database = Database::new().await;
    fill(&database, "umbrella", 200_000, THEIRS).await;
    fill(&database, "acme", 2_000, "own").await;
    execute(&database, "VACUUM ANALYZE").await;
    let by_group: [FilterOf<GroupFilter>; 7] = [
        ("text", |word| GroupFilter { text: Some(word.into()), ..GroupFilter::default() }),
        ("app", |word| GroupFilter { app: Some(word.into()), ..GroupFilter::default() }),
        ("new in", |word| GroupFilter { new_in: Some(word.into()), ..GroupFilter::default() }),
        ("kind", |word| GroupFilter { kind: Some(word.into()), ..GroupFilter::default() }),
        ("assignee", |word| GroupFilter { assignee: Some(word.into()), ..GroupFilter::default() }),
        ("culprit", |word| GroupFilter { culprit: Some(word.into()), ..GroupFilter::default() }),
        ("version", |word| {
            let scope = CountScope { version: Some(word.into()), ..CountScope::default() };
            GroupFilter { scope, ..GroupFilter::default() }
        }),
    ];
    for (name, filter) in by_group {
        for order in [GroupOrder::Reports, GroupOrder::LastSeen, GroupOrder::FirstSeen] {
            let [theirs, nobodys] = [THEIRS, NOBODYS].map(filter);
            let theirs = groups_read(&database, &theirs, order).await;
            assert_eq!(theirs, groups_read(&database, &nobodys, order).await, "groups by {name}, {order:?}");
        }
    }
    let by_report: [FilterOf<ReportFilter>; 8] = [
        ("text", |word| ReportFilter { text: Some(word.into()), ..ReportFilter::default() }),
        ("app", |word| ReportFilter { app: Some(word.into()), ..ReportFilter::default() }),
        ("version", |word| ReportFilter { version: Some(word.into()), ..ReportFilter::default() }),
        ("build", |word| ReportFilter { build: Some(word.into()), ..ReportFilter::default() }),
        ("type", |word| ReportFilter { kind: Some(word.into()), ..ReportFilter::default() }),
        ("status", |word| ReportFilter { status: Some(word.into()), ..ReportFilter::default() }),
        ("model", |word| ReportFilter { model: Some(word.into()), ..ReportFilter::default() }),
        ("system", |word| ReportFilter { os_version: Some(word.into()), ..ReportFilter::default() }),
    ];
    for (name, filter) in by_report {
        let [theirs, nobodys] = [THEIRS, NOBODYS].map(filter);
        let theirs = reports_read(&database, &theirs).await;
        assert_eq!(theirs, reports_read(&database, &nobodys).await, "reports by {name}");
    }
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    for (theirs, nobodys) in
        [(THEIRS, NOBODYS), ("eppeli", "uagmir"), ("z", "q"), ("zeppelin 1", "quagmire 1")]
    {
        // The first on a connection reads the catalogue as well.
        pages_read(&mut tx, theirs).await;
        assert_eq!(
            pages_read(&mut tx, theirs).await,
            pages_read(&mut tx, nobodys).await,
            "pages for {theirs}"
        );
    }
}
