//! `GET /v1/reports/{id}/explain`.

use super::get::VariantQuery;
use super::load::load_report;
use super::schemas::ExplanationSchema;
use crate::http::answers::ReservedAnswer;
use crate::limits::charge::Charge;
use crate::operations::prelude::*;
use crate::reports::image_symbols::fetch_symbols;
use crate::reports::stored_body::{self, StoredBody};
use axum::response::{IntoResponse, Response};
use http::header;
use unslide_model::DebugId;
use unslide_runtime::job_bytes;
use unslide_store::list_lookups;
use unslide_store::symbol_lookups::SymbolLookup;
use unslide_symbolicate::{Explanation, Plan};

problems!(Failures: InvalidParameter, NotFound, RateLimited, BodyNotKept);

/// Images of which look-ups are listed: more than any report has frames in.
const MOST_LOOKUP_IDS: usize = 1_000;

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
    State(symbolication): State<Arc<Symbolication>>,
    access: Access<ReportsRead>,
    Path(id): Path<String>,
    Query(query): Query<VariantQuery>,
) -> Result<Response, Problem> {
    let finish = |explanation: &Explanation, lookups: &[SymbolLookup]| {
        serde_json::to_vec(&ExplanationWithLookups { explanation, lookups }).map_err(Problem::internal)
    };
    let explanation =
        explain_stored(&symbolication, &access, &id, query.variant.unwrap_or(0), finish).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], explanation).into_response())
}

/// An explanation, and where else the symbols of its images were looked for.
#[derive(Serialize)]
struct ExplanationWithLookups<'e> {
    #[serde(flatten)]
    explanation: &'e Explanation,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    lookups: &'e [SymbolLookup],
}

/// Explains a stored report with the current symbols; `finish` makes the response, with the look-ups of symbols beside uploads.
///
/// # Errors
/// Those of [`load_report`], or the tenant symbolicates too much.
pub async fn explain_stored(
    symbolication: &Symbolication,
    access: &Access<ReportsRead>,
    id: &str,
    variant: u32,
    finish: impl FnOnce(&Explanation, &[SymbolLookup]) -> Result<Vec<u8>, Problem> + Send + 'static,
) -> Result<ReservedAnswer, Problem> {
    let mut charge = Charge::for_symbolication(&symbolication.capacity, access.tenant())?;
    let (_, body) = load_report(symbolication, access, id, variant).await?;
    charge.charge_unpacked(body.json.len() as u64)?;
    let (body, wanted, crashed) = symbolication
        .capacity
        .cpu
        .run_for(access.tenant(), move || {
            job_bytes(body.json.len());
            let report = stored_body::read_report(&body.json)?;
            let plan = Plan::new(&report);
            let (wanted, crashed) = (plan.list_needs(), plan.find_crashed_image());
            Ok::<_, Problem>((body, wanted, crashed))
        })
        .await??;
    let mut tx = symbolication.storage.tenant(access.tenant()).await?;
    let debug_ids: Vec<DebugId> = wanted.iter().take(MOST_LOOKUP_IDS).map(|need| need.debug_id).collect();
    let lookups = list_lookups(&mut tx, &debug_ids).await?;
    tx.rollback();
    let symbols = fetch_symbols(symbolication, &access.principal, wanted, crashed).await?;
    let work = move || {
        let StoredBody { json, mut reservation, .. } = body;
        job_bytes(json.len());
        let (report, rules) = (stored_body::read_report(&json)?, &symbols.rules.grouping);
        let explanation = unslide_symbolicate::explain_with_derived(
            &report,
            &|id| symbols.get(id),
            rules,
            &symbols.analyses,
            &symbols.list_derived(),
        );
        let explanation = finish(&explanation, &lookups)?;
        reservation.reserve_more(explanation.len() as u64)?;
        Ok::<_, Problem>(ReservedAnswer { bytes: explanation.into(), reservation })
    };
    symbolication.capacity.cpu.run_for(access.tenant(), work).await?
}
