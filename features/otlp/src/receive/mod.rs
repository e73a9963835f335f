//! OTLP over HTTP: `/i/{key}/v1/logs` and `/i/{key}/v1/traces` for apps, `/otlp/v1/logs` and `/otlp/v1/traces` for senders with an
//! API key.
//!
//! A client never sends again what is answered with 400, 413 or 500, so a fault that passes is always 503 with `Retry-After`.

mod answer;
mod request_form;
mod translation;
mod with_api_key;

use crate::Otlp;
use answer::TelemetryOutcome;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Router};
use http::request::Parts;
use request_form::RequestForm;
use std::sync::Arc;
use translation::Translation;
use unslide_api::feature::Api;
use unslide_api::feature::ApiParts;
use unslide_api::feature::app_intake::{AppRequest, IntakeServices};
use unslide_api::feature::intake::RequestId;
use unslide_api::problem::{Kind, Problem};
use unslide_otlp_formats::TelemetrySignal;
use with_api_key::receive_with_api_key;

/// Returns the routes of senders.
pub fn routes() -> Router<Api> {
    Router::new()
        .route("/i/{key}/v1/logs", post(receive_app_logs))
        .route("/i/{key}/v1/traces", post(receive_app_spans))
        .route("/otlp/v1/logs", post(receive_logs))
        .route("/otlp/v1/traces", post(receive_spans))
}

type KeyPath = Result<Path<String>, PathRejection>;

async fn receive_app_logs(
    State(api): State<Api>,
    Extension(otlp): Extension<Arc<Otlp>>,
    key: KeyPath,
    request: Request,
) -> Response {
    let key = key.map(|Path(text)| text).unwrap_or_default();
    receive_request(&api, &otlp, Some(&key), request, TelemetrySignal::Logs).await
}

async fn receive_app_spans(
    State(api): State<Api>,
    Extension(otlp): Extension<Arc<Otlp>>,
    key: KeyPath,
    request: Request,
) -> Response {
    let key = key.map(|Path(text)| text).unwrap_or_default();
    receive_request(&api, &otlp, Some(&key), request, TelemetrySignal::Spans).await
}

async fn receive_logs(
    State(api): State<Api>,
    Extension(otlp): Extension<Arc<Otlp>>,
    request: Request,
) -> Response {
    receive_request(&api, &otlp, None, request, TelemetrySignal::Logs).await
}

async fn receive_spans(
    State(api): State<Api>,
    Extension(otlp): Extension<Arc<Otlp>>,
    request: Request,
) -> Response {
    receive_request(&api, &otlp, None, request, TelemetrySignal::Spans).await
}

/// Receives a request with the key in its path, or with an API key in its header.
async fn receive_request(
    api: &Api,
    otlp: &Otlp,
    key: Option<&str>,
    request: Request,
    signal: TelemetrySignal,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let form = match RequestForm::from_headers(&parts.headers, signal) {
        Ok(form) => form,
        Err(problem) => {
            otlp.outcomes.add("failed", 1);
            return RequestForm::for_unknown_type(signal).answer_problem(&problem, "");
        }
    };
    let received = match key {
        Some(key) => receive_from_app(api, key, &parts, body, form).await,
        None => receive_with_api_key(api, &mut parts, body, form).await,
    };
    let request_id = parts.extensions.get::<RequestId>().map_or("", |id| id.0.as_str());
    match received {
        Ok(mut outcome) => {
            outcome.refuses_others =
                outcome.translation.others > 0 && otlp.policies.refuses_others(api, &outcome.tenant).await;
            count_outcome(otlp, &outcome);
            form.answer_outcome(&outcome)
        }
        Err(problem) => {
            otlp.outcomes.add("failed", 1);
            form.answer_problem(&problem, request_id)
        }
    }
}

fn count_outcome(otlp: &Otlp, outcome: &TelemetryOutcome) {
    otlp.outcomes.add("report", outcome.accepted);
    otlp.outcomes.add("refused", outcome.refused.len());
    otlp.outcomes.add("unreadable", outcome.translation.unreadable);
    otlp.outcomes.add("other", outcome.translation.others);
}

async fn receive_from_app(
    api: &Api,
    key: &str,
    parts: &Parts,
    body: Body,
    form: RequestForm,
) -> Result<TelemetryOutcome, Problem> {
    let intake = api.parts().app_intake.find();
    let intake = intake.ok_or_else(|| Problem::new(Kind::NotFound, "this service takes no keys in paths"))?;
    let (translate, translated) = Translation::for_request(form);
    let ApiParts { keys, symbolication, broker, .. } = api.parts();
    let services = IntakeServices { keys, symbolication, broker };
    let receipt = intake.receive_request(services, AppRequest { key, parts, body, translate }).await?;
    Ok(TelemetryOutcome {
        tenant: receipt.tenant,
        accepted: receipt.accepted,
        refused: receipt.refused,
        translation: std::mem::take(&mut *translated.lock()),
        refuses_others: false,
    })
}
