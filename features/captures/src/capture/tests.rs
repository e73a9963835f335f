//! Tests of the analysis of captures.

use super::*;
use unslide_captures_formats::malloc::MemoryKind;
use unslide_captures_formats::memory_graph::ReferenceKind::{Strong, Weak};
use unslide_captures_formats::memory_graph::{ClassKind, MemoryGraphWriter, RootKind};

#[test]
fn a_profile_says_which_symbols_it_can_use() {
    let text = b"main;draw 3\nmain;load 1\n";
    let reading = analyse_capture(&CaptureForm::Profile, &|_| text, &|_| None).unwrap();
    let tree = reading.analysis.tree.to_tree();
    assert_eq!((tree.total().weight, reading.wanted.len()), (4, 0));
    assert!(reading.analysis.memory.is_none() && reading.analysis.lacking.is_empty());
    assert!(analyse_capture(&CaptureForm::Profile, &|_| b"\x00\x01", &|_| None).is_err());
    let backtrace = b"0   CoreFoundation  0x00007fff23e3cf0e __exceptionPreprocess + 350\n";
    let refused = analyse_capture(&CaptureForm::Profile, &|_| backtrace, &|_| None).unwrap_err();
    assert_eq!(refused, CaptureError::Profile(ProfileError::Backtrace));
}

/// A log with 512 KiB of the heap in a range of 1 MiB.
fn log_with_virtual_memory(stacks: &[u8]) -> Result<CaptureAnalysis, CaptureError> {
    let record = log::record;
    let events = [record(16 | 7 << 24, 0x1000_0000, 1 << 20, 2), record(2, 0x1000_8000, 1 << 19, 2)].concat();
    let file = |name: &str| match name {
        "events" => &events[..],
        "stacks" => stacks,
        _ => &[],
    };
    let form = CaptureForm::MallocLog { layout: MallocLayout::Index, lite: false, at: None, from: Some(0) };
    Ok(analyse_capture(&form, &file, &|_| None)?.analysis)
}

#[test]
fn heap_and_virtual_memory_are_never_added() {
    let (_, stacks) = log::small_log();
    let analysis = log_with_virtual_memory(&stacks).unwrap();
    assert_eq!((analysis.tree.weight, analysis.tree.count), (1 << 19, 1));
    let vm_tree = analysis.vm_tree.clone().unwrap();
    assert_eq!((vm_tree.weight, vm_tree.count), (1 << 20, 1));
    let json = serde_json::to_string(&analysis).unwrap();
    assert!(!json.contains(&((1 << 20) + (1 << 19)).to_string()), "{json}");
    let memory = analysis.memory.as_ref().unwrap();
    let rows: Vec<_> = memory.stacks.iter().map(|row| (row.stack, row.kind, row.bytes)).collect();
    assert_eq!(rows, [(2, MemoryKind::Virtual, 1 << 20), (2, MemoryKind::Heap, 1 << 19)]);
    let grown: Vec<_> =
        memory.growth.iter().flatten().map(|row| (row.kind, row.grown_bytes, row.after.heap_bytes)).collect();
    assert_eq!(grown, [(MemoryKind::Virtual, 1 << 20, 0), (MemoryKind::Heap, 1 << 19, 1 << 19)]);
    let threads: Vec<_> = memory.threads.iter().map(|row| (row.kind, row.bytes)).collect();
    assert_eq!(threads, [(MemoryKind::Virtual, 1 << 20), (MemoryKind::Heap, 1 << 19)]);
    let mut before = analysis.clone();
    (before.vm_tree, before.tree.weight) = (None, 0);
    let change = CaptureComparison::from_analyses(CaptureKind::MallocLog, &before, &analysis);
    let change = change.unwrap();
    let grown = |paths: &[PathGrowth]| paths.iter().map(|row| row.weight_after).collect::<Vec<_>>();
    assert_eq!((grown(&change.paths), grown(&change.vm_paths)), (vec![], vec![1 << 20]));
}

#[test]
fn stacks_that_begin_with_something_else_are_refused() {
    let (_, stacks) = log::small_log();
    let other = [7_u64, 7, 7, 0, 0x1_2000_0000, 19].map(u64::to_le_bytes).concat();
    let refused = log_with_virtual_memory(&[other, stacks].concat()).unwrap_err().to_string();
    assert!(refused.starts_with("stacks: ") && refused.contains("from byte 48 on"), "{refused}");
}

#[test]
fn a_memgraph_is_said_to_be_opaque_and_is_no_failure() {
    let reading = analyse_capture(&CaptureForm::MemoryGraph, &|_| b"bplist00\xd1", &|_| None).unwrap();
    let CaptureAnalysis { tree, skipped, graph, .. } = reading.analysis;
    assert!(tree.nodes.is_empty() && graph.is_none() && skipped[0].what.contains("opaque"));
    assert!(analyse_capture(&CaptureForm::MemoryGraph, &|_| b"bplist", &|_| None).is_err());
}

