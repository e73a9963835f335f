//! `GET /v1/reports/{id}/explain`.

use super::get::{VariantQuery, whole};
use super::schemas::ExplanationSchema;
use crate::limits::answers::ReservedAnswer;
use crate::limits::charge::Charge;
use crate::operations::prelude::*;
use crate::reports::image_symbols::fetch;
use crate::reports::stored_body::{self, StoredBody};
use axum::response::{IntoResponse, Response};
use http::header;
use unslide_runtime::job_bytes;
use unslide_symbolicate::Explanation;

problems!(Failures: InvalidParameter, NotFound, RateLimited);

/// Explain a report's answers
///
/// For each frame: its image and slide, the look-up address and the rule that chose it, and which
/// symcache and object answered, or why none did and which dSYM to upload. For each function of the backtrace that
/// the report's group goes by: whether it counts, and why not. The report is looked at with the symbols and the
/// grouping rules of now: where they have changed since its revision, so may the answers.
/// `unslide explain` shows the same.
#[utoipa::path(get, path = "/v1/reports/{id}/explain", tag = "reports", operation_id = "explain_report",
    params(("id" = String, Path, description = "The report's id."), VariantQuery),
    responses((status = 200, description = "The reasoning: `images` with their symcaches, and `backtraces` with their frames.",
        body = ExplanationSchema, content_type = "application/json"), Failures),
    security(("key" = ["reports:read"])))]
pub async fn explain_report(
    State(api): State<Api>,
    access: Access<ReportsRead>,
    Path(id): Path<String>,
    Query(query): Query<VariantQuery>,
) -> Result<Response, Problem> {
    let finish = |explanation: &Explanation| serde_json::to_vec(explanation).map_err(Problem::internal);
    let explanation = explain(&api, &access, (&id, query.variant.unwrap_or(0)), finish).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], explanation).into_response())
}

/// Explains a stored report with the current symbols; `finish` makes the response.
///
/// # Errors
/// Those of [`whole`], or the tenant symbolicates too much.
pub async fn explain(
    api: &Api,
    access: &Access<ReportsRead>,
    (id, variant): (&str, u32),
    finish: impl FnOnce(&Explanation) -> Result<Vec<u8>, Problem> + Send + 'static,
) -> Result<ReservedAnswer, Problem> {
    let mut charge = Charge::of_symbolication(api, access.tenant())?;
    let (_, body) = whole(api, access, id, variant).await?;
    charge.unpacked(body.json.len() as u64)?;
    let (body, wanted) = api
        .cpu
        .run_for(access.tenant(), move || {
            job_bytes(body.json.len());
            let wanted = unslide_symbolicate::needs(&stored_body::report(&body.json)?);
            Ok::<_, Problem>((body, wanted))
        })
        .await??;
    let symbols = fetch(api, access.tenant(), wanted).await?;
    let work = move || {
        let StoredBody { json, mut reservation, .. } = body;
        job_bytes(json.len());
        let explanation =
            unslide_symbolicate::explain(&stored_body::report(&json)?, &|id| symbols.get(id), &symbols.rules);
        let explanation = finish(&explanation)?;
        reservation.grow(explanation.len() as u64)?;
        Ok::<_, Problem>(ReservedAnswer { bytes: explanation.into(), reservation })
    };
    api.cpu.run_for(access.tenant(), work).await?
}
