//! Storage of source files by a feature, as the api calls it.

use crate::limits::permits::Reservation;
use crate::problem::Problem;
use crate::requests::access::{Access, ReportsRead};
use crate::storage::Storage;
use bytes::Bytes;
use std::pin::Pin;
use std::sync::Arc;
use unslide_model::TenantId;
use unslide_report::text::source_lines::{SourceLines, SourcePosition};
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
    pub store_bundle: fn(Arc<Storage>, SourceBundleUpload) -> SourceWork<StoredSources>,
    /// Finds the lines around positions.
    pub find_lines: fn(Arc<Storage>, SourceScope, Vec<SourcePosition>) -> SourceWork<SourceLines>,
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
