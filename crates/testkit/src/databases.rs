//! Databases on the PostgreSQL that tests share, one for each test.

use crate::fixtures::Fnv;
use crate::servers;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use std::path::Path;
use std::time::Duration;

/// The advisory lock of the process that makes the template.
const TEMPLATE_LOCK: i64 = 0x756e_736c_6964_6574;

/// The SQLSTATE of `CREATE DATABASE` if its template does not exist.
const MISSING_TEMPLATE: &str = "3D000";

/// The URL of another database on the server.
#[must_use]
pub fn url(database: &str) -> String {
    let server = servers::postgres();
    format!("{}/{database}", server.rsplit_once('/').map_or(server.as_str(), |(server, _)| server))
}

/// Runs statements in the database of a URL.
///
/// # Panics
/// If one fails.
pub async fn execute(url: &str, statements: &str) {
    let mut connection = PgConnection::connect(url).await.expect("PostgreSQL");
    sqlx::raw_sql(AssertSqlSafe(statements.to_owned())).execute(&mut connection).await.expect(statements);
    connection.close().await.expect("closed");
}

/// Makes a database with the schema of the migrations; its URL. It is a copy, which takes a fraction of the time of the
/// migrations: `fill` gets the URL of the one that is copied, once for each state of the migrations and each `kind`, a word of what
/// else `fill` makes.
///
/// # Panics
/// If PostgreSQL or `fill` fails.
pub async fn create(name: &str, kind: &str, fill: impl AsyncFnOnce(String)) -> String {
    let mut key = Fnv::new();
    key.folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations"));
    let template = format!("unslide_template_{:016x}_{kind}", key.0);
    // Through the log it takes twice the CPU time.
    let copy = format!("CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy");
    // One connection for all: each costs PostgreSQL a process, and a test program runs for one test.
    let mut server = PgConnection::connect(&servers::postgres()).await.expect("PostgreSQL");
    let copied = sqlx::raw_sql(AssertSqlSafe(copy.clone())).execute(&mut server).await;
    if let Err(error) = copied {
        let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
        assert_eq!(code.as_deref(), Some(MISSING_TEMPLATE), "{error}");
        make_template(&mut server, &template, fill).await;
        sqlx::raw_sql(AssertSqlSafe(copy)).execute(&mut server).await.expect("a copy");
    }
    server.close().await.expect("closed");
    url(name)
}

/// Makes a template, unless another process has just made it.
async fn make_template(server: &mut PgConnection, name: &str, fill: impl AsyncFnOnce(String)) {
    let unfinished = format!("unfinished_{name}");
    let lock = sqlx::query("SELECT pg_advisory_lock($1)").bind(TEMPLATE_LOCK);
    lock.execute(&mut *server).await.expect("a lock");
    let found = sqlx::query("SELECT FROM pg_database WHERE datname = $1").bind(name);
    if found.fetch_optional(&mut *server).await.expect("databases").is_none() {
        for statement in ["DROP DATABASE IF EXISTS", "CREATE DATABASE"] {
            let statement = AssertSqlSafe(format!("{statement} {unfinished}"));
            sqlx::query(statement).execute(&mut *server).await.expect("a database");
        }
        fill(url(&unfinished)).await;
        // Leaves the file that a connection to a copy reads its catalogues from.
        execute(&url(&unfinished), "SELECT").await;
        until_unused(server, &unfinished).await;
        let rename = AssertSqlSafe(format!("ALTER DATABASE {unfinished} RENAME TO {name}"));
        sqlx::query(rename).execute(&mut *server).await.expect("renamed");
    }
    let unlock = sqlx::query("SELECT pg_advisory_unlock($1)").bind(TEMPLATE_LOCK);
    unlock.execute(server).await.expect("unlocked");
}

/// Drops a database. Waits for connections that are ending.
///
/// # Panics
/// If a client keeps one open.
pub async fn drop(name: &str) {
    let mut server = PgConnection::connect(&servers::postgres()).await.expect("PostgreSQL");
    until_unused(&mut server, name).await;
    let statement = AssertSqlSafe(format!("DROP DATABASE {name}"));
    sqlx::query(statement).execute(&mut server).await.expect("dropped");
    server.close().await.expect("closed");
}

async fn until_unused(server: &mut PgConnection, name: &str) {
    let open = "SELECT concat_ws(' ', application_name, state, query) FROM pg_stat_activity
                WHERE datname = $1 AND backend_type = 'client backend'";
    let mut left = Vec::<String>::new();
    for _ in 0..15_000 {
        left = sqlx::query_scalar(open).bind(name).fetch_all(&mut *server).await.expect(open);
        if left.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("connections to {name} are open: {left:?}");
}
