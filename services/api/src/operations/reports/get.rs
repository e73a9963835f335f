//! `GET /v1/reports/{id}`.

use super::load::{body_of, find_report};
use super::markdown::answer_markdown;
use super::schemas::EnrichedReport;
use crate::http::answers::ReservedAnswer;
use crate::limits::slot::RequestSlot;
use crate::operations::prelude::*;
use crate::reports::stored_body::{self, StoredBody};
use crate::requests::accept::{Representation, choose_representation, choose_style};
use crate::requests::wait::Wait;
use crate::storage::transactions::Tx;
use axum::Extension;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use std::time::Duration;
use time::format_description::well_known::Rfc3339;
use unslide_report::reader::is_json;
use unslide_store::TenantTx;
use unslide_store::queries::duplicates;
use unslide_store::queries::report::FoundReport;

/// The longest wait for a report.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Which report of an id.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct VariantQuery {
    /// Index of the report, from 0, if several reports with different bytes have the same id.
    pub variant: Option<u32>,
}

/// Which report of an id, and how long to wait for it.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GetQuery {
    /// Index of the report, from 0, if several reports with different bytes have the same id.
    pub variant: Option<u32>,
    /// Wait for the report to be stored for this long at most, such as `10s` or `500ms`; a bare number
    /// counts seconds. At most 30 seconds. The answer comes as soon as the report is there.
    #[param(example = "10s", pattern = "^[0-9]{1,6}(ms|s)?$")]
    pub wait: Option<String>,
    /// `json`, `text` or `markdown`, as `Accept: application/json`, `text/plain` and `text/markdown`. It is preferred to the
    /// header.
    #[param(example = "markdown")]
    pub format: Option<String>,
    /// True names the evidence of each sentence of the Markdown in square brackets.
    pub evidence: Option<bool>,
}

problems!(Failures: InvalidParameter, NotFound, NotAcceptable, BodyNotKept);

/// Read a report
///
/// Returns the report of the device, byte for byte, with Unslide's `symbolication` members in it; or with
/// `Accept: text/plain` an Apple-style crash log, or with `format=markdown` a description, in which texts
/// of devices are quoted. The `ETag` changes with each revision, and when the tenant turns an analysis on or
/// off. With `wait`, the request waits for a report that is not stored yet.
#[utoipa::path(get, path = "/v1/reports/{id}", tag = "reports", operation_id = "get_report",
    params(("id" = String, Path, description = "The report's id."), GetQuery,
        ("accept" = Option<String>, Header, description = "`application/json`, `text/plain` or `text/markdown`."),
        ("if-none-match" = Option<String>, Header, description = "The `ETag` of the copy that the client has.")),
    responses(
        (status = 200, description = "The report.",
            headers(("etag" = String, description = "Changes with each revision, and with the switches of analyses."),
                ("x-report-revision" = u32, description = "The revision, from 1."),
                ("x-report-variants" = u32, description = "How many reports have this id."),
                ("x-report-duplicates" = u64, description = "Number of times that the same report arrived again."),
                ("x-report-last-duplicate" = String, description = "When the same report arrived again last; absent if it did not.")),
            content((EnrichedReport = "application/json"), (Vec<u8> = "application/octet-stream"), (String = "text/plain"), (String = "text/markdown"))),
        (status = 304, description = "The client's copy is the present one."), Failures),
    security(("key" = ["reports:read"])))]
pub async fn get_report(
    State(symbolication): State<Arc<Symbolication>>,
    access: Access<ReportsRead>,
    Extension(slot): Extension<RequestSlot>,
    Path(id): Path<String>,
    Query(query): Query<GetQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let form = choose_representation(query.format.as_deref(), &headers)?;
    let wait = Wait::new(slot, query.wait.as_deref(), LONGEST_WAIT)?;
    let variant = query.variant.unwrap_or(0);
    let (mut tx, found) = find_within(&symbolication.storage, &access, &id, variant, wait).await?;
    if form == Representation::Markdown {
        let (found, body) = body_of(&symbolication, &access, &id, variant, tx, found).await?;
        return answer_markdown(&symbolication, &access, found, body, choose_style(query.evidence)).await;
    }
    let again = again_headers(&mut tx, &found).await?;
    if has_copy(&headers, &entity_tag(&symbolication, &found, form)) {
        return Ok(
            (StatusCode::NOT_MODIFIED, again, answer_headers(&symbolication, &found, form)?).into_response()
        );
    }
    // The body may be of a newer revision: it says which one it is.
    let (found, body) = body_of(&symbolication, &access, &id, variant, tx, found).await?;
    let body = symbolication.capacity.cpu.run_for(access.tenant(), move || render_body(body, form)).await??;
    let named = [(header::CONTENT_TYPE, form.answer_type(body.document.as_deref().is_none_or(is_json)))];
    let bytes = body.document.unwrap_or(body.json);
    let body = ReservedAnswer { bytes: bytes.into(), reservation: body.reservation };
    Ok((again, answer_headers(&symbolication, &found, form)?, named, body).into_response())
}

