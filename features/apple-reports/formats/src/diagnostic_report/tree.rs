//! The call stack tree: threads with nested frames, and the names of images beside them.

use super::members::{bits, find, get, is_name, text, type_name, uuid};
use super::notes::{Form, Notes};
use crate::json::JsonBuilder;
use crate::metric_kit::STACK_FRAMES_LIMIT;
use crate::metric_kit::places::{FramePlace, PlacedImages};
use crate::metric_kit::stacks::THREAD_BEGINNINGS;
use std::collections::HashMap;
use unslide_report::MemberPlace;
use unslide_report::{JsonValue, NestedObject, NestedShape, ReadError, ReadLimits};

/// The maximum number of frames of a tree.
const TREE_FRAMES_LIMIT: usize = 1 << 16;
/// The beginning of names of images in reports that Xcode simulates.
const SIMULATED_NAME: &str = "testBinaryName";

/// A frame and the frame that it lies in.
#[derive(Debug)]
struct TreeFrame<'a> {
    place: FramePlace,
    member: MemberPlace,
    answer: Option<&'a [u8]>,
    count: Option<u64>,
    /// The frames in it.
    inner: Vec<usize>,
}

/// A thread and its outermost objects.
#[derive(Debug, Default)]
struct TreeThread {
    is_attributed: bool,
    roots: Vec<usize>,
}

/// A call stack tree.
#[derive(Debug, Default)]
pub struct DiagnosticTree<'a> {
    pub is_per_thread: bool,
    threads: Vec<TreeThread>,
    frames: Vec<TreeFrame<'a>>,
    pub images: PlacedImages,
}

/// Reads a tree.
struct TreeReader<'a, 'n> {
    tree: DiagnosticTree<'a>,
    names: HashMap<String, String>,
    notes: &'n mut Notes,
    is_enriched: bool,
    items_limit: usize,
}

fn wrong_type(path: &str, expected: &str, value: JsonValue<'_>) -> ReadError {
    let problem = format!(
        "this is a report of MetricKit since iOS 27, but its `{path}` is {}, not {expected}: send the report as JSONEncoder writes it",
        type_name(value)
    );
    ReadError::Unsupported { problem }
}

