//! The end of a tenant's turn: when the next one is due, and what the tenant reads.

use crate::store::SendEnd;
use unslide_api::feature::tenant_turns::grow_pause;
use unslide_api::problem::Problem;
use unslide_model::TenantId;

/// The pause after a turn that failed, which doubles up to the longest.
const FIRST_RETRY_INTERVAL: time::Duration = time::Duration::seconds(5);
const RETRY_INTERVAL_MAX: time::Duration = time::Duration::minutes(5);
/// The pause if a collector wants a longer one.
const WANTED_INTERVAL_MAX: time::Duration = time::Duration::hours(1);

/// What a turn has done so far.
#[derive(Debug, Default)]
pub struct Turn {
    /// True if the collector took records.
    pub has_sent: bool,
}

/// Why a turn ended before the outbox was empty.
#[derive(Debug)]
pub enum SendFailure {
    /// The database, object storage or a limit is in the way.
    Service(Problem),
    /// The collector, or the settings for it.
    Collector { problem: String, pause: Option<time::Duration> },
    /// The turn took too long.
    TimedOut,
    /// The settings were changed or removed, or another process has the turn.
    Superseded,
}

impl<E> From<E> for SendFailure
where
    Problem: From<E>,
{
    fn from(error: E) -> SendFailure {
        SendFailure::Service(Problem::from(error))
    }
}

/// A failure of the collector, or of the settings for it.
pub fn collector_failure(problem: impl Into<String>) -> SendFailure {
    SendFailure::Collector { problem: problem.into(), pause: None }
}

/// Returns the end of a turn after `failures` turns in a row that failed. None if the turn is no longer this process's.
pub fn end_turn(
    ended: Result<(), SendFailure>,
    has_sent: bool,
    failures: i32,
    tenant: &TenantId,
) -> Option<SendEnd> {
    let failures = if has_sent { 0 } else { failures };
    let further = u32::try_from(failures).unwrap_or_default();
    let usual = grow_pause(FIRST_RETRY_INTERVAL, 2, further, RETRY_INTERVAL_MAX);
    let (problem, pause) = match ended {
        Err(SendFailure::Superseded) => return None,
        Ok(()) => return Some(end_without_failure(has_sent)),
        // The rest is sent in the next turn.
        Err(SendFailure::TimedOut) if has_sent => return Some(end_without_failure(has_sent)),
        Err(SendFailure::TimedOut) => {
            ("The collector or this service is too slow: no record was sent in time".to_owned(), usual)
        }
        Err(SendFailure::Collector { problem, pause }) => {
            (problem, pause.map_or(usual, |wanted| wanted.clamp(usual, WANTED_INTERVAL_MAX)))
        }
        Err(SendFailure::Service(problem)) => {
            tracing::warn!(error = %problem, %tenant, "a report could not be read for its export over OTLP");
            ("This service cannot read the reports now".to_owned(), usual)
        }
    };
    Some(SendEnd { pause, has_sent, failures: failures.saturating_add(1), problem: Some(problem) })
}

fn end_without_failure(has_sent: bool) -> SendEnd {
    SendEnd { pause: time::Duration::ZERO, has_sent, failures: 0, problem: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_without_progress_is_followed_by_a_pause_that_grows() {
        let tenant = TenantId::new("acme").unwrap();
        let pause = |ended, has_sent, failures| {
            end_turn(ended, has_sent, failures, &tenant).map(|end| end.pause.whole_seconds())
        };
        assert_eq!(pause(Ok(()), true, 3), Some(0));
        assert_eq!(pause(Err(SendFailure::TimedOut), true, 3), Some(0));
        assert_eq!(pause(Err(SendFailure::TimedOut), false, 0), Some(5));
        assert_eq!(pause(Err(SendFailure::TimedOut), false, 3), Some(40));
        assert_eq!(pause(Err(SendFailure::TimedOut), false, i32::MAX), Some(300));
        assert_eq!(pause(Err(collector_failure("no")), true, 9), Some(5));
        assert_eq!(pause(Err(SendFailure::Superseded), true, 0), None);
        let wanted = |seconds| {
            let pause = Some(time::Duration::seconds(seconds));
            SendFailure::Collector { problem: String::new(), pause }
        };
        assert_eq!(pause(Err(wanted(60)), false, 0), Some(60));
        assert_eq!(pause(Err(wanted(1)), false, 0), Some(5));
        assert_eq!(pause(Err(wanted(100_000)), false, 0), Some(3_600));
        let timed_out = end_turn(Err(SendFailure::TimedOut), false, 1, &tenant).unwrap();
        assert!(timed_out.failures == 2 && timed_out.problem.is_some(), "{timed_out:?}");
    }
}
