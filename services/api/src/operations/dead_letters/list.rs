//! `GET /v1/dead-letters`.

use super::{DeadLetter, Desk};
use crate::access::{Access, Operator, TenantAdmin};
use crate::input::{Query, time};
use crate::page::{List, Page, PageQuery, foreign};
use crate::problem::{Kind, Problem, problems};
use crate::state::Api;
use axum::Json;
use axum::extract::State;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::fmt::Display;
use std::str::FromStr;
use unslide_store::dead_letters::{Filter, LetterCursor};
use utoipa::IntoParams;

/// Longer words are no reason and no tenant.
const LONGEST: usize = 100;

/// Which dead letters to list. What is absent does not matter.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LetterQuery {
    /// Why they are dead.
    #[param(example = "not_json")]
    pub reason: Option<String>,
    /// Arrived at this time or later (RFC 3339).
    #[param(format = DateTime, example = "2026-11-20T09:00:00Z")]
    pub from: Option<String>,
    /// Arrived before this time (RFC 3339).
    #[param(format = DateTime)]
    pub to: Option<String>,
    /// Whether they were replayed.
    #[serde(default, deserialize_with = "text")]
    pub replayed: Option<bool>,
    /// Entries a page, 1 to 500; 50 where absent.
    #[serde(default, deserialize_with = "text")]
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// `next_cursor` of the page before, as it was.
    #[param(max_length = 2048)]
    pub cursor: Option<String>,
}

/// Which dead letters of all to list. What is absent does not matter.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorLetterQuery {
    tenant: Option<String>,
    #[serde(flatten)]
    which: LetterQuery,
}

problems!(Failures: InvalidParameter);

/// List dead letters
///
/// Records of the tenant that could not be processed, newest first, as far back as their topic goes.
#[utoipa::path(get, path = "/v1/dead-letters", tag = "dead letters", operation_id = "list_dead_letters",
    params(LetterQuery),
    responses((status = 200, description = "A page of dead letters.", body = Page<DeadLetter>), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn list_dead_letters(
    State(api): State<Api>,
    access: Access<TenantAdmin>,
    Query(query): Query<LetterQuery>,
) -> Result<Json<Page<DeadLetter>>, Problem> {
    let (filter, page) = query.read()?;
    let list = List::of(access.tenant(), "list_dead_letters", &filter);
    answer(&api, &Desk::own(&access)?, list, &filter, None, &page).await
}

/// List all dead letters
///
/// Records of all tenants and of nobody that could not be processed, newest first.
#[utoipa::path(get, path = "/v1/operator/dead-letters", tag = "dead letters",
    operation_id = "operator_list_dead_letters",
    params(
        ("tenant" = Option<String>, Query, description = "Of this tenant; nobody's where empty."),
        LetterQuery),
    responses((status = 200, description = "A page of dead letters.", body = Page<DeadLetter>), Failures),
    security(("key" = ["operator"])))]
pub async fn operator_list_dead_letters(
    State(api): State<Api>,
    access: Access<Operator>,
    Query(query): Query<OperatorLetterQuery>,
) -> Result<Json<Page<DeadLetter>>, Problem> {
    let OperatorLetterQuery { tenant, which } = query;
    let (filter, page) = which.read()?;
    short("tenant", tenant.as_deref())?;
    let list = List::of(access.tenant(), "operator_list_dead_letters", &(&filter, &tenant));
    answer(&api, &Desk::any(&access), list, &filter, tenant.as_deref(), &page).await
}

async fn answer(
    api: &Api,
    desk: &Desk<'_>,
    list: List,
    filter: &Filter,
    tenant: Option<&str>,
    page: &PageQuery,
) -> Result<Json<Page<DeadLetter>>, Problem> {
    let after = match &page.cursor {
        Some(cursor) => Some(LetterCursor::read(&list.position(cursor)?).ok_or_else(foreign)?),
        None => None,
    };
    let limit = page.limit()?;
    let mut tx = desk.begin(api).await?;
    let mut found = desk.list(&mut tx, filter, tenant, after.as_ref(), limit + 1).await?;
    tx.rollback().await?;
    let more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let last = found.last().filter(|_| more);
    let next_cursor = last.map(|last| list.cursor(&LetterCursor::after(last).write()));
    Ok(Json(Page { items: found.into_iter().map(DeadLetter::from).collect(), next_cursor }))
}

/// What a client asks for, checked.
///
/// # Errors
/// [`Kind::InvalidParameter`].
pub fn filter(
    reason: Option<String>,
    from: Option<&str>,
    to: Option<&str>,
    replayed: Option<bool>,
) -> Result<Filter, Problem> {
    short("reason", reason.as_deref())?;
    Ok(Filter {
        reason,
        from: from.map(|text| time("from", text)).transpose()?,
        to: to.map(|text| time("to", text)).transpose()?,
        replayed,
    })
}

/// Refuses what is too long to be in the index, or what the database takes for no text.
///
/// # Errors
/// [`Kind::InvalidParameter`].
pub fn short(name: &str, text: Option<&str>) -> Result<(), Problem> {
    match text {
        Some(text) if text.len() > LONGEST || text.contains('\0') => Err(Problem::new(
            Kind::InvalidParameter,
            format!("{name}: at most {LONGEST} bytes, none of them zero"),
        )),
        _ => Ok(()),
    }
}

impl LetterQuery {
    /// Which letters, and which part of them.
    fn read(self) -> Result<(Filter, PageQuery), Problem> {
        let filter = filter(self.reason, self.from.as_deref(), self.to.as_deref(), self.replayed)?;
        Ok((filter, PageQuery { limit: self.limit, cursor: self.cursor }))
    }
}

/// Reads a value from its text: within another struct a query's values are not told apart.
fn text<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
}
