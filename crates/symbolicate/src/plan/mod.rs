//! The first half of symbolication: finds each frame's look-up address and image. It needs no symbols.

mod attribute;
mod index;
mod javascript;
mod located;
mod space;
mod system;

use crate::rules::{Choice, Circumstances, Registers, Rule, choose_rule, is_sigtramp};
pub use attribute::Join;
use attribute::{Attributed, Attribution, find_attribution};
use index::AddressStretch;
pub(crate) use javascript::PlannedJavaScript;
pub use located::LocatedFrame;
use space::{Cleaned, Space};
use std::collections::HashMap;
pub use system::lies_in_shared_cache;
use system::{file_name, is_system_image, is_system_without_path, names_image};
use unslide_model::{CpuType, DebugId};
pub use unslide_report::is_system_path;
use unslide_report::{Backtrace, BacktraceOrigin, Frame, Number, Report, ReportPart, Text};

/// Symbols that a report can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolNeed {
    /// The debug id of the image.
    pub debug_id: DebugId,
    /// Its CPU type in the report's words; `None` if the report does not say.
    pub cpu: Option<CpuType>,
    /// True for an image of the operating system, by its path.
    pub system: bool,
    /// The image's file name; empty if it has none.
    pub name: String,
}

/// An image that a frame may refer to.
#[derive(Clone, Debug)]
pub(crate) struct PlannedImage<'a> {
    pub(crate) debug_id: Option<DebugId>,
    pub(crate) start: u64,
    /// `image_vmaddr`, for stating the slide.
    pub(crate) vmaddr: Option<u64>,
    /// The path as listed, or the frame's `object_name` for an image in no list.
    pub(crate) path: Option<Text<'a>>,
    /// The file name at the path's end, escaped as the report has it.
    pub(crate) file: &'a [u8],
    pub(crate) cpu: Option<CpuType>,
    pub(crate) system: bool,
    /// True if addresses in it are guesses: its start is a float, or it was taken from `app_uuid`.
    pub(crate) approximate: bool,
    /// The name of a JavaScript bundle, which has no path.
    pub(crate) bundle: Option<String>,
}

/// The parts of a frame's answer that need no symbols.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedFrame {
    /// The cleaned address; 0 if the frame has no valid one. A 64-bit ARM return address keeps its low bits.
    pub(crate) address: u64,
    /// The bits to remove from `address` if it proves not to be a return address.
    pub(crate) low_bits: u8,
    pub(crate) choice: Choice,
    pub(crate) imprecise: bool,
    pub(crate) pac_stripped: bool,
    /// False for `invalid_address`.
    pub(crate) valid: bool,
    /// `symbol_addr`, cleaned; `None` if it is absent or a float.
    pub(crate) symbol_start: Option<u64>,
    pub(crate) place: Option<ImagePlace>,
    /// The place of the address without the decrement. Set if it may be another one and the frame before may
    /// prove to be `_sigtramp`.
    pub(crate) exact_place: Option<Option<ImagePlace>>,
}

/// A frame's image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImagePlace {
    /// Its position in [`Plan::images`].
    pub(crate) image: u32,
    pub(crate) join: Join,
    pub(crate) reattributed: bool,
}

/// A report with the image and look-up address of each frame. It needs no symbols. One plan serves both
/// [`Plan::list_needs`] and [`Plan::enrich`].
#[derive(Debug)]
pub struct Plan<'r, 'a> {
    pub(crate) report: &'r Report<'a>,
    pub(crate) images: Vec<PlannedImage<'a>>,
    /// The frames of all backtraces, in the order of the document.
    pub(crate) frames: Vec<PlannedFrame>,
    /// The JavaScript error that the report is about.
    pub(crate) javascript: Option<PlannedJavaScript>,
}

impl<'r, 'a> Plan<'r, 'a> {
    /// Finds the image and look-up address of every frame. Ignores image lists without frames.
    #[must_use]
    pub fn new(report: &'r Report<'a>) -> Plan<'r, 'a> {
        let mut planner = Planner {
            report,
            spaces: report.parts.iter().map(|_| None).collect(),
            listed: report.parts.iter().map(|_| Vec::new()).collect(),
            unlisted: HashMap::new(),
            plan: Plan {
                report,
                images: Vec::new(),
                frames: Vec::with_capacity(report.backtraces.iter().map(|b| b.frames.len()).sum()),
                javascript: None,
            },
        };
        for backtrace in &report.backtraces {
            planner.plan_backtrace(backtrace);
        }
        let mut plan = planner.plan;
        let error = report.javascript_error();
        plan.javascript = error.map(|error| PlannedJavaScript::from_error(error, &mut plan.images));
        plan
    }

