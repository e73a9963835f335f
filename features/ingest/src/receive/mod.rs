//! `POST /i/{key}`: reports straight from an app. `POST /i/{key}/runs`: summaries of its runs.
//!
//! The client deletes its reports after any success, so nothing but an accepted request is answered with one, and nothing
//! redirects.

mod answer;
mod run_summary;
mod runs;

use crate::Ingest;
use crate::key::{CallerKey, find_key, find_known_key};
use crate::overflow::to_overflow_record;
use crate::store::VersionUses;
use answer::{AnswerForm, Received};
use axum::body::{Body, Bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::{any, post};
use axum::{Extension, Router};
use http::request::Parts;
use http::{HeaderMap, header};
use std::sync::Arc;
use std::time::Duration;
use unslide_api::feature::Api;
use unslide_api::feature::Broker;
use unslide_api::feature::Capacity;
use unslide_api::feature::Keys;
use unslide_api::feature::Symbolication;
use unslide_api::feature::app_intake::{
    AppIntake, AppReceipt, AppRequest, AppSender, IntakeServices, ReceiptFuture, TranslateBody,
    TranslationScope,
};
use unslide_api::feature::intake::{
    self, BodyForm, Bounds, Caller, Chunks, ClientAddress, Incoming, ReadBudget, ReceivedReport, RecordMaker,
    ReportScope, RequestId, TraceContext, assign_caller, header_form, read_body, unpack_body,
};
use unslide_api::feature::operation::{Charge, Kind, Problem};
use unslide_api::feature::path_keys::{KEY_LOOKUP_TIMEOUT, rate_problem};
use unslide_model::{SenderKeyId, TenantId};
use unslide_report::ReadLimits;
use unslide_store::keys::covers_app;
use unslide_stream::{Delivered, OutRecord};

/// The most bytes of a body, packed and unpacked.
const MAX_PACKED_BYTES: u64 = 5 << 20;
const MAX_UNPACKED_BYTES: u64 = 20 << 20;
/// The most reports of a request.
const MAX_REPORTS: usize = 100;
/// How long a whole body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long an outage may keep a request waiting after its body: KSCrash gives up after 15 seconds.
const OUTAGE_TIMEOUT: Duration = Duration::from_secs(12);
/// How long the broker may take of it.
const BROKER_TIMEOUT: Duration = OUTAGE_TIMEOUT.checked_sub(KEY_LOOKUP_TIMEOUT).unwrap();
/// Time after which a request may be sent again that overflow has no room for.
const FULL_OVERFLOW_RETRY_MICROS: i64 = 300_000_000;
/// Seconds after which a request may be sent again that the broker did not take.
const BROKER_RETRY_SECONDS: u32 = 30;

/// The most reports, and bytes of them, whose records are built at once.
const SMALL_REPORTS_LIMIT: usize = 16;
const SMALL_BYTES_LIMIT: usize = 64 << 10;

/// Returns the routes of apps.
pub fn routes() -> Router<Api> {
    Router::new()
        .route("/i", any(refuse_path))
        .route("/i/", any(refuse_path))
        .route("/i/{key}", post(receive_request).fallback(refuse_method))
        .route("/i/{key}/", post(receive_request).fallback(refuse_method))
        .route("/i/{key}/runs", post(runs::receive_runs).fallback(refuse_method))
        .route("/i/{key}/runs/", post(runs::receive_runs).fallback(refuse_method))
        .route("/i/{key}/{*rest}", any(refuse_path))
}

/// Any method but POST, before the key is looked at: a page here would make URLSession delete reports after a redirect.
async fn refuse_method(headers: HeaderMap) -> Response {
    AnswerForm::from_headers(&headers).refuse_method()
}

async fn refuse_path(request: Request) -> Response {
    let form = AnswerForm::from_headers(request.headers());
    if request.method() != http::Method::POST {
        return form.refuse_method();
    }
    form.answer_refused(&Problem::new(Kind::NotFound, "send reports to /i/ and the key"), "")
}

async fn receive_request(
    State(keys): State<Arc<Keys>>,
    State(symbolication): State<Arc<Symbolication>>,
    State(broker): State<Arc<Broker>>,
    Extension(ingest): Extension<Arc<Ingest>>,
    key: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let text = key.map(|Path(text)| text).unwrap_or_default();
    let services = IntakeServices { keys: &keys, symbolication: &symbolication, broker: &broker };
    let received = receive_reports(services, &ingest, &text, &parts, body, None).await;
    answer_request(&ingest, &parts, received.map(|(_, received)| received))
}

impl AppIntake for Ingest {
    fn receive_request<'r>(
        &'r self,
        services: IntakeServices<'r>,
        request: AppRequest<'r>,
    ) -> ReceiptFuture<'r> {
        Box::pin(async move {
            let AppRequest { key, parts, body, translate } = request;
            let received = receive_reports(services, self, key, parts, body, Some(translate)).await;
            match received {
                Ok((tenant, received)) => {
                    count_received(self, &received);
                    Ok(AppReceipt { tenant, accepted: received.accepted.len(), refused: received.refused })
                }
                Err(problem) => {
                    count_refused(self, &problem);
                    Err(problem)
                }
            }
        })
    }
}

