//! Ranges of bytes.

use std::ops::Range;

/// Returns `input` without the given spans, which ascend and do not overlap.
pub(crate) fn remove_spans(input: &[u8], spans: Vec<Range<usize>>) -> Vec<u8> {
    let mut out = Vec::with_capacity(input.len());
    let mut done = 0;
    for span in spans {
        out.extend_from_slice(&input[done..span.start]);
        done = span.end;
    }
    out.extend_from_slice(&input[done..]);
    out
}
