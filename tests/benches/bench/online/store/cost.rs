//! What storing costs PostgreSQL: the log that it writes, pages that it reads, the time of each statement, and the bytes of the
//! rows.

use crate::online::database::run;
use sqlx::{Connection, PgConnection, Row};
use std::collections::BTreeMap;

/// Statements that are printed.
const STATEMENTS: usize = 8;
/// Tables below this many bytes a report are summed up.
const TABLE_BYTES: f64 = 5.0;

/// Counters since a checkpoint.
pub struct Meter {
    database: PgConnection,
    begun: [f64; 3],
    has_statements: bool,
}

/// What was counted.
pub struct Cost {
    /// Bytes of the write-ahead log.
    pub wal_bytes: f64,
    /// Whole pages in it.
    pub page_images: f64,
    /// Pages that were not in PostgreSQL's memory.
    pub pages_read: f64,
    /// Statements with their shares of the time and of the log.
    statements: Vec<(String, f64, f64)>,
}

impl Meter {
    /// Begins to count in a database, after a checkpoint: the first change of each page then writes it as a whole.
    pub async fn begin(url: &str) -> Meter {
        let mut database = PgConnection::connect(url).await.expect("PostgreSQL");
        let loaded = "SELECT current_setting('shared_preload_libraries') LIKE '%pg_stat_statements%'";
        let has_statements: bool =
            sqlx::query_scalar(loaded).fetch_one(&mut database).await.expect("an answer");
        if has_statements {
            run(&mut database, "CREATE SCHEMA IF NOT EXISTS bench").await;
            run(&mut database, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA bench").await;
            run(&mut database, "SELECT bench.pg_stat_statements_reset()").await;
        }
        run(&mut database, "CHECKPOINT").await;
        let begun = read_counters(&mut database).await;
        Meter { database, begun, has_statements }
    }

    /// Ends counting. The processes that stored have ended, because a connection tells what it did when it ends.
    pub async fn end(mut self) -> Cost {
        let now = read_counters(&mut self.database).await;
        let [wal_bytes, page_images, pages_read] = [0, 1, 2].map(|n| now[n] - self.begun[n]);
        let mut statements = Vec::new();
        if self.has_statements {
            let shares = "SELECT query, (total_exec_time / sum(total_exec_time) OVER ())::float8,
                    (wal_bytes / greatest(sum(wal_bytes) OVER (), 1))::float8
                FROM bench.pg_stat_statements
                WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
                ORDER BY total_exec_time DESC LIMIT $1";
            let rows = sqlx::query(shares).bind(STATEMENTS as i64).fetch_all(&mut self.database).await;
            let rows = rows.expect("an answer");
            statements = rows.iter().map(|row| (shorten(row.get(0)), row.get(1), row.get(2))).collect();
        }
        Cost { wal_bytes, page_images, pages_read, statements }
    }
}

impl Cost {
    /// Prints what a report cost.
    pub fn print(&self, reports: f64) {
        let [wal, images, read] =
            [self.wal_bytes, self.page_images, self.pages_read].map(|sum| sum / reports);
        println!("    a report: {wal:.0} bytes of WAL, {images:.2} full-page images, {read:.2} pages read");
        for (statement, time, wal) in &self.statements {
            println!(
                "      {:>3.0} % of the time, {:>3.0} % of the WAL  {statement}",
                time * 100.0,
                wal * 100.0
            );
        }
    }
}

/// WAL bytes, full-page images, and pages read.
async fn read_counters(database: &mut PgConnection) -> [f64; 3] {
    run(database, "SELECT pg_stat_force_next_flush()").await;
    let counters = "SELECT w.wal_bytes::float8, w.wal_fpi::float8, d.blks_read::float8
        FROM pg_stat_wal w, pg_stat_database d WHERE d.datname = current_database()";
    let row = sqlx::query(counters).fetch_one(database).await.expect("an answer");
    [0, 1, 2].map(|column| row.get(column))
}

/// The beginning of a statement on one line.
fn shorten(statement: &str) -> String {
    let line: String = statement.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(90).collect()
}

/// The bytes of each table and of its indexes; partitions count for their table.
pub async fn read_sizes(url: &str) -> BTreeMap<String, [f64; 2]> {
    let mut database = PgConnection::connect(url).await.expect("PostgreSQL");
    let sizes =
        "SELECT (SELECT relname FROM pg_class WHERE oid = coalesce(pg_partition_root(c.oid), c.oid))::text,
            sum(pg_table_size(c.oid))::float8, sum(pg_indexes_size(c.oid))::float8
        FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace GROUP BY 1";
    let rows = sqlx::query(sizes).fetch_all(&mut database).await.expect("an answer");
    rows.iter().map(|row| (row.get(0), [row.get(1), row.get(2)])).collect()
}

/// Prints the bytes of a report in each table. Returns their sum.
pub fn print_sizes(sizes: &BTreeMap<String, [f64; 2]>, reports: f64) -> f64 {
    let mut tables: Vec<_> =
        sizes.iter().map(|(name, [heap, index])| (name, heap / reports, index / reports)).collect();
    tables.sort_by(|a, b| (b.1 + b.2).total_cmp(&(a.1 + a.2)));
    let all: f64 = tables.iter().map(|(_, heap, index)| heap + index).sum();
    let (shown, others): (Vec<_>, Vec<_>) =
        tables.into_iter().partition(|(_, heap, index)| heap + index >= TABLE_BYTES);
    let texts = shown.iter().map(|(name, heap, index)| format!("{name} {heap:.0} + {index:.0}"));
    let others: f64 = others.iter().map(|(_, heap, index)| heap + index).sum();
    println!(
        "    bytes a report (rows + indexes): {}; all others {others:.0}: {all:.0}",
        texts.collect::<Vec<_>>().join(", ")
    );
    all
}
