//! What became of one function between two builds, in the form of answers.

use crate::changed_function::{CALLS_LIMIT, ChangeState, FunctionChange, NAME_CHARS, PATH_CHARS};
use crate::difference::{FunctionDifference, start_line};
use crate::function_table::{CodeFunction, ComparedCode, FunctionTable};
use crate::sentences::describe_change;
use std::collections::BTreeSet;
use unslide_report::Text;

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
        last_line: None,
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
    let rows = table.rows_of(function, ComparedCode::All);
    FunctionChange {
        symbol: Some(symbol).filter(|symbol| *symbol != name),
        name,
        state: ChangeState::Same,
        text: String::new(),
        file: function.path.map(|path| cut_text(&path.decode(), PATH_CHARS)),
        file_before: None,
        line: Some(start_line(&rows)).filter(|line| *line > 0),
        last_line: rows.last().map(|row| row.line).filter(|line| *line > 0),
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
