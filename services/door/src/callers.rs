//! The callers that the door remembers: which credential is of which tenant.

use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderName, Method};
use lru::LruCache;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use unslide_model::TenantId;

/// How long an answer counts.
const ANSWER_LIFETIME: Duration = Duration::from_secs(60);
/// Callers that are remembered, of about 200 bytes each.
const CALLERS_LIMIT: NonZeroUsize = NonZeroUsize::new(100_000).expect("more than 0");
/// The beginning of API keys. Their tenant is the same for every path.
const API_KEY_PREFIX: &str = "unslide_";

/// The hash of a request's credential. It opens nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallerHash([u8; 32]);

/// The credential of a request.
#[derive(Clone, Copy, Debug)]
pub struct Credential {
    pub hash: CallerHash,
    /// True for an API key: nothing else of the request says whose it is.
    pub is_api_key: bool,
    /// The browser, if the request has a cookie.
    pub browser: Option<CallerHash>,
}

impl Credential {
    /// Reads the credential of a request. Anything but an API key counts for one path: public keys and links are in it, and a
    /// browser may have sessions of one tenant and a link of another.
    pub fn from_request(method: &Method, path_and_query: &str, headers: &HeaderMap) -> Credential {
        let browser = headers
            .contains_key(COOKIE)
            .then(|| hash_parts("browser", headers.get_all(COOKIE).iter().map(http::HeaderValue::as_bytes)));
        let mut authorizations = headers.get_all(AUTHORIZATION).iter();
        if let (Some(value), None) = (authorizations.next(), authorizations.next())
            && is_api_key(value.to_str().unwrap_or_default())
        {
            let hash = hash_parts("key", [value.as_bytes()]);
            return Credential { hash, is_api_key: true, browser };
        }
        let names_caller = |name: &HeaderName| {
            *name == COOKIE || ["auth", "key", "token"].iter().any(|word| name.as_str().contains(word))
        };
        let of_headers = headers.iter().filter(|(name, _)| names_caller(name));
        let of_headers = of_headers.flat_map(|(name, value)| [name.as_str().as_bytes(), value.as_bytes()]);
        let request = [method.as_str().as_bytes(), path_and_query.as_bytes()].into_iter().chain(of_headers);
        Credential { hash: hash_parts("request", request), is_api_key: false, browser }
    }
}

/// Returns true for `Bearer unslide_…`.
fn is_api_key(authorization: &str) -> bool {
    let bearer = authorization.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    bearer.is_some_and(|(_, key)| key.trim().starts_with(API_KEY_PREFIX))
}

fn hash_parts<'p>(kind: &str, parts: impl IntoIterator<Item = &'p [u8]>) -> CallerHash {
    let mut hash = Sha256::new();
    hash.update(kind);
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    CallerHash(hash.finalize().into())
}

/// The answer of the cells about a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownCaller {
    /// A tenant, and the cell that named it: it counts if the directory does not have the tenant.
    Tenant { tenant: TenantId, named_by: Arc<str> },
    /// The resource is the same for anyone.
    Anyone,
}

/// The answers that the door remembers.
#[derive(Debug)]
pub struct CallerCache(Mutex<LruCache<CallerHash, (KnownCaller, Instant)>>);

impl Default for CallerCache {
    fn default() -> CallerCache {
        CallerCache(Mutex::new(LruCache::new(CALLERS_LIMIT)))
    }
}

impl CallerCache {
    /// Returns the answer about a credential, if it still counts.
    pub fn find(&self, hash: CallerHash, now: Instant) -> Option<KnownCaller> {
        let mut callers = self.0.lock();
        let (caller, at) = callers.get(&hash)?;
        (now.saturating_duration_since(*at) < ANSWER_LIFETIME).then(|| caller.clone())
    }

    /// Returns the last answer about a credential, however old it is: for an outage.
    pub fn find_old(&self, hash: CallerHash) -> Option<KnownCaller> {
        self.0.lock().get(&hash).map(|(caller, _)| caller.clone())
    }

    /// Remembers an answer.
    pub fn insert(&self, hash: CallerHash, caller: KnownCaller, now: Instant) {
        self.0.lock().put(hash, (caller, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn credential(path: &str, headers: &[(&'static str, &'static str)]) -> Credential {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        Credential::from_request(&Method::GET, path, &map)
    }

    #[test]
    fn an_api_key_counts_for_every_path_and_others_for_one() {
        let key = ("authorization", "Bearer unslide_a_b");
        let (one, other) = (credential("/v1/reports", &[key]), credential("/mcp", &[key]));
        assert!(one.is_api_key && one.hash == other.hash);
        assert_ne!(one.hash, credential("/v1/reports", &[("authorization", "Bearer unslide_a_c")]).hash);
        // Two keys in one request are none.
        let two = [key, ("authorization", "Bearer unslide_c_d")];
        assert!(!credential("/v1/reports", &two).is_api_key);
        let cookie = ("cookie", "__Host-unslide_console=aa");
        let (page, link) = (credential("/console", &[cookie]), credential("/console/mute/x", &[cookie]));
        assert!(!page.is_api_key && page.hash != link.hash);
        assert!(page.browser.is_some() && page.browser == link.browser);
        for (name, value) in
            [("dd-api-key", "unslide_a_b"), ("authorization", "Basic dTpw"), ("x-auth-token", "a")]
        {
            let named = credential("/api/v2/srcmap", &[(name, value)]);
            assert_ne!(named.hash, credential("/api/v2/srcmap", &[]).hash, "{name}");
        }
        let agent = credential("/i/pub_a", &[("user-agent", "one")]);
        assert_eq!(agent.hash, credential("/i/pub_a", &[("user-agent", "other")]).hash);
        assert_ne!(agent.hash, credential("/i/pub_b", &[]).hash);
    }

    #[test]
    fn an_answer_counts_for_a_minute_and_in_an_outage() {
        let (callers, now) = (CallerCache::default(), Instant::now());
        let hash = credential("/i/pub_a", &[]).hash;
        assert_eq!(callers.find(hash, now), None);
        callers.insert(hash, KnownCaller::Anyone, now);
        assert_eq!(callers.find(hash, now + Duration::from_secs(59)), Some(KnownCaller::Anyone));
        assert_eq!(callers.find(hash, now + Duration::from_secs(60)), None);
        assert_eq!(callers.find_old(hash), Some(KnownCaller::Anyone));
    }
}
