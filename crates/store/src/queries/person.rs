//! Reports of one person: of a device, of a user, of a session, or of the sessions of an installation or a user.

use crate::persons::{PersonHash, hash_person};
use crate::report_rows::{REPORT_COLUMNS, ReportRow};
use crate::{OwnerTx, Result, TenantTx, Uuid};
use sqlx::{AssertSqlSafe, FromRow};
use time::OffsetDateTime;

/// Newest reports of a device, of a user, and of each session, that are compared with the app of a search.
const COMPARED_ROWS_LIMIT: i64 = 1_000;
/// Sessions of which reports are found. Each is a look-up in every day of reports.
pub(crate) const SEARCHED_SESSIONS_LIMIT: u32 = 50;

/// Returns true if the transaction's tenant lets people search by the ids of devices, installations and users.
pub async fn is_person_search_on(tx: &mut OwnerTx) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let found = sqlx::query_scalar!("SELECT person_search FROM tenants WHERE slug = $1", tenant);
    Ok(found.fetch_optional(connection).await?.unwrap_or_default())
}

/// Turns the search by ids of persons on or off. Returns false if there is no such tenant.
pub async fn set_person_search(tx: &mut TenantTx, is_on: bool) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let changed = sqlx::query!(
        "UPDATE tenants SET person_search = $2 WHERE slug = $1 AND state <> 'deleted'",
        tenant,
        is_on
    );
    Ok(changed.execute(connection).await?.rows_affected() > 0)
}

/// The id by which a report or a session was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersonIdKind {
    /// The id of the device in the report.
    Device,
    /// The id of the session.
    Session,
    /// The id of the app's installation in a session.
    Installation,
    /// The id of the user in the report or in a session.
    User,
}

impl PersonIdKind {
    /// Returns the kind as a word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            PersonIdKind::Device => "device",
            PersonIdKind::Session => "session",
            PersonIdKind::Installation => "installation",
            PersonIdKind::User => "user",
        }
    }
}

/// The sessions that a feature finds: those of one installation or user.
#[derive(Clone, Copy, Debug)]
pub struct PersonScope<'t> {
    /// Hash of the id.
    pub hash: &'t PersonHash,
    /// The only app to search.
    pub app: Option<&'t str>,
    /// Maximum number of sessions.
    pub limit: u32,
}

/// A session of an installation or a user, as a search shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundSession {
    /// Bundle identifier of the app.
    pub app: String,
    /// The session's id within its app.
    pub session: String,
    /// The version that ran; empty if it is not known.
    pub version: String,
    /// When it began, by the device's clock.
    pub started_at: OffsetDateTime,
    /// How it ended; `None` if that is not known.
    pub end_reason: Option<String>,
    /// The id by which it was found.
    pub found_by: PersonIdKind,
}

/// A report of a person.
#[derive(Clone, Debug, PartialEq)]
pub struct PersonReport {
    /// The report, as in lists.
    pub report: ReportRow,
    /// The id by which it was found.
    pub found_by: PersonIdKind,
}

/// Lists the reports of a device, the newest first, at most `limit`.
pub async fn list_device_reports(
    tx: &mut TenantTx,
    id: &str,
    app: Option<&str>,
    limit: u32,
) -> Result<Vec<PersonReport>> {
    let (connection, tenant, _) = tx.parts();
    // The columns of a list, as the list reads them: not known to the macros.
    let rows: Vec<ReportRow> = sqlx::query_as(AssertSqlSafe(format!(
        "SELECT {REPORT_COLUMNS}
         FROM (SELECT * FROM reports WHERE tenant = $1 AND device = $2
               ORDER BY received_at DESC, report_id DESC, variant DESC LIMIT $5) r
         WHERE $3::text IS NULL OR r.app = $3
         ORDER BY r.received_at DESC, r.report_id DESC, r.variant DESC LIMIT $4"
    )))
    .bind(tenant)
    .bind(hash_person(id))
    .bind(app)
    .bind(i64::from(limit))
    .bind(COMPARED_ROWS_LIMIT)
    .fetch_all(connection)
    .await?;
    let found = |report| PersonReport { report, found_by: PersonIdKind::Device };
    Ok(rows.into_iter().map(found).collect())
}

