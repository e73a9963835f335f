//! Further arrivals of a report that the store has: an SDK sent it twice, or an operator did. Counted
//! once, and noted by the input record that brought each, so that a replay of the log notes nothing
//! new.

use super::rows::name;
use super::{Arrival, ArrivalOutcome, StoredArrival};
use crate::number::to_row32;
use crate::{Result, TenantTx, Uuid};
use time::OffsetDateTime;

/// Notes what came from another record than its report's first. Revisions are none: they have their
/// report's origin.
pub(super) async fn note(tx: &mut TenantTx, arrivals: &[&Arrival], stored: &[StoredArrival]) -> Result<()> {
    let further: Vec<_> = arrivals
        .iter()
        .zip(stored)
        .filter(|(arrival, stored)| {
            arrival.revision == 1
                && matches!(stored.outcome, ArrivalOutcome::Duplicate | ArrivalOutcome::Superseded)
        })
        .filter_map(|(arrival, stored)| Some((arrival, stored.variant, arrival.origin.as_ref()?)))
        .collect();
    if further.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = further.iter().map(|(arrival, ..)| arrival.report_id.uuid()).collect();
    let variants: Vec<i32> = further.iter().map(|(_, variant, _)| to_row32(*variant)).collect();
    let topics: Vec<String> = further.iter().map(|(.., origin)| name(&origin.topic)).collect();
    let partitions: Vec<i32> = further.iter().map(|(.., origin)| origin.partition).collect();
    let offsets: Vec<i64> = further.iter().map(|(.., origin)| origin.offset).collect();
    let indexes: Vec<i32> = further.iter().map(|(.., origin)| origin.index).collect();
    let times: Vec<OffsetDateTime> = further.iter().map(|(arrival, ..)| arrival.received_at).collect();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO report_duplicates (tenant, report_id, variant, origin_topic, origin_partition, origin_offset,
                                        origin_index, seen_at, received_at)
         SELECT $1, d.report_id, d.variant, d.topic, d.partition, d.at_offset, d.index, d.seen_at, k.received_at
         FROM unnest($2::uuid[], $3::integer[], $4::text[], $5::integer[], $6::bigint[], $7::integer[], $8::timestamptz[])
              AS d (report_id, variant, topic, partition, at_offset, index, seen_at)
         JOIN report_keys k ON k.tenant = $1 AND k.report_id = d.report_id AND k.variant = d.variant
         WHERE k.deleted_at IS NULL AND k.origin_topic IS NOT NULL
           AND (k.origin_topic, k.origin_partition, k.origin_offset, k.origin_index)
               <> (d.topic, d.partition, d.at_offset, d.index)
         ORDER BY 1, 2, 3, 4, 5, 6, 7
         ON CONFLICT DO NOTHING",
        tenant,
        &ids,
        &variants,
        &topics,
        &partitions,
        &offsets,
        &indexes,
        &times
    )
    .execute(connection)
    .await?;
    Ok(())
}
