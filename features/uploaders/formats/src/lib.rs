//! Sentry's tokens, `sntrys_<claim>_<secret>`: another spelling of an API key, which also carries the address of the server
//! and the tenant, so that a pipeline needs no other variable.
//!
//! The clients demand a secret of exactly 32 bytes. It is the 30 bytes of the key and two bytes of their SHA-256, so a
//! token is listed, limited, revoked and expires as the key that it spells. The claim is not signed: the secret alone
//! decides.

#![warn(missing_docs)]

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde_json::json;
use sha2::{Digest, Sha256};
use unslide_model::key_digits::decode_digits;

/// The beginning of a token.
pub const TOKEN_PREFIX: &str = "sntrys_";
/// The bytes of a key.
const KEY_BYTES: usize = 30;

/// The claim that a token carries beside its key.
#[derive(Clone, Copy, Debug)]
pub struct SentryTokenClaim<'c> {
    /// The tenant of the key.
    pub tenant: &'c str,
    /// The URL of the API, as the token's users reach it.
    pub url: &'c str,
    /// When the token is issued, in seconds since 1970.
    pub issued_at: i64,
}

/// The reason why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum SentryTokenError {
    /// The text of the key has another form.
    #[error("the key has another form than unslide_…")]
    Key,
    /// The URL has a path, or is none.
    #[error("{0} is not the address of a server, such as https://crashes.example.com")]
    Url(String),
}

/// Writes a key as a token.
///
/// # Errors
/// Returns an error if the key or the URL has another form.
pub fn write_sentry_token(key: &str, claim: &SentryTokenClaim<'_>) -> Result<String, SentryTokenError> {
    let bytes = key_bytes(key).ok_or(SentryTokenError::Key)?;
    let url = claim.url.trim_end_matches('/');
    let origin = url.split_once("://").filter(|(scheme, host)| {
        ["http", "https"].contains(scheme) && !host.is_empty() && !host.contains(['/', '?', '#', '@'])
    });
    if origin.is_none() {
        return Err(SentryTokenError::Url(url.to_owned()));
    }
    let claim = json!({ "iat": claim.issued_at, "url": url, "region_url": url, "org": claim.tenant });
    let secret = [&bytes[..], &key_checksum(&bytes)].concat();
    Ok(format!("{TOKEN_PREFIX}{}_{}", STANDARD.encode(claim.to_string()), STANDARD_NO_PAD.encode(secret)))
}

/// Returns two bytes that a mistyped secret does not have.
#[must_use]
pub fn key_checksum(bytes: &[u8; KEY_BYTES]) -> [u8; 2] {
    let hash: [u8; 32] = Sha256::digest(bytes).into();
    [hash[0], hash[1]]
}

/// Returns the bytes of a key's text, or None if it has another form.
fn key_bytes(text: &str) -> Option<[u8; KEY_BYTES]> {
    let (prefix, secret) = text.strip_prefix("unslide_")?.split_once('_')?;
    [decode_digits(prefix)?, decode_digits(secret)?].concat().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use unslide_model::key_digits::encode_digits;

    fn token(url: &str) -> Result<String, String> {
        let key = format!("unslide_{}_{}", encode_digits(&[200; 5]), encode_digits(&[200; 25]));
        let claim = SentryTokenClaim { tenant: "acme", url, issued_at: 1_764_000_000 };
        write_sentry_token(&key, &claim).map_err(|error| error.to_string())
    }

    #[test]
    fn a_token_spells_its_key_and_carries_the_claim() {
        let text = token("https://crashes.example.com/").unwrap();
        let (_, rest) = text.split_once('_').unwrap();
        let (claim, secret) = rest.split_once('_').unwrap();
        let claim: Value = serde_json::from_slice(&STANDARD.decode(claim).unwrap()).unwrap();
        assert_eq!(claim["url"], "https://crashes.example.com");
        assert_eq!(claim["region_url"], claim["url"]);
        assert_eq!((&claim["org"], &claim["iat"]), (&json!("acme"), &json!(1_764_000_000)));
        assert!(!secret.contains(['_', '-', '=']));
        let bytes = STANDARD_NO_PAD.decode(secret).unwrap();
        assert_eq!((&bytes[..30], bytes.len()), (&[200; 30][..], 32));
    }

    #[test]
    fn a_token_needs_a_key_and_an_origin() {
        for wrong in ["", "crashes.example.com", "https://", "https://a/b", "ftp://a", "https://user@a"] {
            assert!(token(wrong).is_err(), "{wrong}");
        }
        let claim = SentryTokenClaim { tenant: "acme", url: "https://a", issued_at: 1 };
        for wrong in ["", "unslide_a_b", "usp_00000000000000000000000000"] {
            assert!(write_sentry_token(wrong, &claim).is_err(), "{wrong}");
        }
    }
}
