//! The call tree of an enriched report.

use unslide_calltree::{CallTree, FrameOrigin, GraphPlace, flame_graph};
use unslide_calltree::{ReportTree, report_tree, report_tree_bytes};
use unslide_report::{ReadLimits, Report};
use unslide_symbolicate::{Context, enrich};
use unslide_testkit::reports::{Frame, Json, Report as Made};

const APP: &str = "0F1E2D3C-4B5A-6978-8796-A5B4C3D2E1F0";
const LIBRARY: &str = "363F8E49-2D2A-3A26-BF90-60D6A8896CF0";

fn profile(name: &str) -> Made {
    let app = |address: u64| Frame::at(address).object(name, 0x1_0400_0000).uuid(APP);
    let system = Frame::at(0x1_9000_0100)
        .object("UIKitCore", 0x1_9000_0000)
        .uuid(LIBRARY)
        .symbol("draw", 0x1_9000_0080);
    let sample = |frames: &[u64]| {
        Json::object([("frames", Json::array(frames.iter().map(|index| Json::from(*index))))])
    };
    Made::standard()
        .without("binary_images")
        .profile_frames([app(0x1_0400_1000), app(0x1_0400_2000), system])
        .set("crash.error.profile.samples", Json::array([sample(&[0, 2]), sample(&[1, 2]), sample(&[0, 2])]))
}

fn enriched(report: &Made) -> Vec<u8> {
    let bytes = report.bytes();
    let report = Report::read(&bytes, &ReadLimits::default()).unwrap();
    enrich(&report, &|_| None, &Context::default()).bytes
}

/// The tree of an enriched report, which takes no more memory than was said before it was made.
fn tree(bytes: &[u8]) -> ReportTree {
    let report = Report::read(bytes, &ReadLimits::default()).unwrap();
    let profile = report.profile_or_hang().expect("it was sampled");
    let found = report_tree(&report, &profile);
    let most = report_tree_bytes(&report, &profile);
    assert!(found.tree.memory_bytes() <= most, "{} of {most}", found.tree.memory_bytes());
    found
}

#[test]
fn a_profile_becomes_a_tree_with_the_names_that_its_report_has() {
    let found = tree(&enriched(&profile("Shop")));
    assert_eq!(
        (found.tree.to_folded().as_str(), found.skipped),
        ("draw;Shop + 0x1000 2\ndraw;Shop + 0x2000 1\n", 0)
    );
    let slices: Vec<(usize, usize, String, usize)> = found
        .time_slices(3)
        .into_iter()
        .map(|one| (one.from, one.to, one.frame.name.to_string(), one.samples))
        .collect();
    let slice = |from, to, name: &str| (from, to, name.to_owned(), to - from);
    assert_eq!(
        slices,
        [slice(0, 1, "Shop + 0x1000"), slice(1, 2, "Shop + 0x2000"), slice(2, 3, "Shop + 0x1000")]
    );
    let whole = found.time_slices(1);
    assert_eq!((whole.len(), whole[0].samples, whole[0].to), (1, 2, 3));
    let draw = found.tree.children(CallTree::ROOT)[0];
    assert_eq!(found.tree.frame(draw).origin, FrameOrigin::System);
    assert_eq!(found.tree.frame(found.tree.children(draw)[0]).origin, FrameOrigin::App);
}

#[test]
fn hostile_names_of_a_report_are_text_in_the_graph() {
    let found = tree(&enriched(&profile("<script>alert(1)<b>\u{202e}")));
    let svg = flame_graph(&found.tree, "<b>", GraphPlace::Page);
    assert!(!svg.contains("<script") && !svg.contains("<b>") && !svg.contains('\u{202e}'), "{svg}");
    assert!(svg.contains("&lt;script&gt;alert(1)"), "{svg}");
}

#[test]
fn long_names_of_images_are_cut_where_they_stand_for_functions() {
    let found = tree(&enriched(&profile(&"a".repeat(5_000))));
    let draw = found.tree.children(CallTree::ROOT)[0];
    let name = &found.tree.frame(found.tree.children(draw)[0]).name;
    assert_eq!(**name, format!("{} + 0x1000", "a".repeat(100)));
}

#[test]
fn what_is_inlined_into_frames_of_many_nodes_is_bounded() {
    // Each stack has a branch of its own, and below it the same frame again and again.
    let stack = |branch: usize| {
        let way = (0..5).map(move |bit| branch >> bit & 1);
        let frames = std::iter::repeat_n(0, 1_000).chain(way).map(|frame| Json::from(frame as u64));
        Json::object([("frames", Json::array(frames))])
    };
    let report = profile("Shop").set("crash.error.profile.samples", Json::array((0..32).map(stack)));
    let inlined = (0..256).map(|call| format!("{{\"function\":\"f{call}\"}}"));
    let calls = format!("\"symbolication\":{{\"calls\":[{}],", inlined.collect::<Vec<_>>().join(","));
    let text = String::from_utf8(enriched(&report)).unwrap();
    let text = text.replacen("\"symbolication\":{", &calls, 1);
    assert_eq!(text.matches("\"f255\"").count(), 1);
    let found = tree(text.as_bytes());
    assert_eq!(found.tree.total().weight, 32);
    assert!(found.skipped > 10_000, "{} are left out", found.skipped);
}
