//! The end of a session, collected from its events.

use super::event::{SessionEvent, is_vague};
use super::termination::TerminationEvidence;
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
            SessionEnd { at, foreground, memory_limit, ..later }
        } else {
            SessionEnd { at, ..self }
        }
    }

    /// Returns true if the session has no end yet.
    pub(super) fn is_open(&self) -> bool {
        self.at.is_none() && self.reason.is_none()
    }

    pub(super) fn crashed(&self) -> bool {
        self.reason == Some(EndReason::Crashed)
    }

    pub(super) fn memory(&self) -> Option<MemoryEnd> {
        match (self.reason?, self.foreground == Some(true)) {
            (EndReason::OutOfMemory, true) => Some(MemoryEnd::Evident),
            (EndReason::Unexplained, true) => Some(MemoryEnd::Unexplained),
            (EndReason::OutOfMemory | EndReason::Unexplained, false) => Some(MemoryEnd::Background),
            _ => None,
        }
    }
}