    /// Returns the symbols that frames can use, each once: those of the app's own images first, then those of
    /// the operating system, each in the order of first reference.
    #[must_use]
    pub fn list_needs(&self) -> Vec<SymbolNeed> {
        let mut seen = std::collections::HashSet::new();
        let mut needs: Vec<SymbolNeed> = self
            .images
            .iter()
            .filter_map(|image| {
                let debug_id = image.debug_id.filter(|id| seen.insert(*id))?;
                let name = image.name();
                Some(SymbolNeed { debug_id, cpu: image.cpu, system: image.system, name })
            })
            .collect();
        needs.sort_by_key(|need| need.system);
        needs
    }
}

impl Plan<'_, '_> {
    /// Returns a plan for a frame object without content.
    pub(crate) fn plan_blank(&self, backtrace: &Backtrace<'_>, index: usize) -> PlannedFrame {
        let part = self.report.parts.get(backtrace.part);
        let circumstances = Circumstances::from_backtrace(part.unwrap_or(&ReportPart::default()), backtrace);
        plan_invalid(None, &Circumstances { index, ..circumstances })
    }
}

impl PlannedImage<'_> {
    /// Returns the image of a JavaScript error's bundle.
    pub(crate) fn from_bundle(name: String, debug_id: Option<DebugId>) -> Self {
        PlannedImage {
            debug_id,
            start: 0,
            vmaddr: None,
            path: None,
            file: &[],
            cpu: Some(CpuType::JAVASCRIPT),
            system: false,
            approximate: false,
            bundle: Some(name),
        }
    }

    /// True for the bundle of a JavaScript error.
    pub(crate) fn is_bundle(&self) -> bool {
        self.cpu == Some(CpuType::JAVASCRIPT)
    }

    /// The most bytes that the name of a bundle takes as JSON.
    pub(crate) fn bundle_bytes(&self) -> usize {
        self.bundle.as_ref().map_or(0, |name| 6 * name.len())
    }

    /// Returns the file name, decoded; empty if there is none.
    pub(crate) fn name(&self) -> String {
        if let Some(bundle) = &self.bundle {
            return bundle.clone();
        }
        match (self.path, std::str::from_utf8(self.file)) {
            (None, _) => String::new(),
            (Some(path), Ok(file)) if !path.raw().contains(&b'\\') => file.to_owned(),
            (Some(path), _) => path.decode().rsplit('/').next().unwrap_or_default().to_owned(),
        }
    }
}

struct Planner<'r, 'a> {
    report: &'r Report<'a>,
    /// The image list of each part that frames refer to, by the part of the frames. A part's own fields supply
    /// facts that the list lacks.
    spaces: Vec<Option<Space<'r, 'a>>>,
    /// The planned image of each listed one, for each part with a list.
    listed: Vec<Vec<Option<u32>>>,
    unlisted: HashMap<(DebugId, u64), u32>,
    plan: Plan<'r, 'a>,
}

/// The address space in which a frame's address is looked up.
struct InPart<'s, 'r, 'a> {
    space: &'s Space<'r, 'a>,
    /// The part of the frame.
    part: usize,
    /// The stretch of the last look-up.
    near: &'s mut AddressStretch,
}

