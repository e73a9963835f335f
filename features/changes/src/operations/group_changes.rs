//! `GET /v1/groups/{id}/changes`: which functions of a stack changed.

use crate::comparing::{StackChanges, find_group_changes};
use crate::markdown::write_changes;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::sync::Arc;
use unslide_api::feature::Symbolication;
use unslide_api::feature::operation::{
    Access, Kind, Path, Problem, Query, ReportsRead, ReservedAnswer, problems, reserve_bytes,
};
use unslide_model::GroupRef;
use unslide_report::markdown::MarkdownStyle;
use utoipa::IntoParams;

/// The form of the answer.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ChangesFormatQuery {
    /// `json`, or `markdown`: a document in which texts of symbols are quoted.
    #[param(max_length = 20, example = "markdown")]
    pub format: Option<String>,
    /// True names the evidence of each sentence of the Markdown in square brackets.
    pub evidence: Option<bool>,
}

problems!(Failures: InvalidParameter, NotFound);

/// Get the changed functions of a group
///
/// Says which functions of the group's stack, with the calls that are inlined there, were edited between the last version without
/// the group and the first with it. Builds are those that stored reports of the versions name. If they cannot be compared, the
/// answer says why. If uploads named the commits of the builds, it has these and a link to their comparison.
#[utoipa::path(get, path = "/v1/groups/{id}/changes", tag = "changes", operation_id = "get_group_changes",
    params(("id" = String, Path, description = "The group's id or short id.", max_length = 64), ChangesFormatQuery),
    responses((status = 200, description = "The functions of the stack.", content(
        (StackChanges = "application/json"), (String = "text/markdown"))), Failures),
    security(("key" = ["reports:read"])))]
pub async fn get_group_changes(
    State(symbolication): State<Arc<Symbolication>>,
    access: Access<ReportsRead>,
    Path(id): Path<GroupRef>,
    Query(query): Query<ChangesFormatQuery>,
) -> Result<Response, Problem> {
    let is_markdown = match query.format.as_deref() {
        None | Some("json") => false,
        Some("markdown") => true,
        Some(_) => return Err(Problem::new(Kind::InvalidParameter, "format: json or markdown")),
    };
    let changes = Box::pin(find_group_changes(&symbolication, &access, &id)).await?;
    if !is_markdown {
        return Ok(Json(changes).into_response());
    }
    let style = if query.evidence == Some(true) { MarkdownStyle::Cited } else { MarkdownStyle::Plain };
    let text = write_changes(&changes, style);
    let reservation = reserve_bytes(&symbolication.capacity.permits, access.tenant(), text.len() as u64)?;
    Ok(ReservedAnswer { bytes: text.into(), reservation }.into_markdown())
}
