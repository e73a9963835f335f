//! One pass over a report: every frame is answered, and what is said of it is spliced in.

use crate::answer::{Judged, answer, judge};
use crate::output::{self, DeviceNames, Extent, ReportFacts};
use crate::plan::{Need, Plan, PlannedImage};
use crate::status::{FrameStatus, ImageStatus, ReportStatus, Tally};
use crate::symbols::{ImageSymbols, Symbols};
use std::collections::HashSet;
use std::ops::Range;
use time::OffsetDateTime;
use unslide_model::{CpuType, DebugId, FileAddress, LoadAddress, Slide, TenantId};
use unslide_report::{Backtrace, FrameCounts, Origin, Report, splice};

/// What a caller knows and a report does not: all of it is written down as it is given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'c> {
    /// Whose report it is.
    pub tenant: Option<&'c TenantId>,
    /// The revision that this answer gets, from 1.
    pub revision: Option<u32>,
    /// The revision that it takes the place of.
    pub supersedes: Option<u32>,
    /// When the report is symbolicated; written with milliseconds.
    pub processed_at: Option<OffsetDateTime>,
    /// How much is written.
    pub detail: Detail,
}

/// How much is written of the answers, for outputs that would be too large otherwise. Each is smaller
/// than the one before; all but the first say `truncated`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Everything.
    #[default]
    Full,
    /// No `calls` in threads that did not crash.
    CrashedThreadOnly,
    /// The status of each frame, and the functions' names in the thread that crashed.
    FunctionsOnly,
}

/// A report with its answers.
#[derive(Clone, Debug)]
pub struct Enriched {
    /// The report's bytes with our members spliced in.
    pub bytes: Vec<u8>,
    /// How far it got.
    pub status: ReportStatus,
    /// How many frames ended how.
    pub frames: FrameCounts,
    /// The images that a frame refers to: the app's own first, then those of the operating system.
    pub images: Vec<ImageOutcome>,
    /// The debug ids without symbols, each once, in the order of `images`.
    pub missing: Vec<DebugId>,
    /// What was tolerated.
    pub warnings: Vec<String>,
}

/// An image that a frame refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageOutcome {
    /// Its debug id; `None` where it has none.
    pub debug_id: Option<DebugId>,
    /// Its file name; empty where it has none.
    pub name: String,
    /// Its architecture, such as `arm64e`, in the report's words or else the object's.
    pub arch: Option<&'static str>,
    /// What became of its symbols.
    pub status: ImageStatus,
    /// Load address − preferred address, in bytes.
    pub slide: Option<i128>,
    /// The generation of the symbols that answered.
    pub generation: Option<u64>,
    /// True for an image of the operating system.
    pub system: bool,
    /// True where the device and the object disagree on the preferred address, as they do for
    /// images in the shared cache.
    pub vmaddr_differs: bool,
}

/// The symbols that a report can use: what is to be fetched before [`enrich`] is called.
#[must_use]
pub fn needs(report: &Report<'_>) -> Vec<Need> {
    Plan::new(report).needs()
}

/// Answers every frame of a report. `symbols` gives what is known of a debug id, `None` standing for
/// [`ImageSymbols::Missing`].
///
/// The same report, symbols and context give the same bytes; earlier answers of ours in the report
/// are replaced.
#[must_use]
pub fn enrich<'s>(
    report: &Report<'_>,
    symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
    context: &Context<'_>,
) -> Enriched {
    Plan::new(report).enrich(symbols, context)
}