fn count_received(ingest: &Ingest, received: &Received) {
    let accepted = if received.is_in_overflow { "overflow" } else { "accepted" };
    ingest.outcomes.add(accepted, received.accepted.len());
    ingest.outcomes.add("refused", received.refused.len());
}

fn count_refused(ingest: &Ingest, problem: &Problem) {
    let outcome = match problem.kind() {
        Kind::Unauthorized => "unknown_key",
        Kind::RateLimited => "limited",
        _ => "failed",
    };
    ingest.outcomes.add(outcome, 1);
}

/// Counts the outcome of a request and answers it.
fn answer_request(ingest: &Ingest, parts: &Parts, received: Result<Received, Problem>) -> Response {
    let form = AnswerForm::from_headers(&parts.headers);
    match received {
        Ok(received) => {
            count_received(ingest, &received);
            form.answer_accepted(&received)
        }
        Err(problem) => {
            count_refused(ingest, &problem);
            let request_id = parts.extensions.get::<RequestId>().map_or("", |id| id.0.as_str());
            form.answer_refused(&problem, request_id)
        }
    }
}

/// Sends the reports of a request to the broker, with a record for each that is refused. With `translate`, the body is of another
/// protocol.
async fn receive_reports(
    services: IntakeServices<'_>,
    ingest: &Ingest,
    text: &str,
    parts: &Parts,
    body: Body,
    translate: Option<TranslateBody>,
) -> Result<(TenantId, Received), Problem> {
    let IntakeServices { keys, symbolication, broker } = services;
    let ReceivedBody { key, bytes, budget, is_over_rate } =
        receive_body(keys, broker, ingest, text, parts, body).await?;
    let reading = BodyReading { form: header_form(&parts.headers), translate };
    let ReadRequest { reports, budget } = read_reports(symbolication, &key, reading, bytes, budget).await?;
    let values = reports.iter().map(value_of);
    let is_over_rate =
        is_over_rate | take_values(&symbolication.capacity, ingest, &key, &budget.charge, values)?;
    let (reports, records) = build_records(broker, &key, parts, reports).await?;
    send_within_rate(broker, ingest, &key, records, is_over_rate).await?;
    let mut received = Received::from_reports(&reports);
    received.is_in_overflow = is_over_rate;
    broker.metrics.count_reports(received.accepted.len());
    let day = symbolication.storage.clock.now().date();
    for report in &reports {
        if let ReceivedReport::Accepted(Incoming { app: Some(app), .. }) = report {
            let report = VersionUses { reports: 1, runs: 0 };
            ingest.versions.count_uses((&key).into(), day, &app.id, &app.version, report);
        }
    }
    Ok((key.tenant.clone(), received))
}

/// The body of a request with a known key, within the rates of its sender.
struct ReceivedBody {
    key: CallerKey,
    bytes: Bytes,
    budget: ReadBudget,
    /// True if the request is over a rate, so that its records wait in overflow.
    is_over_rate: bool,
}

/// Takes the values of a request from the rates. Returns true if it is over one of them.
fn take_values<'v>(
    capacity: &Capacity,
    ingest: &Ingest,
    key: &CallerKey,
    charge: &Charge,
    values: impl ExactSizeIterator<Item = &'v Bytes>,
) -> Result<bool, Problem> {
    let number = values.len();
    let bytes = values.map(|value| value.len() as u64).sum();
    charge.charge_reports(number)?;
    // The first report was taken before the body was received.
    let is_within = ingest.limits.try_take_reports(capacity, key, number.saturating_sub(1))
        & ingest.limits.try_take_bytes(capacity, key, bytes);
    Ok(!is_within || charge.is_over_rate())
}

