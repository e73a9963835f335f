//! The namespaces and types around the types of a unit. The name of a template's argument has them.

use super::DwarfBytes;
use gimli::{DwTag, Unit, constants};
use std::cell::OnceCell;
use std::collections::HashMap;

/// The most entries of a unit that are searched for the scopes of its types.
const ENTRIES_LIMIT: usize = 4 << 20;

/// The namespaces and types around the types of a unit, by the places of their entries. They are read once a template
/// needs them.
#[derive(Debug, Default)]
pub struct UnitScopes {
    parents: OnceCell<HashMap<usize, usize>>,
}

impl UnitScopes {
    /// Returns the entry around each namespace and type that is in another one, by their places.
    pub fn parents(&self, unit: &Unit<DwarfBytes<'_>>) -> &HashMap<usize, usize> {
        self.parents.get_or_init(|| read_parents(unit))
    }
}

fn is_scope(tag: DwTag) -> bool {
    tag == constants::DW_TAG_namespace || is_named_type(tag)
}

fn is_named_type(tag: DwTag) -> bool {
    matches!(
        tag,
        constants::DW_TAG_structure_type
            | constants::DW_TAG_class_type
            | constants::DW_TAG_union_type
            | constants::DW_TAG_enumeration_type
            | constants::DW_TAG_typedef
    )
}

fn read_parents(unit: &Unit<DwarfBytes<'_>>) -> HashMap<usize, usize> {
    let mut parents = HashMap::new();
    // The offsets of the entries around the next one, with true for a namespace or a type.
    let mut around: Vec<(usize, bool)> = Vec::new();
    let mut cursor = unit.entries();
    for _ in 0..ENTRIES_LIMIT {
        let Ok(Some(entry)) = cursor.next_dfs() else { break };
        around.truncate(usize::try_from(entry.depth()).unwrap_or(0));
        let offset = entry.offset().0;
        if is_scope(entry.tag())
            && let Some((parent, true)) = around.last()
        {
            parents.insert(offset, *parent);
        }
        around.push((offset, is_scope(entry.tag())));
    }
    parents
}
