//! A growing text with a maximum size.

use std::fmt;

/// The size in bytes that any text may have, and the further size for each byte of the report. A line has some
/// sixty bytes. The shortest value that produces a line has half of that.
const LOG_FLOOR_BYTES: usize = 64 << 10;
const LOG_BYTES_PER_REPORT_BYTE: usize = 8;
/// The maximum size of any text.
const LOG_BYTES_LIMIT: usize = 64 << 20;

/// A text with a maximum size. It skips everything beyond.
pub(super) struct Log {
    text: String,
    most: usize,
    full: bool,
}

impl Log {
    /// Creates a text with the capacity for a report of `report_bytes`.
    pub(super) fn for_report_size(report_bytes: usize) -> Log {
        let most = report_bytes
            .saturating_mul(LOG_BYTES_PER_REPORT_BYTE)
            .saturating_add(LOG_FLOOR_BYTES)
            .min(LOG_BYTES_LIMIT);
        Log { text: String::new(), most, full: false }
    }

    /// Returns true if the text accepts no more, so that a long loop can stop.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    pub(super) fn push(&mut self, c: char) {
        self.push_str(c.encode_utf8(&mut [0; 4]));
    }

    /// Appends a text of ours, or an escaped text of the device.
    pub(super) fn push_str(&mut self, text: &str) {
        self.full |= text.len() > self.most - self.text.len();
        if !self.full {
            self.text.push_str(text);
        }
    }

    pub(super) fn into_text(mut self) -> String {
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
