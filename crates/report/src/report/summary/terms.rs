//! Search terms of a report.

use super::to_owned_text;
use crate::device_name::is_a_name;
use crate::report::{Frame, Report};
use unslide_model::one_line;

/// The maximum number of terms per report.
const MOST_TERMS: usize = 100;
/// The maximum number of frames read. Any more belong to a recursion.
const MOST_FRAMES: usize = 500;
/// The maximum length of a term, in characters.
const TERM_CHARS: usize = 300;

impl<'a> Report<'a> {
    /// Returns the search terms of a report: the exception's name and reason, and the names of functions and of their
    /// source files. The functions are those of a JavaScript error and of [`Report::crashed_backtrace`], including
    /// inlined ones. The innermost function comes first. Each term occurs once, at most 100 of at most 300 characters.
    #[must_use]
    pub fn search_terms(&self) -> Vec<String> {
        let mut terms = Terms::default();
        let error = self.crash_error();
        for text in [error.exception.as_deref(), error.find_reason()].into_iter().flatten() {
            terms.add_term(text);
        }
        for frame in self.ours.iter().flat_map(|ours| &ours.javascript) {
            terms.add_term(frame.function.as_deref().unwrap_or_default());
            terms.add_file(frame.file.as_deref().unwrap_or_default());
        }
        let profile = self.build_profile();
        let sampled = profile.as_ref().map(|profile| profile.backtrace);
        let frames = self.crashed_backtrace().or(sampled).map_or(&[][..], |backtrace| &backtrace.frames);
        for frame in frames.iter().take(MOST_FRAMES) {
            if terms.is_full() {
                break;
            }
            self.add_frame(frame, &mut terms);
        }
        terms.0
    }

    /// Adds our names of a frame, or the device's if we have none.
    fn add_frame(&self, frame: &Frame<'a>, terms: &mut Terms) {
        let calls = self.our_frame(frame).map(|ours| ours.read_calls()).unwrap_or_default();
        for call in &calls {
            terms.add_term(&call.function.map(to_owned_text).unwrap_or_default());
            terms.add_file(&call.file.map(to_owned_text).unwrap_or_default());
        }
        if calls.is_empty() {
            terms.add_term(
                &frame.symbol_name.filter(|name| is_a_name(*name)).map(to_owned_text).unwrap_or_default(),
            );
        }
    }
}

#[derive(Default)]
struct Terms(Vec<String>);

impl Terms {
    fn is_full(&self) -> bool {
        self.0.len() >= MOST_TERMS
    }

    /// Adds the file's name without folders.
    fn add_file(&mut self, path: &str) {
        self.add_term(path.rsplit(['/', '\\']).next().unwrap_or_default());
    }

    fn add_term(&mut self, text: &str) {
        let text = one_line(text, TERM_CHARS);
        if !text.is_empty() && !self.is_full() && !self.0.contains(&text) {
            self.0.push(text);
        }
    }
}
