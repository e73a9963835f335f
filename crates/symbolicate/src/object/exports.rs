//! The export trie: a tree of name parts, with nodes found by offset. In a hostile trie a node can point
//! back to itself, or many nodes to the same one. The iterator of the crate `object` would visit it again
//! for each of them.

use super::MAX_NAME_BYTES;
use super::error::{ObjectError, malformed_error};
use super::steps::{ObjectPart, Steps};

const KIND_MASK: u64 = 0x03;
const REGULAR: u64 = 0x00;
const REEXPORT: u64 = 0x08;

/// Returns the exported symbols: name without the leading underscore, and address.
pub(super) fn walk_trie(trie: &[u8], base: u64, steps: &Steps) -> Result<Vec<(Vec<u8>, u64)>, ObjectError> {
    let bad = || malformed_error("the export trie is damaged");
    let mut found = Vec::new();
    let mut seen = vec![false; trie.len()];
    let mut todo = if trie.is_empty() { Vec::new() } else { vec![(0_usize, Vec::new())] };
    while let Some((at, prefix)) = todo.pop() {
        // A real trie is a tree: a node that is reached twice makes it a graph, possibly a cycle.
        if std::mem::replace(seen.get_mut(at).ok_or_else(bad)?, true) {
            return Err(bad());
        }
        let mut node = trie.get(at..).ok_or_else(bad)?;
        let terminal_size = usize::try_from(read_uleb(&mut node).ok_or_else(bad)?).map_err(|_| bad())?;
        let (mut terminal, mut children) = node.split_at_checked(terminal_size).ok_or_else(bad)?;
        if !terminal.is_empty() {
            let flags = read_uleb(&mut terminal).ok_or_else(bad)?;
            if flags & KIND_MASK == REGULAR && flags & REEXPORT == 0 {
                let offset = read_uleb(&mut terminal).ok_or_else(bad)?;
                let name = prefix.strip_prefix(b"_").unwrap_or(&prefix).to_vec();
                found.push((name, base.checked_add(offset).ok_or_else(bad)?));
            }
        }
        let (&count, rest) = children.split_first().ok_or_else(bad)?;
        children = rest;
        for _ in 0..count {
            let end = children.iter().position(|b| *b == 0).ok_or_else(bad)?;
            // Each child repeats the bytes of its parents.
            steps.take_bytes(ObjectPart::Exports, prefix.len() + end)?;
            let mut name = Vec::with_capacity(prefix.len() + end);
            name.extend_from_slice(&prefix);
            name.extend_from_slice(&children[..end]);
            if name.len() > MAX_NAME_BYTES {
                return Err(ObjectError::TooLarge("the names in the export trie are too long".into()));
            }
            children = &children[end + 1..];
            let next = read_uleb(&mut children).ok_or_else(bad)?;
            todo.push((usize::try_from(next).map_err(|_| bad())?, name));
        }
    }
    found.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
    Ok(found)
}

/// Reads a LEB128 number; `None` at the end or if it does not fit 64 bits.
fn read_uleb(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7F);
        if shift == 63 && part > 1 {
            return None;
        }
        value |= part << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The root with one child `_f` at the address `base + 0x20`.
    const ONE: &[u8] = &[0, 1, b'_', b'f', 0, 6, 2, 0, 0x20, 0];

    #[test]
    fn a_name_is_put_together_from_its_parts() {
        assert_eq!(walk_trie(ONE, 0x1000, &Steps::unlimited()).unwrap(), [(b"f".to_vec(), 0x1020)]);
        assert!(walk_trie(&[], 0, &Steps::unlimited()).unwrap().is_empty());
    }

    #[test]
    fn a_cycle_and_a_cut_trie_are_malformed() {
        let cycle = [0, 1, b'a', 0, 0];
        assert!(matches!(walk_trie(&cycle, 0, &Steps::unlimited()), Err(ObjectError::Malformed(_))));
        for end in 1..ONE.len() {
            assert!(
                matches!(walk_trie(&ONE[..end], 0, &Steps::unlimited()), Err(ObjectError::Malformed(_))),
                "{end}"
            );
        }
    }
}
