//! `POST /api/v2/srcmap`: the uploads of `datadog-ci`.
//!
//! The client ends with 0 after every failure but a 403, so a bad key is a 403, and nothing else is one.

mod source_map;

use crate::sign_in::sign_in;
use crate::whole_file::{FileSender, UNUSED_KINDS, acquire_upload_permit, storable_name};
use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts as RequestParts;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures::TryStreamExt;
use serde::Deserialize;
use serde_json::json;
use source_map::{DatadogSourceMap, SOURCE_MAP_EVENT, SOURCE_MAP_PART};
use std::sync::Arc;
use std::time::Duration;
use unslide_api::feature::Keys;
use unslide_api::feature::OperationRouter;
use unslide_api::feature::Storage;
use unslide_api::feature::intake::RequestId;
use unslide_api::feature::upload::{
    Chunks, Parts, announced_length, check_quota, parse_boundary, pass_over, run_detached, stream_field,
};
use unslide_api::problem::{Kind, Problem, Rendered};

/// The part with a zip archive of dSYMs.
const ARCHIVE_PART: &str = "symbols_archive";
/// The part that describes the others.
const EVENT_PART: &str = "event";
/// The type of events with dSYMs.
const DSYM_EVENT: &str = "ios_symbols";
/// The most bytes of an event.
const MAX_EVENT_BYTES: usize = 256 << 10;
/// The most parts of a request.
const MAX_PARTS: usize = 16;

/// Returns the routes of `datadog-ci`.
pub fn datadog_routes() -> OperationRouter {
    OperationRouter::new().route("/api/v2/srcmap", post(receive_request))
}

/// The description of an upload.
#[derive(Deserialize)]
struct UploadEvent {
    #[serde(rename = "type")]
    kind: String,
    #[serde(flatten)]
    map: DatadogSourceMap,
}

async fn receive_request(State(keys): State<Arc<Keys>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    match receive_upload(&keys, &parts, body).await {
        Ok(()) => (StatusCode::ACCEPTED, Json(json!({}))).into_response(),
        Err(problem) => {
            let request_id = parts.extensions.get::<RequestId>().map_or("", |id| id.0.as_str());
            failure_response(&problem, request_id)
        }
    }
}

async fn receive_upload(keys: &Arc<Keys>, parts: &RequestParts, body: Body) -> Result<(), Problem> {
    let key = parts.headers.get("dd-api-key").and_then(|key| key.to_str().ok()).unwrap_or_default();
    let access = sign_in(keys, parts, key.trim()).await?;
    let sender = FileSender::from_access(&keys.capacity, &access);
    let boundary = parse_boundary(&parts.headers, Kind::InvalidUpload)?
        .ok_or_else(|| Problem::new(Kind::InvalidUpload, "send the file as multipart/form-data"))?;
    let permit = acquire_upload_permit(&keys.capacity, &access).await?;
    let body = Chunks::new(&parts.headers, body, sender.quota.bytes, keys.capacity.limits.client_pace())?;
    check_quota(&keys.storage, &sender.owner, announced_length(&parts.headers), sender.quota.symbol_bytes)
        .await?;
    let form = Parts::new(body.into_stream(), boundary, Kind::InvalidUpload);
    let (keys, timeout) = (keys.clone(), Duration::from_secs(keys.capacity.limits.upload_seconds));
    // In a task of its own, as every upload: a client that leaves still has its failure recorded.
    run_detached(Box::pin(async move {
        let _permit = permit;
        let received = tokio::time::timeout(timeout, receive_form(&keys.storage, &sender, form)).await;
        received.unwrap_or_else(|_| {
            Err(Problem::new(Kind::BodyTimeout, format!("an upload may take {} s", timeout.as_secs())))
        })
    }))
    .await
}

