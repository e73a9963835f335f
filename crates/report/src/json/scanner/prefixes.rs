//! Prefixes of members. The objects of a list are written alike: the bytes before a member's value in one object
//! occur again in the next, and comparing bytes is faster than parsing them.

use std::ops::Range;

/// The numbers of levels and members that are remembered.
const REMEMBERED_LEVELS_LIMIT: usize = 16;
const REMEMBERED_MEMBERS_LIMIT: usize = 32;

/// The bytes from the brace or the previous value to a member's own value: white space, a comma unless the member is
/// the first, the key and the colon.
#[derive(Clone, Copy, Default)]
pub(super) struct MemberPrefix {
    /// The offset at which they were read. An empty prefix is not known.
    start: u32,
    len: u8,
    separator: u8,
    key: u8,
    key_len: u8,
}

impl MemberPrefix {
    /// Returns the length in bytes.
    pub(super) fn len(self) -> usize {
        usize::from(self.len)
    }

    /// Returns the position of the comma, or of the key's quote for the first member.
    pub(super) fn separator(self) -> usize {
        usize::from(self.separator)
    }
}

/// The last prefix for each level and each position of a member in an object.
#[derive(Default)]
pub(super) struct Prefixes(Vec<[MemberPrefix; REMEMBERED_MEMBERS_LIMIT]>);

impl Prefixes {
    /// Allocates memory for prefixes. Without it, no prefix is known.
    pub(super) fn with_capacity() -> Prefixes {
        Prefixes(vec![[MemberPrefix::default(); REMEMBERED_MEMBERS_LIMIT]; REMEMBERED_LEVELS_LIMIT])
    }

    /// Returns the prefix and the key of a member if the bytes at `pos` equal the last prefix in its
    /// position. That prefix was already checked.
    #[inline(always)]
    pub(super) fn find_repeated<'a>(
        &self,
        input: &'a [u8],
        pos: usize,
        depth: usize,
        ordinal: usize,
    ) -> Option<(MemberPrefix, &'a [u8])> {
        let prefix = *self.0.get(depth)?.get(ordinal)?;
        let start = prefix.start as usize;
        let here = input.get(pos..pos + prefix.len())?;
        if prefix.len == 0 || !is_equal(here, input.get(start..start + prefix.len())?) {
            return None;
        }
        let key = usize::from(prefix.key);
        Some((prefix, &here[key..key + usize::from(prefix.key_len)]))
    }

    /// Remembers the prefix at `span`, with its separator, its key's quote and its key. A key that is not
    /// ASCII is parsed each time, for its warnings.
    pub(super) fn remember_prefix(
        &mut self,
        depth: usize,
        ordinal: usize,
        span: Range<usize>,
        separator: usize,
        quote: usize,
        key: &[u8],
    ) {
        let Some(place) = self.0.get_mut(depth).and_then(|level| level.get_mut(ordinal)) else { return };
        let within = |offset: usize| u8::try_from(offset - span.start).ok();
        if let (Ok(start), Some(len), Some(separator), Some(key_at), Ok(key_len), true) = (
            u32::try_from(span.start),
            within(span.end),
            within(separator),
            within(quote + 1),
            u8::try_from(key.len()),
            key.is_ascii(),
        ) {
            *place = MemberPrefix { start, len, separator, key: key_at, key_len };
        }
    }
}

/// Returns true if two slices of the same length are equal. Most have at most 64 bytes, half of them indentation, and
/// there are many: a call of `memcmp` for each would take longer than the comparison.
#[inline(always)]
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    match a.len() {
        33..=64 => same_ends::<32>(a, b),
        16..=32 => same_ends::<16>(a, b),
        8..16 => same_ends::<8>(a, b),
        _ => a == b,
    }
}

/// Compares slices of `N` to `2 * N` bytes: the first `N` and the last `N` bytes, which may overlap.
#[inline(always)]
fn same_ends<const N: usize>(a: &[u8], b: &[u8]) -> bool {
    match (a.first_chunk::<N>(), b.first_chunk::<N>(), a.last_chunk::<N>(), b.last_chunk::<N>()) {
        (Some(a), Some(b), Some(a_end), Some(b_end)) => (a == b) & (a_end == b_end),
        _ => false,
    }
}
