//! The captures of the demo's traffic: the samples and allocations of a device at the place of the crash, and
//! the objects that kept memory alive.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use unslide_captures_formats::memory_graph::ReferenceKind::Strong;
use unslide_captures_formats::memory_graph::{ClassKind, MemoryGraphWriter, RootKind};
use unslide_cli::{AddedLine, BoxError, Client, CoreCommand, DemoRun, FormContent, FormFile};
use unslide_model::DebugId;
use unslide_proto::Message;
use unslide_proto::signal::{MemoryMember, MemoryRegion, StackImage, StackNode, StackSet};

/// The path of captures in the API.
const CAPTURES: &str = "/v1/captures";
/// The mask that addresses of the log are combined with.
const DISGUISE: u64 = 0x5555;
const ALLOCATIONS: u64 = 4_000;
/// Items of the cart, and pairs of objects that keep each other alive, in the graphs of memory: the later one has more.
const GRAPHS: [(u32, u32); 2] = [(250, 15), (400, 60)];
/// A slot without a caller.
const ROOT: u64 = u64::MAX;

/// Sends the captures of a run in `unslide demo --traffic`.
pub fn add_line<'c>(client: &'c Client, command: CoreCommand<'c>) -> AddedLine<'c> {
    Box::pin(async move {
        let CoreCommand::Demo(run) = command else { return Ok(None) };
        send_captures(client, run).await?;
        let sent = "a set of stacks, a log of allocations and two graphs of memory (POST /v1/captures)";
        Ok(Some(sent.to_owned()))
    })
}

/// Sends a set of stacks and a log of allocations, with the stack of a report, and two memory graphs.
///
/// # Errors
/// Returns an error if the API does not accept them.
async fn send_captures(client: &Client, run: DemoRun<'_>) -> Result<(), BoxError> {
    let report = run.report;
    let frames = report["crash"]["threads"][0]["backtrace"]["contents"].as_array();
    // The outermost first, as callers come before what they call.
    let frames: Vec<&Value> = frames.into_iter().flatten().rev().collect();
    let images = &report["binary_images"];
    let set = FormFile {
        name: "file",
        content: FormContent::Bytes(stack_set(&frames, images).encode_to_vec().into()),
    };
    let named = |kind: &str| {
        let pairs =
            [("app", run.app), ("version", run.version), ("session_id", run.session_id), ("kind", kind)];
        pairs.into_iter().map(|(name, value)| (name, value.to_owned())).collect::<Vec<_>>()
    };
    let _: Value = client.send_form(CAPTURES, &named("stack_set"), &[set]).await?;
    let mut log = named("malloc_log");
    log.extend([("layout", "index".to_owned()), ("from", (ALLOCATIONS / 2).to_string())]);
    let files = [
        ("events", events(frames.len() as u64)),
        ("stacks", table(&frames)),
        ("images", serde_json::to_vec(&json!({"binary_images": images}))?),
    ];
    let files = files.map(|(name, bytes)| FormFile { name, content: FormContent::Bytes(bytes.into()) });
    let _: Value = client.send_form(CAPTURES, &log, &files).await?;
    for (items, leaks) in GRAPHS {
        let graph = FormContent::Bytes(memory_graph(items, leaks)?.into());
        let graph = FormFile { name: "file", content: graph };
        let _: Value = client.send_form(CAPTURES, &named("memory_graph"), &[graph]).await?;
    }
    Ok(())
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_default()
}

/// Samples of a stack: those further in are more.
fn stack_set(frames: &[&Value], images: &Value) -> StackSet {
    let images = images.as_array().into_iter().flatten();
    let mut positions = BTreeMap::new();
    let mut set = StackSet::default();
    for image in images {
        let id: Option<DebugId> = image["uuid"].as_str().and_then(|uuid| uuid.parse().ok());
        set.images.push(StackImage {
            debug_id: id.map_or_else(Vec::new, |id| id.0.to_vec()).into(),
            name: image["name"].as_str().unwrap_or_default().to_owned(),
        });
        positions.insert(number(image, "image_addr"), set.images.len());
    }
    for (depth, frame) in frames.iter().enumerate() {
        let base = number(frame, "object_addr");
        let position = positions.get(&base).copied().unwrap_or(0);
        let start = if position == 0 { 0 } else { base };
        set.nodes.push(StackNode {
            parent: u32::try_from(depth).unwrap_or(0),
            image: u32::try_from(position).unwrap_or(0),
            address: number(frame, "instruction_addr").saturating_sub(start),
            count: depth as u64 * 7,
            exact: depth + 1 == frames.len(),
        });
    }
    set
}

