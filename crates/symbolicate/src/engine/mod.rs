//! One pass over a report: answers every frame and splices the answers in.

mod image_outcome;
mod javascript;
mod memory;
mod output;
mod output_size;

use crate::analysis::{self, Analysis};
use crate::answer::{DeviceNames, FrameAnswer, Judged, answer_frame, check_symbols};
use crate::derived::ImageDerivative;
use crate::grouping::{self, Grouping, GroupingRules};
use crate::plan::{Plan, SymbolNeed};
use crate::status::{FrameStatus, FrameTally, ImageStatus, ReportStatus};
use crate::symbols::ImageSymbols;
use crate::symcache;
use memory::{AnswerKey, AnswerMemory, with_memory};
pub use output::{ENGINE, OUTPUT_VERSION};
use output::{FrameDetail, ReportFacts};
pub use output_size::most_bytes;
use output_size::{AlwaysWritten, blank_frames, least_bytes, own_bytes};
use std::collections::HashSet;
use std::ops::Range;
use time::OffsetDateTime;
use unslide_model::{DebugId, RelativeAddress, TenantId};
use unslide_report::{Backtrace, BacktraceOrigin, BlankFrame, FrameCounts, FrameSlot, Report, splice};

/// Facts that a caller knows and the report does not. They are written to the output unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'c> {
    /// The tenant that owns the report.
    pub tenant: Option<&'c TenantId>,
    /// The revision that this answer gets, from 1.
    pub revision: Option<u32>,
    /// The revision that this answer replaces.
    pub supersedes: Option<u32>,
    /// When the report is symbolicated; written with milliseconds.
    pub processed_at: Option<OffsetDateTime>,
    /// How much detail is written.
    pub detail: Detail,
    /// The tenant's own grouping rules, if any.
    pub rules: Option<&'c GroupingRules>,
    /// The analyses that may add members to our key, in the order of their members.
    pub analyses: &'c [Analysis],
    /// The derived objects that the analyses may read.
    pub derived: &'c [ImageDerivative<'c>],
    /// The most bytes that the output may have; `None` means [`most_bytes`], which always applies. Once an
    /// answer would exceed it, that frame and all later ones get only their status. The report itself, the
    /// statuses and the list of images are always written.
    pub most_bytes: Option<usize>,
}

/// How much detail is written, for outputs that would be too large otherwise. Each level is smaller than the
/// one before; all but the first set `truncated`.
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
pub struct Enrichment {
    /// The report's bytes with our members spliced in.
    pub bytes: Vec<u8>,
    /// Status of the whole report.
    pub status: ReportStatus,
    /// Number of frames by status.
    pub frames: FrameCounts,
    /// The images that a frame refers to: the app's own first, then those of the operating system.
    pub images: Vec<ImageOutcome>,
    /// The debug ids without symbols or with those of a stripped binary, each once, in the order of `images`.
    pub missing: Vec<DebugId>,
    /// Problems in the input that were tolerated.
    pub warnings: Vec<String>,
    /// The bug that the report is about; `None` if it says neither what happened nor where.
    pub grouping: Option<Grouping>,
    /// True if frames got less than the context's detail because of the output's size.
    pub cut: bool,
}

/// An image that a frame refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageOutcome {
    /// Its debug id, if it has one.
    pub debug_id: Option<DebugId>,
    /// Its file name; empty if it has none.
    pub name: String,
    /// Its architecture, such as `arm64e`, in the report's words or else the object's.
    pub arch: Option<&'static str>,
    /// Status of its symbols.
    pub status: ImageStatus,
    /// Load address − preferred address, in bytes.
    pub slide: Option<i128>,
    /// The generation of the symbols that answered.
    pub generation: Option<u64>,
    /// Frames that refer to it.
    pub frames: u64,
    /// True for an image of the operating system.
    pub system: bool,
    /// True for an image of the app with the symbols of a stripped binary: its status is `found`, and its dSYM is
    /// missing.
    pub stripped: bool,
    /// True if the device and the object disagree on the preferred address, as they do for images in the shared
    /// cache.
    pub vmaddr_differs: bool,
}

impl ImageOutcome {
    /// True if better symbols would name more of the image's frames.
    #[must_use]
    pub fn lacks_symbols(&self) -> bool {
        self.status != ImageStatus::Found || self.stripped
    }
}

/// Number of frames that are prefetched together. The data that they read fits into a CPU's L2 cache.
const PREFETCHED_FRAMES_LIMIT: usize = 512;

/// Counts of the frames that refer to an image.
#[derive(Clone, Copy, Default)]
struct References {
    frames: u64,
    /// True if the image's dSYM would say more about one of them.
    lack_dsym: bool,
}

