//! The captures of the demo's traffic: what a device sampled, and what it allocated, where the demo crashes.

use crate::client::{Client, FormContent, FormFile};
use crate::failure::BoxError;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use unslide_model::DebugId;
use unslide_proto::Message;
use unslide_proto::signal::{StackImage, StackNode, StackSet};

/// What an address of the log is combined with.
const DISGUISE: u64 = 0x5555;
/// Allocations of the log.
const ALLOCATIONS: u64 = 4_000;
/// A slot without a caller.
const ROOT: u64 = u64::MAX;

/// Sends a set of stacks and a log of allocations, with the stack of a report; `of` says which app and session they are of.
///
/// # Errors
/// Where the API does not take them.
pub async fn send(client: &Client, of: [(&'static str, &str); 3], report: &Value) -> Result<(), BoxError> {
    let frames = report["crash"]["threads"][0]["backtrace"]["contents"].as_array();
    // The outermost first, as callers come before what they call.
    let frames: Vec<&Value> = frames.into_iter().flatten().rev().collect();
    let images = &report["binary_images"];
    let set = FormFile {
        name: "file",
        content: FormContent::Bytes(stack_set(&frames, images).encode_to_vec().into()),
    };
    let named = |kind: &str| {
        let pairs = of.into_iter().chain([("kind", kind)]);
        pairs.map(|(name, value)| (name, value.to_owned())).collect::<Vec<_>>()
    };
    client.send_capture(&named("stack_set"), &[set]).await?;
    let mut log = named("malloc_log");
    log.extend([("layout", "index".to_owned()), ("from", (ALLOCATIONS / 2).to_string())]);
    let files = [
        ("events", events(frames.len() as u64)),
        ("stacks", table(&frames)),
        ("images", serde_json::to_vec(&json!({"binary_images": images}))?),
    ];
    let files = files.map(|(name, bytes)| FormFile { name, content: FormContent::Bytes(bytes.into()) });
    client.send_capture(&log, &files).await?;
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

/// The table of the stacks: slot 1 is a thread, and each frame has the one before it as its caller.
fn table(frames: &[&Value]) -> Vec<u8> {
    let mut slots = vec![(0, 0), (0x104, ROOT)];
    for frame in frames {
        // The innermost is a program counter; in a log all are return addresses.
        slots.push((number(frame, "instruction_addr") + 1, slots.len() as u64 - 1));
    }
    slots.into_iter().flat_map(|(address, caller)| [address, caller]).flat_map(u64::to_le_bytes).collect()
}