impl Plan<'_, '_> {
    /// As [`enrich`].
    #[must_use]
    pub fn enrich<'s>(
        &self,
        symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
        context: &Context<'_>,
    ) -> Enriched {
        let judged: Vec<Judged<'s>> = self.images.iter().map(|image| judge(image, symbols)).collect();
        let mut splicer = Splicer::new(self, &judged);
        let (tally, referred) = self.frames(&judged, context, &mut splicer);
        let (images, missing) = self.outcomes(&judged, &referred);
        let warnings: Vec<String> = self.report.warnings.iter().map(ToString::to_string).collect();
        let status = tally.status();
        let facts = ReportFacts {
            status,
            counts: &tally.counts,
            images: &images,
            missing: &missing,
            warnings: &warnings,
        };
        let report = self.report;
        splicer.insert(report.insert_at, report.own_member.clone(), report.has_members);
        output::report(&mut splicer.out, &facts, context);
        Enriched { bytes: splicer.finish(), status, frames: tally.counts, images, missing, warnings }
    }

    /// Answers and writes every frame; says which images were referred to.
    fn frames(
        &self,
        judged: &[Judged<'_>],
        context: &Context<'_>,
        splicer: &mut Splicer<'_>,
    ) -> (Tally, Vec<bool>) {
        let mut tally = Tally::default();
        tally.counts.invalid = self.report.invalid.frames;
        let mut referred = vec![false; self.images.len()];
        let mut names = DeviceNames::default();
        let mut memo = Memo::new(self.frames.len());
        let mut planned = self.frames.iter();
        for backtrace in &self.report.backtraces {
            let extent = Extent::of(context.detail, is_of_the_crash(backtrace));
            let mut sigtramp_at = None;
            for (frame, planned) in backtrace.frames.iter().zip(planned.by_ref()) {
                let after_sigtramp = sigtramp_at.is_some_and(|at: usize| at + 1 == frame.index);
                splicer.insert(frame.insert_at, frame.own_member.clone(), frame.has_members);
                let key = memo.key(planned, after_sigtramp, extent);
                if let Some((range, image)) = memo.get(&key) {
                    splicer.out.extend_from_within(range);
                    referred[image as usize] = true;
                    tally.add(FrameStatus::Symbolicated, false);
                    continue;
                }
                let answered = answer(self, judged, frame, planned, after_sigtramp);
                let is_sigtramp = answered.is_sigtramp(frame);
                sigtramp_at = is_sigtramp.then_some(frame.index);
                let mut system = false;
                if let Some(place) = answered.place {
                    referred[place.image as usize] = true;
                    system = self.images[place.image as usize].system;
                }
                tally.add(answered.status, system);
                let start = splicer.out.len();
                output::frame(&mut splicer.out, &answered, judged, extent, &mut names);
                if let Some(place) = answered.place
                    && answered.status == FrameStatus::Symbolicated
                    && !is_sigtramp
                {
                    memo.put(key, start..splicer.out.len(), place.image);
                }
            }
        }
        (tally, referred)
    }

    fn outcomes(&self, judged: &[Judged<'_>], referred: &[bool]) -> (Vec<ImageOutcome>, Vec<DebugId>) {
        let mut images: Vec<ImageOutcome> = self
            .images
            .iter()
            .zip(judged)
            .zip(referred)
            .filter(|(_, referred)| **referred)
            .map(|((image, judged), _)| outcome(image, judged))
            .collect();
        images.sort_by_key(|image| image.system);
        let mut seen = HashSet::new();
        let missing = images
            .iter()
            .filter(|image| image.status == ImageStatus::Missing)
            .filter_map(|image| image.debug_id.filter(|id| seen.insert(*id)))
            .collect();
        (images, missing)
    }
}

/// True for the backtraces that a reader looks at first: those of the thread that crashed and of the
/// exceptions.
fn is_of_the_crash(backtrace: &Backtrace<'_>) -> bool {
    match backtrace.origin {
        Origin::Thread => backtrace.thread.is_some_and(|thread| thread.crashed),
        Origin::CrashedThread | Origin::LastException | Origin::DeallocatedException => true,
        Origin::Profile => false,
    }
}

fn outcome(image: &PlannedImage<'_>, judged: &Judged<'_>) -> ImageOutcome {
    let text = judged.symbols.map(Symbols::text_address);
    let preferred = image.vmaddr.map(FileAddress);
    ImageOutcome {
        debug_id: image.debug_id,
        name: image.name(),
        arch: image
            .cpu
            .or_else(|| judged.symbols.map(Symbols::cpu))
            .map(CpuType::name)
            .filter(|name| *name != "unknown"),
        status: judged.status,
        slide: preferred.or(text).map(|preferred| Slide::between(LoadAddress(image.start), preferred).0),
        generation: judged.generation,
        system: image.system,
        vmaddr_differs: preferred.zip(text).is_some_and(|(device, object)| device != object),
    }
}

/// The output while it grows: the input is copied up to each place where something is put in.
struct Splicer<'i> {
    input: &'i [u8],
    copied: usize,
    out: Vec<u8>,
}

