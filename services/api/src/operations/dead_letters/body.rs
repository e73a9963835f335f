//! `GET /v1/dead-letters/{id}/body`.

use super::DeadLetterScope;
use super::topic::DeadLetterReader;
use crate::http::answers::{self, ReservedAnswer};
use crate::operations::prelude::*;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};

problems!(Failures: InvalidParameter, NotFound);

/// Read a dead letter's body
///
/// The value's bytes as they came in, whatever they are, of a dead letter of the stage `symbolize`. A value that was too
/// large for the dead letter is not kept.
#[utoipa::path(get, path = "/dead-letters/{id}/body", tag = "dead letters",
    operation_id = "get_dead_letter_body",
    params(("id" = String, Path, description = "The letter's id.")),
    responses(
        (status = 200, description = "The bytes.", content((Vec<u8> = "application/octet-stream"))),
        (status = 204, description = "The record has no value at all."), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn get_dead_letter_body(
    State(broker): State<Arc<Broker>>,
    access: Access<TenantAdmin>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let scope = DeadLetterScope::for_request(&access, None)?;
    let id = parse_parameter("id", &id)?;
    let mut tx = scope.begin_transaction(&broker.storage).await?;
    let letter = scope.find_dead_letter(&mut tx, &id).await?;
    tx.rollback();
    let record = DeadLetterReader::open(&broker, scope.tenant()).await?.read_record(&letter).await?;
    let Some(value) = record.value else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    let reservation = answers::reserve_bytes(&broker.capacity.permits, scope.tenant(), value.len() as u64)?;
    let name = format!("attachment; filename=\"dead-letter-{id}\"");
    // A browser must not render the client's bytes as a page.
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'")),
        (header::CONTENT_DISPOSITION, HeaderValue::from_str(&name).map_err(Problem::internal)?),
    ];
    Ok((headers, ReservedAnswer { bytes: value, reservation }).into_response())
}
