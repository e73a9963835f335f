//! MetricKit's diagnostics: what was sampled, as a tree of frames in one another.

use crate::json::{JsonMember, JsonScanner, MemberSlot, MemberSlots, Stop, debug_id};
use crate::profile::{CallStackTree, Diagnostic, DiagnosticKind, TreeNode, samples};
use crate::report::{Backtrace, BacktraceOrigin, Frame};
use crate::{BlankFrame, Number, ReadError};

/// The most frames of a tree. A frame may take a dozen bytes of the record, and takes some hundred of memory.
const MOST_TREE_FRAMES: usize = 1 << 16;
const PLACE: &str = "callStackTree.callStacks[]";
const FRAME: &str = "callStackTree.callStacks[].callStackRootFrames[]";

/// The diagnostics of a part.
#[derive(Default)]
pub(crate) struct Diagnostics<'a> {
    /// How many there are, whatever they are about.
    pub(crate) count: usize,
    /// The first that was sampled, and its frames.
    pub(crate) sampled: Option<(Diagnostic, Backtrace<'a>)>,
    /// One that is the part itself.
    own: DiagnosticSection<'a>,
}

/// One diagnostic while it is read.
#[derive(Default)]
struct DiagnosticSection<'a> {
    tree: Option<Backtrace<'a>>,
    metadata: Option<usize>,
}

impl<'a> Diagnostics<'a> {
    /// Reads a member of a part, where it is one of a payload's or of a diagnostic's; false for others.
    pub(crate) fn member(
        &mut self,
        s: &mut JsonScanner<'a>,
        member: &JsonMember<'a>,
        part: usize,
    ) -> Result<bool, Stop> {
        match &*member.key {
            b"callStackTree" | b"diagnosticMetaData" => self.own.member(s, &member.key, part)?,
            key if is_payload_key(key) && s.byte() == Some(b'[') => {
                let kind = DiagnosticKind::of_payload(key);
                let mut slots = MemberSlots::new("");
                s.objects(slots.at(0, "diagnostics"), |s, _| {
                    s.item()?;
                    let mut section = DiagnosticSection::default();
                    s.members(|s, member| section.member(s, &member.key, part))?;
                    self.add(section, kind);
                    Ok(())
                })?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// All of them, once the part is read.
    pub(crate) fn finish(mut self, s: &JsonScanner<'a>) -> Diagnostics<'a> {
        let own = std::mem::take(&mut self.own);
        if own.tree.is_some() || own.metadata.is_some() {
            let kind = own.metadata.and_then(|at| DiagnosticKind::of_metadata(s.input(), at));
            self.add(own, kind);
        }
        self
    }

    fn add(&mut self, section: DiagnosticSection<'a>, kind: Option<DiagnosticKind>) {
        self.count += 1;
        if let (Some(kind), None, Some(tree)) = (kind, &self.sampled, section.tree) {
            self.sampled = Some((Diagnostic { kind, metadata: section.metadata }, tree));
        }
    }
}

impl<'a> DiagnosticSection<'a> {
    fn member(&mut self, s: &mut JsonScanner<'a>, key: &[u8], part: usize) -> Result<(), Stop> {
        match key {
            b"callStackTree" if s.byte() == Some(b'{') => self.tree = Some(call_stack_tree(s, part)?),
            b"diagnosticMetaData" => {
                self.metadata = (s.byte() == Some(b'{')).then_some(s.pos());
                s.skip()?;
            }
            _ => s.skip()?,
        }
        Ok(())
    }
}

/// Reads the tree object at the scanner's position.
fn call_stack_tree<'a>(s: &mut JsonScanner<'a>, part: usize) -> Result<Backtrace<'a>, Stop> {
    let start = s.pos();
    let mut reader = TreeReader::default();
    let mut own = MemberSlots::new("callStackTree");
    s.members(|s, member| {
        match &*member.key {
            b"callStackPerThread" => {
                reader.tree.per_thread = s.boolean(own.at(0, "callStackPerThread"))?.unwrap_or(false);
            }
            b"callStacks" => {
                reader.restart();
                s.objects(own.at(1, "callStacks"), |s, _| reader.stack(s))?;
            }
            _ => s.skip()?,
        }
        Ok(())
    })?;
    Ok(reader.finish(part, start))
}

#[derive(Default)]
struct TreeReader<'a> {
    frames: Vec<Frame<'a>>,
    blank_frames: Vec<BlankFrame>,
    tree: CallStackTree,
    /// Frames by the order in which they begin; they are listed by that in which they end.
    begun: Vec<u32>,
    invalid: u64,
}

/// How far a tree was read.
struct ReadSoFar {
    frames: usize,
    blank_frames: usize,
    begun: usize,
    invalid: u64,
}

/// What lies in a frame or in a stack.
#[derive(Default)]
struct InnerFrames {
    any: bool,
    /// The samples of frames that say nothing.
    blank: u64,
}

impl<'a> TreeReader<'a> {
    fn restart(&mut self) {
        *self = TreeReader {
            tree: CallStackTree { per_thread: self.tree.per_thread, ..CallStackTree::default() },
            ..TreeReader::default()
        };
    }

