//! `POST /v1/reports`.

use super::schemas::CrashReports;
use crate::http::trace::TraceContext;
use crate::limits::charge::Charge;
use crate::limits::permits::Reservation;
use crate::operations::prelude::*;
use crate::reports::ingest::{
    BodyForm, Bounds, ReadBudget, ReceivedReport, RefuseApp, ReportScope, list_refused, no_report,
    read_reports,
};
use crate::requests::body::{self, Chunks};
use crate::requests::records::RecordMaker;
use crate::requests::refused::{RefusedElement, wants_all_or_nothing};
use crate::uploads::multipart;
use axum::Extension;
use axum::body::{Body, Bytes};
use http::{HeaderMap, header};
use unslide_model::ReportId;
use unslide_report::ReadLimits;
use unslide_stream::OutRecord;

/// Counts of reports that the broker has accepted.
#[derive(Debug, Serialize, ToSchema)]
pub struct SentReports {
    /// Number of accepted reports.
    #[schema(minimum = 1)]
    pub accepted: usize,
    /// Each of them, in the order of the request.
    pub reports: Vec<SentReport>,
    /// The reports that were refused while these were accepted.
    pub refused: Vec<RefusedElement>,
}

/// One report that the broker has accepted.
#[derive(Debug, Serialize, ToSchema)]
pub struct SentReport {
    /// The report's id, under which `GET /v1/reports/{id}` answers once it is symbolicated: its own
    /// `report.id`, or one made from its bytes. Absent for a rendered log, which is kept but cannot be symbolicated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Uuid)]
    pub id: Option<ReportId>,
}

problems!(Failures: InvalidParameter, InvalidBody, InvalidReport, NotAReport, IncompleteBody, BodyTimeout, TooLarge, UnsupportedFormat, RateLimited);

/// Send reports
///
/// Takes KSCrash reports as an SDK sends them: one JSON object, an array, one a line (NDJSON), each also
/// packed with gzip or zstd (detected by its first bytes), or any of these in multipart/form-data. A crash log of
/// Apple's (`.ips`) is taken like a report, one in a request or in a part. A zip archive of such files, such as an
/// `.xccrashpoint`, is a report of each file; `detail` of a refused one begins with its path. An object that has neither `crash` nor
/// `recrash_report`, and is not about memory or a hang, is no report. The reports go to Kafka
/// byte for byte; the answer comes when the broker has all of them. A failed request may be sent again: the same
/// report twice is one report.
///
/// A report that can't be read, is over the tenant's `report_bytes` or is of another app than the key's refuses no other:
/// `refused` lists it, and it becomes a dead letter with the same reason. If no report is accepted, the answer is the
/// problem of the first, and nothing is kept. With `Prefer: handling=strict` one such report refuses the whole request.
///
/// A request costs one unit for each report in it, and one for each 64 KiB of the body, as sent or unpacked,
/// whichever is more. A tenant that uses more than its `units_per_second` gets 429 with `Retry-After`.
#[utoipa::path(post, path = "/v1/reports", tag = "reports", operation_id = "send_reports",
    params(("content-encoding" = Option<String>, Header, description = "`gzip` or `zstd`. The first bytes of a packed body say it as well."),
        ("prefer" = Option<String>, Header, description = "`handling=strict`: accept all reports or none.")),
    request_body(description = "One report or many.", content(
        (CrashReports = "application/json", example = json!({"report": {"id": "2f1c9a0e-5d6b-4c38-9b7e-0a1d2c3b4a59", "version": "3.6.0"}, "binary_images": [], "crash": {"threads": []}})),
        (String = "application/x-ndjson"), (Vec<u8> = "application/gzip"), (Vec<u8> = "application/octet-stream"), (Vec<u8> = "multipart/form-data"))),
    responses((status = 202, description = "The broker has all reports, with the reason of each that is refused.",
        headers(("location" = String, description = "The path of the report, once it is symbolicated; only if the request holds one report that has an id.")),
        body = SentReports), Failures),
    security(("key" = ["reports:write"])))]
