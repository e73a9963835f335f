//! Tokens of the form `sntrys_<claim>_<secret>`: another spelling of a key, which also carries the address of the server
//! and the tenant, so that a pipeline needs no other variable.
//!
//! The clients demand a secret of exactly 32 bytes. It is the 30 bytes of the key and two bytes of their SHA-256, so a
//! token is listed, limited, revoked and expires as the key that it spells. The claim is not signed: the secret alone
//! decides.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::error::Error;
use unslide_feature::{TokenRequest, TokenWriter};
use unslide_store::keys::{KEY_BYTES, key_bytes, key_text};

const PREFIX: &str = "sntrys_";
/// The most characters of a token that is read.
const MAX_TOKEN_BYTES: usize = 2_048;

/// Writes the token of `unslide key create --sentry-token`.
pub const SENTRY_TOKEN: TokenWriter = TokenWriter { write: write_token };

/// The credential of a request.
#[derive(Debug, PartialEq, Eq)]
pub struct SentryToken {
    /// The text of the key.
    pub key: String,
    /// The organisation that the claim names.
    pub org: Option<String>,
}

#[derive(Deserialize)]
struct Claim {
    org: Option<String>,
}

impl SentryToken {
    /// Reads a token. Any text without the prefix is a key; a token that cannot be read is no key.
    pub fn from_text(text: &str) -> SentryToken {
        match text.strip_prefix(PREFIX) {
            Some(rest) if text.len() <= MAX_TOKEN_BYTES => {
                read_token(rest).unwrap_or(SentryToken { key: String::new(), org: None })
            }
            Some(_) => SentryToken { key: String::new(), org: None },
            None => SentryToken { key: text.to_owned(), org: None },
        }
    }
}

fn read_token(text: &str) -> Option<SentryToken> {
    let (claim, secret) = text.rsplit_once('_')?;
    let secret = STANDARD_NO_PAD.decode(secret).ok()?;
    let (bytes, checksum) = secret.split_first_chunk::<KEY_BYTES>()?;
    if checksum != key_checksum(bytes) {
        return None;
    }
    let claim: Claim = serde_json::from_slice(&STANDARD.decode(claim).ok()?).ok()?;
    Some(SentryToken { key: key_text(bytes), org: claim.org })
}

/// Returns two bytes that a mistyped secret does not have.
fn key_checksum(bytes: &[u8; KEY_BYTES]) -> [u8; 2] {
    let hash: [u8; 32] = Sha256::digest(bytes).into();
    [hash[0], hash[1]]
}

fn write_token(request: &TokenRequest<'_>) -> Result<String, Box<dyn Error + Send + Sync>> {
    let bytes = key_bytes(request.key).ok_or("the key has another form")?;
    let url = request.url.trim_end_matches('/');
    let origin = url.split_once("://").filter(|(scheme, host)| {
        ["http", "https"].contains(scheme) && !host.is_empty() && !host.contains(['/', '?', '#', '@'])
    });
    if origin.is_none() {
        return Err(
            format!("{url} is not the address of a server, such as https://crashes.example.com").into()
        );
    }
    let claim =
        json!({ "iat": request.issued_at, "url": url, "region_url": url, "org": request.tenant.as_str() });
    let secret = [&bytes[..], &key_checksum(&bytes)].concat();
    Ok(format!("{PREFIX}{}_{}", STANDARD.encode(claim.to_string()), STANDARD_NO_PAD.encode(secret)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use unslide_model::TenantId;

    fn token(url: &str) -> Result<String, String> {
        let key = key_text(&[200; KEY_BYTES]);
        let tenant = TenantId::new("acme").unwrap();
        let request = TokenRequest { key: &key, tenant: &tenant, url, issued_at: 1_764_000_000 };
        write_token(&request).map_err(|error| error.to_string())
    }

    #[test]
    fn a_token_spells_its_key_and_carries_the_claim() {
        let text = token("https://crashes.example.com/").unwrap();
        let read = SentryToken::from_text(&text);
        assert_eq!(read, SentryToken { key: key_text(&[200; KEY_BYTES]), org: Some("acme".to_owned()) });
        let (_, rest) = text.split_once('_').unwrap();
        let (claim, secret) = rest.split_once('_').unwrap();
        let claim: Value = serde_json::from_slice(&STANDARD.decode(claim).unwrap()).unwrap();
        assert_eq!(claim["url"], "https://crashes.example.com");
        assert_eq!(claim["region_url"], claim["url"]);
        assert_eq!(claim["iat"], 1_764_000_000);
        assert_eq!(STANDARD_NO_PAD.decode(secret).unwrap().len(), 32);
        assert!(!secret.contains(['_', '-', '=']));
    }

    #[test]
    fn a_changed_secret_is_no_key_and_a_changed_claim_names_another_organisation() {
        let text = token("https://crashes.example.com").unwrap();
        let (head, secret) = text.rsplit_once('_').unwrap();
        let mut bytes = STANDARD_NO_PAD.decode(secret).unwrap();
        bytes[3] ^= 1;
        let changed = format!("{head}_{}", STANDARD_NO_PAD.encode(bytes));
        assert_eq!(SentryToken::from_text(&changed).key, "");
        let claim = STANDARD.encode(r#"{"iat":1,"url":null,"org":"other"}"#);
        assert_eq!(SentryToken::from_text(&format!("sntrys_{claim}_{secret}")).org.as_deref(), Some("other"));
        for wrong in [
            "sntrys_",
            "sntrys__",
            "sntrys_e30=_",
            &format!("sntrys_{}_{secret}", "!"),
            &"sntrys_".repeat(400),
        ] {
            assert_eq!(SentryToken::from_text(wrong).key, "", "{wrong}");
        }
    }

    #[test]
    fn any_other_text_is_the_key() {
        assert_eq!(
            SentryToken::from_text("unslide_a_b"),
            SentryToken { key: "unslide_a_b".to_owned(), org: None }
        );
    }

    #[test]
    fn a_token_needs_an_origin() {
        for wrong in ["", "crashes.example.com", "https://", "https://a/b", "ftp://a", "https://user@a"] {
            assert!(token(wrong).is_err(), "{wrong}");
        }
    }
}
