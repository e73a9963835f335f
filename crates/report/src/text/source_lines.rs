//! Source lines around the frames of the app, from files that a tenant keeps beside the symbols.

use super::escape_line;
use super::threads::{FrameView, ThreadView};
use std::collections::{BTreeMap, BTreeSet};
use unslide_model::DebugId;

/// Source lines on each side of a frame's own.
pub const CONTEXT_LINES: u64 = 5;
/// The maximum number of different positions of one report that get source lines.
const MOST_POSITIONS: usize = 64;
/// The maximum number of bytes of a source line; a longer one is cut.
const MOST_LINE_BYTES: usize = 200;

/// A line of a source file that the symbols of an image name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourcePosition {
    /// The image's debug id.
    pub debug_id: DebugId,
    /// The path of the file, as the symbols have it.
    pub path: String,
    /// The line, from 1.
    pub line: u64,
}

impl SourcePosition {
    /// Returns the position of a frame of the app without source lines; `None` for any other frame.
    fn from_frame(frame: &FrameView) -> Option<SourcePosition> {
        let call = frame.calls.first().filter(|_| !frame.system && frame.context.is_empty())?;
        let (path, line) = (call.path.clone()?, call.line.filter(|line| *line > 0)?);
        Some(SourcePosition { debug_id: frame.debug_id?, path, line })
    }
}

/// Source lines with their numbers, by the position that they surround.
#[derive(Clone, Debug, Default)]
pub struct SourceLines(BTreeMap<SourcePosition, Vec<(u64, String)>>);

impl SourceLines {
    /// Adds the lines of a file around a position. A line is cut, and characters that a reader obeys are escaped. A position
    /// after the last line of the file gets none.
    pub fn insert_around(&mut self, position: SourcePosition, text: &str) {
        let first = position.line.saturating_sub(CONTEXT_LINES).max(1);
        let count = position.line.saturating_add(CONTEXT_LINES) - first + 1;
        let skipped = usize::try_from(first - 1).unwrap_or(usize::MAX);
        let lines = text.lines().skip(skipped).take(usize::try_from(count).unwrap_or(usize::MAX));
        let shown = lines.map(|line| {
            let cut = line.floor_char_boundary(MOST_LINE_BYTES);
            escape_line(line.get(..cut).unwrap_or_default().replace('\t', "    ").as_str()).into_owned()
        });
        let numbered: Vec<(u64, String)> = (first..).zip(shown).collect();
        if numbered.iter().any(|(number, _)| *number == position.line) {
            self.0.insert(position, numbered);
        }
    }

    /// Adds the lines to the frames of the app that have none.
    pub fn add_to_threads(&self, threads: &mut [ThreadView]) {
        if self.0.is_empty() {
            return;
        }
        for frame in threads.iter_mut().filter(|thread| !thread.is_javascript).flat_map(|t| &mut t.frames) {
            let found = SourcePosition::from_frame(frame).and_then(|position| self.0.get(&position));
            if let Some(lines) = found {
                frame.context.clone_from(lines);
            }
        }
    }
}

/// Lists the different positions of the app's frames, those of the first threads first.
#[must_use]
pub fn list_positions(threads: &[ThreadView]) -> Vec<SourcePosition> {
    let native = threads.iter().filter(|thread| !thread.is_javascript);
    let mut known = BTreeSet::new();
    let positions = native.flat_map(|thread| &thread.frames).filter_map(SourcePosition::from_frame);
    positions.filter(|position| known.insert(position.clone())).take(MOST_POSITIONS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::threads::CallView;

    fn thread(lines: impl IntoIterator<Item = u64>) -> ThreadView {
        let frame = |line| {
            let call =
                CallView { path: Some("/a/Cart.swift".into()), line: Some(line), ..CallView::default() };
            FrameView { debug_id: Some(DebugId([7; 16])), calls: vec![call], ..FrameView::default() }
        };
        ThreadView { frames: lines.into_iter().map(frame).collect(), ..ThreadView::default() }
    }

    #[test]
    fn each_position_of_the_app_is_listed_once_and_within_a_limit() {
        let mut own = thread([3, 3, 4, 0]);
        own.frames[2].system = true;
        assert_eq!(list_positions(&[own]).len(), 1);
        assert_eq!(list_positions(&[thread(1..200)]).len(), MOST_POSITIONS);
        let javascript = ThreadView { is_javascript: true, ..thread([3]) };
        assert_eq!(list_positions(&[javascript]), []);
    }

    #[test]
    fn lines_around_a_position_are_numbered_cut_and_escaped() {
        let mut threads = [thread([2, 9, u64::MAX])];
        let mut lines = SourceLines::default();
        let text = format!("one\r\n\ttwo\u{202e}\n{}", "ä".repeat(200));
        for position in list_positions(&threads) {
            lines.insert_around(position, &text);
        }
        lines.add_to_threads(&mut threads);
        let context = &threads[0].frames[0].context;
        assert_eq!(context[..2], [(1, "one".to_owned()), (2, "    two\\u{202e}".to_owned())]);
        assert_eq!((context.len(), context[2].1.len()), (3, MOST_LINE_BYTES));
        assert!(threads[0].frames[1].context.is_empty() && threads[0].frames[2].context.is_empty());
    }
}
