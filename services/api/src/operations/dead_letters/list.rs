//! `GET /v1/dead-letters`.

use super::DeadLetterScope;
use crate::operations::prelude::*;
use crate::requests::input::{check_texts, time};
use unslide_store::dead_letters::{self, DeadLetter, DeadLetterCursor, DeadLetterFilter};

/// Reasons and tenants are never longer.
pub const LONGEST: usize = 100;

/// Which dead letters to list. An absent filter does not limit the list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeadLetterQuery {
    /// The only tenant to list; empty for records of no tenant. For operators only.
    pub tenant: Option<String>,
    /// The only reason to list, such as `not_json`.
    #[param(example = "not_json")]
    pub reason: Option<String>,
    /// Arrived at this time or later (RFC 3339).
    #[param(format = DateTime, example = "2026-11-20T09:00:00Z")]
    pub from: Option<String>,
    /// Arrived before this time (RFC 3339).
    #[param(format = DateTime)]
    pub to: Option<String>,
    /// True lists only replayed ones, false only the others; all if absent.
    pub replayed: Option<bool>,
    /// Entries a page, 1 to 500; 50 if absent.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page, unchanged.
    #[param(max_length = 4096)]
    pub cursor: Option<String>,
}

problems!(Failures: InvalidParameter);

/// List dead letters
///
/// Lists records of the tenant that could not be processed, newest first, as far back as their topic goes.
#[utoipa::path(get, path = "/dead-letters", tag = "dead letters", operation_id = "list_dead_letters",
    params(DeadLetterQuery),
    responses((status = 200, description = "A page of dead letters.", body = Page<DeadLetter>), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn list_dead_letters(
    State(api): State<Api>,
    access: Access<TenantAdmin>,
    Query(query): Query<DeadLetterQuery>,
) -> Result<Json<Page<DeadLetter>>, Problem> {
    let DeadLetterQuery { tenant, reason, from, to, replayed, limit, cursor } = query;
    let (page, tenant) = (PageQuery { limit, cursor }, tenant.as_deref());
    let scope = DeadLetterScope::of(&access, tenant)?;
    let filter = filter(reason, from.as_deref(), to.as_deref(), replayed)?;
    let list = List::of(access.tenant(), "list_dead_letters", &(access.reach, &filter, tenant));
    let after = page.after(list, DeadLetterCursor::read)?;
    let limit = page.limit()?;
    let mut tx = scope.begin(&api).await?;
    let found = dead_letters::list(&mut tx, scope.reach, &filter, after.as_ref(), limit + 1).await?;
    Ok(Json(Page::of(found, limit, list, |last| DeadLetterCursor::after(last).write())))
}

/// Checks the filter of a request.
///
/// # Errors
/// [`Kind::InvalidParameter`].
pub fn filter(
    reason: Option<String>,
    from: Option<&str>,
    to: Option<&str>,
    replayed: Option<bool>,
) -> Result<DeadLetterFilter, Problem> {
    check_texts(Kind::InvalidParameter, LONGEST, [("reason", reason.as_deref())])?;
    Ok(DeadLetterFilter { reason, from: time("from", from)?, to: time("to", to)?, replayed })
}
