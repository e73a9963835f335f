//! `unslide memory-graph` with snapshots and with the text of tools.

use super::symbolicate::{debug_id, run, written};
use serde_json::{Value, json};
use unslide_captures_formats::memory_graph::ReferenceKind::{Strong, Weak};
use unslide_captures_formats::memory_graph::{ClassKind, MemoryGraphWriter, RootKind};
use unslide_proto::signal::{MemoryImage, MemoryRegion};
use unslide_symbolicate::object;
use unslide_symbolicate::symcache::SymCache;
use unslide_testkit::fixtures;

/// The load address of the app.
const LOAD: u64 = 0x1_04a0_0000;

/// The class of the fixture, as an offset from its image.
fn counter() -> u64 {
    let built = object::build_symcache(&std::fs::read(fixtures::dsym("app")).unwrap()).unwrap();
    let symcache = SymCache::parse(built.symcache).unwrap();
    let is_counter = |at: &u64| {
        let found = symcache.class_symbol(unslide_model::RelativeAddress(*at));
        found.is_some_and(|symbol| symbol.name.is("Counter"))
    };
    (0..1 << 20).step_by(8).find(is_counter).unwrap()
}

/// A counter that holds `blocks` blocks, and `cycles` leaked cycles of two counters.
fn snapshot(blocks: u32, cycles: u32) -> Vec<u8> {
    let mut writer = MemoryGraphWriter::new(Vec::new(), "Shop", 0).unwrap();
    let debug_id = debug_id(&fixtures::dsym("app")).0.to_vec().into();
    let path = "/private/var/containers/Bundle/Application/1/Shop.app/Shop".to_owned();
    writer.add_image(&MemoryImage { debug_id, path, address: LOAD, size: 1 << 20 }).unwrap();
    writer.add_class("", ClassKind::Unknown, LOAD + counter()).unwrap();
    let region =
        MemoryRegion { address: 0x6000_0000, size: 1 << 20, tag: 7, dirty: 4096, ..MemoryRegion::default() };
    writer.add_region(&region).unwrap();
    let place = |node: u32| 0x6000_0000 + u64::from(node) * 0x100;
    for node in 0..1 + blocks + 2 * cycles {
        let class = (node == 0 || node > blocks).then_some(0);
        writer.add_node(place(node), 48, class, None).unwrap();
    }
    for block in 1..=blocks {
        writer.add_reference(0, block, Strong, 8 * block).unwrap();
    }
    for cycle in 0..cycles {
        let first = 1 + blocks + 2 * cycle;
        writer.add_reference(first, first + 1, Strong, 8).unwrap();
        writer.add_reference(first + 1, 0, Weak, 16).unwrap();
        writer.add_reference(first + 1, first, Strong, 8).unwrap();
    }
    writer.add_root(0, RootKind::Global, LOAD + 0x8000).unwrap();
    writer.finish().unwrap()
}

fn answer(arguments: &[&str]) -> Value {
    let (code, output, error) = run(&[&["memory-graph", "--json"], arguments].concat());
    assert_eq!(code, Some(0), "{error}");
    serde_json::from_str(&output).unwrap()
}

#[test]
fn a_snapshot_says_what_is_large_and_what_leaked() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(&folder, "shop.memory", &snapshot(5, 2));
    let symbols = fixtures::dsym("app");
    let symbols = symbols.to_str().unwrap();
    let memory = &answer(&["--symbols", symbols, &file])["memory"];
    let class = json!({"name": "Counter", "kind": "objective_c", "image": "Shop", "blocks": 5, "bytes": 240,
        "retained": 288});
    assert!(memory["classes"].as_array().unwrap().contains(&class), "{memory}");
    assert_eq!(memory["totals"]["leaked_bytes"], 192);
    assert_eq!(
        (&memory["leaks"][0]["name"], &memory["leaks"][0]["leaks"]),
        (&json!("2 × Counter"), &json!(2))
    );
    assert_eq!(memory["regions"][0]["name"], "MALLOC_TINY");
    let (code, text, _) = run(&["memory-graph", "--symbols", symbols, &file]);
    assert_eq!(code, Some(0));
    for part in
        ["480 bytes in 10 blocks; 192 bytes in 4 of them are leaked", "2 × Counter", "RETAINED", "cycle"]
    {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let (_, text, error) = run(&["memory-graph", &file]);
    assert!(error.contains("lacks symbols") && text.contains("class at Shop + "), "{error}{text}");
}

