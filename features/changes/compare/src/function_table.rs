//! The functions of a symcache, with the source lines of their code and the calls that are inlined into them.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use unslide_report::Text;
use unslide_symbolicate::symcache::{CodeCall, NameSource, SymCache};

/// Rows and inlined calls that a table has at most.
const ROWS_LIMIT: usize = 4 << 20;
/// Rows at which equal ones are removed for the first time.
const FIRST_ROWS: usize = 1 << 16;

/// Why two builds cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// A symcache has more different lines than a comparison holds.
    #[error("a build has more than {ROWS_LIMIT} different lines of functions")]
    TooLarge,
}

/// A source line and column with code of a function. Rows of the function's own code and of its inlined copies are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CodeRow {
    slot: u32,
    pub(crate) line: u32,
    pub(crate) column: u16,
}

/// A call that is inlined into a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InlinedCall {
    slot: u32,
    pub(crate) line: u32,
    pub(crate) column: u16,
    pub(crate) callee: u32,
}

/// The names by which a function is found in another build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FunctionKey<'s> {
    pub(crate) symbol: &'s [u8],
    /// The last part of the path of the source file; empty if there is none.
    pub(crate) file: &'s [u8],
}

/// A function with code in one source file.
#[derive(Clone, Debug)]
pub(crate) struct CodeFunction<'s> {
    pub(crate) key: FunctionKey<'s>,
    pub(crate) name: Text<'s>,
    pub(crate) path: Option<Text<'s>>,
    /// Bytes of machine code that it owns, with the calls inlined into it; 0 if it is only inlined into others.
    pub(crate) size: u64,
    /// The rows of its own code, and of its inlined copies.
    rows: [Range<usize>; 2],
    /// The calls that are inlined into these.
    calls: [Range<usize>; 2],
    /// The bytes of its own lines, without the calls inlined there, by the function that owns the code.
    bytes: Range<usize>,
}

/// Which code of a function is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComparedCode {
    /// Its own code. Inlined copies lose lines by what is around them.
    Own,
    /// Its own code and all inlined copies.
    All,
}

/// The functions of a symcache.
pub(crate) struct FunctionTable<'s> {
    pub(crate) functions: Vec<CodeFunction<'s>>,
    rows: Vec<CodeRow>,
    calls: Vec<InlinedCall>,
    /// Bytes of a function's lines in the code of an owner: function, owner, bytes.
    bytes: Vec<(u32, u32, u64)>,
    /// The lines with code of each source file, in their order.
    lines_by_file: HashMap<&'s [u8], Vec<u32>>,
    /// Readable names of functions with the same code as another one, which alone is named.
    folded: HashSet<&'s [u8]>,
}

