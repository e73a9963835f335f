//! Names of the places in a block that refer to other blocks: the members of its class.

use super::graph::{ClassMember, MemoryGraph, NodeReference};
use super::tables::{MemberLabel, PathStep};
use std::fmt::Write;

/// Returns the member at an offset. A member that is no array is at its own offset alone; an array reaches to the next
/// member, or to the end of the block.
fn find_member(members: &[ClassMember], offset: u32) -> Option<MemberLabel> {
    let before = members.partition_point(|member| member.offset <= offset);
    let member = members.get(before.checked_sub(1)?)?;
    let distance = offset - member.offset;
    let name = match distance.checked_div(member.stride) {
        Some(element) => format!("{}[{element}]", member.name),
        None if distance == 0 => member.name.clone(),
        None => return None,
    };
    Some(MemberLabel { name, type_name: member.type_name.clone() })
}

impl MemoryGraph {
    /// Returns the member of a node that a reference lies in. Returns `None` if the file does not name it.
    #[must_use]
    pub fn member_at(&self, source: u32, reference: NodeReference) -> Option<MemberLabel> {
        let class = self.classes.get(self.node_class(source)? as usize)?;
        find_member(&class.members, reference.offset()?)
    }
}

/// Returns a path as one text: `Session.cache → Cache.entries[12] → Image`.
#[must_use]
pub fn format_path(path: &[PathStep]) -> String {
    let mut text = String::new();
    for (at, step) in path.iter().enumerate() {
        if step.left_out > 0 {
            let _ = write!(text, " → … {} more …", step.left_out);
        }
        if at > 0 {
            text.push_str(" → ");
        }
        text.push_str(&step.class);
        let next = path.get(at + 1).filter(|next| next.left_out == 0);
        if let Some(member) = next.and_then(|next| next.member.as_ref()) {
            let dot = if member.name.starts_with('[') { "" } else { "." };
            let _ = write!(text, "{dot}{}", member.name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(offset: u32, stride: u32, name: &str) -> ClassMember {
        ClassMember { offset, stride, name: name.to_owned(), type_name: "Image".to_owned() }
    }

    /// The truth is a table of each byte, written member by member.
    #[test]
    fn each_offset_has_the_member_that_covers_it() {
        let members =
            [member(16, 0, "owner"), member(24, 8, "slots"), member(48, 16, ""), member(80, 0, "next")];
        let mut expected: Vec<Option<String>> = vec![None; 100];
        expected[16] = Some("owner".to_owned());
        expected[80] = Some("next".to_owned());
        for element in 0..3 {
            for byte in 0..8 {
                expected[24 + element * 8 + byte] = Some(format!("slots[{element}]"));
            }
        }
        for element in 0..2 {
            for byte in 0..16 {
                expected[48 + element * 16 + byte] = Some(format!("[{element}]"));
            }
        }
        for (offset, expected) in (0_u32..).zip(expected) {
            let found = find_member(&members, offset).map(|label| label.name);
            assert_eq!(found, expected, "{offset}");
        }
        assert_eq!(find_member(&[], 8), None);
        assert_eq!(find_member(&members, 16).unwrap().describe(), "owner: Image");
    }
}
