//! `POST /v1/symbolicate`.

use super::schemas::{CrashReport, EnrichedReport};
use crate::http::answers::{self, ReservedAnswer};
use crate::limits::charge::Charge;
use crate::limits::permits::Reservation;
use crate::operations::prelude::*;
use crate::reports::image_symbols::{SymbolsOfReport, symbolication_rules};
use crate::requests::accept::{Representation, negotiate_representation};
use crate::requests::body::{Chunks, packed_limit, unpack_body};
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, header};
use unslide_model::TenantId;
use unslide_report::markdown::{MarkdownStyle, markdown_report};
use unslide_report::reader::ReportDocument;
use unslide_report::{ReadError, ReadLimits, Report};
use unslide_runtime::job_bytes;
use unslide_symbolicate::{Context, Plan, SymbolNeed};

problems!(Failures: InvalidBody, InvalidReport, NotAReport, IncompleteBody, BodyTimeout, TooLarge, NotAcceptable, RateLimited);

/// Bytes of a response for each byte of the largest allowed report.
const ANSWER_FACTOR: usize = 4;

/// Symbolicate one report
///
/// Takes one KSCrash report or one crash log of Apple's (`.ips`), gzipped or not, and returns it enriched in its own
/// form; or with `Accept: text/plain` an Apple-style crash log. Nothing is stored, nothing is sent to Kafka, and the
/// report waits for no symbols. New symbols count as soon as this process reads their event, usually within a second of
/// `ready`; without Kafka, within a minute. A very large answer leaves out details of threads that did not crash, and
/// then of all frames; then `symbolication.truncated` is set. A request costs one unit, and one more for each 64 KiB of
/// the unpacked report; a tenant that exceeds its units per second gets 429 with `Retry-After`.
#[utoipa::path(post, path = "/v1/symbolicate", tag = "reports", operation_id = "symbolicate",
    params(("accept" = Option<String>, Header, description = "`application/json`, `text/plain` or `text/markdown`.")),
    request_body(description = "The report.", content(
        (CrashReport = "application/json", example = json!({"report": {"id": "2f1c9a0e-5d6b-4c38-9b7e-0a1d2c3b4a59"}, "binary_images": [], "crash": {"threads": []}})),
        (Vec<u8> = "application/gzip"))),
    responses((status = 200, description = "The enriched report.",
        content((EnrichedReport = "application/json"), (Vec<u8> = "application/octet-stream"), (String = "text/plain"), (String = "text/markdown"))), Failures),
    security(("key" = ["symbols:read"])))]
pub async fn symbolicate(
    State(symbolication): State<Arc<Symbolication>>,
    access: Access<SymbolsRead>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let form = negotiate_representation(&headers)?;
    let limit = symbolication.capacity.limits.report_bytes;
    let mut charge = Charge::for_symbolication(&symbolication.capacity, access.tenant())?;
    let mut reserved = Reservation::new(&symbolication.capacity.permits.bodies, access.tenant(), 0)?;
    let body =
        Chunks::new(&headers, body, packed_limit(limit as u64), symbolication.capacity.limits.client_pace())?
            .collect_body(&mut reserved)
            .await?;
    let app = access.principal.app.clone();
    let rules = symbolication_rules(&symbolication, &access.principal).await?;
    let request = DocumentRequest {
        symbolication: symbolication.clone(),
        tenant: access.tenant().clone(),
        limit,
        form,
    };
    let first = request.clone();
    let work = move || {
        charge.charge_received(body.len() as u64)?;
        let body = unpack_body(&body, limit as u64, &mut reserved, &mut charge)?;
        job_bytes(body.len());
        let document = first.open(&body)?;
        let report = first.read(&document)?;
        if let Some(app) = app.filter(|app| report.summary().app.as_ref() != Some(app)) {
            let detail = format!("the key is valid for the app {app} only, and the report is of another app");
            return Err(Problem::new(Kind::InsufficientScope, detail));
        }
        let plan = Plan::new(&report);
        let (cached, cold) =
            SymbolsOfReport::from_cache(&first.symbolication, &first.tenant, plan.list_needs(), rules);
        let cached = cached.with_derived(&first.symbolication, &first.tenant, plan.find_crashed_image());
        // Usually nothing has to be fetched, and the report is read once.
        let step = match cached.is_complete(&cold) {
            true => Step::Answered(first.answer(&document, &plan, &cached)?),
            false => Step::Wants(body.clone(), cached, cold),
        };
        Ok::<_, Problem>((step, reserved))
    };
    let (step, reserved) = symbolication.capacity.cpu.run_for(access.tenant(), work).await??;
    let answer = match step {
        Step::Answered(answer) => answer,
        Step::Wants(body, cached, cold) => {
            let symbols = cached.fetch_rest(&symbolication, &request.tenant, cold).await;
            let work = move || {
                job_bytes(body.len());
                let document = request.open(&body)?;
                let report = request.read(&document)?;
                request.answer(&document, &Plan::new(&report), &symbols)
            };
            symbolication.capacity.cpu.run_for(access.tenant(), work).await??
        }
    };
    let DocumentAnswer { bytes, media_type } = answer;
    let reservation =
        answers::reserve_bytes(&symbolication.capacity.permits, access.tenant(), bytes.len() as u64)?;
    drop(reserved);
    let answer = ReservedAnswer { bytes: bytes.into(), reservation };
    Ok(([(header::CONTENT_TYPE, media_type)], answer).into_response())
}

