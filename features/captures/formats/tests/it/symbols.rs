//! Profiles with the symbols of a real dSYM.

use std::sync::Arc;
use unslide_calltree::CallTree;
use unslide_captures_formats::profile::{SymbolicatedTree, read_profile};
use unslide_model::DebugId;
use unslide_symbolicate::symcache::SymCache;
use unslide_symbolicate::{ImageSymbols, object};
use unslide_testkit::fixtures;

const LOAD: u64 = 0x1_04a0_0000;

fn symcache(name: &str) -> SymCache {
    let bytes = std::fs::read(fixtures::dsym(name)).unwrap();
    SymCache::parse(object::build_symcache(&bytes).unwrap().symcache).unwrap()
}

/// The first address of the function and the first after it.
fn function(symcache: &SymCache, name: &str) -> (u64, u64) {
    let ranges: Vec<_> = symcache.ranges().collect();
    let is_it = |at: &usize| {
        ranges[*at]
            .1
            .is_some_and(|answer| answer.calls().last().is_some_and(|call| call.function.decode() == name))
    };
    let first = (0..ranges.len()).find(is_it).unwrap();
    let after = (first..ranges.len()).find(|at| !is_it(at)).unwrap();
    (ranges[first].0.0, ranges[after].0.0)
}

fn symbolicate(text: &str, symcache: SymCache) -> SymbolicatedTree {
    let id = symcache.debug_id();
    let symbols = ImageSymbols::from_symcache(Arc::new(symcache));
    read_profile(text.as_bytes()).unwrap().symbolicate(&|asked: &DebugId| (*asked == id).then_some(&symbols))
}

fn names(tree: &CallTree) -> Vec<String> {
    tree.heaviest_path().into_iter().map(|at| tree.frame(at).name.to_string()).collect()
}

#[test]
fn leaves_are_looked_up_exactly_and_callers_one_lower() {
    let symcache = symcache("app");
    let (caller_end, leaf_start) = (function(&symcache, "main").1, function(&symcache, "main").0);
    let id = symcache.debug_id();
    // A caller's return address may be the first byte after its function.
    let text = format!(
        "Call graph:\n  9 Thread_1\n    9 ???  (in Shop)  load address {LOAD:#x} + {caller_end:#x}  [{:#x}]\n      \
         9 ???  (in Shop)  load address {LOAD:#x} + {leaf_start:#x}  [{:#x}]\n\n\
         Binary Images:\n  {LOAD:#x} - {:#x} +Shop (1) <{id}> /Applications/Shop.app/Shop\n",
        LOAD + caller_end,
        LOAD + leaf_start,
        LOAD + 0x10_0000
    );
    let SymbolicatedTree { tree, lacking, .. } = symbolicate(&text, symcache);
    let path = names(&tree);
    assert_eq!(path.first().map(String::as_str), Some("Thread_1"));
    assert_eq!(path.iter().filter(|name| *name == "main").count(), 2, "{path:?}");
    assert!(lacking.is_empty());
    let last = *tree.heaviest_path().last().unwrap();
    assert!(tree.node(last).place.as_ref().is_some_and(|place| place.line > 0), "{:?}", tree.node(last));
}

/// The names on the path to a leaf at the start of `main`, called from a return address at this offset.
fn called_from(symcache: &SymCache, offset: u64) -> Vec<String> {
    let (id, leaf) = (symcache.debug_id(), function(symcache, "main").0);
    let text = format!(
        "Call graph:\n  9 Thread_1\n    9 ???  (in Shop)  load address {LOAD:#x} + {offset:#x}  [{:#x}]\n      \
         9 ???  (in Shop)  load address {LOAD:#x} + {leaf:#x}  [{:#x}]\n\n\
         Binary Images:\n  {LOAD:#x} - {:#x} +Shop (1) <{id}> /Applications/Shop.app/Shop\n",
        LOAD + offset,
        LOAD + leaf,
        LOAD + 0x10_0000
    );
    names(&symbolicate(&text, symcache.clone()).tree)
}

#[test]
fn a_swift_async_continuation_is_its_function_and_a_thumb_bit_is_no_part_of_an_address() {
    let symcache = symcache("app");
    let (start, end) = function(&symcache, "main");
    assert_eq!(called_from(&symcache, start + 1)[1], "main");
    assert_eq!(called_from(&symcache, end)[1], "main");
    let bytes = std::fs::read(fixtures::dsym("app")).unwrap();
    let mut thumb = object::build_symcache(&bytes).unwrap().symcache;
    // The CPU type of 32-bit ARM.
    thumb[32..36].copy_from_slice(&12_u32.to_le_bytes());
    let thumb = SymCache::parse(thumb).unwrap();
    assert_eq!(called_from(&thumb, end | 1)[1], "main");
    assert_eq!(called_from(&thumb, start + 2)[1], "main");
}

#[test]
fn inlined_functions_are_nodes_below_the_function_that_holds_them() {
    let symcache = symcache("app");
    let deepest = symcache.ranges().filter_map(|(at, answer)| Some((answer?.calls().count(), at, answer?)));
    let (depth, at, answer) = deepest.max_by_key(|(depth, ..)| *depth).unwrap();
    assert!(depth > 2, "{depth}");
    let mut expected: Vec<String> = answer.calls().map(|call| call.function.decode().into_owned()).collect();
    expected.reverse();
    let text = format!(
        "{{\"callStacks\":[{{\"callStackRootFrames\":[{{\"binaryUUID\":\"{}\",\"binaryName\":\"Shop\",\"sampleCount\":3,\
         \"offsetIntoBinaryTextSegment\":{},\"address\":{}}}]}}]}}",
        symcache.debug_id(),
        at.0,
        LOAD + at.0
    );
    let found = symbolicate(&text, symcache.clone());
    assert_eq!(names(&found.tree), expected);
    assert_eq!(found.tree.total().weight, 3);
}

#[test]
fn images_without_symbols_are_named_once_with_their_frames() {
    let text = format!(
        "Call graph:\n  9 Thread_1\n    9 ???  (in Shop) + 1  [{:#x}]\n      5 ???  (in Shop) + 2  [{:#x}]\n      \
         4 known  (in Shop) + 2  [{:#x}]\n\nBinary Images:\n  {LOAD:#x} - {:#x} +Shop (1) \
         <A1B2C3D4-0000-3111-8222-0123456789AB> /Applications/Shop.app/Shop\n",
        LOAD + 16,
        LOAD + 32,
        LOAD + 64,
        LOAD + 0x10_0000
    );
    let found = symbolicate(&text, symcache("app"));
    assert_eq!(found.tree.to_folded(), "Thread_1;Shop + 16;Shop + 32 5\nThread_1;Shop + 16;known 4\n");
    assert_eq!(found.lacking.len(), 1);
    assert_eq!((found.lacking[0].frames, found.lacking[0].system), (2, false));
}
