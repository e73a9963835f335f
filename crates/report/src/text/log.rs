//! The text while it grows, up to a size.

use std::fmt;

/// What any text may have, in bytes, and what it may have for each byte of the report. A line has some
/// sixty bytes, the shortest thing that makes one has half of that.
const FLOOR: usize = 64 << 10;
const FACTOR: usize = 8;
/// The most that any text has.
const MOST: usize = 64 << 20;

/// A text that takes no more than it has room for: the rest is skipped.
pub(super) struct Log {
    text: String,
    most: usize,
    full: bool,
}

impl Log {
    /// Room for what is said of a report of `report_bytes`.
    pub(super) fn of(report_bytes: usize) -> Log {
        let most = report_bytes.saturating_mul(FACTOR).saturating_add(FLOOR).min(MOST);
        Log { text: String::new(), most, full: false }
    }

    /// True where nothing more is taken: a loop over many things can stop.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    pub(super) fn push(&mut self, c: char) {
        self.push_str(c.encode_utf8(&mut [0; 4]));
    }

    /// Appends a text of ours, or one of the device that is escaped.
    pub(super) fn push_str(&mut self, text: &str) {
        self.full |= text.len() > self.most - self.text.len();
        if !self.full {
            self.text.push_str(text);
        }
    }

    pub(super) fn finish(mut self) -> String {
        if self.full {
            self.text.push_str("\n(cut off: the text would be too large)\n");
        }
        self.text
    }
}

impl fmt::Write for Log {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push_str(text);
        Ok(())
    }
}
