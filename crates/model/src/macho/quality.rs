//! Quality of an object: of two objects with one debug id, the better one is used.

use serde::{Deserialize, Serialize};

/// Names and lines that an object provides. A larger value is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(i16)]
pub enum Quality {
    /// No names of code.
    None = 0,
    /// Exported names only.
    Exports = 1,
    /// A symbol table.
    Symtab = 2,
    /// DWARF without a symbol table.
    Dwarf = 3,
    /// DWARF and a symbol table.
    DwarfSymtab = 4,
}

impl Quality {
    /// Returns the quality of an object with these parts.
    #[must_use]
    pub fn from_parts(dwarf: bool, symtab: bool, exports: bool) -> Quality {
        match (dwarf, symtab, exports) {
            (true, true, _) => Quality::DwarfSymtab,
            (true, false, _) => Quality::Dwarf,
            (false, true, _) => Quality::Symtab,
            (false, false, true) => Quality::Exports,
            (false, false, false) => Quality::None,
        }
    }

    /// Returns the number that is stored and sent.
    #[must_use]
    pub fn rank(self) -> i16 {
        self as i16
    }

    /// Returns the quality with this number, or `None` if there is none.
    #[must_use]
    pub fn from_rank(rank: i16) -> Option<Quality> {
        [Quality::None, Quality::Exports, Quality::Symtab, Quality::Dwarf, Quality::DwarfSymtab]
            .into_iter()
            .find(|q| q.rank() == rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dwarf_with_names_is_best_and_ranks_survive() {
        let all = [
            Quality::from_parts(false, false, false),
            Quality::from_parts(false, false, true),
            Quality::from_parts(false, true, true),
            Quality::from_parts(true, false, true),
            Quality::from_parts(true, true, false),
        ];
        assert!(all.is_sorted_by(|a, b| a < b));
        assert!(all.into_iter().all(|q| Quality::from_rank(q.rank()) == Some(q)));
        assert_eq!(Quality::from_rank(9), None);
    }
}
