//! Counts of sessions by app, version and hour.

use super::days::{SessionDelta, SessionHourKey, read_sketch};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use unslide_model::DistinctSketch;
use unslide_store::sql::{json_bytes, json_time};
use unslide_store::{Result, TenantTx};

/// Adds to the counts, in the order of their keys.
pub async fn add(tx: &mut TenantTx, deltas: &BTreeMap<SessionHourKey, SessionDelta>) -> Result<()> {
    if deltas.is_empty() {
        return Ok(());
    }
    let rows = deltas.iter().map(|(key, delta)| delta.add_columns(key_columns(key)));
    let (connection, tenant, _) = tx.parts();
    // Locks the rows and returns their sketches; those of a new row are empty.
    let rows = sqlx::query!(
        r#"INSERT INTO session_hour_counts AS h (tenant, app, hour, version, sessions, crashed, out_of_memory, unexplained,
                                           background_memory, squares, users, crashed_users)
           SELECT $1, n.app, n.hour, n.version, n.sessions, n.crashed, n.out_of_memory, n.unexplained,
                  n.background_memory, n.squares, $3, $3
           FROM jsonb_populate_recordset(NULL::session_hour_counts, $2) AS n
           ORDER BY n.app COLLATE "C", n.hour, n.version COLLATE "C"
           ON CONFLICT (tenant, app, hour, version) DO UPDATE
           SET sessions = h.sessions + EXCLUDED.sessions, crashed = h.crashed + EXCLUDED.crashed,
               out_of_memory = h.out_of_memory + EXCLUDED.out_of_memory,
               unexplained = h.unexplained + EXCLUDED.unexplained,
               background_memory = h.background_memory + EXCLUDED.background_memory,
               squares = h.squares + EXCLUDED.squares
           RETURNING app, hour, version, users, crashed_users"#,
        tenant,
        rows.collect::<Value>(),
        DistinctSketch::default().to_bytes()
    )
    .fetch_all(connection)
    .await?;
    let mut changed = Vec::new();
    for row in rows {
        let key = (row.app, row.hour, row.version);
        let Some(delta) = deltas.get(&key) else { continue };
        let known = [read_sketch(&row.users)?, read_sketch(&row.crashed_users)?];
        let mut merged = known.clone();
        for (whole, added) in merged.iter_mut().zip(delta.users()) {
            whole.merge(added);
        }
        if merged != known {
            let mut columns = key_columns(&key);
            columns["users"] = json_bytes(&merged[0].to_bytes()).into();
            columns["crashed_users"] = json_bytes(&merged[1].to_bytes()).into();
            changed.push(columns);
        }
    }
    write_sketches(tx, changed).await
}

async fn write_sketches(tx: &mut TenantTx, changed: Vec<Value>) -> Result<()> {
    if changed.is_empty() {
        return Ok(());
    }
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE session_hour_counts h SET users = n.users, crashed_users = n.crashed_users
         FROM jsonb_populate_recordset(NULL::session_hour_counts, $2) AS n
         WHERE h.tenant = $1 AND h.app = n.app AND h.hour = n.hour AND h.version = n.version",
        tenant,
        Value::Array(changed)
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns the columns of a row's key, without its tenant.
fn key_columns(key: &SessionHourKey) -> Value {
    let (app, hour, version) = key;
    json!({"app": app, "hour": json_time(*hour), "version": version})
}
