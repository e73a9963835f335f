//! Checks that the topics have the settings that the service needs, from its start until they do. Other
//! services don't start without them. The api still answers uploads and queries, and refuses records if a topic
//! that it writes is wrong: they would be lost there.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use unslide_stream::{Settings, StreamError, admin};

/// Interval between two checks while something is wrong.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Result of the last check. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TopicsCheck(Arc<Mutex<Found>>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    /// The topics could not be checked.
    Unknown(String),
    /// One that the api only reads is missing or wrong.
    WrongToRead(String),
    /// One that the api writes is missing, or has settings that would lose records.
    Wrong(String),
    Good,
}

impl TopicsCheck {
    /// Starts to check, until `stop` or until all topics are good.
    #[must_use]
    pub fn start(settings: &Settings, stop: CancellationToken) -> TopicsCheck {
        let check = TopicsCheck(Arc::new(Mutex::new(Found::Unknown(
            "the topics have not been looked at yet".to_owned(),
        ))));
        let noting = check.clone();
        // An error in the topics of one tenant must not stop the service for the others.
        let settings = Settings { tenant_topics: false, ..settings.clone() };
        tokio::spawn(async move {
            loop {
                let found = tokio::select! {
                    () = stop.cancelled() => return,
                    found = check_topics(&settings) => found,
                };
                noting.record_outcome(found.clone());
                if found == Found::Good {
                    return;
                }
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(CHECK_INTERVAL) => {}
                }
            }
        });
        check
    }

    fn record_outcome(&self, found: Found) {
        let mut last = self.0.lock();
        if let Found::Unknown(problem) | Found::WrongToRead(problem) | Found::Wrong(problem) = &found
            && *last != found
        {
            tracing::warn!(error = problem, "the topics are not as the service needs them");
        }
        *last = found;
    }

    /// Returns the result of the last check.
    ///
    /// # Errors
    /// A sentence for each problem, or the reason why the state is not known.
    pub fn last_outcome(&self) -> Result<(), String> {
        match &*self.0.lock() {
            Found::Good => Ok(()),
            Found::Unknown(problem) | Found::WrongToRead(problem) | Found::Wrong(problem) => {
                Err(problem.clone())
            }
        }
    }

    /// Returns true if records that are sent now could be lost.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        matches!(&*self.0.lock(), Found::Wrong(_))
    }
}

async fn check_topics(settings: &Settings) -> Found {
    let problem = match admin::verify_topics(settings).await {
        Ok(()) => return Found::Good,
        Err(error @ StreamError::Topics(_)) => error.to_string(),
        Err(error) => return Found::Unknown(error.to_string()),
    };
    let names = settings.topic_names();
    let of_others = [
        &names.output,
        &names.retry_1s,
        &names.retry_10s,
        &names.retry_1m,
        &names.retry_10m,
        &names.overflow,
        &names.dead_letter,
        &names.ledger,
        &names.symbol_events,
        &names.tenant_config,
        &names.used_symbols,
    ];
    // A topic that only other services write does not keep apps from sending while an update goes on.
    match admin::verify_topics_where(settings, |topic| !of_others.iter().any(|name| *name == topic)).await {
        Ok(()) => Found::WrongToRead(problem),
        Err(StreamError::Topics(_)) => Found::Wrong(problem),
        Err(error) => Found::Unknown(error.to_string()),
    }
}
