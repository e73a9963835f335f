//! `GET /v1/builds/diff`: which functions differ between two builds.

use crate::comparing::{BuildDiff, diff_builds};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use std::sync::Arc;
use unslide_api::feature::Symbolication;
use unslide_api::feature::operation::{
    Access, Kind, Problem, Query, ReportsRead, check_texts, parse_parameter, problems,
};
use unslide_changes_compare::NAME_CHARS;
use unslide_model::DebugId;
use utoipa::IntoParams;

/// The most bytes of a debug id with its dashes.
const DEBUG_ID_BYTES: usize = 40;

/// The two builds to compare, by debug id.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct BuildDiffQuery {
    /// The debug id of the build before, dashed or not.
    #[param(max_length = 40, example = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0")]
    pub a: String,
    /// The debug id of the build after.
    #[param(max_length = 40, example = "1f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0")]
    pub b: String,
    /// Only the functions with this linkage name, or with this readable name without its parameters.
    #[param(max_length = 1000, example = "Cart::total")]
    pub function: Option<String>,
}

problems!(Failures: InvalidParameter, NotFound);

/// Compare two builds
///
/// Compares the functions of two builds by their symbols: source lines relative to the first one, inlined calls, and bytes of code.
/// A function that is only moved in its file is the same. The build that another compiler or other flags made is said to be one, and
/// none of its functions is listed. Constants, variables and calls that are not inlined are not compared.
#[utoipa::path(get, path = "/v1/builds/diff", tag = "changes", operation_id = "diff_builds",
    params(BuildDiffQuery),
    responses((status = 200, description = "The functions that differ.", body = BuildDiff), Failures),
    security(("key" = ["reports:read"])))]
pub async fn diff_two_builds(
    State(symbolication): State<Arc<Symbolication>>,
    access: Access<ReportsRead>,
    Query(query): Query<BuildDiffQuery>,
) -> Result<Json<BuildDiff>, Problem> {
    check_texts(Kind::InvalidParameter, DEBUG_ID_BYTES, [("a", Some(&*query.a)), ("b", Some(&*query.b))])?;
    check_texts(Kind::InvalidParameter, NAME_CHARS, [("function", query.function.as_deref())])?;
    let [a, b]: [DebugId; 2] = [parse_parameter("a", &query.a)?, parse_parameter("b", &query.b)?];
    Ok(Json(diff_builds(&symbolication, &access, [a, b], query.function).await?))
}
