//! `GET /v1/reports/{id}/explain`.

use super::get::{VariantQuery, whole};
use super::symbolication_rate;
use crate::access::{Access, ReportsRead};
use crate::image_symbols::{Fetched, fetch};
use crate::input::{Path, Query};
use crate::problem::{Problem, problems};
use crate::state::Api;
use crate::stored_body::StoredBody;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header;
use unslide_report::{ReadLimits, Report};

problems!(Failures: InvalidParameter, NotFound, RateLimited);

/// Explain a report's answers
///
/// For each frame: its image and slide, the look-up address and the rule that chose it, and which
/// symcache and object answered, or why none did. The report is looked at with the symbols of now:
/// where they have changed since its revision, so may the answers.
#[utoipa::path(get, path = "/v1/reports/{id}/explain", tag = "reports", operation_id = "explain_report",
    params(("id" = String, Path, description = "The report's id."), VariantQuery),
    responses((status = 200, description = "The reasoning: `images` with their symcaches, and `backtraces` with their frames.",
        body = serde_json::Value, content_type = "application/json"), Failures),
    security(("key" = ["reports:read"])))]
pub async fn explain_report(
    State(api): State<Api>,
    access: Access<ReportsRead>,
    Path(id): Path<String>,
    Query(query): Query<VariantQuery>,
) -> Result<Response, Problem> {
    symbolication_rate(&api, &access)?;
    let (_, body) = whole(&api, &access, &id, &query).await?;
    let (body, wanted) = api
        .cpu
        .run(move || {
            let wanted = unslide_symbolicate::needs(&read(&body.json)?);
            Ok::<_, Problem>((body, wanted))
        })
        .await??;
    let symbols = fetch(&api, access.tenant(), wanted).await?;
    let work = move || {
        let StoredBody { json, mut room } = body;
        let explanation = explained(&json, &symbols)?;
        room.grow(explanation.len() as u64)?;
        Ok::<_, Problem>(room.hold(explanation))
    };
    let explanation = api.cpu.run(work).await??;
    Ok(([(header::CONTENT_TYPE, "application/json")], explanation).into_response())
}

fn read(body: &[u8]) -> Result<Report<'_>, Problem> {
    let limits = ReadLimits { max_bytes: usize::MAX, ..ReadLimits::default() };
    Report::read(body, &limits).map_err(Problem::internal)
}

fn explained(body: &[u8], symbols: &Fetched) -> Result<Vec<u8>, Problem> {
    let report = read(body)?;
    let explanation = unslide_symbolicate::explain(&report, &|id| symbols.get(id));
    serde_json::to_vec(&explanation).map_err(Problem::internal)
}
