//! Statements by which benchmarks fill a database: several at once, and the indexes of a table when it is full.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::task::JoinSet;

/// Runs a statement.
///
/// # Panics
/// If it fails.
pub async fn run(database: &mut PgConnection, statement: &str) {
    let done = database.execute(AssertSqlSafe(statement.to_owned())).await;
    done.unwrap_or_else(|error| panic!("{error}: {statement}"));
}

/// Runs scripts, as many at once as there are cores, each in a transaction of its own: what fills a table that it made needs no
/// log.
///
/// # Panics
/// If one fails.
pub async fn run_scripts(url: &str, scripts: Vec<String>) {
    let (next, scripts) = (Arc::new(AtomicUsize::new(0)), Arc::new(scripts));
    let mut workers = JoinSet::new();
    for _ in 0..std::thread::available_parallelism().map_or(2, usize::from).min(8) {
        let (url, next, scripts) = (url.to_owned(), Arc::clone(&next), Arc::clone(&scripts));
        workers.spawn(async move {
            let mut database = PgConnection::connect(&url).await.expect("PostgreSQL");
            let settings = "SET timezone = 'UTC'; SET work_mem = '256MB'; SET maintenance_work_mem = '256MB'; \
                 SET max_parallel_workers_per_gather = 0; SET max_parallel_maintenance_workers = 0; \
                 SET session_replication_role = replica";
            sqlx::raw_sql(settings).execute(&mut database).await.expect("set");
            while let Some(script) = scripts.get(next.fetch_add(1, Ordering::Relaxed)) {
                let done = sqlx::raw_sql(AssertSqlSafe(script.clone())).execute(&mut database).await;
                done.unwrap_or_else(|error| panic!("{error}: {script}"));
            }
        });
    }
    while let Some(ended) = workers.join_next().await {
        ended.expect("the scripts end");
    }
}

/// The keys and indexes of a table.
pub struct Indexes {
    table: String,
    /// Names and definitions.
    constraints: Vec<(String, String)>,
    indexes: Vec<(String, String)>,
}

impl Indexes {
    /// Reads the definitions from the catalogue.
    pub async fn read(database: &mut PgConnection, table: &str) -> Indexes {
        let constraints = "SELECT conname::text, pg_get_constraintdef(oid) FROM pg_constraint
             WHERE conrelid = $1::text::regclass AND contype IN ('p', 'u') ORDER BY conname";
        let indexes =
            "SELECT c.relname::text, substring(pg_get_indexdef(c.oid) FROM ' USING .*') FROM pg_index i
             JOIN pg_class c ON c.oid = i.indexrelid
             WHERE i.indrelid = $1::text::regclass AND NOT i.indisunique ORDER BY c.relname";
        let mut read = async |question: &'static str| -> Vec<(String, String)> {
            let rows = sqlx::query(question).bind(table).fetch_all(&mut *database).await.expect("an answer");
            rows.iter().map(|row| (row.get(0), row.get(1))).collect()
        };
        let (constraints, indexes) = (read(constraints).await, read(indexes).await);
        Indexes { table: table.to_owned(), constraints, indexes }
    }

    /// Drops them.
    pub async fn drop(&self, database: &mut PgConnection) {
        for (name, _) in &self.constraints {
            run(database, &format!("ALTER TABLE {} DROP CONSTRAINT {name}", self.table)).await;
        }
        for (name, _) in &self.indexes {
            run(database, &format!("DROP INDEX {name}")).await;
        }
    }

    /// Returns the statements that make them again.
    pub fn statements(&self) -> Vec<String> {
        let table = &self.table;
        let constraints = self.constraints.iter();
        let constraints =
            constraints.map(|(name, is)| format!("ALTER TABLE {table} ADD CONSTRAINT {name} {is}"));
        let indexes = self.indexes.iter().map(|(name, is)| format!("CREATE INDEX {name} ON {table}{is}"));
        constraints.chain(indexes).collect()
    }

    /// Returns the statements that make the same for a partition.
    pub fn of_partition(&self, partition: &str) -> Vec<String> {
        let constraints = self.constraints.iter().map(|(_, is)| format!("ALTER TABLE {partition} ADD {is}"));
        let indexes = self.indexes.iter().map(|(_, is)| format!("CREATE INDEX ON {partition}{is}"));
        constraints.chain(indexes).collect()
    }
}
