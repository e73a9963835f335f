//! What is said of snapshots.

use super::Example;
use unslide_captures_formats::memory_graph::ReferenceKind::{Conservative, Strong, Unowned, Weak};
use unslide_captures_formats::memory_graph::{
    ClassKind, GraphAnalysis, MemberLabel, MemoryGraphLimits, MemoryGraphWriter, MemoryTables, NeighbourRow,
    RootKind, compare_tables, format_path, read_memory_graph,
};
use unslide_model::DebugId;
use unslide_proto::signal::{MemoryImage, MemoryMember};
use unslide_symbolicate::symcache::SymCache;
use unslide_symbolicate::{ImageSymbols, object};
use unslide_testkit::fixtures;

const CLASSES: [&str; 3] = ["Cart", "Item", "Cache"];

/// A cart with two items, which share a block; a cycle of two caches with an item; an item that is only weakly held.
const SHOP: Example<'static> = Example {
    classes: &CLASSES,
    nodes: &[
        (Some(0), 64),
        (Some(1), 32),
        (Some(1), 32),
        (None, 100),
        (Some(2), 48),
        (Some(2), 48),
        (Some(1), 32),
        (Some(1), 32),
    ],
    references: &[
        (0, 1, Strong),
        (0, 2, Strong),
        (0, 7, Weak),
        (1, 0, Unowned),
        (1, 3, Strong),
        (2, 3, Conservative),
        (4, 5, Strong),
        (4, 3, Strong),
        (5, 4, Strong),
        (5, 6, Strong),
    ],
    roots: &[0],
};

fn tables(example: &Example<'_>) -> MemoryTables {
    GraphAnalysis::from_graph(&example.read()).build_tables()
}

#[test]
fn totals_retained_sizes_and_leaks_are_of_what_roots_reach_and_of_what_they_do_not() {
    let tables = tables(&SHOP);
    assert_eq!((tables.totals.blocks, tables.totals.bytes, tables.totals.references), (8, 388, 10));
    let classes: Vec<_> =
        tables.classes.iter().map(|row| (row.name.as_str(), row.blocks, row.bytes, row.retained)).collect();
    assert_eq!(
        classes,
        [
            ("Item", 4, 128, Some(64)),
            ("non-object", 1, 100, Some(100)),
            ("Cache", 2, 96, Some(0)),
            ("Cart", 1, 64, Some(228)),
        ]
    );
    let leaks: Vec<_> = tables
        .leaks
        .iter()
        .map(|row| (row.name.as_str(), row.cycle, row.leaks, row.blocks, row.bytes))
        .collect();
    assert_eq!(leaks, [("2 \u{d7} Cache", true, 1, 3, 128), ("Item", false, 1, 1, 32)]);
    assert_eq!((tables.totals.leaked_blocks, tables.totals.leaked_bytes), (4, 160));
    assert_eq!((tables.zones[0].name.as_str(), tables.zones[0].blocks), ("DefaultMallocZone", 8));
    assert_eq!((tables.largest[0].class.as_str(), tables.largest[0].retained), ("Cart", 228));
}

#[test]
fn a_block_is_explained_by_the_shortest_way_from_a_root() {
    let graph = SHOP.read();
    let analysis = GraphAnalysis::from_graph(&graph);
    let row = analysis.describe_block(3);
    let steps: Vec<_> =
        row.path.iter().map(|step| (step.class.as_str(), step.by.as_str(), step.offset)).collect();
    assert_eq!(
        steps,
        [("Cart", "global", None), ("Item", "strong", Some(8)), ("non-object", "strong", Some(8))]
    );
    assert_eq!(analysis.largest_of_class("Cart"), Some(0));
    assert_eq!(
        (analysis.largest_of_class("non-object"), analysis.largest_of_class("Basket")),
        (Some(3), None)
    );
    assert!(analysis.describe_block(6).path.is_empty(), "no root reaches it");
    assert_eq!(
        (graph.node_at(0x1000), graph.node_at(0x1040), graph.node_at(0x1051)),
        (Some(0), None, Some(1))
    );
}