/// A graph of a cart that keeps a list of three items alive, and of a fourth item that leaked.
fn graph_with_a_leak() -> Vec<u8> {
    let mut writer = MemoryGraphWriter::new(Vec::new(), "Shop", 1).unwrap();
    for class in ["Cart", "Item"] {
        writer.add_class(class, ClassKind::Swift, 0).unwrap();
    }
    for (address, bytes, class) in
        [(0x1000, 100, 0), (0x1100, 10, 1), (0x1200, 10, 1), (0x1300, 10, 1), (0x1400, 7, 1)]
    {
        writer.add_node(address, bytes, Some(class), None).unwrap();
    }
    for (source, target, kind) in [(0, 1, Strong), (1, 2, Strong), (2, 3, Strong), (3, 4, Weak)] {
        writer.add_reference(source, target, kind, 8).unwrap();
    }
    writer.add_root(0, RootKind::Global, 0x10_0000).unwrap();
    writer.finish().unwrap()
}

#[test]
fn a_graph_says_what_each_class_keeps_alive() {
    let bytes = graph_with_a_leak();
    let reading = analyse_capture(&CaptureForm::MemoryGraph, &|_| &bytes, &|_| None).unwrap();
    let tree = reading.analysis.tree;
    let nodes: Vec<_> =
        tree.nodes.iter().map(|node| (node.parent, node.name.as_str(), node.weight, node.count)).collect();
    assert_eq!(
        nodes,
        [(None, "Cart", 130, 4), (Some(0), "Item", 30, 3), (None, "leaked", 7, 1), (Some(2), "Item", 7, 1)]
    );
    assert_eq!((tree.unit.as_str(), tree.weight, tree.count), ("bytes", 137, 5));
    let graph = reading.analysis.graph.unwrap();
    assert_eq!((graph.totals.leaked_bytes, graph.largest[0].retained), (7, 130));

    let text = "Process:         Shop [1]\n";
    let refused = analyse_capture(&CaptureForm::MemoryGraph, &|_| text.as_bytes(), &|_| None).unwrap_err();
    assert!(refused.to_string().starts_with("neither a memory graph"), "{refused}");
}

#[test]
fn symbols_of_the_app_are_wanted_before_those_of_the_system() {
    let image = |byte: u8, path: &str| ProfileImage {
        path: path.to_owned(),
        debug_id: Some(DebugId([byte; 16])),
        ..ProfileImage::default()
    };
    let (system, app) = ("/usr/lib/libobjc.A.dylib", "/Apps/Shop.app/Shop");
    let images = [image(1, system), image(2, system), image(3, app), image(4, app), image(5, app)];
    let asked = [1, 2, 3, 5].map(|byte| DebugId([byte; 16])).into();
    let ids = |most| {
        list_wanted_images(&images, &asked, most).iter().map(|image| image.debug_id.0[0]).collect::<Vec<_>>()
    };
    assert_eq!((ids(9), ids(2)), (vec![3, 5, 1, 2], vec![3, 5]));
}

#[test]
fn long_names_of_classes_are_cut_between_characters() {
    let text = format!("COUNT BYTES AVG CLASS_NAME\n1 16 16.0 x{}\n", "\u{e9}".repeat(1_000));
    let reading = analyse_capture(&CaptureForm::MemoryGraph, &|_| text.as_bytes(), &|_| None).unwrap();
    assert_eq!(reading.analysis.graph.unwrap().classes[0].name.len(), 1_023);
}

#[test]
fn a_log_is_replayed_to_its_end_and_compared_with_a_moment_of_it() {
    let (events, stacks) = log::small_log();
    let image = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
    let images = format!(
        r#"{{"binary_images":[{{"name":"/Apps/Shop.app/Shop","image_addr":4096,"image_size":4096,"uuid":"{image}"}}]}}"#
    );
    let file = |name: &str| match name {
        "events" => &events[..],
        "stacks" => &stacks[..],
        _ => images.as_bytes(),
    };
    let form = CaptureForm::MallocLog { layout: MallocLayout::Index, lite: false, at: None, from: Some(1) };
    let reading = analyse_capture(&form, &file, &|_| None).unwrap();
    let memory = reading.analysis.memory.unwrap();
    assert_eq!((memory.position, memory.memory.heap_bytes), (Some(3), 300));
    assert_eq!(memory.growth.unwrap().len(), 1);
    assert_eq!(reading.wanted, [CaptureImage { debug_id: image.parse().unwrap(), system: false }]);
    assert_eq!((reading.analysis.lacking.len(), reading.analysis.lacking[0].frames), (1, 2));
    assert_eq!(reading.analysis.tree.to_tree().total().weight, 300);
    let beyond = CaptureForm::MallocLog { layout: MallocLayout::Index, lite: false, at: None, from: Some(9) };
    assert_eq!(analyse_capture(&beyond, &file, &|_| None).unwrap_err(), CaptureError::BeyondEnd(3));
    let earlier =
        CaptureForm::MallocLog { layout: MallocLayout::Index, lite: false, at: Some(1), from: None };
    let memory = analyse_capture(&earlier, &file, &|_| None).unwrap().analysis.memory.unwrap();
    assert_eq!((memory.position, memory.memory.heap_bytes), (Some(1), 100));
}
