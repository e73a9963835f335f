//! Requests with an API key in their header: gateways and collectors.

use super::answer::TelemetryOutcome;
use super::request_form::RequestForm;
use super::translation::Translation;
use axum::body::Body;
use axum::extract::FromRequestParts;
use http::request::Parts;
use std::time::Duration;
use unslide_api::feature::Api;
use unslide_api::feature::ApiParts;
use unslide_api::feature::app_intake::{AppSender, TranslationScope};
use unslide_api::feature::intake::{
    BodyForm, Bounds, Chunks, ReadBudget, ReceivedReport, RecordMaker, ReportScope, Reservation,
    TraceContext, list_refused, read_reports, unpack_body,
};
use unslide_api::feature::operation::{Access, Charge, ReportsWrite};
use unslide_api::problem::Problem;
use unslide_report::ReadLimits;
use unslide_stream::OutRecord;

/// How long the broker may take.
const BROKER_TIMEOUT: Duration = Duration::from_secs(10);
/// Seconds after which a request may be sent again that the broker did not take.
const BROKER_RETRY_SECONDS: u32 = 30;

/// The reports of a request, with what they hold in memory.
struct ReadRequest {
    reports: Vec<ReceivedReport>,
    records: Vec<OutRecord>,
    _reserved: Reservation,
}

pub async fn receive_with_api_key(
    api: &Api,
    parts: &mut Parts,
    body: Body,
    form: RequestForm,
) -> Result<TelemetryOutcome, Problem> {
    let access = Access::<ReportsWrite>::from_request_parts(parts, api).await?;
    let ApiParts { broker, symbolication, capacity, .. } = api.parts();
    broker.check_topics()?;
    let trace = parts.extensions.get::<TraceContext>().copied();
    let trace = trace.ok_or_else(|| Problem::internal("a request has no trace"))?;
    let limits = &capacity.limits;
    let chunks = Chunks::new(&parts.headers, body, limits.ingest_bytes, limits.client_pace())?;
    // A tenant that is over its rate is refused before its body is read.
    let own = access.principal.limits;
    let mut charge = Charge::for_reports(capacity, access.tenant(), own.units_per_second)?;
    let mut reserved = Reservation::new(&capacity.permits.bodies, access.tenant(), 0)?;
    let body = chunks.collect_body(&mut reserved).await?;
    charge.charge_received(body.len() as u64)?;
    let max_bytes = match usize::try_from(own.report_bytes) {
        Ok(own @ 1..) => own.min(limits.report_bytes),
        _ => limits.report_bytes,
    };
    let bounds = Bounds {
        unpacked: limits.ingest_unpacked_bytes,
        reports: limits.ingest_reports,
        report: ReadLimits { max_bytes, ..ReadLimits::default() },
    };
    let (translate, translated) = Translation::for_request(form);
    let (tenant, maker, readers) = (access.tenant().clone(), broker.clone(), symbolication.readers.clone());
    let apps: Vec<String> = access.only_app().map(str::to_owned).into_iter().collect();
    let work = move || {
        let mut budget = ReadBudget { reserved, charge };
        let unpacked = unpack_body(&body, bounds.unpacked, &mut budget.reserved, &mut budget.charge)?;
        let sender = AppSender { tenant: &tenant, apps: &apps };
        let own = TranslationScope { readers: &readers, bounds: &bounds };
        let batch = translate(sender, own, &unpacked, &mut budget)?;
        let refuse_app = |found: Option<&str>| refuse_other_app(&apps, found);
        let scope = ReportScope {
            refuse_app: (!apps.is_empty()).then_some(&refuse_app as &dyn Fn(Option<&str>) -> Option<String>),
            readers: &readers,
        };
        let reports = read_reports(&batch, &BodyForm::Any, &bounds, &scope, &mut budget)?;
        budget.charge.charge_reports(reports.len())?;
        let topic = maker.topics.input.as_str().into();
        let maker =
            RecordMaker { broker: &maker, tenant: &tenant, sender: "", sender_key: None, trace, topic };
        let records = reports.iter().map(|report| report.build_record(&maker)).collect();
        Ok::<_, Problem>(ReadRequest { reports, records, _reserved: budget.reserved })
    };
    // A small body may become many reports.
    let read = capacity.cpu.run_for(access.tenant(), work).await??;
    let sending = tokio::time::timeout(BROKER_TIMEOUT, broker.producer.send_all(&read.records));
    let why = format!("Kafka did not answer within {} s", BROKER_TIMEOUT.as_secs());
    sending.await.map_err(|_| Problem::unavailable(why, BROKER_RETRY_SECONDS))??;
    let refused = list_refused(&read.reports);
    let accepted = read.reports.len() - refused.len();
    broker.metrics.count_reports(accepted);
    let translation = std::mem::take(&mut *translated.lock());
    Ok(TelemetryOutcome {
        tenant: access.tenant().clone(),
        accepted,
        refused,
        translation,
        refuses_others: false,
    })
}

/// Returns why a key for one app does not cover another.
fn refuse_other_app(apps: &[String], found: Option<&str>) -> Option<String> {
    let is_own = found.is_some_and(|found| apps.iter().any(|own| own == found));
    (!is_own).then(|| format!("the key is valid for the app {} only", apps.join(", ")))
}
