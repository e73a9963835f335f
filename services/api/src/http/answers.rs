//! Memory accounting of responses. Bytes are reserved before a response is made or compressed, and released
//! after its last byte is written.

use crate::http::compress;
use crate::http::kept_body::KeptBody;
use crate::limits::capacity::Capacity;
use crate::limits::permits::{Permits, Reservation};
use crate::limits::slot::{Caller, RequestSlot};
use crate::problem::Problem;
use axum::body::HttpBody;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_TYPE, VARY};
use std::sync::Arc;
use unslide_model::TenantId;

/// Reserves bytes for a response of a tenant.
///
/// # Errors
/// [`Kind::TenantBusy`](crate::problem::Kind::TenantBusy) and
/// [`Kind::Overloaded`](crate::problem::Kind::Overloaded).
pub fn reserve_bytes(permits: &Permits, tenant: &TenantId, bytes: u64) -> Result<Reservation, Problem> {
    Ok(Reservation::new(&permits.answers, tenant, bytes)?)
}

/// A response body with reserved bytes.
pub struct ReservedAnswer {
    pub bytes: Bytes,
    /// The reservation for these bytes.
    pub reservation: Reservation,
}

impl ReservedAnswer {
    /// Returns the response with the bytes as a Markdown document.
    pub fn into_markdown(self) -> Response {
        let headers = [(CONTENT_TYPE, "text/markdown; charset=utf-8"), (VARY, "accept, authorization")];
        (headers, self).into_response()
    }
}

impl IntoResponse for ReservedAnswer {
    fn into_response(self) -> Response {
        let mut response = self.bytes.into_response();
        response.extensions_mut().insert(Reserved(Arc::new(vec![self.reservation])));
        response
    }
}

/// The reservations of a response, passed from [`account_response`] to [`hold_reservations`].
#[derive(Clone)]
struct Reserved(Arc<Vec<Reservation>>);

/// Reserves the bytes of a response, unless its operation has done so. Also reserves memory for the encoder
/// if the response is worth compressing: see [`compress::compression_layer`].
pub async fn account_response(
    State(capacity): State<Arc<Capacity>>,
    request: Request,
    next: Next,
) -> Response {
    let slot = request.extensions().get::<RequestSlot>().cloned();
    let asks_for_compression = request.headers().contains_key(ACCEPT_ENCODING);
    let reads = request.method().is_safe();
    let mut response = next.run(request).await;
    let compressible = compress::mark_compressible(&mut response);
    let caller = slot.map_or(Caller::Unknown, |slot| slot.caller());
    let Some(tenant) = caller.tenant() else { return response };
    let reserved =
        response.extensions_mut().remove().and_then(|Reserved(reserved)| Arc::into_inner(reserved));
    let mut reserved: Vec<Reservation> = reserved.unwrap_or_default();
    let bytes = response.body().size_hint().exact().unwrap_or_default();
    if reserved.is_empty() && bytes > 0 {
        match reserve_bytes(&capacity.permits, tenant, bytes) {
            Ok(reservation) => reserved.push(reservation),
            Err(problem) if reads && !matches!(caller, Caller::Operator(_)) => {
                return problem.into_response();
            }
            // Work that is already done is answered anyway, and so are operators.
            Err(_) => return response,
        }
    }
    if compressible
        && asks_for_compression
        && let Ok(encoder) = reserve_bytes(&capacity.permits, tenant, compress::ENCODER_BYTES)
    {
        reserved.push(encoder);
        response = compress::prepare_response(response);
    }
    if !reserved.is_empty() {
        response.extensions_mut().insert(Reserved(Arc::new(reserved)));
    }
    response
}

/// Holds the reservations of [`account_response`] until the response, compressed or not, is written.
pub async fn hold_reservations(request: Request, next: Next) -> Response {
    let mut response = compress::weaken_tag(next.run(request).await);
    match response.extensions_mut().remove::<Reserved>() {
        Some(reserved) => response.map(|body| KeptBody::wrap(body, reserved)),
        None => response,
    }
}
