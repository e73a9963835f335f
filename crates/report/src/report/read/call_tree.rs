//! MetricKit's call stack tree: sampled stacks as nested frames.
//!
//! It is read without recursion, and its frames do not count as levels of the record: a stack may be deeper than other
//! parts of a record.

use crate::error::MOST_TREE_DEPTH;
use crate::json::{JsonScanner, MemberSlot, MemberSlots, OpenObjects, Stop, debug_id};
use crate::report::profile::tree::{CallStackTree, TreeNode, tree_samples};
use crate::report::{Backtrace, BacktraceOrigin, Frame};
use crate::{BlankFrame, Number, ReadError};

/// The maximum number of frames in a tree. A frame may take a dozen bytes of the record, and some hundred of memory.
const MOST_TREE_FRAMES: usize = 1 << 16;
const CALL_STACKS_PLACE: &str = "callStackTree.callStacks[]";
const ROOT_FRAMES_PLACE: &str = "callStackTree.callStacks[].callStackRootFrames[]";

/// Reads the tree object at the scanner's position.
pub(super) fn call_stack_tree<'a>(s: &mut JsonScanner<'a>, part: usize) -> Result<Backtrace<'a>, Stop> {
    let start = s.pos();
    let mut reader = TreeReader::default();
    let mut own = MemberSlots::new("callStackTree");
    s.read_members(|s, member| {
        match &*member.key {
            b"callStackPerThread" => {
                reader.tree.per_thread =
                    s.read_boolean(own.slot_for(0, "callStackPerThread"))?.unwrap_or(false);
            }
            b"callStacks" => {
                reader.reset_tree();
                s.read_objects(own.slot_for(1, "callStacks"), |s, _| reader.read_stack(s))?;
            }
            _ => s.skip_value()?,
        }
        Ok(())
    })?;
    Ok(reader.into_backtrace(part, start))
}

#[derive(Default)]
struct TreeReader<'a> {
    frames: Vec<Frame<'a>>,
    blank_frames: Vec<BlankFrame>,
    tree: CallStackTree,
    /// The list position of each frame, in the order in which frames begin. The list is in the order in which they end.
    begun: Vec<u32>,
    invalid: u64,
}

/// The progress of reading a tree.
struct ReadSoFar {
    frames: usize,
    blank_frames: usize,
    begun: usize,
    invalid: u64,
}

/// The contents of a frame or of a stack.
#[derive(Default)]
struct InnerFrames {
    any: bool,
    /// The samples of blank frames.
    blank: u64,
}

/// A list of frames that is being read.
struct OpenFrames {
    objects: OpenObjects,
    inner: InnerFrames,
}

/// A frame that is being read.
struct OpenFrame<'a> {
    frame: Frame<'a>,
    above: Option<u32>,
    begun: u32,
    before: ReadSoFar,
    inner: InnerFrames,
    offset: Option<Number>,
    count: Option<u64>,
    slots: MemberSlots,
    members: usize,
}

impl<'a> TreeReader<'a> {
    fn reset_tree(&mut self) {
        *self = TreeReader {
            tree: CallStackTree { per_thread: self.tree.per_thread, ..CallStackTree::default() },
            ..TreeReader::default()
        };
    }

    fn read_stack(&mut self, s: &mut JsonScanner<'a>) -> Result<(), Stop> {
        s.count_item()?;
        let before = self.so_far();
        let mut own = MemberSlots::new(CALL_STACKS_PLACE);
        s.read_members(|s, member| match &*member.key {
            b"callStackRootFrames" => self.root_frames(s, own.slot_for(0, "callStackRootFrames"), &before),
            _ => s.skip_value(),
        })?;
        Ok(())
    }

    fn so_far(&self) -> ReadSoFar {
        ReadSoFar {
            frames: self.frames.len(),
            blank_frames: self.blank_frames.len(),
            begun: self.begun.len(),
            invalid: self.invalid,
        }
    }

    /// Begins a list. Discards an earlier list under the same key, which was read after `before`.
    fn begin_list(
        &mut self,
        s: &mut JsonScanner<'a>,
        slot: MemberSlot,
        before: &ReadSoFar,
    ) -> Result<Option<OpenFrames>, Stop> {
        self.frames.truncate(before.frames);
        self.tree.nodes.truncate(before.frames);
        self.tree.inner.truncate(before.frames);
        self.blank_frames.truncate(before.blank_frames);
        self.begun.truncate(before.begun);
        self.invalid = before.invalid;
        let objects = s.open_objects(slot)?;
        Ok(objects.map(|objects| OpenFrames { objects, inner: InnerFrames::default() }))
    }

