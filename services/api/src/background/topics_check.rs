//! Whether the topics are as the service needs them: looked at from its start on, until they are.
//! Other services don't start without; this one has uploads and queries to answer meanwhile.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use unslide_stream::{Settings, admin};

/// Between two looks while something is wrong.
const EVERY: Duration = Duration::from_secs(5);

/// What the last look found. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TopicsCheck(Arc<Mutex<Result<(), String>>>);

impl TopicsCheck {
    /// Begins to look, until `stop` or all is well.
    #[must_use]
    pub fn start(settings: &Settings, stop: CancellationToken) -> TopicsCheck {
        let check =
            TopicsCheck(Arc::new(Mutex::new(Err("the topics have not been looked at yet".to_owned()))));
        let noting = check.clone();
        // What is wrong with the topics of one tenant must not take the service from the others.
        let settings = Settings { tenant_topics: false, ..settings.clone() };
        tokio::spawn(async move {
            loop {
                let found = tokio::select! {
                    () = stop.cancelled() => return,
                    found = admin::verify(&settings) => found.map_err(|error| error.to_string()),
                };
                let over = found.is_ok();
                noting.note(found);
                if over {
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

    fn note(&self, found: Result<(), String>) {
        let mut last = self.0.lock();
        if let Err(problem) = &found
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
        self.0.lock().clone()
    }
}
