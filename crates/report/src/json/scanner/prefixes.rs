//! What stands before the values of members. Objects of one list are written alike: what stood before a
//! member's value in the object before stands there again, and comparing bytes is faster than reading them.

use std::ops::Range;

/// Levels and members that are remembered.
const LEVELS: usize = 16;
const MEMBERS: usize = 32;

/// The bytes from behind the brace or the value before a member to its own value: white space, a comma where
/// it is not the first, the key and the colon.
#[derive(Clone, Copy, Default)]
pub(super) struct MemberPrefix {
    /// Where they were read; nothing is known where they are none.
    start: u32,
    len: u8,
    separator: u8,
    key: u8,
    key_len: u8,
}

impl MemberPrefix {
    /// Their number.
    pub(super) fn len(self) -> usize {
        usize::from(self.len)
    }

    /// Which of them is the comma, or the key's quote of the first member.
    pub(super) fn separator(self) -> usize {
        usize::from(self.separator)
    }
}

/// For each level and each member's place in an object the prefix that was read last.
#[derive(Default)]
pub(super) struct Prefixes(Vec<[MemberPrefix; MEMBERS]>);

impl Prefixes {
    /// Room for prefixes. Without any none is known.
    pub(super) fn room() -> Prefixes {
        Prefixes(vec![[MemberPrefix::default(); MEMBERS]; LEVELS])
    }

    /// The prefix and the key of a member, where the bytes at `pos` are those that were read last in its
    /// place. They were checked then.
    #[inline(always)]
    pub(super) fn repeated<'a>(
        &self,
        input: &'a [u8],
        pos: usize,
        depth: usize,
        ordinal: usize,
    ) -> Option<(MemberPrefix, &'a [u8])> {
        let prefix = *self.0.get(depth)?.get(ordinal)?;
        let start = prefix.start as usize;
        let here = input.get(pos..pos + prefix.len())?;
        if prefix.len == 0 || !same(here, input.get(start..start + prefix.len())?) {
            return None;
        }
        let key = usize::from(prefix.key);
        Some((prefix, &here[key..key + usize::from(prefix.key_len)]))
    }

    /// Remembers the prefix that lies at `span`, with its separator, its key's quote and its key. A key that
    /// is not ASCII is read anew each time, for its warnings.
    pub(super) fn note(
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

/// True where two slices of the same length have the same bytes. Most have at most 64, half of them indentation, and
/// they are many: a call of `memcmp` for each would take longer than the comparison.
#[inline(always)]
fn same(a: &[u8], b: &[u8]) -> bool {
    match a.len() {
        33..=64 => same_ends::<32>(a, b),
        16..=32 => same_ends::<16>(a, b),
        8..16 => same_ends::<8>(a, b),
        _ => a == b,
    }
}

/// The same of at least `N` and at most twice as many bytes: the first ones and the last ones overlap.
#[inline(always)]
fn same_ends<const N: usize>(a: &[u8], b: &[u8]) -> bool {
    match (a.first_chunk::<N>(), b.first_chunk::<N>(), a.last_chunk::<N>(), b.last_chunk::<N>()) {
        (Some(a), Some(b), Some(a_end), Some(b_end)) => (a == b) & (a_end == b_end),
        _ => false,
    }
}
