//! The look-ups of images, for lists of missing symbols and explanations.

use super::requests::RequestState;
use unslide_model::DebugId;
use unslide_store::symbol_lookups::{LookupOutcome, SymbolLookup};
use unslide_store::{Result, TenantTx};

/// Adds the look-ups of these debug ids by the tenant's sources, ordered by name.
pub async fn add_lookups(
    tx: &mut TenantTx,
    debug_ids: &[DebugId],
    lookups: &mut Vec<SymbolLookup>,
) -> Result<()> {
    let ids: Vec<_> = debug_ids.iter().map(|id| id.uuid()).collect();
    let (connection, tenant, now) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT r.debug_id, r.source, r.state AS "state: RequestState", r.detail, r.asked_at, r.due_at, s.next_ask_at, s.problem, s.failures
           FROM symbol_source_requests r
           JOIN symbol_sources s ON s.tenant = r.tenant AND s.name = r.source
           WHERE r.tenant = $1 AND r.debug_id = ANY ($2)
           ORDER BY r.source, r.debug_id"#,
        tenant,
        &ids
    )
    .fetch_all(connection)
    .await?;
    lookups.extend(rows.into_iter().map(|row| {
        // A request that is due waits for its source to answer again.
        let has_failed = row.failures > 0 && row.due_at <= now;
        let (outcome, detail) = match row.state {
            RequestState::Found => (LookupOutcome::Found, None),
            _ if has_failed => (LookupOutcome::Failed, row.problem),
            RequestState::Refused => (LookupOutcome::Refused, row.detail),
            RequestState::NotFound => (LookupOutcome::NotFound, None),
            RequestState::Waiting => (LookupOutcome::Waiting, None),
        };
        let again_at = row.due_at.max(row.next_ask_at);
        SymbolLookup {
            debug_id: DebugId::from_uuid(row.debug_id),
            source: row.source,
            outcome,
            detail,
            asked_at: row.asked_at,
            again_at: (outcome != LookupOutcome::Found && again_at > now).then_some(again_at),
        }
    }));
    Ok(())
}
