//! Parts for features that other services call by a hook: its address, its body, and the proof of who sent it.

use crate::feature::Storage;
use crate::feature::intake::{Caller, Chunks, Reservation, assign_caller};
use crate::feature::operation::{Kind, Problem};
use crate::feature::sealing::SealError;
use axum::body::Body;
use bytes::Bytes;
use http::request::Parts;
use ring::hmac::{HMAC_SHA256, Key, verify};
use std::ops::Deref;
use std::str::FromStr;
use subtle::ConstantTimeEq;
use unslide_model::{Secret, TenantId};

/// Reads the last part of the path of a hook: the tenant, a dot, and an id. Returns None for any other text.
#[must_use]
pub fn parse_hook_id<I: FromStr>(text: &str) -> Option<(TenantId, I)> {
    let (tenant, id) = text.rsplit_once('.')?;
    Some((TenantId::new(tenant).ok()?, id.parse().ok()?))
}

/// The body of a hook, in memory that is reserved for it.
#[derive(Debug)]
pub struct HookBody {
    bytes: Bytes,
    _reserved: Reservation,
}

impl Deref for HookBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads the body of a hook for a tenant, at the costs of callers without a key.
///
/// # Errors
/// Returns an error if the tenant's callers use up their share, or the body is larger than the limit, too slow or broken.
pub async fn read_hook_body(
    storage: &Storage,
    tenant: &TenantId,
    parts: &Parts,
    body: Body,
    bytes_limit: u64,
) -> Result<HookBody, Problem> {
    let capacity = &storage.capacity;
    assign_caller(&parts.extensions, capacity, Caller::Public(tenant.clone()))?;
    let mut reserved = capacity.permits.reserve_public_body(tenant)?;
    let chunks = Chunks::new(&parts.headers, body, bytes_limit, capacity.limits.client_pace())?;
    let bytes = chunks.collect_body(&mut reserved).await?;
    Ok(HookBody { bytes, _reserved: reserved })
}

/// Returns the refusal of a hook whose signature or token is missing, too old or wrong: the same for every sender, who is a stranger.
#[must_use]
pub fn refuse_unsigned() -> Problem {
    let detail = "the signature or the token of the hook is missing, too old, or made with another secret";
    Problem::new(Kind::UnsignedHook, detail)
}

/// Returns the secret of a hook, as it was opened. `hook` names its setting in the log, if it was sealed with another key.
///
/// # Errors
/// The same refusal as for a wrong signature: the sender is a stranger until the secret has proved otherwise.
pub fn take_hook_secret(
    opened: Result<Secret, SealError>,
    tenant: &TenantId,
    hook: &str,
) -> Result<Secret, Problem> {
    opened.map_err(|error| {
        tracing::warn!(%tenant, hook, %error, "the secret of a hook cannot be opened");
        refuse_unsigned()
    })
}

/// Returns true if the hexadecimal digits are the HMAC-SHA256 of the bytes. It compares in constant time.
#[must_use]
pub fn has_hex_signature(secret: &Secret, bytes: &[u8], digits: Option<&str>) -> bool {
    let signature = digits.and_then(crate::entropy::read_token);
    signature.is_some_and(|signature| has_signature(secret.reveal().as_bytes(), bytes, &signature))
}

/// Returns true if the signature is the HMAC-SHA256 of the bytes with the key, and the key is not empty. It compares in constant time.
#[must_use]
pub fn has_signature(key: &[u8], bytes: &[u8], signature: &[u8]) -> bool {
    !key.is_empty() && verify(&Key::new(HMAC_SHA256, key), bytes, signature).is_ok()
}

/// Returns true if two secrets are the same and not empty, in constant time.
#[must_use]
pub fn is_same_secret(secret: &Secret, given: Option<&str>) -> bool {
    given.is_some_and(|given| bool::from(secret.reveal().as_bytes().ct_eq(given.as_bytes())))
        && !secret.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_all_bytes_with_the_secret() {
        let secret = Secret::new("It's a Secret to Everybody");
        // The example of GitHub's documentation.
        let digits = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        assert!(has_hex_signature(&secret, b"Hello, World!", Some(digits)));
        assert!(!has_hex_signature(&secret, b"Hello, World", Some(digits)));
        assert!(!has_hex_signature(&Secret::new(""), b"Hello, World!", Some(digits)));
        assert!(!has_hex_signature(&secret, b"Hello, World!", Some("757107")));
        assert!(!has_hex_signature(&secret, b"Hello, World!", None));
        assert!(
            is_same_secret(&secret, Some("It's a Secret to Everybody")) && !is_same_secret(&secret, Some(""))
        );
        assert!(!is_same_secret(&Secret::new(""), Some("")));
    }
}
