//! Any bytes as a profile, and as the list of images of a log: read or refused, and what is read can be shown, within
//! bounds.

use unslide_calltree::{CallTree, GraphPlace, TreeDifference, difference_graph, flame_graph};
use unslide_captures_formats::profile::{read_images, read_profile};

pub fn check(data: &[u8]) {
    if let Ok(images) = read_images(data) {
        assert!((1..=1 << 16).contains(&images.len()));
        assert!(images.iter().all(|image| image.end.is_none_or(|end| end > image.start || end == u64::MAX)));
    }
    let Ok(profile) = read_profile(data) else { return };
    for (at, frame) in profile.frames.iter().enumerate() {
        assert!(frame.parent.is_none_or(|parent| (parent as usize) < at));
        assert!(frame.image.is_none_or(|image| (image as usize) < profile.images.len()));
    }
    let tree = profile.symbolicate(&|_| None).tree;
    for index in tree.indices() {
        let below: u64 = tree
            .children(index)
            .iter()
            .fold(0, |sum, child| tree.node(*child).total.weight.saturating_add(sum));
        assert!(below <= tree.node(index).total.weight);
    }
    let folded = tree.to_folded();
    assert!(
        folded.lines().all(|line| line.rsplit_once(' ').is_some_and(|(_, own)| own.parse::<u64>().is_ok()))
    );
    assert!(tree.to_app_tree().total() == tree.total());
    let svg = flame_graph(&tree, "fuzz", GraphPlace::File);
    assert!(svg.len() < 100 << 20 && svg.ends_with("</svg>\n"));
    let _ = difference_graph(
        &TreeDifference::from_trees(&tree, &CallTree::new("samples")),
        "fuzz",
        GraphPlace::Page,
    );
}
