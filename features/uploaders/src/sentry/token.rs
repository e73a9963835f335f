//! Tokens that spell a key: the package `formats` writes them.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde::Deserialize;
use unslide_store::keys::{KEY_BYTES, key_text};
use unslide_uploaders_formats::{TOKEN_PREFIX, key_checksum};

/// The most characters of a token that is read.
const MAX_TOKEN_BYTES: usize = 2_048;

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
        match text.strip_prefix(TOKEN_PREFIX) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_uploaders_formats::{SentryTokenClaim, write_sentry_token};

    fn token() -> String {
        let claim = SentryTokenClaim { tenant: "acme", url: "https://crashes.example.com", issued_at: 1 };
        write_sentry_token(&key_text(&[200; KEY_BYTES]), &claim).unwrap()
    }

    #[test]
    fn a_token_is_read_as_its_key_and_its_organisation() {
        let read = SentryToken::from_text(&token());
        assert_eq!(read, SentryToken { key: key_text(&[200; KEY_BYTES]), org: Some("acme".to_owned()) });
    }

    #[test]
    fn a_changed_secret_is_no_key_and_a_changed_claim_names_another_organisation() {
        let text = token();
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
}
