//! Requests: the debug ids that sources are asked for.
//!
//! An image that reports wait for has a row for each source. Its time is that of the next request: later after each answer that it is not
//! there. Rows of images that no report waits for any more, or that have symbols now, are left as they are.

use super::SourceRow;
use crate::schedule::{WAIT_PERIOD, pause_after};
use time::{Duration, OffsetDateTime};
use unslide_model::DebugId;
use unslide_store::sql::words;
use unslide_store::{Result, TenantTx, UploadId};

/// Rows of one tenant. Reports can name any debug ids, so that a sender could make more without an end.
const REQUESTS_LIMIT: i64 = 50_000;
/// New rows of one turn.
const NEW_REQUESTS_LIMIT: i64 = 1_000;
/// How long other sources are not asked for what one has: the time of its build.
const BUILD_PERIOD: Duration = Duration::hours(1);
/// How long a request waits whose file is read: longer if no answer is recorded.
const READ_PERIOD: Duration = Duration::minutes(20);

words! {
    /// The last answer to a request.
    pub enum RequestState {
        Waiting = "waiting",
        NotFound = "not_found",
        Found = "found",
        Refused = "refused",
    }
}

/// A request that is due.
#[derive(Clone, Debug)]
pub struct DueRequest {
    pub debug_id: DebugId,
    /// The name of the source.
    pub source: String,
    /// Number of answers to it so far.
    pub attempts: i32,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceReply {
    NotFound,
    /// The file became this upload.
    Found(UploadId),
    /// The file is not taken; a sentence says why.
    Refused(String),
}

/// Adds requests for images of the tenant's apps that reports wait for, to each source, the most recent ones first.
pub async fn add_requests(tx: &mut TenantTx) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO symbol_source_requests (tenant, debug_id, source, state, created_at, due_at)
         SELECT $1, w.debug_id, s.name, 'waiting', $2, $2
         FROM (SELECT i.debug_id, max(i.last_seen) AS last_seen FROM wanted_images i
               WHERE i.tenant = $1 AND NOT i.system GROUP BY i.debug_id) w
         LEFT JOIN symbol_slots o ON o.tenant = $1 AND o.debug_id = w.debug_id
         CROSS JOIN symbol_sources s
         WHERE s.tenant = $1 AND coalesce(o.quality, 0) < 2
           AND NOT EXISTS (SELECT FROM symbol_source_requests r
                           WHERE r.tenant = $1 AND r.debug_id = w.debug_id AND r.source = s.name)
         ORDER BY w.last_seen DESC, w.debug_id, s.name
         LIMIT least($3::bigint, greatest(0, $4 - (SELECT count(*) FROM symbol_source_requests WHERE tenant = $1)))
         ON CONFLICT DO NOTHING",
        tenant,
        now,
        NEW_REQUESTS_LIMIT,
        REQUESTS_LIMIT
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Lists requests that are due, to sources that may be asked: for images that reports wait for, without symbols of a dSYM, and that no
/// source has just had. After the first answer a report has to have come in the last days.
pub async fn list_due(tx: &mut TenantTx, limit: u32) -> Result<Vec<DueRequest>> {
    let (connection, tenant, now) = tx.parts();
    let rows = sqlx::query!(
        r#"WITH wanted AS MATERIALIZED (
               SELECT debug_id, max(last_seen) AS last_seen FROM wanted_images
               WHERE tenant = $1 AND NOT system GROUP BY debug_id)
           SELECT r.debug_id AS "debug_id!", r.source AS "source!", r.attempts AS "attempts!"
           FROM symbol_source_requests r
           JOIN symbol_sources s ON s.tenant = r.tenant AND s.name = r.source AND s.next_ask_at <= $2
           JOIN wanted w ON w.debug_id = r.debug_id
           LEFT JOIN symbol_slots o ON o.tenant = r.tenant AND o.debug_id = r.debug_id
           WHERE r.tenant = $1 AND r.due_at <= $2 AND coalesce(o.quality, 0) < 2
             AND (r.attempts = 0 OR greatest(w.last_seen, r.created_at) > $3)
             AND NOT EXISTS (SELECT FROM symbol_source_requests f
                             WHERE f.tenant = r.tenant AND f.debug_id = r.debug_id AND f.state = 'found' AND f.asked_at > $4)
           ORDER BY r.due_at, w.last_seen DESC, r.debug_id, r.source LIMIT $5"#,
        tenant,
        now,
        now - WAIT_PERIOD,
        now - BUILD_PERIOD,
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?;
    let due = rows.into_iter().map(|row| DueRequest {
        debug_id: DebugId::from_uuid(row.debug_id),
        source: row.source,
        attempts: row.attempts,
    });
    Ok(due.collect())
}

/// Returns the image of the tenant's apps that a report wanted last and that has no symbols of a dSYM.
pub async fn find_newest_missing(tx: &mut TenantTx) -> Result<Option<DebugId>> {
    let (connection, tenant, _) = tx.parts();
    let newest = sqlx::query_scalar!(
        "SELECT w.debug_id FROM wanted_images w
         LEFT JOIN symbol_slots o ON o.tenant = w.tenant AND o.debug_id = w.debug_id
         WHERE w.tenant = $1 AND NOT w.system AND coalesce(o.quality, 0) < 2
         ORDER BY w.last_seen DESC, w.debug_id LIMIT 1",
        tenant
    );
    Ok(newest.fetch_optional(connection).await?.map(DebugId::from_uuid))
}

/// Puts a request off while its file is read.
pub async fn hold_request(tx: &mut TenantTx, request: &DueRequest) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE symbol_source_requests SET due_at = $4 WHERE tenant = $1 AND debug_id = $2 AND source = $3",
        tenant,
        request.debug_id.uuid(),
        request.source,
        now + READ_PERIOD
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Records the answer to a request, unless the source was set again or removed since.
pub async fn record_answer(
    tx: &mut TenantTx,
    source: &SourceRow,
    request: &DueRequest,
    answer: &SourceReply,
) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    let (state, detail, upload) = match answer {
        SourceReply::NotFound => (RequestState::NotFound, None, None),
        SourceReply::Found(upload) => (RequestState::Found, None, Some(*upload)),
        SourceReply::Refused(detail) => (RequestState::Refused, Some(detail.as_str()), None),
    };
    let attempts = request.attempts.saturating_add(1);
    let recorded: Option<OffsetDateTime> = sqlx::query_scalar!(
        "UPDATE symbol_sources
         SET answered_at = $4, failures = 0, found_at = CASE WHEN $5 = 'found' THEN $4 ELSE found_at END,
             problem = CASE WHEN $6::text IS NOT NULL THEN $6 WHEN $5 = 'found' OR failures > 0 THEN NULL ELSE problem END
         WHERE tenant = $1 AND name = $2 AND changed_at = $3 RETURNING changed_at",
        tenant,
        source.name,
        source.changed_at,
        now,
        state.as_str(),
        detail
    )
    .fetch_optional(&mut *connection)
    .await?;
    if recorded.is_none() {
        return Ok(());
    }
    sqlx::query!(
        "UPDATE symbol_source_requests
         SET state = $4, detail = $5, upload_id = $6, attempts = $7, asked_at = $8, due_at = $9
         WHERE tenant = $1 AND debug_id = $2 AND source = $3",
        tenant,
        request.debug_id.uuid(),
        request.source,
        state.as_str(),
        detail,
        upload as Option<UploadId>,
        attempts,
        now,
        now + pause_after(attempts)
    )
    .execute(connection)
    .await?;
    Ok(())
}
