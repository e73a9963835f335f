//! The instructions of an app's binary.

use unslide_fault_analysis_variables::subject::ImageText;
use unslide_symbolicate::{DeriveError, DeriveResult, DerivedObject, DerivedSource};

/// The instructions of an app's binary. A dSYM has none.
pub const APP_TEXT: DerivedObject =
    DerivedObject { name: "text-v1", source: DerivedSource::Binary, derive: derive_text };

fn derive_text(slice: &[u8]) -> DeriveResult {
    let text = ImageText::read_slice(slice).map_err(|error| DeriveError(error.to_string()))?;
    Ok(text.map(|text| text.to_stored()))
}