    fn stack(&mut self, s: &mut JsonScanner<'a>) -> Result<(), Stop> {
        s.item()?;
        let before = self.so_far();
        let mut own = MemberSlots::new(PLACE);
        s.members(|s, member| match &*member.key {
            b"callStackRootFrames" => {
                self.inner_frames(s, own.at(0, "callStackRootFrames"), None, &before)?;
                Ok(())
            }
            _ => s.skip(),
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

    /// Reads the frames of a list. A list under the same key, which was read after `before`, does not count.
    fn inner_frames(
        &mut self,
        s: &mut JsonScanner<'a>,
        slot: MemberSlot,
        above: Option<u32>,
        before: &ReadSoFar,
    ) -> Result<InnerFrames, Stop> {
        self.frames.truncate(before.frames);
        self.tree.nodes.truncate(before.frames);
        self.tree.inner.truncate(before.frames);
        self.blank_frames.truncate(before.blank_frames);
        self.begun.truncate(before.begun);
        self.invalid = before.invalid;
        let mut inner = InnerFrames::default();
        let invalid = s.objects(slot, |s, _| {
            inner.any = true;
            inner.blank = inner.blank.saturating_add(self.frame(s, above)?);
            Ok(())
        })?;
        self.invalid += invalid.unwrap_or(0);
        Ok(inner)
    }

    /// Reads a frame with all that lies in it. Returns the samples of one that says nothing: they are those of the
    /// frame above.
    fn frame(&mut self, s: &mut JsonScanner<'a>, above: Option<u32>) -> Result<u64, Stop> {
        s.item()?;
        if self.begun.len() >= MOST_TREE_FRAMES {
            return Err(ReadError::TooManyItems { offset: s.pos(), limit: MOST_TREE_FRAMES }.into());
        }
        let begun = u32::try_from(self.begun.len()).unwrap_or(u32::MAX);
        self.begun.push(0);
        let before = self.so_far();
        let mut inner = InnerFrames::default();
        let mut frame = Frame::default();
        let (mut offset, mut count) = (None, None);
        let mut own = MemberSlots::new(FRAME);
        let object = s.members(|s, member| {
            frame.own_member = None;
            match &*member.key {
                b"address" => s.numeric(own.at(0, "address"), &mut frame.instruction_addr)?,
                b"offsetIntoBinaryTextSegment" => {
                    s.numeric(own.at(1, "offsetIntoBinaryTextSegment"), &mut offset)?;
                }
                b"sampleCount" => count = s.unsigned(own.at(2, "sampleCount"))?,
                b"binaryName" => frame.object_name = s.text(own.at(3, "binaryName"))?,
                b"binaryUUID" => frame.object_uuid = s.uuid(own.at(4, "binaryUUID"))?.and_then(debug_id),
                b"subFrames" => {
                    inner = self.inner_frames(s, own.at(5, "subFrames"), Some(begun), &before)?;
                }
                b"symbolication" => {
                    let object = s.byte() == Some(b'{');
                    s.skip()?;
                    frame.own_member = object.then(|| member.separator..s.pos());
                }
                _ => s.skip()?,
            }
            Ok(())
        })?;
        frame.index = self.frames.len() + self.blank_frames.len();
        frame.insert_at = object.close;
        frame.has_members = object.count > 0;
        frame.object_addr = load_address(frame.instruction_addr, offset);
        if self.begun.len() == before.begun
            && let Some(blank) = BlankFrame::of(&frame, s.input())
        {
            self.begun.pop();
            self.blank_frames.push(blank);
            return Ok(samples(count, inner.blank));
        }
        self.begun[begun as usize] = u32::try_from(self.frames.len()).unwrap_or(u32::MAX);
        self.frames.push(frame);
        // The frame above ends later, so its position is not known yet.
        self.tree.nodes.push(TreeNode { above, count, blank: inner.blank });
        self.tree.inner.push(inner.any);
        Ok(0)
    }

    fn finish(mut self, part: usize, start: usize) -> Backtrace<'a> {
        for node in &mut self.tree.nodes {
            node.above = node.above.and_then(|begun| self.begun.get(begun as usize)).copied();
        }
        self.tree.find_direction(&self.frames);
        // They are many where there are any.
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

fn is_payload_key(key: &[u8]) -> bool {
    key == b"crashDiagnostics" || DiagnosticKind::of_payload(key).is_some()
}

/// Where the frame's image was loaded.
fn load_address(address: Option<Number>, offset: Option<Number>) -> Option<Number> {
    let start = address?.to_bits()?.checked_sub(offset?.to_bits()?)?;
    Some(Number::unsigned(start))
}
