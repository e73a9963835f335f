//! The sessions of an installation or a user.

use time::OffsetDateTime;
use unslide_store::queries::person::{FoundSession, PersonIdKind, PersonScope};
use unslide_store::{HookFuture, TenantTx};

/// Newest sessions of an installation and of a user that are compared with the app of a search.
const COMPARED_SESSIONS_LIMIT: i64 = 1_000;

struct SessionRow {
    app: String,
    session_id: String,
    version: String,
    started_at: OffsetDateTime,
    end_reason: Option<String>,
    is_user: bool,
}

/// Finds the sessions of an installation or a user. Those that the app did not end itself come first, because reports are
/// of these.
pub fn find_sessions<'t>(tx: &'t mut TenantTx, scope: PersonScope<'t>) -> HookFuture<'t, Vec<FoundSession>> {
    Box::pin(async move {
        let (connection, tenant, _) = tx.parts();
        let rows = sqlx::query_as!(
            SessionRow,
            r#"SELECT app AS "app!", session_id AS "session_id!", version AS "version!", started_at AS "started_at!",
                      end_reason, is_user AS "is_user!"
               FROM ((SELECT app, session_id, version, started_at,
                             CASE WHEN memory_exception IS NULL THEN end_reason ELSE 'out_of_memory' END AS end_reason,
                             false AS is_user FROM sessions
                      WHERE tenant = $1 AND installation = $2 ORDER BY day DESC, session_id DESC LIMIT $5)
                     UNION ALL
                     (SELECT app, session_id, version, started_at,
                             CASE WHEN memory_exception IS NULL THEN end_reason ELSE 'out_of_memory' END, true FROM sessions
                      WHERE tenant = $1 AND user_hash = $2 ORDER BY day DESC, session_id DESC LIMIT $5)) s
               WHERE $3::text IS NULL OR app = $3
               ORDER BY coalesce(end_reason NOT IN ('exited', 'unknown'), false) DESC, started_at DESC, session_id
               LIMIT $4"#,
            tenant,
            scope.hash.as_slice(),
            scope.app,
            i64::from(scope.limit),
            COMPARED_SESSIONS_LIMIT
        )
        .fetch_all(connection)
        .await?;
        Ok(rows.into_iter().map(FoundSession::from).collect())
    })
}

impl From<SessionRow> for FoundSession {
    fn from(row: SessionRow) -> FoundSession {
        let SessionRow { app, session_id, version, started_at, end_reason, is_user } = row;
        let found_by = if is_user { PersonIdKind::User } else { PersonIdKind::Installation };
        FoundSession { app, session: session_id, version, started_at, end_reason, found_by }
    }
}
