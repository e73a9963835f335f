//! The key of a request from an app.

use crate::Ingest;
use crate::key::KeyText;
use crate::store::{self, CallerKey};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::problem::Problem;

impl Ingest {
    /// Returns the key of a request if it was looked up a short time ago.
    pub fn find_known_key(&self, storage: &Storage, text: &str) -> Option<Arc<CallerKey>> {
        self.keys.find_known(storage.clock.monotonic_micros(), &KeyText::parse(text)?)
    }

    /// Finds the key of a request. A text without a correct checksum costs no look-up.
    ///
    /// # Errors
    /// The database fails, and the key was not known before.
    pub async fn find_key(&self, storage: &Storage, text: &str) -> Result<Option<Arc<CallerKey>>, Problem> {
        let Some(text) = KeyText::parse(text) else { return Ok(None) };
        let look_up = {
            let text = text.clone();
            async move {
                let key = store::find_caller(&storage.store, &text).await?;
                if let Some(key) = &key {
                    record_use(storage, key.clone());
                }
                Ok(key)
            }
        };
        self.keys.find_caller(storage.clock.monotonic_micros(), text, look_up).await
    }
}

/// Records the use of a key without keeping its request waiting.
fn record_use(storage: &Storage, key: CallerKey) {
    let store = storage.store.clone();
    tokio::spawn(async move {
        if let Err(error) = store::record_use(&store, &key).await {
            tracing::debug!(%error, public_key.id = key.id, "the use of a public key was not recorded");
        }
    });
}
