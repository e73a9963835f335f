//! `GET /v1/groups/{id}`.

use super::markdown::answer_group;
use super::reference::load_group;
use crate::operations::prelude::*;
use crate::requests::accept::choose_style;
use axum::response::{IntoResponse, Response};
use unslide_model::GroupRef;
use unslide_store::queries::groups::GroupCounts;

/// The form of the answer.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GroupFormatQuery {
    /// `json`, or `markdown`: a description in which texts of devices are quoted.
    #[param(example = "markdown")]
    pub format: Option<String>,
    /// True names the evidence of each sentence of the Markdown in square brackets.
    pub evidence: Option<bool>,
}

problems!(Failures: InvalidParameter, NotFound);

/// Get a group
///
/// Its reports are listed by `GET /v1/reports?group={id}`. A group is replaced if late symbols move its reports to other
/// groups. Then the answer is the group that got most of them, and `redirected_from` is the id of the path. With
/// `format=markdown` the answer has its statistics and the report that represents it.
#[utoipa::path(get, path = "/v1/groups/{id}", tag = "groups", operation_id = "get_group",
    params(("id" = String, Path, description = "The group's id or short id.", max_length = 64), GroupFormatQuery),
    responses((status = 200, description = "The group.", content(
        (GroupCounts = "application/json"), (String = "text/markdown"))), Failures),
    security(("key" = ["reports:read"])))]
pub async fn get_group(
    State(symbolication): State<Arc<Symbolication>>,
    access: Access<ReportsRead>,
    Path(id): Path<GroupRef>,
    Query(query): Query<GroupFormatQuery>,
) -> Result<Response, Problem> {
    let is_markdown = match query.format.as_deref() {
        None | Some("json") => false,
        Some("markdown") => true,
        Some(_) => return Err(Problem::new(Kind::InvalidParameter, "format: json or markdown")),
    };
    let found = load_group(&symbolication.storage, &access, id).await?;
    if is_markdown {
        Box::pin(answer_group(&symbolication, &access, found, choose_style(query.evidence))).await
    } else {
        Ok(Json(found).into_response())
    }
}
