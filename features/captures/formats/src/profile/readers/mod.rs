//! The formats of profiles, a file for each, and which of them a file is in.

mod backtrace;
mod folded;
mod image_line;
mod json;
mod metric_kit;
mod recognise;
mod sample;
mod spindump;
mod stack_set;

pub use recognise::read_profile;

use super::parse_hex;

/// The most addresses that are kept of a frame that represents several.
const MOST_ADDRESSES: usize = 16;

/// The open frames of a text that shows depth by columns.
#[derive(Default)]
struct OpenFrames(Vec<(usize, u32)>);

impl OpenFrames {
    /// Closes all frames that begin at `column` or right of it, and returns the frame that is open then.
    fn caller_at(&mut self, column: usize) -> Option<u32> {
        while self.0.last().is_some_and(|(open, _)| *open >= column) {
            self.0.pop();
        }
        self.0.last().map(|(_, frame)| *frame)
    }

    /// Adds an open frame at this column. It is the caller of deeper frames that follow.
    fn open_frame(&mut self, column: usize, frame: u32) {
        self.0.push((column, frame));
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// Returns a count at the start of a text, and the text after it.
fn leading_count(text: &str) -> Option<(u64, &str)> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    Some((text.strip_suffix(rest)?.parse().ok()?, rest))
}

/// Returns the addresses of a list such as `0x10,0x20,...`, without the brackets.
fn address_list(text: &str) -> Vec<u64> {
    text.split(',').filter_map(|part| parse_hex(part.trim())).take(MOST_ADDRESSES).collect()
}
