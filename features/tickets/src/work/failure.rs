//! Failures of the work on a request, and the pause after each.

use super::TicketWorker;
use crate::store::{self, ClaimedRequest, TicketAction};
use crate::trackers::TrackerFailure;
use time::Duration;
use unslide_api::feature::tenant_turns::retry_pause;
use unslide_api::problem::Problem;
use unslide_model::TenantId;
use unslide_store::{Result, StoreError};

/// The longest pause of a tracker that does not answer: one request finds that it does again.
const TRACKER_BACKOFF_MAX: Duration = Duration::hours(1);
/// How often a request is tried: for about two days.
const ATTEMPTS_LIMIT: i32 = 14;
/// The pause after a failure that a person has to mend. Setting the tracker again ends it.
const PERSON_NEEDED_INTERVAL: Duration = Duration::hours(1);
/// The pause after a limit that names none.
const UNNAMED_LIMIT_INTERVAL: Duration = Duration::minutes(1);

/// The failure of the work on a request. Texts are for the tenant.
#[derive(Debug, thiserror::Error)]
pub enum WorkFailure {
    #[error("{0}")]
    Tracker(#[from] TrackerFailure),
    #[error("{0}")]
    Account(String),
    #[error("TLS cannot be set up")]
    NoTls,
    #[error("the tracker's answers took too long")]
    TooLong,
    #[error("the database fails")]
    Store(#[from] StoreError),
    #[error("the report cannot be read now")]
    Report(Problem),
}

/// The consequence of a failure.
enum Consequence {
    /// The tracker takes no request for a while. It was no attempt.
    Hold(Duration),
    /// A person has to change the tracker's settings. No ticket of it is tried before the pause ends.
    Broken,
    /// This request will never succeed.
    Final,
    /// Another attempt may. The tracker fails or does not answer: others of its requests would only wait for it, too.
    Away,
    /// Another attempt may.
    Retry,
}

impl WorkFailure {
    fn consequence(&self) -> Consequence {
        match self {
            WorkFailure::Tracker(failure) => match failure {
                TrackerFailure::Unauthorized(_) | TrackerFailure::Address(_) => Consequence::Broken,
                TrackerFailure::Limited { pause, .. } => {
                    Consequence::Hold(pause.unwrap_or(UNNAMED_LIMIT_INTERVAL))
                }
                TrackerFailure::Forbidden(_)
                | TrackerFailure::Missing { .. }
                | TrackerFailure::Refused { .. } => Consequence::Final,
                TrackerFailure::Server(500..) | TrackerFailure::Unreachable => Consequence::Away,
                TrackerFailure::Server(_) | TrackerFailure::Unreadable => Consequence::Retry,
            },
            WorkFailure::Account(_) | WorkFailure::NoTls => Consequence::Broken,
            WorkFailure::TooLong => Consequence::Away,
            WorkFailure::Store(_) | WorkFailure::Report(_) => Consequence::Retry,
        }
    }
}

impl TrackerFailure {
    /// Returns true if the tracker has certainly made nothing.
    pub fn is_refusal(&self) -> bool {
        !matches!(self, TrackerFailure::Server(_) | TrackerFailure::Unreachable | TrackerFailure::Unreadable)
    }
}

impl TicketWorker {
    /// Records the failure of a request, and when it is tried again. Returns the outcome for the metric.
    pub(super) async fn record_failure(
        &self,
        tenant: &TenantId,
        request: &ClaimedRequest,
        failure: WorkFailure,
    ) -> Result<&'static str> {
        let text = failure.to_string();
        if let WorkFailure::Store(error) = &failure {
            tracing::warn!(error = %error, %tenant, "work on a ticket failed");
        }
        let mut tx = self.store().tenant(tenant).await?;
        let consequence = failure.consequence();
        let hold = match &consequence {
            Consequence::Hold(pause) => Some(*pause),
            Consequence::Broken => Some(PERSON_NEEDED_INTERVAL),
            Consequence::Away => Some(retry_pause(request.tracker_failures + 1).min(TRACKER_BACKOFF_MAX)),
            Consequence::Final | Consequence::Retry => None,
        };
        if let Some(pause) = hold {
            store::hold_tracker(&mut tx, request, &text, pause).await?;
        }
        let outcome = match consequence {
            Consequence::Hold(pause) => {
                store::postpone_request(&mut tx, request, pause, Some(request.attempts - 1)).await?;
                "postponed"
            }
            Consequence::Broken => {
                store::postpone_request(&mut tx, request, Duration::ZERO, Some(request.attempts - 1)).await?;
                "postponed"
            }
            Consequence::Away | Consequence::Retry if request.attempts < ATTEMPTS_LIMIT => {
                let pause = retry_pause(request.attempts);
                store::postpone_request(&mut tx, request, pause, Some(request.attempts)).await?;
                "postponed"
            }
            Consequence::Away | Consequence::Retry | Consequence::Final => {
                let (group, marker) = (request.group, request.marker);
                match (&failure, request.action) {
                    (
                        WorkFailure::Tracker(TrackerFailure::Missing { .. }),
                        TicketAction::Read | TicketAction::Reopen,
                    ) => store::record_lost(&mut tx, group, marker, &text).await?,
                    _ => store::fail_ticket(&mut tx, group, marker, &text).await?,
                }
                // A ticket goes on to be read: it may be there again.
                store::complete_request(&mut tx, request).await?;
                "failed"
            }
        };
        tx.commit().await?;
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_longest() {
        assert_eq!(retry_pause(1), Duration::seconds(10));
        assert_eq!(retry_pause(3), Duration::seconds(90));
        assert_eq!(retry_pause(ATTEMPTS_LIMIT), Duration::hours(6));
        assert_eq!(retry_pause(0), Duration::seconds(10));
    }
}
