//! Adds dead letters to the index.

use super::{DeadLetter, TopicOffset};
use crate::number::{from_row, to_row, to_row32};
use crate::tenants::TenantStanding;
use crate::{BatchTx, Result, place};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use time::format_description::well_known::Rfc3339;
use unslide_model::TenantId;

/// Longer details are cut.
const DETAIL_CHARS: usize = 2_000;

/// Cuts a text to `most` characters and to characters that PostgreSQL accepts.
fn cut(text: &str, most: usize) -> String {
    text.chars().filter(|c| *c != '\0').take(most).collect()
}

/// Cuts a detail to its longest.
pub(super) fn cut_detail(text: &str) -> String {
    cut(text, DETAIL_CHARS)
}

/// Returns the row as JSON, without its tenant.
fn row(letter: &DeadLetter) -> serde_json::Value {
    let place =
        |place: &Option<TopicOffset>| place.as_ref().map(|p| (cut(&p.topic, 300), p.partition, p.offset));
    let (origin, source) = (place(&letter.origin), place(&letter.source));
    json!({
        "topic_id": letter.id.topic_id,
        "partition": letter.id.partition,
        "at_offset": letter.id.offset,
        "topic": cut(&letter.topic, 300),
        "stage": letter.stage,
        "status": letter.status,
        "arrived_at": letter.arrived_at.format(&Rfc3339).ok(),
        "reason": cut(&letter.reason, 100),
        "detail": cut_detail(&letter.detail),
        "attempt": letter.attempt.map(to_row32),
        "origin_topic": origin.as_ref().map(|o| &o.0),
        "origin_partition": origin.as_ref().map(|o| o.1),
        "origin_offset": origin.as_ref().map(|o| o.2),
        "source_topic": source.as_ref().map(|o| &o.0),
        "source_partition": source.as_ref().map(|o| o.1),
        "source_offset": source.as_ref().map(|o| o.2),
        "source_index": letter.source_index.map(to_row32),
        "source_count": letter.source_count.map(to_row32),
        "value_bytes": letter.value_bytes.map(to_row),
        "replays": 0,
    })
}

/// Result of [`note`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotedLetters {
    /// The number of dead letters that were not recorded before.
    pub new: u64,
    /// The tenants that another cell may be serving: none of their dead letters is recorded here.
    pub elsewhere: BTreeSet<TenantId>,
}

/// Records dead letters. A dead letter of a tenant that does not exist is kept without a tenant; one of a deleted tenant leaves no
/// row. The transaction has to enter a tenant before it continues.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn note(tx: &mut BatchTx, letters: &[DeadLetter]) -> Result<NotedLetters> {
    let mut by_tenant: BTreeMap<Option<&TenantId>, Vec<&DeadLetter>> = BTreeMap::new();
    for letter in letters {
        by_tenant.entry(letter.tenant.as_ref()).or_default().push(letter);
    }
    let mut noted = NotedLetters::default();
    let mut without_tenant = by_tenant.remove(&None).unwrap_or_default();
    for (tenant, letters) in by_tenant {
        let Some(tenant) = tenant else { continue };
        let (own, handling) = place::enter_tenant(tx, tenant).await?;
        match handling {
            None => without_tenant.extend(letters),
            Some(handling) if handling.is_elsewhere() => drop(noted.elsewhere.insert(tenant.clone())),
            Some(handling) if handling.standing == TenantStanding::Deleted => {}
            Some(_) => {
                let rows: Vec<serde_json::Value> = letters.into_iter().map(row).collect();
                let (connection, tenant, _) = own.parts();
                let done = sqlx::query!(
                    "INSERT INTO dead_letters (topic_id, partition, at_offset, tenant, topic, stage, arrived_at, reason, \
                         detail, status, attempt, origin_topic, origin_partition, origin_offset, source_topic, source_partition, \
                         source_offset, source_index, source_count, value_bytes) \
                     SELECT l.topic_id, l.partition, l.at_offset, $1, l.topic, l.stage, l.arrived_at, l.reason, l.detail, \
                            l.status, l.attempt, \
                            l.origin_topic, l.origin_partition, l.origin_offset, l.source_topic, \
                            l.source_partition, l.source_offset, l.source_index, l.source_count, l.value_bytes \
                     FROM jsonb_populate_recordset(NULL::dead_letters, $2) l ON CONFLICT DO NOTHING",
                    tenant,
                    serde_json::Value::Array(rows)
                )
                .execute(connection)
                .await?;
                noted.new += done.rows_affected();
            }
        }
    }
    if !without_tenant.is_empty() {
        let rows: Vec<serde_json::Value> = without_tenant.into_iter().map(row).collect();
        let (connection, _) = tx.parts();
        let new = sqlx::query_scalar!(
            r#"SELECT count(*) FILTER (WHERE unslide_dead_letter_without_tenant(letter)) AS "noted!"
           FROM unnest($1::jsonb[]) AS letter"#,
            &rows
        )
        .fetch_one(connection)
        .await?;
        noted.new += from_row(new);
    }
    Ok(noted)
}
