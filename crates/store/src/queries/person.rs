//! Reports of one person: of a device, of a user, of a session, or of the sessions of an installation or a user.

use crate::persons::{PersonHash, hash_person};
use crate::report_rows::{PersonRows, REPORT_COLUMNS, ReportRow, list_of_runs, read_person_rows};
use crate::{OwnerTx, Result, TenantTx, Uuid};
use sqlx::{FromRow, Postgres, QueryBuilder};
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
    let rows = list_of_person(tx, &PersonRows::Device(hash_person(id)), app, limit).await?;
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
    let rows = list_of_person(tx, &PersonRows::User(hash_person(id)), app, limit).await?;
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

/// Lists the reports of a person, the newest first.
async fn list_of_person(
    tx: &mut TenantTx,
    person: &PersonRows,
    app: Option<&str>,
    limit: u32,
) -> Result<Vec<ReportRow>> {
    read_person_rows(tx, person, COMPARED_ROWS_LIMIT, &|query| {
        query.push(format!("SELECT {REPORT_COLUMNS} FROM newest r"));
        push_app(query, app, limit);
    })
    .await
}

fn push_app(query: &mut QueryBuilder<Postgres>, app: Option<&str>, limit: u32) {
    if let Some(app) = app {
        query.push(" WHERE r.app = ").push_bind(app.to_owned());
    }
    query.push(format!(" ORDER BY r.received_at DESC, r.report_id DESC, r.variant DESC LIMIT {limit}"));
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
    let runs: Vec<Uuid> = sessions.iter().map(|session| session.run).collect();
    let per_run = COMPARED_ROWS_LIMIT / i64::from(SEARCHED_SESSIONS_LIMIT);
    let rows: Vec<SessionReport> = list_of_runs(tx, &runs, per_run, &|query| {
        query.push(format!("SELECT {REPORT_COLUMNS}, r.place FROM newest r"));
        push_app(query, app, limit);
    })
    .await?;
    let found_by = |place: i64| {
        let session = usize::try_from(place - 1).ok().and_then(|place| sessions.get(place));
        session.map_or(PersonIdKind::Session, |session| session.found_by)
    };
    let found = |row: SessionReport| PersonReport { found_by: found_by(row.place), report: row.report };
    Ok(rows.into_iter().map(found).collect())
}
