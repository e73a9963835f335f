//! Pairs the functions of two builds by their names.

use crate::function_table::FunctionTable;
use std::collections::HashMap;

/// The functions of two builds that are the same by their names.
pub(crate) struct Pairing {
    /// The function of the build before for each of the build after.
    pub(crate) before: Vec<Option<u32>>,
    /// The function of the build after for each of the build before.
    pub(crate) after: Vec<Option<u32>>,
}

impl Pairing {
    /// Pairs functions with the same linkage name and the same name of their source file, and then those left whose linkage name
    /// is left once in each build: their file was renamed.
    pub(crate) fn from_tables(before: &FunctionTable<'_>, after: &FunctionTable<'_>) -> Pairing {
        let mut pairing =
            Pairing { before: vec![None; after.functions.len()], after: vec![None; before.functions.len()] };
        let known: HashMap<_, u32> = (0..).zip(&before.functions).map(|(at, one)| (one.key, at)).collect();
        for (index, function) in (0..).zip(&after.functions) {
            if let Some(other) = known.get(&function.key) {
                pairing.add(*other, index);
            }
        }
        let left_before = list_left(before, &pairing.after);
        let left_after = list_left(after, &pairing.before);
        for (symbol, index) in left_after {
            if let (Some(index), Some(Some(other))) = (index, left_before.get(symbol)) {
                pairing.add(*other, index);
            }
        }
        pairing
    }

    fn add(&mut self, before: u32, after: u32) {
        if let Some(place) = self.before.get_mut(after as usize) {
            *place = Some(before);
        }
        if let Some(place) = self.after.get_mut(before as usize) {
            *place = Some(after);
        }
    }
}

/// Returns the functions without a pair by their linkage names; `None` for a name that several have.
fn list_left<'s>(table: &FunctionTable<'s>, pairs: &[Option<u32>]) -> HashMap<&'s [u8], Option<u32>> {
    let mut left = HashMap::new();
    for (index, (function, pair)) in (0..).zip(table.functions.iter().zip(pairs)) {
        if pair.is_none() {
            left.entry(function.key.symbol).and_modify(|known| *known = None).or_insert(Some(index));
        }
    }
    left
}