impl<'s> FunctionTable<'s> {
    /// Reads a symcache.
    ///
    /// # Errors
    /// Returns an error if it has too many lines.
    pub(crate) fn from_symcache(symcache: &'s SymCache) -> Result<FunctionTable<'s>, CompareError> {
        let mut reader = TableReader::default();
        let mut ranges = symcache.ranges().peekable();
        let (mut chain, mut before) = (Vec::new(), Vec::new());
        while let Some((start, answer)) = ranges.next() {
            let end = ranges.peek().map_or(start, |(next, _)| *next);
            chain.clear();
            let Some(answer) = answer else {
                before.clear();
                continue;
            };
            reader.folded.extend(answer.folded_with().map(Text::raw));
            chain.extend(answer.calls().map(|call| (reader.intern_function(&call), call)));
            chain.reverse();
            if answer.source == NameSource::Dwarf && !answer.approximate {
                reader.add_code(&chain, end.0.saturating_sub(start.0));
            }
            reader.add_chain(&chain, &before)?;
            std::mem::swap(&mut chain, &mut before);
        }
        Ok(reader.into_table())
    }

    /// Returns the lines of a function, in their order.
    pub(crate) fn rows_of(&self, function: &CodeFunction<'s>, code: ComparedCode) -> Cow<'_, [CodeRow]> {
        select_code(&self.rows, &function.rows, code)
    }

    /// Returns the calls that are inlined into a function, in the order of their lines.
    pub(crate) fn calls_of(&self, function: &CodeFunction<'s>, code: ComparedCode) -> Cow<'_, [InlinedCall]> {
        select_code(&self.calls, &function.calls, code)
    }

    /// Returns the bytes of a function's lines by the functions that own the code.
    pub(crate) fn bytes_of(&self, function: &CodeFunction<'s>) -> &[(u32, u32, u64)] {
        self.bytes.get(function.bytes.clone()).unwrap_or_default()
    }

    /// Returns true if code of other functions lies between two lines of a function that have none of its own between them.
    pub(crate) fn has_code_between(&self, function: &CodeFunction<'s>, first: u32, last: u32) -> bool {
        let lines = function.path.and_then(|path| self.lines_by_file.get(path.raw()));
        let lines = lines.map(Vec::as_slice).unwrap_or_default();
        let after = lines.partition_point(|line| *line <= first);
        lines.get(after).is_some_and(|line| *line < last)
    }

    pub(crate) fn get(&self, index: u32) -> Option<&CodeFunction<'s>> {
        self.functions.get(index as usize)
    }

    /// Returns true if no function has a source line.
    pub(crate) fn has_no_lines(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns true if a function of this readable name has the same code as another one, which alone is named.
    pub(crate) fn is_folded(&self, name: &[u8]) -> bool {
        self.folded.contains(name)
    }
}

/// A call with the index of its function; `None` if the function has no name.
type ChainLink<'s> = (Option<u32>, CodeCall<'s>);

#[derive(Default)]
struct TableReader<'s> {
    functions: Vec<CodeFunction<'s>>,
    by_key: HashMap<FunctionKey<'s>, u32>,
    /// Functions by the places of their texts, which are quicker to find than texts.
    by_place: HashMap<[usize; 2], Option<u32>>,
    rows: RowSet<CodeRow>,
    calls: RowSet<InlinedCall>,
    bytes: HashMap<(u32, u32), u64>,
    folded: HashSet<&'s [u8]>,
}

impl<'s> TableReader<'s> {
    fn intern_function(&mut self, call: &CodeCall<'s>) -> Option<u32> {
        let place = |text: Option<Text<'s>>| text.map_or(0, |text| text.raw().as_ptr() as usize);
        let place = [place(Some(call.raw.unwrap_or(call.function))), place(call.file)];
        if let Some(known) = self.by_place.get(&place) {
            return *known;
        }
        let symbol = normalise_symbol(call.raw.unwrap_or(call.function).raw());
        let file = call.file.map(|file| file.raw().rsplit(|byte| *byte == b'/').next().unwrap_or_default());
        let key = FunctionKey { symbol, file: file.unwrap_or_default() };
        let index = (!symbol.is_empty()).then(|| {
            let functions = &mut self.functions;
            *self.by_key.entry(key).or_insert_with(|| {
                functions.push(CodeFunction {
                    key,
                    name: call.function,
                    path: call.file,
                    size: 0,
                    rows: [0..0, 0..0],
                    calls: [0..0, 0..0],
                    bytes: 0..0,
                });
                u32::try_from(functions.len() - 1).unwrap_or(u32::MAX)
            })
        });
        self.by_place.insert(place, index);
        index
    }

