//! Sessions and metric payloads of a person who is erased, and sessions of a public key. The counts of days stay: they name
//! no person.

use unslide_store::key_erasures::KeyRange;
use unslide_store::persons::{ErasedRows, ErasedSessions, PersonDay, PersonKind, PersonSession};
use unslide_store::{HookFuture, TenantTx};

/// Lists the sessions of a user or an installation that began on a day.
pub fn person_sessions(tx: &mut TenantTx, person: PersonDay) -> HookFuture<'_, Vec<PersonSession>> {
    Box::pin(async move {
        let (connection, tenant, _) = tx.parts();
        let sessions = sqlx::query_as!(
            PersonSession,
            "SELECT app, session_id AS id FROM sessions
             WHERE tenant = $1 AND day = $2 AND received_at < $3
               AND CASE WHEN $4 THEN user_hash ELSE installation END = $5
             ORDER BY app, session_id LIMIT $6",
            tenant,
            person.day,
            person.received_before,
            person.key.kind == PersonKind::User,
            person.key.hash.as_slice(),
            i64::from(person.limit)
        );
        Ok(sessions.fetch_all(connection).await?)
    })
}

/// Deletes sessions, and the metric payloads that name them.
pub fn erase_sessions<'t>(
    tx: &'t mut TenantTx,
    sessions: ErasedSessions<'t>,
) -> HookFuture<'t, Vec<ErasedRows>> {
    Box::pin(async move {
        let (connection, tenant, _) = tx.parts();
        let erased = sqlx::query!(
            // In the order in which all writers lock them.
            r#"WITH locked AS (
                   SELECT app, session_id, day FROM sessions
                   WHERE tenant = $1 AND session_id = ANY ($2) AND received_at < $4
                     AND ($3::text[] IS NULL OR app = ANY ($3))
                   ORDER BY app COLLATE "C", session_id COLLATE "C", day FOR UPDATE),
               erased_sessions AS (
                   DELETE FROM sessions s USING locked l
                   WHERE s.tenant = $1 AND s.app = l.app AND s.session_id = l.session_id AND s.day = l.day
                   RETURNING 1),
               erased_payloads AS (
                   DELETE FROM metric_payloads WHERE tenant = $1 AND session_id = ANY ($2) AND received_at < $4
                       AND ($3::text[] IS NULL OR app = ANY ($3))
                   RETURNING 1)
               SELECT (SELECT count(*) FROM erased_sessions) AS "sessions!",
                      (SELECT count(*) FROM erased_payloads) AS "payloads!""#,
            tenant,
            sessions.ids,
            sessions.apps as Option<&[String]>,
            sessions.received_before
        )
        .fetch_one(connection)
        .await?;
        let rows = |table, rows: i64| ErasedRows { table, rows: rows.unsigned_abs() };
        Ok(vec![rows("sessions", erased.sessions), rows("metric_payloads", erased.payloads)])
    })
}

/// Deletes sessions that apps sent with a public key, as summaries of runs.
pub fn erase_key_range<'t>(
    tx: &'t mut TenantTx,
    range: &'t KeyRange,
    limit: u32,
) -> HookFuture<'t, Vec<ErasedRows>> {
    Box::pin(async move {
        let (connection, tenant, _) = tx.parts();
        let erased = sqlx::query!(
            // In the order in which all writers lock them.
            r#"WITH found AS (
                   SELECT app, session_id, day FROM sessions
                   WHERE tenant = $1 AND sender_key = $2 AND received_at >= $3 AND received_at < $4
                     AND ($5::text IS NULL OR version = $5)
                   LIMIT $6),
               locked AS (
                   SELECT s.app, s.session_id, s.day FROM sessions s
                   JOIN found f ON f.app = s.app AND f.session_id = s.session_id AND f.day = s.day
                   WHERE s.tenant = $1
                   ORDER BY s.app COLLATE "C", s.session_id COLLATE "C", s.day FOR UPDATE OF s)
               DELETE FROM sessions s USING locked l
               WHERE s.tenant = $1 AND s.app = l.app AND s.session_id = l.session_id AND s.day = l.day"#,
            tenant,
            range.key.to_string(),
            range.begin,
            range.end,
            range.version,
            i64::from(limit)
        )
        .execute(connection)
        .await?;
        Ok(vec![ErasedRows { table: "sessions", rows: erased.rows_affected() }])
    })
}
