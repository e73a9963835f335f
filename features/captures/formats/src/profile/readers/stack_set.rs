//! Sets of stacks, as apps send them: `unslide.signal.v1.StackSet`.

use crate::profile::{Profile, ProfileFormat, ProfileFrame, ProfileImage};
use unslide_proto::signal::StackSet;

impl From<&StackSet> for Profile {
    /// Reads a set that [`unslide_proto::stacks::read_stack_set`] has checked. Its addresses are offsets into images,
    /// so these start at 0.
    fn from(set: &StackSet) -> Profile {
        let images = set.images.iter().map(|image| ProfileImage {
            name: image.name.rsplit('/').next().unwrap_or_default().to_owned(),
            path: if image.name.contains('/') { image.name.clone() } else { String::new() },
            debug_id: image.parse_debug_id(),
            ..ProfileImage::default()
        });
        let mut counts: Vec<u64> = set.nodes.iter().map(|node| node.count).collect();
        for (position, node) in set.nodes.iter().enumerate().rev() {
            // Callers come first, so a count is whole when it is added to theirs.
            let count = counts[position];
            if let Some(caller) =
                to_zero_based(node.parent).and_then(|caller| counts.get_mut(caller as usize))
            {
                *caller = caller.saturating_add(count);
            }
        }
        let frames = set.nodes.iter().zip(counts).map(|(node, count)| ProfileFrame {
            parent: to_zero_based(node.parent),
            count,
            image: to_zero_based(node.image),
            addresses: vec![node.address],
            exact: node.exact,
            ..ProfileFrame::default()
        });
        let mut profile = Profile::new(ProfileFormat::StackSet);
        profile.images = images.collect();
        profile.frames = frames.collect();
        profile
    }
}

/// Returns a position that the message counts from 1. Returns `None` for 0, which means no position.
fn to_zero_based(position: u32) -> Option<u32> {
    position.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_proto::signal::{StackImage, StackNode};

    #[test]
    fn counts_are_added_to_those_of_the_callers() {
        let node = |parent, image, address, count| StackNode { parent, image, address, count, exact: false };
        let set = StackSet {
            images: vec![StackImage {
                debug_id: vec![7; 16].into(),
                name: "/var/containers/Shop.app/Shop".into(),
            }],
            nodes: vec![node(0, 1, 0x10, 0), node(1, 1, 0x20, 5), node(2, 0, 0x9000, 2), node(1, 1, 0x30, 4)],
        };
        let profile = Profile::from(&set);
        let counts: Vec<u64> = profile.frames.iter().map(|frame| frame.count).collect();
        assert_eq!(counts, [11, 7, 2, 4]);
        let found = profile.symbolicate(&|_| None);
        assert_eq!(
            found.tree.to_folded(),
            "Shop + 16;Shop + 32 5\nShop + 16;Shop + 32;0x9000 2\nShop + 16;Shop + 48 4\n"
        );
        assert_eq!((found.lacking.len(), found.lacking[0].frames), (1, 3));
    }
}