/// Returns the tag of an answer. The size is part of it, because texts of a revision may be removed, and so are analyses that are off
/// for the tenant, because their members are hidden.
fn entity_tag(symbolication: &Symbolication, found: &FoundReport, form: Representation) -> String {
    let parts = [&format!("{}.{}", found.listed.revision, found.size), form.name()];
    let off = symbolication.analyses.iter().filter(|analysis| !analysis.is_enabled(&found.analysis_switches));
    let names = off.map(|analysis| analysis.name);
    format!("\"{}\"", parts.into_iter().chain(names).collect::<Vec<_>>().join("-"))
}

type AnswerHeaders = [(header::HeaderName, HeaderValue); 4];

fn answer_headers(
    symbolication: &Symbolication,
    found: &FoundReport,
    form: Representation,
) -> Result<AnswerHeaders, Problem> {
    let revision = found.listed.revision;
    Ok([
        (
            header::ETAG,
            HeaderValue::from_str(&entity_tag(symbolication, found, form)).map_err(Problem::internal)?,
        ),
        (header::VARY, HeaderValue::from_static("accept, authorization")),
        (header::HeaderName::from_static("x-report-revision"), HeaderValue::from(revision)),
        (header::HeaderName::from_static("x-report-variants"), HeaderValue::from(found.variants)),
    ])
}

/// Returns headers with the number of duplicates of the report, and the time of the last one.
async fn again_headers(tx: &mut Tx<TenantTx>, found: &FoundReport) -> Result<HeaderMap, Problem> {
    let again = duplicates::count_duplicates(tx, found.listed.report_id, found.listed.variant).await?;
    let mut headers = HeaderMap::new();
    headers.insert("x-report-duplicates", HeaderValue::from(again.count));
    if let Some(last) = again.last.and_then(|last| last.format(&Rfc3339).ok()) {
        headers.insert("x-report-last-duplicate", HeaderValue::from_str(&last).map_err(Problem::internal)?);
    }
    Ok(headers)
}

/// Calls [`find_report`] until the report is stored or the time is over. Holds no database connection between two
/// attempts.
///
/// # Errors
/// Those of [`find_report`] once the time is over; or too many requests wait.
async fn find_within(
    storage: &Storage,
    access: &Access<ReportsRead>,
    id: &str,
    variant: u32,
    mut wait: Wait,
) -> Result<(Tx<TenantTx>, FoundReport), Problem> {
    loop {
        match find_report(storage, access, id, variant).await {
            Err(problem) if problem.kind() == Kind::NotFound && !wait.is_over() => {}
            found => return found,
        }
        wait.wait_for_check(&storage.capacity, access.tenant()).await?;
    }
}

fn render_body(body: StoredBody, form: Representation) -> Result<StoredBody, Problem> {
    match form {
        Representation::Json => Ok(body),
        Representation::Text | Representation::Markdown => {
            let StoredBody { json, mut reservation, .. } = body;
            let report = stored_body::read_report(&json)?;
            let text = unslide_report::text::apple_log(&report).into_bytes();
            reservation.reserve_more(text.len() as u64)?;
            Ok(StoredBody { json: text, document: None, reservation })
        }
    }
}

/// Returns true if `If-None-Match` names this tag (RFC 9110 §13.1.2, weak comparison).
pub fn has_copy(headers: &HeaderMap, tag: &str) -> bool {
    let named = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = named.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|named| named == "*" || named.strip_prefix("W/").unwrap_or(named) == tag)
}
