//! The table of address ranges: for each of its units, the ranges of the unit's functions.
//!
//! It is parsed by hand, because gimli recurses for each entry that is all zeros.

/// The entries of one unit.
pub(super) struct Set<'a> {
    /// Offset of the unit.
    pub(super) unit: usize,
    /// Size of an address, in bytes.
    address: usize,
    /// Pairs of an address and a length.
    pairs: &'a [u8],
}

impl Set<'_> {
    /// Returns the start and the end of each range.
    pub(super) fn address_ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.pairs.chunks_exact(2 * self.address).map(|pair| {
            let (low, length) = pair.split_at(self.address);
            (read_number(low), read_number(low).saturating_add(read_number(length)))
        })
    }
}

/// Reads the sets of the table, by unit. Skips invalid sets.
pub(super) fn read_sets(table: &[u8]) -> Vec<Set<'_>> {
    let mut sets = Vec::new();
    let mut rest = table;
    while let Some((set, after)) = next(rest) {
        sets.extend(set);
        rest = after;
    }
    sets.sort_by_key(|set| set.unit);
    sets
}

/// Reads the set that begins here, if it is valid, and returns the rest of the table.
fn next(table: &[u8]) -> Option<(Option<Set<'_>>, &[u8])> {
    let word = read_number(table.get(..4)?);
    let (length, offset, start) =
        if word == 0xFFFF_FFFF { (read_number(table.get(4..12)?), 8, 12) } else { (word, 4, 4) };
    let end = start + usize::try_from(length).ok().filter(|length| *length <= table.len() - start)?;
    Some((parse_set(&table[..end], start, offset), &table[end..]))
}

fn parse_set(bytes: &[u8], start: usize, offset: usize) -> Option<Set<'_>> {
    let version = read_number(bytes.get(start..start + 2)?);
    let unit = usize::try_from(read_number(bytes.get(start + 2..start + 2 + offset)?)).ok()?;
    let at = start + 2 + offset;
    let &[address, segment] = bytes.get(at..at + 2)? else { return None };
    if !(matches!(version, 2 | 3) && matches!(address, 4 | 8) && segment == 0) {
        return None;
    }
    let address = usize::from(address);
    // The pairs begin at a multiple of their size.
    let pairs = bytes.get((at + 2).next_multiple_of(2 * address)..)?;
    Some(Set { unit, address, pairs })
}

fn read_number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte))
}