impl<'i> Splicer<'i> {
    fn new(plan: &Plan<'_, 'i>, judged: &[Judged<'_>]) -> Splicer<'i> {
        // What frames with and without symbols take on average, so that the output is allocated once
        // for all but unusual reports.
        const WITH_SYMBOLS: usize = 640;
        const WITHOUT: usize = 208;
        let frames: usize = plan
            .frames
            .iter()
            .map(|frame| frame.place.and_then(|place| judged.get(place.image as usize)))
            .map(|image| if image.is_some_and(|i| i.symbols.is_some()) { WITH_SYMBOLS } else { WITHOUT })
            .sum();
        let input = plan.report.input;
        let capacity = input.len() + frames + plan.images.len() * 256 + 1024;
        Splicer { input, copied: 0, out: Vec::with_capacity(capacity) }
    }

    /// Copies the input up to `at` without the bytes in `own`, and writes our key there.
    fn insert(&mut self, at: usize, own: Option<Range<usize>>, has_members: bool) {
        if let Some(own) = own {
            self.copy(own.start);
            self.copied = own.end.max(self.copied);
        }
        self.copy(at);
        self.out.extend_from_slice(splice::key(has_members));
    }

    fn copy(&mut self, to: usize) {
        self.out.extend_from_slice(self.input.get(self.copied..to).unwrap_or_default());
        self.copied = to.max(self.copied);
    }

    fn finish(mut self) -> Vec<u8> {
        self.copy(self.input.len());
        self.out
    }
}

/// Where in the output the answer for an address lies, for the addresses that many threads share. A
/// slot holds the latest address that falls to it.
struct Memo {
    slots: Vec<Option<(MemoKey, Range<usize>)>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct MemoKey {
    address: u64,
    image: u32,
    flags: u8,
    extent: Extent,
}

impl Memo {
    fn new(frames: usize) -> Memo {
        let slots = if frames < 4 { 0 } else { (frames * 2).next_power_of_two().min(1024) };
        Memo { slots: vec![None; slots] }
    }

    /// Everything that the answer of symbols depends on; `None` without an image.
    fn key(
        &self,
        planned: &crate::plan::PlannedFrame,
        after_sigtramp: bool,
        extent: Extent,
    ) -> Option<MemoKey> {
        let (choice, place) = crate::answer::settle(planned, after_sigtramp);
        let place = place.filter(|_| planned.valid && !self.slots.is_empty())?;
        let flags = [
            choice.adjusted,
            choice.approximate || planned.imprecise,
            planned.pac_stripped,
            place.reattributed,
        ];
        let flags = flags.into_iter().fold(0, |all, flag| all << 1 | u8::from(flag));
        Some(MemoKey { address: planned.address, image: place.image, flags, extent })
    }

    fn slot(&self, key: &MemoKey) -> usize {
        let mixed = (key.address ^ u64::from(key.flags)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 40) as usize & (self.slots.len() - 1)
    }

    fn get(&self, key: &Option<MemoKey>) -> Option<(Range<usize>, u32)> {
        let key = key.as_ref()?;
        let (known, range) = self.slots[self.slot(key)].as_ref()?;
        (known == key).then(|| (range.clone(), key.image))
    }

    fn put(&mut self, key: Option<MemoKey>, range: Range<usize>, image: u32) {
        let Some(key) = key.filter(|key| key.image == image) else { return };
        let slot = self.slot(&key);
        self.slots[slot] = Some((key, range));
    }
}
