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
pub(super) struct Prefixes(Vec<MemberPrefix>);

impl Prefixes {
    /// Room for prefixes. Without any none is known.
    pub(super) fn room() -> Prefixes {
        Prefixes(vec![MemberPrefix::default(); LEVELS * MEMBERS])
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
        let prefix = *self.0.get(index(depth, ordinal)?)?;
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
        let Some(place) = index(depth, ordinal).and_then(|index| self.0.get_mut(index)) else { return };
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

/// True where two slices of the same length have the same bytes. They are short and many: a call of `memcmp` for each
/// would take longer than the comparison.
#[inline(always)]
fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() < 16 {
        return short_same(a, b);
    }
    let mut at = 0;
    loop {
        let (Some(left), Some(right)) = (vector(a, at), vector(b, at)) else { return false };
        if left != right {
            return false;
        }
        // The last vector ends with the slices, and overlaps the one before it.
        match a.len() - at {
            16 => return true,
            17..32 => at = a.len() - 16,
            _ => at += 16,
        }
    }
}

#[inline(always)]
fn vector(bytes: &[u8], at: usize) -> Option<&[u8; 16]> {
    bytes.get(at..)?.first_chunk()
}

/// The same of fewer than 16 bytes.
#[inline(always)]
fn short_same(a: &[u8], b: &[u8]) -> bool {
    match (a.first_chunk::<8>(), b.first_chunk::<8>(), a.last_chunk::<8>(), b.last_chunk::<8>()) {
        (Some(a), Some(b), Some(a_end), Some(b_end)) => {
            u64::from_ne_bytes(*a) == u64::from_ne_bytes(*b)
                && u64::from_ne_bytes(*a_end) == u64::from_ne_bytes(*b_end)
        }
        _ => a.iter().eq(b),
    }
}

#[inline(always)]
fn index(depth: usize, ordinal: usize) -> Option<usize> {
    (depth < LEVELS && ordinal < MEMBERS).then_some(depth * MEMBERS + ordinal)
}