/// Lists the reports that name a user, the newest first, at most `limit`.
pub async fn list_user_reports(
    tx: &mut TenantTx,
    id: &str,
    app: Option<&str>,
    limit: u32,
) -> Result<Vec<PersonReport>> {
    let (connection, tenant, _) = tx.parts();
    // The LIMIT of one keeps each report to one look-up, in the order of the user's rows.
    let rows: Vec<ReportRow> = sqlx::query_as(AssertSqlSafe(format!(
        "SELECT {REPORT_COLUMNS}
         FROM (SELECT received_at, report_id, variant FROM report_users WHERE tenant = $1 AND user_hash = $2
               ORDER BY received_at DESC, report_id DESC, variant DESC LIMIT $5) u
         CROSS JOIN LATERAL
              (SELECT * FROM reports o WHERE o.tenant = $1 AND o.received_at = u.received_at
               AND o.report_id = u.report_id AND o.variant = u.variant LIMIT 1) r
         WHERE $3::text IS NULL OR r.app = $3
         ORDER BY r.received_at DESC, r.report_id DESC, r.variant DESC LIMIT $4"
    )))
    .bind(tenant)
    .bind(hash_person(id))
    .bind(app)
    .bind(i64::from(limit))
    .bind(COMPARED_ROWS_LIMIT)
    .fetch_all(connection)
    .await?;
    let found = |report| PersonReport { report, found_by: PersonIdKind::User };
    Ok(rows.into_iter().map(found).collect())
}

/// A session of which reports are found.
#[derive(Clone, Copy, Debug)]
pub struct SearchedSession {
    /// Id of the run in reports.
    pub run: Uuid,
    /// The id by which the session was found.
    pub found_by: PersonIdKind,
}

/// A report of a session, with the session's index in the search.
#[derive(FromRow)]
struct SessionReport {
    #[sqlx(flatten)]
    report: ReportRow,
    place: i64,
}

/// Lists the reports of sessions, the newest first, at most `limit`.
pub async fn list_session_reports(
    tx: &mut TenantTx,
    sessions: &[SearchedSession],
    app: Option<&str>,
    limit: u32,
) -> Result<Vec<PersonReport>> {
    let (connection, tenant, _) = tx.parts();
    let runs: Vec<Uuid> = sessions.iter().map(|session| session.run).collect();
    // The newest crashes and the newest other reports of each session, by the index, and the newest of these.
    let rows: Vec<SessionReport> = sqlx::query_as(AssertSqlSafe(format!(
        "SELECT {REPORT_COLUMNS}, r.place
         FROM (SELECT o.*, n.place
               FROM unnest($2::uuid[]) WITH ORDINALITY AS n (run, place)
               CROSS JOIN (VALUES (true), (false)) AS c (is_crash) CROSS JOIN LATERAL
                    (SELECT * FROM reports WHERE tenant = $1 AND run_id = n.run AND (fatal AND NOT metric_kit) = c.is_crash
                     ORDER BY received_at DESC, report_id DESC, variant DESC LIMIT $5) o) r
         WHERE $3::text IS NULL OR r.app = $3
         ORDER BY r.received_at DESC, r.report_id DESC, r.variant DESC LIMIT $4"
    )))
    .bind(tenant)
    .bind(&runs)
    .bind(app)
    .bind(i64::from(limit))
    .bind(COMPARED_ROWS_LIMIT / i64::from(SEARCHED_SESSIONS_LIMIT))
    .fetch_all(connection)
    .await?;
    let found_by = |place: i64| {
        let session = usize::try_from(place - 1).ok().and_then(|place| sessions.get(place));
        session.map_or(PersonIdKind::Session, |session| session.found_by)
    };
    let found = |row: SessionReport| PersonReport { found_by: found_by(row.place), report: row.report };
    Ok(rows.into_iter().map(found).collect())
}