/// Checks the sender of a request and receives its body.
async fn receive_body(
    keys: &Keys,
    broker: &Broker,
    ingest: &Ingest,
    text: &str,
    parts: &Parts,
    body: Body,
) -> Result<ReceivedBody, Problem> {
    refuse_browsers(&parts.headers)?;
    let (key, is_over_address) = find_sender(keys, ingest, text, parts).await?;
    assign_caller(&parts.extensions, &broker.capacity, Caller::Public(key.tenant.clone()))?;
    tracing::debug!(public_key.id = key.prefix, "a request of a public key");
    if !key.active {
        return Err(Problem::new(Kind::TenantSuspended, "the tenant is suspended"));
    }
    broker.check_topics()?;
    let is_over_rate = !ingest.limits.try_take_reports(&broker.capacity, &key, 1) || is_over_address;
    let mut charge =
        Charge::for_overflowing_reports(&broker.capacity, &key.tenant, key.limits.units_per_second);
    if (is_over_rate || charge.is_over_rate()) && ingest.overflow.is_full(&key.tenant) {
        return Err(refuse_overflow());
    }
    let most = broker.capacity.limits.ingest_bytes.min(MAX_PACKED_BYTES);
    let chunks = Chunks::new(&parts.headers, body, most, broker.capacity.limits.client_pace())?;
    let mut reserved = broker.capacity.permits.reserve_public_body(&key.tenant)?;
    let bytes = tokio::time::timeout(BODY_TIMEOUT, chunks.collect_body(&mut reserved)).await;
    let bytes = bytes.map_err(|_| Problem::body_timeout(BODY_TIMEOUT))??;
    charge.charge_received(bytes.len() as u64)?;
    Ok(ReceivedBody { key, bytes, budget: ReadBudget { reserved, charge }, is_over_rate })
}

/// Finds the key of a request. Returns true if its address is over its rate: then the key is not looked up, and must have
/// been a short time ago.
async fn find_sender(
    keys: &Keys,
    ingest: &Ingest,
    text: &str,
    parts: &Parts,
) -> Result<(CallerKey, bool), Problem> {
    let address = parts.extensions.get::<ClientAddress>();
    let taken = address.map_or(Ok(()), |address| {
        ingest.limits.addresses.take_request(keys.storage.clock.monotonic_micros(), address.0)
    });
    if let Err(problem) = taken {
        return find_known_key(keys, text).map(|key| (key, true)).ok_or(problem);
    }
    let key = find_key(keys, text).await?.ok_or_else(|| Problem::from_kind(Kind::Unauthorized))?;
    Ok((key, false))
}

fn refuse_overflow() -> Problem {
    rate_problem("reports waiting for this tenant", FULL_OVERFLOW_RETRY_MICROS)
}

/// Refuses pages of the web, which could post with the addresses of their visitors. Apps send neither header.
fn refuse_browsers(headers: &HeaderMap) -> Result<(), Problem> {
    let is_cross_site = headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
    if is_cross_site || headers.contains_key(header::ORIGIN) {
        return Err(Problem::new(Kind::InsufficientScope, "not for browsers"));
    }
    Ok(())
}

/// The reports of a request, with what they hold in memory.
struct ReadRequest {
    reports: Vec<ReceivedReport>,
    budget: ReadBudget,
}

/// How a body is read.
struct BodyReading {
    form: BodyForm,
    translate: Option<TranslateBody>,
}

async fn read_reports(
    symbolication: &Symbolication,
    key: &CallerKey,
    reading: BodyReading,
    body: Bytes,
    mut budget: ReadBudget,
) -> Result<ReadRequest, Problem> {
    let limit = symbolication.capacity.limits.report_bytes;
    let own = usize::try_from(key.limits.report_bytes).unwrap_or(usize::MAX);
    let max_bytes = if own > 0 { own.min(limit) } else { limit };
    let bounds = Bounds {
        unpacked: symbolication.capacity.limits.ingest_unpacked_bytes.min(MAX_UNPACKED_BYTES),
        // A collector sends many apps' records in one request, and never sends again what is refused.
        reports: match reading.translate {
            Some(_) => symbolication.capacity.limits.ingest_reports,
            None => symbolication.capacity.limits.ingest_reports.min(MAX_REPORTS),
        },
        report: ReadLimits { max_bytes, ..ReadLimits::default() },
    };
    let (apps, readers) = (key.clone(), symbolication.readers.clone());
    let is_translated = reading.translate.is_some();
    let work = move |body: Bytes| {
        let refuse_app = |app: Option<&str>| refuse_app(&apps, app);
        let scope = ReportScope { refuse_app: Some(&refuse_app), readers: &readers };
        let BodyReading { form, translate } = reading;
        let body = match translate {
            Some(translate) => {
                let ReadBudget { reserved, charge } = &mut budget;
                let unpacked = unpack_body(&body, bounds.unpacked, reserved, charge)?;
                let sender = AppSender { tenant: &apps.tenant, apps: &apps.apps };
                let own = TranslationScope { readers: &readers, bounds: &bounds };
                translate(sender, own, &unpacked, &mut budget)?
            }
            None => body,
        };
        let reports = intake::read_reports(&body, &form, &bounds, &scope, &mut budget)?;
        Ok(ReadRequest { reports, budget })
    };
    let capacity = &symbolication.capacity;
    if is_translated {
        // A small body may become many reports.
        return capacity.cpu.run_for(&key.tenant, move || work(body)).await?;
    }
    read_body(capacity, &key.tenant, body, work).await
}

