//! The end of a session, collected from its events.

use super::event::{SessionEvent, is_vague};
use super::termination::TerminationEvidence;
use crate::store::memory_exceptions::MemoryExceptionId;
use time::OffsetDateTime;
use unslide_model::ended::EndReason;
use unslide_store::queries::session::SessionJudgement;
use unslide_store::sql::to_row;

/// How and when a session ended, as far as that is known. The first known value stays, except that a crash
/// becomes known late, and that any reason is better than a vague one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SessionEnd {
    pub(super) at: Option<OffsetDateTime>,
    pub(super) reason: Option<EndReason>,
    /// Whether the app was on the screen, as far as the event with the reason knows.
    pub(super) foreground: Option<bool>,
    /// Why that reason is assumed, if the service has judged.
    pub(super) judgement: Option<SessionJudgement>,
    /// Bytes of memory that the app could have, as that event says.
    pub(super) memory_limit: Option<i64>,
    /// The memory exception of MetricKit that is about the end. It replaces the reason, which stays as it was inferred.
    pub(super) memory_exception: Option<MemoryExceptionId>,
}

/// A session that ended for lack of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryEnd {
    /// In the foreground, with evidence.
    Evident,
    /// In the foreground, because nothing else explains it.
    Unexplained,
    /// In the background, or it is not known whether it was on the screen.
    Background,
}

impl SessionEnd {
    pub(super) fn from_event(event: &SessionEvent, learned_limit: Option<u64>) -> SessionEnd {
        let judged = event.judge(learned_limit);
        let limit = event.termination.as_ref().and_then(TerminationEvidence::memory_limit);
        SessionEnd {
            at: event.end(),
            reason: judged.as_ref().map(|ended| ended.kind).or(event.end_reason),
            foreground: event.foreground,
            judgement: judged.as_ref().map(SessionJudgement::from),
            memory_limit: limit.map(to_row),
            memory_exception: None,
        }
    }

    pub(super) fn completed(self, later: SessionEnd) -> SessionEnd {
        let at = self.at.or(later.at);
        let replaced = match (self.reason, later.reason) {
            (_, None) | (Some(EndReason::Crashed), _) => false,
            (None, Some(_)) | (_, Some(EndReason::Crashed)) => true,
            (Some(known), Some(later)) => is_vague(known) && !is_vague(later),
        };
        if replaced {
            let foreground = later.foreground.or(self.foreground);
            let memory_limit = later.memory_limit.or(self.memory_limit);
            let memory_exception = self.memory_exception;
            SessionEnd { at, foreground, memory_limit, memory_exception, ..later }
        } else {
            SessionEnd { at, ..self }
        }
    }

    /// Returns true if the session has no end yet.
    pub(super) fn is_open(&self) -> bool {
        self.at.is_none() && self.reason.is_none()
    }

    /// Returns the reason that counts.
    fn counted_reason(&self) -> Option<EndReason> {
        self.memory_exception.map(|_| EndReason::OutOfMemory).or(self.reason)
    }

    /// Returns true if a memory exception may be about the session: its end is known, and the app did not exit.
    pub(super) fn may_be_memory_exception(&self) -> bool {
        self.reason.is_some_and(|reason| reason != EndReason::Exited) || self.memory_exception.is_some()
    }

    pub(super) fn crashed(&self) -> bool {
        self.counted_reason() == Some(EndReason::Crashed)
    }

    pub(super) fn memory(&self) -> Option<MemoryEnd> {
        match (self.counted_reason()?, self.foreground == Some(true)) {
            (EndReason::OutOfMemory, true) => Some(MemoryEnd::Evident),
            (EndReason::Unexplained, true) => Some(MemoryEnd::Unexplained),
            (EndReason::OutOfMemory | EndReason::Unexplained, false) => Some(MemoryEnd::Background),
            _ => None,
        }
    }
}