pub async fn send_reports(
    State(broker): State<Arc<Broker>>,
    State(symbolication): State<Arc<Symbolication>>,
    access: Access<ReportsWrite>,
    Extension(trace): Extension<TraceContext>,
    headers: HeaderMap,
    body: Body,
) -> Result<AcceptedResponse<SentReports>, Problem> {
    broker.check_topics()?;
    let form = parse_body_form(&headers)?;
    let limits = &broker.capacity.limits;
    let chunks = Chunks::new(&headers, body, limits.ingest_bytes, limits.client_pace())?;
    let limit = report_limit(&broker.capacity, &access);
    // A tenant that is over its rate is refused before its body is read.
    let own = access.principal.limits.units_per_second;
    let mut charge = Charge::for_reports(&broker.capacity, access.tenant(), own)?;
    let mut reserved = Reservation::new(&broker.capacity.permits.bodies, access.tenant(), 0)?;
    let body = chunks.collect_body(&mut reserved).await?;
    let bounds = Bounds {
        unpacked: limits.ingest_unpacked_bytes,
        reports: limits.ingest_reports,
        report: ReadLimits { max_bytes: limit, ..ReadLimits::default() },
    };
    let (maker, is_strict) = (broker.clone(), wants_all_or_nothing(&headers));
    let (tenant, app) = (access.tenant().clone(), access.principal.app.clone());
    let work = move |body: Bytes| {
        charge.charge_received(body.len() as u64)?;
        let refuse_app = app.map(|own| move |found: Option<&str>| refuse_other_app(&own, found));
        let refuse_app = refuse_app.as_ref().map(|refuse_app| refuse_app as &RefuseApp<'_>);
        let scope = ReportScope { refuse_app, readers: &symbolication.readers };
        let mut budget = ReadBudget { reserved, charge };
        let reports = read_reports(&body, &form, &bounds, &scope, &mut budget)?;
        check_reports(&reports, is_strict)?;
        budget.charge.charge_reports(reports.len())?;
        let topic = maker.topics.input.as_str().into();
        let maker =
            RecordMaker { broker: &maker, tenant: &tenant, sender: "", sender_key: None, trace, topic };
        let records: Vec<OutRecord> = reports.iter().map(|report| report.build_record(&maker)).collect();
        Ok::<_, Problem>((reports, records, budget.reserved))
    };
    let (reports, records, reserved) = body::read_body(&broker.capacity, access.tenant(), body, work).await?;
    broker.producer.send_all(&records).await?;
    drop(reserved);
    let refused = list_refused(&reports);
    let reports: Vec<SentReport> = reports.iter().filter_map(sent_report).collect();
    broker.metrics.count_reports(reports.len());
    let location = match reports.as_slice() {
        [SentReport { id: Some(id) }] => Some(format!("/v1/reports/{id}")),
        _ => None,
    };
    Ok(AcceptedResponse { body: SentReports { accepted: reports.len(), reports, refused }, location })
}

/// Refuses a request without an accepted report, and one with a refused report if all or none are to be accepted.
fn check_reports(reports: &[ReceivedReport], is_strict: bool) -> Result<(), Problem> {
    let is_accepted = |report: &ReceivedReport| matches!(report, ReceivedReport::Accepted(_));
    if !is_strict && reports.iter().any(is_accepted) {
        return Ok(());
    }
    let refused = reports.iter().find_map(|report| match report {
        ReceivedReport::Refused(refused) => Some(refused.to_problem()),
        ReceivedReport::Accepted(_) => None,
    });
    match refused {
        Some(problem) => Err(problem),
        None if reports.is_empty() => Err(no_report()),
        None => Ok(()),
    }
}

/// Returns why a key for one app does not cover another.
fn refuse_other_app(own: &str, found: Option<&str>) -> Option<String> {
    (found != Some(own))
        .then(|| format!("the key is valid for the app {own} only, and the report is of another app"))
}

fn sent_report(report: &ReceivedReport) -> Option<SentReport> {
    match report {
        ReceivedReport::Accepted(report) => Some(SentReport { id: report.id }),
        ReceivedReport::Refused(_) => None,
    }
}

/// Returns the maximum size of one report of the tenant, in bytes.
fn report_limit(capacity: &Capacity, access: &Access<ReportsWrite>) -> usize {
    let service = capacity.limits.report_bytes;
    match usize::try_from(access.principal.limits.report_bytes) {
        Ok(own @ 1..) => own.min(service),
        _ => service,
    }
}

fn parse_body_form(headers: &HeaderMap) -> Result<BodyForm, Problem> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    for coding in text(header::CONTENT_ENCODING).split(',').map(str::trim) {
        // The bytes themselves show whether they are packed.
        if !["", "gzip", "x-gzip", "zstd", "identity"].iter().any(|known| coding.eq_ignore_ascii_case(known))
        {
            return Err(Problem::new(
                Kind::UnsupportedFormat,
                format!("content-encoding: {coding} is not supported; use gzip or zstd"),
            ));
        }
    }
    if let Some(boundary) = multipart::parse_boundary(headers, Kind::InvalidBody)? {
        return Ok(BodyForm::Parts(boundary));
    }
    let essence =
        text(header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let lines =
        ["application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"];
    Ok(if lines.contains(&essence.as_str()) { BodyForm::Lines } else { BodyForm::Any })
}