#[test]
fn a_path_reads_as_the_members_that_refer() {
    let mut writer = MemoryGraphWriter::new(Vec::new(), "Shop", 0).unwrap();
    let member = |offset, stride, name: &str, kind: &str| MemoryMember {
        offset,
        stride,
        name: name.to_owned(),
        r#type: kind.to_owned(),
    };
    for (class, members) in [
        ("Session", vec![member(16, 0, "owner", "User"), member(24, 0, "cache", "Cache")]),
        ("Cache", vec![member(32, 8, "entries", "Image")]),
        ("Image", vec![member(16, 0, "pixels", "")]),
        ("Buffer", vec![]),
    ] {
        writer.add_class_with_members(class, ClassKind::Swift, 0, &members).unwrap();
    }
    for (class, size) in [(0, 64), (1, 256), (2, 32), (3, 4_096)] {
        writer.add_node(0x1000 * (u64::from(class) + 1), size, Some(class), None).unwrap();
    }
    for (source, offset) in [(0, 24), (1, 32 + 12 * 8), (2, 16)] {
        writer.add_reference(source, source + 1, Strong, offset).unwrap();
    }
    // At an offset without a member.
    writer.add_reference(3, 0, Weak, 8).unwrap();
    writer.add_root(0, RootKind::Global, 0x10_0000).unwrap();
    let bytes = writer.finish().unwrap();
    let graph = read_memory_graph(&bytes[..], &MemoryGraphLimits::default()).unwrap();
    let analysis = GraphAnalysis::from_graph(&graph);
    let expected = "Session.cache \u{2192} Cache.entries[12] \u{2192} Image.pixels \u{2192} Buffer";
    assert_eq!(format_path(&analysis.describe_block(3).path), expected);
    let image = analysis.describe_neighbours(2);
    let label = |rows: &[NeighbourRow]| rows[0].member.as_ref().map(MemberLabel::describe);
    assert_eq!(label(&image.referrers).as_deref(), Some("entries[12]: Image"));
    assert_eq!(label(&image.references).as_deref(), Some("pixels"));
    let buffer = analysis.describe_neighbours(3);
    assert_eq!((label(&buffer.references), buffer.references[0].offset), (None, Some(8)));
}

/// The truth is a search over the rows of the example.
#[test]
fn a_block_has_its_neighbours() {
    let graph = SHOP.read();
    let analysis = GraphAnalysis::from_graph(&graph);
    let nodes = u32::try_from(SHOP.nodes.len()).unwrap();
    let is_reached = |without: Option<u32>| {
        let mut reached = vec![false; SHOP.nodes.len()];
        let mut todo: Vec<u32> = SHOP.roots.iter().copied().filter(|root| Some(*root) != without).collect();
        while let Some(node) = todo.pop() {
            if !std::mem::replace(&mut reached[node as usize], true) {
                let next = SHOP
                    .references
                    .iter()
                    .filter(|(from, to, kind)| *from == node && kind.keeps_alive() && Some(*to) != without);
                todo.extend(next.map(|(_, to, _)| *to));
            }
        }
        reached
    };
    let whole = is_reached(None);
    for node in 0..nodes {
        let found = analysis.describe_neighbours(node);
        let referrers: Vec<(String, bool)> =
            found.referrers.iter().map(|row| (row.address.clone(), row.keeps_alive)).collect();
        let address = |node: u32| format!("{:#x}", graph.node_address(node));
        let roots = SHOP.roots.iter().filter(|root| **root == node).map(|_| ("0x100000".to_owned(), true));
        let blocks = SHOP.references.iter().filter(|(_, to, _)| *to == node);
        let expected: Vec<_> =
            roots.chain(blocks.map(|(from, _, kind)| (address(*from), kind.keeps_alive()))).collect();
        assert_eq!((referrers, found.referrer_count), (expected.clone(), expected.len() as u64), "{node}");
        let references: Vec<String> = found.references.iter().map(|row| row.address.clone()).collect();
        let targets = SHOP.references.iter().filter(|(from, ..)| *from == node);
        let expected: Vec<String> = targets.map(|(_, to, _)| address(*to)).collect();
        assert_eq!((references, found.reference_count), (expected.clone(), expected.len() as u64), "{node}");
        // What is lost without the block is it and what it keeps alive, directly or not.
        let without = is_reached(Some(node));
        let lost = (0..nodes).filter(|other| whole[*other as usize] && !without[*other as usize]);
        let lost: u64 = lost.map(|other| graph.node_size(other)).sum();
        assert_eq!(found.block.retained, lost, "{node}");
        let below: u64 = found.keeps.iter().map(|row| row.retained).sum();
        let own = if whole[node as usize] { graph.node_size(node) } else { 0 };
        assert_eq!((own + below, found.keeps_count), (lost, found.keeps.len() as u64), "{node}");
    }
    let items = analysis.blocks_of_class("Item");
    let rows: Vec<_> = items.blocks.iter().map(|row| (row.address.as_str(), row.retained)).collect();
    assert_eq!((items.count, rows.len(), rows[0]), (4, 4, ("0x1050", 32)));
    assert_eq!(analysis.blocks_of_class("Basket").count, 0);
}

