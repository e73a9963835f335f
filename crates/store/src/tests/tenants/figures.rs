//! The figures of all tenants: what they count, their order, and what they read.

use crate::figures::{self, FigureOrder, TenantFigures};
use crate::keys::{self, NewApiKey};
use crate::tables::OwnedTable;
use crate::tenants::{self, QuotaLimits, TenantStanding};
use crate::tests::database::{Database, acme, arrival, execute, start, tenant_id};
use crate::{StoreHook, erasure, uploads, usage};
use sqlx::Row;
use time::Duration;
use unslide_model::{ContentHash, Scope, TenantId};

/// The limit on symbols of tenants without their own.
const DEFAULT_LIMIT: u64 = 10_000;

async fn list(database: &Database, order: FigureOrder) -> Vec<TenantFigures> {
    figures::list_figures(&database.store, order, DEFAULT_LIMIT, None, 100).await.unwrap()
}

async fn figures_of(database: &Database, slug: &str) -> TenantFigures {
    let all = list(database, FigureOrder::Reports).await;
    all.into_iter().find(|tenant| tenant.id.as_str() == slug).unwrap()
}

/// Sets how many reports a tenant had in an hour, which began so many hours before that of [`start`].
async fn count_hour(database: &Database, tenant: &str, hours_ago: i64, reports: i64) {
    let statement = format!(
        "INSERT INTO app_hours (tenant, app, version, hour, reports, fatal)
         VALUES ('{tenant}', 'shop', '1.0', '{}', {reports}, 0)",
        start() - Duration::hours(hours_ago)
    );
    execute(database, &statement).await;
}