/// Progress of a report without waiting.
enum Step {
    Answered(DocumentAnswer),
    /// The body, the cached symbols, and the symbols to fetch.
    Wants(Bytes, SymbolsOfReport, Vec<SymbolNeed>),
}

/// The bytes of an answer.
struct DocumentAnswer {
    bytes: Vec<u8>,
    media_type: &'static str,
}

/// A request for the answer to one document.
#[derive(Clone)]
struct DocumentRequest {
    symbolication: Arc<Symbolication>,
    tenant: TenantId,
    /// The maximum size of a report, in bytes.
    limit: usize,
    form: Representation,
}

impl DocumentRequest {
    fn limits(&self) -> ReadLimits {
        ReadLimits { max_bytes: self.limit, ..ReadLimits::default() }
    }

    fn open<'b>(&self, body: &'b Bytes) -> Result<ReportDocument<'b>, Problem> {
        self.symbolication.readers.open(body, &self.limits()).map_err(|error| refused(&error))
    }

    fn read<'d>(&self, document: &'d ReportDocument<'_>) -> Result<Report<'d>, Problem> {
        Report::read_event(document.json(), &self.limits()).map_err(|error| refused(&error))
    }

    fn answer(
        &self,
        document: &ReportDocument<'_>,
        plan: &Plan<'_, '_>,
        symbols: &SymbolsOfReport,
    ) -> Result<DocumentAnswer, Problem> {
        let most_bytes = Some(self.limit.saturating_mul(ANSWER_FACTOR));
        let derived = symbols.list_derived();
        let context = Context {
            derived: &derived,
            tenant: Some(&self.tenant),
            rules: Some(&symbols.rules.grouping),
            analyses: &symbols.analyses,
            most_bytes,
            ..Context::default()
        };
        let enriched = plan.enrich_within(&|id| symbols.get(id), &context);
        let bytes = match self.form {
            Representation::Json => document.write(enriched.bytes).map_err(Problem::internal)?,
            Representation::Text => {
                let report = Report::read_stored(&enriched.bytes).map_err(Problem::internal)?;
                unslide_report::text::apple_log(&report).into_bytes()
            }
            Representation::Markdown => {
                let report = Report::read_stored(&enriched.bytes).map_err(Problem::internal)?;
                markdown_report(&report, MarkdownStyle::Plain).into_bytes()
            }
        };
        Ok(DocumentAnswer { bytes, media_type: self.form.answer_type(document.is_json()) })
    }
}

fn refused(error: &ReadError) -> Problem {
    Problem::new(Kind::from_read_error(error), format!("{error} ({})", error.reason()))
}
