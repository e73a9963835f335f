//! Source files of a feature: bundles of them are stored, and lines around the frames of a report are found.

use crate::http::problem::Problem;
use crate::limits::permits::Reservation;
use crate::limits::transactions::Tx;
use crate::reports::stored_body::{StoredBody, read_report};
use crate::requests::access::{Access, ReportsRead};
use crate::state::Api;
use bytes::Bytes;
use std::pin::Pin;
use unslide_model::TenantId;
pub use unslide_report::text::source_lines::{SourceLines, SourcePosition, list_positions};
use unslide_report::text::threads::ThreadView;
use unslide_report::text::view::{build_view, thread_view};
use unslide_store::{HookFuture, TenantTx};

/// The functions of a feature that keeps source files.
#[derive(Clone, Copy, Debug)]
pub struct SourceFeature {
    /// The first bytes of a bundle.
    pub bundle_magic: &'static [u8],
    /// The most bytes of a bundle.
    pub bundle_bytes: u64,
    /// Returns true if the tenant keeps source files.
    pub is_enabled: for<'t> fn(&'t mut TenantTx) -> HookFuture<'t, bool>,
    /// Stores a bundle.
    pub store_bundle: fn(Api, SourceBundleUpload) -> SourceWork<StoredSources>,
    /// Finds the lines around positions.
    pub find_lines: fn(Api, SourceScope, Vec<SourcePosition>) -> SourceWork<SourceLines>,
    /// The path of the page of a source file. Its parameters are `debug_id`, `path` and `line`.
    pub file_page: &'static str,
}

/// The work of a function of a [`SourceFeature`].
pub type SourceWork<T> = Pin<Box<dyn Future<Output = Result<T, Problem>> + Send>>;

/// A bundle of source files on its way to storage.
pub struct SourceBundleUpload {
    pub tenant: TenantId,
    /// The app that it belongs to, as the client says.
    pub app: Option<String>,
    /// The most bytes of all symbols of the tenant; `None` if there is no limit.
    pub symbol_bytes: Option<u64>,
    pub bytes: Bytes,
    /// The reservation of its bytes.
    pub reservation: Reservation,
}

/// The end of an uploaded bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredSources {
    /// The tenant has not turned source files on, so that nothing is stored.
    Disabled,
    /// It is stored, with this number of files.
    Stored(u32),
}

/// The bundles that a reader of a report may see.
#[derive(Clone, Debug)]
pub struct SourceScope {
    pub tenant: TenantId,
    /// The app of the report: its own bundles are preferred.
    pub app: String,
    /// The only app that the reader may see.
    pub only_app: Option<String>,
}

impl SourceScope {
    /// Returns the scope of a key that reads a report of an app.
    #[must_use]
    pub fn for_report(access: &Access<ReportsRead>, app: &str) -> SourceScope {
        SourceScope {
            tenant: access.tenant().clone(),
            app: app.to_owned(),
            only_app: access.only_app().map(str::to_owned),
        }
    }
}

/// Returns the feature that keeps source files.
#[must_use]
pub fn source_feature(api: &Api) -> Option<SourceFeature> {
    api.features.iter().find_map(|feature| feature.sources)
}

/// Finds the lines around the frames of a report, or of one of its threads. Returns none if the tenant keeps no source files.
///
/// # Errors
/// A server does not answer, or no bytes are left.
pub async fn find_source_lines(
    api: &Api,
    scope: SourceScope,
    body: &mut StoredBody,
    thread: Option<usize>,
) -> Result<SourceLines, Problem> {
    let Some(sources) = source_feature(api) else { return Ok(SourceLines::default()) };
    let mut tx: Tx<TenantTx> = api.tenant(&scope.tenant).await?;
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
    let (json, positions) = api.cpu.run_for(&scope.tenant, work).await?;
    body.json = json;
    let positions = positions?;
    if positions.is_empty() {
        return Ok(SourceLines::default());
    }
    (sources.find_lines)(api.clone(), scope, positions).await
}

/// Does the same as [`find_source_lines`] for a page, which is shown without source lines if they cannot be had.
pub async fn source_lines_for_page(
    api: &Api,
    scope: SourceScope,
    body: &mut StoredBody,
    thread: Option<usize>,
) -> SourceLines {
    find_source_lines(api, scope, body, thread).await.unwrap_or_else(|problem| {
        tracing::debug!(error = %problem, "the source lines of a report could not be read");
        SourceLines::default()
    })
}
