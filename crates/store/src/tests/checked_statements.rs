//! The descriptions of checked statements in `.sqlx`, from which the macros compile, against the migrated schema.

use crate::apply_migrations;
use serde_json::Value;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor, SqlSafeStr};
use std::path::Path;
use unslide_model::Secret;
use unslide_testkit::{databases, servers};

/// Returns true if the macros read every column that may be NULL as such. PostgreSQL's plan says which do, and a plan that
/// finds more of them may follow another day: only a description that calls such a column not null is wrong. A statement
/// may say itself what a column is, by a name such as `group_id?`.
fn reads_nulls(kept: &Value, described: &Value) -> bool {
    let columns = kept["columns"].as_array().into_iter().flatten();
    columns.enumerate().all(|(index, column)| {
        column["name"].as_str().is_some_and(|name| name.contains(['?', '!']))
            || kept["nullable"][index] != false
            || described["nullable"][index] != true
    })
}

/// Says what `sqlx prepare --check` says, without a compiler: a statement without a description does not compile.
#[tokio::test]
async fn every_description_is_what_the_database_says_of_the_statement() {
    let name = servers::unique("unslide-checked").replace('-', "_");
    let migrate = async |url| {
        apply_migrations(&Secret::new(url)).await.unwrap();
    };
    let url = databases::create(&name, "migrated", migrate).await;
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.sqlx");
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let kept: Value = serde_json::from_slice(&std::fs::read(entry.unwrap().path()).unwrap()).unwrap();
        let statement = kept["query"].as_str().unwrap();
        let described = connection.describe(AssertSqlSafe(statement.to_owned()).into_sql_str()).await;
        let described = described.map(|described| serde_json::to_value(&described).unwrap());
        let kept = &kept["describe"];
        match described {
            Ok(now)
                if ["columns", "parameters"].iter().all(|key| now[key] == kept[key])
                    && reads_nulls(kept, &now) => {}
            Ok(now) => wrong.push(format!("{statement}\n{now}")),
            Err(error) => wrong.push(format!("{statement}\n{error}")),
        }
    }
    connection.close().await.unwrap();
    databases::drop(&name).await;
    assert!(wrong.is_empty(), "run `make prepare`: these differ now\n{}", wrong.join("\n\n"));
}