impl<'a> DiagnosticTree<'a> {
    /// Reads the tree.
    ///
    /// # Errors
    /// Returns [`ReadError`] if a member of its structure has another type, or if there are too many frames.
    pub fn read(
        tree: JsonValue<'a>,
        is_enriched: bool,
        notes: &mut Notes,
        limits: &ReadLimits,
    ) -> Result<DiagnosticTree<'a>, ReadError> {
        let [threads, old_threads, short_threads, per_thread, binaries] =
            find(tree, ["callStackThreads", "callStacks", "threads", "callStackPerThread", "binaryInfo"]);
        if threads.is_none() {
            notes.record_form(Form::Threads);
        }
        let names = binaries.map(|binaries| read_names(binaries, notes)).transpose()?.unwrap_or_default();
        let Some(threads) = threads.or(old_threads).or(short_threads) else {
            let problem = "this is a report of MetricKit since iOS 27, but its `callStackTree` has no `callStackThreads`: send the report \
                           as JSONEncoder writes it";
            return Err(ReadError::Unsupported { problem: problem.to_owned() });
        };
        if !threads.raw_bytes().starts_with(b"[") {
            return Err(wrong_type("callStackTree.callStackThreads", "a list", threads));
        }
        let own = DiagnosticTree {
            is_per_thread: per_thread.and_then(JsonValue::as_boolean).unwrap_or(true),
            ..DiagnosticTree::default()
        };
        let mut reader = TreeReader { tree: own, names, notes, is_enriched, items_limit: limits.max_items };
        for (at, thread) in threads.items().into_iter().enumerate() {
            reader.read_thread(at, thread)?;
        }
        let mut tree = reader.tree;
        let places: Vec<FramePlace> = tree.frames.iter().map(|frame| frame.place.clone()).collect();
        tree.images = PlacedImages::from_frames(&places);
        Ok(tree)
    }

    /// Returns true if no thread has a frame.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Returns true for a report that Xcode simulates.
    pub fn is_simulated(&self) -> bool {
        self.images
            .images
            .iter()
            .any(|image| image.name.as_deref().is_some_and(|name| name.starts_with(SIMULATED_NAME)))
    }

    /// Returns the position of the thread that is blamed: the first one that is marked, or else the first one. A tree of all
    /// threads together has none.
    fn blamed_thread(&self) -> Option<usize> {
        let marked = self.threads.iter().position(|thread| thread.is_attributed);
        marked.or_else(|| {
            self.threads.iter().position(|thread| !thread.roots.is_empty()).filter(|_| self.is_per_thread)
        })
    }

    /// Returns the frames of a thread, the innermost first: the first root, the first frame in it, and so on.
    fn chain_of(&self, root: Option<usize>) -> Vec<usize> {
        let next = |at: &usize| self.frames.get(*at)?.inner.first().copied();
        let mut chain: Vec<usize> = std::iter::successors(root, next).collect();
        let begins = |at: Option<&usize>| at.is_some_and(|at| self.begins_thread(*at));
        // Some programs write the outermost frame first.
        if begins(chain.first()) && !begins(chain.last()) && chain.len() > 1 {
            chain.reverse();
        }
        chain
    }

    fn begins_thread(&self, at: usize) -> bool {
        let name = self.frames.get(at).and_then(|frame| frame.place.name.as_deref());
        name.is_some_and(|name| THREAD_BEGINNINGS.contains(&name))
    }

    /// Returns true if the stack of the blamed thread does not reach the beginning of a thread, nor the continuation of an
    /// asynchronous function: its address has bit 0 set.
    pub fn is_cut(&self) -> bool {
        let thread = self.blamed_thread().and_then(|at| self.threads.get(at));
        let chain = self.chain_of(thread.and_then(|thread| thread.roots.first().copied()));
        let last = chain.last().and_then(|at| self.frames.get(*at));
        chain.len() > 1
            && last.is_some_and(|frame| {
                frame.place.name.is_some() && frame.place.address.is_some_and(|address| address & 1 == 0)
            })
            && !chain.last().is_some_and(|at| self.begins_thread(*at))
    }

    /// Writes the member `threads`, and returns the places of our members in the frames. Further roots of a thread are
    /// threads after all others.
    pub fn write_threads(&self, has_answers: bool, json: &mut JsonBuilder) -> Vec<Option<MemberPlace>> {
        let (blamed, mut places) = (self.blamed_thread(), Vec::new());
        let firsts = self.threads.iter().map(|thread| thread.roots.first().copied());
        let further = self.threads.iter().flat_map(|thread| thread.roots.iter().skip(1).copied().map(Some));
        json.array("threads", |json| {
            for (index, root) in firsts.chain(further).enumerate() {
                json.item(|json| {
                    json.number("index", index as u64);
                    json.flag("crashed", blamed == Some(index));
                    json.flag("current_thread", false);
                    json.object("backtrace", |json| {
                        json.array("contents", |json| {
                            for frame in self.chain_of(root).into_iter().filter_map(|at| self.frames.get(at))
                            {
                                let answer = frame.answer.filter(|_| has_answers);
                                self.images.write_frame(&frame.place, answer, json);
                                places.push(Some(frame.member.clone()));
                            }
                        });
                    });
                });
            }
        });
        places
    }

    /// Writes the member `callStackTree` as older systems do, and returns the places of our members in the frames, in the
    /// order in which frames end.
    pub fn write_tree(&self, has_answers: bool, json: &mut JsonBuilder) -> Vec<Option<MemberPlace>> {
        let mut places = Vec::new();
        // Frames with several inner ones are callers.
        let has_branches = self.frames.iter().any(|frame| frame.inner.len() > 1);
        json.object("callStackTree", |json| {
            json.flag("callStackPerThread", self.is_per_thread && !has_branches);
            json.array("callStacks", |json| {
                for thread in &self.threads {
                    json.item(|json| {
                        json.flag("threadAttributed", thread.is_attributed);
                        json.array("callStackRootFrames", |json| {
                            self.write_frames(&thread.roots, has_answers, json, &mut places);
                        });
                    });
                }
            });
        });
        places
    }

    /// Writes nested frames without recursion.
    fn write_frames(
        &self,
        roots: &[usize],
        has_answers: bool,
        json: &mut JsonBuilder,
        places: &mut Vec<Option<MemberPlace>>,
    ) {
        let mut steps: Vec<(usize, bool)> = roots.iter().rev().map(|root| (*root, true)).collect();
        while let Some((at, is_begin)) = steps.pop() {
            let Some(frame) = self.frames.get(at) else { continue };
            if !is_begin {
                json.close_array();
                if let Some(answer) = frame.answer.filter(|_| has_answers) {
                    json.value("symbolication", answer);
                }
                json.close_item();
                places.push(Some(frame.member.clone()));
                continue;
            }
            json.open_item();
            let found = self.images.locate_frame(&frame.place);
            found.write_address("address", json);
            if let Some((address, base)) = found.address.zip(found.base) {
                json.some_string("binaryUUID", frame.place.uuid.as_deref());
                json.number("offsetIntoBinaryTextSegment", address.saturating_sub(base));
            }
            json.some_string("binaryName", frame.place.name.as_deref());
            if let Some(count) = frame.count {
                json.number("sampleCount", count);
            }
            json.open_array("subFrames");
            steps.push((at, false));
            steps.extend(frame.inner.iter().rev().map(|inner| (*inner, true)));
        }
    }
}

