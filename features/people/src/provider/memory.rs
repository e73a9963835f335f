//! What a process remembers of identity providers: documents and keys for minutes, failures for seconds.

use super::{ProviderDocument, ProviderError};
use crate::token::KeySet;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use unslide_model::TenantId;

/// How long the document and keys of a provider are used.
const METADATA_LIFETIME: Duration = Duration::from_secs(300);
/// How long after the keys were read for a token that fitted none they are not read again: strangers can send such tokens.
const KEY_RETRY_INTERVAL: Duration = Duration::from_secs(10);
/// How long a provider that did not answer is not asked again.
const FAILURE_LIFETIME: Duration = Duration::from_secs(10);
/// Providers in memory.
const MAX_PROVIDERS: usize = 1_000;

/// A provider whose document and keys were read.
#[derive(Debug)]
pub struct KnownProvider {
    pub document: ProviderDocument,
    pub keys: KeySet,
    read_at: Instant,
    /// The keys were read for a token that fitted none before.
    keys_are_retried: AtomicBool,
}

impl KnownProvider {
    /// Returns true if the keys may be read again for a token that fits none.
    pub fn may_read_keys_again(&self) -> bool {
        !self.keys_are_retried.load(Ordering::Relaxed) || self.read_at.elapsed() >= KEY_RETRY_INTERVAL
    }

    /// Keeps the keys from being read again for some seconds.
    pub fn forbid_reading_keys(&self) {
        self.keys_are_retried.store(true, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Remembered {
    issuer: String,
    known: Option<Arc<KnownProvider>>,
    failed_at: Option<Instant>,
}

/// The providers of tenants.
#[derive(Default)]
pub struct ProviderMemory(Mutex<BTreeMap<TenantId, Remembered>>);

impl ProviderMemory {
    /// Returns a provider that was read lately.
    ///
    /// # Errors
    /// [`ProviderError::Resting`] if it did not answer a moment ago.
    pub fn find(&self, tenant: &TenantId, issuer: &str) -> Result<Option<Arc<KnownProvider>>, ProviderError> {
        let all = self.0.lock();
        let Some(own) = all.get(tenant).filter(|own| own.issuer == issuer) else { return Ok(None) };
        if let Some(since) = own.failed_at.map(|at| at.elapsed()).filter(|since| *since < FAILURE_LIFETIME) {
            return Err(ProviderError::Resting(since.as_secs()));
        }
        Ok(own.known.clone().filter(|known| known.read_at.elapsed() < METADATA_LIFETIME))
    }

    /// Remembers a provider that was read.
    pub fn keep(
        &self,
        tenant: &TenantId,
        issuer: &str,
        document: ProviderDocument,
        keys: KeySet,
    ) -> Arc<KnownProvider> {
        let known = KnownProvider {
            document,
            keys,
            read_at: Instant::now(),
            keys_are_retried: AtomicBool::default(),
        };
        let known = Arc::new(known);
        self.change(tenant, issuer, |own| {
            own.known = Some(known.clone());
            own.failed_at = None;
        });
        known
    }

    /// Remembers that a provider did not answer.
    pub fn note_failure(&self, tenant: &TenantId, issuer: &str) {
        self.change(tenant, issuer, |own| own.failed_at = Some(Instant::now()));
    }

    fn change(&self, tenant: &TenantId, issuer: &str, change: impl FnOnce(&mut Remembered)) {
        let mut all = self.0.lock();
        if all.len() >= MAX_PROVIDERS && !all.contains_key(tenant) {
            all.clear();
        }
        let own = all.entry(tenant.clone()).or_default();
        if own.issuer != issuer {
            *own = Remembered { issuer: issuer.to_owned(), ..Remembered::default() };
        }
        change(own);
    }

    /// Forgets a tenant's provider.
    pub fn forget(&self, tenant: &TenantId) {
        self.0.lock().remove(tenant);
    }
}
