//! How fast stored reports are asked for again, so that live ones have the servers to themselves for the
//! rest of the time.

use crate::worker::Builder;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// How long a job asks for reports before others have their turn.
const TURN: Duration = Duration::from_secs(60);

/// A job's turn. When it is over the job is given back and goes on later, with a lease and a limit of its
/// own: another tenant's waits for one turn of each that a tenant may have open, and a builder that ends
/// for the page that was begun.
pub(crate) struct Turn<'b> {
    begun: Instant,
    stopping: &'b CancellationToken,
}

impl Turn<'_> {
    /// Begins now, and ends early where the builder does.
    pub(crate) fn of(builder: &Builder) -> Turn<'_> {
        Turn { begun: Instant::now(), stopping: builder.host.shutdown.token() }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.stopping.is_cancelled() || self.begun.elapsed() >= TURN
    }
}

/// So many reports a second, of all jobs of one process that share it; they come in the order in which
/// they wait.
pub(crate) struct Pace {
    each: Duration,
    /// When what was asked for so far has had its time.
    until: Mutex<Instant>,
}

impl Pace {
    /// `per_second` is more than 0.
    pub(crate) fn new(per_second: u32) -> Pace {
        Pace { each: Duration::from_secs(1) / per_second.max(1), until: Mutex::new(Instant::now()) }
    }

    /// Returns when the reports that were `asked` for just now have had their time, or the builder ends.
    pub(crate) async fn asked(&self, asked: u64, turn: &Turn<'_>) {
        let pause = async {
            let mut until = self.until.lock().await;
            let begin = (*until).max(Instant::now());
            *until = begin + self.each * u32::try_from(asked).unwrap_or(u32::MAX);
            sleep_until(*until).await;
        };
        turn.stopping.run_until_cancelled(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn jobs_share_a_pace_and_nothing_is_saved_up() {
        let pace = Pace::new(200);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let (begun, stopping) = (Instant::now(), CancellationToken::new());
        let turn = Turn { begun, stopping: &stopping };
        let one = async |asked| {
            pace.asked(asked, &turn).await;
            begun.elapsed().as_millis()
        };
        assert_eq!(one(0).await, 0);
        let ended = tokio::join!(one(100), one(1), one(300));
        assert_eq!(ended, (500, 505, 2_005));
        assert!(!turn.is_over());
        stopping.cancel();
        assert_eq!(one(100_000).await, 2_005);
        assert!(turn.is_over());
        let stopping = CancellationToken::new();
        let turn = Turn { begun, stopping: &stopping };
        tokio::time::sleep(TURN).await;
        assert!(turn.is_over());
    }
}
