//! Makes a database with the schema of the migrations, for `scripts/prepare`. It uses no package with checked statements:
//! these compile only after `scripts/prepare` has described the statements.
//! Usage: migrated-database NAME MIGRATIONS      prints the URL
#![expect(clippy::print_stdout, reason = "a command-line tool talks on its output")]

use sqlx::migrate::Migrator;
use sqlx::{Connection, PgConnection};
use std::path::PathBuf;
use unslide_testkit::{databases, servers};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().expect("the name of the database");
    let migrations = PathBuf::from(arguments.next().expect("the folder of the migrations"));
    let server = servers::postgres();
    databases::execute(&server, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
    databases::execute(&server, &format!("CREATE DATABASE {name}")).await;
    let url = databases::url(&name);
    let mut connection = PgConnection::connect(&url).await.expect("PostgreSQL");
    let migrator = Migrator::new(migrations).await.expect("the migrations");
    migrator.run(&mut connection).await.expect("every migration applies");
    connection.close().await.expect("closed");
    println!("{url}");
}
