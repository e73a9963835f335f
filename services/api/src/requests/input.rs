//! Path, query and JSON inputs with problems as their errors.

use crate::limits::capacity::Capacity;
use crate::limits::permits::{JSON_BYTES, Reservation};
use crate::limits::slot::{Caller, RequestSlot};
use crate::problem::{Kind, Problem};
use crate::requests::body::Chunks;
use crate::requests::messages::{self, MESSAGE_CHARS};
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRef, FromRequest, FromRequestParts, Request};
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{Date, OffsetDateTime};
use unslide_model::{json, timestamp};

#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(Problem))]
pub struct Path<T>(pub T);

impl From<PathRejection> for Problem {
    fn from(rejection: PathRejection) -> Problem {
        match rejection {
            PathRejection::FailedToDeserializePathParams(error) => {
                Problem::new(Kind::InvalidParameter, messages::describe_path_error(error.kind()))
            }
            other => Problem::internal(other),
        }
    }
}

#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(Problem))]
pub struct Query<T>(pub T);

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Problem {
        match rejection {
            QueryRejection::FailedToDeserializeQueryString(error) => {
                Problem::new(Kind::InvalidParameter, messages::describe_query_error(&error.body_text()))
            }
            other => Problem::internal(other),
        }
    }
}

/// A small JSON body, with any content type. Every struct in it, at any depth, must be an object.
pub struct Json<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T>
where
    Arc<Capacity>: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Json<T>, Problem> {
        let capacity = <Arc<Capacity>>::from_ref(state);
        let (parts, body) = request.into_parts();
        let limits = &capacity.limits;
        let mut reserved = match parts.extensions.get::<RequestSlot>().map(RequestSlot::caller) {
            Some(Caller::Tenant(tenant)) => Reservation::new(&capacity.permits.bodies, &tenant, 0)?,
            Some(Caller::Public(tenant)) => capacity.permits.reserve_public_body(&tenant)?,
            Some(Caller::Operator(tenant)) => {
                Reservation::new(&capacity.permits.operator_bodies, &tenant, 0)?
            }
            None | Some(Caller::Unknown) => {
                return Err(Problem::internal("a body is read before its key"));
            }
        };
        let chunks = Chunks::new(&parts.headers, body, JSON_BYTES, limits.client_pace())?;
        let body = chunks.collect_body(&mut reserved).await?;
        json::from_slice(&body).map(Json).map_err(|error| Problem::new(Kind::InvalidBody, error.to_string()))
    }
}

/// Returns true for a text of 1 to `longest` bytes without control characters. The database accepts no NUL,
/// and terminals and logs obey the others.
#[must_use]
pub fn is_text(text: &str, longest: usize) -> bool {
    !text.is_empty() && text.len() <= longest && !text.chars().any(char::is_control)
}

/// Parses the value of a parameter.
///
/// # Errors
/// [`Kind::InvalidParameter`] with the parameter's name and what is wrong.
pub fn parse_parameter<T>(name: &str, text: &str) -> Result<T, Problem>
where
    T: FromStr,
    T::Err: Display,
{
    text.parse().map_err(|error: T::Err| {
        let why = messages::plain_reason(text, &error.to_string());
        Problem::new(Kind::InvalidParameter, format!("{name}: {why}"))
    })
}

/// Parses the value of a parameter, if there is one, as a time (RFC 3339).
///
/// # Errors
/// [`Kind::InvalidParameter`] with the parameter's name and what is wrong.
pub fn parse_time(name: &str, text: Option<&str>) -> Result<Option<OffsetDateTime>, Problem> {
    // A plus in a query string is a space; a time zone is the only place for one.
    let read = |text: &str| {
        let at = OffsetDateTime::parse(&text.replace(' ', "+"), &Rfc3339).ok();
        at.and_then(timestamp::to_storable).ok_or_else(|| {
            let text: String = text.chars().take(MESSAGE_CHARS).collect();
            let detail =
                format!("{name}: {text:?} is not a time such as 2026-11-20T09:00:00Z in the years 1 to 9999");
            Problem::new(Kind::InvalidParameter, detail)
        })
    };
    text.map(read).transpose()
}

/// Parses the parameters `from` and `to` of a list.
///
/// # Errors
/// [`Kind::InvalidParameter`] if one of them is no time, or `to` lies before `from`.
pub fn parse_period(
    from: Option<&str>,
    to: Option<&str>,
) -> Result<(Option<OffsetDateTime>, Option<OffsetDateTime>), Problem> {
    let period = (parse_time("from", from)?, parse_time("to", to)?);
    match period {
        (Some(from), Some(to)) if to < from => {
            Err(Problem::new(Kind::InvalidParameter, "to: lies before from"))
        }
        _ => Ok(period),
    }
}

/// Parses the value of a parameter, if there is one, as a day.
///
/// # Errors
/// [`Kind::InvalidParameter`] with the parameter's name and what is wrong.
pub fn parse_day(name: &str, text: Option<&str>) -> Result<Option<Date>, Problem> {
    let read = |text: &str| {
        let day = Date::parse(text, format_description!("[year]-[month]-[day]")).ok();
        day.filter(|day| (1..=9_999).contains(&day.year()))
            .ok_or_else(|| Problem::new(Kind::InvalidParameter, format!("{name}: a day such as 2026-11-20")))
    };
    text.map(read).transpose()
}

/// Returns the search text: 3 to 100 characters. Shorter texts match nearly everything.
///
/// # Errors
/// [`Kind::InvalidParameter`] for another length.
pub fn search_text(text: Option<String>) -> Result<Option<String>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let text = text.trim();
    if !(3..=100).contains(&text.chars().count()) || text.contains('\0') {
        return Err(Problem::new(Kind::InvalidParameter, "q: 3 to 100 characters, none of them NUL"));
    }
    Ok(Some(text.to_owned()))
}

/// Refuses texts that are too long to match anything stored, and texts that the database cannot store.
///
/// # Errors
/// `kind`, with the text's name.
pub fn check_texts<'t>(
    kind: Kind,
    longest: usize,
    texts: impl IntoIterator<Item = (&'t str, Option<&'t str>)>,
) -> Result<(), Problem> {
    let wrong = |text: &str| text.len() > longest || text.contains('\0');
    match texts.into_iter().find(|(_, text)| text.is_some_and(wrong)) {
        Some((name, _)) => {
            Err(Problem::new(kind, format!("{name}: at most {longest} bytes, none of them NUL")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_does_not_end_before_it_begins() {
        let is_period = |from: &str, to: &str| parse_period(Some(from), Some(to)).is_ok();
        let (early, late) = ("2026-11-20T09:00:00Z", "2026-11-20T10:00:00Z");
        assert!(is_period(early, late) && is_period(early, early));
        assert!(!is_period(late, early) && !is_period(early, "soon"));
        assert!(parse_period(Some(late), None).is_ok());
    }
}
