//! A function in two builds, and what became of it.

use serde::{Deserialize, Serialize};
use unslide_model::words;

/// Inlined calls that are listed of one function.
pub const CALLS_LIMIT: usize = 20;
/// The most characters of a function's name and of a path.
pub const NAME_CHARS: usize = 1_000;
/// The most characters of the path of a source file.
pub const PATH_CHARS: usize = 1_000;

words! {
    /// What became of a function between two builds.
    #[derive(PartialOrd, Ord)]
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(rename_all = "snake_case"))]
    pub enum ChangeState {
        /// Its source lines were edited.
        Changed = "changed",
        /// Only the build after has it.
        New = "new",
        /// Only the build before has it.
        Gone = "gone",
        /// Its lines are the same, and its code has other bytes: something that it uses may have changed.
        Resized = "resized",
        /// Its source is the same, and the code of calls that are inlined into it differs.
        Affected = "affected",
        /// It is the same, perhaps at other lines.
        Same = "same",
        /// Symbols do not say: it has the same code as another function, which alone is named, or no lines.
        NotCompared = "not_compared",
    }
}

/// A function in two builds.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FunctionChange {
    /// The name as a person reads it.
    #[cfg_attr(feature = "openapi", schema(max_length = 1000, example = "Cart::total()"))]
    pub name: String,
    /// The linkage name, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 1000, example = "_ZN4Cart5totalEv"))]
    pub symbol: Option<String>,
    /// What became of it in the later build.
    pub state: ChangeState,
    /// A sentence with the evidence.
    #[cfg_attr(feature = "openapi", schema(max_length = 4000))]
    pub text: String,
    /// The path of the source file, in the build after if that has the function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 1000))]
    pub file: Option<String>,
    /// The path in the build before, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 1000))]
    pub file_before: Option<String>,
    /// The first line with code in the build after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The last line with code in the build after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_line: Option<u32>,
    /// The first line with code in the build before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_before: Option<u32>,
    /// The first line of the build after that differs; absent if lines are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_line: Option<u32>,
    /// Lines from the first to the last one with code that are more in the build after.
    pub lines_more: i64,
    /// Bytes of machine code in the build after; absent if all copies are inlined into others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Bytes of machine code in the build before; absent if all copies are inlined into others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_before: Option<u64>,
    /// Functions that are inlined into it in the build after alone, at most 20.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_items = 20))]
    pub new_inlined_calls: Vec<String>,
    /// Functions that are inlined into it in the build before alone, at most 20.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_items = 20))]
    pub lost_inlined_calls: Vec<String>,
}
