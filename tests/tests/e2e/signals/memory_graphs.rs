//! A graph of memory from `unslide capture send` to its page: classes have their names from the app's symbols.

use super::World;
use serde_json::Value;
use std::io;
use unslide_captures_formats::memory_graph::{ClassKind, MemoryGraphWriter, ReferenceKind, RootKind};
use unslide_model::RelativeAddress;
use unslide_proto::signal::MemoryImage;
use unslide_symbolicate::object;
use unslide_symbolicate::symcache::SymCache;
use unslide_tests::app::{App, IN_BUNDLE};

/// Where an image's symbols for classes end.
const END: u64 = 1 << 20;

/// A counter that keeps a square alive, and two squares that leaked because they keep each other.
pub fn snapshot(app: &App) -> Vec<u8> {
    let built = object::build_symcache(&app.dsym).expect("a sound object");
    let symcache = SymCache::parse(built.symcache).expect("a symcache");
    let find = |name: &str| {
        let is_it =
            |at: &u64| symcache.class_symbol(RelativeAddress(*at)).is_some_and(|symbol| symbol.name.is(name));
        app.load_address() + (0..END).step_by(8).find(is_it).unwrap_or_else(|| panic!("no {name}"))
    };
    // Objects point behind the first two words of their vtable.
    write(app, [find("Counter"), find("vtable for geo::Square") + 16]).expect("a snapshot")
}

fn write(app: &App, classes: [u64; 2]) -> io::Result<Vec<u8>> {
    let mut graph = MemoryGraphWriter::new(Vec::new(), "Shop", 0)?;
    let debug_id = app.debug_id.0.to_vec().into();
    graph.add_image(&MemoryImage {
        debug_id,
        path: IN_BUNDLE.to_owned(),
        address: app.load_address(),
        size: END,
    })?;
    for class in classes {
        graph.add_class("", ClassKind::Unknown, class)?;
    }
    for (address, size, class) in [(0x1000, 100, 0), (0x2000, 50, 1), (0x3000, 32, 1), (0x4000, 32, 1)] {
        graph.add_node(address, size, Some(class), None)?;
    }
    for (source, target) in [(0, 1), (2, 3), (3, 2)] {
        graph.add_reference(source, target, ReferenceKind::Strong, 8)?;
    }
    graph.add_root(0, RootKind::Global, 0x10_0000)?;
    graph.finish()
}

pub async fn a_graph_shows_classes_that_keep_memory_alive(world: &World) {
    let app = world.app.as_app("com.example.graphs", 4);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("snapshot.memory");
    std::fs::write(&file, snapshot(&app)).expect("a file");
    let id = world.capture(app.bundle, &["--memory-graph", file.to_str().expect("UTF-8")]);
    let classes = |analysis: &Value| -> Vec<String> {
        let rows = analysis["graph"]["classes"].as_array().expect("classes");
        let mut names: Vec<_> =
            rows.iter().map(|row| row["name"].as_str().expect("a name").to_owned()).collect();
        names.sort();
        names
    };
    let first = world.analysis(&id, 1).await;
    assert!(classes(&first).iter().all(|name| name.starts_with("class at Shop + ")), "{first}");
    let page = format!("/console/captures/{id}");
    world.console.page_with(&page, &["Graph of memory", "<svg", "class at Shop + ", "Missing symbols"]).await;

    world.client.upload_symbols(app.dsym.clone()).await;
    let second = world.analysis(&id, 0).await;
    assert_eq!(classes(&second), ["Counter", "geo::Square"], "{second}");
    assert_eq!(
        (&second["graph"]["totals"]["leaked_bytes"], &second["tree"]["weight"]),
        (&64.into(), &214.into())
    );
    let shown =
        ["<svg", "Objects that retain the most memory", "Counter", "Leaks", "cycle of", "geo::Square"];
    let after = world.console.page_with(&page, &shown).await;
    assert!(!after.contains("class at Shop"), "{after}");

    world.delete(&format!("/captures/{id}")).await;
}
