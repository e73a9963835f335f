//! Runs of plain bytes in strings: up to the next quote, backslash or control character.

use super::{HIGH_BITS, LOW_BITS};

/// A run of plain bytes in a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlainRun {
    /// The offset of the first quote, backslash or control character, or of the end if there is none.
    pub(super) stop: usize,
    /// True if every byte before it is ASCII.
    pub(super) ascii: bool,
}

/// Finds the plain bytes from `pos` on.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn plain(input: &[u8], mut pos: usize) -> PlainRun {
    let mut ascii = true;
    while let Some(chunk) = input.get(pos..).and_then(|rest| rest.first_chunk::<16>()) {
        let (stops, high) = classify_bytes_sse2(chunk);
        if stops != 0 {
            let before = stops.trailing_zeros();
            return PlainRun {
                stop: pos + before as usize,
                ascii: ascii & (high & ((1 << before) - 1) == 0),
            };
        }
        ascii &= high == 0;
        pos += 16;
    }
    let rest = plain_words(input, pos);
    PlainRun { ascii: ascii & rest.ascii, ..rest }
}

/// Finds the plain bytes from `pos` on.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn plain(input: &[u8], pos: usize) -> PlainRun {
    plain_words(input, pos)
}

/// Returns two masks with one bit per byte: bytes that end a run, and bytes that are not ASCII.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[expect(unsafe_code, reason = "the compiler asks for it wherever vectors are loaded")]
fn classify_bytes_sse2(chunk: &[u8; 16]) -> (u32, u32) {
    use std::arch::x86_64::*;
    // SAFETY: every x86-64 has SSE2, and the unaligned load reads the sixteen bytes of the array.
    unsafe {
        let bytes = _mm_loadu_si128(chunk.as_ptr().cast());
        let quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'"'.cast_signed()));
        let backslashes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\'.cast_signed()));
        let controls = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1F)), bytes);
        let stops = _mm_or_si128(_mm_or_si128(quotes, backslashes), controls);
        (_mm_movemask_epi8(stops).cast_unsigned(), _mm_movemask_epi8(bytes).cast_unsigned())
    }
}

/// Works as [`plain`], with eight bytes at a time in a register: for the end of the input and for other CPUs.
fn plain_words(input: &[u8], mut pos: usize) -> PlainRun {
    let mut high = 0;
    while let Some(chunk) = input.get(pos..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        // The lowest bit that is set marks the first hit; borrows can only make bits above it wrong.
        let quote = word ^ (LOW_BITS * u64::from(b'"'));
        let backslash = word ^ (LOW_BITS * u64::from(b'\\'));
        let hits = (word.wrapping_sub(LOW_BITS * 0x20) & !word
            | quote.wrapping_sub(LOW_BITS) & !quote
            | backslash.wrapping_sub(LOW_BITS) & !backslash)
            & HIGH_BITS;
        if hits != 0 {
            let bits = hits.trailing_zeros() & !7;
            high |= word & ((1 << bits) - 1);
            return PlainRun { stop: pos + (bits / 8) as usize, ascii: high & HIGH_BITS == 0 };
        }
        high |= word;
        pos += 8;
    }
    while let Some(&byte) = input.get(pos)
        && byte >= 0x20
        && byte != b'"'
        && byte != b'\\'
    {
        high |= u64::from(byte);
        pos += 1;
    }
    PlainRun { stop: pos, ascii: high & HIGH_BITS == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Works as [`plain`], byte by byte.
    fn slowly(input: &[u8], pos: usize) -> PlainRun {
        let rest = input.get(pos..).unwrap_or_default();
        let stops = |b: &u8| *b < 0x20 || matches!(b, b'"' | b'\\');
        let count = rest.iter().position(stops).unwrap_or(rest.len());
        PlainRun { stop: pos + count, ascii: rest[..count].is_ascii() }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn all_ways_to_find_the_end_of_a_run_agree(
            mut bytes in prop::collection::vec(0x20_u8..=0xFF, 0..80),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
            text: bool,
        ) {
            if text {
                bytes.iter_mut().for_each(|byte| *byte = 0x23 + *byte % 0x30);
            }
            for (at, byte) in changes {
                let at = at.index(bytes.len().max(1));
                bytes.get_mut(at).into_iter().for_each(|changed| *changed = byte);
            }
            for pos in 0..=bytes.len() {
                let expected = slowly(&bytes, pos);
                prop_assert_eq!(plain(&bytes, pos), expected);
                prop_assert_eq!(plain_words(&bytes, pos), expected);
            }
        }
    }
}
