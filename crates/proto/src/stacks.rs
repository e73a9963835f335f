//! Untrusted sets of stacks: counted before they are decoded, and checked before they are used.

use crate::signal::{StackImage, StackSet};
use prost::Message;
use unslide_model::DebugId;

/// The maximum size of a set, in bytes.
pub const MOST_BYTES: usize = 64 << 20;
/// The maximum number of images in a set.
pub const MOST_IMAGES: usize = 1 << 16;
/// The maximum number of nodes in a set.
pub const MOST_NODES: usize = 1 << 20;
/// The maximum number of frames in a stack.
pub const MOST_DEPTH: usize = 1024;
/// The maximum size of an image's name, in bytes.
pub const MOST_NAME: usize = 1024;

/// The reason why bytes are not a valid set of stacks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StackSetError {
    /// The set exceeds a limit.
    #[error("the set of stacks has {found} {what}, the limit is {limit}")]
    TooMany {
        /// The counted items, such as `nodes`.
        what: &'static str,
        /// Their number, or a lower bound of it.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// The bytes are not a message of this kind.
    #[error("no set of stacks: {0}")]
    Damaged(String),
    /// A node or an image refers to something that is missing or of another kind.
    #[error("{what} {position} of the set of stacks: {problem}")]
    Wrong {
        /// `node` or `image`.
        what: &'static str,
        /// Its position.
        position: usize,
        /// The problem as a phrase.
        problem: &'static str,
    },
}

/// Reads a set of stacks. Counts its images and nodes before it allocates memory for them.
///
/// # Errors
/// Returns an error if the set is damaged, exceeds a limit, or refers to something that is missing.
pub fn read_stack_set(bytes: &[u8]) -> Result<StackSet, StackSetError> {
    at_most("bytes", bytes.len(), MOST_BYTES)?;
    check_counts(bytes)?;
    let set = StackSet::decode(bytes).map_err(|error| StackSetError::Damaged(error.to_string()))?;
    check_stack_set(&set)?;
    Ok(set)
}

fn at_most(what: &'static str, found: usize, limit: usize) -> Result<(), StackSetError> {
    if found > limit { Err(StackSetError::TooMany { what, found, limit }) } else { Ok(()) }
}

/// Counts the images and the nodes, which are the repeated fields.
fn check_counts(mut bytes: &[u8]) -> Result<(), StackSetError> {
    let damaged = || StackSetError::Damaged("a field that ends too early, or of no known kind".to_owned());
    let (mut images, mut nodes) = (0, 0);
    while !bytes.is_empty() {
        let number = |bytes: &mut &[u8]| prost::decode_length_delimiter(bytes).map_err(|_| damaged());
        let key = number(&mut bytes)?;
        // The low bits are the wire type of a field, which determines where the field ends.
        let length = match key & 7 {
            0 => number(&mut bytes).map(|_| 0)?,
            1 => 8,
            2 => number(&mut bytes)?,
            5 => 4,
            _ => return Err(damaged()),
        };
        bytes = bytes.get(length..).ok_or_else(damaged)?;
        images += usize::from(key >> 3 == 1);
        nodes += usize::from(key >> 3 == 2);
        at_most("images", images, MOST_IMAGES)?;
        at_most("nodes", nodes, MOST_NODES)?;
    }
    Ok(())
}

fn check_stack_set(set: &StackSet) -> Result<(), StackSetError> {
    for (position, image) in set.images.iter().enumerate() {
        let wrong = |problem| StackSetError::Wrong { what: "image", position, problem };
        if !matches!(image.debug_id.len(), 0 | 16) {
            return Err(wrong("its debug id has not 16 bytes"));
        }
        if image.name.len() > MOST_NAME {
            return Err(wrong("its name is too long"));
        }
    }
    let mut depths: Vec<usize> = Vec::with_capacity(set.nodes.len());
    for (position, node) in set.nodes.iter().enumerate() {
        let wrong = |problem| StackSetError::Wrong { what: "node", position, problem };
        if node.image as usize > set.images.len() {
            return Err(wrong("its image is not there"));
        }
        let above = match (node.parent as usize).checked_sub(1) {
            Some(parent) => *depths.get(parent).ok_or_else(|| wrong("its caller does not come before it"))?,
            None => 0,
        };
        if above >= MOST_DEPTH {
            return Err(wrong("its stack is too deep"));
        }
        depths.push(above + 1);
    }
    Ok(())
}

