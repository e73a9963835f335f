//! `GET /v1/sessions/{id}`.

use crate::operations::prelude::*;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use unslide_model::timestamp;
use unslide_store::queries::session::{self, TimelineEvent, TimelinePage};

/// The longest id of a session.
const LONGEST_ID: usize = 400;

/// The app of the session, and the page of its events.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SessionQuery {
    /// The app (bundle identifier) of the session. Not needed with a key for one app.
    #[param(example = "com.example.shop")]
    pub app: Option<String>,
    /// Entries a page, 1 to 500; 50 if absent.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page, unchanged.
    #[param(max_length = 4096)]
    pub cursor: Option<String>,
}

problems!(Failures: InvalidParameter, NotFound);

/// Get a session's signals
///
/// Lists the events with the session's id, in the order of time: its begin and end, reports with this `run_id`, metric payloads
/// that name it, and files that were recorded in it. At most the newest 1,000 of each kind. An end that the service has inferred
/// names its rule, its confidence and the evidence.
#[utoipa::path(get, path = "/v1/sessions/{id}", tag = "sessions", operation_id = "get_session",
    params(("id" = String, Path, description = "The session's id."), SessionQuery),
    responses((status = 200, description = "A page of the session's events, the earliest first.", body = Page<TimelineEvent>), Failures),
    security(("key" = ["reports:read"])))]
pub async fn get_session(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Path(id): Path<String>,
    Query(query): Query<SessionQuery>,
) -> Result<Json<Page<TimelineEvent>>, Problem> {
    let own = || access.only_app().map(str::to_owned);
    let Some(app) = query.app.or_else(own).map(|app| app.replace('\0', "")) else {
        return Err(Problem::new(
            Kind::InvalidParameter,
            "app: required, because an app chooses the ids of its sessions",
        ));
    };
    let none =
        || Problem::new(Kind::NotFound, "there is no session with this id, or its retention has ended");
    if !access.can_see(&app) {
        return Err(none());
    }
    let id = id.replace('\0', "");
    let page = PageQuery { limit: query.limit, cursor: query.cursor };
    let list = List::for_operation(access.tenant(), "get_session", &(&app, &id));
    let after = page.read_cursor(list, parse_position)?;
    let limit = page.check_limit()?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let from = after.as_ref().map(|(at, kind, id, variant)| (*at, kind.as_str(), id.as_str(), *variant));
    let found = match id.len() <= LONGEST_ID {
        true => {
            let page = TimelinePage { app: &app, session: &id, after: from, limit: limit + 1 };
            session::list_timeline(&mut tx, page).await?
        }
        false => Vec::new(),
    };
    if found.is_empty() && after.is_none() {
        return Err(none());
    }
    Ok(Json(Page::from_rows(found, limit, list, encode_position)))
}

/// Writes the position of an event in its session.
fn encode_position(event: &TimelineEvent) -> String {
    let at = event.at.format(&Rfc3339).unwrap_or_default();
    format!("{at} {} {} {}", event.kind, event.variant, event.id)
}

/// Reads the encode_position that [`encode_position`] wrote.
fn parse_position(position: &str) -> Option<(OffsetDateTime, String, String, u32)> {
    if position.contains('\0') {
        return None;
    }
    let mut words = position.splitn(4, ' ');
    let at = timestamp::to_storable(OffsetDateTime::parse(words.next()?, &Rfc3339).ok()?)?;
    let (kind, variant, id) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
    Some((at, kind.to_owned(), id.to_owned(), variant))
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    #[test]
    fn only_places_that_the_database_takes_are_read() {
        let (at, kind) = (datetime!(2026-11-20 08:00 UTC), "report".to_owned());
        assert_eq!(
            parse_position("2026-11-20T08:00:00Z report 2 a b"),
            Some((at, kind, "a b".to_owned(), 2))
        );
        for wrong in [
            "",
            "2026-11-20T08:00:00Z report a",
            "2026-11-20T08:00:00Z report 0 a\0",
            "0000-01-01T00:00:00Z report 0 a",
        ] {
            assert_eq!(parse_position(wrong), None, "{wrong:?}");
        }
    }
}
