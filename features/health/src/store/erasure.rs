//! Sessions and metric payloads of a person who is erased. The counts of days stay: they name no person.

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
