//! Facts of the sections that symbolication does not need, looked up on demand.

use crate::json::Value;
use crate::report::{Backtrace, BacktraceOrigin, ErrorKind, Report, ReportPart};

/// One part's sections, with those of the other parts behind them: an embedded first report may
/// have been cut off before its `system` was written, a minimal one never has any.
pub(crate) struct PartFacts<'r, 'a> {
    pub(crate) report: &'r Report<'a>,
    /// The index of the part itself.
    pub(crate) index: usize,
    order: Vec<usize>,
}

impl<'r, 'a> PartFacts<'r, 'a> {
    pub(crate) fn of(report: &'r Report<'a>, index: usize) -> PartFacts<'r, 'a> {
        PartFacts { report, index, order: nearest_first(report.parts.len(), index) }
    }

    /// The part itself.
    pub(crate) fn part(&self) -> Option<&'r ReportPart<'a>> {
        self.report.parts.get(self.index)
    }

    fn value(&self, at: Option<usize>) -> Option<Value<'a>> {
        Some(Value::at(self.report.input, at?))
    }

    /// A member of `report`.
    pub(crate) fn header(&self, key: &str) -> Option<Value<'a>> {
        let [value] = self.first(|part| [part.sections.report], [key]);
        value
    }

    /// These members of `system`, in which `system_atcrash` goes first.
    pub(crate) fn system<const N: usize>(&self, keys: [&str; N]) -> [Option<Value<'a>>; N] {
        self.first(|part| [part.sections.system_atcrash, part.sections.system], keys)
    }

    /// The first value that is not null of each member of the sections, part by part.
    fn first<const N: usize, const S: usize>(
        &self,
        sections: impl Fn(&ReportPart<'a>) -> [Option<usize>; S],
        keys: [&str; N],
    ) -> [Option<Value<'a>>; N] {
        let mut found = [None; N];
        let parts = self.order.iter().filter_map(|index| self.report.parts.get(*index));
        for section in parts.flat_map(sections).filter_map(|at| self.value(at)) {
            let here = section.members(keys).map(|value| value.filter(|value| !value.is_null()));
            found.iter_mut().zip(here).for_each(|(found, here)| *found = found.or(here));
        }
        found
    }

    /// The part's own `crash`.
    pub(crate) fn crash(&self) -> Option<Value<'a>> {
        self.value(self.part()?.sections.crash)
    }

    /// What lies at a path in the part's own `crash.error`.
    pub(crate) fn error(&self, path: &[&str]) -> Option<Value<'a>> {
        self.value(self.part()?.sections.error)?.path(path).filter(|value| !value.is_null())
    }

    /// The members of the part's own `crash.error` by these names that are not null, in one pass.
    pub(crate) fn error_members<const N: usize>(&self, keys: [&str; N]) -> [Option<Value<'a>>; N] {
        let error = self.part().and_then(|part| self.value(part.sections.error));
        let members = error.map_or([None; N], |error| error.members(keys));
        members.map(|value| value.filter(|value| !value.is_null()))
    }

    /// The part's own `process.last_dealloced_nsexception`.
    pub(crate) fn deallocated(&self) -> Option<Value<'a>> {
        let process = self.value(self.part()?.sections.process)?;
        process.get("last_dealloced_nsexception").filter(|value| value.is_object())
    }

    /// The thread that the part is about: the one that crashed, else `crashed_thread`, else the one
    /// that ran the handler. A report [about memory](Report::memory_event) is about none.
    pub(crate) fn crashed_thread(&self) -> Option<Value<'a>> {
        Some(self.subject()?.0)
    }

    /// [`PartFacts::crashed_thread`] with its position in `crash.threads`, 0 for `crashed_thread`.
    pub(crate) fn subject(&self) -> Option<(Value<'a>, usize)> {
        let (at, position) = self.part()?.sections.subject?;
        if self.report.part_without_crash() == Some(self.index) {
            return None;
        }
        Some((self.value(Some(at))?, position))
    }
}

/// The indexes below `len`, from `index` outwards, of two as near the higher one first.
pub(crate) fn nearest_first(len: usize, index: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by_key(|other| (other.abs_diff(index), *other < index));
    order
}

impl<'a> Report<'a> {
    /// The index of the part that tells of the crash of interest: the first that is not `minimal`
    /// (the crash of a crash handler), else the last.
    #[must_use]
    pub fn main_part(&self) -> usize {
        let part = self.parts.iter().position(|part| !part.is_minimal());
        part.unwrap_or(self.parts.len().saturating_sub(1))
    }

    /// The backtrace of the crash of interest, in [`Report::main_part`]: the exception's for
    /// Objective-C and C++ exceptions where there is one, else that of the thread that crashed,
    /// else `crashed_thread`'s, else that of the thread that ran the handler. `None` for a report
    /// [about memory](Report::memory_event): its threads are not of the run that ended.
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
