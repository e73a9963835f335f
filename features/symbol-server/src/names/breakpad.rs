//! Answers with the symbols of an image as Breakpad's text.

use super::fetch_symbols;
use super::text::BreakpadText;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use std::sync::Arc;
use unslide_api::feature::Symbolication;
use unslide_api::feature::operation::{Charge, Kind, Problem, ReservedAnswer, reserve_bytes};
use unslide_model::{DebugId, TenantId};
use unslide_symbolicate::ImageSymbols;
use unslide_symbolicate::symcache::SymCache;

/// The most bytes of a text.
const MAX_TEXT_BYTES: usize = 128 << 20;

/// Answers with the names of a debug id, for a module with this name.
///
/// # Errors
/// [`Kind::NotFound`], [`Kind::RateLimited`], or the text is too large for this process.
pub async fn answer_symbols(
    symbolication: &Symbolication,
    tenant: &TenantId,
    debug_id: &DebugId,
    name: &str,
) -> Result<Response, Problem> {
    let mut charge = Charge::for_symbolication(&symbolication.capacity, tenant)?;
    let symbols = fetch_symbols(symbolication, tenant, [*debug_id]).await?;
    let symcache = match symbols.get(debug_id) {
        Some(ImageSymbols::Found { symcache, .. }) => Arc::clone(symcache),
        Some(ImageSymbols::FetchingFailed) => {
            return Err(Problem::unavailable("the symbols could not be fetched", 5));
        }
        _ => return Err(Problem::new(Kind::NotFound, "there are no such symbols")),
    };
    // The work is in proportion to the symcache.
    charge.charge_received(symcache.bytes().len() as u64)?;
    let name = name.to_owned();
    let text = symbolication.capacity.cpu.run_for(tenant, move || write_text(&symcache, &name)).await??;
    let reservation = reserve_bytes(&symbolication.capacity.permits, tenant, text.len() as u64)?;
    let answer = ReservedAnswer { bytes: text.into(), reservation };
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, kind)], answer).into_response())
}

fn write_text(symcache: &SymCache, name: &str) -> Result<Vec<u8>, Problem> {
    let text = BreakpadText::from_symcache(symcache, name, MAX_TEXT_BYTES);
    let too_large = || {
        let detail =
            format!("the text is larger than {MAX_TEXT_BYTES} bytes; use symbolicate/v5 for this image");
        Problem::new(Kind::TooLarge, detail)
    };
    text.ok_or_else(too_large)
}