impl<'a> Planner<'_, 'a> {
    fn plan_backtrace(&mut self, backtrace: &Backtrace<'a>) {
        let Some(part) = self.report.parts.get(backtrace.part) else { return };
        if backtrace.frames.is_empty() {
            return;
        }
        let images = part.image_source.and_then(|p| self.report.parts.get(p)).map_or(&[][..], |p| &p.images);
        // Moved out so that the planner's other fields can be written.
        let space = self.spaces[backtrace.part].take().unwrap_or_else(|| Space::new(images, part));
        let mut circumstances = Circumstances::from_backtrace(part, backtrace);
        let mut near = AddressStretch::EMPTY;
        let pc = backtrace.thread.and_then(|t| t.pc).and_then(|pc| space.clean_address(pc, &mut near));
        let is_sampled = backtrace.origin == BacktraceOrigin::Profile && circumstances.metric_kit;
        let innermost = if is_sampled { self.report.innermost_sampled_frames() } else { Default::default() };
        let mut before: Option<(&Frame<'a>, Option<ImagePlace>)> = None;
        for (position, frame) in backtrace.frames.iter().enumerate() {
            let cleaned =
                frame.instruction_addr.and_then(|number: Number| space.clean_address(number, &mut near));
            circumstances.index = match backtrace.origin {
                // These frames form a tree: a frame counts as innermost if it calls no other.
                BacktraceOrigin::CallStackTree => usize::from(!backtrace.is_innermost(position)),
                BacktraceOrigin::Profile if is_sampled => usize::from(!innermost.contains(&frame.index)),
                _ => frame.index,
            };
            if frame.index == 0 && circumstances.registers == Registers::Elsewhere {
                let equal = pc.zip(cleaned).is_some_and(|(pc, own)| pc.address == own.address);
                circumstances.registers = if equal { Registers::AtFrame0 } else { Registers::Elsewhere };
            }
            let planned = match cleaned.filter(|c| c.is_valid()) {
                Some(cleaned) => {
                    let in_part = InPart { space: &space, part: backtrace.part, near: &mut near };
                    self.plan_frame(frame, cleaned, &circumstances, before, in_part)
                }
                None => plan_invalid(cleaned, &circumstances),
            };
            before = Some((frame, planned.place));
            self.plan.frames.push(planned);
        }
        self.spaces[backtrace.part] = Some(space);
    }

    fn plan_frame(
        &mut self,
        frame: &Frame<'a>,
        cleaned: Cleaned,
        circumstances: &Circumstances,
        called: Option<(&Frame<'a>, Option<ImagePlace>)>,
        mut in_part: InPart<'_, '_, 'a>,
    ) -> PlannedFrame {
        let choice = choose_rule(circumstances);
        let (address, low_bits) =
            if choice.adjusted { (cleaned.return_address(), cleaned.low_bits) } else { (cleaned.address, 0) };
        let place = self.find_place(frame, address - u64::from(choice.adjusted), &mut in_part);
        // The place of the address itself can differ only if the address is the first of its image.
        let interrupted = choice.rule == Rule::Caller
            && !in_part.near.contains(cleaned.address)
            && called.is_some_and(|(frame, place)| {
                frame.symbol_name.is_some_and(|name| is_sigtramp(name.raw()))
                    || place.and_then(|p| self.plan.images.get(p.image as usize)).is_some_and(|i| i.system)
            });
        let exact_place = interrupted.then(|| self.find_place(frame, cleaned.address, &mut in_part));
        // The symbol's start is only used together with its name.
        let symbol_start = frame
            .symbol_addr
            .filter(|number| frame.symbol_name.is_some() && !number.is_imprecise())
            .and_then(|number| in_part.space.clean_address(number, in_part.near));
        PlannedFrame {
            symbol_start: symbol_start.map(|cleaned| cleaned.address),
            address,
            low_bits,
            choice,
            imprecise: cleaned.imprecise,
            pac_stripped: cleaned.pac_stripped,
            valid: true,
            place,
            exact_place,
        }
    }

    fn find_place(
        &mut self,
        frame: &Frame<'a>,
        address: u64,
        at: &mut InPart<'_, '_, 'a>,
    ) -> Option<ImagePlace> {
        let facts = self.report.parts.get(at.part)?;
        let Attribution { image, join, mut reattributed } =
            find_attribution(frame, address, at.space, facts, at.near)?;
        let image = match image {
            Attributed::Listed(position) => {
                let position = self.find_or_add_listed(position, at.space, facts.image_source?)?;
                let PlannedImage { path, file, .. } = self.plan.images.get(position as usize)?;
                reattributed |=
                    frame.object_name.zip(*path).is_some_and(|(own, path)| !names_image(own, file, path));
                position
            }
            Attributed::Unlisted { debug_id, start, name } => {
                let images = &mut self.plan.images;
                let cpu = (join == Join::AppUuid).then_some(facts.binary_cpu).flatten();
                *self.unlisted.entry((debug_id, start)).or_insert_with(|| {
                    images.push(PlannedImage {
                        debug_id: Some(debug_id),
                        start,
                        vmaddr: None,
                        path: name,
                        file: name.map_or(&[], file_name),
                        cpu,
                        system: is_system_without_path(name, start, facts),
                        approximate: join == Join::AppUuid,
                        bundle: None,
                    });
                    to_position(images.len() - 1)
                })
            }
        };
        Some(ImagePlace { image, join, reattributed })
    }

    fn find_or_add_listed(&mut self, listed: u32, space: &Space<'_, 'a>, source: usize) -> Option<u32> {
        let known = self.listed.get_mut(source)?;
        if known.is_empty() {
            known.resize(space.images.len(), None);
        }
        let slot = known.get_mut(listed as usize)?;
        if slot.is_none() {
            let (image, placed) = (space.images.get(listed as usize)?, space.placed.get(listed as usize)?);
            let start = placed.start?;
            self.plan.images.push(PlannedImage {
                debug_id: image.uuid,
                start,
                vmaddr: image.vmaddr.filter(|v| !v.is_imprecise()).and_then(|v| space.to_unsigned(v)),
                path: image.name,
                file: image.name.map_or(&[], file_name),
                cpu: image.cpu.filter(|cpu| cpu.cpu_type != 0),
                system: is_system_image(image.name, start),
                approximate: placed.imprecise,
                bundle: None,
            });
            *slot = Some(to_position(self.plan.images.len() - 1));
        }
        *slot
    }
}

/// Returns the plan for a frame without an address, or with one in the page at 0.
fn plan_invalid(cleaned: Option<Cleaned>, circumstances: &Circumstances) -> PlannedFrame {
    PlannedFrame {
        address: cleaned.map_or(0, |c| c.address),
        low_bits: 0,
        choice: choose_rule(circumstances),
        imprecise: false,
        pac_stripped: false,
        valid: false,
        symbol_start: None,
        place: None,
        exact_place: None,
    }
}

fn to_position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