    /// Counts the bytes of a range for its owner.
    fn add_code(&mut self, chain: &[ChainLink<'s>], bytes: u64) {
        let Some(owner) = chain.first().and_then(|(index, _)| *index) else { return };
        if let Some(function) = self.functions.get_mut(owner as usize) {
            function.size += bytes;
        }
        if let Some(innermost) = chain.last().and_then(|(index, _)| *index) {
            *self.bytes.entry((innermost, owner)).or_default() += bytes;
        }
    }

    /// Adds the lines of a chain, the owner first, that the chain before did not have.
    fn add_chain(&mut self, chain: &[ChainLink<'s>], before: &[ChainLink<'s>]) -> Result<(), CompareError> {
        for (depth, (index, call)) in chain.iter().enumerate() {
            let callee = chain.get(depth + 1).map(|(callee, _)| *callee);
            let known = before.get(depth).is_some_and(|(other, last)| {
                other == index && last.line == call.line && last.column == call.column
            });
            let known = known && before.get(depth + 1).map(|(callee, _)| *callee) == callee;
            let (Some(function), Some(line), false) = (*index, call.line, known) else { continue };
            let column = u16::try_from(call.column.unwrap_or(0)).unwrap_or(u16::MAX);
            let slot = function << 1 | u32::from(depth > 0);
            self.rows.push(CodeRow { slot, line, column })?;
            if let Some(Some(callee)) = callee {
                self.calls.push(InlinedCall { slot, line, column, callee })?;
            }
        }
        Ok(())
    }

    fn into_table(self) -> FunctionTable<'s> {
        let (rows, calls) = (self.rows.into_sorted(), self.calls.into_sorted());
        let mut bytes: Vec<(u32, u32, u64)> =
            self.bytes.into_iter().map(|((function, owner), bytes)| (function, owner, bytes)).collect();
        bytes.sort_unstable();
        let mut functions = self.functions;
        let own_rows = find_ranges(&rows, 2 * functions.len(), |row| row.slot);
        let own_calls = find_ranges(&calls, 2 * functions.len(), |call| call.slot);
        let own_bytes = find_ranges(&bytes, functions.len(), |(function, ..)| *function);
        let (own_rows, own_calls) = (own_rows.as_chunks().0, own_calls.as_chunks().0);
        let mut lines_by_file: HashMap<&[u8], Vec<u32>> = HashMap::new();
        for (function, ((own_rows, own_calls), bytes)) in
            functions.iter_mut().zip(own_rows.iter().zip(own_calls).zip(own_bytes))
        {
            (function.rows, function.calls, function.bytes) = (own_rows.clone(), own_calls.clone(), bytes);
            let Some(path) = function.path else { continue };
            let lines = lines_by_file.entry(path.raw()).or_default();
            for range in own_rows {
                lines.extend(rows.get(range.clone()).unwrap_or_default().iter().map(|row| row.line));
            }
        }
        for lines in lines_by_file.values_mut() {
            lines.sort_unstable();
            lines.dedup();
        }
        FunctionTable { functions, rows, calls, bytes, lines_by_file, folded: self.folded }
    }
}

/// Returns the parts of a function's code that are compared, without equal ones.
fn select_code<'r, T: Copy + Ord + SameCode>(
    all: &'r [T],
    [own, inlined]: &[Range<usize>; 2],
    code: ComparedCode,
) -> Cow<'r, [T]> {
    let own = all.get(own.clone()).unwrap_or_default();
    let inlined = all.get(inlined.clone()).unwrap_or_default();
    if code == ComparedCode::Own || inlined.is_empty() {
        return Cow::Borrowed(own);
    }
    if own.is_empty() {
        return Cow::Borrowed(inlined);
    }
    let mut both: Vec<T> = own.iter().chain(inlined).map(|part| part.without_slot()).collect();
    both.sort_unstable();
    both.dedup();
    Cow::Owned(both)
}

/// A part of a function's code that may be in its own code and in inlined copies.
trait SameCode {
    /// Returns it as if there were no difference between both.
    fn without_slot(self) -> Self;
}

impl SameCode for CodeRow {
    fn without_slot(self) -> CodeRow {
        CodeRow { slot: 0, ..self }
    }
}

impl SameCode for InlinedCall {
    fn without_slot(self) -> InlinedCall {
        InlinedCall { slot: 0, ..self }
    }
}