/// Returns why a key does not cover an app.
fn refuse_app(key: &CallerKey, app: Option<&str>) -> Option<String> {
    let Some(app) = app else {
        return Some("the report names no app, and the key is for some apps only".to_owned());
    };
    if key.apps.iter().any(|pattern| covers_app(pattern, app)) {
        return None;
    }
    // The name comes from the report, so its length is bounded here.
    let app: String = app.chars().take(60).collect();
    Some(format!("the report is of {app}, the key is for {}", key.apps.join(", ")))
}

fn value_of(report: &ReceivedReport) -> &Bytes {
    match report {
        ReceivedReport::Accepted(report) => &report.bytes,
        ReceivedReport::Refused(report) => &report.bytes,
    }
}

/// Builds the records of reports for their topic. Each may be signed, so many or large ones take the CPU pool.
async fn build_records(
    broker: &Arc<Broker>,
    key: &CallerKey,
    parts: &Parts,
    reports: Vec<ReceivedReport>,
) -> Result<(Vec<ReceivedReport>, Vec<OutRecord>), Problem> {
    let trace = find_trace(parts)?;
    let (maker, key) = (broker.clone(), key.clone());
    let bytes: usize = reports.iter().map(|report| value_of(report).len()).sum();
    let is_small = reports.len() <= SMALL_REPORTS_LIMIT && bytes <= SMALL_BYTES_LIMIT;
    let tenant = key.tenant.clone();
    let build = move || {
        let sender = name_sender(&key);
        let maker = make_records(&maker, &key, trace, &sender, &maker.topics.input);
        let records = reports.iter().map(|report| report.build_record(&maker)).collect();
        (reports, records)
    };
    if is_small { Ok(build()) } else { Ok(broker.capacity.cpu.run_for(&tenant, build).await?) }
}

/// Returns the words for a key in the details of dead letters.
fn name_sender(key: &CallerKey) -> String {
    format!("public key {}", key.prefix)
}

fn find_trace(parts: &Parts) -> Result<TraceContext, Problem> {
    let trace = parts.extensions.get::<TraceContext>().copied();
    trace.ok_or_else(|| Problem::internal("a request has no trace"))
}

/// Returns the maker of a request's records for a topic.
fn make_records<'r>(
    broker: &'r Broker,
    key: &'r CallerKey,
    trace: TraceContext,
    sender: &'r str,
    topic: &str,
) -> RecordMaker<'r> {
    let sender_key = SenderKeyId::parse(&key.prefix);
    RecordMaker { broker, tenant: &key.tenant, sender, sender_key, trace, topic: topic.into() }
}

/// Sends records to their topic, or to overflow if they are over a rate.
async fn send_within_rate(
    broker: &Broker,
    ingest: &Ingest,
    key: &CallerKey,
    records: Vec<OutRecord>,
    is_over_rate: bool,
) -> Result<(), Problem> {
    if !is_over_rate {
        return send_records(broker, &records).await.map(drop);
    }
    let records: Vec<_> = records.into_iter().map(|record| to_overflow_record(broker, key, record)).collect();
    let sizes = records.iter().map(|record| record.size() as u64);
    let held = ingest.overflow.try_reserve(&key.tenant, sizes.clone().sum()).ok_or_else(refuse_overflow)?;
    let delivered = send_records(broker, &records).await?;
    held.keep_sent(delivered.into_iter().zip(sizes));
    Ok(())
}

/// Sends records and waits until the broker has them.
async fn send_records(broker: &Broker, records: &[OutRecord]) -> Result<Vec<Delivered>, Problem> {
    let sending = tokio::time::timeout(BROKER_TIMEOUT, broker.producer.send_all(records));
    let why = format!("Kafka did not answer within {} s", BROKER_TIMEOUT.as_secs());
    let late = |_| Problem::unavailable(why, BROKER_RETRY_SECONDS);
    Ok(sending.await.map_err(late)??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_promise_apps_the_answer_to_an_outage_that_they_get() {
        let promise = format!("within {} s", OUTAGE_TIMEOUT.as_secs());
        for page in [
            include_str!("../../../../docs/guarantees.md"),
            include_str!("../../../../docs/monitoring.md"),
            include_str!("../../../../docs/ingest.md"),
        ] {
            assert!(page.contains(&format!("apps (`/i/`) {promise}")), "{promise}");
        }
    }
}
