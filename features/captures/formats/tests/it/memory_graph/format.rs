//! The format: a golden file, and files that are cut or damaged.

use super::Example;
use unslide_captures_formats::memory_graph::ReferenceKind::{Strong, Weak};
use unslide_captures_formats::memory_graph::{
    ClassKind, GraphAnalysis, MOST_CHUNK_BYTES, MemoryGraphError, MemoryGraphLimits, MemoryGraphWriter,
    RootKind, is_memory_graph, read_memory_graph,
};
use unslide_proto::Message;
use unslide_proto::signal::{
    MemoryGraph as MemoryGraphMessage, MemoryImage, MemoryMember, MemoryNodes, MemoryReferences, MemoryRegion,
};

const SMALL: Example<'static> = Example {
    classes: &["Cart"],
    nodes: &[(Some(0), 64), (None, 32)],
    references: &[(0, 1, Strong), (1, 0, Weak)],
    roots: &[0],
};

fn problem(bytes: &[u8]) -> String {
    read_memory_graph(bytes, &MemoryGraphLimits::default()).unwrap_err().to_string()
}

/// A file with one of every chunk.
fn golden() -> Vec<u8> {
    let mut writer = MemoryGraphWriter::new(Vec::new(), "Shop", 1_764_000_000_000_000).unwrap();
    let (debug_id, path) = (vec![1; 16].into(), "/Shop.app/Shop".to_owned());
    writer.add_image(&MemoryImage { debug_id, path, address: 0x1_0000_0000, size: 0x8000 }).unwrap();
    writer.add_class("Cart", ClassKind::Swift, 0x1_0000_4000).unwrap();
    writer.add_zone("DefaultMallocZone").unwrap();
    let region = MemoryRegion {
        address: 0x6000_0000,
        size: 0x4000,
        tag: 7,
        dirty: 0x4000,
        swapped: 0x1000,
        resident: 0x3000,
        protection: 3,
        path: String::new(),
    };
    writer.add_region(&region).unwrap();
    writer.add_node(0x6000_0000, 48, Some(0), Some(0)).unwrap();
    writer.add_node(0x6000_0040, 300, None, None).unwrap();
    writer.add_reference(0, 1, Strong, 16).unwrap();
    writer.add_reference(1, 0, Weak, 8).unwrap();
    writer.add_root(0, RootKind::Global, 0x1_0000_5000).unwrap();
    writer.finish().unwrap()
}

/// These bytes never change: files of other writers look so.
const GOLDEN: &str = concat!(
    "0a250a14756e736c6964652e6d656d6f72792d6772617068120453686f70188080898b948b9103122c0a100101010101",
    "0101010101010101010101120e2f53686f702e6170702f53686f70188080808010208080021a0e0a0443617274100218",
    "808081801022130a1144656661756c744d616c6c6f635a6f6e652a180880808080061080800118072080800128802030",
    "8060380332150a06808080800640120330ac021a020100220201003a100a020001120202011a02000122021008420d0a",
    "01001201011a0580a08180104a06080210021801",
);

#[test]
fn the_golden_file_is_written_and_read() {
    let bytes = golden();
    let hexadecimal: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hexadecimal, GOLDEN);
    // The whole file is one message, so that any library of protocol buffers reads it.
    let message = MemoryGraphMessage::decode(&bytes[..]).unwrap();
    assert_eq!((message.nodes.len(), message.end.unwrap().references), (1, 2));
    let graph = read_memory_graph(&bytes[..], &MemoryGraphLimits::default()).unwrap();
    let tables = GraphAnalysis::from_graph(&graph).build_tables();
    assert_eq!(
        (graph.process.as_str(), graph.at_micros, graph.classes[0].image),
        ("Shop", 1_764_000_000_000_000, Some(0))
    );
    let region = &tables.regions[0];
    assert_eq!((region.name.as_str(), region.dirty, region.swapped), ("MALLOC_TINY", 0x4000, Some(0x1000)));
    assert_eq!(tables.largest[0].path[0].by, "global of Shop");
    assert!(is_memory_graph(&bytes) && !is_memory_graph(b"bplist00") && !is_memory_graph(&bytes[1..]));
}

#[test]
fn a_file_that_is_cut_anywhere_is_refused_with_its_place() {
    let bytes = golden();
    for end in 0..bytes.len() {
        let error = read_memory_graph(&bytes[..end], &MemoryGraphLimits::default()).unwrap_err();
        match error {
            MemoryGraphError::NotAMemoryGraph => assert_eq!(end, 1),
            MemoryGraphError::Wrong { at, .. } => assert!(at <= end as u64),
            other => panic!("{end}: {other}"),
        }
    }
    assert!(matches!(
        read_memory_graph(&b"bplist00"[..], &MemoryGraphLimits::default()),
        Err(MemoryGraphError::NotAMemoryGraph)
    ));
}

/// The golden file with other nodes, references or end.
fn changed(change: impl FnOnce(&mut MemoryGraphMessage)) -> Vec<u8> {
    let mut message = MemoryGraphMessage::decode(&golden()[..]).unwrap();
    change(&mut message);
    message.encode_to_vec()
}

#[test]
fn members_that_cannot_be_are_refused() {
    let member =
        |offset, name: &str| MemoryMember { offset, name: name.to_owned(), ..MemoryMember::default() };
    let found = |members: Vec<MemoryMember>| {
        problem(&changed(|message| message.classes[0].members.clone_from(&members)))
    };
    for (members, end) in [
        (vec![member(8, "a"), member(8, "b")], "the members of a class are not sorted by offset"),
        (vec![member(8, "")], "a member that is no array has no name"),
        (vec![member(8, &"a".repeat(20_000))], "a name is too long"),
    ] {
        let told = found(members);
        assert!(told.contains(end), "{told}");
    }
    let mut writer = MemoryGraphWriter::new(Vec::new(), "Shop", 0).unwrap();
    let members: Vec<_> = (0..40_000).map(|offset| member(offset, "a")).collect();
    for _ in 0..7 {
        writer.add_class_with_members("Cart", ClassKind::Swift, 0, &members).unwrap();
    }
    let told = problem(&writer.finish().unwrap());
    assert!(told.contains("more than 262144 members of classes"), "{told}");
}

