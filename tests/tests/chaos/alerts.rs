//! Alerts under faults: each message is sent at least once, under an id that stays the same.

use crate::load::{SUSPENDED, TENANTS};
use crate::world::World;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection, Row};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use unslide_tests::client::Client;

const TOPIC: &str = "crash.alerts";

/// Makes each tenant that stays active a rule whose receiver is the topic.
pub async fn make_rules(world: &Arc<World>) -> Result<(), String> {
    let rule = json!({"name": "new bugs", "condition": "new_group", "channel": "kafka"});
    for (tenant, _) in TENANTS.into_iter().filter(|(tenant, _)| *tenant != SUSPENDED) {
        let client = {
            let installation = world.installation.lock().await;
            let made = ["key", "create", "--tenant", tenant, "--scope", "tenant:admin"];
            let output = tokio::task::block_in_place(|| installation.command_succeeds(&made));
            let key = output.split_whitespace().find(|word| word.starts_with("unslide_")).expect("a key");
            Client::new(&installation.url, key)
        };
        let (status, answer) = client.post("/v1/alert-rules", rule.to_string().into_bytes()).await;
        if status != 201 {
            return Err(format!("the rule of {tenant} was answered with {status}: {answer}"));
        }
    }
    Ok(())
}

/// What is wrong with the alerts once everything has come to rest.
pub async fn problems(world: &Arc<World>) -> Result<Vec<String>, String> {
    let (url, topic) = {
        let installation = world.installation.lock().await;
        (installation.database_url(), installation.topic(TOPIC))
    };
    let error = |error: sqlx::Error| error.to_string();
    let mut database = PgConnection::connect(&url).await.map_err(error)?;
    let mut problems = Vec::new();
    let messages = "SELECT m.tenant, m.id::text, m.status, m.events FROM alert_messages m";
    let rows = sqlx::query(messages).fetch_all(&mut database).await.map_err(error)?;
    let told = {
        let installation = world.installation.lock().await;
        tokio::task::block_in_place(|| installation.topics.read_all(&topic))
    };
    let mut counts: BTreeMap<(String, String), BTreeSet<i64>> = BTreeMap::new();
    for record in &told {
        let header = |name: &str| record.headers.get(name).cloned().unwrap_or_default();
        let body: Value = serde_json::from_slice(&record.value).unwrap_or_default();
        let count = body["count"].as_i64().unwrap_or(-1);
        counts.entry((header("tenant"), header("idempotency-key"))).or_default().insert(count);
    }
    world.note(&format!("alerts: {} messages in {} records", rows.len(), told.len()));
    for row in rows {
        let (tenant, id, status, events): (String, String, String, i64) =
            (row.get(0), row.get(1), row.get(2), row.get(3));
        let sent = counts.remove(&(tenant.clone(), id.clone()));
        if status != "delivered" || sent != Some(BTreeSet::from([events])) {
            problems.push(format!(
                "the message {id} of {tenant} is {status}, with {events} events; sent: {sent:?}"
            ));
        }
    }
    problems.extend(counts.keys().map(|key| format!("the topic has a message {key:?} that nobody made")));
    if told.is_empty() {
        problems.push("nothing was told of any group".to_owned());
    }
    Ok(problems)
}
