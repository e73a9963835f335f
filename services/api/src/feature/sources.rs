//! Parts for features that keep source files, and for pages that show their lines.

pub use crate::reports::source_lines::{find_source_lines, source_lines_for_page};
pub use crate::reports::sources::{
    SourceBundleUpload, SourceFeature, SourceScope, SourceWork, StoredSources,
};
pub use unslide_report::text::source_lines::{SourceLines, SourcePosition, list_positions};
