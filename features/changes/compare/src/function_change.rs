//! What became of one function between two builds, in the form of answers.

use crate::difference::{FunctionDifference, start_line};
use crate::function_table::{CodeFunction, ComparedCode, FunctionTable};
use crate::sentences::describe_change;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use unslide_model::words;
use unslide_report::Text;
use utoipa::ToSchema;

/// Inlined calls that are listed of one function.
pub const CALLS_LIMIT: usize = 20;
/// The most characters of a function's name and of a path.
pub const NAME_CHARS: usize = 1_000;
/// The most characters of the path of a source file.
pub const PATH_CHARS: usize = 1_000;

words! {
    /// What became of a function between two builds.
    #[derive(PartialOrd, Ord, ToSchema)]
    #[schema(rename_all = "snake_case")]
    pub enum ChangeState {
        /// It was edited.
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
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
pub struct FunctionChange {
    /// The readable name.
    #[schema(max_length = 1000, example = "Cart::total()")]
    pub name: String,
    /// The linkage name, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000, example = "_ZN4Cart5totalEv")]
    pub symbol: Option<String>,
    /// What became of it.
    pub state: ChangeState,
    /// A sentence with the evidence.
    #[schema(max_length = 4000)]
    pub text: String,
    /// The path of the source file, in the build after if that has the function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub file: Option<String>,
    /// The path in the build before, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub file_before: Option<String>,
    /// The first line with code in the build after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
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
    #[schema(max_items = 20)]
    pub new_inlined_calls: Vec<String>,
    /// Functions that are inlined into it in the build before alone, at most 20.
    #[serde(default)]
    #[schema(max_items = 20)]
    pub lost_inlined_calls: Vec<String>,
}

/// Describes a function that both builds have.
pub(crate) fn describe_pair(
    tables: [&FunctionTable<'_>; 2],
    [before, after]: [&CodeFunction<'_>; 2],
    difference: &FunctionDifference,
    state: ChangeState,
) -> FunctionChange {
    let [before_table, after_table] = tables;
    let own = describe_function(after_table, after);
    let old = describe_function(before_table, before);
    let has_no_lines = own.line.is_none() || old.line.is_none();
    finish_change(FunctionChange {
        state: if has_no_lines { ChangeState::NotCompared } else { state },
        file_before: old.file.filter(|path| own.file.as_ref() != Some(path)),
        line_before: old.line,
        changed_line: difference.changed_line,
        lines_more: difference.lines_more,
        size_before: old.size,
        new_inlined_calls: list_names(after_table, &difference.new_calls),
        lost_inlined_calls: list_names(before_table, &difference.lost_calls),
        ..own
    })
}

/// Describes a function that only the build after has. `is_folded` is true if the build before may have it under another name.
pub(crate) fn describe_new(
    table: &FunctionTable<'_>,
    function: &CodeFunction<'_>,
    is_folded: bool,
) -> FunctionChange {
    let state = if is_folded { ChangeState::NotCompared } else { ChangeState::New };
    finish_change(FunctionChange { state, ..describe_function(table, function) })
}

/// Describes a function that only the build before has. `is_folded` is true if the build after may have it under another name.
pub(crate) fn describe_gone(
    table: &FunctionTable<'_>,
    function: &CodeFunction<'_>,
    is_folded: bool,
) -> FunctionChange {
    // Code that was only inlined may be gone because the optimiser has folded it.
    let is_known = is_folded || function.size == 0;
    let state = if is_known { ChangeState::NotCompared } else { ChangeState::Gone };
    let FunctionChange { line, size, .. } = describe_function(table, function);
    let found = describe_function(table, function);
    finish_change(FunctionChange {
        state,
        line: None,
        size: None,
        line_before: line,
        size_before: size,
        ..found
    })
}

/// Describes a function of the build after alone.
fn describe_function(table: &FunctionTable<'_>, function: &CodeFunction<'_>) -> FunctionChange {
    let name = cut_text(&function.name.decode(), NAME_CHARS);
    let symbol = cut_text(&Text::from_escaped(function.key.symbol).decode(), NAME_CHARS);
    FunctionChange {
        symbol: Some(symbol).filter(|symbol| *symbol != name),
        name,
        state: ChangeState::Same,
        text: String::new(),
        file: function.path.map(|path| cut_text(&path.decode(), PATH_CHARS)),
        file_before: None,
        line: Some(start_line(&table.rows_of(function, ComparedCode::All))).filter(|line| *line > 0),
        line_before: None,
        changed_line: None,
        lines_more: 0,
        size: Some(function.size).filter(|size| *size > 0),
        size_before: None,
        new_inlined_calls: Vec::new(),
        lost_inlined_calls: Vec::new(),
    }
}

fn finish_change(change: FunctionChange) -> FunctionChange {
    FunctionChange { text: describe_change(&change), ..change }
}

fn list_names(table: &FunctionTable<'_>, functions: &BTreeSet<u32>) -> Vec<String> {
    let known = functions.iter().filter_map(|index| table.get(*index));
    let names: BTreeSet<String> = known.map(|one| cut_text(&one.name.decode(), NAME_CHARS)).collect();
    names.into_iter().take(CALLS_LIMIT).collect()
}

fn cut_text(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}
