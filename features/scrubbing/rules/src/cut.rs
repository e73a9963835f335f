//! Parts of texts.

use std::ops::Range;

/// Returns a part of a text; the empty text if the range does not lie between characters.
pub fn cut_text(text: &str, range: Range<usize>) -> &str {
    text.get(range).unwrap_or_default()
}
