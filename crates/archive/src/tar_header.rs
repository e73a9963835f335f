//! Tar headers: blocks with their own checksum.

pub(super) const BLOCK_BYTES: usize = 512;

/// True for a tar header: a block with the right checksum.
pub(super) fn is_header(block: &[u8]) -> bool {
    let Some(block) = block.get(..BLOCK_BYTES) else { return false };
    let sum: u64 =
        block.iter().enumerate().map(|(i, b)| if (148..156).contains(&i) { 32 } else { u64::from(*b) }).sum();
    parse_number(&block[148..156]) == Some(sum)
}

/// Parses an octal or base-256 field; `None` for all else and for negative numbers.
pub(super) fn parse_number(field: &[u8]) -> Option<u64> {
    if let Some((first, rest)) = field.split_first()
        && first & 0x80 != 0
    {
        return rest
            .iter()
            .try_fold(u64::from(first & 0x7f), |n, b| Some(n.checked_mul(256)? + u64::from(*b)));
    }
    let text = std::str::from_utf8(field).ok()?.trim_matches([' ', '\0']);
    if text.is_empty() { Some(0) } else { u64::from_str_radix(text, 8).ok() }
}