/// Returns a linkage name in one form: without the underscores before a mangled name, which symbol tables have and DWARF may lack,
/// and without the hash of a build.
pub(crate) fn normalise_symbol(symbol: &[u8]) -> &[u8] {
    let symbol = remove_hash(symbol);
    let plain = symbol.iter().position(|byte| !matches!(byte, b'_' | 1)).unwrap_or(0);
    let (_, name) = symbol.split_at_checked(plain).unwrap_or_default();
    if name.starts_with(b"$s") || name.starts_with(b"$S") || name.starts_with(b"Z") { name } else { symbol }
}

/// Returns a linkage name without the hash that whole-program optimisation adds, which differs in each build.
fn remove_hash(symbol: &[u8]) -> &[u8] {
    const HASH_MARK: &[u8] = b".llvm.";
    let at = symbol.windows(HASH_MARK.len()).rposition(|part| part == HASH_MARK);
    let (name, hash) = at.and_then(|at| symbol.split_at_checked(at)).unwrap_or((symbol, b""));
    let is_hash = hash.get(HASH_MARK.len()..).is_some_and(|rest| rest.iter().all(u8::is_ascii_digit));
    if is_hash { name } else { symbol }
}

/// Different rows. Equal ones are removed each time that the list has doubled.
struct RowSet<T> {
    rows: Vec<T>,
    /// The number of rows at which equal ones are removed.
    full: usize,
}

impl<T> Default for RowSet<T> {
    fn default() -> RowSet<T> {
        RowSet { rows: Vec::new(), full: FIRST_ROWS }
    }
}

impl<T: Ord> RowSet<T> {
    fn push(&mut self, row: T) -> Result<(), CompareError> {
        self.rows.push(row);
        if self.rows.len() < self.full {
            return Ok(());
        }
        self.remove_equal();
        self.full = FIRST_ROWS.max(2 * self.rows.len());
        if self.rows.len() > ROWS_LIMIT { Err(CompareError::TooLarge) } else { Ok(()) }
    }

    fn remove_equal(&mut self) {
        self.rows.sort_unstable();
        self.rows.dedup();
    }

    fn into_sorted(mut self) -> Vec<T> {
        self.remove_equal();
        self.rows
    }
}

/// Returns the range of each function in rows that are sorted by function.
fn find_ranges<T>(rows: &[T], functions: usize, function_of: impl Fn(&T) -> u32) -> Vec<Range<usize>> {
    let mut ranges = vec![0..0; functions];
    let mut at = 0;
    for rows in rows.chunk_by(|a, b| function_of(a) == function_of(b)) {
        let range = at..at + rows.len();
        at = range.end;
        let function = rows.first().map_or(0, &function_of);
        if let Some(place) = ranges.get_mut(function as usize) {
            *place = range;
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_of_a_build_is_no_part_of_a_name() {
        assert_eq!(remove_hash(b"_ZL4rankv.llvm.1730982"), b"_ZL4rankv");
        assert_eq!(remove_hash(b"rank.llvm.file"), b"rank.llvm.file");
        assert_eq!(remove_hash(b"rank"), b"rank");
        assert_eq!(remove_hash(b"rank.llvm."), b"rank");
    }

    #[test]
    fn mangled_names_with_and_without_underscores_are_the_same() {
        assert_eq!(normalise_symbol(b"__ZN4shop4fillEv"), normalise_symbol(b"_ZN4shop4fillEv"));
        assert_eq!(normalise_symbol(b"_$s4Shop5totalSiyF"), normalise_symbol(b"$s4Shop5totalSiyF"));
        assert_eq!(normalise_symbol(b"_start"), b"_start");
        assert_eq!(normalise_symbol(b"__"), b"__");
    }

    #[test]
    fn ranges_of_functions_without_rows_are_empty() {
        assert_eq!(find_ranges(&[1, 1, 3], 5, |row| *row), [0..0, 0..2, 0..0, 2..3, 0..0]);
        assert!(find_ranges(&[], 1, |row: &u32| *row)[0].is_empty());
    }
}