#[test]
fn lists_of_neighbours_are_bounded_and_counted() {
    let nodes: Vec<_> = (0..500).map(|node| (Some(u32::from(node > 0)), 16 + node)).collect();
    let down: Vec<_> = (1..500).map(|node| (0, node, Strong)).collect();
    let up = (1..500).map(|node| (node, 0, Weak));
    let references: Vec<_> = down.into_iter().chain(up).collect();
    let graph = Example { classes: &CLASSES, nodes: &nodes, references: &references, roots: &[0] }.read();
    let found = GraphAnalysis::from_graph(&graph).describe_neighbours(0);
    assert_eq!((found.referrers.len(), found.referrer_count), (100, 500));
    assert_eq!((found.keeps.len(), found.keeps_count, found.keeps[0].bytes), (100, 499, 515));
    assert_eq!(found.referrers.iter().filter(|row| row.keeps_alive).count(), 1);
}

#[test]
fn names_of_devices_are_demangled() {
    let nodes: Vec<_> = (0..3).map(|class| (Some(class), 16)).collect();
    let classes = ["_TtC4Shop4Cart", "$s4Shop4ItemCN", "__ZTVN4Shop5CacheE"];
    let mut graph = Example { classes: &classes, nodes: &nodes, references: &[], roots: &[0] }.read();
    assert!(graph.list_unnamed_images().is_empty());
    graph.name_classes(&|_| None);
    let tables = GraphAnalysis::from_graph(&graph).build_tables();
    let mut names: Vec<_> = tables.classes.iter().map(|row| row.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["Shop.Cart", "Shop.Item", "Shop::Cache"]);
    assert!(tables.leaks.iter().any(|row| row.name == "Shop::Cache"), "leaks have the same names");
}

#[test]
fn a_long_way_is_shown_without_its_middle() {
    let nodes: Vec<_> = (0..1_000).map(|_| (Some(0), 16)).collect();
    let references: Vec<_> = (0..999).map(|node| (node, node + 1, Strong)).collect();
    let graph = Example { classes: &CLASSES, nodes: &nodes, references: &references, roots: &[0] }.read();
    let path = GraphAnalysis::from_graph(&graph).describe_block(999).path;
    assert_eq!((path.len(), path[31].left_out, path[32].left_out), (64, 0, 936));
}

#[test]
fn leaks_of_one_shape_are_one_group() {
    // Three cycles of two caches, one of them with an item; and a cycle of one.
    let nodes: Vec<_> = [2, 2, 2, 2, 2, 2, 1, 0].iter().map(|class| (Some(*class), 48)).collect();
    let references = [
        (0, 1, Strong),
        (1, 0, Strong),
        (2, 3, Strong),
        (3, 2, Strong),
        (4, 5, Strong),
        (5, 4, Strong),
        (5, 6, Strong),
        (7, 7, Strong),
    ];
    let example = Example { classes: &CLASSES, nodes: &nodes, references: &references, roots: &[] };
    let tables = tables(&example);
    let leaks: Vec<_> =
        tables.leaks.iter().map(|row| (row.leaks, row.blocks, row.bytes, row.cycle)).collect();
    assert_eq!(leaks, [(2, 4, 192, true), (1, 3, 144, true), (1, 1, 48, true)]);
    assert_eq!(tables.leaks[0].example, "0x1000");
}

#[test]
fn classes_of_one_name_and_two_kinds_are_one_row_and_one_group_of_leaks() {
    // Two cycles of two blocks: one of a single class, the other of two classes with its name.
    let nodes: Vec<_> = [0, 0, 0, 1].iter().map(|class| (Some(*class), 48)).collect();
    let references = [(0, 1, Strong), (1, 0, Strong), (2, 3, Strong), (3, 2, Strong)];
    let example = Example { classes: &["Cart", "Cart"], nodes: &nodes, references: &references, roots: &[] };
    let mut graph = example.read();
    graph.classes[1].kind = ClassKind::ObjectiveC;
    let tables = GraphAnalysis::from_graph(&graph).build_tables();
    let classes: Vec<_> =
        tables.classes.iter().map(|row| (row.name.as_str(), row.kind.as_str(), row.blocks)).collect();
    assert_eq!(classes, [("Cart", "", 4)]);
    let leaks: Vec<_> = tables.leaks.iter().map(|row| (row.name.as_str(), row.leaks, row.blocks)).collect();
    assert_eq!(leaks, [("2 \u{d7} Cart", 2, 4)]);
}

