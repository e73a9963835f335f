//! Files of samples from `unslide capture send` to their pages: the text of a tool, and a set of stacks.

use super::{FUNCTIONS, LEAF_BOX, UNNAMED_BOX, World, names};
use unslide_proto::Message;
use unslide_proto::signal::{StackImage, StackNode, StackSet};
use unslide_tests::app::{App, IN_BUNDLE};

/// The text of `sample`: ten samples, seven of them in `leaf_crash`.
fn text_of_sample(app: &App) -> Vec<u8> {
    let (load, id) = (app.load_address(), app.debug_id);
    let line = |samples: u32, distance: u64| {
        let at = load + distance;
        format!("{samples} ???  (in Shop)  load address {load:#x} + {distance:#x}  [{at:#x}]")
    };
    let [leaf, caller] = app.stack();
    let (outer, inner, end) = (line(10, caller), line(7, leaf), load + 0x10_0000);
    let text = format!(
        "Call graph:\n  10 Thread_1\n    {outer}\n      {inner}\n\n\
         Binary Images:\n  {load:#x} - {end:#x} +Shop (1) <{id}> {IN_BUNDLE}\n"
    );
    text.into_bytes()
}

/// The same as a set of stacks.
fn stack_set(app: &App) -> Vec<u8> {
    let image = StackImage { debug_id: app.debug_id.0.to_vec().into(), name: IN_BUNDLE.to_owned() };
    let [leaf, caller] = app.stack();
    let node = |parent, address, count, exact| StackNode { parent, image: 1, address, count, exact };
    let nodes = vec![node(0, caller, 3, false), node(1, leaf, 7, true)];
    StackSet { images: vec![image], nodes }.encode_to_vec()
}

pub async fn files_of_samples_have_a_flame_graph(world: &World) {
    let app = world.app.as_app("com.example.profiles", 5);
    let folder = tempfile::tempdir().expect("a folder");
    let (text, set) = (folder.path().join("hang.txt"), folder.path().join("stacks.pb"));
    std::fs::write(&text, text_of_sample(&app)).expect("a file");
    std::fs::write(&set, stack_set(&app)).expect("a file");
    let [text, set] = [&text, &set].map(|path| path.to_str().expect("UTF-8"));
    let captures = [
        (world.capture(app.bundle, &[text]), "Profile", 1),
        (world.capture(app.bundle, &["--stack-set", set]), "Set of stacks", 0),
    ];
    for (id, kind, _) in &captures {
        world.analysis(id, 1).await;
        let shown = [*kind, "<svg", UNNAMED_BOX, "Missing symbols"];
        world.console.page_with(&format!("/console/captures/{id}"), &shown).await;
    }

    world.client.upload_symbols(app.dsym.clone()).await;
    for (id, kind, threads) in &captures {
        let analysis = world.analysis(id, 0).await;
        assert_eq!(names(&analysis["tree"])[*threads..], FUNCTIONS, "{kind}: {analysis}");
        let shown = [*kind, "<svg", LEAF_BOX, "7 samples, 70.0 %", "Top functions"];
        let page = world.console.page_with(&format!("/console/captures/{id}"), &shown).await;
        assert!(!page.contains("Missing symbols"), "{page}");
    }
    world.delete(&format!("/captures/{}", captures[0].0)).await;
}