impl StackImage {
    /// Returns the debug id, or `None` if it is not known.
    #[must_use]
    pub fn parse_debug_id(&self) -> Option<DebugId> {
        <[u8; 16]>::try_from(&self.debug_id[..]).ok().map(DebugId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signal::StackNode;

    fn image(debug_id: &'static [u8], name: &str) -> StackImage {
        StackImage { debug_id: debug_id.into(), name: name.to_owned() }
    }

    fn node(parent: u32, image: u32) -> StackNode {
        StackNode { parent, image, address: 0x1000, count: 1, exact: false }
    }

    fn refused(images: Vec<StackImage>, nodes: Vec<StackNode>) -> String {
        read_stack_set(&StackSet { images, nodes }.encode_to_vec()).unwrap_err().to_string()
    }

    #[test]
    fn a_set_is_read_and_what_it_refers_to_must_be_there() {
        let images = vec![image(&[1; 16], "Shop"), image(&[], "")];
        let set = StackSet { images: images.clone(), nodes: vec![node(0, 1), node(1, 2), node(1, 0)] };
        assert_eq!(read_stack_set(&set.encode_to_vec()), Ok(set.clone()));
        assert_eq!(
            set.images.iter().map(StackImage::parse_debug_id).collect::<Vec<_>>(),
            [Some(DebugId([1; 16])), None]
        );
        let problem = refused(images.clone(), vec![node(0, 3)]);
        assert_eq!(problem, "node 0 of the set of stacks: its image is not there");
        for nodes in [vec![node(1, 0)], vec![node(0, 0), node(3, 0), node(0, 0)]] {
            assert!(refused(images.clone(), nodes).ends_with("its caller does not come before it"));
        }
        assert!(refused(vec![image(&[1; 15], "")], vec![]).ends_with("its debug id has not 16 bytes"));
        assert!(refused(vec![image(&[], &"x".repeat(1025))], vec![]).ends_with("its name is too long"));
        let stack = |depth| (0..depth).map(|parent| node(parent, 0)).collect();
        assert!(read_stack_set(&StackSet { images: vec![], nodes: stack(1024) }.encode_to_vec()).is_ok());
        assert!(refused(vec![], stack(1025)).ends_with("its stack is too deep"));
    }

    #[test]
    fn sets_beyond_the_limits_are_refused_before_they_are_read() {
        // Empty nodes, of two bytes each.
        let many = [0x12, 0].repeat(MOST_NODES + 1);
        assert!(matches!(read_stack_set(&many), Err(StackSetError::TooMany { what: "nodes", .. })));
        let many = [0x0A, 0].repeat(MOST_IMAGES + 1);
        assert!(matches!(read_stack_set(&many), Err(StackSetError::TooMany { what: "images", .. })));
        let large = vec![0; MOST_BYTES + 1];
        assert!(matches!(read_stack_set(&large), Err(StackSetError::TooMany { what: "bytes", .. })));
        for damaged in
            [&[0x12, 5][..], &[0x12], &[0x13, 0], &[0xFF; 12], &[0x12, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F]]
        {
            assert!(matches!(read_stack_set(damaged), Err(StackSetError::Damaged(_))), "{damaged:?}");
        }
        // A field that a later version may add.
        assert_eq!(read_stack_set(&[0x18, 1, 0x22, 1, 0]), Ok(StackSet::default()));
    }
}
