//! Captures with symbols that came late.

use super::{CaptureId, analysis_work};
use time::Duration;
use unslide_store::jobs::{self, Work};
use unslide_store::sql::to_row;
use unslide_store::wakes::Arrived;
use unslide_store::{Result, TenantTx};

/// Delay of an analysis after the first symbols that came, so that one job sees what comes in between.
const ANALYSIS_DELAY: Duration = Duration::seconds(2);

/// Asks for a new analysis of up to `limit` captures that have not seen these symbols, of the tenant or of the
/// system. Returns their number; commit, and call again until it is 0.
pub async fn wake(tx: &mut TenantTx, arrived: &[Arrived], system: bool, limit: u32) -> Result<u64> {
    let debug_ids: Vec<_> = arrived.iter().map(|arrived| arrived.debug_id.uuid()).collect();
    let generations: Vec<i64> = arrived.iter().map(|arrived| to_row(arrived.generation)).collect();
    let (connection, tenant, _) = tx.parts();
    let woken = sqlx::query_scalar!(
        r#"WITH waiting AS (
             SELECT c.id FROM captures c
             WHERE c.tenant = $1 AND c.state <> 'queued' AND EXISTS (
                 SELECT FROM capture_waits w
                 JOIN unnest($2::uuid[], $3::bigint[]) AS n (debug_id, generation) ON n.debug_id = w.debug_id
                 WHERE w.tenant = $1 AND w.capture_id = c.id AND w.system = $4 AND w.seen_generation < n.generation)
             ORDER BY c.id LIMIT $5 FOR UPDATE)
         UPDATE captures c SET state = 'queued' FROM waiting w WHERE c.tenant = $1 AND c.id = w.id RETURNING c.id AS "id: CaptureId""#,
        tenant,
        &debug_ids,
        &generations,
        system,
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?;
    let works: Vec<Work> = woken.iter().map(|id| analysis_work(*id)).collect();
    jobs::add_all(tx, &works, ANALYSIS_DELAY).await?;
    Ok(woken.len() as u64)
}
