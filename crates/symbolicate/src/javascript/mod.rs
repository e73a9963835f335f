//! JavaScript errors, and the source maps of their bundles.
//!
//! A bundle is an image with the debug id of [`BundleIdentity`] or one of its own, and a source map is an
//! object. A missing source map is awaited, and may arrive late, like a dSYM.

mod answer;
mod build;
mod device_name;
mod identity;
mod lines;
mod mappings;
mod output;
mod scopes;
mod source_map;
mod table;

pub use answer::FunctionSource;
pub(crate) use answer::{JavaScriptAnswer, answer_frames};
pub use build::build_for;
pub(crate) use build::build_for_own_debug_id;
pub(crate) use device_name::stable_device_name;
pub use identity::BundleIdentity;
pub(crate) use output::{JavaScriptDetail, least_bytes, write_javascript};
pub(crate) use source_map::{SourceMapFacts, is_json, read_facts};
pub use source_map::{read_map_source, with_debug_id};
pub(crate) use table::SourceMapTable;

use unslide_report::JavaScriptError;

/// Returns the identity of a bundle according to the report; `None` if the report does not name its app.
pub(crate) fn bundle_identity<'b>(error: &'b JavaScriptError, bundle: &'b str) -> Option<BundleIdentity<'b>> {
    let JavaScriptError { app, platform, version, build, .. } = error;
    (!app.is_empty()).then_some(BundleIdentity { app, platform, version, build, bundle })
}

#[cfg(test)]
mod tests;
