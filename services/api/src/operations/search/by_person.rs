//! Reports and sessions of one person: of a session, a device, an installation or a user.

use super::by_name::MATCHES_LIMIT;
use super::matches::SearchMatch;
use crate::problem::Problem;
use unslide_store::queries::person::{self, PersonIdKind, SearchedSession};
use unslide_store::sessions::list_of_person;
use unslide_store::{TenantTx, Uuid};

/// Finds the newest reports of the session with an id. With `person_search` also those of a device, those that name a user,
/// and the sessions of an installation or a user with their reports.
pub(super) async fn find_by_person(
    tx: &mut TenantTx,
    app: Option<&str>,
    text: &str,
    person_search: bool,
) -> Result<Vec<SearchMatch>, Problem> {
    let own = Uuid::parse_str(text).ok();
    let mut searched: Vec<SearchedSession> =
        own.into_iter().map(|run| SearchedSession { run, found_by: PersonIdKind::Session }).collect();
    let (mut reports, mut sessions) = (Vec::new(), Vec::new());
    if person_search {
        reports = person::list_device_reports(tx, text, app, MATCHES_LIMIT).await?;
        reports.extend(person::list_user_reports(tx, text, app, MATCHES_LIMIT).await?);
        sessions = list_of_person(tx, text, app).await?;
        searched.extend(sessions.iter().filter_map(|session| {
            let run = Uuid::parse_str(&session.session).ok()?;
            Some(SearchedSession { run, found_by: session.found_by })
        }));
    }
    if !searched.is_empty() {
        reports.extend(person::list_session_reports(tx, &searched, app, MATCHES_LIMIT).await?);
    }
    reports.sort_by_key(|found| std::cmp::Reverse(found.report.received_at));
    let mut found: Vec<SearchMatch> = Vec::new();
    for report in reports.into_iter().map(SearchMatch::from) {
        // The device, the user and the session of a report may have the same id.
        if !found.iter().any(|known| known.page == report.page) && found.len() < MATCHES_LIMIT as usize {
            found.push(report);
        }
    }
    let sessions = sessions.into_iter().take(MATCHES_LIMIT as usize);
    found.extend(sessions.map(SearchMatch::from_session));
    Ok(found)
}