#[test]
fn what_leaked_under_two_leaks_counts_once() {
    let nodes = [(Some(0), 10), (Some(1), 10), (Some(2), 10)];
    let references = [(0, 2, Strong), (1, 2, Strong)];
    let tables = tables(&Example { classes: &CLASSES, nodes: &nodes, references: &references, roots: &[] });
    assert_eq!((tables.totals.leaked_blocks, tables.totals.leaked_bytes), (3, 30));
}

#[test]
fn two_snapshots_differ_by_class_and_by_new_leaks() {
    let mut later: Vec<_> = SHOP.nodes.to_vec();
    later.extend([(Some(0), 64), (Some(2), 48), (Some(2), 48), (Some(1), 32)]);
    let mut references = SHOP.references.to_vec();
    references.extend([(9, 10, Strong), (10, 9, Strong), (10, 11, Strong)]);
    let later = Example { nodes: &later, references: &references, ..SHOP };
    let change = compare_tables(&tables(&SHOP), &tables(&later));
    let grown: Vec<_> =
        change.classes.iter().map(|row| (row.name.as_str(), row.blocks_after, row.grown_bytes())).collect();
    assert_eq!(grown, [("Cache", 4, 96), ("Cart", 2, 64), ("Item", 5, 32)]);
    let leaks: Vec<_> = change.leaks.iter().map(|row| (row.name.as_str(), row.leaks, row.bytes)).collect();
    assert_eq!(leaks, [("2 \u{d7} Cache", 1, 128), ("Cart", 1, 64)]);
    let same = compare_tables(&tables(&SHOP), &tables(&SHOP));
    assert!(same.classes.is_empty() && same.leaks.is_empty());
}

#[test]
fn classes_are_named_by_the_symbols_of_their_image() {
    const LOAD: u64 = 0x1_0200_0000;
    let built = object::build_symcache(&std::fs::read(fixtures::dsym("app")).unwrap()).unwrap();
    let symcache = SymCache::parse(built.symcache).unwrap();
    let places = class_addresses(&symcache);
    let image = |debug_id: DebugId, address| MemoryImage {
        debug_id: debug_id.0.to_vec().into(),
        path: "/private/var/containers/Bundle/Application/1/Shop.app/Shop".to_owned(),
        address,
        size: 1 << 20,
    };
    let mut writer = MemoryGraphWriter::new(Vec::new(), "Shop", 0).unwrap();
    writer.add_image(&image(built.debug_id, LOAD)).unwrap();
    writer.add_image(&image(DebugId([9; 16]), LOAD + (1 << 20))).unwrap();
    for (_, offset) in &places {
        writer.add_class("", ClassKind::Unknown, LOAD + offset).unwrap();
    }
    for address in [LOAD + 1, LOAD + (1 << 20) + 8, 0] {
        writer.add_class("", ClassKind::Unknown, address).unwrap();
    }
    let file = writer.finish().unwrap();
    let mut graph = read_memory_graph(&file[..], &MemoryGraphLimits::default()).unwrap();
    let symbols = ImageSymbols::from_symcache(symcache.into());
    let told = graph.name_classes(&|id| (*id == built.debug_id).then_some(&symbols));
    let names: Vec<_> = graph.classes.iter().map(|class| (class.name.as_str(), class.kind)).collect();
    let expected: Vec<_> = places.iter().map(|(name, _)| *name).collect();
    let kinds = [ClassKind::ObjectiveC, ClassKind::Cpp, ClassKind::Cpp];
    assert_eq!(names[..3], [0, 1, 2].map(|at| (expected[at], kinds[at])));
    assert_eq!((told.named, told.without_symbol, told.lacking.len()), (3, 1, 1));
    assert_eq!(graph.name_of_class(3), "class at Shop + 1");
    assert_eq!(graph.name_of_class(5), "class at 0x0");
}

/// The class of the fixture, and two places in vtables: where objects point to, and deeper.
fn class_addresses(symcache: &SymCache) -> [(&'static str, u64); 3] {
    let find = |name: &str| {
        let is_it = |at: &u64| {
            let found = symcache.class_symbol(unslide_model::RelativeAddress(*at));
            found.is_some_and(|symbol| symbol.name.is(name))
        };
        (0..1 << 20).step_by(8).find(is_it).unwrap_or_else(|| panic!("{name}"))
    };
    let vtable = find("vtable for geo::Square");
    [("Counter", find("Counter")), ("geo::Square", vtable + 16), ("geo::Square", vtable + 24)]
}
