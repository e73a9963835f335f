//! `GET /v1/reports/{id}/profile`.

use super::load::load_report;
use crate::http::answers::ReservedAnswer;
use crate::operations::prelude::*;
use crate::reports::sampled::{load_profile, no_profile};
use crate::reports::stored_body::{self, StoredBody};
use axum::response::{IntoResponse, Response};
use http::header;
use unslide_calltree::CutTree;
use unslide_calltree::{ReportTree, report_tree};

/// Maximum size of folded stacks, and of the JSON: 4,000 nodes and 1 MiB of names, which may be escaped.
const MOST_FOLDED_BYTES: usize = 4 << 20;
const MOST_JSON_BYTES: u64 = 8 << 20;

/// Which report of an id, and in what form its profile comes.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ProfileQuery {
    /// Index of the report, from 0, if several reports with different bytes have the same id.
    pub variant: Option<u32>,
    /// `json`, or `folded`: a line for each stack, for flame graph tools. Beyond 4 MiB the last line is `(left out) N`.
    #[param(example = "json")]
    pub format: Option<String>,
}

/// Sampled stacks of a report, with the time that each took.
#[derive(Debug, Serialize, ToSchema)]
pub struct SampledProfile {
    /// The app's name for the profile; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Duration of the hang or of the sample in milliseconds; absent if the report has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Samples and frames that were left out, because they are too many, too deep, or refer to nothing.
    pub skipped: u64,
    /// The 4,000 heaviest nodes of the call tree, callers before what they call.
    #[schema(value_type = Object)]
    pub tree: CutTree,
}

problems!(Failures: InvalidParameter, NotFound, BodyNotKept);

/// Read the profile of a report
///
/// Returns the call tree of the samples of a hang, of CPU use, of disk writes or of a launch, with the samples of
/// each function. A hang without a profile has its single stack.
#[utoipa::path(get, path = "/v1/reports/{id}/profile", tag = "reports", operation_id = "get_report_profile",
    params(("id" = String, Path, description = "The report's id."), ProfileQuery),
    responses((status = 200, description = "The profile.", content(
        (SampledProfile = "application/json"), (String = "text/plain"))), Failures),
    security(("key" = ["reports:read"])))]
pub async fn get_report_profile(
    State(symbolication): State<Arc<Symbolication>>,
    access: Access<ReportsRead>,
    Path(id): Path<String>,
    Query(query): Query<ProfileQuery>,
) -> Result<Response, Problem> {
    let folded = match query.format.as_deref() {
        None | Some("json") => false,
        Some("folded") => true,
        Some(_) => return Err(Problem::new(Kind::InvalidParameter, "format: json or folded")),
    };
    let (_, body) = load_report(&symbolication, &access, &id, query.variant.unwrap_or(0)).await?;
    let work = move || {
        let StoredBody { json, mut reservation, .. } = body;
        let report = stored_body::read_report(&json)?;
        let profile = load_profile(&report, &mut reservation)?.ok_or_else(no_profile)?;
        let ReportTree { tree, skipped, .. } = report_tree(&report, &profile);
        let bytes = if folded {
            reservation.reserve_more(2 * MOST_FOLDED_BYTES as u64)?;
            tree.folded_within(MOST_FOLDED_BYTES).into_bytes()
        } else {
            reservation.reserve_more(MOST_JSON_BYTES)?;
            let duration_ms = report.duration_millis().or(profile.millis);
            let answer = SampledProfile {
                name: profile.name.clone(),
                duration_ms,
                skipped,
                tree: CutTree::from_tree(&tree),
            };
            serde_json::to_vec(&answer).map_err(Problem::internal)?
        };
        Ok::<_, Problem>(ReservedAnswer { bytes: bytes.into(), reservation })
    };
    let answer = symbolication.capacity.cpu.run_for(access.tenant(), work).await??;
    let media_type = if folded { "text/plain; charset=utf-8" } else { "application/json" };
    Ok(([(header::CONTENT_TYPE, media_type)], answer).into_response())
}
