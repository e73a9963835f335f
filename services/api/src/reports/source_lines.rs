//! Lines of source files around the frames of a report, from the feature that keeps the files.

use super::sources::SourceScope;
use super::stored_body::{StoredBody, read_report};
use super::symbolication::Symbolication;
use crate::problem::Problem;
use crate::storage::transactions::Tx;
use unslide_report::text::source_lines::{SourceLines, list_positions};
use unslide_report::text::threads::ThreadView;
use unslide_report::text::view::{build_view, thread_view};
use unslide_store::TenantTx;

/// Finds the lines around the frames of a report, or of one of its threads. Returns none if the tenant keeps no source files.
///
/// # Errors
/// A server does not answer, or no bytes are left.
pub async fn find_source_lines(
    symbolication: &Symbolication,
    scope: SourceScope,
    body: &mut StoredBody,
    thread: Option<usize>,
) -> Result<SourceLines, Problem> {
    let Some(sources) = symbolication.sources else { return Ok(SourceLines::default()) };
    let mut tx: Tx<TenantTx> = symbolication.storage.tenant(&scope.tenant).await?;
    let is_enabled = (sources.is_enabled)(&mut tx).await?;
    tx.rollback();
    if !is_enabled {
        return Ok(SourceLines::default());
    }
    let json = std::mem::take(&mut body.json);
    let work = move || {
        let positions = read_report(&json).map(|report| {
            let threads: Vec<ThreadView> = match thread {
                Some(position) => thread_view(&report, position).into_iter().collect(),
                None => build_view(&report).threads,
            };
            list_positions(&threads)
        });
        (json, positions)
    };
    let (json, positions) = symbolication.capacity.cpu.run_for(&scope.tenant, work).await?;
    body.json = json;
    let positions = positions?;
    if positions.is_empty() {
        return Ok(SourceLines::default());
    }
    (sources.find_lines)(symbolication.storage.clone(), scope, positions).await
}

/// Does the same as [`find_source_lines`] for a page, which is shown without source lines if they cannot be had.
pub async fn source_lines_for_page(
    symbolication: &Symbolication,
    scope: SourceScope,
    body: &mut StoredBody,
    thread: Option<usize>,
) -> SourceLines {
    find_source_lines(symbolication, scope, body, thread).await.unwrap_or_else(|problem| {
        tracing::debug!(error = %problem, "the source lines of a report could not be read");
        SourceLines::default()
    })
}
