//! The key of a request from an app.

use crate::Ingest;
use crate::key::KeyText;
use crate::store::{self, CallerKey};
use std::sync::Arc;
use unslide_api::feature::Api;
use unslide_api::problem::Problem;

impl Ingest {
    /// Returns the key of a request if it was looked up a short time ago.
    pub fn find_known_key(&self, api: &Api, text: &str) -> Option<Arc<CallerKey>> {
        self.keys.find_known(api.clock.monotonic_micros(), &KeyText::parse(text)?)
    }

    /// Finds the key of a request. A text without a correct checksum costs no look-up.
    ///
    /// # Errors
    /// The database fails, and the key was not known before.
    pub async fn find_key(&self, api: &Api, text: &str) -> Result<Option<Arc<CallerKey>>, Problem> {
        let Some(text) = KeyText::parse(text) else { return Ok(None) };
        let look_up = {
            let text = text.clone();
            async move {
                let key = store::find_caller(&api.store, &text).await?;
                if let Some(key) = &key {
                    record_use(api, key.clone());
                }
                Ok(key)
            }
        };
        self.keys.find_caller(api.clock.monotonic_micros(), text, look_up).await
    }
}

/// Records the use of a key without keeping its request waiting.
fn record_use(api: &Api, key: CallerKey) {
    let store = api.store.clone();
    tokio::spawn(async move {
        if let Err(error) = store::record_use(&store, &key).await {
            tracing::debug!(%error, public_key.id = key.id, "the use of a public key was not recorded");
        }
    });
}
