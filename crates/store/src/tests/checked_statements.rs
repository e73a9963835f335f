//! The descriptions of checked statements in `.sqlx`, from which the macros compile, against the migrated schema.

use crate::apply_migrations;
use serde_json::Value;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor, SqlSafeStr};
use std::path::Path;
use unslide_model::Secret;
use unslide_testkit::{databases, servers};

/// Says what `sqlx prepare --check` says, without a compiler: a statement without a description does not compile.
#[tokio::test]
async fn every_description_is_what_the_database_says_of_the_statement() {
    let name = servers::unique("unslide-checked").replace('-', "_");
    let migrate = async |url| {
        apply_migrations(&Secret::new(url)).await.unwrap();
    };
    let url = databases::create(&name, migrate).await;
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.sqlx");
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let kept: Value = serde_json::from_slice(&std::fs::read(entry.unwrap().path()).unwrap()).unwrap();
        let statement = kept["query"].as_str().unwrap();
        match connection.describe(AssertSqlSafe(statement.to_owned()).into_sql_str()).await {
            Ok(described) if serde_json::to_value(&described).unwrap() == kept["describe"] => {}
            Ok(described) => {
                wrong.push(format!("{statement}\n{}", serde_json::to_string(&described).unwrap()));
            }
            Err(error) => wrong.push(format!("{statement}\n{error}")),
        }
    }
    connection.close().await.unwrap();
    databases::drop(&name).await;
    assert!(wrong.is_empty(), "run `make prepare`: these differ now\n{}", wrong.join("\n\n"));
}
