//! Facts from the sections that symbolication does not need, looked up on demand.

use crate::json::Value;
use crate::report::{Backtrace, BacktraceOrigin, ErrorKind, Report, ReportPart};

/// The sections of one part, and those of the other parts as fallback. An embedded first report may
/// have been cut off before its `system` was written, and a minimal one never has any.
pub(crate) struct PartFacts<'r, 'a> {
    pub(crate) report: &'r Report<'a>,
    /// The index of the part itself.
    pub(crate) index: usize,
    order: Vec<usize>,
}

impl<'r, 'a> PartFacts<'r, 'a> {
    pub(crate) fn for_part(report: &'r Report<'a>, index: usize) -> PartFacts<'r, 'a> {
        PartFacts { report, index, order: nearest_first(report.parts.len(), index) }
    }

    /// Returns the part itself.
    pub(crate) fn part(&self) -> Option<&'r ReportPart<'a>> {
        self.report.parts.get(self.index)
    }

    fn value_at(&self, at: Option<usize>) -> Option<Value<'a>> {
        Some(Value::from_offset(self.report.input, at?))
    }

    /// Returns a member of `report`.
    pub(crate) fn report_member(&self, key: &str) -> Option<Value<'a>> {
        let [value] = self.find_first_members(|part| [part.sections.report], [key]);
        value
    }

    /// Returns these members of `system`. `system_atcrash` takes precedence.
    pub(crate) fn system_members<const N: usize>(&self, keys: [&str; N]) -> [Option<Value<'a>>; N] {
        self.find_first_members(|part| [part.sections.system_atcrash, part.sections.system], keys)
    }

    /// Returns the objects with the app's own data, that of the crash first.
    pub(crate) fn user_sections(&self) -> impl Iterator<Item = Value<'a>> {
        let parts = self.order.iter().filter_map(|index| self.report.parts.get(*index));
        let sections = parts.flat_map(|part| [part.sections.user_atcrash, part.sections.user]);
        sections.filter_map(|at| self.value_at(at))
    }

    /// Returns the object with the log of the app.
    pub(crate) fn debug_section(&self) -> Option<Value<'a>> {
        let mut parts = self.order.iter().filter_map(|index| self.report.parts.get(*index));
        parts.find_map(|part| self.value_at(part.sections.debug))
    }

    /// Returns the first non-null value of each member in the sections, part by part.
    fn find_first_members<const N: usize, const S: usize>(
        &self,
        sections: impl Fn(&ReportPart<'a>) -> [Option<usize>; S],
        keys: [&str; N],
    ) -> [Option<Value<'a>>; N] {
        let mut found = [None; N];
        let parts = self.order.iter().filter_map(|index| self.report.parts.get(*index));
        for section in parts.flat_map(sections).filter_map(|at| self.value_at(at)) {
            let here = section.find_members(keys).map(|value| value.filter(|value| !value.is_null()));
            found.iter_mut().zip(here).for_each(|(found, here)| *found = found.or(here));
        }
        found
    }

    /// Returns the part's own `crash`.
    pub(crate) fn crash(&self) -> Option<Value<'a>> {
        self.value_at(self.part()?.sections.crash)
    }

    /// Returns the non-null value at a path in the part's own `crash.error`.
    pub(crate) fn error_member(&self, path: &[&str]) -> Option<Value<'a>> {
        self.value_at(self.part()?.sections.error)?.find_path(path).filter(|value| !value.is_null())
    }

    /// Returns these non-null members of the part's own `crash.error`, in one pass.
    pub(crate) fn error_members<const N: usize>(&self, keys: [&str; N]) -> [Option<Value<'a>>; N] {
        let error = self.part().and_then(|part| self.value_at(part.sections.error));
        let members = error.map_or([None; N], |error| error.find_members(keys));
        members.map(|value| value.filter(|value| !value.is_null()))
    }

    /// Returns a member of the part's own `crash`.
    pub(crate) fn crash_member(&self, key: &str) -> Option<Value<'a>> {
        self.value_at(self.part()?.sections.crash)?.get(key)
    }

    /// Returns the snapshot of a process that has ended: `corpse`, or where KSCrash's extension writes it first.
    pub(crate) fn corpse(&self) -> Option<Value<'a>> {
        let own = self.value_at(self.part()?.sections.corpse).filter(|corpse| corpse.is_object());
        own.or_else(|| self.error_member(&["monitor_data", "Corpse", "snapshot"]))
    }

    /// Returns the part's own `process.last_dealloced_nsexception`.
    pub(crate) fn deallocated_exception(&self) -> Option<Value<'a>> {
        let process = self.value_at(self.part()?.sections.process)?;
        process.get("last_dealloced_nsexception").filter(|value| value.is_object())
    }

    /// Returns the main thread of the part's crash: the crashed one, or else `crashed_thread`, or else the one
    /// that ran the handler. Returns `None` for a report [about memory](Report::memory_event).
    pub(crate) fn crashed_thread(&self) -> Option<Value<'a>> {
        Some(self.subject_thread()?.0)
    }

    /// Returns [`PartFacts::crashed_thread`] and its position in `crash.threads`, 0 for `crashed_thread`.
    pub(crate) fn subject_thread(&self) -> Option<(Value<'a>, usize)> {
        let (at, position) = self.part()?.sections.subject?;
        if self.report.part_without_crash() == Some(self.index) {
            return None;
        }
        Some((self.value_at(Some(at))?, position))
    }
}

/// Returns the indexes below `len` by their distance from `index`. At the same distance, the higher one comes first.
pub(crate) fn nearest_first(len: usize, index: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by_key(|other| (other.abs_diff(index), *other < index));
    order
}

impl<'a> Report<'a> {
    /// Returns the index of the part with the main crash: the first that is not `minimal` (a crash of the crash
    /// handler), or else the last.
    #[must_use]
    pub fn main_part(&self) -> usize {
        let part = self.parts.iter().position(|part| !part.is_minimal());
        part.unwrap_or(self.parts.len().saturating_sub(1))
    }

    /// Returns the backtrace of the main crash, in [`Report::main_part`]. For Objective-C and C++ exceptions, this is
    /// the exception's own, if there is one. Otherwise it is that of the crashed thread, or else of
    /// `crashed_thread`, or else of the thread that ran the handler. Returns `None` for a report
    /// [about memory](Report::memory_event): its threads do not belong to the run that ended.
    #[must_use]
    pub fn crashed_backtrace(&self) -> Option<&Backtrace<'a>> {
        let index = self.main_part();
        let raised = self.parts.get(index).is_some_and(|part| {
            matches!(part.error_kind(), ErrorKind::NsException | ErrorKind::CppException)
        });
        let find = |wanted: &dyn Fn(&Backtrace<'a>) -> bool| {
            self.backtraces.iter().find(|b| b.part == index && !b.frames.is_empty() && wanted(b))
        };
        let found = find(&|b| raised && b.origin == BacktraceOrigin::LastException)
            .or_else(|| find(&|b| b.origin == BacktraceOrigin::Thread && b.thread.is_some_and(|t| t.crashed)))
            .or_else(|| find(&|b| b.origin == BacktraceOrigin::CrashedThread))
            .or_else(|| {
                find(&|b| b.origin == BacktraceOrigin::Thread && b.thread.is_some_and(|t| t.current_thread))
            });
        found.filter(|_| self.memory_event().is_none())
    }
}
