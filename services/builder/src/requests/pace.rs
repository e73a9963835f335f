//! Limits how fast stored reports are requested again, so that live reports have the servers for the rest of
//! the time.

use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Time for which a job requests reports before other jobs get their turn.
const JOB_TURN_LIMIT: Duration = Duration::from_secs(60);

/// A job's turn. When it ends, the job returns to the queue and continues later, with a new lease and a new
/// limit. So another tenant's job waits at most one turn of each job that a tenant may have open. A builder
/// that stops waits at most for the current page.
pub(crate) struct JobTurn<'b> {
    begun: Instant,
    stopping: &'b CancellationToken,
}

impl JobTurn<'_> {
    /// Begins a turn now; it ends early if the builder stops.
    pub(crate) fn begin(stopping: &CancellationToken) -> JobTurn<'_> {
        JobTurn { begun: Instant::now(), stopping }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.stopping.is_cancelled() || self.begun.elapsed() >= JOB_TURN_LIMIT
    }
}

/// The rate of requests that the jobs of a process share, one page at a time.
pub(crate) struct RequestPace {
    each: Duration,
    /// Time at which the requests so far are within the rate.
    until: Mutex<Instant>,
}

impl RequestPace {
    /// Creates a limit; `per_second` must be more than 0.
    pub(crate) fn new(per_second: u32) -> RequestPace {
        RequestPace { each: Duration::from_secs(1) / per_second.max(1), until: Mutex::new(Instant::now()) }
    }

    /// Waits until the requests so far are within the rate, or until the builder stops.
    pub(crate) async fn wait_for_rate(&self, turn: &JobTurn<'_>) {
        let until = *self.until.lock();
        turn.stopping.run_until_cancelled(sleep_until(until)).await;
    }

    /// Records that more reports were requested.
    pub(crate) fn record_requested(&self, reports: u64) {
        let mut until = self.until.lock();
        *until = (*until).max(Instant::now()) + self.each * u32::try_from(reports).unwrap_or(u32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn jobs_share_a_pace_page_by_page_and_save_nothing_up() {
        let pace = RequestPace::new(200);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let (begun, stopping) = (Instant::now(), CancellationToken::new());
        let turn = JobTurn { begun, stopping: &stopping };
        let waited = async || {
            pace.wait_for_rate(&turn).await;
            begun.elapsed().as_millis()
        };
        assert_eq!(waited().await, 0);
        pace.record_requested(100);
        let other = async || {
            let begin = waited().await;
            pace.record_requested(300);
            begin
        };
        assert_eq!(tokio::join!(other(), other()), (500, 500), "a page of each");
        assert_eq!(waited().await, 3_500);
        pace.record_requested(1);
        assert_eq!(waited().await, 3_505);
        assert!(!turn.is_over());
        pace.record_requested(100_000);
        stopping.cancel();
        assert_eq!(waited().await, 3_505);
        assert!(turn.is_over());
        let stopping = CancellationToken::new();
        let turn = JobTurn { begun, stopping: &stopping };
        tokio::time::sleep(JOB_TURN_LIMIT).await;
        assert!(turn.is_over());
    }
}