async fn receive_form(storage: &Storage, sender: &FileSender, mut form: Parts) -> Result<(), Problem> {
    let (mut event, mut has_file, mut number) = (None::<UploadEvent>, false, 0);
    while let Some(field) = form.next().await? {
        number += 1;
        if number > MAX_PARTS {
            return Err(Problem::new(Kind::TooLarge, format!("more than {MAX_PARTS} parts")));
        }
        match field.name() {
            // It comes before the event that describes it.
            Some(ARCHIVE_PART) => {
                sender
                    .send_file(storage, Some("dSYMs.zip"), stream_field(field, Kind::InvalidUpload))
                    .await?;
                has_file = true;
            }
            // It comes after the event that describes it.
            Some(SOURCE_MAP_PART) if is_source_map(event.as_ref()) => {
                let facts = event.as_ref().map(|event| event.map.clone()).unwrap_or_default();
                let archive = facts.plan_archive(sender.app.as_deref())?;
                let name = archive.name.clone();
                let pieces = archive.into_stream(stream_field(field, Kind::InvalidUpload));
                sender.send_file(storage, Some(&name), pieces).await?;
                has_file = true;
            }
            Some(EVENT_PART) => event = Some(read_event(field).await?),
            _ => pass_over(field, Kind::InvalidUpload).await?,
        }
    }
    let event = event.ok_or_else(|| Problem::new(Kind::InvalidUpload, "the form has no part event"))?;
    match (event.kind.as_str(), has_file) {
        (_, true) => Ok(()),
        (SOURCE_MAP_EVENT, false) => {
            let detail = format!("the form has no part {SOURCE_MAP_PART} after the event");
            Err(Problem::new(Kind::InvalidUpload, detail))
        }
        (DSYM_EVENT, false) => {
            Err(Problem::new(Kind::InvalidUpload, format!("the form has no part {ARCHIVE_PART}")))
        }
        (other, false) => {
            Err(Problem::new(Kind::UnsupportedFormat, format!("{}: {UNUSED_KINDS}", storable_name(other))))
        }
    }
}

fn is_source_map(event: Option<&UploadEvent>) -> bool {
    event.is_some_and(|event| event.kind == SOURCE_MAP_EVENT)
}

async fn read_event(field: multer::Field<'static>) -> Result<UploadEvent, Problem> {
    let mut pieces = Box::pin(stream_field(field, Kind::InvalidUpload));
    let mut text = Vec::new();
    while let Some(piece) = pieces.try_next().await? {
        if text.len() + piece.len() > MAX_EVENT_BYTES {
            return Err(Problem::new(Kind::TooLarge, format!("event: the limit is {MAX_EVENT_BYTES} bytes")));
        }
        text.extend_from_slice(&piece);
    }
    serde_json::from_slice(&text)
        .map_err(|error| Problem::new(Kind::InvalidUpload, format!("event: {error}")))
}

/// Returns the status of a failure. After a 403 the client says that the key is wrong, and after no other it ends with 1. It
/// sends a file again after every other status but 400, 401 and 413, and asks another server after a 400.
fn failure_status(kind: Kind) -> StatusCode {
    match kind {
        Kind::Unauthorized | Kind::InsufficientScope => StatusCode::FORBIDDEN,
        Kind::TenantSuspended => StatusCode::UNAUTHORIZED,
        Kind::SymbolQuota | Kind::UnsupportedFormat => StatusCode::PAYLOAD_TOO_LARGE,
        kind if kind.status() == StatusCode::TOO_MANY_REQUESTS => StatusCode::SERVICE_UNAVAILABLE,
        kind if kind.status() == StatusCode::FORBIDDEN => StatusCode::BAD_REQUEST,
        kind => kind.status(),
    }
}

fn failure_response(problem: &Problem, request_id: &str) -> Response {
    problem.log_fault(request_id);
    let is_fault = problem.kind().status().is_server_error() && problem.kind() != Kind::SymbolQuota;
    let text = problem.detail().filter(|_| !is_fault).unwrap_or_else(|| problem.kind().title());
    let body = Json(json!({ "errors": [text] }));
    let mut response = (failure_status(problem.kind()), body).into_response();
    response.extensions_mut().insert(Rendered);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bad_key_is_forbidden() {
        for kind in Kind::ALL {
            let is_key = matches!(kind, Kind::Unauthorized | Kind::InsufficientScope);
            assert_eq!(failure_status(*kind) == StatusCode::FORBIDDEN, is_key, "{kind:?}");
            assert_ne!(failure_status(*kind), StatusCode::TOO_MANY_REQUESTS, "{kind:?}");
        }
    }
}
