//! Names of the functions around each position of a source, found in the text of the source itself.
//!
//! The text is scanned by tokens. Open levels are on an explicit stack, and each byte is read once. A text that
//! is not JavaScript, TypeScript, Flow or JSX is abandoned. A parser would recurse as deep as the text is
//! nested.

mod element;
mod level;
mod lexer;
mod names;
mod scanner;
mod type_syntax;
mod words;

use super::lines::is_line_end;
use super::mappings::FunctionMap;
use scanner::ScopeScanner;

/// Extensions of sources that are scanned, and whether such a source has no JSX.
const DIALECTS: [(&str, bool); 8] = [
    ("js", false),
    ("jsx", false),
    ("mjs", false),
    ("cjs", false),
    ("ts", true),
    ("mts", true),
    ("cts", true),
    ("tsx", false),
];
/// Suffix for a function without a name, after the name of the function around it.
const ANONYMOUS_SUFFIX: &str = ".<anonymous>";
/// Represents no name.
const NO_NAME: u32 = u32::MAX;

/// Budget for scanning the sources of one map.
pub(super) struct ScopeBudget {
    pub(super) bytes: usize,
    pub(super) functions: usize,
}

impl Default for ScopeBudget {
    fn default() -> ScopeBudget {
        ScopeBudget { bytes: 256 << 20, functions: 1 << 19 }
    }
}

/// A function, or the body of a class.
#[derive(Debug)]
struct Function {
    start: usize,
    end: usize,
    /// None for a function without a name.
    name: Option<String>,
}

/// Reads the functions of a source. Returns None if it is not JavaScript, cannot be read, or exceeds the
/// budget.
pub(super) fn read_functions(path: &str, text: &str, budget: &mut ScopeBudget) -> Option<FunctionMap> {
    let is_without_jsx = find_dialect(path)?;
    budget.bytes = budget.bytes.checked_sub(text.len())?;
    let mut scanner = ScopeScanner::new(text, is_without_jsx, budget.functions);
    let done = scanner.scan_text();
    budget.functions -= scanner.functions.len();
    done?;
    Some(function_map(text, scanner.functions))
}

/// Returns whether a source has no JSX; None if it is in another language.
fn find_dialect(path: &str) -> Option<bool> {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let name = path.rsplit(['/', '\\', ' ']).next().unwrap_or_default();
    match name.rsplit_once('.') {
        Some((_, ending)) => {
            DIALECTS.iter().find(|known| known.0.eq_ignore_ascii_case(ending)).map(|known| known.1)
        }
        None => Some(false),
    }
}

fn function_map(text: &str, mut functions: Vec<Function>) -> FunctionMap {
    functions.sort_by(|a, b| a.start.cmp(&b.start).then(b.end.cmp(&a.end)));
    let mut changes = Changes {
        places: Places::new(text),
        names: Vec::new(),
        starts: Vec::with_capacity(2 * functions.len()),
    };
    let mut open: Vec<(usize, u32)> = Vec::new();
    for function in functions {
        while let Some((end, _)) = open.pop_if(|(end, _)| *end <= function.start) {
            changes.add_start(end, open.last().map_or(NO_NAME, |outer| outer.1));
        }
        let outer = open.last().copied();
        let name = match function.name {
            Some(name) => changes.add_name(name),
            None => changes.add_anonymous(outer.map_or(NO_NAME, |outer| outer.1)),
        };
        open.push((outer.map_or(function.end, |outer| function.end.min(outer.0)), name));
        changes.add_start(function.start, name);
    }
    while let Some((end, _)) = open.pop() {
        changes.add_start(end, open.last().map_or(NO_NAME, |outer| outer.1));
    }
    FunctionMap::from_starts(changes.names, changes.starts)
}

/// The positions of a text at which another function begins or continues.
struct Changes<'t> {
    places: Places<'t>,
    names: Vec<String>,
    starts: Vec<(u32, u32, u32)>,
}

impl Changes<'_> {
    fn add_name(&mut self, name: String) -> u32 {
        self.names.push(name);
        u32::try_from(self.names.len() - 1).unwrap_or(NO_NAME)
    }

    /// Names an anonymous function after the function around it.
    fn add_anonymous(&mut self, outer: u32) -> u32 {
        match self.names.get(outer as usize) {
            Some(name) if !name.ends_with(ANONYMOUS_SUFFIX) => {
                self.add_name(format!("{name}{ANONYMOUS_SUFFIX}"))
            }
            _ => outer,
        }
    }

    fn add_start(&mut self, at: usize, name: u32) {
        let (line, column) = self.places.find_place(at);
        match self.starts.last_mut() {
            Some(last) if (last.0, last.1) == (line, column) => last.2 = name,
            _ => self.starts.push((line, column, name)),
        }
    }
}

/// Lines from 1 and columns from 0, in UTF-16 units, of ascending positions.
struct Places<'t> {
    rest: std::iter::Peekable<std::str::CharIndices<'t>>,
    line: u32,
    column: u32,
}

impl<'t> Places<'t> {
    fn new(text: &'t str) -> Places<'t> {
        Places { rest: text.char_indices().peekable(), line: 1, column: 0 }
    }

    fn find_place(&mut self, at: usize) -> (u32, u32) {
        while let Some((_, c)) = self.rest.next_if(|(index, _)| *index < at) {
            let is_before_line_feed = c == '\r' && self.rest.peek().is_some_and(|(_, next)| *next == '\n');
            if is_line_end(c) && !is_before_line_feed {
                (self.line, self.column) = (self.line.saturating_add(1), 0);
            } else {
                self.column = self.column.saturating_add(if c.len_utf8() == 4 { 2 } else { 1 });
            }
        }
        (self.line, self.column)
    }
}

#[cfg(test)]
mod tests;
