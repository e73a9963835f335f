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
/// Returns for each frame its image and slide, the look-up address and the rule that chose it, and the symcache
/// and object that answered; or the reason why none did and the dSYM to upload. For each function of the backtrace
/// that decides the report's group: whether it counts, and if not, why. The explanation uses the current symbols
/// and grouping rules. If they have changed since the report's revision, the answers may differ from it. `unslide
/// explain` shows the same.
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
    let explanation = explain(&api, &access, &id, query.variant.unwrap_or(0), finish).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], explanation).into_response())
}

/// Explains a stored report with the current symbols; `finish` makes the response.
///
/// # Errors
/// Those of [`whole`], or the tenant symbolicates too much.
pub async fn explain(
    api: &Api,
    access: &Access<ReportsRead>,
    id: &str,
    variant: u32,
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
    let symbols = fetch(api, &access.principal, wanted).await?;
    let work = move || {
        let StoredBody { json, mut reservation, .. } = body;
        job_bytes(json.len());
        let (report, rules) = (stored_body::report(&json)?, &symbols.rules.grouping);
        let explanation =
            unslide_symbolicate::explain(&report, &|id| symbols.get(id), rules, &symbols.analyses);
        let explanation = finish(&explanation)?;
        reservation.grow(explanation.len() as u64)?;
        Ok::<_, Problem>(ReservedAnswer { bytes: explanation.into(), reservation })
    };
    api.cpu.run_for(access.tenant(), work).await?
}