#[tokio::test]
async fn figures_count_what_the_usage_of_each_tenant_counts() {
    let mut database = Database::new().await;
    let captures = OwnedTable { counted_bytes: Some("size"), ..OwnedTable::new("captures") };
    let hook = StoreHook::with_tables("captures", vec![captures].leak());
    database.store = database.store.clone().with_hooks(&[hook]);
    super::isolation::fill(&database).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let upload = uploads::create_upload(&mut tx, None, None).await.unwrap();
    assert!(uploads::record_received(&mut tx, upload, 40, &ContentHash([8; 32])).await.unwrap());
    for end in [-1, 1] {
        let expires_at = Some(database.clock_now() + Duration::hours(end));
        let new = NewApiKey { name: "ci".into(), scopes: vec![Scope::ReportsRead], app: None, expires_at };
        keys::create_key(&mut tx, &new, &[u8::try_from(end + 1).unwrap(); 30]).await.unwrap();
    }
    let used = usage::get(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    let figures = figures_of(&database, "acme").await;
    assert!(
        used.symbol_bytes > 1_000 && used.pending_bytes > 40,
        "slices, a capture and two uploads: {used:?}"
    );
    assert_eq!((figures.symbol_bytes, figures.pending_bytes), (used.symbol_bytes, used.pending_bytes));
    assert_eq!((figures.keys, figures.uploads_waiting, figures.deferred_records), (used.keys, 1, 3));
    assert_eq!((figures.symbol_limit_bytes, figures.limits), (DEFAULT_LIMIT, QuotaLimits::default()));
    let nothing = figures_of(&database, "umbrella").await;
    let counts = [nothing.reports_last_day, nothing.deferred_records, nothing.used_bytes(), nothing.keys];
    assert_eq!((counts, nothing.state), ([0; 4], TenantStanding::Active));
}

#[tokio::test]
async fn reports_are_those_of_the_last_hour_and_the_last_24_hours() {
    let database = Database::new().await;
    for (hours_ago, reports) in [(0, 5), (1, 100), (2, 1_000), (24, 10_000), (25, 100_000)] {
        count_hour(&database, "acme", hours_ago, reports).await;
    }
    let counted = async || {
        let figures = figures_of(&database, "acme").await;
        (figures.reports_last_hour, figures.reports_last_day)
    };
    assert_eq!(counted().await, (105, 11_105), "at the beginning of an hour");
    database.wait(Duration::minutes(45));
    assert_eq!(counted().await, (30, 3_605), "a quarter of the hours in which the periods begin");
    database.wait(Duration::minutes(15));
    assert_eq!(counted().await, (5, 1_105));
    database.wait(Duration::hours(25));
    assert_eq!(counted().await, (0, 0));
}

#[tokio::test]
async fn a_stored_report_is_counted_in_its_hour() {
    let database = Database::new().await;
    database.wait(Duration::minutes(5));
    database.store(&[arrival(1), arrival(2)]).await;
    assert_eq!(figures_of(&database, "acme").await.reports_last_hour, 2);
}

async fn order(database: &Database, order: FigureOrder) -> Vec<(String, u64)> {
    let found = list(database, order).await;
    found.into_iter().map(|tenant| (tenant.id.to_string(), tenant.rank)).collect()
}

/// A tenant with a limit of its own on symbols, and a capture of so many bytes.
async fn make(database: &Database, slug: &str, symbol_bytes: u64, stored: u64) -> TenantId {
    let tenant = tenant_id(slug);
    let mut tx = database.store.tenant(&tenant).await.unwrap();
    let limits = QuotaLimits { symbol_bytes, ..QuotaLimits::default() };
    tenants::create_tenant(&mut tx, slug, &limits).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    let statement = format!(
        "INSERT INTO objects (tenant, content_hash, name, arch, kind, size, status, created_at, updated_at)
         VALUES ('{slug}', decode(repeat('ab', 32), 'hex'), 'Shop', 'arm64', 'dsym', {stored}, 'ready', now(), now())"
    );
    execute(database, &statement).await;
    tenant
}

#[tokio::test]
async fn tenants_come_in_the_order_that_is_asked_for_and_in_pages() {
    let database = Database::new().await;
    make(&database, "large", 0, 9_000).await;
    make(&database, "small", 100, 150).await;
    make(&database, "endless", u64::MAX, 5_000).await;
    let deleted = make(&database, "deleted", 10, 9_999).await;
    let mut tx = database.store.tenant(&deleted).await.unwrap();
    erasure::begin_erasure(&mut tx).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    count_hour(&database, "umbrella", 0, 7).await;
    let mut batch = database.store.batch().await.unwrap();
    let range = crate::tests::kafka::deferred::range("small", 0, 5, 8);
    crate::deferred::extend_ranges(&mut batch, &[range]).await.unwrap();
    batch.commit().await.unwrap();
    let expected = |list: [(&str, u64); 5]| list.map(|(slug, rank)| (slug.to_owned(), rank));
    for (by, wanted) in [
        (FigureOrder::Reports, [("umbrella", 7), ("acme", 0), ("endless", 0), ("large", 0), ("small", 0)]),
        (FigureOrder::Deferred, [("small", 3), ("acme", 0), ("endless", 0), ("large", 0), ("umbrella", 0)]),
        (
            FigureOrder::Symbols,
            [("large", 9_000), ("endless", 5_000), ("small", 150), ("acme", 0), ("umbrella", 0)],
        ),
        (
            FigureOrder::Full,
            [("small", 1_500_000), ("large", 900_000), ("acme", 0), ("endless", 0), ("umbrella", 0)],
        ),
    ] {
        assert_eq!(order(&database, by).await, expected(wanted), "{by}");
        let (mut paged, mut after) = (Vec::new(), None);
        loop {
            let page =
                figures::list_figures(&database.store, by, DEFAULT_LIMIT, after.as_ref(), 2).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some((i64::try_from(last.rank).unwrap(), last.id.clone()));
            paged.extend(page.into_iter().map(|tenant| (tenant.id.to_string(), tenant.rank)));
        }
        assert_eq!(paged, expected(wanted), "{by} in pages");
    }
    let small = figures_of(&database, "small").await;
    assert!((small.symbol_share() - 1.5).abs() < f64::EPSILON);
}

/// What a table's rows cost a statement: scans of the whole table, and rows read.
async fn read(tx: &mut crate::TenantTx) -> Vec<(String, i64, i64)> {
    let rows = sqlx::query(
        "SELECT relname::text, coalesce(seq_scan, 0), coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)
         FROM pg_stat_xact_user_tables WHERE coalesce(seq_scan, 0) + coalesce(idx_scan, 0) > 0 ORDER BY 1",
    );
    let rows = rows.fetch_all(tx.parts().0).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

#[tokio::test]
async fn figures_read_no_reports_and_scan_no_large_table() {
    let database = Database::new().await;
    let fill = "
        INSERT INTO tenants (slug, name, created_at, updated_at)
        SELECT 'tenant-' || n, 'n', now(), now() FROM generate_series(1, 200) n;
        INSERT INTO objects (tenant, content_hash, name, arch, kind, size, status, created_at, updated_at)
        SELECT 'tenant-' || n % 200 + 1, decode(lpad(to_hex(n), 64, '0'), 'hex'), repeat('x', 200), 'arm64', 'dsym', 10,
               'ready', now(), now() FROM generate_series(1, 40000) n;
        INSERT INTO app_hours (tenant, app, version, hour, reports, fatal)
        SELECT 'tenant-' || n % 200 + 1, 'shop', '1.0', '2026-11-20 08:00:00+00'::timestamptz - n / 200 * interval '1 hour',
               1, 0 FROM generate_series(0, 66999) n;
        INSERT INTO uploads (id, tenant, status, size, created_at, updated_at)
        SELECT gen_random_uuid(), 'tenant-' || n % 200 + 1, CASE WHEN n < 400 THEN 'queued' ELSE 'done' END, 10, now(), now()
        FROM generate_series(1, 40000) n";
    execute(&database, fill).await;
    execute(&database, "VACUUM ANALYZE").await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let counted = sqlx::query(
        "SELECT count(*), sum(s.bytes)::bigint, sum(f.reports_last_day)::bigint
         FROM unslide_tenant_figures($1) f JOIN unslide_stored_bytes('{objects}', '{size}') s ON s.tenant = f.slug",
    );
    let counted = counted.bind(start()).fetch_one(tx.parts().0).await.unwrap();
    let counted: [i64; 3] = [0, 1, 2].map(|column| counted.get(column));
    assert_eq!(counted, [202, 400_000, 200 * 25], "a row for each tenant");
    let tables = read(&mut tx).await;
    for (table, scans, rows) in &tables {
        assert!(!table.starts_with("report"), "{table} is read");
        let is_large = ["objects", "app_hours", "uploads"].contains(&table.as_str());
        assert!(!is_large || *scans == 0, "{table}: {scans} scans");
        assert!(table != "app_hours" || *rows == 200 * 25, "of each tenant the last hours alone: {rows}");
    }
    assert!(tables.iter().any(|(table, ..)| table == "objects"), "{tables:?}");
}
