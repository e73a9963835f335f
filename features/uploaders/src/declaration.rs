//! Bodies that declare files, which are small JSON texts.

use axum::body::Body;
use axum::http::HeaderMap;
use unslide_api::feature::Capacity;
use unslide_api::feature::intake::{Reservation, read_body};
use unslide_api::feature::operation::Access;
use unslide_api::feature::upload::{Chunks, SymbolsWrite};
use unslide_api::problem::Problem;

/// The most bytes of such a body.
const MAX_BODY_BYTES: u64 = 4 << 20;

/// Reads the body of a request that declares files.
///
/// # Errors
/// It is too large or cut, or `parse` refuses it.
pub async fn read_declaration<T: Send + 'static>(
    capacity: &Capacity,
    access: &Access<SymbolsWrite>,
    headers: &HeaderMap,
    body: Body,
    parse: fn(&[u8]) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let chunks = Chunks::new(headers, body, MAX_BODY_BYTES, capacity.limits.client_pace())?;
    let mut reserved = Reservation::new(&capacity.permits.bodies, access.tenant(), 0)?;
    let body = chunks.collect_body(&mut reserved).await?;
    read_body(capacity, access.tenant(), body, move |body| {
        let _reserved = reserved;
        parse(&body)
    })
    .await
}