/// Creates a graph of a controller that keeps a cart with its items alive, and of checkouts that leaked with
/// their blocks.
fn memory_graph(items: u32, leaks: u32) -> std::io::Result<Vec<u8>> {
    const BEGIN: u64 = 0x6000_0000;
    let mut writer = MemoryGraphWriter::new(Vec::new(), "Cafe", 0)?;
    let member = |offset, stride, name: &str, kind: &str| MemoryMember {
        offset,
        stride,
        name: name.to_owned(),
        r#type: kind.to_owned(),
    };
    for (name, kind, members) in [
        ("OrderController", ClassKind::ObjectiveC, vec![member(16, 0, "_cart", "cafe::Cart")]),
        ("cafe::Cart", ClassKind::Cpp, vec![member(0, 8, "items", "cafe::Item")]),
        ("cafe::Item", ClassKind::Cpp, Vec::new()),
        ("cafe::Checkout", ClassKind::Cpp, vec![member(8, 0, "lines", "")]),
    ] {
        writer.add_class_with_members(name, kind, 0, &members)?;
    }
    let nodes = 2 + items + 2 * leaks;
    let size = u64::from(nodes) * 0x100;
    writer.add_region(&MemoryRegion {
        address: BEGIN,
        size,
        tag: 7,
        dirty: size,
        ..MemoryRegion::default()
    })?;
    for node in 0..nodes {
        let (class, bytes) = match node {
            0 => (Some(0), 240),
            1 => (Some(1), 96),
            _ if node < 2 + items => (Some(2), 64),
            // Of each pair the second is a block.
            _ => ((node - items).is_multiple_of(2).then_some(3), 128),
        };
        writer.add_node(BEGIN + u64::from(node) * 0x100, bytes, class, None)?;
    }
    writer.add_reference(0, 1, Strong, 16)?;
    for item in 0..items {
        writer.add_reference(1, 2 + item, Strong, 8 * item)?;
    }
    for leak in 0..leaks {
        let checkout = 2 + items + 2 * leak;
        writer.add_reference(checkout, checkout + 1, Strong, 8)?;
        writer.add_reference(checkout + 1, checkout, Strong, 32)?;
    }
    writer.add_root(0, RootKind::Global, 0x1_0000_8000)?;
    writer.finish()
}

/// Allocations by each depth of the stack, some of which are freed.
fn events(depths: u64) -> Vec<u8> {
    let mut words = Vec::new();
    for at in 0..ALLOCATIONS {
        let address = (0x6000_0000 + (at * 7_919 % ALLOCATIONS) * 0x1_0000) ^ DISGUISE;
        let stack = 2 + at % depths.max(1);
        words.extend([16 + at % 61 * 48, address, stack, 2]);
        if at % 3 == 0 {
            words.extend([0, address, 0, 4]);
        }
    }
    words.into_iter().flat_map(u64::to_le_bytes).collect()
}

/// Returns the table of the stacks: slot 1 is a thread, and each frame has the one before it as its caller.
fn table(frames: &[&Value]) -> Vec<u8> {
    let mut slots = vec![(0, 0), (0x104, ROOT)];
    for frame in frames {
        // The innermost is a program counter; in a log all are return addresses.
        slots.push((number(frame, "instruction_addr") + 1, slots.len() as u64 - 1));
    }
    slots.into_iter().flat_map(|(address, caller)| [address, caller]).flat_map(u64::to_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_captures_formats::memory_graph::{MemoryGraphLimits, read_memory_graph};

    #[test]
    fn the_graphs_of_memory_are_read() {
        for (items, leaks) in GRAPHS {
            let graph = memory_graph(items, leaks).unwrap();
            assert!(read_memory_graph(&graph[..], &MemoryGraphLimits::default()).is_ok());
        }
    }
}
