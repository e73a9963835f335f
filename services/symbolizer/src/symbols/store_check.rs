//! Checks of object storage itself, before reports lose a try for it.

use crate::symbols::breaker::Breaker;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use unslide_artifacts::ObjectStore;
use unslide_model::Clock;

/// Time after which a store that has not answered a check is silent.
const STORE_CHECK_TIMEOUT: Duration = Duration::from_secs(8);

/// Asks the store whether it answers, and opens the breaker if it does not. Callers at the same time share one check.
pub struct StoreCheck {
    store: ObjectStore,
    breaker: Arc<Breaker>,
    clock: Arc<dyn Clock>,
    last: Mutex<Option<LastCheck>>,
}

struct LastCheck {
    begun: Instant,
    ended: Instant,
    works: bool,
}

impl StoreCheck {
    pub fn new(store: ObjectStore, breaker: Arc<Breaker>, clock: Arc<dyn Clock>) -> StoreCheck {
        StoreCheck { store, breaker, clock, last: Mutex::new(None) }
    }

    /// Returns true if the store answers. Otherwise the breaker is open afterwards. `why` describes the failure that
    /// raised the question. Of many failures at once only the first two cause a check.
    pub async fn run(&self, why: &str) -> bool {
        let asked = Instant::now();
        let mut last = self.last.lock().await;
        // A store that fails a check is at fault for all who waited; one that answers is asked again by those who asked
        // after the check began.
        if let Some(LastCheck { begun, ended, works }) = *last
            && if works { begun > asked } else { ended > asked }
        {
            return works;
        }
        let begun = Instant::now();
        let failure = match timeout(STORE_CHECK_TIMEOUT, self.store.check()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.without_key()),
            Err(_) => Some(format!("it did not answer within {} s", STORE_CHECK_TIMEOUT.as_secs())),
        };
        if let Some(failure) = &failure {
            self.breaker.record_outage(self.clock.monotonic_micros(), &format!("{failure} ({why})"));
        }
        let works = failure.is_none();
        *last = Some(LastCheck { begun, ended: Instant::now(), works });
        works
    }
}