/// Returns the symbols that a report can use, to be fetched before [`enrich`] is called.
#[must_use]
pub fn list_needs(report: &Report<'_>) -> Vec<SymbolNeed> {
    Plan::new(report).list_needs()
}

/// Answers every frame of a report. `symbols` returns the symbols of a debug id; `None` means
/// [`ImageSymbols::Missing`].
///
/// The same report, symbols and context give the same bytes. Answers from an earlier enrichment are replaced.
#[must_use]
pub fn enrich<'s>(
    report: &Report<'_>,
    symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
    context: &Context<'_>,
) -> Enrichment {
    Plan::new(report).enrich(symbols, context)
}

impl<'a> Plan<'_, 'a> {
    /// Does the same as [`enrich`].
    #[must_use]
    pub fn enrich<'s>(
        &self,
        symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
        context: &Context<'_>,
    ) -> Enrichment {
        let judged: Vec<Judged<'s>> = self.images.iter().map(|image| check_symbols(image, symbols)).collect();
        let warnings: Vec<String> = self.report.warnings.iter().map(ToString::to_string).collect();
        let mut names = DeviceNames::new(self, &judged);
        let no_rules = GroupingRules::default();
        // Grouping is the first to look frames up.
        self.prefetch_lookups(&judged, 0);
        // The budget for names is spent on the names that count before those of other threads.
        let mut grouping =
            grouping::group_report(self, &judged, &mut names, context.rules.unwrap_or(&no_rules));
        let findings = analysis::collect_findings(self, &judged, context.analyses, context.derived);
        if let Some(grouping) = &mut grouping {
            analysis::apply_headline(grouping, self.report, &findings);
        }
        let always = AlwaysWritten { warnings: warnings.len(), findings: &findings };
        let mut splicer = Splicer::new(self, &judged, &always, context);
        let (mut tally, mut referred) =
            with_memory(|memory| self.write_frames(&judged, context, &mut splicer, &mut names, memory));
        let answers = self.answer_javascript(&judged, &mut tally, &mut referred);
        let javascript = self.javascript_part(&answers, &judged, context.detail, &mut splicer);
        let (images, missing) = self.list_outcomes(&judged, &referred);
        let status = tally.report_status();
        let ended = self.report.evaluate_end();
        let facts = ReportFacts {
            ended: ended.as_ref(),
            status,
            counts: &tally.counts,
            images: &images,
            missing: &missing,
            warnings: &warnings,
            grouping: grouping.as_ref(),
            javascript: javascript.as_deref(),
            findings: &findings,
            truncated: splicer.cut || context.detail != Detail::Full,
        };
        let report = self.report;
        splicer.insert(report.insert_at, report.own_member.clone(), report.has_members);
        output::write_report(&mut splicer.out, &facts, context);
        let cut = splicer.cut;
        let (bytes, frames) = (splicer.into_bytes(), tally.counts);
        Enrichment { bytes, status, frames, images, missing, warnings, grouping, cut }
    }

    /// Does the same as [`Plan::enrich`], with the most detail that fits the output limit. If none fits, the
    /// least detail is cut at the limit.
    #[must_use]
    pub fn enrich_within<'s>(
        &self,
        symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
        context: &Context<'_>,
    ) -> Enrichment {
        self.enrich_fitting(symbols, context, |_| true)
    }

    /// Does the same as [`Plan::enrich_within`], but the number of bytes also has to satisfy `fits`, unless the
    /// answer has the least detail.
    #[must_use]
    pub fn enrich_fitting<'s>(
        &self,
        symbols: &dyn Fn(&DebugId) -> Option<&'s ImageSymbols>,
        context: &Context<'_>,
        fits: impl Fn(usize) -> bool,
    ) -> Enrichment {
        for detail in [Detail::Full, Detail::CrashedThreadOnly] {
            let enriched = self.enrich(symbols, &Context { detail, ..*context });
            if !enriched.cut && fits(enriched.bytes.len()) {
                return enriched;
            }
        }
        self.enrich(symbols, &Context { detail: Detail::FunctionsOnly, ..*context })
    }

    /// Answers and writes every frame. Returns how many refer to each image.
    fn write_frames(
        &self,
        judged: &[Judged<'_>],
        context: &Context<'_>,
        splicer: &mut Splicer<'_>,
        names: &mut DeviceNames<'a>,
        memory: &mut AnswerMemory,
    ) -> (FrameTally, Vec<References>) {
        let mut tally = FrameTally::default();
        tally.counts.invalid = self.report.invalid.frames;
        let mut referred = vec![References::default(); self.images.len()];
        let mut planned = self.frames.iter().enumerate();
        for backtrace in &self.report.backtraces {
            let wanted = FrameDetail::for_thread(context.detail, is_of_the_crash(backtrace));
            let mut sigtramp_at = None;
            for slot in backtrace.frame_slots() {
                let frame = match slot {
                    FrameSlot::Frame(frame) => frame,
                    FrameSlot::Blank(blank) => {
                        splicer.write_blank(blank);
                        tally.add_frame(FrameStatus::InvalidAddress, false);
                        continue;
                    }
                };
                let Some((number, planned)) = planned.next() else { break };
                if number > 0 && number % PREFETCHED_FRAMES_LIMIT == 0 {
                    self.prefetch_lookups(judged, number);
                }
                let after_sigtramp = sigtramp_at.is_some_and(|at: usize| at + 1 == frame.index);
                splicer.insert(frame.insert_at, frame.own_member.clone(), frame.has_members);
                let extent = splicer.affordable_detail(wanted);
                let key = AnswerKey::for_frame(self, judged, planned, after_sigtramp, extent);
                if let Some(key) = &key
                    && let Some(answer) = memory.find_answer(key)
                    && (extent == FrameDetail::StatusOnly || splicer.try_reserve(answer.len()))
                {
                    splicer.out.extend_from_slice(answer);
                    referred[key.image].frames += 1;
                    let lacks_dsym = judged[key.image].lacks_dsym(&self.images[key.image]);
                    referred[key.image].lack_dsym |= lacks_dsym;
                    self.count_frame(&mut tally, FrameStatus::Symbolicated, Some(key.image), lacks_dsym);
                    continue;
                }
                let answered = answer_frame(self, judged, frame, planned, after_sigtramp);
                let is_sigtramp = answered.is_sigtramp(frame);
                sigtramp_at = is_sigtramp.then_some(frame.index);
                let mut lacks_dsym = false;
                if let Some(index) = answered.image_index() {
                    lacks_dsym = answered.lacks_dsym(&self.images[index], &judged[index]);
                    referred[index].frames += 1;
                    referred[index].lack_dsym |= lacks_dsym;
                }
                self.count_frame(&mut tally, answered.status, answered.image_index(), lacks_dsym);
                let start = splicer.out.len();
                if !splicer.write_frame(&answered, judged, extent, names) {
                    continue;
                }
                if let Some(key) = key
                    && answered.status == FrameStatus::Symbolicated
                    && !is_sigtramp
                    && !answered.is_hidden()
                {
                    memory.remember_answer(&key, &splicer.out[start..]);
                }
            }
        }
        (tally, referred)
    }

    /// Counts a frame of an image.
    fn count_frame(
        &self,
        tally: &mut FrameTally,
        status: FrameStatus,
        image: Option<usize>,
        lacks_dsym: bool,
    ) {
        let is_system = image.is_some_and(|index| self.images[index].system);
        match lacks_dsym {
            true => tally.add_stripped(status, is_system),
            false => tally.add_frame(status, is_system),
        }
    }

    /// Prefetches the look-ups of [`PREFETCHED_FRAMES_LIMIT`] frames, starting at this one.
    fn prefetch_lookups(&self, judged: &[Judged<'_>], first: usize) {
        let soon = self.frames.iter().skip(first).take(PREFETCHED_FRAMES_LIMIT);
        symcache::prefetch_lookups(soon.filter_map(|planned| {
            let index = planned.place?.image as usize;
            let (image, symbols) = (self.images.get(index)?, judged.get(index)?.symbols?);
            let relative = RelativeAddress(planned.address.wrapping_sub(image.start));
            Some((symbols, planned.choice.looked_up(relative)))
        }));
    }

    fn list_outcomes(
        &self,
        judged: &[Judged<'_>],
        referred: &[References],
    ) -> (Vec<ImageOutcome>, Vec<DebugId>) {
        let mut images: Vec<ImageOutcome> = self
            .images
            .iter()
            .zip(judged)
            .zip(referred)
            .filter(|(_, references)| references.frames > 0)
            .map(|((image, judged), references)| ImageOutcome::new(image, judged, *references))
            .collect();
        images.sort_by_key(|image| image.system);
        let mut seen = HashSet::new();
        let missing = images
            .iter()
            .filter(|image| image.status == ImageStatus::Missing || image.stripped)
            .filter_map(|image| image.debug_id.filter(|id| seen.insert(*id)))
            .collect();
        (images, missing)
    }
}

/// True for the backtraces that a reader looks at first: those of the crashed thread and of the exceptions.
fn is_of_the_crash(backtrace: &Backtrace<'_>) -> bool {
    match backtrace.origin {
        BacktraceOrigin::Thread => backtrace.thread.is_some_and(|thread| thread.crashed),
        BacktraceOrigin::CrashedThread
        | BacktraceOrigin::LastException
        | BacktraceOrigin::DeallocatedException
        | BacktraceOrigin::Profile
        | BacktraceOrigin::CallStackTree
        | BacktraceOrigin::BlockedThread => true,
        BacktraceOrigin::AllocationStack => false,
    }
}

/// The output while it grows. The input is copied up to each place of insertion.
struct Splicer<'i> {
    input: &'i [u8],
    copied: usize,
    out: Vec<u8>,
    /// Bytes that may still be written about frames, on top of their statuses.
    room: usize,
    /// True once an answer did not fit.
    cut: bool,
}

impl<'i> Splicer<'i> {
    fn new(
        plan: &Plan<'_, 'i>,
        judged: &[Judged<'_>],
        always: &AlwaysWritten<'_>,
        context: &Context<'_>,
    ) -> Splicer<'i> {
        // An estimate that is too high in all but unusual reports: growing the output would cost as much as
        // writing a quarter of it.
        const WITH_SYMBOLS: usize = 1024;
        const WITHOUT_SYMBOLS: usize = 320;
        let frames: usize = plan
            .frames
            .iter()
            .map(|frame| frame.place.and_then(|place| judged.get(place.image as usize)))
            .map(
                |image| {
                    if image.is_some_and(|i| i.symbols.is_some()) { WITH_SYMBOLS } else { WITHOUT_SYMBOLS }
                },
            )
            .sum();
        let report = plan.report;
        let input = report.input;
        let blank: usize = blank_frames(report).map(BlankFrame::answer_bytes).sum();
        let capacity = input.len() + frames + blank + plan.images.len() * 256 + 1024;
        let own = input.len() - own_bytes(report);
        let most = most_bytes(own).min(context.most_bytes.unwrap_or(usize::MAX));
        let room = most.saturating_sub(own + least_bytes(plan, always));
        let out = Vec::with_capacity(capacity.min(most.max(own)));
        Splicer { input, copied: 0, out, room, cut: false }
    }

    /// Returns the detail that still fits for a frame.
    fn affordable_detail(&mut self, wanted: FrameDetail) -> FrameDetail {
        if self.room > 0 || wanted == FrameDetail::StatusOnly {
            return wanted;
        }
        self.cut = true;
        FrameDetail::StatusOnly
    }

    /// Reserves space for an answer. Returns false if there is not enough.
    fn try_reserve(&mut self, bytes: usize) -> bool {
        let left = self.room.checked_sub(bytes);
        self.room = left.unwrap_or(self.room);
        left.is_some()
    }

    /// Writes an answer. Returns false if only its status fitted.
    fn write_frame<'a>(
        &mut self,
        answer: &FrameAnswer<'_, 'a>,
        judged: &[Judged<'_>],
        extent: FrameDetail,
        names: &mut DeviceNames<'a>,
    ) -> bool {
        let start = self.out.len();
        output::write_frame(&mut self.out, answer, judged, extent, start.saturating_add(self.room), names);
        if extent == FrameDetail::StatusOnly || self.try_reserve(self.out.len() - start) {
            return true;
        }
        // The frames after it are cut too: trying each would take as long as writing it.
        (self.room, self.cut) = (0, true);
        self.out.truncate(start);
        output::write_frame(&mut self.out, answer, judged, FrameDetail::StatusOnly, start, names);
        false
    }

    /// Writes the answer of a frame without an address, which is its status alone.
    fn write_blank(&mut self, blank: &BlankFrame) {
        self.insert(blank.insert_at(), blank.own_member(), blank.has_members());
        output::invalid_frame(&mut self.out);
    }

    /// Copies the input up to `at` without the bytes in `own`, and writes our key there.
    fn insert(&mut self, at: usize, own: Option<Range<usize>>, has_members: bool) {
        if let Some(own) = own {
            self.copy_until(own.start);
            self.copied = own.end.max(self.copied);
        }
        self.copy_until(at);
        self.out.extend_from_slice(splice::member_key(has_members));
    }

    fn copy_until(&mut self, to: usize) {
        self.out.extend_from_slice(self.input.get(self.copied..to).unwrap_or_default());
        self.copied = to.max(self.copied);
    }

    fn into_bytes(mut self) -> Vec<u8> {
        self.copy_until(self.input.len());
        self.out
    }
}
