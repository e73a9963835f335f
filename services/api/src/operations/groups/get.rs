//! `GET /v1/groups/{id}`.

use super::markdown::answer_group;
use super::no_such_group;
use crate::operations::prelude::*;
use axum::response::{IntoResponse, Response};
use unslide_store::Uuid;
use unslide_store::queries::groups::{self, GroupCounts};

/// The form of the answer.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GroupFormatQuery {
    /// `json`, or `markdown`: a description with its evidence, in which texts of devices are quoted.
    #[param(example = "markdown")]
    pub format: Option<String>,
}

problems!(Failures: InvalidParameter, NotFound);

/// Get a group
///
/// Its reports are listed by `GET /v1/reports?group={id}`. A group is replaced if late symbols move its reports to other
/// groups. Then the answer is the group that got most of them, and `redirected_from` is the id of the path. With
/// `format=markdown` the answer has its statistics and the report that represents it.
#[utoipa::path(get, path = "/v1/groups/{id}", tag = "groups", operation_id = "get_group",
    params(("id" = Uuid, Path, description = "The group's id."), GroupFormatQuery),
    responses((status = 200, description = "The group.", content(
        (GroupCounts = "application/json"), (String = "text/markdown"))), Failures),
    security(("key" = ["reports:read"])))]
pub async fn get_group(
    State(api): State<Api>,
    access: Access<ReportsRead>,
    Path(id): Path<Uuid>,
    Query(query): Query<GroupFormatQuery>,
) -> Result<Response, Problem> {
    let is_markdown = match query.format.as_deref() {
        None | Some("json") => false,
        Some("markdown") => true,
        Some(_) => return Err(Problem::new(Kind::InvalidParameter, "format: json or markdown")),
    };
    let found = load_group(&api, &access, id).await?;
    if is_markdown {
        Box::pin(answer_group(&api, &access, found)).await
    } else {
        Ok(Json(found).into_response())
    }
}

/// Returns a group that the key may see, or the group that replaced it.
///
/// # Errors
/// [`Kind::NotFound`].
pub async fn load_group(api: &Api, access: &Access<ReportsRead>, id: Uuid) -> Result<GroupCounts, Problem> {
    let mut tx = api.tenant(access.tenant()).await?;
    let found = groups::get(&mut tx, id, access.principal.app.as_deref()).await?;
    found.ok_or_else(no_such_group)
}
