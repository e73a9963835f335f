//! Outcomes and retention of the events that gateways send, of every kind.

use crate::{Result, TenantTx};
use time::{Date, OffsetDateTime};
use unslide_signals::event::{GatewayEvent, is_late};

unslide_model::words! {
    /// The outcome of storing an event.
    pub enum EventOutcome {
        /// It is the first one with its id.
        New = "new",
        /// It states how or when a known session ended.
        Completed = "completed",
        /// It states nothing new: nothing was done.
        Duplicate = "duplicate",
        /// The tenant was deleted: nothing was done.
        Deleted = "deleted",
        /// It is of a day before the kept days, or arrived too long after it: nothing was done.
        Expired = "expired",
        /// The app's events of this kind are switched off: nothing was done.
        SwitchedOff = "switched_off",
        /// It is not in the sample that the app keeps: nothing was done.
        SampledOut = "sampled_out",
    }
}

/// Returns true if an event is too old to count: it is of a day before `keep_from`, or too long before it
/// arrived.
#[must_use]
pub fn is_too_old<E: GatewayEvent>(event: &E, received_at: OffsetDateTime, keep_from: Date) -> bool {
    event.day() < keep_from || is_late(event, received_at)
}

/// Deletes sessions and metric payloads of the transaction's tenant that are of a day before `before`, at
/// most `limit` of each; returns their number. Their counts stay. Days that no tenant keeps go with their
/// tables (see [`crate::partitions::drop_before`]).
pub async fn expire(tx: &mut TenantTx, before: Date, limit: u32) -> Result<u64> {
    let (connection, tenant, _) = tx.parts();
    let gone = sqlx::query_scalar!(
        r#"WITH old_sessions AS (
               DELETE FROM sessions WHERE tenant = $1 AND day < $2 AND (app, session_id, day) IN (
                   SELECT app, session_id, day FROM sessions WHERE tenant = $1 AND day < $2 LIMIT $3)
               RETURNING 1),
           old_payloads AS (
               DELETE FROM metric_payloads WHERE tenant = $1 AND day < $2 AND (app, payload_id, day) IN (
                   SELECT app, payload_id, day FROM metric_payloads WHERE tenant = $1 AND day < $2 LIMIT $3)
               RETURNING 1)
           SELECT (SELECT count(*) FROM old_sessions) + (SELECT count(*) FROM old_payloads) AS "gone!""#,
        tenant,
        before,
        i64::from(limit)
    )
    .fetch_one(connection)
    .await?;
    Ok(gone.unsigned_abs())
}