#[test]
fn rows_that_cannot_be_are_refused() {
    let nodes = |change: fn(&mut MemoryNodes)| problem(&changed(|message| change(&mut message.nodes[0])));
    let references =
        |change: fn(&mut MemoryReferences)| problem(&changed(|message| change(&mut message.references[0])));
    for (told, end) in [
        (nodes(|nodes| nodes.sizes[0] = 100), "nodes lie over each other or are not sorted by address"),
        (
            nodes(|nodes| nodes.address_deltas[1] = 0),
            "nodes lie over each other or are not sorted by address",
        ),
        (nodes(|nodes| nodes.address_deltas[1] = u64::MAX), "a node lies after the last address"),
        (nodes(|nodes| nodes.sizes[1] = u64::MAX), "a node ends after the last address"),
        (nodes(|nodes| nodes.classes[0] = 2), "the class or the zone of a node is not there"),
        (nodes(|nodes| nodes.zones[0] = 9), "the class or the zone of a node is not there"),
        (nodes(|nodes| nodes.sizes.truncate(1)), "its columns are not equally long"),
        (nodes(|nodes| nodes.classes.truncate(1)), "its columns are not equally long"),
        (references(|rows| rows.source_deltas[1] = 2), "the source of a reference is not there"),
        (references(|rows| rows.target_deltas[0] = 2), "the target of a reference is not there"),
        (references(|rows| rows.target_deltas[0] = i64::MIN), "the target of a reference is not there"),
        (references(|rows| rows.kinds[0] = 5), "the kind of a reference is not known"),
        (references(|rows| rows.kinds[0] = -1), "the kind of a reference is not known"),
        (problem(&changed(|message| message.roots[0].node_deltas[0] = 2)), "the node of a root is not there"),
        (
            problem(&changed(|message| message.images[0].debug_id = vec![1; 15].into())),
            "a debug id has not 16 bytes",
        ),
        (problem(&changed(|message| message.regions[0].tag = 256)), "a tag is larger than 255"),
        (problem(&changed(|message| message.end = None)), "the file ends before its end chunk"),
    ] {
        assert!(told.starts_with("memory graph, chunk at byte ") && told.ends_with(end), "{told}");
    }
    let counted = problem(&changed(|message| message.end.as_mut().unwrap().references = 3));
    assert!(
        counted.ends_with("it counts 2 nodes, 3 references and 1 roots; there are 2, 2 and 1"),
        "{counted}"
    );
}

#[test]
fn columns_may_be_left_out() {
    let bytes = changed(|message| {
        message.nodes[0].classes.clear();
        message.nodes[0].zones.clear();
        message.references[0].kinds.clear();
        message.references[0].offsets.clear();
        message.roots[0].addresses.clear();
        message.roots[0].kinds.clear();
    });
    let graph = read_memory_graph(&bytes[..], &MemoryGraphLimits::default()).unwrap();
    assert_eq!(
        (graph.node_class(0), graph.edge_reference(1).kind(), graph.edge_reference(1).offset()),
        (None, Strong, None)
    );
}

#[test]
fn chunks_come_in_order_and_are_bounded() {
    let bytes = SMALL.bytes();
    // The header has tag, length and 28 bytes.
    let header = &bytes[..2 + usize::from(bytes[1])];
    assert!(problem(&[header, header].concat()).ends_with("there is one header, at the beginning"));
    let class_then_image = [header, &[0x1A, 0, 0x12, 0]].concat();
    assert!(problem(&class_then_image).ends_with("chunks do not stand in the order of their numbers"));
    assert!(problem(&[header, &[0x12, 0x81, 0x80, 0x40]].concat()).contains("the limit is 1048576"));
    assert!(problem(&[header, &[0x08, 1]].concat()).ends_with("this is no chunk"));
    assert!(problem(&[header, &[0x52, 0]].concat()).ends_with("its number is not known"));
    assert!(
        problem(&[header, &[0x12, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1]].concat())
            .contains("the limit is")
    );
    assert_eq!(MOST_CHUNK_BYTES, 1 << 20);
    let limits = MemoryGraphLimits { nodes: 1, ..MemoryGraphLimits::default() };
    let error = read_memory_graph(&bytes[..], &limits).unwrap_err();
    assert_eq!(error.to_string(), "the memory graph has more than 1 nodes");
    let limits = MemoryGraphLimits { references: 1, ..MemoryGraphLimits::default() };
    let error = read_memory_graph(&bytes[..], &limits).unwrap_err();
    assert_eq!(error.to_string(), "the memory graph has more than 1 references");
}

#[test]
fn a_reference_takes_few_bytes() {
    let mut writer = MemoryGraphWriter::new(Vec::new(), "", 0).unwrap();
    let nodes = 40_000_u32;
    for node in 0..nodes {
        writer.add_node(0x6000_0000 + u64::from(node) * 48, 48, None, None).unwrap();
    }
    for node in 0..nodes * 4 {
        writer
            .add_reference(node / 4, node.wrapping_mul(2_654_435_761) % nodes, Strong, 8 * (node % 4))
            .unwrap();
    }
    let bytes = writer.finish().unwrap().len();
    let nodes_alone = 2 * nodes as usize;
    assert!((bytes - nodes_alone) < 5 * 4 * nodes as usize, "{bytes}");
}
