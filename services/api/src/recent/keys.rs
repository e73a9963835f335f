//! Cache of keys that were looked up recently.

use super::changes::AccessChanges;
use super::rows::{RecentRow, RecentRows};
use sha2::{Digest, Sha256};
use std::num::NonZeroUsize;
use time::OffsetDateTime;
use unslide_model::{Clock, ContentHash, TenantId};
use unslide_store::access_stamps::AccessEntry;
use unslide_store::keys::{self, Principal};
use unslide_store::{Result, Store};

/// Maximum number of cached keys.
const MOST: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// The principals of keys, by a hash of the key. Cheap to clone.
#[derive(Clone)]
pub struct RecentKeys(pub(super) RecentRows<ContentHash, Principal>);

impl RecentRow for Principal {
    fn entry(&self) -> AccessEntry {
        AccessEntry::Key(self.key_id)
    }

    fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    fn is_over(&self, now: OffsetDateTime) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

impl RecentKeys {
    pub(super) fn new(changes: &AccessChanges) -> RecentKeys {
        RecentKeys(RecentRows::new(changes, MOST))
    }

    /// Returns the principal of a key, or `None` if the text is no valid key.
    ///
    /// # Errors
    /// The database fails and the key was not confirmed within the last 30 s.
    pub async fn authenticate(
        &self,
        store: &Store,
        clock: &dyn Clock,
        key: &str,
    ) -> Result<Option<Principal>> {
        let (store, text) = (store.clone(), key.to_owned());
        let look_up = async move { keys::authenticate(&store, &text).await };
        self.0.get(clock, ContentHash(Sha256::digest(key).into()), look_up).await
    }
}
