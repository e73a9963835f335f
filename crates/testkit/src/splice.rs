//! Texts put into a report, as an engine does it.

/// Appends `input` to `out` with each text inserted at its offset. Offsets ascend; one that lies
/// beyond the end, or before its predecessor, inserts at the nearest place that is left.
pub fn splice<T: AsRef<[u8]>>(
    input: &[u8],
    insertions: impl IntoIterator<Item = (usize, T)>,
    out: &mut Vec<u8>,
) {
    let mut done = 0;
    for (offset, text) in insertions {
        let offset = offset.clamp(done, input.len());
        out.extend_from_slice(&input[done..offset]);
        out.extend_from_slice(text.as_ref());
        done = offset;
    }
    out.extend_from_slice(&input[done..]);
}