    /// Reads the frames of a stack with all nested frames.
    fn root_frames(
        &mut self,
        s: &mut JsonScanner<'a>,
        slot: MemberSlot,
        before: &ReadSoFar,
    ) -> Result<(), Stop> {
        let Some(roots) = self.begin_list(s, slot, before)? else { return Ok(()) };
        // Each list except the first lies in the frame before it.
        let (mut lists, mut frames) = (vec![roots], Vec::<OpenFrame<'a>>::new());
        while let Some(list) = lists.last_mut() {
            if s.next_object(&mut list.objects)? {
                list.inner.any = true;
                let above = frames.last().map(|frame| frame.begun);
                if frames.len() >= MOST_TREE_DEPTH {
                    return Err(ReadError::TreeTooDeep { offset: s.pos(), limit: MOST_TREE_DEPTH }.into());
                }
                frames.push(self.begin_frame(s, above)?);
            } else if let Some(OpenFrames { objects, inner }) = lists.pop() {
                self.invalid += objects.invalid;
                let Some(frame) = frames.last_mut() else { return Ok(()) };
                frame.inner = inner;
            }
            let Some(frame) = frames.last_mut() else { return Ok(()) };
            if let Some(inner) = self.read_members(s, frame)? {
                lists.push(inner);
            } else if let (Some(frame), Some(list)) = (frames.pop(), lists.last_mut()) {
                let blank = self.end_frame(s, frame);
                list.inner.blank = list.inner.blank.saturating_add(blank);
            }
        }
        Ok(())
    }

    /// Begins the frame at the scanner's position.
    fn begin_frame(&mut self, s: &mut JsonScanner<'a>, above: Option<u32>) -> Result<OpenFrame<'a>, Stop> {
        s.count_item()?;
        if self.begun.len() >= MOST_TREE_FRAMES {
            return Err(ReadError::TooManyItems { offset: s.pos(), limit: MOST_TREE_FRAMES }.into());
        }
        let begun = u32::try_from(self.begun.len()).unwrap_or(u32::MAX);
        self.begun.push(0);
        s.open_object();
        Ok(OpenFrame {
            frame: Frame::default(),
            above,
            begun,
            before: self.so_far(),
            inner: InnerFrames::default(),
            offset: None,
            count: None,
            slots: MemberSlots::new(ROOT_FRAMES_PLACE),
            members: 0,
        })
    }

    /// Reads members of a frame up to its end, or up to a list of frames in it. Returns that list.
    fn read_members(
        &mut self,
        s: &mut JsonScanner<'a>,
        open: &mut OpenFrame<'a>,
    ) -> Result<Option<OpenFrames>, Stop> {
        while let Some(member) = s.next_member(open.members)? {
            let OpenFrame { frame, slots, .. } = open;
            open.members += 1;
            frame.own_member = None;
            match &*member.key {
                b"address" => {
                    s.read_number_into(slots.slot_for(0, "address"), &mut frame.instruction_addr)?;
                }
                b"offsetIntoBinaryTextSegment" => {
                    s.read_number_into(slots.slot_for(1, "offsetIntoBinaryTextSegment"), &mut open.offset)?;
                }
                b"sampleCount" => open.count = s.read_unsigned(slots.slot_for(2, "sampleCount"))?,
                b"binaryName" => frame.object_name = s.read_text(slots.slot_for(3, "binaryName"))?,
                b"binaryUUID" => {
                    frame.object_uuid = s.read_uuid(slots.slot_for(4, "binaryUUID"))?.and_then(debug_id);
                }
                b"subFrames" => {
                    open.inner = InnerFrames::default();
                    let list = self.begin_list(s, slots.slot_for(5, "subFrames"), &open.before)?;
                    if list.is_some() {
                        return Ok(list);
                    }
                }
                b"symbolication" => {
                    let object = s.peek_byte() == Some(b'{');
                    s.skip_value()?;
                    frame.own_member = object.then(|| member.separator..s.pos());
                }
                _ => s.skip_value()?,
            }
        }
        Ok(None)
    }

    /// Ends the frame that closes at the scanner's position. Returns the samples of a blank frame: they count for the
    /// frame above.
    fn end_frame(&mut self, s: &mut JsonScanner<'a>, open: OpenFrame<'a>) -> u64 {
        let OpenFrame { mut frame, above, begun, before, inner, offset, count, members, .. } = open;
        frame.index = self.frames.len() + self.blank_frames.len();
        frame.insert_at = s.close_object();
        frame.has_members = members > 0;
        frame.object_addr = load_address(frame.instruction_addr, offset);
        if self.begun.len() == before.begun
            && let Some(blank) = BlankFrame::from_frame(&frame, s.input())
        {
            self.begun.pop();
            self.blank_frames.push(blank);
            return tree_samples(count, inner.blank);
        }
        self.begun[begun as usize] = u32::try_from(self.frames.len()).unwrap_or(u32::MAX);
        self.frames.push(frame);
        // The frame above ends later, so its position is not known yet.
        self.tree.nodes.push(TreeNode { above, count, blank: inner.blank });
        self.tree.inner.push(inner.any);
        0
    }

    fn into_backtrace(mut self, part: usize, start: usize) -> Backtrace<'a> {
        for node in &mut self.tree.nodes {
            node.above = node.above.and_then(|begun| self.begun.get(begun as usize)).copied();
        }
        self.tree.find_direction(&self.frames);
        // If there are any, there are many.
        self.blank_frames.shrink_to_fit();
        Backtrace {
            part,
            origin: BacktraceOrigin::CallStackTree,
            thread: None,
            skipped: 0,
            frames: self.frames,
            blank_frames: self.blank_frames,
            invalid: self.invalid,
            tree: Some(Box::new(self.tree)),
            start,
        }
    }
}

/// Returns the load address of the frame's image.
fn load_address(address: Option<Number>, offset: Option<Number>) -> Option<Number> {
    let start = address?.to_bits()?.checked_sub(offset?.to_bits()?)?;
    Some(Number::from_unsigned(start))
}