impl<'a> TreeReader<'a, '_> {
    fn read_thread(&mut self, at: usize, thread: JsonValue<'a>) -> Result<(), ReadError> {
        let path = || format!("callStackTree.callStackThreads[{at}]");
        if !thread.is_object() {
            return Err(wrong_type(&path(), "an object", thread));
        }
        let [roots, old_roots, attributed] =
            find(thread, ["rootFrames", "callStackRootFrames", "threadAttributed"]);
        if roots.is_none() && old_roots.is_some() {
            self.notes.record_form(Form::Threads);
        }
        let is_attributed = attributed.and_then(JsonValue::as_boolean) == Some(true);
        let mut own = TreeThread { is_attributed, roots: Vec::new() };
        if let Some(roots) = roots.or(old_roots) {
            if !roots.raw_bytes().starts_with(b"[") {
                return Err(wrong_type(&format!("{}.rootFrames", path()), "a list", roots));
            }
            for (root_at, root) in roots.items().into_iter().enumerate() {
                if !root.is_object() {
                    self.notes
                        .record_unread(|| format!("{}.rootFrames[{root_at}] is {}", path(), type_name(root)));
                    continue;
                }
                own.roots.push(self.read_root(at, root)?);
            }
        }
        self.tree.threads.push(own);
        let items = self.tree.frames.len() + self.tree.threads.len();
        if items > self.items_limit {
            return Err(ReadError::TooManyItems { offset: thread.offset(), limit: self.items_limit });
        }
        Ok(())
    }

    /// Reads a frame with all frames in it, and returns its position.
    fn read_root(&mut self, thread: usize, root: JsonValue<'a>) -> Result<usize, ReadError> {
        let begin = self.tree.frames.len();
        let shape = NestedShape {
            keys: ["binaryUUID", "binaryName", "address", "offsetIntoBinaryTextSegment", "sampleCount"],
            inner: "subFrames",
            is_name,
            has_branches: true,
            depth_limit: STACK_FRAMES_LIMIT,
            count_limit: TREE_FRAMES_LIMIT.saturating_sub(begin),
        };
        for (at, object) in root.read_nested(&shape)?.iter().enumerate() {
            let frame = self.read_frame(thread, at, object);
            self.tree.frames.push(frame);
            if let Some(outer) = object.outer.and_then(|outer| self.tree.frames.get_mut(begin + outer)) {
                outer.inner.push(begin + at);
            }
        }
        Ok(begin)
    }

    fn read_frame(&mut self, thread: usize, at: usize, object: &NestedObject<'a, 5>) -> TreeFrame<'a> {
        let members = object.members.map(|value| value.filter(|value| !value.is_null()));
        let [id, name, address, offset, count] = members;
        let own_id = uuid(id);
        let read = [own_id.is_some(), bits(address).is_some(), bits(offset).is_some()];
        let named = ["binaryUUID", "address", "offsetIntoBinaryTextSegment"];
        for ((key, value), is_read) in named.into_iter().zip([id, address, offset]).zip(read) {
            if let Some(value) = value.filter(|_| !is_read) {
                self.notes.record_unread(|| {
                    format!(
                        "{key} of frame {at} of callStackThreads[{thread}] is {} that is not read",
                        type_name(value)
                    )
                });
            }
        }
        let name = text(name);
        if name.is_some() {
            self.notes.record_form(Form::FrameNames);
        }
        let name = own_id.as_ref().and_then(|id| self.names.get(id).cloned()).or(name);
        let place = FramePlace { uuid: own_id, name, address: bits(address), field: bits(offset) };
        let answer = object.own_value().filter(|_| self.is_enriched).map(JsonValue::raw_bytes);
        let member = object.member_place(self.is_enriched);
        TreeFrame { place, member, answer, count: bits(count), inner: Vec::new() }
    }
}

/// Reads the names of images by their UUID: a list of `{uuid, name}`, or one of the forms that other encoders write.
fn read_names(binaries: JsonValue<'_>, notes: &mut Notes) -> Result<HashMap<String, String>, ReadError> {
    let mut names = HashMap::new();
    let name_of = |value: JsonValue<'_>| text(Some(value)).or_else(|| text(get(value, "name")));
    if binaries.is_object() {
        notes.record_form(Form::BinaryInfo);
        binaries.each_member(|key, value| {
            let id = uuid_text(key).or_else(|| uuid(get(value, "uuid")));
            names.extend(id.zip(name_of(value)));
        });
        return Ok(names);
    }
    if !binaries.raw_bytes().starts_with(b"[") {
        return Err(wrong_type("callStackTree.binaryInfo", "a list", binaries));
    }
    let mut key = None;
    binaries.each_item(|item| match (item.is_object(), key.take()) {
        (true, None) => names.extend(uuid(get(item, "uuid")).zip(text(get(item, "name")))),
        // Swift writes a dictionary with other keys than strings as a list of keys and values in turn.
        (_, Some(id)) => {
            notes.record_form(Form::BinaryInfo);
            names.extend(Some(id).zip(name_of(item)));
        }
        (false, None) => key = uuid(Some(item)),
    });
    Ok(names)
}

/// Returns the UUID in the name of a member.
fn uuid_text(name: &[u8]) -> Option<String> {
    let json = format!("\"{}\"", String::from_utf8_lossy(name));
    uuid(Some(JsonValue::read(json.as_bytes(), 0, &ReadLimits::default()).ok()?.0))
}
