//! `GET /v1/dead-letters`.

use super::DeadLetterScope;
use crate::operations::prelude::*;
use crate::requests::input::{check_texts, parse_period};
use unslide_store::dead_letters::{
    self, DeadLetter, DeadLetterCursor, DeadLetterFilter, DeadLetterStage, DeadLetterStatus,
};

/// Reasons and tenants are never longer.
pub const FILTER_BYTES: usize = 100;

/// Which dead letters to list. An absent filter does not limit the list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeadLetterQuery {
    /// Of this tenant, of none if empty: for operators only.
    pub tenant: Option<String>,
    /// The stage that could not process them: `symbolize`, `read` or `store`.
    #[param(value_type = Option<String>, example = "store")]
    pub stage: Option<DeadLetterStage>,
    /// Why they are dead.
    #[param(example = "not_json")]
    pub reason: Option<String>,
    /// Arrived at this time or later (RFC 3339).
    #[param(format = DateTime, example = "2026-11-20T09:00:00Z")]
    pub from: Option<String>,
    /// Arrived before this time (RFC 3339).
    #[param(format = DateTime)]
    pub to: Option<String>,
    /// `waiting` for a first replay, `requested`, `replayed`, `failed` or `past_retention`.
    #[param(value_type = Option<String>, example = "waiting")]
    pub status: Option<DeadLetterStatus>,
    /// Entries a page, 1 to 500; 50 where absent.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page, unchanged.
    #[param(max_length = 4096)]
    pub cursor: Option<String>,
}

problems!(Failures: InvalidParameter);

/// List dead letters
///
/// Records of the tenant that a stage could not process, newest first, of the last 30 days.
#[utoipa::path(get, path = "/dead-letters", tag = "dead letters", operation_id = "list_dead_letters",
    params(DeadLetterQuery),
    responses((status = 200, description = "A page of dead letters.", body = Page<DeadLetter>), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn list_dead_letters(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    Query(query): Query<DeadLetterQuery>,
) -> Result<Json<Page<DeadLetter>>, Problem> {
    let DeadLetterQuery { tenant, stage, reason, from, to, status, limit, cursor } = query;
    let (page, tenant) = (PageQuery { limit, cursor }, tenant.as_deref());
    let scope = DeadLetterScope::for_request(&access, tenant)?;
    let filter = DeadLetterFilter { stage, status, ..build_filter(reason, from.as_deref(), to.as_deref())? };
    let list = List::for_operation(access.tenant(), "list_dead_letters", &(access.reach, &filter, tenant));
    let after = page.read_cursor(list, DeadLetterCursor::from_text)?;
    let limit = page.check_limit()?;
    let mut tx = scope.begin_transaction(&storage).await?;
    let found =
        dead_letters::list_dead_letters(&mut tx, scope.reach, &filter, after.as_ref(), limit + 1).await?;
    Ok(Json(Page::from_rows(found, limit, list, |last| DeadLetterCursor::after_dead_letter(last).to_text())))
}

/// Checks the reason and the period of a request.
///
/// # Errors
/// [`Kind::InvalidParameter`].
pub fn build_filter(
    reason: Option<String>,
    from: Option<&str>,
    to: Option<&str>,
) -> Result<DeadLetterFilter, Problem> {
    check_texts(Kind::InvalidParameter, FILTER_BYTES, [("reason", reason.as_deref())])?;
    let (from, to) = parse_period(from, to)?;
    Ok(DeadLetterFilter { reason, from, to, ..DeadLetterFilter::default() })
}