#[test]
fn a_block_is_explained_from_its_root() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(&folder, "shop.memory", &snapshot(5, 1));
    let (code, text, error) = run(&["memory-graph", "--block", "0x60000208", &file]);
    assert_eq!(code, Some(0), "{error}");
    assert!(text.starts_with("non-object 0x60000200: 48 bytes; 48 bytes would be free without it"), "{text}");
    assert!(text.contains("global of Shop") && text.contains("strong"), "{text}");
    assert!(text.contains("references to it:"), "{text}");
    let (_, text, _) = run(&["memory-graph", "--block", "0x60000600", &file]);
    assert!(text.contains("no root reaches it"), "{text}");
    let block = &answer(&["--class", "non-object", &file])["block"];
    assert_eq!(block["path"][1]["offset"], 8);
    assert_eq!(run(&["memory-graph", "--block", "0x1", &file]).0, Some(3));
    assert_eq!(run(&["memory-graph", "--class", "Basket", &file]).0, Some(3));
    assert_eq!(run(&["memory-graph", "--block", "12", &file]).0, Some(2));
}

#[test]
fn two_snapshots_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let before = written(&folder, "before.memory", &snapshot(5, 1));
    let after = written(&folder, "after.memory", &snapshot(8, 3));
    let comparison = &answer(&["--compare", &after, &before])["comparison"];
    assert_eq!(
        (&comparison["classes"][0]["bytes_after"], &comparison["leaks"][0]["leaks"]),
        (&json!(336), &json!(2))
    );
    let (_, text, _) = run(&["memory-graph", "--compare", &after, &before]);
    assert!(text.contains("new leaks:") && text.contains("192"), "{text}");
}

#[test]
fn the_text_of_tools_is_read_and_what_is_not_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let heap = "Process:  Shop [1]\nAll zones: 3 nodes (96 bytes)\n\n COUNT  BYTES  AVG  CLASS_NAME  TYPE  BINARY\n \
        3  96  32.0  Cart  Swift  Shop\n";
    let first = written(&folder, "heap-1.txt", heap.as_bytes());
    let later = written(&folder, "heap-2.txt", heap.replace("3  96", "5  160").as_bytes());
    let graph = written(&folder, "shop.memory", &snapshot(1, 0));
    assert_eq!(answer(&[&first])["memory"]["classes"][0]["bytes"], 96);
    assert_eq!(answer(&["--compare", &later, &first])["comparison"]["classes"][0]["blocks_after"], 5);
    assert_eq!(run(&["memory-graph", "--compare", &graph, &first]).0, Some(2));
    assert_eq!(run(&["memory-graph", "--class", "Cart", &first]).0, Some(2));
    for (name, bytes, part) in [
        ("shop.memgraph", &b"bplist00\xd1"[..], "whose layout Apple does not publish"),
        ("notes.txt", &b"nothing"[..], "neither a memory graph nor the text"),
        ("cut.memory", &snapshot(1, 0)[..60], "memory graph, chunk at byte"),
    ] {
        let (code, _, error) = run(&["memory-graph", &written(&folder, name, bytes)]);
        assert!(code == Some(1) && error.contains(part), "{error}");
    }
}

#[test]
fn a_log_of_allocations_says_which_function_created_each_object() {
    let folder = tempfile::tempdir().unwrap();
    let graph = written(&folder, "graph.memory", &snapshot(2, 0));
    let slots = [(0, 0), (0x104, u64::MAX), (LOAD + 0x4010, 1), (LOAD + 0x4020, 2)];
    let words = slots.iter().flat_map(|(address, caller): &(u64, u64)| [*address, *caller]);
    let stacks = written(&folder, "stacks.bin", &words.flat_map(u64::to_le_bytes).collect::<Vec<_>>());
    // The last block of the graph is not in the log.
    let records =
        [[2, 3, 48, 0x6000_0100], [2, 2, 40, 0x6000_0000], [4, 2, 0, 0x6000_0000], [2, 3, 33, 0x6000_0000]];
    let events: Vec<u8> = records.iter().flatten().copied().flat_map(u64::to_le_bytes).collect();
    let events = written(&folder, "events.bin", &events);
    let log = ["--log", &events, "--stacks", &stacks, "--layout", "enumerator"];
    let found = answer(&[&log[..], &[&graph]].concat());
    assert_eq!(found["origins"]["unknown_blocks"], 1);
    let rows: Vec<Value> = found["origins"]["classes"].as_array().unwrap().clone();
    let functions: Vec<&Value> = rows.iter().map(|row| &row["function"]).collect();
    assert_eq!(functions, ["Shop + 16416 (Shop)", "Shop + 16416 (Shop)"], "{rows:?}");
    let before = answer(&[&log[..], &["--at", "2", "--block", "0x60000000", &graph]].concat());
    let block = &before["origins"]["block"];
    assert_eq!((&block["record"], &block["function"]), (&json!(2), &json!("Shop + 16400 (Shop)")));
    let (code, output, _) = run(&[&["memory-graph"], &log[..], &["--block", "0x60000008", &graph]].concat());
    assert_eq!(code, Some(0));
    assert!(output.contains("created by event 4 in thread 0x103:\n    Shop + 16416"), "{output}");
    let (code, _, error) = run(&["memory-graph", "--lite", &graph]);
    assert!(code == Some(2) && error.contains("--log"), "{error}");
}
