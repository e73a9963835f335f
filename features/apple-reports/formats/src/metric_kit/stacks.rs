//! The stacks of a crash: a chain of nested frames for each thread.

use super::STACK_FRAMES_LIMIT;
use super::places::{FramePlace, PlacedImages};
use crate::json::JsonBuilder;
use unslide_report::{JsonValue, MemberPlace, NestedObject, NestedShape, ReadError, ReadLimits};

/// Images in which threads begin.
pub const THREAD_BEGINNINGS: [&str; 3] = ["dyld", "libdyld.dylib", "libsystem_pthread.dylib"];

/// One thread of a crash.
#[derive(Debug)]
struct CrashStack<'a> {
    is_crashed: bool,
    /// The positions of its frames, the innermost first.
    frames: std::ops::Range<usize>,
    /// The answers of an earlier enrichment.
    answers: Vec<Option<&'a [u8]>>,
}

/// The stacks of a crash.
#[derive(Debug, Default)]
pub struct CrashStacks<'a> {
    /// True if each stack is a thread.
    pub is_per_thread: bool,
    stacks: Vec<CrashStack<'a>>,
    /// The frames of all stacks.
    pub places: Vec<FramePlace>,
    /// The place of our member in each frame.
    pub members: Vec<Option<MemberPlace>>,
}

/// A frame and the answer in it.
struct ReadFrame<'a> {
    place: FramePlace,
    member: Option<MemberPlace>,
    answer: Option<&'a [u8]>,
}

impl<'a> CrashStacks<'a> {
    /// Reads a call stack tree.
    ///
    /// # Errors
    /// Returns [`ReadError`] if a stack is too deep, or if there are too many frames.
    pub fn read_tree(
        tree: Option<JsonValue<'a>>,
        is_enriched: bool,
        limits: &ReadLimits,
    ) -> Result<CrashStacks<'a>, ReadError> {
        let mut read = CrashStacks { is_per_thread: true, ..CrashStacks::default() };
        let Some(tree) = tree else { return Ok(read) };
        let [stacks, per_thread] = tree.find_members(["callStacks", "callStackPerThread"]);
        read.is_per_thread = per_thread.and_then(JsonValue::as_boolean).unwrap_or(true);
        for stack in stacks.map(JsonValue::items).unwrap_or_default() {
            let [roots, attributed] = stack.find_members(["callStackRootFrames", "threadAttributed"]);
            let is_crashed = attributed.and_then(JsonValue::as_boolean) == Some(true);
            // A thread has one root; more roots are stacks of samples.
            for root in roots.map(JsonValue::items).unwrap_or_default() {
                let frames = read_chain(root, is_enriched)?;
                let total = read.places.len() + frames.len() + read.stacks.len();
                if total > limits.max_items {
                    return Err(ReadError::TooManyItems { offset: root.offset(), limit: limits.max_items });
                }
                read.add_stack(frames, is_crashed);
            }
        }
        if !read.stacks.iter().any(|stack| stack.is_crashed)
            && let Some(first) = read.stacks.first_mut()
        {
            first.is_crashed = true;
        }
        Ok(read)
    }

    fn add_stack(&mut self, mut frames: Vec<ReadFrame<'a>>, is_crashed: bool) {
        let is_beginning = |frame: Option<&ReadFrame<'a>>| {
            frame
                .and_then(|frame| frame.place.name.as_deref())
                .is_some_and(|name| THREAD_BEGINNINGS.contains(&name))
        };
        // Some programs write the outermost frame first.
        if is_beginning(frames.first()) && !is_beginning(frames.last()) && frames.len() > 1 {
            frames.reverse();
        }
        let begin = self.places.len();
        let mut answers = Vec::with_capacity(frames.len());
        for frame in frames {
            self.places.push(frame.place);
            self.members.push(frame.member);
            answers.push(frame.answer);
        }
        self.stacks.push(CrashStack { is_crashed, frames: begin..self.places.len(), answers });
    }

    /// Writes the threads as a member of the crash.
    pub fn write_threads(&self, images: &PlacedImages, json: &mut JsonBuilder) {
        let crashed = self.stacks.iter().position(|stack| stack.is_crashed);
        json.array("threads", |json| {
            for (index, stack) in self.stacks.iter().enumerate() {
                json.item(|json| {
                    json.number("index", index as u64);
                    json.flag("crashed", crashed == Some(index));
                    json.flag("current_thread", false);
                    json.object("backtrace", |json| {
                        json.array("contents", |json| self.write_frames(stack, images, json));
                    });
                });
            }
        });
    }

    fn write_frames(&self, stack: &CrashStack<'a>, images: &PlacedImages, json: &mut JsonBuilder) {
        let places = self.places.get(stack.frames.clone()).unwrap_or_default();
        for (place, answer) in places.iter().zip(&stack.answers) {
            images.write_frame(place, *answer, json);
        }
    }
}

impl<'a> ReadFrame<'a> {
    fn from_object(object: &NestedObject<'a, 4>, is_enriched: bool) -> ReadFrame<'a> {
        let [uuid, name, address, field] = object.members;
        let uuid = uuid.filter(|uuid| uuid.as_uuid().is_some()).and_then(JsonValue::decode_string);
        let bits = |value: Option<JsonValue<'_>>| value?.as_number()?.to_bits();
        let place = FramePlace {
            uuid: uuid.map(|uuid| uuid.to_lowercase()),
            name: name.and_then(JsonValue::decode_string),
            address: bits(address),
            field: bits(field),
        };
        let answer = object.own_value().filter(|_| is_enriched).map(JsonValue::raw_bytes);
        ReadFrame { place, member: Some(object.member_place(is_enriched)), answer }
    }
}

/// Reads a frame and the frames nested in it. Of several frames in one, which only samples have, the first is read.
fn read_chain(root: JsonValue<'_>, is_enriched: bool) -> Result<Vec<ReadFrame<'_>>, ReadError> {
    let shape = NestedShape {
        keys: ["binaryUUID", "binaryName", "address", "offsetIntoBinaryTextSegment"],
        inner: "subFrames",
        is_name: |name, key| name == key.as_bytes(),
        has_branches: false,
        depth_limit: STACK_FRAMES_LIMIT,
        count_limit: STACK_FRAMES_LIMIT,
    };
    let chain = root.read_nested(&shape)?;
    Ok(chain.iter().map(|object| ReadFrame::from_object(object, is_enriched)).collect())
}
