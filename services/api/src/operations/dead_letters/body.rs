//! `GET /v1/dead-letters/{id}/body`.

use super::Desk;
use super::topic::Topic;
use crate::access::{Access, Operator, TenantAdmin};
use crate::input::{Path, parameter};
use crate::memory;
use crate::problem::{Problem, problems};
use crate::state::Api;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};

problems!(Failures: InvalidParameter, NotFound);

/// Read a dead letter's body
///
/// The value's bytes as they came in, whatever they are. A value that was too large for the letter is
/// read from the record that the letter was made of, for as long as its topic holds that.
#[utoipa::path(get, path = "/v1/dead-letters/{id}/body", tag = "dead letters",
    operation_id = "get_dead_letter_body",
    params(("id" = String, Path, description = "The letter's id.")),
    responses(
        (status = 200, description = "The bytes.", content((Vec<u8> = "application/octet-stream"))),
        (status = 204, description = "The record has no value at all."), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn get_dead_letter_body(
    State(api): State<Api>,
    access: Access<TenantAdmin>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    answer(&api, &Desk::own(&access)?, &id).await
}

/// Read any dead letter's body
///
/// As `GET /v1/dead-letters/{id}/body`, of any tenant or nobody's.
#[utoipa::path(get, path = "/v1/operator/dead-letters/{id}/body", tag = "dead letters",
    operation_id = "operator_get_dead_letter_body",
    params(("id" = String, Path, description = "The letter's id.")),
    responses(
        (status = 200, description = "The bytes.", content((Vec<u8> = "application/octet-stream"))),
        (status = 204, description = "The record has no value at all."), Failures),
    security(("key" = ["operator"])))]
pub async fn operator_get_dead_letter_body(
    State(api): State<Api>,
    access: Access<Operator>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    answer(&api, &Desk::any(&access), &id).await
}

async fn answer(api: &Api, desk: &Desk<'_>, id: &str) -> Result<Response, Problem> {
    let id = parameter("id", id)?;
    let mut tx = desk.begin(api).await?;
    let letter = desk.find(&mut tx, &id).await?;
    tx.rollback().await?;
    let record = Topic::open(api, desk.tenant()).await?.record(&letter).await?;
    let Some(value) = record.value else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    // Those that read are few; those that take are many.
    let room = memory::answer(&api.permits, desk.tenant(), value.len() as u64)?;
    let name = format!("attachment; filename=\"dead-letter-{id}\"");
    // A browser must not take for a page what somebody sent.
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'")),
        (header::CACHE_CONTROL, HeaderValue::from_static("private, no-store")),
        (header::CONTENT_DISPOSITION, HeaderValue::from_str(&name).map_err(Problem::internal)?),
    ];
    Ok((headers, room.hold(value)).into_response())
}
