//! Further arrivals of a report that the store has: an SDK or an operator sent it twice. Each is counted
//! once, by the input record that brought it, so that a replay of the log adds nothing.

use super::rows::truncate_name;
use super::{Arrival, ArrivalOutcome, StoredArrival};
use crate::number::to_row32;
use crate::{Result, TenantTx, json};
use serde_json::{Value, json};

/// Records arrivals that came from another record than their report's first. Revisions are no duplicates:
/// they have their report's origin.
pub(super) async fn record_duplicates(
    tx: &mut TenantTx,
    arrivals: &[&Arrival],
    stored: &[StoredArrival],
) -> Result<()> {
    let further = arrivals.iter().zip(stored).filter(|(arrival, stored)| {
        arrival.revision == 1
            && matches!(stored.outcome, ArrivalOutcome::Duplicate | ArrivalOutcome::Superseded)
    });
    let rows = further.filter_map(|(arrival, stored)| {
        let origin = arrival.origin.as_ref()?;
        Some(json!({
            "report_id": arrival.report_id.uuid(),
            "variant": to_row32(stored.variant),
            "origin_topic": truncate_name(&origin.topic),
            "origin_partition": origin.partition,
            "origin_offset": origin.offset,
            "origin_index": origin.index,
            "seen_at": json::format_time(arrival.received_at),
        }))
    });
    let rows: Vec<Value> = rows.collect();
    if rows.is_empty() {
        return Ok(());
    }
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO report_duplicates (tenant, report_id, variant, origin_topic, origin_partition, origin_offset,
                                        origin_index, seen_at, received_at)
         SELECT $1, d.report_id, d.variant, d.origin_topic, d.origin_partition, d.origin_offset, d.origin_index, d.seen_at,
                k.received_at
         FROM jsonb_populate_recordset(NULL::report_duplicates, $2) AS d
         JOIN report_keys k ON k.tenant = $1 AND k.report_id = d.report_id AND k.variant = d.variant
         WHERE k.deleted_at IS NULL AND k.origin_topic IS NOT NULL
           AND (k.origin_topic, k.origin_partition, k.origin_offset, k.origin_index)
               <> (d.origin_topic, d.origin_partition, d.origin_offset, d.origin_index)
         ORDER BY 1, 2, 3, 4, 5, 6, 7
         ON CONFLICT DO NOTHING",
        tenant,
        Value::Array(rows)
    )
    .execute(connection)
    .await?;
    Ok(())
}
