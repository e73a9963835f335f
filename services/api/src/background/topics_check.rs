//! Whether the topics are as the service needs them: looked at from its start on, until they are.
//! Other services don't start without; this one has uploads and queries to answer meanwhile, and refuses what would go to
//! a wrong topic and be lost there.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use unslide_stream::{Settings, StreamError, admin};

/// Between two looks while something is wrong.
const EVERY: Duration = Duration::from_secs(5);

/// What the last look found. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TopicsCheck(Arc<Mutex<Found>>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    /// They could not be looked at.
    Unknown(String),
    /// They are missing, or set so that records would be lost.
    Wrong(String),
    Good,
}

impl TopicsCheck {
    /// Begins to look, until `stop` or all is well.
    #[must_use]
    pub fn start(settings: &Settings, stop: CancellationToken) -> TopicsCheck {
        let check = TopicsCheck(Arc::new(Mutex::new(Found::Unknown(
            "the topics have not been looked at yet".to_owned(),
        ))));
        let noting = check.clone();
        // What is wrong with the topics of one tenant must not take the service from the others.
        let settings = Settings { tenant_topics: false, ..settings.clone() };
        tokio::spawn(async move {
            loop {
                let found = tokio::select! {
                    () = stop.cancelled() => return,
                    verified = admin::verify(&settings) => match verified {
                        Ok(()) => Found::Good,
                        Err(error @ StreamError::Topics(_)) => Found::Wrong(error.to_string()),
                        Err(error) => Found::Unknown(error.to_string()),
                    },
                };
                noting.note(found.clone());
                if found == Found::Good {
                    return;
                }
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(EVERY) => {}
                }
            }
        });
        check
    }

    fn note(&self, found: Found) {
        let mut last = self.0.lock();
        if let Found::Unknown(problem) | Found::Wrong(problem) = &found
            && *last != found
        {
            tracing::warn!(error = problem, "the topics are not as the service needs them");
        }
        *last = found;
    }

    /// What is wrong with them.
    ///
    /// # Errors
    /// A sentence for each problem, or why that is not known.
    pub fn outcome(&self) -> Result<(), String> {
        match &*self.0.lock() {
            Found::Good => Ok(()),
            Found::Unknown(problem) | Found::Wrong(problem) => Err(problem.clone()),
        }
    }

    /// True if what is sent to the topics now could be lost.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        matches!(&*self.0.lock(), Found::Wrong(_))
    }
}
